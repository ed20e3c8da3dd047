"""Sessions whose acknowledged events the database lost: they stay stopped until the loss is accepted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
from pydantic import BaseModel

from interlock.engine.agents import Agent, C, ScriptedModel, tool
from interlock.engine.approvals.policy import Credential
from interlock.engine.core.approvers import Operator, Operators
from interlock.engine.flows import Flow, FlowBuilder
from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.gateway.protocol.console_methods import DIVERGED
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError, SessionDiverged
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import CallDecided, LossAccepted
from interlock.engine.hub.hub import Streaming, UnknownSessionError
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ...history.postgres.support.servers import fail_over, lose, rows
from ...support.external_agent import opened, resumed
from .support.hubs import RULES, asked, becomes, hub_on, silent, stop_following


class Asked(BaseModel):
    """Input of a flow."""


class Shipped(BaseModel):
    """Output of the flow."""


class Release(Flow[Asked, Shipped]):
    """A flow whose only step waits forever."""

    @classmethod
    def build(cls, g: FlowBuilder[Asked, Shipped]) -> FlowBuilder[Asked, Shipped]:
        async def ship(asked: Asked) -> Shipped:
            await asyncio.Event().wait()
            return Shipped()

        return g.work(ship)


async def took_over(location: PostgresLocation, session: str, *hubs: SharedHub, kept: int = 1) -> None:
    """Simulate a failover to a standby that has only the first `kept` events of a session."""
    await asyncio.to_thread(lose, location, session, kept)
    for hub in hubs:
        fail_over(hub._journal)
        hub._orphans_due = 0.0


def stopped(hub: SharedHub, session: str = "robin-1") -> Callable[[], Awaitable[bool]]:
    async def found() -> bool:
        listed = [each.id for each in await hub.sessions()]
        return session in listed and hub.server_of(session) == DIVERGED and session not in hub._live

    return found


async def accepted(hub: SharedHub, session: str = "robin-1") -> None:
    outcome = await hub.accept_loss(session, by="ada", reason="the deploy was seen")
    assert outcome.ok, outcome.message


class TestStopped:
    async def test_session_is_not_resumed_at_any_server(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """Both servers list the session as diverged, refuse to resume it and show no request of it."""
        here, there = two
        lost = await asked(here, there)
        await took_over(postgresql, "robin-1", here)
        for hub in two:
            await becomes(stopped(hub))
            with pytest.raises(SessionDiverged, match="Session 'robin-1' diverged"):
                await resumed(hub, rules=RULES)
            assert await hub.approvals() == []
            outcome = await hub.set_mode("robin-1", "shadow", by="ada", reason="x")
            assert "Not switched: Session 'robin-1' diverged" in outcome.message
        with pytest.raises((JournalError, UnknownSessionError)):
            await lost

        async def is_unchanged() -> bool:
            return [(await hub.session("robin-1")).seq for hub in two] == [1, 1]

        await becomes(is_unchanged)

    @pytest.mark.slow
    async def test_server_started_later_does_not_resume_it(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """A server that starts later lists the session as diverged and does not resume it."""
        here, there = two
        await opened(here, RULES)
        await here.call("robin-1", "t1", "test", {})
        await took_over(postgresql, "robin-1", here)
        await becomes(stopped(here))
        await here.close()
        await there.close()
        later = await hub_on(postgresql)
        try:
            await becomes(stopped(later))
            with pytest.raises(SessionDiverged):
                await resumed(later, rules=RULES)
            assert [each.diverged for each in await later.history()] == [True]
            assert len(await later.recorded("robin-1")) == 1
        finally:
            await later.close()

    async def test_following_server_detects_the_loss(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """A server that only followed the session detects the loss."""
        here, there = two
        lost = await asked(here, there)
        await stop_following(here)
        await took_over(postgresql, "robin-1", there, kept=2)
        writes = here._journal._writer
        writes._ends._written.clear()  # it dies before it compares
        await silent(here, postgresql)
        await becomes(stopped(there))
        with pytest.raises(SessionDiverged):
            await resumed(there, rules=RULES)
        assert rows(postgresql, "SELECT server FROM divergence") == [(there._lease.id,)]
        here._following = None
        lost.cancel()
        await asyncio.gather(lost, return_exceptions=True)

    @pytest.mark.slow
    async def test_is_logged_once_per_server(
        self,
        two: tuple[SharedHub, SharedHub],
        postgresql: PostgresLocation,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Each of the two servers logs the divergence once, and refuses the calls."""
        here, there = two
        await opened(here, RULES)
        await here.call("robin-1", "t1", "test", {})
        caplog.clear()
        await took_over(postgresql, "robin-1", here)
        for number in range(20):
            with pytest.raises((JournalError, UnknownSessionError)):
                await here.call("robin-1", f"t{number + 2}", "test", {})
        await becomes(stopped(here))
        for number in range(5):
            with pytest.raises(UnknownSessionError):
                await here.call("robin-1", f"u{number}", "test", {})
            with pytest.raises(SessionDiverged):
                await resumed(here, rules=RULES)
        await becomes(stopped(there))
        about = [each for each in caplog.records if each.levelno >= logging.WARNING]
        assert len([each for each in about if "'robin-1' diverged: " in each.getMessage()]) == 2
        assert len([each for each in about if "could not be recorded" in each.getMessage()]) <= 1
        assert [each.exc_info for each in about if each.exc_info] == []

    @pytest.mark.slow
    async def test_divergence_is_published_to_consoles(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """The other server publishes the divergence to its subscribers as a failure of the session."""
        here, there = two
        await opened(here, RULES)
        await here.call("robin-1", "t1", "test", {})
        heard = there.subscribe()
        await took_over(postgresql, "robin-1", here)
        async with asyncio.timeout(20):
            async for event in heard:
                if isinstance(event, Streaming) and event.kind == "failure":
                    assert "Session 'robin-1' diverged" in event.text
                    break

    @pytest.mark.slow
    async def test_hosted_agent_is_not_resumed_before_acceptance(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """The agent's loop ends, and no server resumes the session before the loss is accepted."""
        here, there = two
        running = asyncio.Event()
        cut = asyncio.Event()

        @tool
        async def build() -> str:
            """Build."""
            running.set()
            try:
                await asyncio.Event().wait()
            finally:
                cut.set()
            return "built"

        def agent() -> Agent:
            return Agent(ScriptedModel([C(b1=("build", {}))]), name="bot", tools=[build])

        config = SessionConfig(compile_rules(RULES).registry)
        session = await here.open_session(agent(), config)
        await here.send(session, "go")
        await running.wait()
        taken: list[object] = []
        there.taken_over = taken.append
        await took_over(postgresql, session, here, kept=2)
        await becomes(stopped(here, session))
        await asyncio.wait_for(cut.wait(), 20)
        for hub in two:
            with pytest.raises(SessionDiverged):
                await hub.resume_session(session, agent(), config)
            with pytest.raises(SessionDiverged):
                await hub.branch_session(session, 1, agent(), config)
        assert taken == []
        await accepted(there, session)
        assert await there.resume_session(session, agent(), config) == session

    @pytest.mark.slow
    async def test_flow_is_not_resumed_before_acceptance(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """Waiting for the end of the flow returns, and no server resumes the flow."""
        here, there = two
        session = await here.open_flow(Release, Asked(), SessionConfig({}))
        waiting = asyncio.ensure_future(here.flow_ended(session))
        await becomes(lambda: follows_begun_session(there, session))
        await took_over(postgresql, session, here)
        await becomes(stopped(there, session))
        await asyncio.wait([waiting], timeout=20)
        assert waiting.done()
        for hub in two:
            with pytest.raises(SessionDiverged):
                await hub.resume_flow(session, Release, SessionConfig({}))


async def follows_begun_session(hub: SharedHub, session: str) -> bool:
    """Tell whether a server follows a session that has begun its first step."""
    view = hub._peers.find(session)
    return view is not None and view.state.seq > 1


class TestAccepted:
    async def test_resumes_at_any_server(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """After an acceptance at one server, the agent can resume the session at either server."""
        here, there = two
        lost = await asked(here, there)
        await took_over(postgresql, "robin-1", here)
        await becomes(stopped(there))
        await becomes(stopped(here))
        await accepted(there)
        for hub in (here, there):
            await becomes(lambda hub=hub: knows_no_divergence(hub))
            await resumed(hub, rules=RULES)
            assert (await hub.call("robin-1", f"t-{hub._lease.id}", "test", {})).outcome == "allow"
        bodies = [each.body for each in await there.recorded("robin-1")]
        [loss] = [each for each in bodies if isinstance(each, LossAccepted)]
        assert (loss.by, loss.reason, loss.kept) == ("ada", "the deploy was seen", 1)
        assert len([each for each in bodies if isinstance(each, CallDecided)]) == 2
        assert fold(await there.recorded("robin-1")) == await there.session("robin-1")
        await asyncio.gather(lost, return_exceptions=True)

    @pytest.mark.slow
    async def test_paused_owner_ends_the_session(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """A paused server ends its session if the loss was accepted at another server."""
        here, there = two
        lost = await asked(here, there)
        await stop_following(here)
        await took_over(postgresql, "robin-1", there)
        await becomes(stopped(there))
        await accepted(there)
        fail_over(here._journal)
        here._orphans_due = 0.0
        await here._look()
        await here._look()
        assert "robin-1" not in here._live
        assert await here.approvals() == []
        with pytest.raises((JournalError, UnknownSessionError)):
            await asyncio.wait_for(lost, 5)
        await resumed(here, rules=RULES)
        await here._look()
        assert (await here.call("robin-1", "t1", "test", {})).outcome == "allow"

    @pytest.mark.slow
    async def test_requires_operator_name_reason_and_right(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """Otherwise the loss is not accepted, and the session stays stopped."""
        here, there = two
        await opened(here, RULES)
        await here.call("robin-1", "t1", "test", {})
        outcome = await there.accept_loss("robin-1", by="ada", reason="why not")
        assert "did not diverge" in outcome.message
        await took_over(postgresql, "robin-1", here)
        await becomes(stopped(there))
        there.know_operators(Operators((Operator("eve", rights="look"), Operator("ada"))))
        for by, reason in (("", "why not"), ("ada", " "), ("eve", "why not")):
            outcome = await there.accept_loss("robin-1", by=by, reason=reason)
            assert outcome.message.startswith("Not accepted: "), outcome.message
        revoked = Credential("ada's", lambda token, needed: False, Operator("ada"))
        outcome = await there.accept_loss("robin-1", by="ada", reason="why not", credential=revoked)
        assert outcome.message == "Not accepted: The token of ada is no longer in force"
        with pytest.raises(SessionDiverged):
            await resumed(there, rules=RULES)


async def knows_no_divergence(hub: SharedHub) -> bool:
    """Tell whether a server knows of no diverged session."""
    return not hub._journal.diverged_sessions
