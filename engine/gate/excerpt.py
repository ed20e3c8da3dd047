"""Excerpt of what a call does, for a sentence: one short line without possible secrets.

A reason that quotes a call goes to models, journals and consoles. Masking only covers names and formats
that an operator configured, so the excerpt leaves out every word that may be a password or key, judged by
its position or format.
"""

from __future__ import annotations

import re

from ..core.sanitize import visible_words

MOST = 80
"""Most characters of an excerpt."""
OMITTED = "…"

_TELLING = r"pass|pwd|secret|token|key|auth|cred|bearer|basic|cookie|session|signature|header|user"
_TELLS = re.compile(_TELLING, re.IGNORECASE)
_VALUE_FOLLOWS = re.compile(
    rf"-[pPuUHaKk]|(?i:--?[^\s=]*(?:{_TELLING})[^\s=]*|[^\s=]*(?:{_TELLING})[^\s=]*[:=]"
    r"|[^\s=:]*(?:secret|passw|token|_key|api-?key|bearer)[^\s=:]*|basic|digest)"
)
_ATTACHED = re.compile(r"-[pPuUHaKk](?=[^-])")
_ASSIGNED = re.compile(r"(['\"]?([\w.-]+)[=:])(?![/\\])\S+")
_IN_ADDRESS = re.compile(r"(\w+://)[^\s/@]+@")
_IN_QUERY = re.compile(r"([?&][\w.-]+=)[^&\s]+")
_RANDOM = re.compile(r"(?=[\w+=-]*\d)(?=[\w+=-]*[A-Za-z])[\w+=-]{16,}")


def excerpt(text: str, most: int = MOST) -> str:
    """At most `most` characters of `text` on one line, safe to show, with each possible secret as `…`."""
    shown: list[str] = []
    words = text.split()
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        shown.append(_discreet(word))
        if shown[-1] == word and not _VALUE_FOLLOWS.fullmatch(_bare(word)):
            continue
        # What follows a secret's name is its value, up to the end of the quoted text that the name or
        # value begins.
        quote = _open_quote(word)
        while at < len(words) and (quote or _VALUE_FOLLOWS.fullmatch(_bare(words[at - 1]))):
            quote = _open_quote(words[at]) if quote is None else None if quote in words[at] else quote
            shown.append(OMITTED)
            at += 1
    joined = re.sub(rf"{OMITTED}(?: {OMITTED})+", OMITTED, " ".join(shown))
    return _cut(visible_words(joined), most)


def _bare(word: str) -> str:
    return word.strip("'\",;()")


def _open_quote(word: str) -> str | None:
    """The quote that a word opens and does not close."""
    return next((quote for quote in "'\"" if word.count(quote) % 2), None)


def _discreet(word: str) -> str:
    """A word without the part that may be a secret."""
    if "://" in word:
        word = _IN_ADDRESS.sub(rf"\1{OMITTED}@", word)
        word = _IN_QUERY.sub(rf"\1{OMITTED}", word)
    elif _ATTACHED.match(word):
        word = word[:2] + OMITTED
    elif (assigned := _ASSIGNED.search(word)) and (_TELLS.search(assigned[2]) or assigned[2].isupper()):
        word = word[: assigned.end(1)] + OMITTED
    return _RANDOM.sub(OMITTED, word)


def _cut(text: str, most: int) -> str:
    """`text`, or as many whole words as fit: masking could not recognise part of a secret."""
    if len(text) <= most:
        return text
    whole = text[: most - 1].rpartition(" ")[0] if " " in text[:most] else ""
    return f"{whole.rstrip(OMITTED).rstrip()} {OMITTED}".lstrip() if whole else OMITTED
