"""Finished calls of a conversation, as entries to replay (G-32, G-62).

Supported are OpenAI's messages, as litellm uses them (`tool_calls` and `role: "tool"`), the Vercel AI
SDK's parts (`tool-call` and `tool-result`, including version 4), and the messages of Interlock's own
sessions. Anyone who can write the messages can unlock tools, so they must come from a trusted store.
Messages of other shapes are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from ...net.net import Input
from ..reasons import refusals
from ..types import ReplayEntry, SaidText
from .failures import ResultClassifier, is_error_text, is_error_value, is_own_failure, json_value

OUTCOME_FIELD = "interlock"
"""Field that Interlock adds to tool messages in exports.

Its `outcome` is `done`, `failed`, `blocked` or `unknown`; `input` is present if another input ran than
the model wrote.
"""

Refusals: TypeAlias = Callable[[str, Input], Iterable[str]]
"""Beginnings of the texts with which a gate blocks a call of a tool with an input."""

# Access to what authors and client libraries pass in, which may be mappings or objects.


def as_mapping(thing: object) -> Mapping[str, object] | None:
    """`thing` if it is a mapping, else `None`."""
    return cast("Mapping[str, object]", thing) if isinstance(thing, Mapping) else None


def as_list(thing: object) -> list[object]:
    """Items of a list or tuple; empty for anything else."""
    return [*cast("list[object]", thing)] if isinstance(thing, list | tuple) else []


def field_of(thing: object, name: str) -> object:
    """Entry of a mapping or attribute of an object; `None` if there is none."""
    fields = as_mapping(thing)
    return getattr(thing, name, None) if fields is None else fields.get(name)


@dataclass(frozen=True, slots=True)
class _MessageCall:
    tool: str
    input: Input


@dataclass(frozen=True, slots=True)
class _MessageResult:
    """A result in a message; `tool` is `None` if the message format leaves it out.

    `value` is what the tool returned, as far as the message shows it. `failed` is whether the message
    itself says that the call failed; `None` if only the value can show that. `ran` is the input that ran.
    """

    call_id: str
    tool: str | None
    value: object
    failed: bool | None = None
    ran: Input | None = None
    as_text: bool = False


def replay_entries(
    messages: Iterable[object],
    is_error: ResultClassifier | None = None,
    refusals_of: Refusals | None = None,
) -> list[ReplayEntry]:
    """Calls that came to an end, in the order of their results.

    `is_error` returns whether a result is a failure, given the tool's name and value; if it raises, the
    result is one. It gets the value without the wrapper of its message format. A call also failed if its
    message says so, if its result is one of `refusals_of` the call (by default the texts with which rules
    that name the tool block it), or if it has the format in which Interlock's own tools report failures.
    A result whose call is unknown, or was to another tool, is ignored. A repeated result counts once, and
    of two calls with one id the first counts.
    """
    history = replay_history(messages, is_error, refusals_of)
    return [entry for entry in history if isinstance(entry, ReplayEntry)]


def replay_history(
    messages: Iterable[object],
    is_error: ResultClassifier | None = None,
    refusals_of: Refusals | None = None,
) -> list[ReplayEntry | SaidText]:
    """Entries of `replay_entries` and, between them, what users said, in the messages' order."""
    messages = list(messages)
    calls: dict[str, _MessageCall] = {}
    for message in messages:
        if field_of(message, "role") == "assistant":
            for call_id, called in _calls(message):
                calls.setdefault(call_id, called)
    settled: set[str] = set()
    entries: list[ReplayEntry | SaidText] = []
    for message in messages:
        if field_of(message, "role") == "user":
            entries += map(SaidText, user_texts(message))
        if field_of(message, "role") != "tool":
            continue
        for result in _results(message):
            called = calls.get(result.call_id)
            if called is None or result.call_id in settled or result.tool not in (None, called.tool):
                continue
            settled.add(result.call_id)
            failed = result.failed
            if failed is None:
                failed = _failed(result, called, is_error, refusals_of)
            ran = called.input if result.ran is None else result.ran
            entries.append(ReplayEntry(called.tool, ran, failed, value_text(result.value)))
    return entries


def user_texts(message: object) -> Iterator[str]:
    """Texts of a user's message, without results that a framework puts there."""
    content = field_of(message, "content")
    parts = (*as_list(content), *as_list(field_of(message, "parts")))
    for text in (content, field_of(message, "text"), *map(_part_text, parts)):
        if isinstance(text, str):
            yield text


def _part_text(part: object) -> object:
    return field_of(part, "text") if field_of(part, "type") in ("text", "input_text") else None


def value_text(value: object) -> str:
    """A tool's value as text: text unchanged, anything else as JSON or as it prints."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _failed(
    result: _MessageResult,
    called: _MessageCall,
    is_error: ResultClassifier | None,
    refusals_of: Refusals | None,
) -> bool:
    tool, value = called.tool, result.value
    beginnings = refusals((tool,)) if refusals_of is None else refusals_of(tool, called.input)
    if is_own_failure(value, beginnings):
        return True
    return (is_error_text if result.as_text else is_error_value)(is_error, tool, value)


def _calls(message: object) -> Iterator[tuple[str, _MessageCall]]:
    for part in as_list(field_of(message, "content")):
        call_id, tool = field_of(part, "toolCallId"), field_of(part, "toolName")
        if field_of(part, "type") == "tool-call" and isinstance(call_id, str) and isinstance(tool, str):
            given = field_of(part, "input")
            yield call_id, _MessageCall(tool, _object(field_of(part, "args") if given is None else given))
    for call in as_list(field_of(message, "tool_calls")):
        function = field_of(call, "function")
        call_id, tool = field_of(call, "id"), field_of(function, "name")
        if isinstance(call_id, str) and isinstance(tool, str):
            yield call_id, _MessageCall(tool, _arguments(field_of(function, "arguments")))
            continue
        call_id, tool = field_of(call, "call_id"), field_of(call, "name")
        if isinstance(call_id, str) and isinstance(tool, str):
            yield call_id, _MessageCall(tool, _object(field_of(call, "args")))


def _object(value: object) -> Input:
    """A call's input; anything but an object counts as an empty input."""
    return as_mapping(value) or {}


def _arguments(value: object) -> Input:
    return _object(json_value(value) if isinstance(value, str) else value)


def _results(message: object) -> Iterator[_MessageResult]:
    content = field_of(message, "content")
    call_id, name = field_of(message, "tool_call_id"), field_of(message, "name")
    tool = name if isinstance(name, str) else None
    if isinstance(call_id, str):
        recorded = as_mapping(field_of(message, OUTCOME_FIELD)) or {}
        outcome = recorded.get("outcome")
        failed = _says_failed(message) or None if outcome is None else outcome != "done"
        yield _MessageResult(
            call_id, tool, _text(content), failed, as_mapping(recorded.get("input")), as_text=True
        )
        return
    call_id, text = field_of(message, "call_id"), field_of(message, "text")
    if isinstance(call_id, str) and isinstance(text, str):
        # A message of Interlock's own sessions, whose `is_error` does not consider a command's exit code
        #
        failed = _says_failed(message) or None
        yield _MessageResult(call_id, tool, text, failed, as_mapping(field_of(message, "ran")))
        return
    for part in as_list(content):
        call_id, tool = field_of(part, "toolCallId"), field_of(part, "toolName")
        if field_of(part, "type") == "tool-result" and isinstance(call_id, str) and isinstance(tool, str):
            output = field_of(part, "output")
            output = field_of(part, "result") if output is None else output
            value, failed = unwrapped_output(output)
            yield _MessageResult(call_id, tool, value, failed or _says_failed(part) or None)


def _says_failed(part: object) -> bool:
    """True if a message or part is marked as an error, as the AI SDK 4 and Interlock do."""
    return field_of(part, "isError") is True or field_of(part, "is_error") is True


def _text(content: object) -> object:
    """Text of a tool message, whose content may be given in parts."""
    parts = as_list(content)
    return "".join(str(field_of(part, "text") or "") for part in parts) if parts else content


def unwrapped_output(output: object) -> tuple[object, bool]:
    """A Vercel output without its wrapper, and whether it has one of the error types."""
    fields = as_mapping(output) or {}
    kind = fields.get("type")
    wrapped = kind in ("text", "json") and "value" in fields
    value = fields["value"] if wrapped else output
    return value, kind in ("error-text", "error-json", "execution-denied")
