"""Comparison of a journal with earlier exports, which shows whether events at its end were removed.

The journal's own chains and counts cannot show that: a program that can write the file can recompute
them. A session may continue after an export, so only the exported events are compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..database.compiled import SELECT_HASHES, SELECT_STUB
from ..database.connection import Connection
from ..database.location import Location
from ..journal.schema import reading
from .importing import Export
from .verify import ChainFault, require_journal


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result for the `events` in an export; `since` is the number of later ones in the journal.

    `fault` is the first difference. For a `pruned` session its stub was compared.
    """

    session: str
    events: int
    since: int = 0
    pruned: bool = False
    fault: ChainFault | None = None


def compare(path: Location, export: Export) -> Comparison:
    """Compare the journal at `path` with an export, whose chain has no fault. Raises `JournalError`.

    An event's hash covers all events before it, so if it is the same, these are the same too.
    """
    require_journal(path)
    events, head = export.check.events, export.check.head
    with reading(path) as connection:
        connection.execute("BEGIN")
        hashes = dict(connection.execute(SELECT_HASHES, (export.session,)))
        if not hashes:
            return _with_stub(connection, export)
    if hashes.get(events) == head:
        later = sum(1 for seq in hashes if type(seq) is int and seq > events)
        return Comparison(export.session, events, later)
    seq = next(event.seq for event in export.events if hashes.get(event.seq) != event.hash)
    if seq in hashes:
        fault = ChainFault(seq, "changed", f"event {seq} is different in the journal")
    else:
        fault = ChainFault(seq, "removed", f"event {seq} is no longer in the journal")
    return Comparison(export.session, events, fault=fault)


def _with_stub(connection: Connection, export: Export) -> Comparison:
    """Compare an export with the stub of its session, which must have at least as many events."""
    events, head = export.check.events, export.check.head
    stub = connection.execute(SELECT_STUB, (export.session,)).fetchone()
    if stub is None:
        fault = ChainFault(1, "removed", "neither the session nor its stub is in the journal")
    elif stub[0] == events and stub[1] != head:
        fault = ChainFault(events, "changed", "its stub has a different last hash")
    elif type(stub[0]) is not int or stub[0] < events:
        fault = ChainFault(events, "removed", f"its stub is of {stub[0]} events")
    else:
        return Comparison(export.session, events, stub[0] - events, pruned=True)
    return Comparison(export.session, events, pruned=stub is not None, fault=fault)
