"""Uses of limits over sessions, counted from a journal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple, NotRequired, TypedDict, cast

from ..database.compiled import SELECT_USES
from .reader import HistoryReader

_HAS_USES = '%"uses":{"%'
_HAS_UNDONE = '%"undone":[{%'


class RecordedUse(NamedTuple):
    """A call's use of a limit in one net, at a time in seconds since 1970, with its counter."""

    session: str
    call_id: str
    net: str
    counter: str
    at: float


class _Step(TypedDict):
    net: str


class _Decision(TypedDict):
    call_id: str
    uses: dict[str, str]
    clock: float | None


class _Resumed(TypedDict):
    imported: NotRequired[int | None]


class _Result(TypedDict):
    call_id: str
    undone: list[_Step]


def recorded_uses(reader: HistoryReader, since: float) -> Iterator[RecordedUse]:
    """Yield the uses in all sessions since a time, in seconds since 1970, except of calls that never ran.

    In an imported session only the uses since it was first resumed here count, because another server
    allowed its earlier calls. Raises `JournalError`.
    """
    ms = max(0, int(since * 1000))
    uses: dict[tuple[str, str, str], RecordedUse] = {}
    with reader.connection() as connection:
        rows = connection.execute(SELECT_USES, (ms, ms, _HAS_USES, ms, _HAS_UNDONE)).fetchall()
    first_numbers = _own_parts(rows)
    for session, kind, body, seq, imported in rows:
        if imported and seq <= first_numbers.get(session, seq):
            continue
        if kind == "call.decided":
            decision = cast("_Decision", json.loads(body))
            for net, counter in decision.get("uses", {}).items():
                key = (session, decision["call_id"], net)
                uses[key] = RecordedUse(*key, counter, decision["clock"] or 0.0)
        elif kind == "call.result":
            result = cast("_Result", json.loads(body))
            for step in result["undone"]:
                uses.pop((session, result["call_id"], step["net"]), None)
    yield from uses.values()


def _own_parts(rows: Iterable[tuple[str, str, str, int, int]]) -> dict[str, int]:
    """Return the number of the last event that an imported session came with, for those resumed here.

    Whatever the file's author wrote for it can only make more calls count.
    """
    first_numbers: dict[str, int] = {}
    for session, kind, body, _, _ in rows:
        if kind == "session.resumed":
            imported = cast("_Resumed", json.loads(body)).get("imported")
            if imported is not None:
                first_numbers[session] = min(imported, first_numbers.get(session, imported))
    return first_numbers
