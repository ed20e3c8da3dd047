"""Limits over sessions at several servers are exact at every server."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
import pytest

from interlock.engine.core.shared_limit import Reservation
from interlock.engine.gate.types import Step, ToolResult
from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.history.batches.rows import Written
from interlock.engine.history.batches.writer import Refusal
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.postgres import counters
from interlock.engine.history.postgres.connection import PostgresConnection
from interlock.engine.history.postgres.pool import reading
from interlock.engine.hub.hub import Hub
from interlock.engine.net.net import ToolCall
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ....support.postgres import own_server
from ...support.external_agent import AGENT, opened
from .support.hubs import (
    becomes,
    hub_on,
    silent,
    stop_following,
    transition,
)

ONE_REFUND = "limit refund to 1 per 1d across everyone"
_END_WRITERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = 'interlock journal' AND query LIKE '%UPDATE lane%'
"""


async def refunding(
    two: tuple[SharedHub, SharedHub], rules: str = ONE_REFUND
) -> tuple[SharedHub, SharedHub]:
    """Open agents at two servers under one limit, and stop both servers from following each other."""
    here, there = two
    await opened(here, rules)
    config = SessionConfig(compile_rules(rules).registry, by="ada")
    await there.open_external(AGENT, config, session_id="robin-2")
    for hub in two:
        await stop_following(hub)
    return here, there


class TestLimitsOverSessions:
    @pytest.mark.slow
    async def test_use_at_one_server_counts_at_the_other(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A use at one server counts at the other server, although that server has not read the event."""
        here, there = await refunding(two)
        assert (await here.call("robin-1", "r1", "refund", {})).outcome == "allow"
        answer = await there.call("robin-2", "r2", "refund", {})
        assert answer.outcome == "block", answer
        assert "refund" in (answer.reason or "")

    @pytest.mark.slow
    async def test_call_id_with_nul_takes_its_own_use(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A call with NUL in its id takes a use and returns only that use, not that of a similar id."""
        here, there = await refunding(two, "limit refund to 2 per 1d across everyone")
        for call in ("r\0", "r\N{SYMBOL FOR NULL}"):
            assert (await here.call("robin-1", call, "refund", {})).outcome == "allow"
        assert (await there.call("robin-2", "a", "refund", {})).outcome == "block"
        hosted = here._live.hosted("robin-1")
        decided = hosted.calls.index.decided["r\0"]
        steps = tuple(Step(each.net, transition(hosted, each), each.tool) for each in decided.steps)
        await hosted.settle(ToolResult("r\0", "refund", {}, True, steps), "it did not run", 0.0)
        assert (await there.call("robin-2", "b", "refund", {})).outcome == "allow"
        assert (await there.call("robin-2", "c", "refund", {})).outcome == "block"
        assert (await here.call("robin-1", "d", "refund", {})).outcome == "block"

    @pytest.mark.slow
    async def test_the_last_use_is_taken_once(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If two servers both see one remaining use, exactly one takes it; the other blocks its call."""
        here, there = await refunding(two)
        counters = there._live._uses.reservations._store
        reserve, tries = counters.reserve, []

        def second(wanted: Sequence[Reservation], versions: Mapping[str, int]) -> bool:
            if not tries:  # the other server takes it between the look and the reservation
                done = asyncio.run_coroutine_threadsafe(here.call("robin-1", "r1", "refund", {}), loop)
                assert done.result(20).outcome == "allow"
            tries.append(reserve(wanted, versions))
            return tries[-1]

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(counters, "reserve", second)
        answer = await there.call("robin-2", "r2", "refund", {})
        assert answer.outcome == "block"
        assert tries == [False]

    @pytest.mark.slow
    async def test_simultaneous_calls_stay_within_the_limit(
        self, two: tuple[SharedHub, SharedHub]
    ) -> None:
        """Simultaneous calls at both servers are allowed up to the number of uses."""
        here, there = await refunding(two, "limit refund to 5 per 1d across everyone")
        answers = await asyncio.gather(
            *(here.call("robin-1", f"a{n}", "refund", {}) for n in range(6)),
            *(there.call("robin-2", f"b{n}", "refund", {}) for n in range(6)),
        )
        assert sorted(each.outcome for each in answers) == ["allow"] * 5 + ["block"] * 7

    @pytest.mark.slow
    async def test_simultaneous_calls_share_one_reservation(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Calls that arrive during a reservation share one statement for at most the remaining uses."""
        rules = "limit refund to 5 per 1d across everyone"
        here, _ = await refunding(two, rules)
        config = SessionConfig(compile_rules(rules).registry, by="ada")
        names = [await here.open_external(AGENT, config, session_id=f"wren-{n}") for n in range(8)]
        counters = here._live._uses.reservations._store
        reserve, asked = counters.reserve, []

        def noted(wanted: Sequence[Reservation], versions: Mapping[str, int]) -> bool:
            asked.append(len(wanted))
            return reserve(wanted, versions)

        assert (await here.call("robin-1", "r", "refund", {})).outcome == "allow"  # it knows the counter
        monkeypatch.setattr(counters, "reserve", noted)
        answers = await asyncio.gather(*(here.call(name, "r", "refund", {}) for name in names))
        assert sorted(each.outcome for each in answers) == ["allow"] * 4 + ["block"] * 4
        assert asked == [1, 3]

    @pytest.mark.slow
    async def test_call_blocked_by_own_limit_reserves_nothing(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A call that the session's own limit blocks reserves no use of the shared limit."""
        rules = "limit refund to 3 per 1d across everyone\nlimit refund to 1 per session"
        here, there = await refunding(two, rules)
        counters = here._live._uses.reservations._store
        reserve, asked = counters.reserve, []

        def noted(wanted: Sequence[Reservation], versions: Mapping[str, int]) -> bool:
            asked.extend(wanted)
            return reserve(wanted, versions)

        monkeypatch.setattr(counters, "reserve", noted)
        answers = await asyncio.gather(*(here.call("robin-1", f"r{n}", "refund", {}) for n in range(4)))
        assert sorted(each.outcome for each in answers) == ["allow", "block", "block", "block"]
        assert len(asked) == 1
        assert (await there.call("robin-2", "r", "refund", {})).outcome == "allow"

    @pytest.mark.slow
    async def test_cancelled_call_returns_its_use(
        self,
        two: tuple[SharedHub, SharedHub],
        postgresql: PostgresLocation,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A call that is cancelled during its reservation returns its use to the next call."""
        here, _ = await refunding(two)
        reservations = here._live._uses.reservations
        store, begun, goes_on = reservations._store, threading.Event(), threading.Event()
        reserve = store.reserve

        def slow(wanted: Sequence[Reservation], versions: Mapping[str, int]) -> bool:
            begun.set()
            assert goes_on.wait(20)
            return reserve(wanted, versions)

        monkeypatch.setattr(store, "reserve", slow)
        gate = here._live.hosted("robin-1").manager
        gone = asyncio.ensure_future(gate.handle_tool_call(ToolCall("r1", "refund", {})))
        assert await asyncio.to_thread(begun.wait, 20)
        gone.cancel()
        await asyncio.wait([gone])
        goes_on.set()
        assert (await here.call("robin-1", "r2", "refund", {})).outcome == "allow"

        async def given_back() -> bool:
            return not reservations._work

        await becomes(given_back)
        with reading(postgresql) as connection:
            found = connection.execute("SELECT call_id, kept FROM reservation").fetchall()
        assert found == [("r2", True)]

    @pytest.mark.slow
    async def test_approved_call_takes_its_use_at_release(self, two: tuple[SharedHub, SharedHub]) -> None:
        """An approved call takes its use at its release, even if other calls have taken uses since."""
        rules = "limit refund to 2 per 1d across everyone\nrequire human-approval before refund"
        here, there = await refunding(two, rules)

        async def approved(hub: SharedHub, session: str, call_id: str = "c") -> str:
            call = asyncio.ensure_future(hub.call(session, call_id, "refund", {}))
            await becomes(lambda: Hub.approvals(hub))
            [request] = await Hub.approvals(hub)
            await hub.decide(request.id, approved=True, by="ada", digest=request.digest)
            return (await call).outcome

        assert await approved(here, "robin-1") == "allow"
        assert await approved(there, "robin-2") == "allow"
        assert await approved(here, "robin-1", "d") == "block"

    @pytest.mark.slow
    async def test_call_is_blocked_without_the_database(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """While the database does not answer, a call is blocked and takes no use."""
        here, there = await refunding(two)

        def fails(*_: object) -> bool:
            raise JournalError("the database does not answer")

        with monkeypatch.context() as patch:
            patch.setattr(here._live._uses.reservations._store, "reserve", fails)
            answer = await here.call("robin-1", "r1", "refund", {})
        assert answer.outcome == "block"
        assert (await there.call("robin-2", "r2", "refund", {})).outcome == "allow"

    @pytest.mark.slow
    async def test_full_disk_blocks_calls_with_one_log_line(
        self, two: tuple[SharedHub, SharedHub], caplog: pytest.LogCaptureFixture
    ) -> None:
        """Several blocked calls produce one log line without a traceback."""
        here, _ = await refunding(two)
        with reading(here._lease.location) as connection:
            connection.execute(
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'No space left' USING ERRCODE = 'disk_full'; END $$"
            )
            connection.execute(
                "CREATE TRIGGER no_space BEFORE INSERT ON reservation "
                "FOR EACH ROW EXECUTE FUNCTION full_disk()"
            )
        for call in ("r1", "r2", "r3"):
            answer = await here.call("robin-1", call, "refund", {})
            assert answer.outcome == "block"
            assert "No space left" in (answer.reason or "")
        logged = [each for each in caplog.records if "No space left" in each.getMessage()]
        assert [each.exc_info for each in logged] == [None]
        with reading(here._lease.location) as connection:
            connection.execute("DROP TRIGGER no_space ON reservation")
        assert (await here.call("robin-1", "r4", "refund", {})).outcome == "allow"

    @pytest.mark.slow
    async def test_call_waits_for_restarting_database(self) -> None:
        """A call that needs a use waits for the database, like any other call, and takes one use."""
        with own_server() as database:
            location = PostgresLocation(database.url, "journal")
            here = await hub_on(location)
            await opened(here, "limit refund to 2 per 1d across everyone")
            assert (await here.call("robin-1", "r1", "refund", {})).outcome == "allow"
            database.stop(signal.SIGQUIT)
            later = threading.Timer(0.5, database.start)
            later.start()
            assert (await here.call("robin-1", "r2", "refund", {})).outcome == "allow"
            await asyncio.to_thread(later.join)
            assert (await here.call("robin-1", "r3", "refund", {})).outcome == "block"
            await here.close()

    @pytest.mark.slow
    async def test_lost_reservation_answer_takes_one_use(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If the answer to a reservation is lost, the retry does not reserve the use again."""
        here, there = await refunding(two, "limit refund to 2 per 1d across everyone")
        lost: list[object] = []
        execute = PostgresConnection.execute

        def losing(connection: PostgresConnection, statement: str, values: Any = ()) -> Any:
            cursor = execute(connection, statement, values)
            if statement == counters._RESERVE and not lost:
                lost.append(values)
                raise psycopg.OperationalError("the connection is lost")
            return cursor

        monkeypatch.setattr(PostgresConnection, "execute", losing)
        assert (await here.call("robin-1", "r1", "refund", {})).outcome == "allow"
        assert len(lost) == 1
        assert (await there.call("robin-2", "r2", "refund", {})).outcome == "allow"
        assert (await there.call("robin-2", "r3", "refund", {})).outcome == "block"

    @pytest.mark.slow
    async def test_reservation_lost_in_a_crash_is_made_again(
        self,
        two: tuple[SharedHub, SharedHub],
        postgresql: PostgresLocation,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A call is allowed although the database lost its reservation, which is not durable alone."""
        here, there = await refunding(two)
        store = here._live._uses.reservations._store
        reserve = store.reserve

        def crashing(wanted: Sequence[Reservation], versions: Mapping[str, int]) -> bool:
            assert reserve(wanted, versions)
            with reading(postgresql) as connection:
                connection.execute("DELETE FROM reservation")
                connection.execute("UPDATE counter SET version = version - 1")
                connection.execute(_END_WRITERS)
            return True

        monkeypatch.setattr(store, "reserve", crashing)
        assert (await here.call("robin-1", "r1", "refund", {})).outcome == "allow"
        assert (await there.call("robin-2", "r2", "refund", {})).outcome == "block"

    @pytest.mark.slow
    async def test_use_taken_after_a_crash_is_not_reserved_again(
        self,
        two: tuple[SharedHub, SharedHub],
        postgresql: PostgresLocation,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """If another server takes the use that a call had reserved, the call is not allowed."""
        here, there = await refunding(two)
        store = here._live._uses.reservations._store
        reserve, loop = store.reserve, asyncio.get_running_loop()

        def crashing(wanted: Sequence[Reservation], versions: Mapping[str, int]) -> bool:
            assert reserve(wanted, versions)
            with reading(postgresql) as connection:
                connection.execute("DELETE FROM reservation")
                connection.execute("UPDATE counter SET version = version - 1")
                connection.execute(_END_WRITERS)
            done = asyncio.run_coroutine_threadsafe(there.call("robin-2", "r2", "refund", {}), loop)
            assert done.result(20).outcome == "allow"
            return True

        monkeypatch.setattr(store, "reserve", crashing)
        with pytest.raises(JournalError, match="was not decided"):
            await here.call("robin-1", "r1", "refund", {})
        assert "is at another server" not in caplog.text
        with reading(postgresql) as connection:
            found = connection.execute("SELECT session, kept FROM reservation").fetchall()
        assert found == [("robin-2", True)]

    @pytest.mark.slow
    async def test_unrecorded_uses_end_with_their_server(
        self,
        two: tuple[SharedHub, SharedHub],
        postgresql: PostgresLocation,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Uses that a server reserved but did not record become free when the server ends."""
        here, there = await refunding(two)
        written: list[asyncio.Future[object]] = []
        committed = here._journal._writer.commit
        held = threading.Event()

        def late(batch: Sequence[Written]) -> Mapping[str, Refusal]:
            if any(each.event.body.type == "call.decided" for each in batch):
                written.append(asyncio.Future(loop=loop))
                assert held.wait(20)
            return committed(batch)

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(here._journal._writer, "commit", late)
        lost = asyncio.ensure_future(here.call("robin-1", "r1", "refund", {}))

        async def reserved() -> bool:
            return bool(written)

        await becomes(reserved)
        blocked = await there.call("robin-2", "r2", "refund", {})
        assert blocked.outcome == "block"
        await silent(here, postgresql)
        assert (await there.call("robin-2", "r3", "refund", {})).outcome == "allow"
        held.set()
        with pytest.raises(JournalError):
            await lost
        with reading(postgresql) as connection:
            found = connection.execute("SELECT session, kept FROM reservation").fetchall()
        assert found == [("robin-2", True)]

    @pytest.mark.slow
    async def test_use_of_call_that_never_ran_is_freed(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """If a call is recorded as never run, its use is free at every server."""
        here, there = await refunding(two)
        assert (await here.call("robin-1", "r1", "refund", {})).outcome == "allow"
        hosted = here._live.hosted("robin-1")
        decided = hosted.calls.index.decided["r1"]
        steps = tuple(Step(each.net, transition(hosted, each), each.tool) for each in decided.steps)
        await hosted.settle(ToolResult("r1", "refund", {}, True, steps), "it did not run", 0.0)
        with reading(postgresql) as connection:
            assert connection.number("SELECT count(*) FROM reservation") == 0
        assert (await there.call("robin-2", "r2", "refund", {})).outcome == "allow"


class TestFreeze:
    async def test_freeze_during_reservation_holds_the_call(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If all agents are frozen during a call's reservation, the call waits for the lift."""
        here, _ = two
        await opened(here, ONE_REFUND)
        counters = here._journal.counters
        assert counters is not None
        reserve, reserving, frozen = counters.reserve, threading.Event(), threading.Event()

        def slowly(wanted: Sequence[Reservation], versions: Mapping[str, int]) -> bool:
            reserving.set()
            frozen.wait(30)
            return reserve(wanted, versions)

        monkeypatch.setattr(counters, "reserve", slowly)
        task = asyncio.ensure_future(here.call("robin-1", "r1", "refund", {}))
        await asyncio.to_thread(reserving.wait, 30)
        outcome = await here.freeze(by="ada", reason="the refunds look wrong")
        assert outcome.ok, outcome.message
        frozen.set()
        for number in range(5):
            await here.record_message("robin-1", "assistant", f"still waiting {number}")
        assert (await here.session("robin-1")).calls["r1"].status == "proposed"
        assert not task.done()
        assert (await here.lift_freeze(by="ben", reason="looked at")).ok
        assert (await asyncio.wait_for(task, 30)).outcome == "allow"
