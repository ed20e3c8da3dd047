"""Laws: the runtime and the checks compared with an independent model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from interlock.engine.flows import (
    Continue,
    Deadlock,
    Done,
    FlowBuilder,
    FlowRuntime,
    FlowSnapshot,
    Invalid,
    StateConflict,
)
from interlock.engine.verify import reachable

from .support.plain import (
    CONFLICT,
    DEADLOCK,
    DONE,
    Plain,
    any_nodes,
    everything,
    grown,
    inputs,
    sound,
    step,
)
from .support.shapes import CTX, M, typed

MOST_STEPS = 40
branches = st.lists(st.integers(0, 1), max_size=12)


class Ledger:
    """Builds the nodes of a graph; every value has a unique number, and its consumption is recorded."""

    def __init__(self, chosen: Sequence[int]) -> None:
        self.chosen: Iterator[int] = chain(chosen, repeat(0))
        self.made = 0
        self.taken: Counter[int] = Counter()

    def take(self, *values: BaseModel) -> None:
        self.taken.update(value.val for value in values)

    def give(self, key: str) -> BaseModel:
        self.made += 1
        return M(key)(val=self.made)

    def builder(self, nodes: Sequence[Plain], entry: str) -> FlowBuilder:
        g = FlowBuilder(M(entry), M("Z"))
        for node in nodes:
            self.add(g, node)
        return g

    def add(self, g: FlowBuilder, node: Plain) -> None:
        kind, first, *rest = node
        match kind:
            case "W":

                def work(a, ctx):
                    self.take(a)
                    return self.give(rest[0])

                g.work(typed(work, M(rest[0]), a=M(first)))
            case "E":

                def either(a, ctx):
                    self.take(a)
                    return self.give(rest[next(self.chosen) % 2])

                g.either(typed(either, M(rest[0]) | M(rest[1]), a=M(first)))
            case "F":

                def fork(a, ctx):
                    self.take(a)
                    return self.give(rest[0]), self.give(rest[1])

                g.fork(typed(fork, tuple[M(rest[0]), M(rest[1])], a=M(first)))
            case _:

                def join(b, c, ctx):
                    assert (type(b), type(c)) == (M(first), M(rest[0]))
                    self.take(b, c)
                    return self.give(rest[1])

                g.join(typed(join, M(rest[1]), b=M(first), c=M(rest[0])))


async def outcome(runtime: FlowRuntime) -> list[str] | str:
    """Make a step and return its outcome in the notation of the model."""
    try:
        out = await runtime.next(CTX)
    except StateConflict as error:
        return f"{CONFLICT} {error.key}"
    except Deadlock as error:
        return f"{DEADLOCK} {' '.join(error.states)}"
    if isinstance(out, Done):
        return DONE
    assert out == Continue()
    return list(runtime.states)


def built(nodes: Sequence[Plain], chosen: Sequence[int]) -> tuple[FlowBuilder, Ledger] | None:
    """Return the nodes as a flow that can run, if they are one."""
    ledger = Ledger(chosen)
    g = ledger.builder(nodes, "S")
    try:
        g.build().check_output()
    except Invalid:
        return None
    return g, ledger


class TestRuns:
    @given(grown(), branches)
    async def test_runs_agree_with_the_model(self, nodes: list[Plain], chosen: list[int]) -> None:
        """P-52, P-58, P-60, P-63: live states at each step and the end equal those of the model."""
        made = built(nodes, chosen)
        if made is None:
            return
        runtime = FlowRuntime(made[0], M("S")(val=0))
        live: list[str] | str = ["S"]
        bits = chain(chosen, repeat(0))
        for _ in range(MOST_STEPS):
            assert isinstance(live, list)
            # The model asks for a branch only if there is a choice.
            here = next((n for n in nodes if n[0] == "E" and n == _first(nodes, live)), None)
            live = step(nodes, live, next(bits) if here else 0)
            assert await outcome(runtime) == live
            if isinstance(live, str):
                return

    @pytest.mark.slow
    @given(grown(), branches)
    async def test_restored_at_every_step(self, nodes: list[Plain], chosen: list[int]) -> None:
        """P-91: a run restored from JSON before every step goes like one that is not."""
        one, two = built(nodes, chosen), built(nodes, chosen)
        if one is None or two is None:
            return
        plain = FlowRuntime(one[0], M("S")(val=0))
        restored = FlowRuntime(two[0], M("S")(val=0))
        for _ in range(MOST_STEPS):
            snapshot = FlowSnapshot.load(restored.snapshot().model_dump_json())
            restored = FlowRuntime.from_snapshot(two[0], snapshot)
            ended = await outcome(plain)
            assert await outcome(restored) == ended
            assert restored.snapshot() == plain.snapshot()
            if isinstance(ended, str):
                return

    @pytest.mark.slow
    @given(grown(), branches)
    async def test_no_value_is_lost(self, nodes: list[Plain], chosen: list[int]) -> None:
        """P-58: every value was consumed exactly once, or is still live."""
        made = built(nodes, chosen)
        if made is None:
            return
        g, ledger = made
        runtime = FlowRuntime(g, M("S")(val=0))
        for _ in range(MOST_STEPS):
            ended = await outcome(runtime)
            live = [state.value["val"] for state in runtime.snapshot().states]
            if isinstance(ended, str):
                # A choice that met a conflict had made its value, and takes it back.
                return
            assert len(set(live)) == len(live)
            assert set(ledger.taken.values()) <= {1}
            assert sorted([*ledger.taken, *live]) == list(range(ledger.made + 1))


def _first(nodes: Sequence[Plain], live: Sequence[str]) -> Plain | None:
    from .support.plain import ready

    return ready(nodes, live)


class TestChecks:
    @pytest.mark.slow
    @given(st.one_of(any_nodes, grown()))
    def test_graph_is_refused_exactly_if_it_cannot_work(self, nodes: list[Plain]) -> None:
        """P-30 … P-46, P-58, P-63: a graph is refused exactly if it cannot work.

        That is, if it is unsound, has a join that never fires, or cannot end. Otherwise its findings are
        the possible problems, with the shortest paths.
        """
        entry = "S" if any("S" in node for node in nodes) else "A"
        g = Ledger(()).builder(nodes, entry)
        ends = everything(nodes, entry) if sound(nodes, entry) else {}
        joins = [f"fires {' '.join(inputs(node))}" for node in nodes if node[0] == "J"]
        try:
            graph = g.build()
        except Invalid as error:
            never = any("are never live together" in problem for problem in error.problems)
            assert DONE not in ends or never
            assert not never or any(join not in ends for join in joins)
            return
        assert graph.complete
        assert DONE in ends
        found = {
            (f"{CONFLICT if f.kind == 'overwrite' else DEADLOCK} {' '.join(f.states)}", len(f.path))
            for f in graph.findings
        }
        if not any(end.startswith(CONFLICT) for end in ends):
            assert set(joins) <= set(ends)
        worst = {end: depth for end, depth in ends.items() if end.startswith((CONFLICT, DEADLOCK))}
        assert {end for end, _ in found} == set(worst)
        for end, depth in worst.items():
            assert min(steps for each, steps in found if each == end) == depth

    @pytest.mark.slow
    @given(grown())
    def test_net_covers_every_run(self, nodes: list[Plain]) -> None:
        """P-46: the flow's net can reach every state that a run can."""
        made = built(nodes, ())
        if made is None:
            return
        graph = made[0].build()
        net = graph.to_petri_net()
        reached = reachable(net, limit=3000, keep=3000)
        if not reached.complete:
            return
        markings = [{p: n for p, n in marking.items() if n} for marking in reached.states]
        for finding in graph.findings:
            if finding.kind == "deadlock":
                assert any(set(finding.states) <= set(marking) for marking in markings)
            else:
                assert any(marking.get(finding.states[0], 0) > 1 for marking in markings)
