"""The connection by which a server writes: a batch of events becomes one durable statement.

A statement without an answer may have been executed, or may be executed later. It compares and sets the
lane's number, so of two attempts only the first takes effect. It is sent again; if that has no effect,
the database is asked whose events it has.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from ...core.sanitize import visible
from ..batches.rows import BatchRows, Written
from ..batches.writer import BatchWriter, Refusal, SessionOwner, Silence
from ..database.compiled import DecisionLine
from ..database.connection import Connection
from ..database.location import PostgresLocation
from ..decisions.index import CallEnded
from ..errors import JournalError, SessionRefused, error_text
from ..journal.session_index import SessionLine
from ..model.events import CallDecided, CallResult, JournalEvent, LossAccepted
from .append import (
    APPEND,
    APPEND_ACCEPTING,
    APPEND_COUNTING,
    DISCARDED,
    CountedUse,
    Gap,
    Move,
    UndoneUse,
    arrays,
)
from .connection import (
    PAUSE,
    RECONNECT_SECONDS,
    PostgresConnection,
    connect,
    driver,
    is_away,
    storable,
    unreachable,
)
from .counters import UseCounters, stored_id
from .divergence import Divergence, SessionEnds, divergence_of, may_note
from .server_rows import ServerRows, elsewhere, taken_over
from .servers.lease import Ownership, ServerLease, owner_of
from .servers.orphans import Orphans
from .servers.silence import LEAST_SECONDS

if TYPE_CHECKING:
    from psycopg import Error

log = logging.getLogger(__name__)

CLOSE_SECONDS = 5.0
"""The same, once the journal is to be closed."""
PATIENCE = 10.0
"""Time for the answer to a batch."""
LOOK_SECONDS = 3.0
"""Time for the answer to a short question, for which a whole server waits."""
SILENT_SECONDS = 2.0
"""Time after a lost connection from which the database counts as silent, even if the lease holds."""
MOST_BYTES = 64 << 20
"""Text of events in one statement; PostgreSQL takes a gigabyte of all values together."""
_AGAIN = frozenset({"40001", "40P01", "55P03", "57014"})
"""Codes after which another attempt may do: conflicts, deadlocks, time that is up."""
_UNFIT = ("22", "23", "54")
"""Classes of what is wrong with the values themselves."""
_ENDED = ("done", "failed")
_ACCEPTED = LossAccepted.model_fields["type"].default
_NO_SPACE = "53100"
_PROOF_BYTES = 16 << 10
"""More than a page, so that a table has to be extended."""
_TAKE_SPACE = "INSERT INTO fenced (cursor, server, session, at) VALUES (-1, '', ?, 0)"
_UNRESERVED = (
    "Session '{}' is at this server, but the database has lost a use of a limit over sessions that was "
    "reserved for its call, or has another end of it. Nothing was recorded; make the call again."
)
_NO_RIGHT = "permission denied for table divergence"


class PostgresWriter(BatchWriter):
    """Commits batches to a database.

    `fenced` counts the writes that were refused since another server owned the session.
    """

    def __init__(self, location: PostgresLocation, lease: ServerLease, counters: UseCounters) -> None:
        self._location = location
        self._lease = lease
        self._counters = counters
        self._rows = ServerRows(lease)
        self._claimed: dict[str, Ownership] = {}
        self._orphan_claims = Orphans(lease)
        self._connection: PostgresConnection | None = None
        self._opened = 0.0
        self._asked: PostgresConnection | None = None
        self._away: str | None = None
        self._away_since = 0.0
        self._give_up: float | None = None
        self._last: int | None = None
        self._numbered = 0
        self._lacked_space = False
        self._unsettled = False
        self._ends = SessionEnds(lease)
        connection = self._open()
        if not may_note(connection):
            raise unreachable(location, driver().errors.InsufficientPrivilege(_NO_RIGHT))
        self._numbered = lease.last_number(connection)

    @property
    def away(self) -> str | None:
        return self._away

    @property
    def silence(self) -> Silence | None:
        silence = self._lease.silence
        if silence is None and (away := self._away) is not None:
            seconds = time.monotonic() - self._away_since
            # A connection that was lost is usually replaced at once.
            silence = Silence(seconds, away) if seconds >= SILENT_SECONDS else None
        return silence

    @property
    def is_held(self) -> bool:
        return self._lease.holds()

    def last_cursor(self, connection: Connection) -> int:
        """The cursor of this server's latest event, read on another connection."""
        assert isinstance(connection, PostgresConnection)
        # A database that lost some of them does not get others of the same number.
        return self._lease.base() + max(self._numbered, self._lease.last_number(connection))

    def commit(self, batch: Sequence[Written]) -> dict[str, Refusal]:
        """Write `batch`; returns once it is durable and this server may answer.

        Returns the errors of the sessions whose events were not taken: other servers own them, or what
        they hold cannot be stored. Raises `JournalDisturbed` once another server has ended this one, and
        `psycopg.Error` where the database did not take the batch, or it cannot be found out.
        """
        if not batch:
            return {}
        refused: dict[str, Refusal] = {}
        until = time.monotonic() + RECONNECT_SECONDS
        while self._claimed:
            session, owned = self._claimed.popitem()
            self._forget(session)
            self._rows.claimed[session] = owned
        try:
            for part in _parts(batch):
                self._take(part, refused, until)
        except BaseException as error:
            self._rows.sessions.clear()
            self._last = None
            if getattr(error, "sqlstate", None) == _NO_SPACE:
                self._lacked_space = True
            raise
        self._lacked_space = False
        if not self._lease.holds() and not self._lease.wait_until_held(RECONNECT_SECONDS):
            raise self._lease.taken()
        return refused

    def _take(self, batch: Sequence[Written], refused: dict[str, Refusal], until: float) -> None:
        """Write a batch; where the database refuses its values, all of it but for the faulty session."""
        try:
            self._write(batch, refused, until)
        except (ValueError, LookupError, OverflowError, driver().Error) as error:
            if not _is_unfit(error):
                raise
            self._rows.sessions.clear()
            runs = _runs([each for each in batch if each.event.session not in refused])
            if len(runs) > 1:
                middle = len(runs) // 2
                for half in (runs[:middle], runs[middle:]):
                    self._take([each for run in half for each in run], refused, until)
            elif runs:
                event = runs[0][0].event
                refused[event.session] = Refusal(_unfit(event, error), event.seq)

    def _write(self, batch: Sequence[Written], refused: dict[str, Refusal], until: float) -> None:
        psycopg = driver()
        while True:
            try:
                rows = self._made(batch, refused)
                break
            except psycopg.Error as error:
                self._rows.sessions.clear()
                self._recover(error, until)
        if rows.events:
            self._append(rows, refused, until)

    def _made(self, batch: Sequence[Written], refused: dict[str, Refusal]) -> BatchRows:
        """The rows of `batch` but for sessions of other servers, whose errors go into `refused`."""
        connection = self._open()
        while True:
            mine: list[Written] = []
            accepting: set[str] = set()
            for each in batch:
                session = each.event.session
                if isinstance(each.event.body, LossAccepted):
                    accepting.add(session)
                divergence = None if session in accepting else self._ends.open.get(session)
                if divergence is not None and session not in refused:
                    refused[session] = Refusal(divergence.error(), each.event.seq)
                if session not in refused:
                    mine.append(each)
            try:
                return self._rows.rows(connection, mine)
            except SessionRefused as error:
                # The events before were counted in: what is known of their sessions is read again.
                self._rows.sessions.clear()
                self._ends.check(connection, error.session)
                first = next(each.event.seq for each in mine if each.event.session == error.session)
                divergence = self._ends.open.get(error.session)
                refused[error.session] = Refusal(divergence.error() if divergence else error, first)

    def _append(self, rows: BatchRows, refused: dict[str, Refusal], until: float) -> None:
        psycopg = driver()
        ends = self._rows.sessions
        moves = [
            Move(line.id, ends[line.id].epoch, seq, head or b"", line.events, ends[line.id].head or b"")
            for line in sorted(rows.lines, key=_id)
            for seq, head in [rows.before[line.id]]
        ]
        accepting = [each.session for each in rows.events if each.type == _ACCEPTED]
        statement = APPEND_COUNTING if rows.counting else APPEND
        if accepting:
            statement = APPEND_ACCEPTING
        values: dict[str, Any] | None = None
        again = False
        while True:
            try:
                connection = self._open()
                if rows.counting:
                    self._counters.renew(connection, self._opened)
                if values is None:
                    values = self._values(rows, moves, self._last_number(connection))
                    values["accepting"] = accepting
                rows_written = connection.execute_named(statement, values).fetchall()
                if rows_written:
                    written_sessions = {session for (session,) in rows_written if session is not None}
                    break
                if self._lease.settled_number(connection) != values["last"] or not again:
                    raise _Stale("what this server last wrote is not what the database has")
                written_sessions = self._kept(connection, moves)
                break
            except _Stale as error:
                self._drop()  # it may have been restored from a copy: the next connection compares
                raise psycopg.OperationalError(str(error)) from None
            except psycopg.Error as error:
                self._recover(error, until)
                again = True
        self._last = self._numbered = values["last"]
        for event in rows.counting:
            if isinstance(event.body, CallDecided):
                self._counters.note_kept(event.session, event.body.call_id)
        for move in moves:
            if move.session in written_sessions:
                end = ends[move.session]
                end.epoch = move.epoch or 1
                is_over = end.line.status in _ENDED
                self._ends.note(move.session, move.new_seq, move.new_hash, is_over=is_over)
                if move.session in accepting:
                    self._ends.accept(move.session)
            else:
                self.fenced += 1
                refused[move.session] = Refusal(self._not_ours(move.session), move.seq + 1)
                self._forget(move.session)

    def _last_number(self, connection: PostgresConnection) -> int:
        if self._last is None:
            self._last = self._lease.settled_number(connection)
        return self._last

    def _values(self, rows: BatchRows, moves: Sequence[Move], before: int) -> dict[str, Any]:
        """The values of the statement that appends `rows`. Raises `_Stale` for numbers that are taken."""
        base = self._lease.base()
        cursors = [each.cursor for each in rows.events]
        if cursors[0] <= base + before:
            raise _Stale("what it sent before it lost the connection was taken late")
        gaps: list[Gap] = []
        start = base + max(before, self._numbered)
        if cursors[-1] - start != len(cursors):
            present = set(cursors)
            gaps = [
                Gap(cursor, "", rows.events[0].at)
                for cursor in range(start + 1, cursors[-1])
                if cursor not in present
            ]
        lines: dict[int, DecisionLine] = {}
        results: list[CallEnded] = []
        for change in rows.decisions:
            if isinstance(change, DecisionLine):
                lines[change.cursor] = change
            elif change.cursor in lines:  # a statement does not see the rows that it adds
                lines[change.cursor] = lines[change.cursor]._replace(result=change.result)
            else:
                results.append(change)
        return {
            "server": self._lease.id,
            "lane": self._lease.lane,
            "before": before,
            "last": cursors[-1] - base,
            **arrays(
                m=moves,
                s=[line.row() for line in rows.lines],
                e=rows.events,
                d=[*lines.values()],
                r=results,
                g=gaps,
                **self._uses(rows.counting),
            ),
        }

    def _uses(self, events: Sequence[JournalEvent]) -> dict[str, Sequence[Any]]:
        """The uses that events take and give back. Only what is reserved has to be so still."""
        uses: dict[tuple[str, str, str], CountedUse] = {}
        undone: list[UndoneUse] = []
        for event in events:
            session, body = event.session, event.body
            if isinstance(body, CallDecided):
                reservation = self._counters.reserved(session, body.call_id)
                at = body.clock or event.at.timestamp()
                if reservation is None:  # another journal's, or from before
                    continue
                for net in body.uses:
                    use = CountedUse(reservation, storable(net), session, at, False)
                    uses[session, body.call_id, net] = use
            elif isinstance(body, CallResult):
                for net in dict.fromkeys(step.net for step in body.undone):
                    # A statement changes a row once.
                    if (use := uses.get((session, body.call_id, net))) is not None:
                        uses[session, body.call_id, net] = use._replace(undone=True)
                    else:
                        undone.append(UndoneUse(session, stored_id(body.call_id), storable(net)))
        return {"u": [*uses.values()], "x": undone}

    def _kept(self, connection: PostgresConnection, moves: Sequence[Move]) -> set[str]:
        """The sessions whose end is the one that a batch gave them."""
        sessions = [move.session for move in moves]
        rows = connection.execute(
            "SELECT session, seq, hash FROM owner WHERE session = ANY(?)", (sessions,)
        ).fetchall()
        ends = {str(session): (int(seq), bytes(head)) for session, seq, head in rows}
        ours = {move.session: (move.new_seq, move.new_hash) for move in moves}
        return {session for session, end in ours.items() if ends.get(session) == end}

    def _not_ours(self, session: str) -> SessionRefused:
        with suppress(driver().Error, JournalError):
            connection = self._open()
            self._ends.check(connection, session)
            if (divergence := divergence_of(connection, session)) is not None:
                return divergence.error()
            owner = owner_of(connection, session)
            if owner is not None and owner.id == self._lease.id:
                return SessionRefused(_UNRESERVED.format(visible(session)), session=session)
            return elsewhere(connection, session)
        return taken_over(session)

    def _forget(self, session: str) -> None:
        self._rows.sessions.pop(session, None)
        self._rows.claimed.pop(session, None)
        self._ends.forget(session)

    # The connection

    def _open(self) -> PostgresConnection:
        """The connection; a new one, where the database has what it had acknowledged, after a loss."""
        if self._connection is None:
            connection = connect(self._location, name="interlock journal", patience=self._overdue)
            try:
                self._ends.compare(connection)
            except BaseException:
                connection.close()
                raise
            for session in self._ends.open:  # what is known of them is not what the database has
                self._rows.sessions.pop(session, None)
            self._connection = connection
            self._opened = time.monotonic()
            self._last = None
            self._away = None
        return self._connection

    @property
    def _closes_silent(self) -> bool:
        """True if the journal is to be closed while the database does not answer."""
        return self._give_up is not None and self._lease.silence is not None

    def _overdue(self, waited: float) -> str | None:
        """Return the error of a statement that has waited too long; the limit is lower while closing."""
        is_over = self._give_up is not None and time.monotonic() > self._give_up
        limit = min(LEAST_SECONDS, PATIENCE) if is_over or self._closes_silent else PATIENCE
        return f"no answer within {limit:g} s" if waited > limit else None

    def _recover(self, error: Error, until: float) -> None:
        """Wait for another attempt after `error`. Raises it where there will be none, or none in time."""
        lost = self._connection is None or self._connection.raw.closed or self._connection.raw.broken
        state = error.sqlstate
        if not lost and state in _AGAIN and not self._is_late(until):
            time.sleep(PAUSE)
            return
        if not lost and not is_away(error):
            raise error
        self._reconnect(error, until)

    def _reconnect(self, error: Exception, until: float) -> None:
        """Wait for the database to answer again. Raises `psycopg.Error` once it took too long."""
        psycopg = driver()
        while True:
            self._drop(error)
            if self._lease.ended:
                raise self._lease.taken()
            if self._is_late(until):
                raise error
            try:
                self._open().execute("SELECT 1")
            except psycopg.OperationalError as failed:
                error = failed
                time.sleep(PAUSE)
            else:
                return

    def _is_late(self, until: float) -> bool:
        at = time.monotonic()
        return at > until or self._closes_silent or (self._give_up is not None and at > self._give_up)

    def _drop(self, error: Exception | None = None) -> None:
        if error is not None:
            if self._away is None:
                self._away_since = time.monotonic()
            self._away = error_text(error)
        if self._connection is not None:
            with suppress(driver().Error):
                self._connection.close()
        self._connection = None

    def prove(self) -> None:
        """Write an empty batch, with the rights, locks and acknowledgements that every batch needs.

        If the disk was full, first extend a table by what an event may need, and take that back. Raises
        `psycopg.Error` if the database rejects it, and `JournalDisturbed` as `commit` does.
        """
        try:
            connection = self._open()
            if self._lacked_space:
                with connection.raw.transaction(force_rollback=True):
                    connection.execute(_TAKE_SPACE, (secrets.token_hex(_PROOF_BYTES),))
                self._lacked_space = False
            last = self._lease.settled_number(connection)
            nothing = arrays(m=[], s=[], e=[], d=[], r=[], g=[], u=[], x=[])
            names = {"server": self._lease.id, "lane": self._lease.lane, "before": last, "last": last}
            connection.execute_named(APPEND, {**names, **nothing}).fetchall()
        except driver().Error as error:
            lost = self._connection is None or self._connection.raw.closed
            if lost or is_away(error):
                self._drop(error)
            raise
        if not self._lease.holds():
            raise unreachable(self._location, driver().OperationalError("the lease was not renewed"))

    def returned(self) -> bool:
        try:
            self._open().execute("SELECT 1")
        except (driver().Error, JournalError) as error:
            self._drop(error)
            return False
        return True

    def hurry(self) -> None:
        self._counters.hurry()
        if self._give_up is None:
            self._give_up = time.monotonic() + CLOSE_SECONDS

    @contextmanager
    def looking(self) -> Generator[PostgresConnection, None, None]:
        psycopg = driver()
        keeps_connection = False
        try:
            if self._asked is None or self._asked.raw.closed:
                self._asked = connect(self._location, patience=LOOK_SECONDS)
            try:
                self._asked.execute("SELECT 1")
            except psycopg.OperationalError:
                self._asked.close()
                self._asked = connect(self._location, patience=LOOK_SECONDS)
            yield self._asked
            keeps_connection = True
        except psycopg.Error as error:
            raise unreachable(self._location, error) from error
        finally:
            if not keeps_connection and self._asked is not None:
                self._asked.close()
                self._asked = None

    def close(self) -> None:
        self._drop()
        if self._asked is not None:
            self._asked.close()

    # Sessions of other servers

    def orphans(self, limit: int) -> list[str]:
        with self._questions() as connection:
            self._ends.settle(connection)
            self._ends.follow(connection)
            claims = self._orphan_claims.claim(connection, limit, self._ends.open)
        self._claimed.update(claims)
        return [*claims]

    @property
    def newer_sessions(self) -> Mapping[str, str]:
        return {session: each.reason for session, each in self._orphan_claims.newer.items()}

    @property
    def diverged_sessions(self) -> Mapping[str, Divergence]:
        return self._ends.open

    def take_stopped(self) -> Mapping[str, Divergence]:
        return self._ends.take_stopped()

    def divergence(self, session: str) -> Divergence | None:
        with self._questions() as connection:
            self._ends.settle(connection)
            return divergence_of(connection, session)

    def note_followed(self, session: str, seq: int, *, is_over: bool) -> None:
        self._ends.note_followed(session, seq, is_over=is_over)

    def settle(self) -> None:
        if self._unsettled:  # whoever ends a server does not wait for that twice
            return
        until = time.monotonic() + CLOSE_SECONDS
        if self._lease.ended:  # also by a database that was restored from a copy without this server
            self._ends.doubt()
        while self._ends.known:
            silence = None if self._lease.ended else self._lease.silence
            if silence is not None:  # an attempt to connect would take seconds
                self._lease.leave_silently()
                raise unreachable(self._location, driver().OperationalError(silence.reason))
            try:
                with self._questions(CLOSE_SECONDS) as connection:
                    self._ends.settle(connection)
            except JournalError:
                if time.monotonic() > until:
                    self._unsettled = True
                    self._lease.leave_silently()
                    raise
                time.sleep(PAUSE)
            else:
                return

    def owner(self, session: str) -> SessionOwner | None:
        with self._questions() as connection:
            return owner_of(connection, session)

    def release(self, session: str) -> None:
        self._claimed.pop(session, None)
        with self._questions() as connection:
            self._ends.settle(connection)
            self._lease.let_go(connection, session)
        self._forget(session)

    @contextmanager
    def _questions(self, patience: float | None = None) -> Generator[PostgresConnection, None, None]:
        psycopg = driver()
        try:
            connection = connect(self._location, patience=patience or PATIENCE)
            try:
                yield connection
            finally:
                connection.close()
        except psycopg.Error as error:
            raise unreachable(self._location, error) from error


class _Stale(Exception):  # noqa: N818 - says what was found
    """The lane's number is not the one that a batch was to follow."""


def _id(line: SessionLine) -> str:
    return line.id


def _parts(batch: Sequence[Written]) -> list[list[Written]]:
    """A batch in parts that a statement can take."""
    parts: list[list[Written]] = [[]]
    size = 0
    for each in batch:
        length = len(each.body[0])
        if size + length > MOST_BYTES and parts[-1]:
            parts.append([])
            size = 0
        size += length
        parts[-1].append(each)
    return parts


def _runs(batch: Sequence[Written]) -> list[list[Written]]:
    """A batch in its stretches of one session each: what was handed over together stays together."""
    runs: list[list[Written]] = []
    for each in batch:
        if not runs or runs[-1][0].event.session != each.event.session:
            runs.append([])
        runs[-1].append(each)
    return runs


def _is_unfit(error: Exception) -> bool:
    """Tell whether the values of a batch are at fault, by what the database or its library says."""
    psycopg = driver()
    if not isinstance(error, psycopg.Error):
        return True
    state = cast("Error", error).sqlstate
    return isinstance(error, psycopg.DataError) if state is None else state.startswith(_UNFIT)


def _unfit(event: JournalEvent, error: Exception) -> SessionRefused:
    text = visible(" ".join(str(error).split()))
    if DISCARDED in text:
        text = DISCARDED
    return SessionRefused(
        f"Event {event.seq} of session '{visible(event.session)}' ('{event.body.type}') cannot be "
        f"stored: {text}. Nothing was recorded of it; other sessions are not affected.",
        session=event.session,
    )
