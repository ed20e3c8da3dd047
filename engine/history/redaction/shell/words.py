"""Ends of shell words and of quoted strings, in texts that may have both within other strings."""

from __future__ import annotations

import re

from ..spans import MASK, Span

QUOTE = re.compile(r"(\\{0,15})([\"'])")
# Only ASCII whitespace ends a word of a shell.
_BARE = re.compile(r"(?:\\.|[^\s\"'&;|\\])+", re.DOTALL | re.ASCII)
_WORD_ENDS = re.compile(r"/?[<>()]")
_WORD_GOES_ON = re.compile(r"[^\s,;:&|)}\]<>/\\]", re.ASCII)
_TURN = re.compile(r"\\.|[\"'\n]", re.DOTALL)
_LONGEST_PART = 4096
"""Maximum distance on a line within which a quote inside a word must be closed."""


class ShellWords:
    """The words of `text`. Call in text order, so that the text is read only once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: str | None = None

    def word(self, start: int) -> Span:
        """Return a word as a shell reads it, without quotes around the whole word.

        It may consist of quoted and unquoted parts, as in `'it'"'"'s'` and `abc"def"`. A quote that
        closes a string around the word ends it.
        """
        text, at = self._text, start
        if text.startswith(MASK, start):
            return start, start + len(MASK)
        bare_word = _BARE.match(text, start)
        if bare_word is not None and text[bare_word.end() : bare_word.end() + 1] not in ("'", '"'):
            return bare_word.span()
        parts, inner, is_after_quote = 0, (start, start), False
        while True:
            quote = QUOTE.match(text, at)
            if quote is not None and not quote[1]:
                end = len(text)
                if parts and not is_after_quote:
                    if self._closes_string(quote):
                        if _WORD_GOES_ON.match(text, quote.end()) is None:
                            break
                        at = quote.end()
                        is_after_quote = True
                        continue
                    end = _line_end(text, at)
                span, after = quoted(text, quote, end)
                if span[1] == after and parts and end < len(text):
                    break  # never closed on this line, so not part of the word
                if parts and not is_after_quote:
                    self._at = after
                inner = span if not parts else (start, after)
                at, is_after_quote = after, True
            else:
                ends = is_after_quote and _WORD_ENDS.match(text, at) is not None
                bare_word = None if ends else _BARE.match(text, at)
                if bare_word is None:
                    break
                at, is_after_quote = bare_word.end(), False
                inner = start, at
            parts += 1
        return inner

    def _closes_string(self, quote: re.Match[str]) -> bool:
        """Return whether this quote closes a string that was opened before on its line."""
        text, at = self._text, quote.start()
        line = text.rfind("\n", self._at, at) + 1
        if line > self._at:
            self._at, self._open = line, None
        for turn in _TURN.finditer(text, self._at, at):
            character = turn[0]
            if character in ("\n", self._open):
                self._open = None
            elif character in "\"'" and self._open is None and not _apostrophe(text, turn.start()):
                self._open = character
        self._at = max(self._at, at)
        return self._open == quote[2]


def quoted(text: str, opening: re.Match[str], end: int | None = None) -> tuple[Span, int]:
    """Return the span between quotes, and the position after them; up to `end` if they are not closed."""
    level = len(opening[1])
    last = len(text) if end is None else end
    for closing in QUOTE.finditer(text, opening.end(), last):
        if closing[2] == opening[2] and closes(level, len(closing[1])):
            return (opening.end(), closing.end() - 1 - level), closing.end()
    return (opening.end(), last), last


def closes(level: int, backslashes: int) -> bool:
    """Return whether a quote ends a string begun with `level` backslashes: JSON in JSON doubles them."""
    return backslashes % (2 * (level + 1)) == level


def _apostrophe(text: str, at: int) -> bool:
    return (
        text[at] == "'" and 0 < at < len(text) - 1 and text[at - 1].isalpha() and text[at + 1].isalpha()
    )


def _line_end(text: str, at: int) -> int:
    limit = min(len(text), at + _LONGEST_PART)
    newline = text.find("\n", at, limit)
    return limit if newline < 0 else newline
