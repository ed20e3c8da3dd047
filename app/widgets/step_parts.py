"""What the record of a flow's step holds: the values of its states, calls to come, and what was said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias, cast

from pydantic import JsonValue

from ...engine.history.flow import FlowStepped

Part: TypeAlias = tuple[str, str | dict[str, JsonValue]]
"""A label, and a text or the fields of an object."""
NEEDS = {"approval": "approval of", "choice": "a choice at"}
"""What a step may wait for, by its kind; all else is an answer."""


def step_parts(body: FlowStepped) -> list[Part]:
    """All that a step recorded, in the order in which somebody wants to know it.

    Read as it comes: it may be of another version, or masked. No label is there twice.
    """
    snapshot = _object(body.output.get("snapshot"))
    said = _said(body.output.get("history"))
    seen: Counter[str] = Counter()
    parts: list[Part] = []
    for label, part in (*_states(snapshot), *_waiting(snapshot), *_calls(snapshot), *said):
        seen[label] += 1
        parts.append((f"{label} ({seen[label]})" if seen[label] > 1 else label, part))
    return parts


def _object(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _objects(value: JsonValue) -> list[dict[str, JsonValue]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _value(value: JsonValue) -> str | dict[str, JsonValue]:
    if isinstance(value, dict) and value:
        return value
    return "no fields" if value == {} else value if isinstance(value, str) else str(value)


def _states(snapshot: dict[str, JsonValue]) -> Iterator[Part]:
    for state in _objects(snapshot.get("states")):
        yield f"state {state.get('key')}", _value(state.get("value"))
    for collected in _objects(snapshot.get("collected")):
        results = cast("list[JsonValue]", collected.get("results") or [])
        yield f"collected {collected.get('key')}", {str(n): v for n, v in enumerate(results, 1)}


def _waiting(snapshot: dict[str, JsonValue]) -> Iterator[Part]:
    asked = _object(snapshot.get("suspended"))
    if not asked:
        return
    tool = str(asked.get("tool_id")).rpartition("::")[2]
    yield "waits for", f"{NEEDS.get(str(asked.get('kind')), 'an answer to')} {tool}"
    arguments = asked.get("args")
    shown = arguments if arguments is not None else asked.get("value")
    states = (each.get("value") for each in _objects(snapshot.get("states")))
    if shown is not None and shown not in states:
        yield "asked with", _value(shown)


def _calls(snapshot: dict[str, JsonValue]) -> Iterator[Part]:
    waits = _object(snapshot.get("suspended")).get("call_id")
    for call in _objects(snapshot.get("pending")):
        if waits is not None and call.get("call_id") == waits:
            continue  # It is what waits.
        yield f"call to come: {call.get('name')}", _value(call.get("args") or {})


def _said(history: JsonValue) -> Iterator[Part]:
    for entry in _objects(history):
        message = _object(entry.get("message"))
        text, role = message.get("text"), message.get("role")
        if isinstance(text, str) and text.strip():
            who = {"assistant": "said", "tool": f"was told by {message.get('name')}"}.get(
                str(role), "was told"
            )
            yield f"{entry.get('agent')} {who}", text
        for call in _objects(message.get("tool_calls")):
            yield f"{entry.get('agent')} called {call.get('name')}", _value(call.get("args") or {})
        note = entry.get("note")
        if isinstance(note, str) and note:
            yield f"of {entry.get('agent')}", note
