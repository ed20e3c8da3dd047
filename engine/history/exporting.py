"""A session in a file of its own, which can be checked and read without the journal.

`jsonl` is the whole record with its chain, one JSON object a line, the first a heading; `csv` is a table
of it for spreadsheets. Secrets are masked unless somebody asks for them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError

from .canonical import canonical
from .chain import content_hash, time_text
from .errors import JournalError
from .events import EventBody
from .rows import SELECT_LINKED
from .schema import UNLINKED, inspect, name_of, reading
from .verify import LinkedEvent, linked

FORMAT = "interlock-session"
FORMAT_VERSION = 1
_PAGE = 1000
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_body: TypeAdapter[EventBody] = TypeAdapter(EventBody)

Mask = Callable[[EventBody], EventBody]
"""An event's body as it may be shown: the same object where nothing is hidden."""

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
    "hash",
)


def linked_events(path: Path, session: str) -> Iterator[LinkedEvent]:
    """A session's events with their links, page by page. Raises `JournalError`."""
    _, found = inspect(path)
    if found in UNLINKED:
        raise JournalError(
            f"Journal '{name_of(path)}' has the older schema {found}, without hashes. "
            "Open it once for writing to add them; a copy is kept."
        )
    after = 0
    while True:
        with reading(path) as connection:
            rows = connection.execute(SELECT_LINKED, (session, after, _PAGE)).fetchall()
        yield from map(linked, rows)
        if len(rows) < _PAGE:
            return
        after = rows[-1][2]


def as_jsonl(session: str, events: Iterable[LinkedEvent], mask: Mask | None) -> Iterator[str]:
    """The lines of a session's file, without their ends; without `mask` nothing is hidden.

    Raises `ValueError` for an event that cannot be read.
    """
    lines: list[str] = []
    prev: bytes | None = None
    for event in events:
        lines.append(canonical(_line(event, prev, mask)))
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
    """A heading and a line for each event, without their ends. Cells cannot become formulas."""
    yield _csv(COLUMNS)
    for event in events:
        shown, _ = _shown(event, mask)
        yield _csv(_cells(event, shown))


def _line(event: LinkedEvent, prev: bytes | None, mask: Mask | None) -> dict[str, JsonValue]:
    shown, masked = _shown(event, mask)
    line: dict[str, JsonValue] = {
        "at": time_text(event.place.at),
        "body": shown,
        "hash": event.hash.hex(),
        "prev": None if prev is None else prev.hex(),
        "seq": event.seq,
        "session": event.place.session,
    }
    if event.salt is not None and not masked:
        return {**line, "salt": event.salt.hex()}
    content = event.content if event.salt is None else content_hash(event.body, event.salt)
    return {**line, "content": None if content is None else content.hex()}


def _shown(event: LinkedEvent, mask: Mask | None) -> tuple[dict[str, JsonValue], bool]:
    """The members of an event's body, and whether some are masked.

    What a newer version wrote besides what this one knows is left as it is, unless something is masked.
    """
    members: dict[str, JsonValue] = json.loads(event.body)
    if mask is None:
        return members, False
    try:
        body = _body.validate_json(event.body)
    except ValidationError as error:
        raise ValueError(f"event {event.seq} cannot be read, so nothing in it can be masked") from error
    shown = mask(body)
    if shown is body:
        return members, False
    new: dict[str, JsonValue] = json.loads(shown.model_dump_json(exclude_unset=False))
    return {k: new[k] for k in members if k in new}, True


def _cells(event: LinkedEvent, body: dict[str, JsonValue]) -> list[str]:
    rule = body.get("rule")
    cells: dict[str, JsonValue] = {
        **body,
        "seq": event.seq,
        "at": time_text(event.place.at),
        "by": body.get("by") or body.get("approved_by") or body.get("opened_by"),
        "rule": rule.get("text") if isinstance(rule, dict) else body.get("net"),
        "text": next((body[k] for k in ("text", "output", "message", "error") if body.get(k)), None),
        "hash": event.hash.hex(),
    }
    return [_cell(cells.get(column)) for column in COLUMNS]


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
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()
