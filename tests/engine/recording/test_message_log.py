"""Exported messages contain the outcome of each call, so that a gate can replay them."""

from __future__ import annotations

import json

from interlock.engine import Agent, ScriptedModel, tool
from interlock.engine.agents import C, T
from interlock.engine.gate import create_gate
from interlock.engine.hub.hub import Hub
from interlock.engine.recording.conversation import message_log
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ..gateway.served import until

RULES = """\
map do.what test as test
map do.what deploy as deploy
map do.what build as build
require test before deploy
require build before ship
block rm
require human-approval before ask
map ask.what build as build
"""


@tool(name="do")
async def do(what: str) -> str:
    """Do something; raise for a broken test."""
    if what.startswith("test broken"):
        raise RuntimeError("broken")
    return "ok"


@tool(name="rm")
async def rm() -> str:
    """Remove everything."""
    return "gone"


@tool(name="ask")
async def ask(what: str) -> str:
    """Do something after an approval."""
    return f"did {what}"


async def recorded(hub: Hub) -> list[object]:
    """Return the messages of a session with a blocked, a failed, an edited and a successful call."""
    model = ScriptedModel(
        [
            C(c1=("rm", {}), c2=("do", {"what": "test broken"})),
            C(c3=("ask", {"what": "nothing"})),
            C(c4=("do", {"what": "test"})),
            T("done"),
        ]
    )
    agent = Agent(model, name="bot", tools=[do, rm, ask])
    session = await hub.open_session(agent, SessionConfig(compile_rules(RULES).registry))
    await hub.send(session, "go", by="ann")
    waiting = await until(hub.approvals)
    answer = await hub.decide(waiting[0].id, approved=True, by="ann", input={"what": "build"})
    assert answer.ok, answer.message
    await hub.wait(session)
    return list(message_log(await hub.recorded(session)))


class TestOutcomes:
    async def test_result_has_outcome_and_input_that_ran(self, hub: Hub) -> None:
        """G-62: a result has its outcome, and the input that ran if that was another one."""
        log = await recorded(hub)
        ends = [message["interlock"] for message in log if message["role"] == "tool"]  # pyright: ignore
        assert ends == [
            {"outcome": "blocked"},
            {"outcome": "failed"},
            {"outcome": "done", "input": {"what": "build"}},
            {"outcome": "done"},
        ]

    async def test_gate_from_export_has_the_markings(self, hub: Hub) -> None:
        """G-62: a gate started from the export has the markings of the session."""
        log = json.loads(json.dumps(await recorded(hub)))
        [live] = list(hub._live)
        gate = create_gate(list(compile_rules(RULES).registry.values()))
        manager = gate.wrap_tools({}, messages=log).manager
        there = {net.net.name: net.state.marking for net in live.manager.get_active_nets()}
        assert {net.net.name: net.state.marking for net in manager.get_active_nets()} == there
        fresh = {net.net.name: net.state.marking for net in gate.new_manager().get_active_nets()}
        assert sum(there[name] != fresh[name] for name in there) == 2
