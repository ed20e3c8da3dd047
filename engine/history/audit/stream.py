"""The whole record as a stream for another program: each event once it is durable, in order.

Events are read from the journal after the position that was sent, so a receiver that is down costs no
memory and blocks nobody. Each event is sent at least once: `cursor` and `hash` identify a repeated one.
`after`, the cursor of the event before it, shows that none was left out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import JsonValue

from ..database import compiled as sql
from ..database.compiled import LANE_BITS, LinkedRow
from ..database.connection import Connection
from ..database.lanes import lane_of, positions, rows_behind
from ..database.location import Location, resolved
from ..errors import JournalError, SessionNotFound
from ..journal.reader import HistoryReader
from ..postgres.connection import PostgresConnection
from .canonical_json import canonical, canonical_line
from .export import UNREADABLE, Mask, event_line
from .hash_chain import CONTENT, content_hash
from .ocsf import activity, agent_in, weight
from .stream_positions import (
    SentEvent,
    SentEvents,
    StreamPositions,
    positions_beside,
    read_positions,
)
from .verify import LinkedEvent, linked

Begin: TypeAlias = Literal["start", "now"]
"""The first event of a new stream: the journal's first one, or the next one that is recorded."""
StreamFormat: TypeAlias = Literal["events", "ocsf"]
_BODY = LinkedRow._fields.index("body")
_POSITIONS = "SELECT id, positions FROM stream ORDER BY id"
_LAST_OF_SESSION = f"SELECT max(cursor) FROM event WHERE session = ? GROUP BY cursor >> {LANE_BITS}"
KNOWN_SESSIONS = 4096
"""Sessions whose last hash and agent are kept in memory; those of others are read again."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event with its place in the stream: its cursor and that of the event before it in its lane.

    `prev` is the hash of the event before it in its session, `agent` the session's agent.
    """

    cursor: int
    after: int
    event: LinkedEvent
    prev: bytes | None
    agent: str | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """Approximate number of unsent events, and the time of the first in UTC milliseconds."""

    events: int = 0
    oldest: int | None = None


@dataclass(slots=True)
class _KnownSession:
    seq: int
    hash: bytes
    agent: str | None


class RecordStream:
    """Events that a stream still has to send. For one thread at a time; methods raise `JournalError`."""

    def __init__(self, reader: HistoryReader, place: StreamPositions, begin: Begin) -> None:
        self._reader = reader
        self._place = place
        self._begin = begin
        self._sent_position: SentEvents | None = None
        self._sessions: OrderedDict[str, _KnownSession] = OrderedDict()

    def claim(self) -> bool:
        """Take the stream unless this process sends it already; return false if another server does."""
        if self._sent_position is not None:
            return True
        if not self._place.claim():
            return False
        position = self._place.read()
        with self._reader.connection() as connection:
            if position is not None:
                self._sent_position = _valid_position(connection, position)
                return True
            now = positions(connection) if self._begin == "now" else {}
        self._sent_position = {lane: SentEvent(cursor) for lane, cursor in now.items()}
        self._place.note(self._sent_position)
        return True

    def events(self, most: int) -> list[StreamEvent]:
        """Return the next events, at most `most` of each lane; none if all were sent."""
        position = self._position()
        with self._reader.connection() as connection:
            cursors = {lane: each.cursor for lane, each in position.items()}
            # Inputs may be large: a page has few of those.
            rows, _, _ = rows_behind(
                connection, sql.SELECT_LINKED_SINCE, cursors, most, column=_BODY, chunk=1
            )
            return [*self._stream_events(connection, rows, cursors)]

    def note(self, events: Sequence[StreamEvent]) -> None:
        """Record that `events`, the first of the next ones, were sent."""
        position = self._position() | {
            lane_of(each.cursor): SentEvent(each.cursor, _hex(each.event)) for each in events
        }
        try:
            self._place.note(position)
        except JournalError:
            self._sent_position = None
            raise
        self._sent_position = position

    def let_go(self) -> None:
        """Release the stream to any server that wants it."""
        if self._sent_position is not None:
            self._sent_position = None
            self._place.let_go()

    def backlog(self) -> Backlog:
        """Return the backlog, which counts unused cursors too; it is empty if another server sends."""
        position = self._sent_position
        if position is None:
            return Backlog()
        with self._reader.connection() as connection:
            cursors = {lane: each.cursor for lane, each in position.items()}
            last = positions(connection)
            waiting_count = sum(
                max(0, end - cursors.get(lane, lane << LANE_BITS)) for lane, end in last.items()
            )
            rows, _, _ = rows_behind(connection, sql.SELECT_LINKED_SINCE, cursors, 1)
        times = [row[3] for row in rows if type(row[3]) is int]
        return Backlog(waiting_count if rows else 0, min(times, default=None))

    def _position(self) -> SentEvents:
        if self._sent_position is None:
            raise JournalError("the stream was not taken")
        return self._sent_position

    def _stream_events(
        self, connection: Connection, rows: Iterable[Sequence[object]], cursors: dict[int, int]
    ) -> Iterable[StreamEvent]:
        for each in rows:
            row = LinkedRow(*each)  # pyright: ignore[reportArgumentType] - columns hold any type
            event, lane = linked(row), lane_of(row.cursor)
            previous = self._previous_event(connection, event)
            prev = None if previous is None or event.seq == 1 else previous.hash
            agent = None if previous is None else previous.agent
            agent = agent_in_event(event) or agent or self._agent(event.place.session)
            yield StreamEvent(row.cursor, cursors.get(lane, lane << LANE_BITS), event, prev, agent)
            cursors[lane] = row.cursor
            self._sessions[event.place.session] = _KnownSession(event.seq, event.hash, agent)
            self._sessions.move_to_end(event.place.session)
            while len(self._sessions) > KNOWN_SESSIONS:
                self._sessions.popitem(last=False)

    def _previous_event(self, connection: Connection, event: LinkedEvent) -> _KnownSession | None:
        """Return the event before this one in its session."""
        session, seq = event.place.session, event.seq
        previous = self._sessions.get(session)
        if type(seq) is not int:
            return None
        if previous is None or previous.seq != seq - 1:
            agent = None if previous is None else previous.agent
            previous = None
            if seq > 1:
                rows = connection.execute(sql.SELECT_LINKED, (session, seq - 2, 1)).fetchall()
                if rows and rows[0][2] == seq - 1:
                    previous = _KnownSession(seq - 1, rows[0][-1], agent)
        return previous

    def _agent(self, session: str) -> str | None:
        try:
            return self._reader.session(session, whole=True).agent
        except (SessionNotFound, JournalError, *UNREADABLE):  # its line was removed, or changed
            return None


def sent_events(connection: Connection, location: Location) -> dict[str, SentEvents]:
    """Return the position that each stream of a journal has sent, by its name. Raises `JournalError`."""
    if isinstance(connection, PostgresConnection):
        rows = connection.execute(_POSITIONS).fetchall()
        positions_by_stream = {str(stream): read_positions(str(text)) for stream, text in rows}
    else:
        path = resolved(location)
        assert isinstance(path, Path)
        positions_by_stream = positions_beside(path)
    return {
        stream: _valid_position(connection, position) for stream, position in positions_by_stream.items()
    }


def unsent(connection: Connection, session: str, streams: Mapping[str, SentEvents]) -> list[str]:
    """Return the names of streams that still have to send an event of a session."""
    last = [cursor for (cursor,) in connection.execute(_LAST_OF_SESSION, (session,)).fetchall()]
    return [
        stream
        for stream, position in streams.items()
        if any(lane_of(each) not in position or position[lane_of(each)].cursor < each for each in last)
    ]


def _valid_position(connection: Connection, position: SentEvents) -> SentEvents:
    """Return the valid part of a position, which may have been stored for another journal.

    If the last event of a lane is missing or has another hash, the whole lane is sent again: the journal
    may be an older copy, or a new one of which nothing was sent.
    """
    last, valid_events = positions(connection), SentEvents()
    for lane, each in position.items():
        if each.cursor > last.get(lane, lane << LANE_BITS):
            continue
        rows = connection.execute(sql.SELECT_LINKED_SINCE, (each.cursor - 1, each.cursor, 1)).fetchall()
        if not (rows and each.hash and _hex(linked(LinkedRow(*rows[0]))) != each.hash):
            valid_events[lane] = each
    return valid_events


def agent_in_event(event: LinkedEvent) -> str | None:
    """Return the agent that an event names as beginning or resuming its session."""
    try:
        if not event.kind.startswith("session."):
            return None
        return agent_in(event.kind, event_line(event, None, None))
    except UNREADABLE:
        return None


def _hex(event: LinkedEvent) -> str:
    return event.hash.hex() if isinstance(event.hash, bytes) else ""  # pyright: ignore[reportUnnecessaryIsInstance]


# Lines


@dataclass(frozen=True, slots=True)
class StreamLine:
    """An event as it is sent: JSON in UTF-8 without a line end. `severity` is OCSF's."""

    source: StreamEvent
    data: bytes
    severity: int


@dataclass(frozen=True, slots=True)
class LineFormat:
    """Format of a stream's lines; without `mask` nothing is masked.

    An event of more than `largest` bytes is sent with the hash of its content in place of the content.
    One that is still too large, or cannot be read, is sent with only its position in the chain.
    """

    kind: StreamFormat
    mask: Mask | None

    def line(self, source: StreamEvent, largest: int | None = None) -> StreamLine:
        """Return the line of an event."""
        event, left_out, severity = source.event, "unreadable", 0
        try:
            line = event_line(event, source.prev, self.mask)
            body = line["body"]
            assert isinstance(body, dict)
            severity, _, _ = weight(event.kind, body)
            for members in (line, _without_content(event, line)):
                data = self._data(source, members)
                if largest is None or len(data) <= largest:
                    return StreamLine(source, data, severity)
            left_out = "too large"
        except UNREADABLE:
            pass  # The file was changed: the stream reports it and continues.
        bare_line: dict[str, JsonValue] = {
            "at": event.place.at if type(event.place.at) is int else None,
            "hash": _hex(event),
            "left_out": left_out,
            "prev": source.prev.hex() if isinstance(source.prev, bytes) else None,
            "seq": event.seq if type(event.seq) is int else None,
            "session": str(event.place.session).encode("utf-8", "replace").decode(),
        }
        try:
            data = self._data(source, bare_line)
        except UNREADABLE:
            data = canonical({**bare_line, "after": source.after, "cursor": source.cursor}).encode()
        return StreamLine(source, data, severity)

    def _data(self, source: StreamEvent, line: dict[str, JsonValue]) -> bytes:
        members: dict[str, JsonValue] = {**line, "after": source.after, "cursor": source.cursor}
        if self.kind == "ocsf":
            members = activity(source.event, members, source.agent)
        return canonical_line(members, source.event.body)


def _without_content(event: LinkedEvent, line: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a line with the hash of its content in place of the content; it can still be verified."""
    body = line["body"]
    assert isinstance(body, dict)
    facts: dict[str, JsonValue] = {k: v for k, v in body.items() if k not in CONTENT}
    content = line.get("content")
    if content is None and event.salt is not None:
        content = content_hash(event.body, event.salt).hex()
    members = {name: value for name, value in line.items() if name != "salt"}
    return {**members, "body": facts, "content": content}
