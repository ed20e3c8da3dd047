"""Removal of sessions that are too old to keep; a signed stub stays for each of them.

The stub says how long the session was and how its chain ended. An earlier export can be compared with it,
and the file's count of events stays correct.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pydantic import JsonValue

from ..database import compiled as sql
from ..database.connection import ALL_ROWS, Connection
from ..database.location import Location, resolved
from ..errors import JournalError
from ..journal.maintenance import changeable, changing, stored
from ..journal.rows import event_of
from ..journal.schema import inspect, name_of, reading
from ..journal.session_index import DIVERGED, SessionLine
from ..model.times import from_ms
from ..postgres.connection import PostgresConnection, storable
from ..postgres.maintenance import remove_owners
from .canonical_json import canonical
from .signing import Signer, signed
from .stream import sent_events, unsent
from .stream_positions import SentEvents
from .verify import ChainCheck, ChainFault, check_session, require_journal

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Stub:
    """Stub of a session that was pruned at `at` by `by`. Times in UTC milliseconds."""

    session: str
    agent: str
    opened: int
    updated: int
    events: int
    head: bytes
    at: int
    by: str

    def message(self) -> bytes:
        """Return the text to sign: canonical JSON of all members and a version, hashes in hexadecimal."""
        members: dict[str, JsonValue] = {**asdict(self), "head": self.head.hex(), "v": _VERSION}
        return canonical(members).encode()


@dataclass(frozen=True, slots=True)
class StubCheck:
    """A stub, whether its signature is valid, and the public key."""

    stub: Stub
    good: bool
    key: bytes


@dataclass(frozen=True, slots=True)
class Pruning:
    """Sessions that were removed, and those kept because their broken chain is evidence.

    `questions` has, by session, the number of approval requests that were still open in it; they will not
    be asked again. `held` are old sessions that did not end and that a server owns. `unsent` are those
    with events that audit streams still have to send, with the streams' names. The removed data `lingers`
    in the file while another process reads an earlier state: it is overwritten when the journal is next
    opened and closed without a reader.
    """

    pruned: tuple[Stub, ...]
    kept: tuple[ChainCheck, ...]
    questions: Mapping[str, int] = field(default_factory=dict[str, int])
    held: tuple[str, ...] = ()
    unsent: Mapping[str, Sequence[str]] = field(default_factory=dict[str, "Sequence[str]"])
    lingers: bool = False


def prune(
    path: Location,
    *,
    before: int,
    by: str,
    at: int,
    key: Path,
    dry: bool = False,
    even_unsent: bool = False,
) -> Pruning:
    """Remove the sessions of the journal at `path` that last changed before `before`.

    The stubs are signed with the key in the file `key`, which is created if there is none. Times are UTC
    milliseconds. With `dry` the journal is only read, even while it is written. Sessions that an audit
    stream still has to send are kept unless `even_unsent`; they are then never sent. Raises
    `JournalError`.
    """
    if dry:
        require_journal(path)
        with reading(path) as connection:
            connection.execute("BEGIN")
            streams = {} if even_unsent else sent_events(connection, path)
            return _choose(connection, path, before, by, at, streams, lock=False)
    with changing(path, shrink=True) as connection:
        streams = {} if even_unsent else sent_events(connection, path)
        pruning = _choose(connection, path, before, by, at, streams, lock=True)
        if pruning.pruned:
            signer = Signer.open(key)
            connection.executemany(
                sql.INSERT_STUB,
                [
                    (*asdict(stub).values(), signer.public, signer.sign(stub.message()))
                    for stub in pruning.pruned
                ],
            )
            session_rows = [(stub.session,) for stub in pruning.pruned]
            if isinstance(connection, PostgresConnection):
                remove_owners(connection, [stub.session for stub in pruning.pruned])
            for statement in (sql.DELETE_DECISIONS_OF_SESSION, sql.DELETE_EVENTS, sql.DELETE_SESSION):
                connection.executemany(statement, session_rows)
    return replace(pruning, lingers=bool(pruning.pruned) and _has_log(path))


def _has_log(path: Location) -> bool:
    """Return whether the write-ahead log could not be moved into the file."""
    path = resolved(path)
    if not isinstance(path, Path):
        return False
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and log.stat().st_size > 0


def _choose(
    connection: Connection,
    path: Location,
    before: int,
    by: str,
    at: int,
    streams: Mapping[str, SentEvents],
    *,
    lock: bool,
) -> Pruning:
    """Return the sessions to remove, and those that are old but must be kept."""
    old = connection.execute(sql.SELECT_SESSIONS_UNCHANGED_SINCE, (before,)).fetchall()
    free = changeable(connection, [row[0] for row in old], lock=lock)
    # Read again: sessions may have continued until they were locked.
    rows = connection.execute(sql.SELECT_SESSIONS_UNCHANGED_SINCE, (before,)).fetchall()
    busy_sessions = tuple(row[0] for row in rows if row[0] not in free)
    new_stubs: list[Stub] = []
    retained_sessions: list[ChainCheck] = []
    questions: dict[str, int] = {}
    streams_by_session: dict[str, Sequence[str]] = {}
    for row in rows:
        if row[0] not in free:
            continue
        if waiting_streams := unsent(connection, row[0], streams):
            streams_by_session[row[0]] = waiting_streams
            continue
        line = SessionLine.of_row(row)
        check = check_session(connection, line.id, line.events, line.imported)
        if check.fault is None and check.head is not None:
            why = _reason_to_keep(connection, path, line)
            if why is None:
                # As both databases store it, so that its signature is valid in a copy as well.
                members = (line.id, storable(line.agent), line.opened, line.updated, line.events)
                new_stubs.append(Stub(*members, check.head, at, by))
                if line.waiting:
                    questions[line.id] = line.waiting
                continue
            check = replace(check, fault=ChainFault(check.events, "changed", why))
        retained_sessions.append(check)
    return Pruning(
        tuple(new_stubs), tuple(retained_sessions), questions, busy_sessions, streams_by_session
    )


def _reason_to_keep(connection: Connection, path: Location, line: SessionLine) -> str | None:
    """Return why to keep a session with an intact chain: its line, which gives age and stub, is wrong."""
    if connection.execute(sql.SELECT_STUB, (line.id,)).fetchone():
        return "a session of this id was pruned before"
    if line.status == DIVERGED:
        return "it diverged, and nobody accepted yet that events of it are lost"
    rows = connection.execute(sql.SELECT_EVENTS, (line.id, 0, ALL_ROWS))
    try:
        rebuilt_line = SessionLine.of(event_of(row, path) for row in rows)
    except (ValueError, JournalError):
        return "its events cannot be read; a newer Interlock may have written them"
    if stored(connection, replace(rebuilt_line, imported=line.imported).row()) != line.row():
        return "its line does not match its events; use: interlock history rebuild"
    return None


def stubs(path: Location) -> Iterator[StubCheck]:
    """Yield the stubs of the pruned sessions, each checked, oldest first. Raises `JournalError`."""
    if inspect(path)[0] == "fresh":
        raise JournalError(f"Journal '{name_of(path)}' has never been pruned.")
    with reading(path) as connection:
        rows = connection.execute(sql.SELECT_STUBS).fetchall()
    yield from map(_check_stub, rows)


def _is_time(ms: int) -> bool:
    try:
        from_ms(ms)
    except OverflowError:
        return False
    return True


def _check_stub(row: tuple[object, ...]) -> StubCheck:
    match row:
        case (
            str(session),
            str(agent),
            int(opened),
            int(updated),
            int(events),
            bytes(head),
            int(at),
            str(by),
            bytes(key),
            bytes(signature),
        ):
            stub = Stub(session, agent, opened, updated, events, head, at, by)
            is_valid = all(map(_is_time, (opened, updated, at))) and signed(
                stub.message(), signature, key
            )
            return StubCheck(stub, is_valid, key)
        case _:  # columns may hold values of any type
            return StubCheck(Stub(str(row[0]), "", 0, 0, 0, b"", 0, ""), good=False, key=b"")
