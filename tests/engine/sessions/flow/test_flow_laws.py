"""Laws of flows under the hub: an interrupted run has the same result as an uninterrupted one."""

from __future__ import annotations

import asyncio
import tempfile
import types
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from interlock.engine.agents import AssistantMessage, C, Message, Reply, ScriptedModel, ToolContext, tool
from interlock.engine.agents.decisions import Deny
from interlock.engine.flows import (
    AgentConfig,
    AgentNode,
    Approve,
    Done,
    Flow,
    FlowBuilder,
    FlowError,
    FlowRuntime,
    Invalid,
    Suspended,
)
from interlock.engine.flows.run.scheduler import next_up
from interlock.engine.gate import create_gate_manager
from interlock.engine.history.fold.flow_steps import next_up as recorded_next_up
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.journal.writer import Writer, Written
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallDecided,
    JournalEvent,
)
from interlock.engine.history.model.records import FlowStepped
from interlock.engine.history.model.state import ApprovalState, FlowState
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.flow.record import flow_record
from interlock.rules import compile_rules
from tests.support.laws import examples

from ...flows.support.plain import Plain, grown, step
from ...flows.support.shapes import CTX, E, F, J, M, W
from ...support.flow_hosts import bodies, checked, killed

NETS = compile_rules("require human-approval before mark\nlimit mark to 30 per session\n").registry
MOST_STEPS = 40

marks: list[str] = []
"""The agents whose approved tool ran, kept outside the record."""


@tool
async def mark(ctx: ToolContext, agent: str) -> str:
    """Record a mark for the agent."""
    marks.append(agent)
    return "marked"


@tool
async def look(ctx: ToolContext, agent: str) -> str:
    """Look around; this tool needs no approval."""
    return "seen"


Shaped: TypeAlias = tuple[list[Plain], list[str], list[bool]]
"""Nodes of a flow; which works are suspend (`S`) or agent (`A`) nodes; which calls are approved."""


def flow_of(shaped: Shaped) -> type[Flow]:
    """Build the flow; its values grow, so that choices cannot loop forever."""
    nodes, kinds, _ = shaped

    def build(cls: object, g: FlowBuilder) -> FlowBuilder:
        left = iter(kinds)
        for kind, first, *rest in nodes:
            match next(left, kind) if kind == "W" else kind:
                case "W":
                    g = W(first, rest[0], lambda n: (n * 5 + 3) % 64)(g)
                case "E":
                    g = E(first, *rest, left=lambda n: n % 3 != 0)(g)
                case "F":
                    g = F(first, *rest)(g)
                case "J":
                    g = J(first, rest[0], rest[1], lambda m, n: (m * 2 + n) % 64)(g)
                case "S":
                    g = g.suspend(M(first), M(rest[0]))
                case _:
                    g = g.agent(an_agent(first, rest[0]))
        return g

    body = {"build": classmethod(build)}
    return types.new_class("Law", (Flow[M("S"), M("Z")],), exec_body=lambda space: space.update(body))


def an_agent(takes: str, gives: str) -> type[AgentNode]:
    """An agent that looks, makes a mark that needs approval, looks again and submits."""

    def reply(messages: Sequence[Message]) -> Reply:
        if not any(isinstance(message, AssistantMessage) for message in messages):
            args = {"agent": takes}
            return C(look=args) + C(mark=args) + C(look={"agent": gives})
        return C(submit={"val": len(takes) + 7})

    class Made(AgentNode[M(takes), M(gives)]):
        config = AgentConfig("Be brief.", ScriptedModel(reply), (mark, look))

    return Made


def answer_to(shaped: Shaped, key: str) -> dict[str, JsonValue]:
    """Return the operator's input at a step, which is always the same."""
    return {"val": sum(map(ord, key)) % 64}


def approves(shaped: Shaped, agent: str) -> bool:
    """Return whether an agent's mark is approved, which is always the same."""
    said = shaped[2]
    return said[sum(map(ord, agent)) % len(said)]


async def uninterrupted(
    flow: type[Flow], shaped: Shaped
) -> tuple[list[tuple[str, ...]], str, Counter[str]] | None:
    """Run the flow without a hub; return the states after each step, the output and the marks."""
    marks.clear()
    try:
        gate = create_gate_manager(registry=NETS)
        runtime = FlowRuntime(flow, M("S")(val=1), gate=gate)
    except Invalid:
        return None
    seen: list[tuple[str, ...]] = []
    for _ in range(MOST_STEPS):
        seen.append(runtime.states)
        try:
            match runtime.suspended:
                case None:
                    came = await runtime.next(CTX)
                    if isinstance(came, Done):
                        return seen, came.output.model_dump_json(indent=2), Counter(marks)
                case Suspended(kind="approval", tool_id=tool_id, args=args):
                    said = Approve() if approves(shaped, str(args["agent"])) else Deny(reason="no")
                    await runtime.resume(CTX, tool_id, said)
                case Suspended(tool_id=tool_id):
                    await runtime.resume(CTX, tool_id, answer_to(shaped, tool_id))
        except FlowError:
            return None
    return None


How: TypeAlias = Literal["kill", "stop", "refuse"]


@dataclass
class Interruption:
    """An interruption at a chosen commit of the journal."""

    how: How | None = None
    left: int = 0
    came: asyncio.Event = field(default_factory=asyncio.Event)
    loop: asyncio.AbstractEventLoop | None = None

    def arm(self, how: How | None, left: int) -> None:
        self.how, self.left, self.loop = how, left, asyncio.get_running_loop()
        self.came.clear()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the commits of the writer thread and interrupt at the chosen one."""
        commit = Writer.commit

        def committed(writer: Writer, batch: list[Written]) -> None:
            self.left -= 1
            due = self.how is not None and self.left == 0
            if due and self.how == "refuse":
                raise OSError("no space left on device")
            commit(writer, batch)
            if due:
                self.loop.call_soon_threadsafe(self.came.set)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Writer, "commit", committed)
            yield


async def interrupted(
    path: Path, flow: type[Flow], shaped: Shaped, times: Sequence[tuple[How, int]], lazy: int
) -> tuple[Hub, str]:
    """Run one flow under successive hosts, each interrupted except the last."""
    interruption = Interruption()
    with interruption.watching():
        hub, session = Hub.open(path), "run"
        for number, (how, left) in enumerate([*times, (None, 0)]):
            if number == 0:
                await hub.open_flow(flow, M("S")(val=1), SessionConfig(NETS), session_id=session)
            else:
                await hub.resume_flow(session, flow, SessionConfig(NETS))
            interruption.arm(how, left)
            ended = asyncio.create_task(hub.flow_ended(session))
            people = asyncio.create_task(decide(hub, shaped, lazy))
            due = asyncio.create_task(interruption.came.wait())
            async with asyncio.timeout(20):
                await asyncio.wait([ended, due], return_when=asyncio.FIRST_COMPLETED)
            # From here on, the disk works again.
            interruption.how = None
            for task in (people, due, ended):
                task.cancel()
            await asyncio.gather(people, due, ended, return_exceptions=True)
            state = await hub.session(session)
            if how == "kill" and interruption.came.is_set():
                await killed(hub, session)
                hub = Hub.open(path)
                continue
            if how == "stop":
                await hub.abort(session, "for now")
                state = await hub.session(session)
            if state.status == "done":
                break
            await hub.close_session(session, by="maria")
    return hub, session


async def decide(hub: Hub, shaped: Shaped, lazy: int) -> None:
    """Answer every open request, each after some turns of the event loop."""
    while True:
        for request in await hub.approvals():
            for _ in range(lazy):
                await asyncio.sleep(0)
            await decide_one(hub, shaped, request)
        await asyncio.sleep(0.0005)


async def decide_one(hub: Hub, shaped: Shaped, request: ApprovalState) -> None:
    if request.wants is not None:
        given = answer_to(shaped, request.tool)
        await hub.decide(request.id, approved=True, by="ada", input=given)
    else:
        said = approves(shaped, str(request.input["agent"]))
        await hub.decide(request.id, approved=said, by="ada", reason="no")


def requests_after_answer(events: Sequence[JournalEvent]) -> list[str]:
    """Return the calls with a request after they had been answered."""
    answered: set[str] = set()
    again: list[str] = []
    for event in events:
        match event.body:
            case ApprovalRequested(call_id=call_id) if call_id in answered:
                again.append(call_id)
            case ApprovalDecided() as body if body.input is not None or not body.approved:
                answered.add(body.call_id)
            case CallDecided():
                answered.add(event.body.call_id)
            case _:
                pass
    return again


shapes = st.tuples(
    grown(),
    st.lists(st.sampled_from("WSSAA"), max_size=6),
    st.lists(st.booleans(), min_size=1, max_size=3),
)
interruptions = st.lists(
    st.tuples(st.sampled_from(["kill", "stop", "refuse"]), st.integers(1, 12)), min_size=1, max_size=4
)


class TestNextUp:
    @settings(max_examples=examples(100), deadline=None)
    @given(grown(), st.lists(st.integers(0, 1), min_size=12, max_size=12))
    def test_record_names_the_next_node(self, nodes: list[Plain], branches: list[int]) -> None:
        """P-52: in every state of a run, the record names the node that runs next, or none."""
        try:
            runtime = FlowRuntime(flow_of((nodes, [], [])), M("S")(val=1))
        except Invalid:
            return
        shape = flow_record("Law", runtime.graph)
        live = ["S"]
        for branch in branches:
            node = next_up(runtime.graph.nodes, live, live)
            ways = recorded_next_up(FlowState(flow=shape, live=tuple(live)))
            taken = [] if node is None else [state.key for state in node.inputs]
            assert [sorted(way.inputs) for way in ways] == [sorted(taken)] * len(ways)
            assert bool(ways) == (node is not None)
            after = step(nodes, live, branch)
            if isinstance(after, str):
                break
            live = after


class TestInterrupted:
    @pytest.mark.slow
    @settings(max_examples=examples(25), deadline=None)
    @given(shapes, interruptions, st.integers(0, 20))
    async def test_interrupted_run_equals_uninterrupted_one(
        self, shaped: Shaped, times: list[tuple[How, int]], lazy: int
    ) -> None:
        """P-56, P-91, P-94: after any stops, kills and journal failures, a run has the steps and the
        output of an uninterrupted one. Each step is recorded once, no approved call runs twice, and no
        answered request is repeated."""
        flow = flow_of(shaped)
        alone = await uninterrupted(flow, shaped)
        if alone is None:
            return
        seen, output, marked = alone
        marks.clear()
        with tempfile.TemporaryDirectory() as folder:
            hub, session = await interrupted(Path(folder) / "hub.db", flow, shaped, times, lazy)
            try:
                state = await hub.session(session)
                assert (state.status, state.error) == ("done", None)
                assert state.transcript[-1].text == output
                steps = bodies(hub, session, FlowStepped)
                assert [step.step for step in steps] == list(range(len(seen)))
                assert [step.live for step in steps] == seen
                # An approved call whose host died during it may have run or not, and is not repeated.
                assert Counter(marks) <= marked
                events = list(open_reader(hub.database).events(session))
                assert requests_after_answer(events) == []
                assert state.approvals == {}
                await checked(hub, session)
            finally:
                await hub.close()
