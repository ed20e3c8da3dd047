"""Finished calls of a conversation, as entries to replay (G-32, G-62).

Two shapes are read: OpenAI's, which litellm speaks (`tool_calls` and `role: "tool"`), and the Vercel AI
SDK's parts (`tool-call` and `tool-result`). Anyone who can write the messages can unlock tools, so they
must come from a store of one's own. Messages of other shapes are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from ...net.net import Input
from ..types import ReplayEntry

# Reading what authors and client libraries hand over: mappings here, objects there.


def as_mapping(thing: object) -> Mapping[str, object] | None:
    """`thing` when it is a mapping."""
    return cast("Mapping[str, object]", thing) if isinstance(thing, Mapping) else None


def as_list(thing: object) -> list[object]:
    """`thing` when it is a list, else nothing to go through."""
    return cast("list[object]", thing) if isinstance(thing, list) else []


def field_of(thing: object, name: str) -> object:
    """An entry of a mapping or an attribute of an object, `None` when there is none."""
    fields = as_mapping(thing)
    return getattr(thing, name, None) if fields is None else fields.get(name)


ResultClassifier: TypeAlias = Callable[[str, object], bool]


@dataclass(frozen=True, slots=True)
class _MessageCall:
    tool: str
    input: Input


@dataclass(frozen=True, slots=True)
class _MessageResult:
    """A result in a message; `tool` is absent where the shape leaves it out."""

    call_id: str
    tool: str | None
    is_error: Callable[[str], bool]


def replay_entries(
    messages: Iterable[object], is_error: ResultClassifier | None = None
) -> list[ReplayEntry]:
    """The calls that came to an end, in the order of their results.

    `is_error` says of a tool's name and value whether it failed; when it raises, it did. It sees a
    value without the wrapper of its message format. A result whose call is unknown, or was to another
    tool, is ignored, a repeated one counts once, and of two calls with one id the first counts.
    """
    messages = list(messages)
    calls: dict[str, _MessageCall] = {}
    for message in messages:
        if field_of(message, "role") == "assistant":
            for call_id, called in _calls(message):
                calls.setdefault(call_id, called)
    settled: set[str] = set()
    entries: list[ReplayEntry] = []
    for message in messages:
        if field_of(message, "role") != "tool":
            continue
        for result in _results(message, is_error):
            called = calls.get(result.call_id)
            if called is None or result.call_id in settled or result.tool not in (None, called.tool):
                continue
            settled.add(result.call_id)
            entries.append(ReplayEntry(called.tool, called.input, result.is_error(called.tool)))
    return entries


def is_error_value(is_error: ResultClassifier | None, tool: str, value: object) -> bool:
    """True if a tool's value is a failure; a classifier that raises says so, too (G-30)."""
    if is_error is None:
        return False
    try:
        return bool(is_error(tool, value))
    except Exception:
        return True


def _calls(message: object) -> Iterator[tuple[str, _MessageCall]]:
    for part in as_list(field_of(message, "content")):
        call_id, tool = field_of(part, "toolCallId"), field_of(part, "toolName")
        if field_of(part, "type") == "tool-call" and isinstance(call_id, str) and isinstance(tool, str):
            yield call_id, _MessageCall(tool, _object(field_of(part, "input")))
    for call in as_list(field_of(message, "tool_calls")):
        function = field_of(call, "function")
        call_id, tool = field_of(call, "id"), field_of(function, "name")
        if isinstance(call_id, str) and isinstance(tool, str):
            yield call_id, _MessageCall(tool, _arguments(field_of(function, "arguments")))


def _object(value: object) -> Input:
    """A call's input; anything but an object counts as none given."""
    return as_mapping(value) or {}


def _arguments(value: object) -> Input:
    return _object(_json(value) if isinstance(value, str) else value)


def _json(text: str) -> object:
    """The value of `text` as JSON; `None` when it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _results(message: object, is_error: ResultClassifier | None) -> Iterator[_MessageResult]:
    content = field_of(message, "content")
    call_id, name = field_of(message, "tool_call_id"), field_of(message, "name")
    if isinstance(call_id, str):
        text = _text(content)
        tool = name if isinstance(name, str) else None
        yield _MessageResult(call_id, tool, lambda tool: is_error_text(is_error, tool, text))
        return
    for part in as_list(content):
        call_id, tool = field_of(part, "toolCallId"), field_of(part, "toolName")
        if field_of(part, "type") == "tool-result" and isinstance(call_id, str) and isinstance(tool, str):
            output = field_of(part, "output")
            yield _MessageResult(
                call_id, tool, lambda tool, output=output: _is_error(is_error, tool, output)
            )


def _text(content: object) -> object:
    """The text of a tool message, whose content may be given in parts."""
    parts = as_list(content)
    return "".join(str(field_of(part, "text") or "") for part in parts) if parts else content


def _is_error(is_error: ResultClassifier | None, tool: str, output: object) -> bool:
    """True if a Vercel output is a failure: the error kinds are, the plain kinds are unwrapped."""
    fields = as_mapping(output) or {}
    kind = fields.get("type")
    if kind in ("error-text", "error-json", "execution-denied"):
        return True
    wrapped = kind in ("text", "json") and "value" in fields
    return is_error_value(is_error, tool, fields["value"] if wrapped else output)


def is_error_text(is_error: ResultClassifier | None, tool: str, text: object) -> bool:
    """True if an OpenAI tool message is a failure; its text may be the tool's value, written as JSON.

    A classifier knows the tool's own values, so it is asked about both; it is a failure when either is,
    or when the classifier can make nothing of any.
    """
    if is_error is None:
        return False
    values = [text]
    parsed = _json(text) if isinstance(text, str) else None
    if isinstance(parsed, dict | list):
        values.append(cast("object", parsed))
    answers: list[bool] = []
    for value in values:
        try:
            answers.append(bool(is_error(tool, value)))
        except Exception:
            # A classifier may know only one of the two.
            continue
    return any(answers) or not answers
