"""Comparison of a journal with exports made of it before, which shows events cut off its end.

Its own chains and counts cannot show that: who can write the file can recompute them. A session goes on
after an export, so only what the export has is compared.
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
    """Result for the `events` that an export has; `since` are those that came after them.

    `fault` is the first that is not as it was. Of a session that was `pruned` its stub was compared.
    """

    session: str
    events: int
    since: int = 0
    pruned: bool = False
    fault: ChainFault | None = None


def compare(path: Location, export: Export) -> Comparison:
    """Hold the journal at `path` against an export, whose chain has no fault. Raises `JournalError`.

    An event's hash is over all events before it, so that those are the same when it is.
    """
    require_journal(path)
    events, head = export.check.events, export.check.head
    with reading(path) as connection:
        connection.execute("BEGIN")
        found = dict(connection.execute(SELECT_HASHES, (export.session,)))
        if not found:
            return _with_stub(connection, export)
    if found.get(events) == head:
        later = sum(1 for seq in found if type(seq) is int and seq > events)
        return Comparison(export.session, events, later)
    seq = next(event.seq for event in export.events if found.get(event.seq) != event.hash)
    if seq in found:
        fault = ChainFault(seq, "changed", f"event {seq} is another in the journal")
    else:
        fault = ChainFault(seq, "removed", f"event {seq} is not in the journal any more")
    return Comparison(export.session, events, fault=fault)


def _with_stub(connection: Connection, export: Export) -> Comparison:
    """The same for a session that is gone: whether a stub says so, of no fewer events."""
    events, head = export.check.events, export.check.head
    stub = connection.execute(SELECT_STUB, (export.session,)).fetchone()
    if stub is None:
        fault = ChainFault(1, "removed", "the session is not in the journal, and no stub of it")
    elif stub[0] == events and stub[1] != head:
        fault = ChainFault(events, "changed", "its stub has another last hash")
    elif type(stub[0]) is not int or stub[0] < events:
        fault = ChainFault(events, "removed", f"its stub is of {stub[0]} events")
    else:
        return Comparison(export.session, events, stub[0] - events, pruned=True)
    return Comparison(export.session, events, pruned=stub is not None, fault=fault)
