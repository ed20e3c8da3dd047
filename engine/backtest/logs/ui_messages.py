"""Messages as Vercel user interfaces store them: a call and its outcome are one part.

Current ones have `tool-<name>` and `dynamic-tool` in their `parts`, older ones `tool-invocation`, and the
oldest `toolInvocations` beside their text.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from ...gate.wrapping.messages import as_list, as_mapping
from .items import Fields, Location, Logged, LoggedCall, LoggedQuestion, LoggedResult, input_of, text_of

_PREFIX = "tool-"
_UNFINISHED = ("partial-call", "input-streaming")
_ENDED = ("result", "output-available", "output-error")


def is_ui_message(message: Fields) -> bool:
    """True if a message has its calls in this format."""
    return "parts" in message or "toolInvocations" in message


def ui_items(message: Fields, place: Location) -> Iterator[Logged]:
    """Items of the message: for every step first its calls, then their results. Raises `LogError`."""
    for _, parts in groupby(_invocations(message, place), key=lambda invocation: invocation[0]):
        calls: list[Logged] = []
        results: list[Logged] = []
        for _, part, tool in parts:
            for item in _invocation(part, tool, place):
                (results if isinstance(item, LoggedResult) else calls).append(item)
        yield from (*calls, *results)


def _invocations(message: Fields, place: Location) -> Iterator[tuple[object, Fields, str]]:
    """Calls of a message, each with its step and its tool."""
    step, has_calls = 0, False
    for element in as_list(message.get("parts")):
        part = as_mapping(element)
        kind = None if part is None else part.get("type")
        if part is None or not isinstance(kind, str):
            raise place.error("has a part without a 'type'", "expected a message of the Vercel AI SDK")
        if kind == "step-start":
            step += 1
        elif kind == "tool-invocation":
            has_calls = True
            invocation = as_mapping(part.get("toolInvocation"))
            if invocation is None:
                raise place.error("has a part without its 'toolInvocation'", "expected an object there")
            yield (step, invocation.get("step")), invocation, text_of(invocation, "toolName", place)
        elif kind == "dynamic-tool":
            has_calls = True
            yield step, part, text_of(part, "toolName", place)
        elif kind.startswith(_PREFIX):
            has_calls = True
            yield step, part, kind.removeprefix(_PREFIX)
    for element in as_list(message.get("toolInvocations")) if not has_calls else ():
        invocation = as_mapping(element)
        if invocation is None:
            raise place.error(
                "its 'toolInvocations' has an item that is not an object", "expected calls there"
            )
        yield invocation.get("step"), invocation, text_of(invocation, "toolName", place)


def _invocation(part: Fields, tool: str, place: Location) -> Iterator[Logged]:
    """A call with what is known about it."""
    state = part.get("state", "result" if "result" in part else "call")
    if state in _UNFINISHED:
        return
    call_id = text_of(part, "toolCallId", place)
    yield LoggedCall(place.number, call_id, tool, input_of(part.get("input", part.get("args"))))
    approval = as_mapping(part.get("approval"))
    if approval is not None:
        answer = approval.get("approved")
        yield LoggedQuestion(call_id, answer if isinstance(answer, bool) else None)
    if state in _ENDED:
        output = part.get("output", part.get("result"))
        yield LoggedResult(call_id, tool, state == "output-error", output=output)
    elif state == "output-denied":
        yield LoggedResult(call_id, tool, is_error=True, denied=True)
