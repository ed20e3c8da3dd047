"""Where commands give a password to a program whose option for it has a short name, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .shell_words import QUOTE, ShellWords, quoted
from .spans import Span

_BETWEEN = r"\s(?:[^\n;|&]{0,200}?\s)?"
_QUOTED = r"\s{1,8}(?=\\{0,15}')"
_OPTIONS = {
    "sshpass": re.compile(r"\bsshpass\s{1,8}-p\s{0,8}(?=\S)"),
    "mysql": re.compile(rf"\bmysql(?:dump|admin|sh)?{_BETWEEN}-p(?=\S)"),
    "redis-cli": re.compile(rf"\bredis-cli{_BETWEEN}-a\s{{1,8}}(?=\S)"),
    "login": re.compile(rf"\blogin{_BETWEEN}(?:-p|password)\s{{1,8}}(?=\S)"),
    "password": re.compile(rf"\bpassword{_QUOTED}", re.IGNORECASE),
    "identified": re.compile(rf"\bidentified\s(?:[^\n;]{{0,60}}\s)?by{_QUOTED}", re.IGNORECASE),
}
"""Patterns of what stands before a password, by the word that every text with it has in it."""


def password_options(text: str, lower: str) -> Iterator[Span]:
    """The spans of such passwords in `text`, which is `lower` in small letters."""
    starts = [
        found.end()
        for word, pattern in _OPTIONS.items()
        if word in lower
        for found in pattern.finditer(text)
    ]
    words = ShellWords(text)
    done = 0
    for at in sorted(starts):
        if at < done:
            continue
        quote = QUOTE.match(text, at)
        start, end = quoted(text, quote)[0] if quote is not None and quote[1] else words.word(at)
        if start < end:
            yield start, end
            done = end
