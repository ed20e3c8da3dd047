"""Check of a stream's files, alone or against the journal: nothing was changed, omitted or moved.

Streams send some events twice after a failure, which is not a fault. Files alone cannot show that lines
are missing at their end, or that a program that can write them rewrote everything; the journal can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from ...core.sanitize import visible
from ..database import compiled as sql
from ..database.compiled import LANE_BITS
from ..database.connection import Connection
from ..database.lanes import lane_of, positions
from ..database.location import Location
from ..journal.schema import reading
from .importing import ExportError, Line, event_of_line
from .stream import sent_events
from .verify import follows, require_journal, strict_json

_HASH = r"^[0-9a-f]{64}$"
_SIZE = 32
_ABSENT = bytes(_SIZE)
_PAGE = 10_000
_RECORDED = (
    "SELECT cursor, session, seq, hash FROM event WHERE cursor > ? AND cursor <= ? "
    "ORDER BY cursor LIMIT ?"
)
_MOST_ABSENT = 1_000_000
"""Maximum gap in a session's numbers; a larger number starts the session's hashes anew."""

StreamFaultKind: TypeAlias = Literal["unreadable", "changed", "removed", "inserted", "reordered"]


class _StreamedEvent(Line):
    cursor: int = Field(ge=1)
    after: int = Field(ge=0)


class _BareEvent(BaseModel):
    """An event of which only the position was sent."""

    model_config = ConfigDict(strict=True, extra="forbid")

    session: str
    seq: int
    at: JsonValue
    prev: str | None = Field(pattern=_HASH)
    hash: str = Field(pattern=_HASH)
    cursor: int = Field(ge=1)
    after: int = Field(ge=0)
    left_out: Literal["unreadable", "too large"]


@dataclass(frozen=True, slots=True)
class StreamFault:
    """A line that is not as it was sent, or before which something is missing."""

    file: str
    line: int
    kind: StreamFaultKind
    message: str


@dataclass(frozen=True, slots=True)
class StreamCheck:
    """Result for all lines of some files, in order.

    `repeated` lines were sent again. For `masked` events only the facts could be verified, and for `bare`
    ones only the position. `begins` has the lanes whose first line follows an event that is not in the
    files, with that event's cursor. `last` is the last event: its cursor, and its time as it was sent. If
    the files were compared with the journal, `compared` is the number of its events that should be in
    them, and `waiting` the number of those not sent yet.
    """

    lines: int
    sessions: int
    repeated: int
    masked: int
    bare: int
    begins: Mapping[int, int]
    last: tuple[int, str] | None
    faults: tuple[StreamFault, ...]
    compared: int | None = None
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class StreamedJournal:
    """A journal to compare files with: they must have what their stream has sent.

    Without a `stream`, or if the journal has none of this name, that is what any stream has sent; in a
    journal without streams it is everything.
    """

    location: Location
    stream: str | None = None


@dataclass(frozen=True, slots=True)
class _LinePosition:
    file: int
    name: str
    line: int


@dataclass(slots=True)
class _Session:
    """Hashes of a session's events from number `first` on; `_ABSENT` for one that is missing so far."""

    first: int
    hashes: bytearray = field(default_factory=bytearray)
    absent: dict[int, _LinePosition] = field(default_factory=dict[int, _LinePosition])

    @property
    def last(self) -> int:
        return self.first + len(self.hashes) // _SIZE - 1

    def hash(self, seq: int) -> bytes | None:
        """Return the hash of an event; `None` if it is before the first one here, or missing."""
        at = (seq - self.first) * _SIZE
        digest = bytes(self.hashes[at : at + _SIZE]) if at >= 0 else b""
        return None if digest in (b"", _ABSENT) else digest

    def put(self, seq: int, value: bytes) -> None:
        at = (seq - self.first) * _SIZE
        self.hashes[at : at + _SIZE] = value


@dataclass(slots=True)
class _Gap:
    """Ranges of cursors missing before the line `place`; each ends with the cursor of an event.

    `come` says that events of the gap came in later lines, so the lines are not in the order of sending.
    """

    place: _LinePosition
    ranges: list[tuple[int, int]]
    come: bool = False


@dataclass(slots=True)
class _Lane:
    begin: int
    last: int
    gaps: list[_Gap] = field(default_factory=list[_Gap])


def check_stream(
    files: Iterable[tuple[str, Iterable[bytes]]], against: StreamedJournal | None = None
) -> StreamCheck:
    """Check the lines of files that a stream or its collector wrote, the oldest file first.

    Text that a collector puts before a line's JSON, such as a syslog header, is ignored. Raises
    `JournalError` if the journal cannot be read.
    """
    check = _Check()
    sent_cursors: Mapping[int, int] = {}
    if against is not None:
        # Before the files are read: events sent during the check may be missing from what was read.
        require_journal(against.location)
        with reading(against.location) as connection:
            sent_cursors = _sent_cursors(connection, against)
    for number, (name, lines) in enumerate(files):
        for line, data in enumerate(lines, 1):
            if data.strip():
                check.take(_LinePosition(number, name, line), data)
    if against is not None:
        with reading(against.location) as connection:
            connection.execute("BEGIN")
            check.compare(connection, sent_cursors)
    return check.result()


class _Check:
    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._lanes: dict[int, _Lane] = {}
        self._faults: list[tuple[_LinePosition, StreamFaultKind, str]] = []
        self._lines = self._repeated_count = self._masked_count = self._bare_count = 0
        self._last: tuple[int, str] | None = None
        self._end = _LinePosition(0, "", 0)
        self._compared_count: int | None = None
        self._waiting_count = 0

    def take(self, place: _LinePosition, data: bytes) -> None:
        """Check the next line."""
        self._lines += 1
        self._end = place
        try:
            event = _read(data)
        except (ValueError, RecursionError) as error:
            cut = "" if data.endswith(b"\n") else ", and the line is cut off"
            self._fault(place, "unreadable", f"not an event of a stream{cut}: {_reason_of(error)}")
            return
        prev = None if event.prev is None else bytes.fromhex(event.prev)
        if isinstance(event, _BareEvent):
            self._bare_count += 1
        elif not self._is_whole(place, event, prev):
            self._fault(place, "changed", f"{_name(event)} is not as it was recorded")
        fault_count = len(self._faults)
        is_repeated = self._follow_session(place, event, prev)
        self._repeated_count += is_repeated
        if is_repeated:
            return
        self._follow_lane(place, event, is_reported=len(self._faults) > fault_count)
        if self._last is None or event.cursor >= self._last[0]:
            self._last = event.cursor, str(event.at)

    def _is_whole(self, place: _LinePosition, event: _StreamedEvent, prev: bytes | None) -> bool:
        try:
            linked_event = event_of_line(place.name, place.line, event)
        except ExportError:
            return False
        self._masked_count += event.salt is None
        return follows(linked_event, event.seq, prev)

    def _follow_session(
        self, place: _LinePosition, event: _StreamedEvent | _BareEvent, prev: bytes | None
    ) -> bool:
        """Check an event against those of its session; return whether it is repeated."""
        event_hash = bytes.fromhex(event.hash)
        session = self._sessions.get(event.session)
        if session is None or event.seq > session.last + _MOST_ABSENT:
            if session is not None:
                self._fault(place, "removed", f"{_name(event)} comes after more than a million others")
            session = self._sessions[event.session] = _Session(event.seq)
            if event.seq == 1 and prev is not None:
                self._fault(place, "changed", f"{_name(event)} follows another event")
        elif event.seq < session.first or event.seq in session.absent:
            session.absent.pop(event.seq, None)
            self._fault(place, "reordered", f"{_name(event)} comes after later ones of its session")
            if event.seq < session.first:
                return False
        elif event.seq <= session.last:
            if session.hash(event.seq) == event_hash:
                return True
            self._fault(place, "inserted", f"{_name(event)} differs from an earlier line")
            return False
        for seq in range(session.last + 1, event.seq):
            session.hashes += _ABSENT
            session.absent[seq] = place
        before = session.hash(event.seq - 1)
        if before is not None and before != prev:
            self._fault(place, "changed", f"{_name(event)} does not follow the event before it")
        session.put(event.seq, event_hash)
        return False

    def _follow_lane(
        self, place: _LinePosition, event: _StreamedEvent | _BareEvent, *, is_reported: bool
    ) -> None:
        """Check an event against those before it in its lane; `named`: a fault was reported for it."""
        number = lane_of(event.cursor)
        lane = self._lanes.get(number)
        if lane is None:
            self._lanes[number] = _Lane(event.after, event.cursor)
        elif event.after == lane.last:
            lane.last = event.cursor
        elif event.after > lane.last:
            lane.gaps.append(_Gap(place, [(lane.last, event.after)]))
            lane.last = event.cursor
        elif not _fill(lane, event.after, event.cursor, is_reported=is_reported):
            if not is_reported:
                message = f"{_name(event)} did not follow the line before it when it was sent"
                self._fault(place, "changed", message)
            lane.last = event.cursor

    # Against the journal

    def compare(self, connection: Connection, sent: Mapping[int, int]) -> None:
        """Compare all lines with a journal; `sent` has the last cursor that was sent of each lane."""
        last = positions(connection)
        missing_numbers: dict[str, list[int]] = {}
        last_numbers: dict[str, int] = {}
        self._compared_count = 0
        for number, end in last.items():
            lane = self._lanes.get(number)
            begin = number << LANE_BITS if lane is None else lane.begin
            until = min(end, max(begin, sent.get(number, begin), begin if lane is None else lane.last))
            for session, seq, event_hash in _recorded_events(connection, begin, until):
                self._compared_count += 1
                last_numbers[session] = max(seq, last_numbers.get(session, 0))
                streamed_session = self._sessions.get(session)
                streamed_hash = None if streamed_session is None else streamed_session.hash(seq)
                if streamed_hash is None:
                    missing_numbers.setdefault(session, []).append(seq)
                elif streamed_hash != event_hash:
                    message = f"event {seq} of session '{visible(session)}' is different in the journal"
                    self._fault(self._end, "changed", message)
            self._waiting_count += _number(connection, until, end)
        for session, numbers in missing_numbers.items():
            # A gap between two lines is reported there.
            streamed_session = self._sessions.get(session)
            for first, final in _runs(
                n for n in numbers if not (streamed_session and n in streamed_session.absent)
            ):
                events = f"event {first}" if first == final else f"events {first} to {final}"
                message = (
                    f"{events} of session '{visible(session)}', which the journal has, is in no line"
                )
                self._fault(self._end, "removed", message)
        for name, session in self._sessions.items():
            self._compare_end(connection, name, session, last_numbers.get(name, 0))

    def _compare_end(
        self, connection: Connection, name: str, session: _Session, last_number: int
    ) -> None:
        """Compare the end of a session with the journal, which may have only its stub."""
        if session.last <= last_number:
            return
        stub = connection.execute(sql.SELECT_STUB, (name,)).fetchone()
        if stub is None:
            message = f"event {session.last} of session '{visible(name)}' is not in the journal"
            self._fault(self._end, "inserted", message)
        elif session.hash(stub[0]) not in (None, stub[1]) or session.last > stub[0]:
            message = f"session '{visible(name)}' does not end as its stub in the journal says"
            self._fault(self._end, "changed", message)
        elif session.last < stub[0]:
            message = (
                f"events {session.last + 1} to {stub[0]} of session '{visible(name)}', of which the "
                "journal has the stub, are in no line"
            )
            self._fault(self._end, "removed", message)

    def result(self) -> StreamCheck:
        """Return the result, after all lines."""
        missing_events: dict[_LinePosition, set[str]] = {}
        for name, session in self._sessions.items():
            for first, last, place in _ranges(session.absent):
                events = f"event {first}" if first == last else f"events {first} to {last}"
                missing_events.setdefault(place, set()).add(f"{events} of session '{visible(name)}'")
        for lane in self._lanes.values():
            for gap in lane.gaps:
                if gap.ranges:
                    missing_events.setdefault(gap.place, set())
                elif gap.come:
                    message = "lines that were sent before this one come after it"
                    self._faults.append((gap.place, "reordered", message))
        for place, what in missing_events.items():
            missing_text = ", ".join(sorted(what)) or "events of other sessions"
            self._faults.append((place, "removed", f"missing before this line: {missing_text}"))
        faults = sorted(self._faults, key=lambda each: (each[0].file, each[0].line))
        return StreamCheck(
            lines=self._lines,
            sessions=len(self._sessions),
            repeated=self._repeated_count,
            masked=self._masked_count,
            bare=self._bare_count,
            begins={
                lane: each.begin for lane, each in self._lanes.items() if each.begin != lane << LANE_BITS
            },
            last=self._last,
            faults=tuple(StreamFault(at.name, at.line, kind, text) for at, kind, text in faults),
            compared=self._compared_count,
            waiting=self._waiting_count,
        )

    def _fault(self, place: _LinePosition, kind: StreamFaultKind, message: str) -> None:
        self._faults.append((place, kind, message))


def _sent_cursors(connection: Connection, against: StreamedJournal) -> dict[int, int]:
    """Return the last cursor of each lane that was sent."""
    streams = sent_events(connection, against.location)
    if not streams:
        return positions(connection)
    chosen_streams = (
        streams if against.stream not in streams else {against.stream: streams[against.stream]}
    )
    cursors: dict[int, int] = {}
    for stream in chosen_streams.values():
        for lane, each in stream.items():
            # Without a hash it is where the stream began, and nothing was sent.
            if each.hash:
                cursors[lane] = max(each.cursor, cursors.get(lane, 0))
    return cursors


def _recorded_events(connection: Connection, begin: int, end: int) -> Iterator[tuple[str, int, bytes]]:
    """Yield session, number and hash of the events after cursor `begin`, up to `end`."""
    position = begin
    while rows := connection.execute(_RECORDED, (position, end, _PAGE)).fetchall():
        for _, session, seq, event_hash in rows:
            yield str(session), int(seq), bytes(event_hash)
        position = int(rows[-1][0])


def _number(connection: Connection, begin: int, end: int) -> int:
    """Return the number of events after cursor `begin`, up to `end`."""
    rows = connection.execute("SELECT count(*) FROM event WHERE cursor > ? AND cursor <= ?", (begin, end))
    return int(rows.fetchall()[0][0])


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last number of each run of consecutive numbers."""
    run: tuple[int, int] | None = None
    for each in numbers:
        if run is not None and each == run[1] + 1:
            run = run[0], each
            continue
        if run is not None:
            yield run
        run = each, each
    if run is not None:
        yield run


def _fill(lane: _Lane, after: int, cursor: int, *, is_reported: bool) -> bool:
    """Remove an event from the gap that it belongs to; return false if no gap has it."""
    for gap in lane.gaps:
        for low, high in gap.ranges:
            if low <= after and cursor <= high:
                gap.ranges.remove((low, high))
                gap.ranges += [each for each in ((low, after), (cursor, high)) if each[0] < each[1]]
                gap.come |= not is_reported
                return True
    return False


def _ranges(absent: Mapping[int, _LinePosition]) -> Iterator[tuple[int, int, _LinePosition]]:
    """Yield ranges of consecutive missing numbers that have the same place."""
    first: int | None = None
    last, where = 0, None
    for seq, place in sorted(absent.items()):
        if first is not None and where is not None and (seq != last + 1 or place != where):
            yield first, last, where
            first = None
        first = seq if first is None else first
        last, where = seq, place
    if first is not None and where is not None:
        yield first, last, where


def _read(data: bytes) -> _StreamedEvent | _BareEvent:
    """Return the event of a line. Raises `ValueError`."""
    text = data.decode("utf-8").rstrip("\r\n")
    value = strict_json(text[max(0, text.find("{")) :])
    if isinstance(value, dict) and isinstance(other := value.get("unmapped"), dict):
        value = other.get("interlock")
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")  # noqa: TRY004 - a line was given
    kind = _BareEvent if "left_out" in value else _StreamedEvent
    event = kind.model_validate(value)
    if not (lane_of(event.cursor) << LANE_BITS) <= event.after < event.cursor:
        raise ValueError(f"after: expected the number of an event before {event.cursor} in its lane")
    return event


def _reason_of(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return visible(f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}")
    return visible(str(error))


def _name(event: _StreamedEvent | _BareEvent) -> str:
    return f"event {event.seq} of session '{visible(event.session)}'"
