"""Uses of limits that hold over sessions, counted from a journal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple, TypedDict, cast

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


class _Result(TypedDict):
    call_id: str
    undone: list[_Step]


def recorded_uses(reader: HistoryReader, since: float) -> Iterator[RecordedUse]:
    """The uses of all sessions since this time, in seconds since 1970, but of those that never ran.

    Imported sessions do not count: another server allowed their calls. Raises `JournalError`.
    """
    ms = max(0, int(since * 1000))
    uses: dict[tuple[str, str, str], RecordedUse] = {}
    with reader.connection() as connection:
        rows = connection.execute(SELECT_USES, (ms, ms, _HAS_USES, _HAS_UNDONE)).fetchall()
    for session, kind, body in rows:
        if kind == "call.decided":
            decision = cast("_Decision", json.loads(body))
            for net, counter in decision.get("uses", {}).items():
                key = (session, decision["call_id"], net)
                uses[key] = RecordedUse(*key, counter, decision["clock"] or 0.0)
        else:
            result = cast("_Result", json.loads(body))
            for step in result["undone"]:
                uses.pop((session, result["call_id"], step["net"]), None)
    yield from uses.values()
