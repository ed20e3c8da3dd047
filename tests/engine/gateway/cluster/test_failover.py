"""Sessions of servers that end or are ended continue at another server."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import pytest
from pydantic import BaseModel

from interlock.engine.agents import Agent, C, ScriptedModel, tool
from interlock.engine.core.shared_limit import Reservation
from interlock.engine.flows import Flow, FlowBuilder
from interlock.engine.gateway.cluster import shared_hub
from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.gateway.protocol.console_methods import DIVERGED
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError, ServerEnded
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.fold.flow_steps import HANDED_OVER
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import (
    CallDecided,
    CallResult,
    JournalEvent,
    SessionStatus,
)
from interlock.engine.history.postgres.pool import reading
from interlock.engine.history.postgres.servers import outage
from interlock.engine.hub.hub import ExternalAgent, Hub, UnknownSessionError
from interlock.engine.recording.session_end import end_session_left_open
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ...support.external_agent import opened, resumed
from .support.hubs import (
    RULES,
    approve,
    asked,
    asked_for,
    becomes,
    closing,
    silent,
    stop_following,
)


class Asked(BaseModel):
    """Input of a flow."""


class Built(BaseModel):
    """Result of the first step."""


class Shipped(BaseModel):
    """Output of the flow."""


class TestFailover:
    @pytest.mark.slow
    async def test_resumes_at_another_server(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """The agent resumes the session at another server, and its call requests approval again."""
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
    async def test_server_without_lease_cannot_decide(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """A server without a lease cannot record or allow a call."""
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
    async def test_answer_for_dead_server_is_reported_as_not_counted(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """An answer for a server that died is reported to its operator as not counted."""
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
    async def test_act_before_the_resumption_says_that_nothing_was_done(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """An act that no agent's return can carry out in time asks the operator to try again.

        A stop waits for the agent, and returns after some seconds; a loosening does not wait.
        """
        here, there = two
        lost = await asked(here, there)
        await stop_following(here)
        stop = asyncio.ensure_future(there.abort("robin-1", "enough", by="ada"))
        loosening = asyncio.ensure_future(there.set_mode("robin-1", "shadow", by="ada"))
        await silent(here, postgresql)
        with pytest.raises(UnknownSessionError, match="its server has ended"):
            await asyncio.wait_for(loosening, 25)
        with pytest.raises(JournalError, match="has ended, and its agent is not back yet"):
            await asyncio.wait_for(stop, 25)
        lost.cancel()
        await asyncio.gather(lost, return_exceptions=True)

    @pytest.mark.slow
    async def test_takeover_does_not_end_session_being_resumed(
        self,
        two: tuple[SharedHub, SharedHub],
        postgresql: PostgresLocation,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A takeover does not end a session that its agent is resuming at the same time."""
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
        await repeat_call_until_requested(there)
        await there.take_over()
        assert (await there.session("robin-1")).approvals
        lost.cancel()
        await asyncio.gather(lost, return_exceptions=True)

    @pytest.mark.slow
    async def test_resume_waits_for_recorded_end(
        self,
        two: tuple[SharedHub, SharedHub],
        postgresql: PostgresLocation,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The session is resumed only after its end is recorded."""
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
        await repeat_call_until_requested(there)
        lost.cancel()
        await asyncio.gather(lost, return_exceptions=True)


async def repeat_call_until_requested(hub: SharedHub) -> None:
    """Make the session's call again, and wait until it requests approval as its record says."""
    task = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {"env": "prod"}))

    async def asks() -> bool:
        live = await hub.session("robin-1")
        return bool(live.approvals) and fold(await hub.recorded("robin-1")).approvals == live.approvals

    await becomes(asks)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class TestAgentThatComesToAnotherServer:
    @pytest.mark.slow
    async def test_session_moves_to_the_agents_new_server(self, two: tuple[SharedHub, SharedHub]) -> None:
        """The previous server releases the session; its call requests approval again at the new one."""
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

    @pytest.mark.slow
    async def test_late_transfer_answer_moves_no_session(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A late answer to a transfer request does not move a session whose agent has come back."""
        here, there = two
        task = await asked(here, there)
        await stop_following(here)
        slow = asyncio.ensure_future(resumed(there, rules=RULES))

        async def is_asked() -> bool:
            return await asked_for(here, "robin-1")

        await becomes(is_asked)
        here.arrival()("robin-1")
        here._following = asyncio.get_running_loop().create_task(here._follow())
        with pytest.raises(JournalError, match="has come back"):
            await slow
        await approve(here, task)


class TestServerThatEnds:
    @pytest.mark.slow
    async def test_sessions_are_handed_over_open(self, two: tuple[SharedHub, SharedHub]) -> None:
        """No session is closed, and the call requests approval again at the agent's next server."""
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
    async def test_allowed_call_stays_running(self, two: tuple[SharedHub, SharedHub], first: str) -> None:
        """An allowed call stays running, whether the other server or the agent comes first."""
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
    async def test_running_hosted_tool_finishes(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A running tool of a hosted agent finishes, and the agent's next call is not decided here."""
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
    async def test_current_flow_step_finishes_once(self, two: tuple[SharedHub, SharedHub]) -> None:
        """The current step finishes and is not repeated; another server takes the next step."""
        here, there = two
        begun, done = asyncio.Event(), asyncio.Event()
        taken: list[str] = []

        async def build(asked: Asked) -> Built:
            taken.append("build")
            begun.set()
            await done.wait()
            return Built()

        async def ship(built: Built) -> Shipped:
            taken.append("ship")
            return Shipped()

        class Release(Flow[Asked, Shipped]):
            @classmethod
            def build(cls, g: FlowBuilder[Asked, Shipped]) -> FlowBuilder[Asked, Shipped]:
                return g.work(build).work(ship)

        session = await here.open_flow(Release, Asked(), SessionConfig({}))
        await begun.wait()
        said: list[str] = []
        here.say_wait = said.append
        ending = asyncio.create_task(here.close())
        await becomes(lambda: asyncio.sleep(0, bool(said)))
        assert said == [f"waiting up to 30 s for a step of {session}"]
        done.set()
        await ending
        assert taken == ["build"]

        async def left() -> bool:
            return fold(await there.recorded(session)).status == "failed"

        await becomes(left)
        await there.resume_flow(session, Release, SessionConfig({}))
        await there.flow_ended(session)
        assert taken == ["build", "ship"]
        assert fold(await there.recorded(session)).status == "done"

    @pytest.mark.slow
    @pytest.mark.parametrize("first", ["the drain", "the agent"])
    async def test_session_fetched_during_drain_is_ended_once(
        self, two: tuple[SharedHub, SharedHub], first: str
    ) -> None:
        """If an agent fetches its session during the drain, the session is ended once, not twice."""
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
    async def test_sessions_stay_open_if_servers_cannot_be_listed(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If a server cannot list the others, it leaves its sessions open for a takeover."""
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
    async def test_kill_during_drain_keeps_handed_over_calls(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """Sessions that were handed over before the kill continue with their calls still running."""
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
    async def test_leave_now_hands_over_immediately(self, two: tuple[SharedHub, SharedHub]) -> None:
        """The server reports its wait at once, and hands over immediately after `leave_now`."""
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
    async def test_handed_over_agent_causes_no_warning(
        self, two: tuple[SharedHub, SharedHub], caplog: pytest.LogCaptureFixture
    ) -> None:
        """The server logs no warning if a handed-over agent cannot record its end here."""
        here, there = two

        @tool
        async def deploy() -> str:
            """Deploy."""
            return "deployed"

        agent = Agent(ScriptedModel([C(d1=("deploy", {}))]), name="bot", tools=[deploy])
        session = await here.open_session(agent, SessionConfig(compile_rules(RULES).registry))
        await here.send(session, "go")
        await becomes(here.approvals)
        await here.close()

        async def taken() -> bool:
            return fold(await there.recorded(session)).status == "failed"

        await becomes(taken)
        assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []

    @pytest.mark.slow
    async def test_agent_gets_session_once_ending_server_releases_it(
        self, two: tuple[SharedHub, SharedHub]
    ) -> None:
        """An agent that comes during its server's shutdown gets its session as soon as it is released."""
        here, there = two
        await opened(here, RULES)
        await stop_following(here)
        coming = asyncio.create_task(resumed(there, rules=RULES))
        await becomes(lambda: asked_for(there, "robin-1"))
        here._following = None
        await here.close()
        assert await asyncio.wait_for(coming, 10) == "robin-1"

    @pytest.mark.slow
    async def test_last_server_closes_its_sessions(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """The last server closes its sessions as done, because no other server is left."""
        here, there = two
        await opened(here, RULES)
        await there.close()
        await here.close()
        with reading(postgresql) as connection:
            assert connection.execute("SELECT status FROM session").fetchall() == [("done",)]


class TestServerThatWasEnded:
    @pytest.mark.slow
    async def test_lost_raises_error_with_remedy(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """The hub's `lost` raises an error that tells the operator to start the server again."""
        here, _ = two
        with reading(postgresql) as connection:
            connection.execute("UPDATE server SET ended = 1 WHERE id = ?", (here._lease.id,))
        with pytest.raises(JournalError, match="start it again"):
            await asyncio.wait_for(here.lost(), 20)

    async def test_call_in_progress_fails_with_server_ended(
        self,
        two: tuple[SharedHub, SharedHub],
        postgresql: PostgresLocation,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A call in progress that can no longer be recorded fails with `ServerEnded`."""
        here, _ = two
        await opened(here, "limit refund to 1 per 1d across everyone")
        counters = here._journal.counters
        assert counters is not None
        reserve = counters.reserve

        def reserve_after_end(wanted: Sequence[Reservation], versions: Mapping[str, int]) -> bool:
            found = reserve(wanted, versions)
            with reading(postgresql) as connection:
                connection.execute("UPDATE server SET ended = 1 WHERE id = ?", (here._lease.id,))
                connection.execute("UPDATE lane SET server = NULL WHERE server = ?", (here._lease.id,))
            return found

        monkeypatch.setattr(counters, "reserve", reserve_after_end)
        with pytest.raises(ServerEnded):
            await here.call("robin-1", "r1", "refund", {})


class TestServerWithoutItsDatabase:
    @pytest.mark.slow
    async def test_outage_and_return_are_logged_once(
        self,
        two: tuple[SharedHub, SharedHub],
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The log has one line when the database becomes unavailable, and one when it is back."""
        here, _ = two
        monkeypatch.setattr(outage, "STEADY_SECONDS", 0.0)
        look, tries = here._look, list[int]()

        async def fail() -> None:
            tries.append(1)
            if len(tries) <= 3:
                raise JournalError("the database is away")
            await look()

        monkeypatch.setattr(here, "_look", fail)
        here._rung.set()

        async def again() -> bool:
            return len(tries) > 4

        await becomes(again)
        said = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
        assert said == [
            "the other servers cannot be followed: the database is away",
            "the other servers are followed again",
        ]

    @pytest.mark.slow
    @pytest.mark.parametrize("follows", [True, False])
    async def test_diverged_session_does_not_prevent_close(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation, follows: bool
    ) -> None:
        """The last server closes without an error and ends its other sessions."""
        here, there = two
        await there.close()
        await opened(here, RULES)
        await here.open_external(
            ExternalAgent(name="wren"), SessionConfig({}, by="ada"), session_id="wren-1"
        )
        assert (await here.call("robin-1", "b1", "build", {})).outcome == "allow"
        if not follows:  # it has not looked since it noticed the loss
            await stop_following(here)
        with reading(postgresql) as connection:  # a standby that lacks the latest event takes over
            connection.execute("DELETE FROM event WHERE session = 'robin-1' AND type = 'call.decided'")
        here._journal._writer._drop()
        with pytest.raises(JournalError, match="diverged"):
            await here.result("robin-1", "b1", output="built", is_error=False)
        if follows:
            await becomes(lambda: asyncio.sleep(0, here.server_of("robin-1") == DIVERGED))
            assert here.server_of("wren-1") is None
        await here.close()
        with reading(postgresql) as connection:
            found = connection.execute("SELECT id, status FROM session ORDER BY id").fetchall()
        assert dict(found)["wren-1"] == "done"
