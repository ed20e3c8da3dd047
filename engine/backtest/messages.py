"""The calls of a conversation that another program recorded, in OpenAI's or the Vercel AI SDK's messages.

`tool_calls` and `role: "tool"`, or the parts `tool-call` and `tool-result`, also under the older names
`args`, `result` and `isError`. No gate decided in them: a call that has a result was allowed, a denied
one (`execution-denied`) was asked about, and one without a result moves no net, as in a replay (G-62).
A failed result drops what waited for it. Of results that have no call, or another tool's, nothing is
known; of calls that share an id before its result the first counts (G-62).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..frozen import frozen
from ..gate.loose import as_list, as_mapping
from ..net import Input
from ..text import visible
from .recorded import Recorded, RecordedCall, RecordedResult, Then

_ALLOWED = Then()
_DENIED = Then("ask", ran=False, denied=True)
_NO_RESULT = Then(ran=False)
_ERRORS = ("error-text", "error-json", "execution-denied")

Fields: TypeAlias = Mapping[str, object]


class LogError(ValueError):
    """A log that cannot be read: the message says where, what was found and what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a log; `number` is its message's, or its line's where that is one."""

    file: str
    number: int = 1
    counted: bool = False

    def at(self, number: int) -> Place:
        """Its message of that number, counted from 1."""
        return Place(self.file, number, counted=True)

    def error(self, found: str, remedy: str) -> LogError:
        message = f": message {self.number}" if self.counted else ""
        return LogError(visible(f"{self.file}{message}: {found}; {remedy}"))


@frozen
class _Call:
    number: int
    call_id: str
    tool: str
    input: Input


@frozen
class _Result:
    call_id: str
    tool: str | None
    is_error: bool
    denied: bool = False


def items_of(messages: Iterable[tuple[Place, object]]) -> Iterator[Recorded]:
    """The calls and results of one conversation, in order. Raises `LogError`, before the first item."""
    found = [item for place, message in messages for item in _read(message, place)]
    waiting: dict[str, int] = {}
    ended: dict[int, _Result] = {}
    judged: list[int] = []
    for at, item in enumerate(found):
        if isinstance(item, _Call):
            if item.call_id not in waiting:
                waiting[item.call_id] = at
                judged.append(at)
            continue
        call_at = waiting.get(item.call_id)
        called = None if call_at is None else found[call_at]
        if call_at is not None and isinstance(called, _Call) and item.tool in (None, called.tool):
            del waiting[item.call_id]
            ended[call_at] = item
            found[at] = replace(item, tool=called.tool)
            judged.append(at)
    for at in judged:
        item = found[at]
        if isinstance(item, _Call):
            yield RecordedCall(item.number, item.call_id, item.tool, item.input, _then(ended.get(at)))
        elif not item.denied:
            yield RecordedResult(item.call_id, item.tool or "", item.is_error)


def _then(ended: _Result | None) -> Then:
    if ended is None:
        return _NO_RESULT
    return _DENIED if ended.denied else _ALLOWED


def _read(message: object, place: Place) -> Iterator[_Call | _Result]:
    """The calls and results in one message."""
    fields = as_mapping(message)
    role = None if fields is None else fields.get("role")
    if fields is None or not isinstance(role, str):
        raise place.error("is no message", "expected an object with a 'role'")
    if "parts" in fields and "content" not in fields:
        raise place.error("is a user interface's message ('parts')", "log the model's messages instead")
    if fields.get("function_call") is not None:
        raise place.error("has 'function_call', a call without an id", "expected 'tool_calls'")
    content = fields.get("content")
    for part in map(as_mapping, as_list(content)):
        if part is not None:
            yield from _part(part, place)
    if role == "assistant":
        calls = fields.get("tool_calls")
        if calls is not None and not is_list(calls):
            raise place.error("its 'tool_calls' are no list", "expected a list of calls")
        yield from (_openai_call(as_mapping(call) or {}, place) for call in as_list(calls))
    elif role == "tool" and "tool_call_id" in fields:
        call_id, tool = _text(fields, "tool_call_id", place), fields.get("name")
        failed = fields.get("is_error") is True or fields.get("isError") is True
        yield _Result(call_id, tool if isinstance(tool, str) else None, failed)
    elif role == "tool" and not is_list(content):
        remedy = "expected a 'tool_call_id', or parts of type 'tool-result'"
        raise place.error("does not say which call it answers", remedy)


def _part(part: Fields, place: Place) -> Iterator[_Call | _Result]:
    match part.get("type"):
        case "tool-call":
            given = part["input"] if "input" in part else part.get("args")
            tool = _text(part, "toolName", place)
            yield _Call(place.number, _text(part, "toolCallId", place), tool, _input(given))
        case "tool-result":
            output = as_mapping(part["output"] if "output" in part else part.get("result")) or {}
            kind = output.get("type")
            yield _Result(
                _text(part, "toolCallId", place),
                _text(part, "toolName", place),
                kind in _ERRORS or part.get("isError") is True,
                kind == "execution-denied",
            )
        case "tool_use" | "tool_result" as other:
            remedy = "expected OpenAI's 'tool_calls', or 'tool-call' and 'tool-result' parts"
            raise place.error(f"has a part of type '{other}'", remedy)
        case _:
            pass


def _openai_call(call: Fields, place: Place) -> _Call:
    function = as_mapping(call.get("function"))
    if function is None:
        raise place.error("has a tool call without a 'function'", "expected its 'name' and 'arguments'")
    tool = _text(function, "name", place)
    return _Call(place.number, _text(call, "id", place), tool, _input(function.get("arguments")))


def _text(fields: Fields, name: str, place: Place) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise place.error(f"has a call or result without a '{name}'", f"expected '{name}' as a text")
    return value


def is_list(value: object) -> bool:
    """Whether a value is a JSON array."""
    return isinstance(value, list)


def _input(given: object) -> Input:
    """A call's input; what a model wrote in place of an object counts as none given (G-32)."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return {}
    return as_mapping(given) or {}
