"""Resuming a recorded session of an ACP agent, in the agent and at the gate."""

from __future__ import annotations

import pytest

from interlock.engine.gateway.acp.agent import AcpAgent, AcpError
from interlock.engine.history.model.events import SessionResumed
from interlock.engine.hub.hub import ExternalAgent
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from .acp_world import AGENT, RULES, World, agents_python, call


async def resume_elsewhere(world: World, *able: str) -> None:
    """End the session and resume it in another process with the given capabilities."""
    await world.hub.close_session(world.session, "mia")
    agent = AcpAgent(world.hub, [*agents_python(), str(AGENT), *able], world.directory)
    rules = compile_rules(RULES).registry
    assert await agent.open(SessionConfig(rules, by="mia"), resume=world.session[:-1]) == world.session


class TestGoingOn:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("able", "asked"),
        [(("load",), "loaded"), (("resume",), "resumed"), (("load", "resume"), "resumed")],
    )
    async def test_resumes_agent_session_and_nets(
        self, world: World, able: tuple[str, ...], asked: str
    ) -> None:
        """The agent gets its session id, repeated output is not recorded, and the nets keep state."""
        await world.start()
        deploy = ["ask", call("c1", command="./deploy")]
        await world.turn(["ask", call("t1", command="./test")], ["say", "tested"])
        await resume_elsewhere(world, *able)
        assert world.done(asked) == ["s1"]
        state = await world.turn(deploy, ["ask", call("t1", "delete", path="x")])
        assert world.done("ran") == ["t1", "c1"]
        assert world.done("chosen") == ["yes", "yes", "no"]
        said = [entry.text for entry in state.transcript if entry.kind == "assistant"]
        assert said == ["tested"]
        [resumed] = await world.events(SessionResumed)
        assert (resumed.by, resumed.source) == ("mia", {"acp": "s1"})
        await world.check_fold()

    @pytest.mark.slow
    async def test_session_can_be_resumed_twice(self, world: World) -> None:
        """A session can be resumed twice, and a used call id is judged as a new call."""
        await world.start()
        for _ in range(2):
            await world.turn(["ask", call("t1", command="./test")])
            await resume_elsewhere(world, "resume")
        await world.turn(["ask", call("t1", "delete", path="x")])
        assert world.done("chosen") == ["yes", "yes", "no"]

    @pytest.mark.slow
    async def test_agent_without_resume_or_load_is_refused(self, world: World) -> None:
        """An agent that can neither resume nor load reports an error, and nothing is recorded."""
        await world.start()
        before = len(await world.hub.recorded(world.session))
        with pytest.raises(AcpError, match="neither session/resume nor session/load"):
            await resume_elsewhere(world)
        assert len(await world.hub.recorded(world.session)) == before + 1  # the session's end

    async def test_session_of_other_protocol_is_refused(self, world: World) -> None:
        """The session of an agent that does not use ACP cannot be resumed."""
        agent = ExternalAgent(name="bot")
        world.session = await world.hub.open_external(agent, SessionConfig({}, by="mia"))
        with pytest.raises(AcpError, match="not that of an agent that speaks this protocol"):
            await resume_elsewhere(world, "load")
