"""A server that is paused between recording and sending a decision, for longer than its lease."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from pydantic import BaseModel

from interlock.engine.agents import Agent, C, Hooks, ScriptedModel, T, ToolCallEvent, tool
from interlock.engine.flows import AgentConfig, AgentNode, Flow, FlowBuilder
from interlock.engine.gateway.client.agent import AgentClient
from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.protocol.tokens import TokenFile
from interlock.engine.gateway.server.rule_sets import RuleSets
from interlock.engine.gateway.server.server import Gateway
from interlock.engine.history.errors import ServerEnded
from interlock.engine.history.model.events import CallDecided, JournalEvent
from interlock.engine.history.model.records import FlowStepped
from interlock.engine.history.postgres.servers.clock import now
from interlock.engine.hub.hub import CallAnswer
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ...support.external_agent import opened
from .support.hubs import RULES, becomes, renews_no_more


class TestCall:
    @pytest.mark.parametrize("goes_on", [True, False], ids=["held again", "taken over"])
    async def test_is_not_released_while_the_lease_is_over(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch, goes_on: bool
    ) -> None:
        """A recorded decision is not released while the lease is expired: a freeze elsewhere may hold."""
        here, _ = two
        await opened(here, RULES)
        await renews_no_more(here)
        writer = here._journal._writer
        commit, pause = writer.commit, True

        def paused(*args: object) -> Mapping[str, object]:
            done = commit(*args)
            if pause:
                here._lease._valid_until = 0.0
            return done

        monkeypatch.setattr(writer, "commit", paused)
        call = asyncio.ensure_future(here.call("robin-1", "t1", "test", {}))
        await asyncio.wait([call], timeout=0.2)
        assert here._lease._valid_until == 0.0
        assert not call.done()
        pause = False
        if goes_on:
            here._lease._valid_until = now() + 60
            assert (await asyncio.wait_for(call, 5)).outcome == "allow"
        else:
            here._lease.end()
            with pytest.raises(ServerEnded):
                await asyncio.wait_for(call, 5)

    async def test_lease_is_checked_when_answer_is_sent(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """The server checks the lease at the moment at which it sends the answer."""
        here, _ = two
        await renews_no_more(here)
        submit = here.submit_call

        def paused(*args: object, **kwargs: object) -> asyncio.Future[CallAnswer]:
            def pause(_: object) -> None:
                here._lease._valid_until = 0.0

            answer = submit(*args, **kwargs)
            answer.add_done_callback(pause)
            return answer

        monkeypatch.setattr(here, "submit_call", paused)
        tokens = TokenFile(tmp_path / "tokens.json")
        secret = tokens.issue("agent", "bot")
        gateway = Gateway(here, tokens, rules=RuleSets.of({}))
        address = await gateway.start(Address(port=0))
        try:
            async with AgentClient(address.url, secret) as client:
                gate = await client.open("bot")
                call = asyncio.ensure_future(gate.call("test", {}, call_id="t1"))
                await asyncio.wait([call], timeout=0.2)
                assert here._lease._valid_until == 0.0
                assert not call.done()
                here._lease._valid_until = now() + 60
                assert (await asyncio.wait_for(call, 5)).outcome == "allow"
        finally:
            await gateway.close()


class Asked(BaseModel):
    """Input of a flow."""


class Built(BaseModel):
    """Result of its first step."""


class Shipped(BaseModel):
    """Output of the flow."""


@asynccontextmanager
async def paused_after(hub: SharedHub, kind: type, number: int = 1) -> AsyncGenerator[asyncio.Event]:
    """Have the lease be over from the moment in which an event of a kind is shown, for the `number`th."""
    await renews_no_more(hub)
    paused = asyncio.Event()
    with closing(hub.subscribe()) as events:

        async def watch() -> None:
            left = number
            async for event in events:
                left -= isinstance(event, JournalEvent) and isinstance(event.body, kind)
                if not left:
                    hub._lease._valid_until = 0.0
                    paused.set()
                    return

        watching = asyncio.create_task(watch())
        try:
            yield paused
        finally:
            watching.cancel()


async def check_begins_only_with_lease(hub: SharedHub, begun: list[str], *, goes_on: bool) -> None:
    """Check that nothing begins while the lease is over, and after that only if it is held again."""
    await asyncio.sleep(0.2)
    assert begun == []
    if goes_on:
        hub._lease._valid_until = now() + 60
        await becomes(lambda: asyncio.sleep(0, bool(begun)))
    else:
        hub._lease.end()
        await asyncio.sleep(0.2)
        assert begun == []


@pytest.mark.parametrize("goes_on", [True, False], ids=["held again", "taken over"])
class TestHosted:
    """Tools and steps of a server that is paused after they were allowed."""

    async def test_no_tool_starts_after_a_slow_hook(
        self, two: tuple[SharedHub, SharedHub], goes_on: bool
    ) -> None:
        """A hook may take its time after the gate has allowed a call."""
        here, _ = two
        begun: list[str] = []

        @tool
        async def build() -> str:
            """Build."""
            begun.append("build")
            return "built"

        hooked, go = asyncio.Event(), asyncio.Event()

        async def look(_: ToolCallEvent) -> None:
            hooked.set()
            await go.wait()

        model = ScriptedModel([C(b1=("build", {})), T("done")])
        agent = Agent(model, name="bot", tools=[build], hooks=[Hooks(before_tool_call=look)])
        session = await here.open_session(agent, SessionConfig(compile_rules(RULES).registry))
        await here.send(session, "go")
        await hooked.wait()
        await renews_no_more(here)
        here._lease._valid_until = 0.0
        go.set()
        await check_begins_only_with_lease(here, begun, goes_on=goes_on)

    async def test_no_tool_starts_of_a_reply_with_more_calls(
        self, two: tuple[SharedHub, SharedHub], goes_on: bool
    ) -> None:
        """All calls of a reply are decided before the first one runs."""
        here, _ = two
        begun: list[str] = []

        @tool
        async def build() -> str:
            """Build."""
            begun.append("build")
            return "built"

        model = ScriptedModel([C(b1=("build", {}), b2=("build", {})), T("done")])
        agent = Agent(model, name="bot", tools=[build])
        session = await here.open_session(agent, SessionConfig(compile_rules(RULES).registry))
        async with paused_after(here, CallDecided, 2) as paused:
            await here.send(session, "go")
            await paused.wait()
            await check_begins_only_with_lease(here, begun, goes_on=goes_on)

    async def test_no_flow_step_starts(self, two: tuple[SharedHub, SharedHub], goes_on: bool) -> None:
        """The one before it is recorded by then, and another server may take the next one."""
        here, _ = two
        begun: list[str] = []

        async def build(asked: Asked) -> Built:
            return Built()

        async def ship(built: Built) -> Shipped:
            begun.append("ship")
            return Shipped()

        class Release(Flow[Asked, Shipped]):
            @classmethod
            def build(cls, g: FlowBuilder[Asked, Shipped]) -> FlowBuilder[Asked, Shipped]:
                return g.work(build).work(ship)

        async with paused_after(here, FlowStepped, 2) as paused:
            await here.open_flow(Release, Asked(), SessionConfig({}))
            await paused.wait()
            await check_begins_only_with_lease(here, begun, goes_on=goes_on)

    async def test_no_tool_of_a_flow_starts(
        self, two: tuple[SharedHub, SharedHub], goes_on: bool
    ) -> None:
        """A call of a flow's agent that needs no approval runs as soon as its decision is recorded."""
        here, _ = two
        begun: list[str] = []

        @tool
        async def build() -> str:
            """Build."""
            begun.append("build")
            return "built"

        model = ScriptedModel([C(b1=("build", {})), C(submit={})])

        class Write(AgentNode[Asked, Shipped]):
            config = AgentConfig("Build.", model, [build])

        class Release(Flow[Asked, Shipped]):
            @classmethod
            def build(cls, g: FlowBuilder[Asked, Shipped]) -> FlowBuilder[Asked, Shipped]:
                return g.agent(Write)

        async with paused_after(here, CallDecided) as paused:
            await here.open_flow(Release, Asked(), SessionConfig({}))
            await paused.wait()
            await check_begins_only_with_lease(here, begun, goes_on=goes_on)
