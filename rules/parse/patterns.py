"""Patterns of maps, searched for in a field: a whole word, or a regular expression (G-42, G-52).

Both become RE2 expressions, so the time to search grows only with the text, whatever the pattern.

A bare word matches where it is a separate word:

- Next to an edge that is a letter, digit or underscore there may be none of these: `rm` is in `sudo rm x`
  and `rm-rf`, not in `format`. For edges within ASCII only ASCII neighbours count, as in the reference.
- A word that begins with `-` or `.` is part of a command line, in which hyphens and dots continue a word:
  `--force` is not in `--force-with-lease`, and `./lint` is neither in `./lint.sh` nor in `../lint`. A dot
  or hyphen at the end of a sentence does not continue a word.
- Any other edge (`$HOME`, `rm;`) is its own boundary.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from importlib import import_module
from typing import Protocol, TypeAlias, cast

from ..errors.problems import cut, quote
from .partial_match import may_begin

SURROGATE = re.compile("[\ud800-\udfff]")
_LETTERS = r"\p{L}\p{M}\p{N}_"


class PatternError(ValueError):
    """An invalid pattern. `offset` and `length` are the position of the faulty part in the word."""

    def __init__(self, message: str, offset: int, length: int, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.length = length
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern; `text` is as written in the rules file, `expression` is the one given to RE2.

    Patterns with equal texts are equal.
    """

    text: str
    search: Callable[[str], bool] = field(compare=False, repr=False)
    expression: str = field(compare=False, repr=False)

    def begins_with(self, start: str) -> bool:
        """Return whether a match may begin in `start`, a command's known first words, and continue after
        it.

        `git push` and `/^git\\s+push/` begin with `git`; `rm` does not, nor does `git push` begin with
        `git commit`. This decides for which maps a command with unknown further words is unclear (G-64).
        """
        return may_begin(self.expression, start)

    def span(self, text: str) -> tuple[int, int] | None:
        """The first match in `text`, from its first character to after its last; `None` without one."""
        try:
            found = _compiled(self.expression).search(text)
        except UnicodeEncodeError:
            return None
        return None if found is None else (found.start(), found.end())


class _Options(Protocol):
    case_sensitive: bool
    log_errors: bool
    max_mem: int


class _Match(Protocol):
    def start(self) -> int: ...

    def end(self) -> int: ...


class _Regex(Protocol):
    def search(self, text: str) -> _Match | None: ...


class _Set(Protocol):
    def Add(self, pattern: str) -> int: ...  # noqa: N802 - the library's own name

    def Compile(self) -> None: ...  # noqa: N802 - the library's own name

    def Match(self, text: str | bytes) -> list[int] | None: ...  # noqa: N802 - the library's own name


class _Sets(Protocol):
    def SearchSet(self, options: _Options) -> _Set: ...  # noqa: N802 - the library's own name


class _RE2(Protocol):
    """The part of google-re2 that is used here; the package has no types of its own."""

    error: type[Exception]
    Set: _Sets

    def Options(self) -> _Options: ...  # noqa: N802 - the library's own name

    def compile(self, pattern: str, options: _Options) -> _Regex: ...


@cache
def re2() -> _RE2:
    return cast(_RE2, import_module("re2"))


@lru_cache(maxsize=256)
def _compiled(expression: str) -> _Regex:
    """Compile the expression of a `Pattern`, which is known to be valid."""
    options = re2().Options()
    options.log_errors = False
    return re2().compile(expression, options)


def compile_word(word: str) -> Pattern:
    """Pattern of a bare word. Raises `PatternError`."""
    _check_unicode(word)
    expression = _whole_word(word)
    return Pattern(word, _searcher(expression, ignore_case=False), expression)


def compile_regex(word: str) -> Pattern:
    """Pattern of `/…/` or `/…/i`. Raises `PatternError`."""
    _check_unicode(word)
    body, _, flags = word[1:].rpartition("/")
    expression = f"(?i:{body})" if flags == "i" else body
    return Pattern(word, _searcher(body, ignore_case=flags == "i"), expression)


def no_pattern(word: str) -> PatternError:
    """Error of `word`, which begins or ends with a slash and is not a regular expression."""
    if word in {"/", "//", "//i"}:
        return PatternError("empty regex pattern", 0, len(word), "write the pattern between the slashes")
    end = word.rfind("/")
    if not word.startswith("/") or end == 0:
        message = f"a regex must be between two slashes, got {quote(word)}"
        return PatternError(message, 0, len(word), f"write /{cut(word.strip('/'))}/ to search for it")
    body, flags = word[1:end], word[end + 1 :]
    message = f"unknown regex flag {quote(flags)}, expected 'i' or nothing after the last '/'"
    flags_of_others = set(flags) <= set("dgimsuvy")
    body = cut(body)
    instead = f"/{body}/ or /{body}/i" if flags_of_others else f"{cut(word)}/ to search for all of it"
    return PatternError(message, end + 1, len(flags), f"write {instead}")


def _check_unicode(word: str) -> None:
    broken = SURROGATE.search(word)
    if broken:
        raise PatternError(
            "the pattern is not valid Unicode", broken.start(), 1, "save the file as UTF-8"
        )


def _regex_error(error: Exception, body: str, options: _Options) -> PatternError:
    text = _message(error)
    kind, _, culprit = text.partition(": ")
    if kind == "unexpected )":
        # For these two errors RE2 names the whole pattern.
        text, culprit = kind, ")"
    elif kind == "trailing \\":
        culprit = "\\"
    offset = _place(body, culprit, text, options) if culprit else -1
    remedy = r"patterns are RE2; a \ before a character takes it literally"
    if re.match(r"\(\?(<?[=!]|>|P$)|\\k|\\[1-9]$", culprit):
        remedy = "patterns are RE2: no look-around, no back-references"
    elif "too large" in text:
        remedy = "write a shorter pattern, or several maps"
    return PatternError(
        f"unsupported or malformed regex: {cut(text) or type(error).__name__}",
        1 + max(0, offset),
        len(culprit) if offset >= 0 else len(body),
        remedy,
    )


def _message(error: Exception) -> str:
    message = error.args[0] if error.args else b""
    return message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)


def _place(body: str, culprit: str, text: str, options: _Options) -> int:
    """Position in `body` of the `culprit` that RE2 names in its error `text`.

    The same characters may be valid earlier in the pattern. RE2 reads from left to right, so the shortest
    prefix that ends in the culprit and is rejected with the same text ends in the right one.
    """
    places = [body.find(culprit)]
    while (position := body.find(culprit, places[-1] + 1)) >= 0 <= places[-1]:
        places.append(position)
    if len(places) == 1:
        return places[0]

    def refused(part: str) -> bool:
        try:
            re2().compile(part, options)
        except re2().error as error:
            return _message(error).startswith(text)
        return False

    if body.endswith(culprit) and not refused(body[:-1]):
        return places[-1]
    at = bisect_left(places, True, key=lambda place: refused(body[: place + len(culprit)]))
    return places[min(at, len(places) - 1)]


def _searcher(expression: str, ignore_case: bool) -> Callable[[str], bool]:
    library = re2()
    options = library.Options()
    options.case_sensitive = not ignore_case
    options.log_errors = False
    try:
        regex = library.compile(expression, options)
    except library.error as error:
        raise _regex_error(error, expression, options) from error

    def search(text: str) -> bool:
        try:
            return regex.search(text) is not None
        except UnicodeEncodeError:
            # A lone surrogate has no UTF-8 form; it must not hide its neighbours.
            return regex.search(SURROGATE.sub("\ufffd", text)) is not None

    return search


def _whole_word(word: str) -> str:
    literal = "".join(c if not c.isascii() or _ascii_word(c) else f"\\{c}" for c in word)
    piece = word[0] in "-."
    return _left_boundary(word[0], piece) + literal + _right(word[-1], piece)


def _left_boundary(edge: str, piece: bool) -> str:
    if piece:
        return r"(?:^|[^\w.\-])"
    if _ascii_word(edge):
        return r"\b"
    return rf"(?:^|[^{_LETTERS}])" if _letter(edge) else ""


def _right(edge: str, piece: bool) -> str:
    if piece:
        return r"(?:$|[^\w.\-]|[.\-]+(?:$|[^\w.\-]))" if _ascii_word(edge) else r"(?:$|[^\w.\-])"
    if _ascii_word(edge):
        return r"\b"
    return rf"(?:$|[^{_LETTERS}])" if _letter(edge) else ""


def _letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


def _ascii_word(character: str) -> bool:
    return character == "_" or (character.isascii() and character.isalnum())


# Search for many patterns in one pass over a text.


_MEMORY = 64 << 20

_Search: TypeAlias = Callable[[str], list[int]]


class PatternSet:
    """Patterns in order, all searched for in one pass, however many there are.

    The set is built on first use. If RE2 runs out of memory for all patterns together, it reports no
    match. To detect this, an empty pattern, which always matches, comes last; each pattern is then
    searched for separately.
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._patterns = tuple(patterns)

    def all(self, text: str) -> list[int]:
        """Positions, in order, of the patterns that match `text`."""
        return self._search(text)

    def first(self, texts: Sequence[str]) -> int | None:
        """Position of the first pattern that matches any of `texts`."""
        search = self._search
        first: int | None = None
        for text in texts:
            found = search(text)
            if found and (first is None or found[0] < first):
                first = found[0]
        return first

    def _one_by_one(self, text: str) -> list[int]:
        return [at for at, pattern in enumerate(self._patterns) if pattern.search(text)]

    @cached_property
    def _search(self) -> _Search:
        library = re2()
        options = library.Options()
        options.log_errors = False
        options.max_mem = _MEMORY
        patterns = library.Set.SearchSet(options)
        try:
            for pattern in self._patterns:
                patterns.Add(pattern.expression)
            patterns.Add("")
            patterns.Compile()
        except library.error:
            return self._one_by_one
        match, one_by_one = patterns.Match, self._one_by_one
        last = len(self._patterns)
        only_last = [last]

        def search(text: str) -> list[int]:
            try:
                found = match(text.encode())
            except UnicodeEncodeError:
                found = match(SURROGATE.sub("\ufffd", text).encode())
            if found == only_last:
                return []
            if found is None or last not in found:
                return one_by_one(text)
            found.sort()
            found.pop()
            return found

        return search
