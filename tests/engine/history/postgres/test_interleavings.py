"""Two concurrent connections, statement by statement: the first wins, the second writes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from interlock.engine.core.shared_limit import Reservation
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import CallDecided, MessageAdded
from interlock.engine.history.postgres import counters
from interlock.engine.history.postgres.append import APPEND, APPEND_COUNTING
from interlock.engine.history.postgres.servers import lease as leasing

from ..support.recording import opening
from .support.servers import Step, append_values, end, lease, rows

HELLO = MessageAdded(role="user", text="hello")
EVENTS = "SELECT seq FROM event WHERE session = ? ORDER BY seq"
OWNER = "SELECT server, epoch, seq FROM owner WHERE session = ?"


@pytest.fixture
def two(postgresql: PostgresLocation) -> Iterator[tuple[Journal, Journal]]:
    """Two servers; the first has a session `s` of one event."""
    with Journal.open(postgresql) as one, Journal.open(postgresql) as other:
        one.write("s", opening())
        yield one, other


@pytest.fixture
def steps(postgresql: PostgresLocation) -> Iterator[tuple[Step, Step]]:
    """Two connections."""
    first, second = Step(postgresql), Step(postgresql)
    yield first, second
    first.close()
    second.close()


def kept_sessions(found: list[tuple[object, ...]]) -> list[object]:
    """Return the sessions that an append kept, with `None` for the lane."""
    return sorted((session for (session,) in found), key=str)


class TestAppendAndClaim:
    def test_a_claim_waits_for_the_append_before_it(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """A claim that waits for an append continues after that event."""
        (one, other), (first, second) = two, steps
        values = append_values(one, HELLO, session="s")
        end(one)
        first.run(APPEND, values)
        second.start(leasing._CLAIM, (lease(other).id, "s", lease(other).id))
        first.commit()
        assert second.go_on()[0][1] == 2
        second.commit()
        assert rows(postgresql, EVENTS, ("s",)) == [(1,), (2,)]

    @pytest.mark.slow
    def test_an_append_after_a_claim_writes_nothing(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """The event of a server that is no longer the owner is refused, and its cursor is marked."""
        (one, other), (first, second) = two, steps
        values = append_values(one, HELLO, session="s")
        end(one)
        assert first.run(leasing._CLAIM, (lease(other).id, "s", lease(other).id))
        second.start(APPEND, values)
        first.commit()
        assert kept_sessions(second.go_on()) == [None]
        second.commit()
        assert rows(postgresql, EVENTS, ("s",)) == [(1,)]
        assert rows(postgresql, "SELECT cursor, session FROM fenced") == [
            (int(values["e_cursor"][1:-1]), "s")
        ]

    @pytest.mark.slow
    def test_a_claim_that_is_rolled_back_takes_nothing(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """An append that waits for a claim succeeds after the claim's rollback."""
        (one, other), (first, second) = two, steps
        values = append_values(one, HELLO, session="s")
        end(one)
        first.run(leasing._CLAIM, (lease(other).id, "s", lease(other).id))
        second.start(APPEND, values)
        first.roll_back()
        assert kept_sessions(second.go_on()) == [None, "s"]
        second.commit()
        assert rows(postgresql, EVENTS, ("s",)) == [(1,), (2,)]

    @pytest.mark.slow
    def test_claim_of_orphans_skips_session_being_written(
        self, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """A claim of orphans skips a session while an event is being written to it."""
        (one, other), (first, second) = two, steps
        values = append_values(one, HELLO, session="s")
        end(one)
        first.run(APPEND, values)

        def claim(seen: int) -> list[tuple[Any, ...]]:
            return second.run(leasing._CLAIM_ORPHANS, (["s"], ["s"], [1], [seen], lease(other).id))

        assert claim(1) == []
        first.commit()
        second.commit()
        # The claim names an older event than the database has; the next look finds the session.
        assert claim(1) == []
        assert [row[:3] for row in claim(2)] == [("s", 2, 2)]


class TestTwoAppends:
    def test_repeated_batch_adds_nothing(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """A statement that is sent again waits for the first one and adds nothing."""
        (one, _), (first, second) = two, steps
        values = append_values(one, HELLO, session="s")
        first.run(APPEND, values)
        second.start(APPEND, values)
        first.commit()
        assert second.go_on() == []
        second.commit()
        assert rows(postgresql, EVENTS, ("s",)) == [(1,), (2,)]

    @pytest.mark.slow
    def test_repeated_batch_succeeds_after_rollback(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """A statement that is sent again succeeds if the first one was rolled back."""
        (one, _), (first, second) = two, steps
        values = append_values(one, HELLO, session="s")
        first.run(APPEND, values)
        second.start(APPEND, values)
        first.roll_back()
        assert kept_sessions(second.go_on()) == [None, "s"]
        second.commit()
        assert rows(postgresql, EVENTS, ("s",)) == [(1,), (2,)]

    @pytest.mark.slow
    def test_second_opening_is_refused(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """If two servers open the same session at once, the second opening is refused."""
        (one, other), (first, second) = two, steps
        values = [append_values(each, opening(), HELLO, session="t") for each in (one, other)]
        first.run(APPEND, values[0])
        second.start(APPEND, values[1])
        first.commit()
        assert kept_sessions(second.go_on()) == [None]
        second.commit()
        assert rows(postgresql, EVENTS, ("t",)) == [(1,), (2,)]
        assert rows(postgresql, OWNER, ("t",)) == [(lease(one).id, 1, 2)]

    @pytest.mark.slow
    def test_a_refused_session_holds_up_no_other(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """A batch leaves out only the events of sessions that another server owns."""
        (one, other), (first, _) = two, steps
        mine = append_values(one, opening(), session="a")
        theirs = append_values(one, HELLO, session="s")
        lists = [name for name in mine if name[1] == "_"]
        both = {name: f"{mine[name][:-1]},{theirs[name][1:]}".replace("{,", "{") for name in lists}
        both = {name: text.replace(",}", "}") for name, text in both.items()}
        cursor = int(theirs["e_cursor"][1:-1])
        both["e_cursor"] = f"{{{cursor},{cursor + 1}}}"
        rows(postgresql, "UPDATE owner SET server = ?, epoch = 9 WHERE session = 's'", (lease(other).id,))
        assert kept_sessions(first.run(APPEND, {**mine, **both, "last": mine["last"] + 1})) == [None, "a"]
        first.commit()
        assert rows(postgresql, EVENTS, ("a",)) == [(1,)]
        assert rows(postgresql, EVENTS, ("s",)) == [(1,)]


class TestTwoClaims:
    def test_first_claim_gets_the_session(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """If two servers claim a session at once, the first gets it."""
        (one, other), (first, second) = two, steps
        with Journal.open(postgresql) as third:
            end(one)
            first.run(leasing._CLAIM, (lease(other).id, "s", lease(other).id))
            second.start(leasing._CLAIM, (lease(third).id, "s", lease(third).id))
            first.commit()
            assert second.go_on() == []
            second.commit()
            assert rows(postgresql, OWNER, ("s",)) == [(lease(other).id, 2, 1)]

    @pytest.mark.slow
    def test_claim_takes_nothing_from_a_later_server(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """A claim takes nothing from a server that started while the claim waited."""
        (one, other), (first, second) = two, steps
        end(one)
        first.run("UPDATE owner SET server = 'late', epoch = epoch + 1 WHERE session = 's'")
        second.start(leasing._CLAIM, (lease(other).id, "s", lease(other).id))
        rows(postgresql, leasing._REGISTER, ("late", "late", "1", 60_000))
        first.commit()
        assert second.go_on() == []


class TestLeases:
    def test_an_end_waits_for_the_renewal_before_it(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """A lease that is renewed just before another server ends it remains valid."""
        (one, _), (first, second) = two, steps
        own = lease(one).id
        [(over,)] = rows(postgresql, "SELECT lease FROM server WHERE id = ?", (own,))
        first.run(leasing._RENEW, (60_000, own))
        second.start(leasing._END_EXPIRED, ([own], [over]))
        first.commit()
        assert second.go_on() == []
        second.commit()
        assert rows(postgresql, "SELECT ended FROM server WHERE id = ?", (own,)) == [(None,)]

    @pytest.mark.slow
    def test_a_renewal_after_the_end_renews_nothing(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """The next renewal tells an ended server that its lease is over."""
        (one, _), (first, second) = two, steps
        own = lease(one).id
        [(over,)] = rows(postgresql, "SELECT lease FROM server WHERE id = ?", (own,))
        assert first.run(leasing._END_EXPIRED, ([own], [over]))
        second.start(leasing._RENEW, (60_000, own))
        first.commit()
        assert second.go_on() == []

    @pytest.mark.slow
    def test_second_end_of_a_server_fails(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """If two servers end a third one at once, only one of them succeeds."""
        (one, _), (first, second) = two, steps
        own = lease(one).id
        [(over,)] = rows(postgresql, "SELECT lease FROM server WHERE id = ?", (own,))
        first.run(leasing._END_EXPIRED, ([own], [over]))
        second.start(leasing._END_EXPIRED, ([own], [over]))
        first.commit()
        assert second.go_on() == []

    @pytest.mark.slow
    def test_a_leaving_server_is_ended_once(
        self, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """A server that leaves after it was ended keeps the recorded time of its end."""
        (one, _), (first, second) = two, steps
        first.run("UPDATE server SET ended = 7 WHERE id = ?", (lease(one).id,))
        second.start(leasing._LEAVE, (lease(one).id,))
        first.commit()
        second.go_on()
        second.commit()
        assert second.run("SELECT ended FROM server WHERE id = ?", (lease(one).id,)) == [(7,)]


class TestLanes:
    def test_lane_being_taken_is_skipped(
        self, postgresql: PostgresLocation, steps: tuple[Step, Step]
    ) -> None:
        """A server skips a lane that another server is taking."""
        for _ in range(2):
            Journal.open(postgresql).close()
        with Journal.open(postgresql), Journal.open(postgresql):
            pass
        first, second = steps
        assert first.run(leasing._TAKE_LANE, ("a",))[0][0] == 1
        assert second.run(leasing._TAKE_LANE, ("b",))[0][0] == 2

    @pytest.mark.slow
    def test_new_lane_is_created_by_one_server(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """If two servers create a lane with the same number, the second creates none and tries again."""
        del two
        first, second = steps
        assert first.run(leasing._NEW_LANE, ("a",))[0][0] == 3
        second.start(leasing._NEW_LANE, ("b",))
        first.commit()
        assert second.go_on() == []
        second.commit()
        assert second.run(leasing._NEW_LANE, ("b",))[0][0] == 4

    def test_a_lane_that_was_just_taken_is_not_taken_again(
        self, postgresql: PostgresLocation, steps: tuple[Step, Step]
    ) -> None:
        """A statement that saw a lane free does not take it from the server that was first."""
        Journal.open(postgresql).close()
        first, second = steps
        # The second statement has read the lane and waits elsewhere before it locks it.
        first.run("SELECT pg_advisory_xact_lock(4711)")
        slow = leasing._TAKE_LANE.replace(
            "FROM lane WHERE", "FROM lane WHERE pg_advisory_xact_lock(4711) IS NOT NULL AND", 1
        )
        assert slow != leasing._TAKE_LANE
        second.start(slow, ("b",))
        rows(postgresql, leasing._REGISTER, ("a", "a", "1", 60_000))
        assert rows(postgresql, leasing._TAKE_LANE, ("a",))[0][0] == 1
        first.commit()
        assert second.go_on() == []
        second.commit()
        assert rows(postgresql, "SELECT server FROM lane WHERE lane = 1") == [("a",)]

    @pytest.mark.slow
    def test_late_append_to_a_taken_lane_writes_nothing(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """An append that arrives after its lane went to another server writes nothing."""
        (one, _), (first, second) = two, steps
        values = append_values(one, HELLO, session="s")
        end(one)
        assert first.run(leasing._TAKE_LANE, ("next",))[0][:2] == (1, 1)
        second.start(APPEND, values)
        first.commit()
        assert second.go_on() == []
        second.commit()
        assert rows(postgresql, EVENTS, ("s",)) == [(1,)]

    @pytest.mark.slow
    def test_lane_is_not_taken_until_append_finishes(
        self, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """The lane of an ended server is not taken until its last append has finished."""
        (one, _), (first, second) = two, steps
        values = append_values(one, HELLO, session="s")
        end(one)
        first.run(APPEND, values)
        assert second.run(leasing._TAKE_LANE, ("next",)) == []
        second.commit()
        first.commit()
        assert second.run(leasing._TAKE_LANE, ("next",))[0][:2] == (1, 2)


class TestLeaving:
    def test_leaving_server_does_not_release_taken_session(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """A server that leaves does not release a session that another server has taken."""
        (one, other), (first, second) = two, steps
        end(one)
        first.run(leasing._CLAIM, (lease(other).id, "s", lease(other).id))
        second.start(leasing._LET_GO, (lease(one).id,))
        first.commit()
        second.go_on()
        second.commit()
        assert rows(postgresql, OWNER, ("s",)) == [(lease(other).id, 2, 1)]

    @pytest.mark.slow
    def test_an_append_after_a_release_writes_nothing(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], steps: tuple[Step, Step]
    ) -> None:
        """An append that arrives after its session was released is refused."""
        (one, _), (first, second) = two, steps
        values = append_values(one, HELLO, session="s")
        first.run(leasing._LET_SESSION_GO, ("s", lease(one).id))
        second.start(APPEND, values)
        first.commit()
        assert kept_sessions(second.go_on()) == [None]
        second.commit()
        assert rows(postgresql, EVENTS, ("s",)) == [(1,)]


LAST_USE = "refund"


def reservation(session: str, server: str, version: int) -> tuple[object, ...]:
    """Return the values of the statement that reserves one use, with the session as the id."""
    row = (session, "refunds", LAST_USE, session, "c1", 1.0, 2)
    return [LAST_USE], [version], server, *([each] for each in row)


def deciding(journal: Journal, session: str) -> dict[str, object]:
    """Return the values for recording a decision with the use that the server has reserved."""
    reserved = Reservation(session, session, "c1", {"refunds": LAST_USE}, 1.0, 2.0)
    use = counters._UnrecordedUse(reserved, {LAST_USE: 1}, time.monotonic())
    cast(Any, journal.counters)._unrecorded[session, "c1"] = use
    decided = CallDecided(
        call_id="c1",
        tool="refund",
        input={},
        names=("refund",),
        outcome="allow",
        mode="enforce",
        uses={"refunds": LAST_USE},
    )
    return append_values(journal, decided, session=session)


class TestReservations:
    @pytest.fixture
    def version(self, two: tuple[Journal, Journal]) -> int:
        """The version of an unused counter; the second server has a session `t`."""
        two[1].write("t", opening())
        assert two[0].counters is not None
        return two[0].counters.read([LAST_USE]).versions[LAST_USE]

    def test_second_concurrent_reservation_fails(
        self,
        postgresql: PostgresLocation,
        two: tuple[Journal, Journal],
        steps: tuple[Step, Step],
        version: int,
    ) -> None:
        """The second one waits for the first, reserves nothing, and reads the first one's reservation."""
        (one, other), (first, second) = two, steps
        assert first.run(counters._RESERVE, reservation("s", lease(one).id, version))[0][0] == 1
        second.start(counters._RESERVE, reservation("t", lease(other).id, version))
        first.commit()
        assert second.go_on()[0][0] == 0
        second.commit()
        assert other.counters is not None
        reading = other.counters.read([LAST_USE])
        assert reading.versions == {LAST_USE: version + 1}
        assert [use.session for use in reading.uses[LAST_USE]] == ["s"]

    def test_rolled_back_reservation_does_not_block(
        self, two: tuple[Journal, Journal], steps: tuple[Step, Step], version: int
    ) -> None:
        """A reservation that is rolled back does not block the use for another server."""
        (one, other), (first, second) = two, steps
        first.run(counters._RESERVE, reservation("s", lease(one).id, version))
        second.start(counters._RESERVE, reservation("t", lease(other).id, version))
        first.roll_back()
        assert second.go_on()[0][0] == 1

    @pytest.mark.slow
    def test_a_decision_needs_its_reservation(
        self,
        postgresql: PostgresLocation,
        two: tuple[Journal, Journal],
        steps: tuple[Step, Step],
        version: int,
    ) -> None:
        """An ended server records no decision on a use that another server has freed."""
        (one, _), (first, second) = two, steps
        rows(postgresql, counters._RESERVE, reservation("s", lease(one).id, version))
        values = deciding(one, "s")
        end(one)
        first.run(counters._DROP_ENDED, ([LAST_USE],))
        second.start(APPEND_COUNTING, values)
        first.commit()
        assert kept_sessions(second.go_on()) == [None]
        second.commit()
        assert rows(postgresql, EVENTS, ("s",)) == [(1,)]

    @pytest.mark.slow
    def test_a_recorded_decision_keeps_its_use(
        self,
        postgresql: PostgresLocation,
        two: tuple[Journal, Journal],
        steps: tuple[Step, Step],
        version: int,
    ) -> None:
        """A use remains taken if its decision is being recorded while its server is ended."""
        (one, other), (first, second) = two, steps
        rows(postgresql, counters._RESERVE, reservation("s", lease(one).id, version))
        first.run(APPEND_COUNTING, deciding(one, "s"))
        end(one)
        second.start(counters._DROP_ENDED, ([LAST_USE],))
        first.commit()
        second.go_on()
        second.commit()
        assert rows(postgresql, EVENTS, ("s",)) == [(1,), (2,)]
        assert other.counters is not None
        assert [use.session for use in other.counters.read([LAST_USE]).uses[LAST_USE]] == ["s"]

    @pytest.mark.slow
    def test_uses_no_limit_counts_are_removed(
        self, postgresql: PostgresLocation, two: tuple[Journal, Journal], version: int
    ) -> None:
        """Uses that no limit counts are removed with their counters; a new counter has a new version."""
        one, _ = two
        rows(postgresql, counters._RESERVE, reservation("s", lease(one).id, version))
        rows(postgresql, "UPDATE counter SET at = 1")
        assert one.counters is not None
        one.counters.forget()
        assert rows(postgresql, "SELECT 1 FROM reservation") == []
        assert rows(postgresql, "SELECT 1 FROM counter") == []
        assert one.counters.read([LAST_USE]).versions[LAST_USE] not in (version, version + 1)
