"""One event in full: its changes, then every field that it carries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias, cast

from pydantic import BaseModel, JsonValue
from textual.content import Content

from ....engine.core.durations import format_duration
from ....engine.history.fold.event_text import grant_words
from ....engine.history.model.events import JournalEvent
from ....engine.history.model.records import (
    CallRecord,
    FlowStepped,
    GrantRecord,
    NetRecord,
    RuleRecord,
    StepRecord,
)
from ...format.text import as_json, hanging_rows, indented, name_shown, shown, shown_lines
from ...terminal.charset import as_drawn
from ...terminal.keymap import key_of
from ...viewmodels.request import shown_in_detail
from ..base.blocks import Block, BlockList, line_block

# Content of a recorded step of a flow: its states' values, calls to come, and messages.


Part: TypeAlias = tuple[str, str | dict[str, JsonValue]]
"""A label, with a text or an object's fields."""
NEEDS = {"approval": "approval of", "choice": "a choice at"}
"""Words for what a step waits for, by kind; any other kind is an answer."""


def step_parts(body: FlowStepped) -> list[Part]:
    """Return all parts of a step's record, most useful first.

    Read leniently, because the record may be masked or of another version. Every label is unique.
    """
    snapshot = _object(body.output.get("snapshot"))
    said = _history_parts(body.output.get("history"))
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
            continue  # This is the call that waits.
        yield f"call to come: {call.get('name')}", _value(call.get("args") or {})


def _history_parts(history: JsonValue) -> Iterator[Part]:
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


LONGEST = 20_000
"""Maximum characters of one field in the pane; a longer one shows its head and its tail."""
MUTED = "$text-muted"
_UNREMARKABLE: dict[str, object] = {
    "is_error": False,
    "edited": False,
    "unknown": False,
    "kind": "root",
    "people": 1,
    "may_grant": False,
}


class EventDetails(BlockList):
    """Changes by an event and its content, as a scrolled list; `enter` opens the whole event."""

    def __init__(self) -> None:
        super().__init__(id="details", cursor=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Permit opening the event without a cursor."""
        return True

    def action_open(self) -> None:
        """Request that the whole event is shown."""
        self.post_message(self.Opened(self, "event"))

    def show_event(
        self, event: JournalEvent, changes: Sequence[str], decision: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Show `event`: the `changes` it made, in words, then the decision on its call."""
        blocks = [_change(index, event.seq, text) for index, text in enumerate(changes)]
        if not changes:
            nothing = Content.styled("  nothing in the nets or the queue", MUTED)
            blocks.append(line_block(f"{event.seq}/none", 0, nothing))
        if decision:
            blocks.append(line_block(f"{event.seq}/before decision", 0, Content("")))
        for label, text in decision:
            blocks.append(_field(event.seq, label, [shown(text)]))
        blocks.append(line_block(f"{event.seq}/gap", 0, Content("")))
        for name, lines in fields(event.body, event.session):
            blocks.append(_field(event.seq, name, lines))
        self.show(blocks)
        self.scroll_home(animate=False)


def fields(
    body: BaseModel, session: str = "SESSION", *, longest: int | None = LONGEST
) -> list[tuple[str, list[str]]]:
    """Return the non-trivial fields of an event, each with its lines, safe to paint.

    A text of more than `longest` characters is cut in its middle; `None` disables this. Of an object with
    very many fields there is always only an excerpt.
    """
    found: list[tuple[str, list[str]]] = []
    for name in type(body).model_fields:
        value = getattr(body, name)
        if name == "type" or value is None or value in ("", (), {}):
            continue
        if name in _UNREMARKABLE and value == _UNREMARKABLE[name]:
            continue
        if isinstance(body, FlowStepped) and name == "output":
            found += [(shown(label), _lines(part, session, longest)) for label, part in step_parts(body)]
            continue
        lines = [_time(value)] if name == "clock" else _lines(value, session, longest)
        found.append((name.replace("_", " "), lines))
    return found


def _lines(value: object, session: str, longest: int | None) -> list[str]:
    match value:
        case str():
            return _text_lines(value, longest)
        case bool():
            return ["yes" if value else "no"]
        case RuleRecord():
            return [f"{shown(value.where)}  {shown(value.text)}"]
        case StepRecord():
            when = ", once the call succeeded" if value.deferred else ""
            why = f"for {name_shown(value.tool)}" if value.tool else "by itself, after its time"
            return [f"{shown(value.net)}: {shown(value.transition)} {why}{when}"]
        case NetRecord():
            when = f"  when {shown(value.when)}" if value.when else ""
            return [f"{shown(value.key)}{when}"]
        case GrantRecord():
            return _grant_lines(value)
        case datetime():
            return [f"{value:%Y-%m-%d %H:%M:%S} UTC"]
        case CallRecord():
            return [
                f"{name_shown(value.tool)}  ({shown(value.call_id)})",
                *_indented(_json_lines(value.input, session, longest)),
                *_indented(
                    _text_lines(f"not JSON: {value.malformed}", longest) if value.malformed else []
                ),
            ]
        case tuple():
            items = cast("tuple[object, ...]", value)
            texts = [item for item in items if isinstance(item, str)]
            if items and len(texts) == len(items):
                return [shown(", ".join(texts))]
            return [line for item in items for line in _lines(item, session, longest)]
        case dict():
            return _json_lines(cast("dict[str, JsonValue]", value), session, longest)
        case _:
            return [shown(str(value))]


def _grant_lines(grant: GrantRecord) -> list[str]:
    """Return lines on a grant: what it allows, until when, and the approval that it replaces."""
    ends = (
        ""
        if grant.seconds is None
        else f", {format_duration(grant.seconds)} from {_time(grant.since)} on"
    )
    return [
        shown(f"{grant.key}: {grant_words(grant)}{ends}"),
        shown(f"replaces what {grant.asks} asks about {grant.asked}"),
    ]


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _json_lines(values: dict[str, JsonValue], session: str, longest: int | None) -> list[str]:
    lines: list[str] = []
    given, note = shown_in_detail(values, session)
    for name, value in given.items():
        text = value if isinstance(value, str) else as_json(value, indent=2)
        first, *rest = _text_lines(text, longest) or [""]
        if isinstance(value, str) and not rest:
            first = f'"{first}"'
        lines.append(f"{shown(name)}: {first}")
        lines.extend(_indented(rest))
    return lines if note is None else [*lines, shown(note)]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _text_lines(text: str, longest: int | None) -> list[str]:
    text = text.rstrip("\n").expandtabs(4)
    if longest is None or len(text) <= longest:
        return shown_lines(text)
    key = key_of(BlockList, "list.open")
    head, tail = text[: longest // 2], text[-longest // 2 :]
    hidden = f"… {len(text) - longest:,} characters left out; {key} shows all of them …"
    return [*shown_lines(head), hidden, *shown_lines(tail)]


def _change(index: int, seq: int, text: str) -> Block:
    def lines(width: int) -> list[Content]:
        return hanging_rows("Δ ", "bold $accent", Content(as_drawn(text)).wrap(max(2, width - 2)))

    return Block(f"{seq}/change/{index}", 0, lines)


def _field(seq: int, name: str, value: list[str]) -> Block:
    return Block(f"{seq}/{name}", 0, partial(_field_lines, name, value))


def _field_lines(name: str, value: list[str], width: int) -> list[Content]:
    """Return the name with the value to its right, or below it if the value is long."""
    label = max(13, len(name) + 1)
    beside = len(value) == 1 and width > 3 * label
    room = max(2, width - (label if beside else 2))
    rows = [row for line in value for row in Content(line).wrap(room)]
    if not beside:
        return [Content.styled(name, MUTED), *indented(rows)]
    return hanging_rows(name.ljust(label), MUTED, rows)
