"""Flows of a busy host: a step, a fork, a person's answer, an agent whose calls need approval, a join.

A run's output depends only on its name, whatever is approved and however often its host dies. Its tools
write marks under the run's name; a tool that needs no approval may run again with its step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from pydantic import BaseModel, JsonValue

from interlock.engine.agents import AssistantMessage, Message, Reply, ScriptedModel, tool
from interlock.engine.agents.models.scripted import ScriptedCall
from interlock.engine.flows import (
    AgentConfig,
    AgentNode,
    Approve,
    Context,
    Done,
    Flow,
    FlowBuilder,
    FlowRuntime,
    Suspended,
)
from interlock.engine.flows.agents.tools import CallContext
from interlock.engine.gate import create_gate_manager
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from .marks import Marks

LANES = 3
"""Number of concurrent runs; when one has ended, another one begins."""
MOST_RUNS = 12
"""Maximum number of runs per lane in a life."""

RULES = compile_rules("require human-approval before deploy\nrequire look before deploy\n").registry
ASKED_TOOL = "deploy"
"""Tool that never runs without approval, and never twice."""


@dataclass(frozen=True)
class World:
    """Dependencies of a run's tools."""

    run: str
    marks: Marks


class Begun(BaseModel):
    number: int


class Planned(BaseModel):
    number: int


class ToWrite(BaseModel):
    number: int


class ToCheck(BaseModel):
    number: int


class Written(BaseModel):
    number: int


class Checked(BaseModel):
    number: int


class Both(BaseModel):
    number: int


class Ended(BaseModel):
    number: int


@tool
async def look(ctx: CallContext, env: str) -> str:
    """Look."""
    return await _did("look", ctx, env)


@tool
async def deploy(ctx: CallContext, env: str) -> str:
    """Deploy."""
    return await _did(ASKED_TOOL, ctx, env)


async def _did(name: str, ctx: CallContext, env: str) -> str:
    world = ctx.require(World)
    world.marks.ran(world.run, ctx.call_id, name, env)
    for _ in range(Random(f"{world.run} {ctx.call_id}").randrange(30)):
        await asyncio.sleep(0)
    return f"{name} ok"


def _reply(messages: Sequence[Message]) -> Reply:
    """Return the model's reply: look and deploy, deploy once more, look while submitting the output."""
    turn = sum(isinstance(message, AssistantMessage) for message in messages)
    number = Begun.model_validate_json(messages[0].text).number
    env: dict[str, JsonValue] = {"env": "staging"}
    if turn < 2:
        names = ("look", "deploy", "look") if turn == 0 else ("deploy",)
        return Reply(calls=tuple(ScriptedCall(n, env, f"c{turn}.{at}") for at, n in enumerate(names)))
    return Reply(calls=(ScriptedCall("submit", {"number": number + 1}, "c2"),))


class Writer(AgentNode[ToWrite, Written]):
    config = AgentConfig("Write.", ScriptedModel(_reply), (look, deploy))


async def plan(begun: Begun, ctx: Context) -> Planned:
    await asyncio.sleep(0)
    return Planned(number=begun.number * 3)


def part(planned: Planned, ctx: Context) -> tuple[ToCheck, ToWrite]:
    return ToCheck(number=planned.number), ToWrite(number=planned.number)


def bring(written: Written, checked: Checked, ctx: Context) -> Both:
    return Both(number=written.number * 1000 + checked.number)


async def end(both: Both, ctx: Context) -> Ended:
    await asyncio.sleep(0)
    return Ended(number=both.number)


class Busywork(Flow[Begun, Ended]):
    """The flow described above."""

    @classmethod
    def build(cls, g: FlowBuilder) -> FlowBuilder:
        g = g.work(plan).fork(part).agent(Writer).suspend(ToCheck, Checked)
        return g.join(bring).work(end)


def is_run(session: str) -> bool:
    """Return whether this is the id of a run."""
    return session.startswith("f")


def number_of(run: str) -> int:
    """Return the input of a run."""
    return sum(map(ord, run)) % 100


def checked_in(run: str) -> int:
    """Return the answer that a person fills in."""
    return number_of(run) + 5


def comes_to(run: str) -> str:
    """Return the output of a run, as recorded."""
    return Ended(number=(number_of(run) * 3 + 1) * 1000 + checked_in(run)).model_dump_json(indent=2)


async def _steps() -> list[tuple[str, ...]]:
    """Return the live states after each step of an uninterrupted run outside any hub."""
    gate = create_gate_manager(registry=RULES)
    runtime = FlowRuntime(Busywork, Begun(number=1), gate=gate)
    ctx = Context(deps={World: World("alone", _Unmarked())})
    seen = [runtime.states]
    while True:
        match runtime.suspended:
            case None:
                if isinstance(await runtime.next(ctx), Done):
                    return seen
            case Suspended(kind="approval", tool_id=tool_id):
                await runtime.resume(ctx, tool_id, Approve())
            case Suspended(tool_id=tool_id):
                await runtime.resume(ctx, tool_id, {"number": 1})
        seen.append(runtime.states)


class _Unmarked(Marks):
    """Stand-in for marks, in a run outside of a life."""

    def __init__(self) -> None:
        pass

    def ran(self, session: str, call_id: str, tool: str, env: str) -> None:
        pass


STEPS = asyncio.run(_steps())
"""Live states of every run, from its beginning to its end."""


class Flows:
    """The runs of one host."""

    def __init__(self, hub: Hub, marks: Marks) -> None:
        self._hub = hub
        self._marks = marks

    async def lane(self, lane: int) -> None:
        """Execute one run after the other."""
        for number in range(1, MOST_RUNS + 1):
            run = f"f{lane}-{number}"
            await self.begin(run)
            await self._hub.flow_ended(run)

    async def begin(self, run: str) -> None:
        begun = Begun(number=number_of(run))
        ctx = self._context(run)
        await self._hub.open_flow(Busywork, begun, SessionConfig(RULES), session_id=run, context=ctx)
        self._marks.told("opened", run)

    async def resume(self, run: str) -> None:
        await self._hub.resume_flow(
            run, Busywork, SessionConfig(RULES, by="maria"), context=self._context(run)
        )

    def _context(self, run: str) -> Context:
        return Context(deps={World: World(run, self._marks)})


def filled_in(request: ApprovalState) -> dict[str, JsonValue] | None:
    """Return the answer to a request that wants one, else `None`."""
    return None if request.wants is None else {"number": checked_in(request.session)}
