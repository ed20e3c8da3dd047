"""Items of another program's log: calls, results, and people's answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ...core.frozen import frozen
from ...core.sanitize import visible
from ...gate.wrapping.messages import as_list, as_mapping, field_of, value_text
from ...net.net import Input

Fields: TypeAlias = Mapping[str, object]


class LogError(ValueError):
    """A log that cannot be read; the message says where, what was found and what to do."""


@dataclass(frozen=True, slots=True)
class Location:
    """Location in a log; `number` is the message's number, or the line's if each line is a message."""

    file: str
    number: int = 1
    counted: bool = False

    def at(self, number: int) -> Location:
        """Location of the message with that number, counted from 1."""
        return Location(self.file, number, counted=True)

    def error(self, found: str, remedy: str) -> LogError:
        message = f": message {self.number}" if self.counted else ""
        return LogError(visible(f"{self.file}{message}: {found}; {remedy}"))


@frozen
class LoggedCall:
    """A call; `number` is its message's."""

    number: int
    call_id: str
    tool: str
    input: Input


@frozen
class LoggedResult:
    """Result of a call; `tool` is `None` if the log does not repeat it.

    `output` is what the tool returned, without the wrapper of its format.
    """

    call_id: str
    tool: str | None
    is_error: bool
    denied: bool = False
    output: object = None


@frozen
class LoggedQuestion:
    """A person was asked about a call; `approved` is the answer, `None` without one.

    With an `approval_id` the answer refers to that id instead of the call.
    """

    call_id: str
    approved: bool | None
    approval_id: str | None = None


@frozen
class LoggedText:
    """A text in a user's message."""

    text: str


Logged: TypeAlias = LoggedCall | LoggedResult | LoggedQuestion | LoggedText


def text_of(fields: Fields, name: str, place: Location) -> str:
    """The required text in `fields` under a name. Raises `LogError`."""
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise place.error(f"has a call or result without a '{name}'", f"expected '{name}' as a text")
    return value


def input_of(value: object) -> Input:
    """A call's input; anything but an object counts as an empty input (G-32)."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return as_mapping(value) or {}


def output_text(value: object) -> str | None:
    """Text of a tool's output, with each text part on its own lines; `None` for no output."""
    texts = [field_of(part, "text") for part in as_list(value)]
    parts = [text for text in texts if isinstance(text, str)]
    if parts and len(parts) == len(texts):
        return "\n".join(parts)
    return None if value is None else value_text(value)


def is_list(value: object) -> bool:
    """True if a value is a JSON array."""
    return isinstance(value, list)
