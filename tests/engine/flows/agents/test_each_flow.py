"""A flow for each item of a list: all of its steps for one item after another."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, create_model

from interlock.engine.agents import C, T
from interlock.engine.flows import (
    AgentConfig,
    AgentNode,
    BuildError,
    Continue,
    Done,
    Flow,
    FlowBuilder,
    FlowRuntime,
    FlowSnapshot,
    Invalid,
    Suspended,
)

from ..support.scripted import URL, Script, ask
from ..support.shapes import CTX, E, F, J, M, W, flow, shown

DOUBLED = flow("I", "O", W("I", "Mid", lambda n: n * 2), W("Mid", "O", lambda n: n + 10))


def many(name: str, of: str) -> type[BaseModel]:
    """Return a model with a list of others."""
    return create_model(name, __module__=f"made.{name}", all=(list[M(of)], ...))


IN, OUT = many("In", "I"), many("Out", "O")


def each_flow(inner: object) -> FlowBuilder:
    """Return a flow in which `inner` works on each item of a list."""
    return Flow.of(IN, OUT).each(IN, inner, OUT)


def list_input(*numbers: int) -> BaseModel:
    return IN(all=[M("I")(val=number) for number in numbers])


async def steps(g: FlowBuilder, *numbers: int) -> tuple[list[str], list[int]]:
    """Return the live states before each step and the results, with a new host for every step."""
    runtime, seen = FlowRuntime(g, list_input(*numbers)), []
    while True:
        seen.append(shown(runtime))
        match await runtime.next(CTX):
            case Done(output):
                return seen, [each.val for each in output.all]
            case _:
                kept = FlowSnapshot.load(runtime.snapshot().model_dump_json())
                runtime = FlowRuntime.from_snapshot(g, kept, history=runtime.history)


class TestItems:
    async def test_items_pass_one_after_another(self) -> None:
        """Section 12: an item passes through the complete flow before the next one, on any host."""
        first = ["{In::I,In::left}", "{In::left,In::Mid}", "{In::left,In::O}"]
        assert await steps(each_flow(DOUBLED), 1, 2) == (["{In}", *first, *first, "{Out}"], [12, 14])

    async def test_empty(self) -> None:
        """Section 12: an empty list gives an empty list, in one step."""
        assert await steps(each_flow(DOUBLED)) == (["{In}", "{Out}"], [])

    async def test_branches_and_forks(self) -> None:
        """P-102, P-103: branches and forks in the inner flow work as usual."""
        branched = flow("I", "O", E("I", "L", "R"), W("L", "O", lambda n: n + 100), W("R", "O"))
        assert (await steps(each_flow(branched), 1, 2, 3))[1] == [1, 102, 3]
        forked = flow("I", "O", F("I", "A", "B"), W("A", "A2"), J("A2", "B", "O"))
        assert (await steps(each_flow(forked), 4, 5))[1] == [8, 10]

    async def test_same_flow_inside_and_outside(self) -> None:
        """P-105: its keys are separate, so the flow can be used inside and outside at once."""

        def last(out, ctx):
            return M("I")(val=out.all[-1].val)

        last.__annotations__ = {"out": OUT, "return": M("I")}
        g = Flow.of(IN, M("O")).each(IN, DOUBLED, OUT).work(last).flow(DOUBLED)
        assert await FlowRuntime(g, list_input(1)).run(CTX) == Done(M("O")(val=34))

    async def test_inside_another(self) -> None:
        """P-104: inlined, or within another each, its keys have both names as prefix."""

        class Inner(Flow[IN, OUT]):
            @classmethod
            def build(cls, g):
                return g.each(IN, DOUBLED, OUT)

        lists = create_model("Lists", __module__="made.lists", of=(list[IN], ...))
        results = create_model("Results", __module__="made.results", of=(list[OUT], ...))
        g = Flow.of(lists, results).each(lists, Inner, results)
        runtime = FlowRuntime(g, lists(of=[list_input(1, 2), list_input(), list_input(3)]))
        seen: list[str] = []
        while isinstance(out := await runtime.next(CTX), Continue):
            seen.append(shown(runtime))
        assert [[each.val for each in one.all] for one in out.output.of] == [[12, 14], [], [16]]
        assert "{Lists::left,Lists::In::left,Lists::In::Mid}" in seen

    async def test_failed_step_keeps_other_items_results(self) -> None:
        """P-56: a failed step is repeated; the results of other items are kept."""
        left = [OSError("disk")]

        def shaky(n: int) -> int:
            if n == 2 and left:
                raise left.pop()
            return n

        runtime = FlowRuntime(each_flow(flow("I", "O", W("I", "O", shaky))), list_input(1, 2))
        for _ in range(3):
            await runtime.next(CTX)
        before = runtime.snapshot()
        with pytest.raises(OSError, match="disk"):
            await runtime.next(CTX)
        assert runtime.snapshot() == before
        out = await runtime.run(CTX)
        assert [each.val for each in out.output.all] == [1, 2]

    async def test_agents_and_waiting_items(self) -> None:
        """P-71, P-98: each item is a separate conversation, and a waiting item has the list's key."""

        class Judge(AgentNode[M("I"), M("Mid")]):
            config = AgentConfig("Judge.", URL, (ask,))

        inner = Flow.of(M("I"), M("O")).agent(Judge).suspend(M("Mid"), M("O"))
        script = Script(
            C(ask={}), C(submit={"val": 1}), T("Hm. ") + C(submit={"val": 2}), C(submit={"val": 3})
        )
        runtime = FlowRuntime(each_flow(inner), list_input(7, 8), factory=script)
        waits: list[str] = []
        while True:
            match await runtime.run(CTX):
                case Suspended(tool_id=tool_id, kind=kind):
                    waits.append(tool_id)
                    answer = {"val": len(waits)} if kind == "input" else "yes"
                    await runtime.resume(CTX, tool_id, answer)
                case Done(output):
                    break
        assert waits == ["In::I::ask", "In::Mid", "In::Mid"]
        assert [each.val for each in output.all] == [2, 3]
        assert [len(messages) for messages in script.said] == [1, 3, 1]


class TestGraph:
    def test_graph_has_no_findings(self) -> None:
        """P-46, P-63: the graph has no findings, and can be drawn and analysed like any other."""
        graph = each_flow(DOUBLED).build()
        graph.check_output()
        assert (graph.findings, graph.complete, graph.terminals) == ((), True, ["Out"])
        assert graph.mermaid(named=True).count("each IFlow") == 2
        assert [t.name for t in graph.to_petri_net().transitions if "each" in t.name] == [
            "each 'In' to 'In::I' + 'In::left'",
            "each 'In' to 'Out'",
            "each 'In::O' + 'In::left' to 'In::I' + 'In::left'",
            "each 'In::O' + 'In::left' to 'Out'",
        ]

    def test_missing_list_is_an_error(self) -> None:
        """P-2: without a list of the flow's inputs, or for its outputs, there is an error."""
        with pytest.raises(BuildError, match=r"each 'IFlow': 'Out' has 0 fields that are list\[I\]"):
            Flow.of(OUT, OUT).each(OUT, DOUBLED, OUT)
        with pytest.raises(BuildError, match=r"each 'IFlow': 'In' has 0 fields that are list\[O\]"):
            Flow.of(IN, IN).each(IN, DOUBLED, IN)

    def test_problems_of_the_flow(self) -> None:
        """P-110: inner problems are reported with the flow's name; another terminal is the outer's."""
        with pytest.raises(Invalid) as caught:
            each_flow(flow("I", "O", W("I", "O"), W("X", "O"))).build()
        assert "flow 'I': node 'X': unreachable from entry 'I'" in caught.value.problems
        ends = each_flow(flow("I", "O", E("I", "O", "Other"))).build()
        with pytest.raises(Invalid, match="found: In::Other, Out"):
            ends.check_output()

    def test_flow_applied_to_itself_is_refused(self) -> None:
        """P-111: a flow that applies itself to its own list items is refused."""

        class Round(Flow[IN, OUT]):
            @classmethod
            def build(cls, g):
                return g.each(IN, Round, OUT)

        with pytest.raises(Invalid, match="recursive inlining In → In"):
            Round.graph()

    def test_list_can_be_used_only_once(self) -> None:
        """P-30: a list can be used only once."""
        with pytest.raises(Invalid, match="each 'In': duplicate node key"):
            each_flow(DOUBLED).each(IN, DOUBLED, OUT).build()
