"""Several servers on one database: one queue, whichever server a console is at."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import Any

import pytest

from interlock.engine.agents import Agent, C, ScriptedModel, tool
from interlock.engine.approvals.policy import Credential
from interlock.engine.core.approvers import Operator
from interlock.engine.core.shared_limit import Reservation
from interlock.engine.gate.types import Step, ToolResult
from interlock.engine.gateway.cluster import shared_hub
from interlock.engine.gateway.cluster.shared_hub import DEAF, SharedHub, open_hub
from interlock.engine.history.batches.rows import Written
from interlock.engine.history.batches.writer import Refusal
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.fold.flow_steps import HANDED_OVER
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import (
    ApprovalDecided,
    CallDecided,
    CallResult,
    JournalEvent,
    SessionStatus,
)
from interlock.engine.history.model.records import StepRecord
from interlock.engine.history.postgres.pool import reading
from interlock.engine.hub.hub import Hub, UnknownSessionError
from interlock.engine.net.net import ToolCall, Transition
from interlock.engine.recording.session_end import end_session_left_open
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.hosted import HostedSession
from interlock.rules import compile_rules

from ...support.external_agent import AGENT, opened, resumed

RULES = "require human-approval before deploy"


async def becomes(found: Callable[[], Awaitable[object]]) -> None:
    """Wait until something is so."""
    for _ in range(4000):
        if await found():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


async def hub_on(location: PostgresLocation) -> SharedHub:
    hub = await asyncio.to_thread(open_hub, location)
    assert isinstance(hub, SharedHub)
    await hub.share()
    return hub


@pytest.fixture
async def two(postgresql: PostgresLocation) -> AsyncIterator[tuple[SharedHub, SharedHub]]:
    here, there = await hub_on(postgresql), await hub_on(postgresql)
    try:
        yield here, there
    finally:
        await here.close()
        await there.close()


async def asked(hub: SharedHub, other: SharedHub) -> asyncio.Task[object]:
    """A deploy of an agent at one server that waits for a person, once the other server shows it."""
    await opened(hub, RULES)
    task = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {"env": "prod"}))

    async def shown() -> bool:
        return bool(await other.approvals())

    await becomes(shown)
    return task


class TestOneQueue:
    @pytest.mark.slow
    async def test_shows_sessions_of_the_other(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A console at either server sees the session and its state, and where it is."""
        here, there = two
        await opened(here, RULES)
        await becomes(there.sessions)
        [state] = await there.sessions()
        assert state.id == "robin-1"
        assert there.server_of("robin-1")
        assert not here.server_of("robin-1")

    @pytest.mark.slow
    async def test_passes_events_on(self, two: tuple[SharedHub, SharedHub]) -> None:
        """Subscribers at one server hear what happens at the other, in its order, each event once."""
        here, there = two
        heard = there.subscribe()
        task = await asked(here, there)
        [request] = await there.approvals()
        await there.decide(request.id, approved=True, by="ada", digest=request.digest)
        await task
        numbers: list[int] = []
        async with asyncio.timeout(20):
            async for event in heard:
                if isinstance(event, JournalEvent):
                    numbers.append(event.seq)
                    if event.body.type == "call.decided":
                        break
        assert numbers == list(range(1, len(numbers) + 1))

    @pytest.mark.slow
    async def test_is_answered_anywhere(self, two: tuple[SharedHub, SharedHub]) -> None:
        """An approval at one server releases the call at the other, under the name of who gave it."""
        here, there = two
        task = await asked(here, there)
        [request] = await there.approvals()
        outcome = await there.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert outcome.ok, outcome.message
        assert (await task).outcome == "allow"  # type: ignore[attr-defined]
        [decided] = [
            each.body
            for each in await there.recorded("robin-1")
            if isinstance(each.body, ApprovalDecided)
        ]
        assert decided.by == "ada"

    @pytest.mark.slow
    async def test_counts_the_first_answer(self, two: tuple[SharedHub, SharedHub]) -> None:
        """Of two answers at two servers one counts, and the other is told so."""
        here, there = two
        task = await asked(here, there)
        [request] = await there.approvals()
        answers = await asyncio.gather(
            here.decide(request.id, approved=False, by="ben", digest=request.digest, reason="no"),
            there.decide(request.id, approved=True, by="ada", digest=request.digest),
        )
        assert sorted(each.ok for each in answers) == [False, True]
        await task

    @pytest.mark.slow
    async def test_refuses_what_was_not_shown(self, two: tuple[SharedHub, SharedHub]) -> None:
        """An answer to another digest counts for nothing at the owner, either."""
        here, there = two
        task = await asked(here, there)
        [request] = await there.approvals()
        outcome = await there.decide(request.id, approved=True, by="ada", digest="another")
        assert not outcome.ok
        assert not task.done()
        await there.decide(request.id, approved=False, by="ada", digest=request.digest)
        await task


class TestClaim:
    async def test_ends_with_a_console_of_the_other_server(
        self, two: tuple[SharedHub, SharedHub]
    ) -> None:
        """A claim at one server of a request at the other is over once its console is gone."""
        here, there = two
        task = await asked(here, there)
        [request] = await there.approvals()
        assert (await there.claim(request.id, by="ada", console="ada's")).ok
        await there.console_gone("ben's")
        [shown] = await here.approvals()
        assert shown.claim is not None
        assert shown.claim.by == "ada"
        await there.console_gone("ada's")

        async def free() -> bool:
            return (await here.approvals())[0].claim is None

        await becomes(free)
        assert (await here.claim(request.id, by="ben")).ok
        task.cancel()


class TestFreeze:
    @pytest.mark.slow
    async def test_holds_at_every_server(self, two: tuple[SharedHub, SharedHub]) -> None:
        """Agents of all servers are frozen by one operator, and go on when another one lifts it."""
        here, there = two
        await opened(here, RULES)
        frozen = await there.freeze(by="ada", reason="the deploys look wrong")
        assert frozen.ok, frozen.message

        async def is_frozen() -> bool:
            return here.current_freeze() is not None

        await becomes(is_frozen)
        task = asyncio.ensure_future(here.call("robin-1", "t1", "test", {}))

        async def made() -> bool:
            return "t1" in (await here.session("robin-1")).calls

        await becomes(made)
        assert not task.done()
        lifted = await there.lift_freeze(by="ben", reason="looked at")
        assert lifted.ok, lifted.message
        assert (await asyncio.wait_for(task, 20)).outcome == "allow"
        kinds = [each.body.type for each in await here.recorded("robin-1")]
        assert "freeze.began" in kinds
        assert "freeze.lifted" in kinds


ONE_REFUND = "limit refund to 1 per 1d across everyone"


async def refunding(
    two: tuple[SharedHub, SharedHub], rules: str = ONE_REFUND
) -> tuple[SharedHub, SharedHub]:
    """Agents at two servers under one limit; neither server hears of the other from now on."""
    here, there = two
    await opened(here, rules)
    config = SessionConfig(compile_rules(rules).registry, by="ada")
    await there.open_external(AGENT, config, session_id="robin-2")
    for hub in two:
        await stop_following(hub)
    return here, there


async def stop_following(hub: SharedHub) -> None:
    hub._following.cancel()
    await asyncio.wait([hub._following])


class TestLimitsOverSessions:
    @pytest.mark.slow
    async def test_count_at_every_server(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A use at one server counts at the other, which has heard nothing of it."""
        here, there = await refunding(two)
        assert (await here.call("robin-1", "r1", "refund", {})).outcome == "allow"
        answer = await there.call("robin-2", "r2", "refund", {})
        assert answer.outcome == "block", answer
        assert "refund" in (answer.reason or "")

    @pytest.mark.slow
    async def test_the_last_use_is_taken_once(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of two servers that both find one use left exactly one takes it; the other judges again."""
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
    async def test_many_at_once(self, two: tuple[SharedHub, SharedHub]) -> None:
        """Of calls at both servers in one moment as many are allowed as there are uses."""
        here, there = await refunding(two, "limit refund to 5 per 1d across everyone")
        answers = await asyncio.gather(
            *(here.call("robin-1", f"a{n}", "refund", {}) for n in range(6)),
            *(there.call("robin-2", f"b{n}", "refund", {}) for n in range(6)),
        )
        assert sorted(each.outcome for each in answers) == ["allow"] * 5 + ["block"] * 7

    @pytest.mark.slow
    async def test_calls_of_one_moment_reserve_together(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Those that come while one reserves cost one statement, with no more than what is left."""
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
    async def test_a_session_reserves_for_one_call_at_a_time(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What a session's own limit refuses never seems used to other servers."""
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
    async def test_a_call_whose_agent_goes_holds_up_nobody(
        self,
        two: tuple[SharedHub, SharedHub],
        postgresql: PostgresLocation,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A call that is cancelled while it reserves gives its use back, and the next one gets it."""
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
    async def test_an_approved_call_is_not_asked_about_again(
        self, two: tuple[SharedHub, SharedHub]
    ) -> None:
        """A call that waited for a person takes a use when it is released, though others used some."""
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
    async def test_that_cannot_be_reserved_block(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where the database does not answer nothing is let through, and nothing is used up."""
        here, there = await refunding(two)

        def fails(*_: object) -> bool:
            raise JournalError("the database does not answer")

        with monkeypatch.context() as patch:
            patch.setattr(here._live._uses.reservations._store, "reserve", fails)
            answer = await here.call("robin-1", "r1", "refund", {})
        assert answer.outcome == "block"
        assert (await there.call("robin-2", "r2", "refund", {})).outcome == "allow"

    @pytest.mark.slow
    async def test_a_use_without_a_record_ends_with_its_server(
        self,
        two: tuple[SharedHub, SharedHub],
        postgresql: PostgresLocation,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """What a server reserved and did not record is free once it has ended; it is never recorded."""
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
    async def test_what_never_ran_is_given_back(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """A use whose call is recorded as one that never ran is free at every server."""
        here, there = await refunding(two)
        assert (await here.call("robin-1", "r1", "refund", {})).outcome == "allow"
        hosted = here._live.hosted("robin-1")
        decided = hosted.calls.index.decided["r1"]
        steps = tuple(Step(each.net, transition(hosted, each), each.tool) for each in decided.steps)
        await hosted.settle(ToolResult("r1", "refund", {}, True, steps), "it did not run", 0.0)
        with reading(postgresql) as connection:
            assert connection.number("SELECT count(*) FROM reservation") == 0
        assert (await there.call("robin-2", "r2", "refund", {})).outcome == "allow"


def transition(hosted: HostedSession, step: StepRecord) -> Transition:
    """A transition that a record names."""
    net = hosted.manager.nets[step.net]
    return next(each for each in net.transitions if each.name == step.transition)


async def silent(hub: SharedHub, location: PostgresLocation) -> None:
    """Have a server renew its lease no more, and that be over: what a dead or paused one looks like."""
    hub._lease._stop.set()
    await asyncio.to_thread(hub._lease._thread.join)
    hub._lease._valid_until = 0.0
    with reading(location) as connection:
        connection.execute("UPDATE server SET ended = 1 WHERE id = ?", (hub._lease.id,))


class TestFailover:
    @pytest.mark.slow
    async def test_goes_on_at_another_server(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """The agent resumes there under the rules of the record, and what was asked is asked again."""
        here, there = two
        lost = await asked(here, there)
        await silent(here, postgresql)

        async def ended() -> bool:
            return (await there.recorded("robin-1"))[-1].body.type == "session.status"

        await becomes(ended)
        await resumed(there, rules=RULES)
        task = asyncio.ensure_future(there.call("robin-1", "d1", "deploy", {"env": "prod"}))

        async def asks() -> bool:
            return bool((await there.session("robin-1")).approvals)

        await becomes(asks)
        [request] = (await there.session("robin-1")).approvals.values()
        outcome = await there.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert outcome.ok, outcome.message
        assert (await task).outcome == "allow"
        lost.cancel()
        await asyncio.gather(lost, return_exceptions=True)

    @pytest.mark.slow
    async def test_lets_the_silent_one_answer_nothing(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """What it would allow is not recorded, so it allows nothing; the journal has one history."""
        here, there = two
        await opened(here, RULES)
        await silent(here, postgresql)

        async def ended() -> bool:
            return (await there.recorded("robin-1"))[-1].body.type == "session.status"

        await becomes(ended)
        with pytest.raises(JournalError):
            await here.call("robin-1", "t1", "test", {})
        kinds = [each.body.type for each in await there.recorded("robin-1")]
        assert "call.decided" not in kinds

    @pytest.mark.slow
    async def test_performs_what_was_asked_of_the_dead(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """Of an answer that was for a server which died its giver is told that it did not count."""
        here, there = two
        lost = await asked(here, there)
        here._following.cancel()
        [request] = await there.approvals()
        answer = asyncio.ensure_future(
            there.decide(request.id, approved=True, by="ada", digest=request.digest)
        )
        await silent(here, postgresql)
        outcome = await asyncio.wait_for(answer, 25)
        assert not outcome.ok
        lost.cancel()
        await asyncio.gather(lost, return_exceptions=True)

    @pytest.mark.slow
    async def test_an_agent_that_is_coming_keeps_its_session(
        self,
        two: tuple[SharedHub, SharedHub],
        postgresql: PostgresLocation,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A session that is being resumed where its server's others are ended is not ended as well."""
        here, there = two
        lost = await asked(here, there)
        await stop_following(there)
        read, go = asyncio.Event(), asyncio.Event()
        record = there._live._events

        async def slow(session: str) -> list[JournalEvent]:
            found = await record(session)
            read.set()
            await go.wait()
            return found

        monkeypatch.setattr(there._live, "_events", slow)
        await silent(here, postgresql)
        coming = asyncio.ensure_future(resumed(there, rules=RULES))
        await read.wait()
        await there.take_over()
        go.set()
        await coming
        await goes_on(there)
        await there.take_over()
        assert (await there.session("robin-1")).approvals
        lost.cancel()
        await asyncio.gather(lost, return_exceptions=True)

    @pytest.mark.slow
    async def test_an_agent_that_comes_amid_the_end_waits_for_it(
        self,
        two: tuple[SharedHub, SharedHub],
        postgresql: PostgresLocation,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Its session is resumed once its end is recorded."""
        here, there = two
        lost = await asked(here, there)
        await stop_following(there)
        begun, go = threading.Event(), threading.Event()

        def slow(*given: Any) -> tuple[JournalEvent, ...]:
            begun.set()
            assert go.wait(20)
            return end_session_left_open(*given)

        monkeypatch.setattr(shared_hub, "end_session_left_open", slow)
        await silent(here, postgresql)
        ending = asyncio.ensure_future(there.take_over())
        await asyncio.to_thread(begun.wait, 20)
        coming = asyncio.ensure_future(resumed(there, rules=RULES))
        await asyncio.sleep(0.05)
        assert not coming.done()
        go.set()
        await asyncio.gather(ending, coming)
        await goes_on(there)
        lost.cancel()
        await asyncio.gather(lost, return_exceptions=True)


async def goes_on(hub: SharedHub) -> None:
    """The session's record makes sense, the hub has it as it is, and its call is asked about again."""
    task = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {"env": "prod"}))

    async def asks() -> bool:
        live = await hub.session("robin-1")
        return bool(live.approvals) and fold(await hub.recorded("robin-1")).approvals == live.approvals

    await becomes(asks)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class TestAgentThatComesToAnotherServer:
    @pytest.mark.slow
    async def test_has_its_session_there(self, two: tuple[SharedHub, SharedHub]) -> None:
        """The server that had the session lets it go; its question is asked again where the agent is."""
        here, there = two
        before = await asked(here, there)
        await resumed(there, rules=RULES)
        with pytest.raises(UnknownSessionError):
            await before
        task = asyncio.ensure_future(there.call("robin-1", "d1", "deploy", {"env": "prod"}))

        async def asks() -> bool:
            return bool(await here.approvals())

        await becomes(asks)
        [request] = await here.approvals()
        outcome = await here.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert outcome.ok, outcome.message
        assert (await task).outcome == "allow"
        assert here.server_of("robin-1")


async def closing(hub: SharedHub) -> bool:
    """Tell whether a hub lets nothing more be decided."""
    return hub._live.freeze.holds


async def asked_for(hub: SharedHub, session: str) -> bool:
    """Tell whether the owner of a session was asked for it."""
    with reading(hub._lease.location) as connection:
        return bool(connection.number("SELECT count(*) FROM act WHERE session = ?", (session,)))


class TestServerThatEnds:
    @pytest.mark.slow
    async def test_hands_its_sessions_over(self, two: tuple[SharedHub, SharedHub]) -> None:
        """Nothing is closed, and what was asked is asked again where the agent goes on."""
        here, there = two
        before = await asked(here, there)
        await here.close()
        with pytest.raises((JournalError, UnknownSessionError)):
            await before

        async def taken() -> bool:
            return (await there.recorded("robin-1"))[-1].body.type == "session.status"

        await becomes(taken)
        await resumed(there, rules=RULES)
        task = asyncio.ensure_future(there.call("robin-1", "d1", "deploy", {"env": "prod"}))
        await becomes(lambda: Hub.approvals(there))
        [request] = await there.approvals()
        outcome = await there.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert outcome.ok, outcome.message
        assert (await task).outcome == "allow"
        bodies = [each.body for each in await there.recorded("robin-1")]
        assert "done" not in [each.status for each in bodies if isinstance(each, SessionStatus)]
        assert not any(each.unknown for each in bodies if isinstance(each, CallResult))

    @pytest.mark.slow
    @pytest.mark.parametrize("first", ["server", "agent"])
    async def test_leaves_what_an_agent_runs_as_it_is(
        self, two: tuple[SharedHub, SharedHub], first: str
    ) -> None:
        """A call that was allowed runs on, whether the other server or the agent comes first."""
        here, there = two
        await opened(here, RULES)
        assert (await here.call("robin-1", "b1", "build", {})).outcome == "allow"
        if first == "agent":
            there._orphans_due = inf
        await here.close()

        async def ended() -> bool:
            return fold(await there.recorded("robin-1")).error == HANDED_OVER

        await becomes(ended)
        if first == "server":
            await there.take_over()
        assert fold(await there.recorded("robin-1")).calls["b1"].status == "running"
        await resumed(there, rules=RULES)
        assert (await there.session("robin-1")).calls["b1"].status == "running"
        await there.result("robin-1", "b1", output="built", is_error=False)
        assert (await there.session("robin-1")).calls["b1"].status == "done"
        events = await there.recorded("robin-1")
        assert fold(events) == await there.session("robin-1")
        assert not any("unknown" in headline(each) for each in events)

    @pytest.mark.slow
    async def test_waits_for_tools_that_it_runs(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A tool of an agent hosted here comes to its end, and what the agent wants next waits."""
        here, there = two
        running, done = asyncio.Event(), asyncio.Event()

        @tool
        async def build() -> str:
            """Build."""
            running.set()
            await done.wait()
            return "built"

        model = ScriptedModel([C(b1=("build", {})), C(b2=("build", {}))])
        agent = Agent(model, name="bot", tools=[build])
        session = await here.open_session(agent, SessionConfig(compile_rules(RULES).registry))
        await here.send(session, "go")
        await running.wait()
        ending = asyncio.create_task(here.close())
        await becomes(lambda: closing(here))
        assert not ending.done()
        done.set()
        await ending
        bodies = [each.body for each in await there.recorded(session)]
        [result] = [each for each in bodies if isinstance(each, CallResult)]
        assert (result.call_id, result.unknown) == ("b1", False)
        assert "b2" not in [each.call_id for each in bodies if isinstance(each, CallDecided)]

    @pytest.mark.slow
    @pytest.mark.parametrize("first", ["the drain", "the agent"])
    async def test_while_an_agent_has_its_session_fetched(
        self, two: tuple[SharedHub, SharedHub], first: str
    ) -> None:
        """An agent that comes to another server amid the drain has its session ended once, not twice."""
        here, there = two
        lost = await asked(here, there)
        ways = [here._live.hand_over(), here._hand_over_session("robin-1")]
        await asyncio.gather(*(ways if first == "the drain" else reversed(ways)))
        with pytest.raises((JournalError, UnknownSessionError)):
            await lost
        events = await there.recorded("robin-1")
        ends = [each.body for each in events if isinstance(each.body, SessionStatus)]
        assert [each.status in ("done", "failed") for each in ends].count(True) == 1
        assert [each.body.type for each in events].count("approval.withdrawn") == 1
        fold(events)
        await resumed(there, rules=RULES)

    @pytest.mark.slow
    async def test_where_the_database_does_not_say_who_else_runs(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Sessions are left to whoever takes them, not closed, where it cannot find out just then."""
        here, there = two
        await opened(here, RULES)

        def fail(_: PostgresLocation) -> list[object]:
            raise JournalError("the connection was lost")

        monkeypatch.setattr(shared_hub, "list_servers", fail)
        await here.close()
        bodies = [each.body for each in await there.recorded("robin-1")]
        assert "done" not in [each.status for each in bodies if isinstance(each, SessionStatus)]
        monkeypatch.undo()
        await resumed(there, rules=RULES)

    @pytest.mark.slow
    async def test_that_is_killed_amid_the_drain(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """What it had handed over goes on as it was, also where nothing after that happened."""
        here, there = two
        await opened(here, RULES)
        assert (await here.call("robin-1", "b1", "build", {})).outcome == "allow"
        here._ends = True
        here._live.freeze.hold()
        await here._live.hand_over()
        coming = asyncio.create_task(resumed(there, rules=RULES))
        await stop_following(here)
        await silent(here, postgresql)
        assert await asyncio.wait_for(coming, 20) == "robin-1"
        assert (await there.session("robin-1")).calls["b1"].status == "running"
        await there.result("robin-1", "b1", output="built", is_error=False)
        assert not any("unknown" in headline(each) for each in await there.recorded("robin-1"))
        fold(await there.recorded("robin-1"))
        here._following = None

    @pytest.mark.slow
    async def test_leaves_tools_that_nobody_waits_for(self, two: tuple[SharedHub, SharedHub]) -> None:
        """It says at once what it waits for, and hands over at once when it is told to leave now."""
        here, there = two
        running = asyncio.Event()

        @tool
        async def build() -> str:
            """Build."""
            running.set()
            await asyncio.Event().wait()
            return "built"

        agent = Agent(ScriptedModel([C(b1=("build", {}))]), name="bot", tools=[build])
        session = await here.open_session(agent, SessionConfig(compile_rules(RULES).registry))
        await here.send(session, "go")
        await running.wait()
        said: list[str] = []
        here.say_wait = said.append
        ending = asyncio.create_task(here.close())
        await becomes(lambda: asyncio.sleep(0, bool(said)))
        assert said == [f"waiting up to 30 s for build of {session}"]
        assert not ending.done()
        here.leave_now()
        async with asyncio.timeout(10):
            await ending

        async def unknown() -> bool:
            return fold(await there.recorded(session)).calls["b1"].status == "unknown"

        await becomes(unknown)

    @pytest.mark.slow
    async def test_asks_an_ending_server_for_nothing(self, two: tuple[SharedHub, SharedHub]) -> None:
        """An agent that comes while its server ends has its session as soon as that has let it go."""
        here, there = two
        await opened(here, RULES)
        await stop_following(here)
        coming = asyncio.create_task(resumed(there, rules=RULES))
        await becomes(lambda: asked_for(there, "robin-1"))
        here._following = None
        await here.close()
        assert await asyncio.wait_for(coming, 10) == "robin-1"

    @pytest.mark.slow
    async def test_as_the_last_one_closes_them(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """Where no other server is left a session ends as it does without a database."""
        here, there = two
        await opened(here, RULES)
        await there.close()
        await here.close()
        with reading(postgresql) as connection:
            assert connection.execute("SELECT status FROM session").fetchall() == [("done",)]


class TestServerThatWasEnded:
    @pytest.mark.slow
    async def test_says_so_to_whoever_runs_it(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """`interlock serve` ends with that error, for whatever starts it again."""
        here, _ = two
        with reading(postgresql) as connection:
            connection.execute("UPDATE server SET ended = 1 WHERE id = ?", (here._lease.id,))
        with pytest.raises(JournalError, match="start it again"):
            await asyncio.wait_for(here.lost(), 20)


class TestBell:
    @pytest.mark.slow
    async def test_that_nobody_hears_is_said(self, two: tuple[SharedHub, SharedHub]) -> None:
        """Behind a pooler that swallows notifications whoever runs the server is told, once."""
        here, _ = two
        said: list[str] = []
        here.warn_operators = said.append
        here._bell.deaf = True
        for _ in range(400):
            if said:
                break
            here._rung.set()
            await asyncio.sleep(0.01)
        assert said[:1] == [DEAF]


class TestActs:
    @pytest.mark.slow
    async def test_that_count_no_longer_are_forgotten(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """Rows go some hours after their answer, with what both servers keep of them in memory."""
        here, there = two
        task = await asked(here, there)
        await approve(there, task)
        assert there._posted
        with reading(postgresql) as connection:
            connection.execute("UPDATE act SET done = 1")
        await there._tidy()
        assert not there._posted

        async def nothing_left() -> bool:
            return not (here._in_force or here._acted_on)

        here._rung.set()
        await becomes(nothing_left)
        with reading(postgresql) as connection:
            assert connection.number("SELECT count(*) FROM act") == 0

    @pytest.mark.slow
    async def test_for_an_open_request_are_kept(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """What the first of two people said at another server counts for as long as it is asked."""
        here, there = two
        await opened(here, "require 2 human-approvals before deploy")
        task = asyncio.ensure_future(here.call("robin-1", "d1", "deploy", {}))
        await becomes(there.approvals)
        [request] = await there.approvals()
        first = Credential("eve's", lambda token, needed: True, Operator("eve"))
        outcome = await there.decide(
            request.id, approved=True, by="eve", digest=request.digest, credential=first
        )
        assert outcome.ok, outcome.message
        with reading(postgresql) as connection:
            connection.execute("UPDATE act SET done = 1, at = 1")
        await there._tidy()
        await here._tidy()
        here._rung.set()
        second = Credential(
            "ben's",
            lambda token, needed: token == "ben's" or here._is_in_force(token, needed),
            Operator("ben"),
        )
        [request] = await here.approvals()
        outcome = await here.decide(
            request.id, approved=True, by="ben", digest=request.digest, credential=second
        )
        assert outcome.ok, outcome.message
        assert (await task).outcome == "allow"


async def approve(hub: SharedHub, task: asyncio.Task[object]) -> None:
    """Approve the one open request with a token that stays in force."""
    [request] = await hub.approvals()
    credential = Credential("ada's", lambda token, needed: True, Operator("ada"))
    outcome = await hub.decide(
        request.id, approved=True, by="ada", digest=request.digest, credential=credential
    )
    assert outcome.ok, outcome.message
    await task
