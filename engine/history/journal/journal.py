"""The journal: events made durable in the order in which they were handed over.

One thread writes, on one connection. Events handed over during a commit share the next one, so many
callers cause few commits and a single caller does not wait for others.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...core.clock import Clock, utc_now
from ...core.sanitize import visible
from ...core.shared_limit import CounterStore
from ..batches.rows import Written
from ..batches.writer import BatchWriter, Refusal, SessionOwner
from ..database.compiled import SELECT_LAST_EVENT
from ..database.connection import Connection
from ..database.location import Location, PostgresLocation, absolute
from ..errors import JournalDisturbed, JournalError, ServerEnded, SessionBehind, error_text
from ..model.events import EventBody, JournalEvent, SessionOpened
from ..model.fast_models import construct_model, construct_tuple
from ..model.records import JournalOutage
from ..model.times import from_ms, to_ms
from .encoding import Encoded, encoded
from .lock import WriteLock
from .reader import HistoryReader
from .rows import known_event
from .schema import CURRENT, Schema, inspect, name_of
from .write_monitor import WriteMonitor

if TYPE_CHECKING:
    from ..postgres.divergence import Divergence
    from .read_connections import Connections

__all__ = ["Journal", "JournalError"]

log = logging.getLogger(__name__)

_PING_SECONDS = 0.5
"""Seconds between two checks whether an unavailable database answers again."""
HELD_SECONDS = 30.0
"""Time for which a server waits for its lease before what it recorded counts as another one's."""
HELD_PAUSE = 0.05
_REMEDY = "Nothing was recorded; check the free space and the permissions."


class _Waiter(NamedTuple):
    """Events handed over by a caller: `future` gets `result`, in the thread of `loop` if there is one."""

    written: Sequence[Written]
    loop: asyncio.AbstractEventLoop | None
    future: asyncio.Future[Any] | Future[Any]
    result: tuple[JournalEvent, ...] | None


@dataclass(slots=True)
class _Head:
    """A session's last event: its number and its time in UTC milliseconds."""

    seq: int
    at: int


class Commit(NamedTuple):
    """One attempt to make a batch durable: its number of events, its duration in seconds, its success."""

    events: int
    seconds: float
    ok: bool


class JournalLock(Protocol):
    """Right of this process to write: a lock on the file, or a server's lease in a database."""

    def name_server(self, url: str) -> None: ...
    def release(self) -> None: ...


class Journal:
    """A database of events, open for writing. Create it with `Journal.open`; any thread may use it.

    Events are numbered when they are handed over, so call order is the order of the record. Other readers
    see them only once they are durable. If a commit fails, all events that were handed over and are not
    yet durable fail with it, and numbering continues from the last event in the database. A caller that
    hands over events before it learns of the failure names the event that they depend on: see `submit`.
    Once another program has changed the files, no more events are accepted.
    """

    def __init__(self, path: Location, lock: JournalLock, writer: BatchWriter, clock: Clock) -> None:
        self.path: Location = path
        self._lock = lock
        self._writer = writer
        self._clock = clock
        self._connections = _connections_to(path)
        self._reader = HistoryReader(path, self._connections, made=known_event)
        self._mutex = threading.Lock()
        self._queued = threading.Condition(self._mutex)
        self._queue: list[_Waiter] = []
        self._under_way: list[_Waiter] = []
        self._tasks: list[tuple[Callable[[], None], Future[None]]] = []
        self._heads: dict[str, _Head] = {}
        self._cursor: int | None = None
        self._now = 0, from_ms(0)
        self._closing = False
        self.is_handed_over = False
        """True once other servers continue all sessions: how the sessions end here is not recorded."""
        self._disturbed: JournalDisturbed | None = None
        self._closed = threading.Event()
        self._monitor = WriteMonitor(clock)
        self._written: float | None = None
        self.on_commit: Callable[[Commit], None] | None = None
        """Called in the writing thread after each batch, once its waiters are released."""
        self.on_servers_ended: Callable[[], None] | None = None
        """Called in a separate thread when other servers of the database have ended: see `orphans`."""
        self.counters: CounterStore | None = None
        """Counters of limits over sessions that are shared with other servers, if any."""
        self._thread = threading.Thread(target=self._run, name=f"journal {name_of(path)}", daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls,
        path: Path | PostgresLocation | str,
        *,
        clock: Clock | None = None,
        schema: Schema = CURRENT,
    ) -> Journal:
        """Open the journal at `path` for writing; create it, and its directory, if there is none.

        `clock` dates the events. Its default is the machine's clock for a file. For a database it is the
        database's own clock, on which all servers agree.

        An older journal is upgraded: a file after a copy was made, a database's tables in one
        transaction. Raises `JournalError`, naming the file and the remedy, for a file that is not a
        journal, is damaged, comes from a newer version that is not compatible with this one, cannot be
        written, or is being written by another process. Such a file is left unchanged.
        """
        path = absolute(path)
        if not isinstance(path, Path):
            return cls._open_database(path, clock, schema)
        return cls._open_file(path, clock or utc_now, schema)

    @classmethod
    def _open_file(cls, path: Path, clock: Clock, schema: Schema) -> Journal:
        import sqlite3

        from .file_schema import prepare
        from .writer import Writer

        name = name_of(path)
        try:
            path = path.resolve()
            inspect(path, schema)
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JournalError(
                f"Cannot make the directory of journal '{name}': {error.strerror}. Choose another place."
            ) from error
        lock = WriteLock.acquire(path)
        try:
            prepare(path, schema)
            return cls(path, lock, Writer(path), clock)
        except sqlite3.Error as error:
            lock.release()
            raise JournalError(
                f"Cannot write journal '{name}': {error}. "
                "Check the permissions of the file and its directory and the free space."
            ) from error
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _open_database(cls, location: PostgresLocation, clock: Clock | None, schema: Schema) -> Journal:
        from ..postgres.connection import driver, unreachable
        from ..postgres.counters import UseCounters
        from ..postgres.schema import prepare as prepare_schema
        from ..postgres.servers.lease import ServerLease
        from ..postgres.writer import PostgresWriter

        prepare_schema(location, schema)
        lease = ServerLease.take(location, schema)
        try:
            counters = UseCounters(lease)
            writer = PostgresWriter(location, lease, counters)
            journal = cls(location, lease, writer, clock or lease.clock)
        except driver().Error as error:
            lease.release()
            raise unreachable(location, error) from error
        except BaseException:
            lease.release()
            raise
        journal.counters = counters
        lease.on_expired = journal._tell_servers_ended
        lease.on_ended = lambda: journal._disturb(lease.taken())
        return journal

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def clock(self) -> Clock:
        """The clock that dates events."""
        return self._clock

    @property
    def disturbed(self) -> str | None:
        """Reason why no more events are accepted: changed files, or another server that took over."""
        return None if self._disturbed is None else str(self._disturbed)

    @property
    def outage(self) -> JournalOutage | None:
        """The outage in which nothing can be recorded; `None` in normal times, and after a hand-over."""
        if self.is_handed_over:
            return None
        return self._monitor.outage(self._writer.silence, self.disturbed)

    def check_takes(self) -> None:
        """Raise `JournalDisturbed` if no more events are accepted."""
        if self._disturbed is not None:
            raise _again(self._disturbed)

    @property
    def is_held(self) -> bool:
        """Return whether what is recorded may be acted on now.

        It may not in a server whose lease has expired, for example as the process was paused: other
        servers may have confirmed a freeze since, or taken its sessions.
        """
        return self._writer.is_held

    async def until_held(self) -> None:
        """Wait until `is_held`. Raises `JournalDisturbed` once others have, or may have, taken over."""
        until = time.monotonic() + HELD_SECONDS
        while not self.is_held:
            self.check_takes()
            if self._closing or time.monotonic() > until:
                raise ServerEnded(
                    f"Journal '{name_of(self.path)}': the lease of this server has expired, and another "
                    "one may have taken its sessions."
                )
            await asyncio.sleep(HELD_PAUSE)

    @property
    def lock(self) -> JournalLock:
        """The right of this process to write: a lock on the file, or a server's lease in a database."""
        return self._lock

    @property
    def written(self) -> float | None:
        """The time of the last durable write, by `time.monotonic`; `None` before the first."""
        return self._written

    @property
    def fenced(self) -> int:
        """Number of writes that were rejected because another server owned the session."""
        return self._writer.fenced

    def prove(self) -> Future[None]:
        """Have the writing thread make a durable change that adds nothing to the record.

        The future ends with `None`, or with the error that prevented the change; `written` is then
        unchanged.
        """
        future: Future[None] = Future()

        with self._queued:
            if self._closing:
                future.set_exception(JournalError(f"Journal '{name_of(self.path)}' is closed."))
            elif self._disturbed is not None:
                future.set_exception(_again(self._disturbed))
            else:
                self._tasks.append((self._prove, future))
                self._queued.notify()
        return future

    def _prove(self) -> None:
        self._monitor.begin()
        try:
            self._writer.prove()
        except Exception as error:
            self._monitor.end(error)
            if isinstance(error, JournalDisturbed):
                self._disturb(error)
            raise
        self._monitor.end(None)
        self._written = time.monotonic()

    def name_server(self, url: str) -> None:
        """Record the URL of the server that writes the journal, for processes that find it in use."""
        self._lock.name_server(url)

    def reader(self) -> HistoryReader:
        """Return a reader of the durable events of this journal; any thread may use it.

        It raises `SessionNewer` for events that only a newer version knows, because a writer acts on what
        it reads.
        """
        return self._reader

    # Sessions of other servers

    def orphans(self, limit: int) -> list[str]:
        """Take unfinished sessions that no process owns, oldest first.

        Takes at most `limit` sessions, plus their subagents': call it until it returns none. This journal
        may then continue or end them. Servers that share a database never get the same session, and this
        version does not get any of `newer_sessions`. Set `on_servers_ended` before the first call. Raises
        `JournalError`.
        """
        sessions = self._writer.orphans(limit)
        if sessions is None:
            return [each.id for each in reversed(self._reader.unfinished())][:limit]
        with self._mutex:
            self._forget_heads(sessions)
        return sessions

    @property
    def newer_sessions(self) -> Mapping[str, str]:
        """Sessions without a server that this version does not take, with the reason: see `orphans`."""
        return self._writer.newer_sessions

    @property
    def diverged_sessions(self) -> Mapping[str, Divergence]:
        """Sessions that accept no more events: the database lost acknowledged events of them.

        They are those that this server noticed, and those that `orphans` last read from the database.
        """
        return self._writer.diverged_sessions

    def take_stopped(self) -> Mapping[str, Divergence]:
        """Return sessions of this server that were found to have diverged since the last call.

        Their live states are not what the database has, even if the loss was accepted elsewhere since.
        """
        return self._writer.take_stopped()

    def check_whole(self, session: str) -> None:
        """Raise `SessionDiverged` if the database lost events of a session. Raises `JournalError`."""
        if (divergence := self._writer.divergence(session)) is not None:
            raise divergence.error()

    def divergence(self, session: str) -> Divergence | None:
        """Return a session's divergence that nobody accepted, and read its head again if there is one.

        Raises `JournalError`.
        """
        divergence = self._writer.divergence(session)
        if divergence is not None:
            with self._mutex:
                self._forget_heads([session])
        return divergence

    def note_followed(self, session: str, seq: int, *, is_over: bool) -> None:
        """Note the number of an event of another server's session: the database must not lose it."""
        self._writer.note_followed(session, seq, is_over=is_over)

    def owner(self, session: str) -> SessionOwner | None:
        """Return the living server that owns a session, this one or another; `None` if there is none.

        Raises `JournalError`. A file has no servers.
        """
        return self._writer.owner(session)

    def release(self, session: str) -> None:
        """Release a session to any server, this one included, once all events handed over are durable.

        Raises `JournalError` if the database cannot be reached.
        """
        future: Future[None] = Future()

        def task() -> None:
            self._writer.release(session)
            with self._mutex:
                self._forget_heads([session])

        with self._queued:
            if self._closing:
                return
            self._tasks.append((task, future))
            self._queued.notify()
        future.result()

    def hand_over(self) -> None:
        """Release all sessions, unchanged, to the database's other servers once all events are durable.

        No more events are accepted from then on.
        """
        future: Future[None] = Future()
        with self._queued:
            if self._closing or self._disturbed is not None:
                return
            self.is_handed_over = True
            self._disturbed = ServerEnded(
                f"Journal '{name_of(self.path)}': this server is stopping, and its sessions continue "
                "at another one. It records and allows nothing more."
            )
            self._tasks.append((self._leave, future))
            self._queued.notify()
        future.result()

    def _forget_heads(self, sessions: Iterable[str]) -> None:
        """Forget the last events of `sessions` so that they are read again, except where events wait."""
        open_ = (*self._under_way, *self._queue)
        waiting = {each.event.session for waiter in open_ for each in waiter.written}
        for session in sessions:
            if session not in waiting:
                self._heads.pop(session, None)

    def _tell_servers_ended(self) -> None:
        if self.on_servers_ended is not None:
            self.on_servers_ended()

    def _disturb(self, error: JournalDisturbed) -> None:
        with self._queued:
            self._disturbed = error

    # Writing

    def submit(
        self, session: str, *bodies: EventBody, after: int | None = None
    ) -> tuple[tuple[JournalEvent, ...], asyncio.Future[None]]:
        """Hand events over from a coroutine; return them as they will be recorded, and a future.

        The future ends once they are durable, or with `JournalError` if they could not be written.
        Cancelling it changes nothing.

        Raises `JournalError` at once if the journal is closed, the session was not opened (or is opened
        twice), or a body has text that cannot be stored. It is also raised if these events depend on the
        event numbered `after` and that is not the session's last one, because it could not be written or
        other events followed it. These events are then not written.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        return self._hand_over(session, bodies, loop, future, after=after), future

    def append(self, session: str, *bodies: EventBody) -> Awaitable[tuple[JournalEvent, ...]]:
        """Hand events over at once; await the result for their durability. Raises as `submit` does."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[JournalEvent, ...]] = loop.create_future()
        self._hand_over(session, bodies, loop, future, telling=True)
        return future

    def write(
        self, session: str, *bodies: EventBody, after: int | None = None
    ) -> tuple[JournalEvent, ...]:
        """Write events from synchronous code and wait until they are durable; `after` as in `submit`.

        Raises `JournalError`.
        """
        future: Future[None] = Future()
        events = self._hand_over(session, bodies, None, future, after=after)
        future.result()
        return events

    def hurry(self) -> None:
        """Give up soon what a database does not take: the journal is about to be closed."""
        self._writer.hurry()

    def close(self) -> None:
        """Write all events handed over, then release the file. A second call does nothing."""
        self._writer.hurry()
        with self._queued:
            self._closing = True
            self._queued.notify()
        self._closed.wait()

    def _hand_over(
        self,
        session: str,
        bodies: Sequence[EventBody],
        loop: asyncio.AbstractEventLoop | None,
        future: asyncio.Future[Any] | Future[Any],
        *,
        telling: bool = False,
        after: int | None = None,
    ) -> tuple[JournalEvent, ...]:
        """Number the events and queue them; `future` gets them if `telling`, else `None`."""
        texts = [self._encode(body) for body in bodies]
        with self._mutex:
            if self._closing:
                raise JournalError(
                    f"Journal '{name_of(self.path)}' is closed; nothing more can be recorded."
                )
            self.check_takes()
            head = self._heads.get(session) or self._head(session)
            if after is not None and head.seq > after and bodies:
                raise SessionBehind(
                    f"Journal '{name_of(self.path)}': session '{visible(session)}' has newer events "
                    f"than event {after}, on which these depend, so these were not recorded. Try again.",
                    session=session,
                )
            if after is not None and head.seq != after and bodies:
                raise JournalError(
                    f"Journal '{name_of(self.path)}': event {after} of session '{visible(session)}' "
                    "could not be written, so nothing that depends on it was recorded either. Try again."
                )
            self._check_opening(session, head, bodies)
            cursor = self._last_cursor() if self._cursor is None else self._cursor
            seq = head.seq
            at = max(to_ms(self._clock()), head.at)
            if at != self._now[0]:
                self._now = at, from_ms(at)
            when = self._now[1]
            rows: list[Written] = []
            events: list[JournalEvent] = []
            for body, text in zip(bodies, texts, strict=True):
                cursor += 1
                seq += 1
                fields = {"cursor": cursor, "session": session, "seq": seq, "at": when, "body": body}
                events.append(event := construct_model(JournalEvent, fields))
                rows.append(construct_tuple(Written, (event, text, at)))
            recorded = tuple(events)
            if rows:
                head.seq, head.at = seq, at
                self._heads[session] = head
                self._cursor = cursor
            waiter = (rows, loop, future, recorded if telling else None)
            self._queue.append(construct_tuple(_Waiter, waiter))
            if len(self._queue) == 1:
                self._queued.notify()
        return recorded

    def _encode(self, body: EventBody) -> Encoded:
        try:
            return encoded(body)
        except ValueError as error:
            raise JournalError(
                f"Journal '{name_of(self.path)}': a '{body.type}' event has text that cannot be "
                f"stored: {error}. Replace text that is not valid Unicode or is nested too deeply."
            ) from error

    def _check_opening(self, session: str, head: _Head, bodies: Iterable[EventBody]) -> None:
        opened = head.seq > 0
        for body in bodies:
            opens = type(body) is SessionOpened
            if opens and opened:
                raise JournalError(
                    f"Session '{visible(session)}' is in the journal already; "
                    "give the new one another id."
                )
            if not opens and not opened:
                raise JournalError(
                    f"Session '{visible(session)}' is not in the journal; record its opening first."
                )
            opened = True

    def _head(self, session: str) -> _Head:
        """Read the last event of a session not known yet. Raises `JournalError` for an invalid id."""
        if not session or not _is_text(session):
            raise JournalError(
                f"'{visible(session)}' cannot be a session's id; use letters, digits and dashes."
            )
        with self._looking() as connection:
            row = connection.execute(SELECT_LAST_EVENT, (session,)).fetchone()
        return _Head(0, 0) if row is None else _Head(*row)

    def _last_cursor(self) -> int:
        with self._looking() as connection:
            return self._writer.last_cursor(connection)

    def _looking(self) -> AbstractContextManager[Connection]:
        """Return a connection for a query. Raises `JournalError` at once if the database is away."""
        if (away := self._writer.away) is not None:
            raise JournalError(
                f"Journal '{name_of(self.path)}': the database does not answer: {visible(away)}. Nothing "
                "is recorded until it does; check that it runs and can be reached from here."
            )
        return self._writer.looking() or self._reader.connection()

    # The writing thread

    def _run(self) -> None:
        while True:
            with self._queued:
                while not self._queue and not self._tasks and not self._closing:
                    self._queued.wait(_PING_SECONDS if self._looks_again else None)
                    if self._looks_again:
                        break
                batch, self._queue = self._queue, []
                self._under_way = batch
                tasks, self._tasks = self._tasks, []
                closing = self._closing
            if batch:
                self._commit(batch)
                self._under_way = []
            elif self._looks_again and not closing:
                self._look_again()
            for task, future in tasks:
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    task()
                except Exception as error:
                    future.set_exception(error)
                else:
                    future.set_result(None)
            if closing and not batch and not tasks:
                break
            del batch, tasks  # as large as their events, and the next batch may be long in coming
        if self._connections is not None:
            self._connections.close()
        self._settle()
        self._writer.close()
        self._lock.release()
        self._closed.set()

    def _settle(self) -> None:
        """Compare the database with the acknowledged events before other servers claim the sessions."""
        try:
            self._writer.settle()
        except JournalError as error:
            log.warning("cannot check whether the database has all acknowledged events: %s", error)

    def _leave(self) -> None:
        self._settle()
        self._lock.release()

    @property
    def _looks_again(self) -> bool:
        """True while the database is unavailable, or the last write failed with no success since."""
        if self._disturbed is not None:
            return False
        return self._writer.away is not None or self._monitor.has_failed

    def _look_again(self) -> None:
        """Check a database that was unavailable, and prove a journal whose last write failed."""
        is_there = self._writer.away is None or self._writer.returned()
        if is_there and self._monitor.needs_proof:
            with suppress(Exception):  # the monitor keeps the error, and the next write raises it
                self._prove()

    def _commit(self, batch: list[_Waiter]) -> None:
        rows = [w for waiter in batch for w in waiter.written]
        started_at = time.monotonic()
        if rows:
            self._monitor.begin()
        try:
            refused = self._writer.commit(rows)
        except Exception as error:
            ended_at, ok = time.monotonic(), False
            self._monitor.end(error)
            self._fail(batch, error)
        else:
            ended_at, ok = time.monotonic(), True
            if rows:
                self._written = ended_at
                self._monitor.end(None)
            if refused:
                batch = self._refuse(batch, refused)
            _release(batch, None)
        if self.on_commit is not None and rows:
            self.on_commit(construct_tuple(Commit, (len(rows), ended_at - started_at, ok)))

    def _refuse(self, batch: list[_Waiter], refused: Mapping[str, Refusal]) -> list[_Waiter]:
        """Fail the rejected events and those handed over after them; return the rest of `batch`."""

        def refusal(waiter: _Waiter) -> Refusal | None:
            entry = refused.get(waiter.written[0].event.session) if waiter.written else None
            return None if entry is None or waiter.written[-1].event.seq < entry.seq else entry

        with self._queued:
            for session in refused:
                self._heads.pop(session, None)
            failed = [each for each in (*batch, *self._queue) if refusal(each) is not None]
            self._queue = [each for each in self._queue if refusal(each) is None]
        for waiter in failed:
            found = refusal(waiter)
            assert found is not None
            _release([waiter], found.error)
        return [each for each in batch if refusal(each) is None]

    def _fail(self, batch: list[_Waiter], error: Exception) -> None:
        """Fail `batch` and all events numbered after it, to leave no gap; forget the last events."""
        _release(*self._forget(batch, error))

    def _forget(self, batch: list[_Waiter], error: Exception) -> tuple[list[_Waiter], JournalError]:
        """Forget the queue and all last events; return the waiters to fail, and their error."""
        if isinstance(error, JournalDisturbed):
            failure: JournalError = error
        else:
            text = visible(error_text(error))
            failure = JournalError(
                f"Journal '{name_of(self.path)}' could not be written: {text}. "
                f"{_REMEDY if isinstance(self.path, Path) else _database_remedy(error)}"
            )
            failure.__cause__ = error
        with self._queued:
            if isinstance(error, JournalDisturbed):
                self._disturbed = error
            batch = batch + self._queue
            self._queue = []
            self._heads.clear()
            self._cursor = None
        return batch, failure


def _again(error: JournalDisturbed) -> JournalDisturbed:
    """Return a new instance of the error, for another caller."""
    return type(error)(str(error))


def _database_remedy(error: Exception) -> str:
    from ..postgres.connection import remedy

    return f"No decision depends on it, and no call is allowed. {remedy(error)}"


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _connections_to(path: Location) -> Connections | None:
    """Return connections that read the journal's file; `None` for a database, which has its own pool."""
    if not isinstance(path, Path):
        return None
    from .read_connections import Connections

    return Connections(path)


def _release(batch: Iterable[_Waiter], failure: JournalError | None) -> None:
    """Settle every waiter, with one wake-up per loop, in the order of their hand-over."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Waiter]] = {}
    for waiter in batch:
        if waiter.loop is None:
            _settle(waiter, failure)
        else:
            by_loop.setdefault(waiter.loop, []).append(waiter)
    for loop, waiters in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_all, waiters, failure)
        except RuntimeError:
            continue  # the loop is closed, so nobody waits; the events are not affected


def _settle_all(waiters: Iterable[_Waiter], failure: JournalError | None) -> None:
    if failure is None:
        for _, _, future, result in waiters:
            if not future.done():
                future.set_result(result)
        return
    for waiter in waiters:
        _settle(waiter, failure)


def _settle(waiter: _Waiter, failure: JournalError | None) -> None:
    future = waiter.future
    if future.done():
        return
    if failure is None:
        future.set_result(waiter.result)
    else:
        future.set_exception(failure)
