"""Export of a session to a file that can be verified and read without the journal.

`jsonl` is the whole record with its chain, one JSON object per line, the first being a heading. `csv` is
a table of it for spreadsheets. Secrets are masked unless they are requested.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator

from pydantic import JsonValue

from ..database.compiled import SELECT_LINKED, DecisionLine, LinkedRow
from ..database.location import Location
from ..decisions.index import LISTED, opened_calls
from ..journal.rows import in_pages
from ..journal.schema import reading
from ..model.events import EventBody, JournalEvent, SessionOpened, event_body
from ..model.times import from_ms
from .canonical_json import canonical
from .hash_chain import CONTENT, content_hash, time_text
from .verify import LinkedEvent, linked, require_journal

FORMAT = "interlock-session"
FORMAT_VERSION = 1
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Characters that start a formula in spreadsheet cells; the last four are full-width."""

_LINE_END = "\r\n"

Mask = Callable[[EventBody], EventBody]
"""Masks an event's body for display; returns the same object if nothing is masked."""

COLUMNS = (
    "seq",
    "at",
    "type",
    "call_id",
    "tool",
    "outcome",
    "mode",
    "by",
    "rule",
    "reason",
    "input",
    "text",
    "is_error",
    "kind",
    "off",
    "edited_by",
    "asked_input",
    "hash",
)
"""In a decision or a change of settings `kind` and `off` are as in `compiled.DecisionLine`.

For a call that an operator edited, `asked_input` is the agent's own input and `input` what runs (G-75).
"""


def linked_events(path: Location, session: str) -> Iterator[LinkedEvent]:
    """Yield a session's events with their links, read in pages. Raises `JournalError`."""
    require_journal(path)

    def page(after: float, size: int) -> list[LinkedRow]:
        with reading(path) as connection:
            return connection.execute(SELECT_LINKED, (session, after, size)).fetchall()

    yield from map(linked, in_pages(page))


def as_jsonl(session: str, events: Iterable[LinkedEvent], mask: Mask | None) -> Iterator[str]:
    """Yield the lines of a session's file, without line ends; without `mask` nothing is masked.

    Raises `ValueError` for an event that cannot be read.
    """
    lines: list[str] = []
    prev: bytes | None = None
    for event in events:
        try:
            lines.append(canonical(event_line(event, prev, mask)))
        except UNREADABLE as error:
            raise unreadable(event) from error
        prev = event.hash
    heading: dict[str, JsonValue] = {
        "events": len(lines),
        "format": FORMAT,
        "head": None if prev is None else prev.hex(),
        "session": session,
        "version": FORMAT_VERSION,
    }
    yield canonical(heading)
    yield from lines


def as_csv(events: Iterable[LinkedEvent], mask: Mask | None) -> Iterator[str]:
    """Yield a heading and a record for each event, without line ends. No cell is a formula.

    Raises `ValueError` for an event that cannot be read.
    """
    yield _csv(COLUMNS)
    calls = None
    asked_inputs = _AskedInputs()
    for event in events:
        try:
            body, _ = _visible_members(event, mask)
            if event.kind in LISTED:
                journal_event = JournalEvent(
                    cursor=event.seq,
                    session=event.place.session,
                    seq=event.seq,
                    at=from_ms(event.place.at),
                    body=event_body.validate_json(event.body),
                )
                if isinstance(journal_event.body, SessionOpened):
                    calls = opened_calls(journal_event.body)
                line = None if calls is None else calls.take(journal_event, event.place.at)
            else:
                line = None
            body = asked_inputs.added(body)
            cells = _cells(event, body, line if isinstance(line, DecisionLine) else None)
        except UNREADABLE as error:
            raise unreadable(event) from error
        yield _csv(cells)


class _AskedInputs:
    """Agents' own inputs by call id, kept until the calls are decided; from bodies as shown."""

    def __init__(self) -> None:
        self._inputs: dict[str, JsonValue] = {}

    def added(self, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Return an event's body, with `asked_input` added if it is about an edited input."""
        match body:
            case {"type": "message", "calls": list(calls)}:
                for call in calls:
                    if isinstance(call, dict):
                        self._inputs[str(call.get("call_id"))] = call.get("input")
            case {"type": "approval.requested", "call_id": str(call_id)}:
                if not body.get("edited"):
                    self._inputs.setdefault(call_id, body.get("input"))
                elif call_id in self._inputs:
                    return {**body, "asked_input": self._inputs[call_id]}
            case {"type": "call.decided", "call_id": str(call_id)}:
                asked_input = self._inputs.pop(call_id, None)
                if body.get("edited") and asked_input is not None:
                    return {**body, "asked_input": asked_input}
            case _:
                pass
        return body


UNREADABLE = (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Errors of an event that was changed in the file, whose columns may hold values of any type."""


def unreadable(event: LinkedEvent) -> ValueError:
    """Return the error for an event that was changed in the file."""
    return ValueError(
        f"Event {event.seq} of session '{event.place.session}' cannot be read: the file was changed, "
        "or a newer Interlock wrote it. See: interlock history verify"
    )


def event_line(event: LinkedEvent, prev: bytes | None, mask: Mask | None) -> dict[str, JsonValue]:
    """Return an event with its link, as a line of an export; `prev` is the hash before it."""
    body, masked = _visible_members(event, mask)
    line: dict[str, JsonValue] = {
        "at": time_text(event.place.at),
        "body": body,
        "hash": event.hash.hex(),
        "prev": None if prev is None else prev.hex(),
        "seq": event.seq,
        "session": event.place.session,
    }
    if event.salt is not None and not masked:
        return {**line, "salt": event.salt.hex()}
    content = event.content if event.salt is None else content_hash(event.body, event.salt)
    return {**line, "content": None if content is None else content.hex()}


def _visible_members(event: LinkedEvent, mask: Mask | None) -> tuple[dict[str, JsonValue], bool]:
    """Return the members of an event's body, and whether some of its content is masked.

    Facts stay as they were hashed. If content is masked, content that only a newer version knows is left
    out, because this version does not know which secrets it has.
    """
    members: dict[str, JsonValue] = dict(json.loads(event.body).items())
    if mask is None:
        return members, False
    body = event_body.validate_json(event.body)
    masked_body = mask(body)
    masked_members: dict[str, JsonValue] = json.loads(masked_body.model_dump_json())
    content = members.keys() & CONTENT
    if masked_body is body and all(members[name] == masked_members.get(name) for name in content):
        return members, False
    visible_members = {
        k: masked_members[k] if k in content else v
        for k, v in members.items()
        if k in masked_members or k not in content
    }
    return visible_members, True


def _cells(event: LinkedEvent, body: dict[str, JsonValue], line: DecisionLine | None) -> list[str]:
    rule = body.get("rule")
    is_change = line is not None and line.kind != "call"
    cells: dict[str, JsonValue] = {
        **body,
        "seq": event.seq,
        "at": time_text(event.place.at),
        "outcome": _outcome(body),
        "by": (line.by if line is not None and is_change else None)
        or body.get("by")
        or body.get("approved_by")
        or body.get("opened_by")
        or _reporter(body),
        "kind": "call" if event.kind == "call.decided" else line.kind if line is not None else None,
        "off": None if line is None else line.off,
        "rule": rule.get("text") if isinstance(rule, dict) else body.get("net"),
        "text": next((body[k] for k in ("text", "output", "message", "error") if body.get(k)), None),
        "hash": event.hash.hex(),
    }
    return [_cell(cells.get(column)) for column in COLUMNS]


def _reporter(body: dict[str, JsonValue]) -> JsonValue:
    """Return who reported a user's words, if only an agent reports them."""
    by = body.get("reported_by")
    return f"reported by {by}" if by else None


def _outcome(body: dict[str, JsonValue]) -> JsonValue:
    """Return the outcome in an event's body: a decision, an answer, a status, a switch."""
    if isinstance(approved := body.get("approved"), bool):
        return "approved" if approved else "denied"
    if isinstance(active := body.get("active"), bool):
        return "on" if active else "off"
    return body.get("outcome") or body.get("status") or ("unknown" if body.get("unknown") else None)


def _cell(value: JsonValue) -> str:
    match value:
        case None | []:
            return ""
        case str():
            text = value
        case list() if all(isinstance(item, str) for item in value):
            text = ", ".join(map(str, value))
        case bool():
            return "yes" if value else "no"
        case int():
            return str(value)
        case _:
            text = canonical(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _csv(cells: Iterable[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator=_LINE_END).writerow(cells)
    return buffer.getvalue().removesuffix(_LINE_END)
