"""Withdrawn requests: the record and the consoles name the operator or the cause."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from interlock.engine import Agent, ScriptedModel, task_tool
from interlock.engine.agents import C, T
from interlock.engine.approvals.withdrawals import Tasks, Withdrawals
from interlock.engine.history.errors import JournalError, ServerEnded
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.fold.fold import new_state
from interlock.engine.history.model.events import ApprovalRequested, ApprovalWithdrawn, EventBody
from interlock.engine.hub.hub import CallWithdrawn, Hub, UnknownSessionError
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ..support.external_agent import opened
from ..support.shop import Shop, bodies, bot, until

ASK = "require human-approval before deploy"


async def session_with_waiting_call(hub: Hub, agent: Agent) -> str:
    """A session with a call that waits for approval."""
    session = await hub.open_session(agent, SessionConfig(compile_rules(ASK).registry))
    heard = hub.subscribe()
    await hub.send(session, "go", by="maria")
    await until(heard, ApprovalRequested)
    return session


async def end_call(hub: Hub, session: str, how: str) -> None:
    """End the call of a session in this way."""
    match how:
        case "stopped":
            await hub.abort(session, "wrong branch", by="ada")
        case "spoken to":
            await hub.send(session, "wait", by="ben")
        case "closed":
            await hub.close_session(session, "ada")
        case "shut down":
            await hub.close()
        case _:
            await hub.withdraw_call(session, "d1", "the agent is gone: nobody waits for it")


STOPPED = "the agent was stopped: stopped by ada: wrong branch"
CLOSED = "the session was closed by ada"
SHUT_DOWN = "the session was closed: Interlock was shut down"


class TestTheReason:
    @pytest.mark.parametrize(
        ("how", "reason"),
        [
            ("stopped", STOPPED),
            ("spoken to", "ben spoke to the agent"),
            ("closed", CLOSED),
            ("shut down", SHUT_DOWN),
        ],
    )
    async def test_agent_of_the_server(self, hub: Hub, how: str, reason: str) -> None:
        """The reason names the operator who stopped, closed or messaged the agent, or the shutdown."""
        session = await session_with_waiting_call(hub, bot(Shop(), C(deploy={}), T("done")))
        heard = hub.subscribe()
        await end_call(hub, session, how)
        assert reason in headline(await until(heard, ApprovalWithdrawn))
        assert [gone.reason for gone in bodies(hub, session, ApprovalWithdrawn)] == [reason]

    @pytest.mark.parametrize(
        ("how", "reason"),
        [
            ("stopped", STOPPED),
            ("gone", "the agent is gone: nobody waits for it"),
            ("closed", CLOSED),
            ("shut down", SHUT_DOWN),
        ],
    )
    async def test_external_agent(self, hub: Hub, how: str, reason: str) -> None:
        """The same reasons apply to an external agent, plus the loss of its connection."""
        session = await opened(hub, ASK)
        heard = hub.subscribe()
        call = asyncio.ensure_future(hub.call(session, "d1", "deploy", {"env": "prod"}))
        await until(heard, ApprovalRequested)
        await end_call(hub, session, how)
        if how == "stopped":
            assert (await call).outcome == "block"
        else:
            with pytest.raises((CallWithdrawn, UnknownSessionError)):
                await call
        assert [gone.reason for gone in bodies(hub, session, ApprovalWithdrawn)] == [reason]

    @pytest.mark.variants
    @pytest.mark.parametrize("which", ["boss", "helper"])
    async def test_subagent(self, hub: Hub, which: str) -> None:
        """Stopping a subagent or its parent is the reason of the subagent's withdrawn request."""
        helper = Agent(ScriptedModel([C(deploy={})]), name="helper", tools=Shop().tools())
        model = ScriptedModel([C(task_helper={"prompt": "Do it"}), T("done")])
        session = await session_with_waiting_call(
            hub, Agent(model, name="boss", tools=[task_tool(helper)])
        )
        stopped = next(each.id for each in await hub.sessions() if each.agent == which)
        heard = hub.subscribe()
        await hub.abort(stopped, "wrong branch", by="ada")
        await until(heard, ApprovalWithdrawn)
        assert [gone.reason for gone in bodies(hub, session, ApprovalWithdrawn)] == [STOPPED]


class Host:
    """A session whose journal refuses every record with `error`."""

    id = "s"

    def __init__(self, error: JournalError) -> None:
        self.state = new_state("s")
        self._error = error

    async def record(self, *bodies: EventBody, on_written: Callable[[bool], None] | None = None) -> None:
        raise self._error

    def hand_over(self, *bodies: EventBody) -> None:
        raise self._error

    def end_reason(self, call_id: str) -> str:
        return "its client has gone"


class TestRefused:
    @pytest.mark.parametrize(
        ("error", "again"),
        [(JournalError("the disk is full"), True), (ServerEnded("its lease is over"), False)],
    )
    async def test_retried_except_on_an_ended_server(
        self, error: JournalError, again: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A failed withdrawal is retried and logged once, except on a server that has ended."""
        withdrawals = Withdrawals(Host(error), Tasks(), ())
        for _ in range(3):
            await withdrawals.withdraw("a1", "c1", "its client has gone")
        assert [*withdrawals._retries] == (["a1"] if again else [])
        logged = [each for each in caplog.records if each.levelno >= logging.WARNING]
        assert ["the disk is full" in each.getMessage() for each in logged] == ([True] if again else [])
        assert not any(each.exc_info for each in logged)
        for timer in withdrawals._retries.values():
            timer.cancel()
