"""Reading on after events of several servers: none is skipped, and sessions keep their order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from interlock.engine.history.database.lanes import lane_of
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.decisions.approval_stats import fatigue
from interlock.engine.history.errors import SessionElsewhere
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import HistoryReader, open_reader
from interlock.engine.history.model.events import JournalEvent, SessionStatus
from tests.support.decisions import asked, opened

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def status(word: str = "running") -> SessionStatus:
    return SessionStatus.model_validate({"status": word})


def read_on(reader: HistoryReader, limit: int, begin: dict[int, int] | None = None) -> list[JournalEvent]:
    """Read all events in pages of `limit`, while no server writes."""
    found: list[JournalEvent] = []
    at, more = begin or {}, True
    while more:
        page, at, more = reader.since_positions(at, limit)
        found += page
    assert reader.since_positions(at, limit) == ([], at, False)
    return found


def check_order(found: list[JournalEvent]) -> None:
    """Assert that each session's events occur once and in order."""
    for session in {event.session for event in found}:
        numbers = [event.seq for event in found if event.session == session]
        assert numbers == [*range(1, len(numbers) + 1)]


class Servers:
    """Servers of one database, each with its own journal; a fixed clock is the hardest case."""

    def __init__(self, place: PostgresLocation) -> None:
        self.place = place
        self.now = NOW
        self.open: list[Journal] = []

    def start(self) -> Journal:
        self.open.append(Journal.open(self.place, clock=lambda: self.now))
        return self.open[-1]

    def restart(self, number: int) -> Journal:
        """End a server and start another one, which can take its sessions."""
        self.open[number].close()
        self.open[number] = Journal.open(self.place, clock=lambda: self.now)
        return self.open[number]


@pytest.fixture
def servers(postgresql: PostgresLocation) -> Iterator[Servers]:
    found = Servers(postgresql)
    with ExitStack() as stack:
        stack.callback(lambda: [each.close() for each in found.open])
        yield found


class TestSincePositions:
    def test_lane_is_read_in_pages_to_its_end(self, servers: Servers) -> None:
        """A lane is read in pages to its end."""
        journal = servers.start()
        journal.write("s", opened("bot"), *[status()] * 9)
        reader = open_reader(servers.place)
        assert [event.seq for event in read_on(reader, 3)] == [*range(1, 11)]
        assert reader.since_positions(reader.positions(), 3)[0] == []

    @pytest.mark.slow
    def test_a_later_server_with_lower_numbers_is_not_skipped(self, servers: Servers) -> None:
        """Events of another lane below the last cursor read are found as well."""
        first, second = servers.start(), servers.start()
        second.write("late", opened("bot"))
        reader = open_reader(servers.place)
        [seen], at, _ = reader.since_positions({}, 100)
        first.write("early", opened("bot"))
        [event], _, _ = reader.since_positions(at, 100)
        assert (seen.session, event.session) == ("late", "early")
        assert event.cursor < seen.cursor

    @pytest.mark.slow
    @pytest.mark.parametrize("limit", [1, 2, 5, 100])
    def test_a_session_that_moved_keeps_its_order(self, servers: Servers, limit: int) -> None:
        """A session's events from the second server come after those from the first."""
        first, second = servers.start(), servers.start()
        second.write("moves", opened("bot"), *[status()] * 5)
        second.write("stays", opened("bot"), *[status()] * 5)
        servers.restart(1)
        first.write("moves", *[status()] * 5)
        reader = open_reader(servers.place)
        found = read_on(reader, limit)
        check_order(found)
        assert len({lane_of(e.cursor) for e in found if e.session == "moves"}) == 2
        assert len(found) == 17

    @pytest.mark.slow
    def test_sessions_stay_in_order_under_any_moves(self, servers: Servers) -> None:
        """A reader with small pages gets each session in order, however sessions move between servers."""
        chance = random.Random(7)
        for _ in range(3):
            servers.start()
        names = [f"s{n}" for n in range(5)]
        for name in names:
            chance.choice(servers.open).write(name, opened("bot"))
        at: dict[int, int] = {}
        found: list[JournalEvent] = []
        reader = open_reader(servers.place)
        written = len(names)
        for turn in range(60):
            journal = chance.choice(servers.open)
            try:
                number = chance.randrange(1, 4)
                journal.write(chance.choice(names), *[status()] * number)
                written += number
            except SessionElsewhere:
                pass
            if turn % 12 == 11:
                servers.restart(chance.randrange(3))
            servers.now += timedelta(milliseconds=chance.randrange(2))
            page, at, _ = reader.since_positions(at, chance.randrange(1, 6))
            found += page
        found += read_on(reader, 4, at)
        check_order(found)
        assert len(found) == written


class TestApprovals:
    def test_request_and_answer_in_two_lanes_count_once(self, servers: Servers) -> None:
        """A request and its answer in two lanes count as one approval, whichever lane is lower."""
        first, second = servers.start(), servers.start()
        request, answer = asked("c1", "deploy", approved=True)
        second.write("s", opened("bot"), request)
        servers.restart(1)
        first.write("s", answer)
        counted = fatigue(servers.place)
        assert (counted.total.requests, counted.total.approved, counted.total.open) == (1, 1, 0)
