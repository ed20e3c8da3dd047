"""A flow as a net: problems beyond its own checks, with the shortest path to them."""

from __future__ import annotations

import pytest

from interlock.engine.flows import Deadlock, FlowRuntime, Invalid, NotFound, StateConflict
from interlock.engine.net.net import fire, is_enabled
from interlock.engine.verify import reachable

from ..support.shapes import CTX, E, F, J, M, W, builder, trace

DIAMOND = (F("S", "A", "B"), E("A", "A1", "A2"), W("A2", "Z"), J("A1", "B", "Z"))


class TestNet:
    def test_places_and_transitions(self) -> None:
        """P-46: a place for each state, and a transition for each outcome of a node."""
        net = builder("S", "Z", *DIAMOND).build().to_petri_net()
        assert net.places == ("S", "A", "B", "A1", "A2", "Z")
        assert {t.name: (t.inputs, t.outputs) for t in net.transitions} == {
            "fork 'S'": (("S",), ("A", "B")),
            "either 'A' to 'A1'": (("A",), ("A1",)),
            "either 'A' to 'A2'": (("A",), ("A2",)),
            "work 'A2'": (("A2",), ("Z",)),
            "join 'A1' + 'B'": (("A1", "B"), ("Z",)),
        }
        assert net.terminal_places == ("Z",)
        assert {place for place, tokens in net.initial_marking.items() if tokens} == {"S"}

    def test_unknown_node(self) -> None:
        """P-160: the error for an unknown node names it."""
        with pytest.raises(NotFound, match="flow 'S' has no node or state 'Q'") as caught:
            builder("S", "Z", *DIAMOND).build().node("Q")
        assert caught.value.name == "Q"
        assert isinstance(caught.value, KeyError)


class TestDeadJoin:
    def test_exclusive_parents(self) -> None:
        """P-46: a join of both branches of one choice can never fire."""
        with pytest.raises(Invalid) as caught:
            builder("A", "Z", E("A", "B", "C"), J("B", "C", "Z")).build()
        assert caught.value.problems == (
            "join (target 'Z'): parents 'B' and 'C' are never live together",
            "deadlock: states [B] wait and no join is ready, after either 'A' to 'B'",
            "deadlock: states [C] wait and no join is ready, after either 'A' to 'C'",
        )

    def test_dead_join_in_a_flow_that_can_end(self) -> None:
        """P-46: the same holds if the flow can end without it."""
        nodes = (E("A", "B", "C"), E("B", "B1", "Z"), E("C", "C1", "Z"), J("B1", "C1", "Z"))
        with pytest.raises(Invalid) as caught:
            builder("A", "Z", *nodes).build()
        assert caught.value.problems == (
            "join (target 'Z'): parents 'B1' and 'C1' are never live together",
        )

    def test_parents_live_together_later(self) -> None:
        """P-46: parents that are produced at different times can still be live together."""
        nodes = (F("S", "A", "B"), W("A", "A2"), W("A2", "A3"), J("A3", "B", "Z"))
        assert builder("S", "Z", *nodes).build().findings == ()


class TestOverwrite:
    def test_overwrite_on_every_run_is_refused(self) -> None:
        """P-58: two branches that always write the same state are refused, with the path."""
        with pytest.raises(Invalid) as caught:
            builder("A", "Z", F("A", "B", "C"), W("B", "D"), W("C", "D"), W("D", "Z")).build()
        assert caught.value.problems == ("work 'C' would overwrite state 'D', after fork 'A' → work 'B'",)

    async def test_overwrite_on_some_runs_is_a_finding(self) -> None:
        """P-58: an overwrite on some runs is a finding, and there an error before the value is lost."""
        nodes = (F("A", "B", "C"), E("B", "D", "B2"), E("C", "D", "C2"), W("B2", "E2"))
        g = builder("A", "Z", *nodes, W("C2", "E2"), J("D", "E2", "Z"))
        graph = g.build()
        assert [str(finding) for finding in graph.findings if finding.kind == "overwrite"] == [
            "either 'C' to 'D' would overwrite state 'D', after fork 'A' → either 'B' to 'D'",
            "work 'C2' would overwrite state 'E2', "
            "after fork 'A' → either 'B' to 'B2' → either 'C' to 'C2' → work 'B2'",
        ]
        runtime = FlowRuntime(graph, M("A")(val=2))
        await runtime.next(CTX)
        await runtime.next(CTX)
        before = runtime.snapshot()
        for _ in range(2):
            with pytest.raises(StateConflict, match="either 'C' would overwrite state 'D'") as caught:
                await runtime.next(CTX)
            assert caught.value.key == "D"
            assert runtime.snapshot() == before

    async def test_certain_overwrite_runs_no_function(self) -> None:
        """P-58: if it is certain beforehand, no function runs whose result would be dropped."""
        ran: list[int] = []

        def seen(n: int) -> int:
            ran.append(n)
            return n

        nodes = (F("A", "B", "C"), E("B", "D", "B2"), W("B2", "E2"), W("C", "D", seen), J("D", "E2", "Z"))
        runtime = FlowRuntime(builder("A", "Z", *nodes), M("A")(val=2))
        await runtime.next(CTX)
        await runtime.next(CTX)
        with pytest.raises(StateConflict):
            await runtime.next(CTX)
        assert ran == []

    async def test_consumed_state_may_be_rewritten(self) -> None:
        """P-58: a state that is consumed before it is rewritten loses nothing, whatever nets allow."""
        nodes = (F("A", "B", "C"), W("B", "D"), E("D", "X", "Y", left=lambda n: n == 1), W("C", "C2"))
        more = (W("C2", "C3"), W("C3", "D", lambda n: 0), J("X", "Y", "Z"))
        graph = builder("A", "Z", *nodes, *more).build()
        assert not [f for f in graph.findings if f.states == ("D",)]
        net = graph.to_petri_net()
        assert any(marking["D"] > 1 for marking in reachable(net).states)
        assert (await trace(graph.draft(), 1))[1] == 1


class TestDeadlock:
    async def test_fork_waits_forever_on_one_branch(self) -> None:
        """P-63: a fork whose branch ends elsewhere waits forever; the error names the states."""
        runtime = FlowRuntime(builder("S", "Z", *DIAMOND), M("S")(val=1))
        for live in (("A", "B"), ("B", "A2"), ("B", "Z")):
            await runtime.next(CTX)
            assert runtime.states == live
        expected = r"Flow deadlock: states \[B\] are waiting but no join is ready"
        with pytest.raises(Deadlock, match=expected) as caught:
            await runtime.next(CTX)
        assert caught.value.states == ("B",)

    async def test_other_branch_is_done(self) -> None:
        """P-63: the other branch of the same graph is done."""
        assert (await trace(builder("S", "Z", *DIAMOND), 2))[1] == 4

    def test_build_reports_the_shortest_path(self) -> None:
        """P-63: `build` reports it, with the shortest path."""
        [finding] = builder("S", "Z", *DIAMOND).build().findings
        assert finding.kind == "deadlock"
        assert finding.states == ("B",)
        assert finding.path == ("fork 'S'", "either 'A' to 'A2'", "work 'A2'")

    def test_flow_that_always_deadlocks_is_refused(self) -> None:
        """P-63: a flow that always ends waiting is refused, even if each of its joins fires."""
        nodes = (F("S", "A", "B"), J("A", "B", "C"), F("C", "A", "D"), W("D", "Z"))
        with pytest.raises(Invalid) as caught:
            builder("S", "Z", *nodes).build()
        [problem] = caught.value.problems
        assert problem.startswith("deadlock: states [A] wait and no join is ready, after fork 'S' → join")

    async def test_repeated_step_reports_it_again(self) -> None:
        """P-64: a repeated step reports it again, and nothing changes."""
        runtime = FlowRuntime(builder("S", "Z", *DIAMOND), M("S")(val=1))
        for _ in range(3):
            await runtime.next(CTX)
        before = runtime.snapshot()
        for _ in range(2):
            with pytest.raises(Deadlock):
                await runtime.next(CTX)
        assert runtime.snapshot() == before

    def test_reported_path_can_be_fired(self) -> None:
        """P-46: a reported path can be fired in the flow's net."""
        graph = builder("S", "Z", *DIAMOND).build()
        net = graph.to_petri_net()
        by_name = {transition.name: transition for transition in net.transitions}
        marking = dict(net.initial_marking)
        for step in graph.findings[0].path:
            assert is_enabled(marking, by_name[step])
            marking = fire(marking, by_name[step])
        assert marking["B"] == marking["Z"] == 1
        assert not any(is_enabled(marking, transition) for transition in net.transitions)
