"""Verification of a journal: every session's chain, from its first event to its last.

A chain shows an event that was changed, removed, inserted or moved after it was recorded. By itself it
cannot show that a process that can write the file rewrote all of it: compare a session's last hash with
one stored elsewhere, such as in an export.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Literal, TypeAlias

import orjson
from pydantic import JsonValue

from ..database import compiled as sql
from ..database.compiled import LinkedRow
from ..database.connection import Connection
from ..database.location import Location
from ..errors import JournalError
from ..journal.rows import in_pages
from ..journal.schema import inspect, name_of, reading
from ..logs.key_log import KeyLog
from ..postgres.connection import PostgresConnection
from .attestation import Vouch, is_vouched, vouch_in
from .hash_chain import ChainPosition, event_hash, event_hash_of_body
from .passkeys import KeyEntry
from .proof_check import ProofCheck, ProofFault

_BEFORE_ALL = -math.inf
_LEAST = -(1 << 63)
"""A number before those of all events: the columns of a file may hold more than positive integers."""
_MOST_GAPS = 10
_WINDOW = 2000
"""Number of events after a fault that are read to determine the kind of fault."""

FaultKind: TypeAlias = Literal["changed", "removed", "inserted", "reordered"]


@dataclass(frozen=True, slots=True)
class LinkedEvent:
    """An event as stored or exported, with its link; `body` is JSON.

    Without `salt` its content is masked, and `content` is the content's hash; `vouch` is the importer's
    signature.
    """

    place: ChainPosition
    kind: str
    body: str
    salt: bytes | None
    content: bytes | None
    hash: bytes
    vouch: Vouch | None = None

    @property
    def seq(self) -> int:
        return self.place.seq


@dataclass(frozen=True, slots=True)
class ChainFault:
    """The first event of a session that is not as it was recorded; `seq` is its number."""

    seq: int
    kind: FaultKind
    message: str


@dataclass(frozen=True, slots=True)
class ChainCheck:
    """Result of verifying the chain of one session.

    `head` is its last hash, before the fault if there is one. For `masked` events only facts and position
    could be verified. `imported` sessions were recorded in another journal; `keys` signed that and their
    masked content, except for `unvouched` events. Those were imported by an older version, or the session
    was marked by hand, or their salts were removed. `proofs` is the number of passkey proofs that were
    checked; those in `unproved` are invalid (G-107). `unsalted` is the number of requests with a digest
    from which a short input can be found by trying values, even if an export masks it: older journals had
    no salt for digests.
    """

    session: str
    events: int
    head: bytes | None
    masked: int = 0
    fault: ChainFault | None = None
    imported: bool = False
    unvouched: int = 0
    keys: frozenset[bytes] = frozenset()
    proofs: int = 0
    unproved: tuple[ProofFault, ...] = ()
    unsalted: int = 0


@dataclass(frozen=True, slots=True)
class Gap:
    """Cursors that the file assigned without having events; the event before them, if there is one."""

    first: int
    last: int
    session: str | None
    seq: int | None


@dataclass(frozen=True, slots=True)
class FileCheck:
    """Result for the whole file: `missing` is the number of assigned cursors without an event.

    `gaps` are the first ranges of them. They are unknown for a file that was pruned, because the cursors
    of pruned sessions look the same.
    """

    events: int
    missing: int
    gaps: tuple[Gap, ...] = ()


def linked(row: LinkedRow) -> LinkedEvent:
    """Return the event in a row."""
    _, session, seq, at, kind, body, salt, vouch_column, digest = row
    content, vouch = vouch_in(vouch_column)
    return LinkedEvent(ChainPosition(session, seq, at), kind, body, salt, content, digest, vouch)


def verify_journal(path: Location) -> Iterator[ChainCheck]:
    """Verify every session of the journal at `path`, in the order of opening; memory use stays flat.

    Reads only, even while the file is written. Raises `JournalError` for a file that cannot be read.
    """
    require_journal(path)
    keys = KeyLog(path).read().entries
    with reading(path) as connection:
        connection.execute("BEGIN")
        lines = connection.execute(sql.SELECT_LENGTHS).fetchall()
        for session, events, imported in lines:
            if isinstance(session, str):
                yield check_session(connection, session, events, imported, keys)
            else:
                fault = ChainFault(1, "changed", "the session's line has an id that is not text")
                yield ChainCheck(str(session), 0, None, fault=fault)
        strays = connection.execute(sql.SELECT_STRAY_EVENT_SESSIONS).fetchall()
        for (session,) in strays:
            message = "the session's own line was removed"
            yield ChainCheck(str(session), 0, None, fault=ChainFault(1, "removed", message))


def verify_session(path: Location, session: str) -> ChainCheck:
    """Verify the session with this id, which has a line in the journal. Raises `JournalError`."""
    require_journal(path)
    with reading(path) as connection:
        connection.execute("BEGIN")
        line = connection.execute(sql.SELECT_LENGTH, (session,)).fetchone()
        return check_session(connection, *line, known=KeyLog(path).read().entries)


def require_journal(path: Location) -> None:
    """Raise `JournalError` if there is no journal."""
    if inspect(path)[0] == "fresh":
        raise JournalError(f"There is no journal at '{name_of(path)}' yet. Name another: --db JOURNAL")


def check_session(
    connection: Connection,
    session: str,
    events: int,
    imported: bool | int,
    known: Mapping[str, KeyEntry] | None = None,
) -> ChainCheck:
    """Verify one session, whose line counts `events`, on a connection that sees one state of the file.

    `known` are the passkeys of the journal's log; those of an imported session were enrolled elsewhere.
    """
    import sqlite3

    is_own, keys = not imported, None if imported else known
    try:
        check = check_chain(
            session, _stored_events(connection, session), expected=events, own=is_own, known=keys
        )
    except sqlite3.OperationalError as error:
        if "decode" not in str(error) or not isinstance(connection, sqlite3.Connection):
            raise
        # An event may have been changed to invalid Unicode: it is read all the same, to report which one
        # it is.
        connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
        check = check_chain(
            session, _stored_events(connection, session), expected=events, own=is_own, known=keys
        )
        connection.text_factory = str
    if check.fault is None:
        misplaced_row = connection.execute(sql.SELECT_MISPLACED, (session,)).fetchone()
        if misplaced_row is not None:
            seq = misplaced_row[0]
            message = f"event {seq} was moved before event {seq - 1} in the file"
            check = replace(check, fault=ChainFault(seq, "reordered", message))
    return replace(check, imported=bool(imported))


def check_file(path: Location) -> FileCheck:
    """Check that the file has all events to which it assigned a cursor, except those that were pruned.

    Raises `JournalError`.
    """
    with reading(path) as connection:
        numbered_count, present_count, pruned_count = connection.execute(sql.COUNT_FILE).fetchone()
        missing_count = numbered_count - present_count - pruned_count
        gaps: list[tuple[int, int, str | None, int | None]] = []
        if missing_count > 0 and not pruned_count:
            gaps = connection.execute(sql.SELECT_GAPS, (numbered_count + 1, _MOST_GAPS)).fetchall()
    return FileCheck(present_count, missing_count, tuple(Gap(*gap) for gap in gaps))


def check_chain(
    session: str,
    events: Iterable[LinkedEvent],
    *,
    expected: int | None = None,
    own: bool = False,
    known: Mapping[str, KeyEntry] | None = None,
) -> ChainCheck:
    """Verify `events`, all events of `session` in order; `expected` is their number.

    In a journal's `own` session no event is masked: without its salt, an event's content could be
    anything. `known` are the passkeys that were enrolled, if there is a log of them.
    """
    proofs = ProofCheck(known)
    check = _check_links(session, events, proofs, expected=expected, is_own=own)
    return replace(check, proofs=proofs.proofs, unproved=tuple(proofs.faults))


def _check_links(
    session: str,
    events: Iterable[LinkedEvent],
    proofs: ProofCheck,
    *,
    expected: int | None,
    is_own: bool,
) -> ChainCheck:
    prev: LinkedEvent | None = None
    masked = unvouched = unsalted = 0
    keys: set[bytes] = set()
    rest = iter(events)
    for event in rest:
        fault = _fault(session, prev, event, rest)
        if fault is None and is_own and event.vouch is not None:
            fault = ChainFault(event.seq, "changed", "the mark that the session was imported was removed")
        if fault is None and is_own and event.salt is None:
            fault = ChainFault(
                event.seq, "changed", f"event {event.seq} ({event.kind}) has lost its salt"
            )
        if fault is None and event.vouch is not None and not event.vouch.holds(event.hash, event.body):
            message = f"event {event.seq} ({event.kind}) is not as it was imported"
            fault = ChainFault(event.seq, "changed", message)
        if fault is not None:
            return ChainCheck(session, fault.seq - 1, _hash(prev), masked, fault)
        proofs.follow(event.place, event.kind, event.body, masked=event.salt is None)
        masked += event.salt is None
        unsalted += _has_unsalted_digest(event)
        if event.vouch is not None:
            keys.add(event.vouch.key)
        elif not is_own and is_vouched(event.seq, event.salt):
            unvouched += 1
        prev = event
    count = 0 if prev is None else prev.seq
    if expected is not None and type(expected) is not int:  # a column may hold a value of any type
        message = f"the session's line does not count its {_some(count, 'event')}"
        return ChainCheck(session, count, _hash(prev), masked, ChainFault(count, "changed", message))
    if expected is not None and expected > count:
        message = f"{_some(expected - count, 'event')} at the end {_were(expected - count)} removed"
        return ChainCheck(session, count, _hash(prev), masked, ChainFault(count + 1, "removed", message))
    if expected is not None and expected < count:
        message = f"the session's line counts {expected} events, and there are {count}"
        return ChainCheck(
            session, count, _hash(prev), masked, ChainFault(expected + 1, "inserted", message)
        )
    return ChainCheck(
        session,
        count,
        _hash(prev),
        masked,
        unvouched=unvouched,
        keys=frozenset(keys),
        unsalted=unsalted,
    )


def _has_unsalted_digest(event: LinkedEvent) -> bool:
    """Return whether a request has a digest without a salt. A masked request never has a salt."""
    if event.kind != "approval.requested" or event.salt is None:
        return False
    body = json.loads(event.body)
    return body.get("digest") is not None and body.get("digest_salt") is None


def _stored_events(connection: Connection, session: str) -> Iterator[LinkedEvent]:
    def page(after: float, size: int) -> list[LinkedRow]:
        return connection.execute(sql.SELECT_LINKED, (session, after, size)).fetchall()

    before = _LEAST if isinstance(connection, PostgresConnection) else _BEFORE_ALL
    return map(linked, in_pages(page, before))


def _hash(event: LinkedEvent | None) -> bytes | None:
    return None if event is None else event.hash


def follows(event: LinkedEvent, seq: int, prev: bytes | None) -> bool:
    """Return whether an event was recorded with the number `seq` after the event with hash `prev`."""
    place = ChainPosition(event.place.session, seq, event.place.at)
    try:
        if event.salt is not None:
            return event_hash_of_body(place, event.body, event.salt, prev) == event.hash
        return (
            event.content is not None and event_hash(place, event.body, event.content, prev) == event.hash
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False  # columns may hold values of any type


def _kind_of(body: str) -> object:
    """Return the `type` in a body that was parsed before; `None` if an object repeats a name."""
    try:
        members: dict[str, object] = orjson.loads(body)
        if orjson.dumps(members) == body.encode():
            return members.get("type")
    except ValueError:
        pass  # `NaN`, and other texts that orjson rejects
    try:
        value = strict_json(body)
    except ValueError:
        return None
    return value.get("type") if isinstance(value, dict) else None


def strict_json(text: str) -> JsonValue:
    """Parse a JSON text. Raises `ValueError` for invalid JSON, and for an object that repeats a name.

    The hash covers the last of the repeated members, and other parsers may show the first.
    """
    return json.loads(text, object_pairs_hook=_members)


def _members(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        repeated_name = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has two members named '{repeated_name}'")
    return members


def _fault(
    session: str, prev: LinkedEvent | None, event: LinkedEvent, following: Iterator[LinkedEvent]
) -> ChainFault | None:
    seq = 1 if prev is None else prev.seq + 1
    if (
        event.seq == seq
        and event.place.session == session
        and follows(event, seq, _hash(prev))
        and _kind_of(event.body) == event.kind
    ):
        return None
    return _fault_at(seq, prev, [event, *islice(following, _WINDOW)])


def _fault_at(seq: int, prev: LinkedEvent | None, events: Sequence[LinkedEvent]) -> ChainFault:
    """Return the fault at the event number `seq`, judged by the events found from its position on."""
    head, event = _hash(prev), events[0]
    if type(event.seq) is not int:
        return ChainFault(seq, "inserted", f"an event without a number is in the place of event {seq}")
    events = [other for other in events if type(other.seq) is int]
    for at, other in enumerate(events[1:], 1):
        if not follows(other, seq, head):
            continue
        if follows(event, seq + 1, other.hash):
            return ChainFault(seq, "reordered", f"event {seq} is {_some(at, 'place')} later")
        for distance in range(1, len(events)):
            if follows(event, seq + distance, events[distance].hash):
                message = f"event {seq + distance} is {_some(distance, 'place')} earlier"
                return ChainFault(seq, "reordered", message)
        return ChainFault(seq, "inserted", f"{_numbers(seq, at)} {_were(at)} inserted")
    if event.seq > seq:
        count = event.seq - seq
        return ChainFault(seq, "removed", f"{_numbers(seq, count)} {_were(count)} removed")
    if len(events) > 1:
        for count in range(1, _WINDOW):
            if follows(events[1], events[1].seq + count, event.hash):
                message = f"{_numbers(seq, count)} {_were(count)} removed, and the rest renumbered"
                return ChainFault(seq, "removed", message)
    return ChainFault(seq, "changed", f"event {seq} ({event.kind}) was changed")


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _numbers(first: int, count: int) -> str:
    return f"event {first}" if count == 1 else f"events {first} to {first + count - 1}"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
