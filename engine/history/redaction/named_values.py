"""Values of objects that have a name in one member and its value in the next, as in manifests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from string import ascii_letters, digits

from .secret_names import TellingNames
from .shell.words import QUOTE, quoted
from .spans import MASK, Span

_NAME = f"{ascii_letters}{digits}_.-"
_LONGEST_NAME = 64
_SAYS_NAME = re.compile(
    r"(?<![A-Za-z])(?:Parameter)?(?:[nN]ame|[kK]ey)\\{0,15}[\"']?\s{0,8}[:=]\s{0,8}\\{0,15}[\"']?\Z"
)
_LONGEST_SAYING = 64
_BLANK = r"(?:\s|\\[nrt])"
_VALUE = re.compile(
    rf"\\{{0,15}}[\"']?{_BLANK}{{0,64}},?{_BLANK}{{0,64}}\\{{0,15}}[\"']?(?:Parameter)?[vV]alue(\\{{0,15}}[\"'])?"
    r"\s{0,8}[:=]\s{0,8}"
)
_NUMBER = re.compile(r"[^\s\"',}\]\\]+")
_LINE = re.compile(r"(?:[^\r\n\"'\\]|\\(?![nr\"']))+")
_PLAIN = re.compile(r"(?:null|true|false)?\s*\Z")

_TOLD_STRING = r'"(?:[^"\\]|\\.)*"'
_CHANGED = re.compile(
    rf" from ({_TOLD_STRING}|[^\"\n][^\n]*?) to ({_TOLD_STRING}|[^\"\n][^\n]*?)"
    r"(?=(?:,| and) (?:changed|removed|added) | before it ran|[.\n]|\Z)"
)


_VARIABLE = re.compile(r"\bvariable\s{1,8}\\{0,15}\"([\w-]{1,64})\\{0,15}\"\s{0,8}\{")
_DEFAULT = re.compile(r"(?:[^{}]|\{[^{}]*\}){0,800}?\bdefault\s{0,40}=\s{0,8}(?=\\{0,15}\")")


def default_values(text: str, names: TellingNames) -> Iterator[Span]:
    """Yield the spans of default strings of Terraform variables with sensitive names."""
    for variable in _VARIABLE.finditer(text):
        if names.telling(variable[1]):
            default = _DEFAULT.match(text, variable.end())
            quote = None if default is None else QUOTE.match(text, default.end())
            if quote is not None:
                yield quoted(text, quote)[0]


def changed_values(text: str, names: TellingNames, ends: Iterable[int]) -> Iterator[Span]:
    """Yield the spans of both values in `changed password from "…" to "…"`, the notice of an edit.

    `ends` are positions at which sensitive names in `text` may end.
    """
    done = 0
    for end in ends:
        match = _CHANGED.match(text, end) if end >= done else None
        start = text.rfind(" ", max(0, end - _LONGEST_NAME), end) + 1
        if match is None or not text.endswith("changed ", 0, start) or not names.telling(text[start:end]):
            continue
        for first, last in (match.span(1), match.span(2)):
            yield (first + 1, last - 1) if text[first] == '"' else (first, last)
        done = match.end()


def named_values(text: str, names: TellingNames, ends: Iterable[int]) -> Iterator[Span]:
    """Yield the spans of values in `text` after sensitive names, some of which end at `ends`.

    Finds `{"name": "DB_PASSWORD", "value": "…"}` as JSON, also within a string of JSON, or as YAML.
    """
    done = 0
    for end in ends:
        value = _VALUE.match(text, end) if end >= done else None
        if value is None:
            continue
        before = text[max(done, end - _LONGEST_NAME) : end]
        name = before[len(before.rstrip(_NAME)) :]
        start = end - len(name)
        name_key = _SAYS_NAME.search(text, max(done, start - _LONGEST_SAYING), start)
        if name_key is None or not names.telling(name):
            continue
        quote = QUOTE.match(text, value.end())
        if quote is not None:
            span = quoted(text, quote)[0]
        else:
            match = (_NUMBER if value[1] else _LINE).match(text, value.end())
            span = (value.end(), value.end()) if match is None else match.span()
        if _PLAIN.match(text, *span) is None and not text.startswith(MASK, span[0]):
            yield span
            done = span[1]
