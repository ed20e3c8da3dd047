r"""Letters of other scripts that look like ASCII letters, made visible where they could mislead.

A word in one script stays as it is: Cyrillic and Greek are read as such. Look-alike letters are shown as
escapes, like invisible ones, in two cases: within a word that also has Latin letters, and in names and
commands within words that could be taken for ASCII as a whole: `d\u0435ploy`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

_LETTERS = frozenset(
    # Cyrillic
    "авеѕіјкмнорстухүһԁԍԛԝӏѵґьАВЕЅІЈКМНОРСТУХҮҺԌԚԜӀѴЗЬ"
    # Greek
    "αβγεικνορτυχωϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿ"
    # Armenian
    "սօոհցզքյՕՏՍԼ"
    # Cherokee
    "ᎪᏴᏟᎠᎬᏀᎻᎫᏦᏞᎷᏢᎡᏚᎢᏙᎳᎩᏃᎥᎦᏂ"
    # Lisu
    "ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ"
    # Latin
    "ıɑɡʋƽɩʟᴄᴏᴜᴠᴡᴢꜱ"
)
_SIGNS = frozenset("∕⁄／․‐‑−＝－")
"""Characters that look like the punctuation of commands and paths."""
_WORD = re.compile(r"\w+")
_WORD_OR_ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])|\w+")
"""Matches words and earlier escapes, so that an escape is not taken for part of the next word."""
_ASCII_LETTER = re.compile(r"[A-Za-z]")

Escape = Callable[[str], str]


@lru_cache(maxsize=4096)
def is_look_alike(character: str) -> bool:
    """Return whether a character is easily taken for an ASCII letter or digit."""
    if character in _LETTERS:
        return True
    kind, _, plain = unicodedata.decomposition(character).partition("> ")
    if kind not in ("<font", "<wide", "<compat"):
        return False
    return " " not in plain and chr(int(plain, 16)).isascii() and chr(int(plain, 16)).isalnum()


def mark_mixed(text: str, escape: Escape) -> str:
    """`text` with escapes for look-alikes in words that also have ASCII letters."""
    if text.isascii():
        return text
    return _WORD_OR_ESCAPE.sub(
        lambda match: _mark(match[0], escape) if _is_mixed(match[0]) else match[0], text
    )


def mark_words(text: str, escape: Escape) -> str:
    """`mark_mixed` for a name or a command: also in words that could be taken for ASCII as a whole.

    A word stays as it is if it follows, after a blank, a word that could not be taken for ASCII: as in a
    sentence.
    """
    if text.isascii():
        return text
    parts: list[str] = []
    done, sentence = 0, False
    for match in _WORD.finditer(text):
        between, word = text[done : match.start()], match[0]
        sentence = sentence and between != "" and between.isspace() and "\n" not in between
        parts.append("".join(escape(sign) if sign in _SIGNS else sign for sign in between))
        looks = _looks_ascii(word)
        parts.append(_mark(word, escape) if _is_mixed(word) or (looks and not sentence) else word)
        sentence = not word.isascii() and (not looks or sentence)
        done = match.end()
    parts.append("".join(escape(sign) if sign in _SIGNS else sign for sign in text[done:]))
    return "".join(parts)


def _is_mixed(word: str) -> bool:
    return (
        not word.isascii()
        and _ASCII_LETTER.search(word) is not None
        and any(not letter.isascii() and is_look_alike(letter) for letter in word)
    )


def _looks_ascii(word: str) -> bool:
    """Return whether a word of another script could be taken for an ASCII word."""
    return not word.isascii() and all(letter.isascii() or is_look_alike(letter) for letter in word)


def _mark(word: str, escape: Escape) -> str:
    return "".join(
        escape(letter) if not letter.isascii() and is_look_alike(letter) else letter for letter in word
    )
