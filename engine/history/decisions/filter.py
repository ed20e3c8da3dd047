"""Filter of decisions, and the line in which an operator types it.

    deploy rule:require-test-before-deploy verdict:would-block since:24h

All words must occur in tool, net, rule, agent, what was off, or the first 200 characters of the input;
`input:` searches the whole input. Of several values of one key any may match; all different keys must
match. `kind:` and `by:` find changes of settings: `kind:toggle by:ada`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cache
from typing import Literal, TypeAlias, cast, get_args

from ..fold.setting_changes import KINDS, STEPS, Kind, Step
from ..model.records import Record
from ..model.since import moment

CallVerdict: TypeAlias = Literal["allow", "approved", "block", "denied", "would-block", "would-ask"]
"""Decision on a call: `approved` or `denied` by an operator; `would-…` in shadow mode."""

Verdict: TypeAlias = CallVerdict | Step
"""Decision on a call, or progress of a change of settings."""

Result: TypeAlias = Literal["done", "failed", "unknown"]
"""Result of a call that ran; `None` for one that is still running or never ran."""

VERDICTS: tuple[Verdict, ...] = (*get_args(CallVerdict), *STEPS)
RESULTS: tuple[Result, ...] = get_args(Result)
LONGEST = 400

_FAMILIES: dict[str, tuple[Verdict, ...]] = {
    "ask": ("approved", "denied", "would-ask"),
    "shadow": ("would-block", "would-ask"),
    **{verdict: (verdict,) for verdict in VERDICTS},
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "change": KINDS[1:],
    **{kind: (kind,) for kind in KINDS},
}
"""Values of `kind:`; `change` is everything but calls."""

_KEYS = "tool|input|rule|verdict|session|agent|result|kind|by|since|until"


@cache
def _token_of(keys: str) -> re.Pattern[str]:
    """Return the expression for a token of a line with these keys.

    Lower-case letters before a colon are read as a key, even an unknown one; text with capitals only if
    it is a known key: `C:` is a disk.
    """
    return re.compile(
        rf'\s*(?:(?P<key>(?i:{keys})|[a-z]+):)?(?:"(?P<quoted>[^"]*)(?P<end>"?)|(?P<bare>\S*))'
    )


_TOKEN = _token_of(_KEYS)


class DecisionFilter(Record):
    """Criteria for decisions; without any of them all decisions match. Times are aware."""

    words: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    sessions: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    results: tuple[Result, ...] = ()
    kinds: tuple[Kind, ...] = ()
    people: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    @property
    def named(self) -> dict[str, tuple[str, ...]]:
        """Return the names to match, by their keys in the line."""
        return {
            "tool": self.tools,
            "rule": self.rules,
            "session": self.sessions,
            "agent": self.agents,
            "by": self.people,
        }


EVERYTHING = DecisionFilter()


class FilterError(ValueError):
    """A filter that cannot be parsed: `column`, from 1, and a message that says what to write instead."""

    def __init__(self, column: int, text: str) -> None:
        super().__init__(f"column {column}: {text}")
        self.column = column


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a filter's line, or a value with its key; `column` is where it begins, from 1."""

    column: int
    key: str | None
    value: str


def parse_filter(text: str, *, now: datetime, zone: tzinfo | None = None) -> DecisionFilter:
    """Parse a filter's line. `zone` is the operator's; `None` is the machine's.

    Raises `FilterError` for an unknown key or value, an open quotation mark, and a line that is too long.
    """
    if len(text) > LONGEST:
        raise FilterError(LONGEST + 1, f"a filter has at most {LONGEST} characters; leave something out")
    values_by_field: dict[str, list[str]] = {}
    times: dict[str, datetime] = {}
    last = 1
    for token in tokens(text):
        match token.key:
            case None:
                values_by_field.setdefault("words", []).append(token.value)
            case "tool" | "input" | "rule" | "session" | "agent":
                values_by_field.setdefault(f"{token.key}s", []).append(required_value(token))
            case "by":
                values_by_field.setdefault("people", []).append(required_value(token))
            case "kind":
                values_by_field.setdefault("kinds", []).extend(_choice(token, _CHOICES))
            case "verdict":
                values_by_field.setdefault("verdicts", []).extend(_choice(token, _FAMILIES))
            case "result":
                values_by_field.setdefault("results", []).extend(
                    _choice(token, {r: (r,) for r in RESULTS})
                )
            case "since" | "until":
                if token.key in times:
                    raise FilterError(token.column, f"'{token.key}:' is given twice; leave one out")
                times[token.key] = _moment(token, now, zone)
                last = token.column if token.key == "until" else last
            case other:
                raise FilterError(
                    token.column,
                    f"'{other}:' is not a key. Use tool:, input:, rule:, verdict:, session:, "
                    "agent:, result:, kind:, by:, since: or until:, or search for the text itself: "
                    f'"{other}:{token.value}"',
                )
    if len(times) == 2 and times["since"] >= times["until"]:
        start = times["since"].astimezone(zone)
        raise FilterError(
            last, f"the time ends before it begins at {start:%Y-%m-%d %H:%M}; give a later until:"
        )
    lists = {name: tuple(dict.fromkeys(values)) for name, values in values_by_field.items()}
    return DecisionFilter.model_validate({**lists, **times})


def quoted(value: str) -> str:
    """Return a value as it is written in a filter."""
    return f'"{value}"' if not value or re.search(r"\s", value) else value


def time_of(text: str) -> str:
    """Return the parts of a line about the time, as typed."""
    parts: list[str] = []
    at = 0
    while text[at:].strip() and (match := _TOKEN.match(text, at)) is not None:
        if (match["key"] or "").lower() in ("since", "until"):
            parts.append(match[0].strip())
        at = match.end()
    return " ".join(parts)


def tokens(text: str, keys: str = _KEYS) -> Iterator[Token]:
    """Yield the tokens of a filter's line; `keys` are the known keys, with `|` between them.

    Raises `FilterError` for an open quotation mark.
    """
    pattern = _token_of(keys)
    at = 0
    while text[at:].strip():
        match = pattern.match(text, at)
        assert match is not None, "the expression takes anything"
        start = match.start("key") if match["key"] is not None else match.start("bare")
        if match["quoted"] is not None:
            start = match.start("quoted") - 1 if match["key"] is None else start
            if not match["end"]:
                raise FilterError(match.start("quoted"), "this quotation mark is never closed; add one")
        value = match["quoted"] if match["quoted"] is not None else match["bare"]
        if value or match["key"]:
            key = match["key"]
            yield Token(start + 1, None if key is None else key.lower(), value)
        at = match.end()


def required_value(token: Token) -> str:
    """Return the value of a token with a key. Raises `FilterError` if there is none."""
    if not token.value:
        raise FilterError(
            token.column, f"the value after '{token.key}:' is missing, as in {token.key}:NAME"
        )
    return token.value


def _choice(
    token: Token,
    options: dict[str, tuple[Verdict, ...]] | dict[Result, tuple[Result]] | dict[str, tuple[str, ...]],
) -> list[str]:
    choices = cast("dict[str, tuple[str, ...]]", options)
    choice = token.value.lower().replace(" ", "-")
    if choice not in choices:
        problem = (
            f"'{token.value}' is not a {token.key}" if token.value else f"the {token.key} is missing"
        )
        *others, last = choices
        raise FilterError(token.column, f"{problem}; use {', '.join(others)} or {last}")
    return [*choices[choice]]


def _moment(token: Token, now: datetime, zone: tzinfo | None) -> datetime:
    try:
        return moment(token.value, now, zone)
    except ValueError as error:
        raise FilterError(token.column, str(error)) from error
