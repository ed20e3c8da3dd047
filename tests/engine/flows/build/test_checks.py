"""Every validation rule, with the smallest graph that violates it."""

from __future__ import annotations

import pytest

from interlock.engine.flows import FlowBuilder, FlowRuntime, Invalid
from interlock.engine.flows.build.handlers import handler
from interlock.engine.flows.build.naming import state_of
from interlock.engine.flows.build.nodes import Fork, Join

from ..support.shapes import Adds, E, F, J, M, W, builder, typed


def problems(*nodes: Adds, a: str = "A", z: str = "Z") -> tuple[str, ...]:
    with pytest.raises(Invalid) as caught:
        builder(a, z, *nodes).build()
    return caught.value.problems


def at_start(*nodes: Adds) -> tuple[str, ...]:
    """Return the runtime's problems with a graph that `build` accepts."""
    g = builder("A", "Z", *nodes)
    g.build()
    with pytest.raises(Invalid) as caught:
        FlowRuntime(g, M("A")(val=1))
    return caught.value.problems


class TestKeys:
    @pytest.mark.parametrize(
        ("node", "kind"),
        [(W("A", "Y"), "work"), (E("A", "Y", "Z"), "either"), (F("A", "Y", "X"), "fork")],
    )
    def test_duplicate(self, node: Adds, kind: str) -> None:
        """P-30: a key can be registered only once, by any kind of node."""
        assert f"{kind} 'A': duplicate node key" in problems(W("A", "Z"), node)

    def test_duplicate_in_a_join(self) -> None:
        """P-30: the problem names the join's key that is already taken."""
        found = problems(F("A", "B", "C"), W("B", "Y"), J("B", "C", "Z"))
        assert "join: duplicate node key 'B'" in found

    def test_node_must_take_the_input(self) -> None:
        """P-31: a node must take the flow's input."""
        assert problems() == ("entry 'A' is not a registered node",)

    def test_unreachable(self) -> None:
        """P-32: every node must be reachable from the entry."""
        assert problems(W("A", "Z"), W("X", "Y")) == ("node 'X': unreachable from entry 'A'",)

    def test_dead_end(self) -> None:
        """P-33: every node must have a path to a terminal; all that have none are named."""
        assert problems(W("A", "B"), W("B", "A")) == (
            "node 'A': has no path to any terminal — dead end",
            "node 'B': has no path to any terminal — dead end",
        )
        found = problems(E("A", "B", "Z"), W("B", "C"), W("C", "B"))
        assert found == tuple(f"node '{k}': has no path to any terminal — dead end" for k in "BC")


class TestNodes:
    def test_same_branch(self) -> None:
        """P-34: the branches of an either must be distinct."""
        found = problems(E("A", "B", "B"), W("B", "Z"))
        assert "either 'A': both branches resolve to the same schema name 'B'" in found

    def test_one_child(self) -> None:
        """P-35a: a fork must have at least two children."""
        made = handler("fork", typed(lambda a, ctx: (a,), tuple[M("B")], a=M("A")), 1)
        fork = Fork(state_of(M("A"), ""), (state_of(M("B"), ""),), made)
        with pytest.raises(Invalid, match=r"fork 'A': must have at least 2 children, found 1"):
            FlowBuilder(M("A"), M("Z")).add(fork).build()
        assert "fork 'A': must have at least 2 children, found 1" in problems(F("A", "B"), W("B", "Z"))

    def test_child_unregistered(self) -> None:
        """P-35b: each child of a fork must be a node, so none is a terminal."""
        found = problems(F("A", "B", "C"), W("B", "Z"))
        assert found == ("fork 'A': child 'C' is not a registered node",)
        assert "fork 'A': child 'Z' is not a registered node" in problems(F("A", "B", "Z"), W("B", "Z"))

    def test_child_twice(self) -> None:
        """P-35c: the children of a fork must be distinct."""
        assert "fork 'A': duplicate child 'B'" in problems(F("A", "B", "B"), W("B", "Z"))

    def test_parent_twice(self) -> None:
        """P-36a: the parents of a join must be distinct."""
        found = problems(F("A", "B", "C"), J("B", "B", "Z"), W("C", "Z"))
        assert "join (target 'Z'): duplicate parent 'B'" in found
        assert not any("duplicate node key" in problem for problem in found)

    def test_target_is_parent(self) -> None:
        """P-36b: the target of a join must differ from its parents."""
        found = problems(F("A", "B", "C"), J("B", "C", "B"))
        assert "join (target 'B'): target matches parent 'B'" in found

    def test_parent_never_made(self) -> None:
        """P-36c: a parent that no node produces is unreachable."""
        found = problems(W("A", "B"), J("B", "C", "Z"))
        assert "node 'C': unreachable from entry 'A'" in found

    def test_three_parents(self) -> None:
        """P-36d: a join must have exactly two parents."""
        three = [state_of(M(name), "") for name in ("B", "C", "D")]
        function = typed(lambda b, c, d: None, M("Z"), b=M("B"), c=M("C"), d=M("D"))
        join = Join(tuple(three), state_of(M("Z"), ""), handler("join", function, 3))
        g = F("A", "B", "C", "D")(FlowBuilder(M("A"), M("Z")))
        with pytest.raises(Invalid, match=r"join \(target 'Z'\): must have exactly 2 parents, found 3"):
            g.add(join).build()

    def test_self_overwrite(self) -> None:
        """P-39: a node must not produce its own input."""
        expected = "exit_name equals input name — node would overwrite its own input"
        assert f"work 'A': {expected}" in problems(W("A", "A"))
        g = FlowBuilder(M("A"), M("Z")).suspend(M("A"), M("A"))
        with pytest.raises(Invalid, match=f"suspend 'A': {expected}"):
            g.build()

    def test_fork_into_itself(self) -> None:
        """P-42: a fork's child must not be its input."""
        found = problems(F("A", "A", "B"), J("A", "B", "Z"))
        assert "fork 'A': child equals input" in found

    def test_branch_may_be_a_terminal(self) -> None:
        """P-45: a branch that is not a node is a terminal, and only the output may be one."""
        builder("A", "Z", E("A", "B", "Z"), W("B", "Z")).build().check_output()
        [problem] = at_start(E("A", "B", "Q"), W("B", "Z"))
        assert problem.endswith("found: Q, Z")


class TestTerminals:
    def test_several_terminals_are_refused(self) -> None:
        """P-37: a run needs exactly one terminal."""
        expected = "flow must have exactly one terminal state id matching output 'Z', found: Y, Z"
        assert at_start(E("A", "Z", "Y")) == (expected,)

    def test_terminal_must_be_the_output(self) -> None:
        """P-38: the terminal must be the flow's output."""
        assert at_start(W("A", "B")) == ("flow output 'Z' does not match terminal state id 'B'",)


class TestAllAtOnce:
    def test_one_exception_has_all_problems(self) -> None:
        """P-43: one exception has all problems, one per line, in registration order."""
        with pytest.raises(Invalid) as caught:
            builder("A", "Z", W("A", "Z"), W("X", "X"), E("Y", "Z", "Z")).build()
        lines = str(caught.value).splitlines()
        assert lines[0] == "Flow graph is invalid:"
        assert (
            [line.strip() for line in lines[1:]]
            == [*caught.value.problems]
            == [
                "work 'X': exit_name equals input name — node would overwrite its own input",
                "node 'X': unreachable from entry 'A'",
                "either 'Y': both branches resolve to the same schema name 'Z'",
                "node 'Y': unreachable from entry 'A'",
            ]
        )

    def test_cycle_with_reachable_terminal_is_allowed(self) -> None:
        """P-44: a cycle is allowed if a terminal stays reachable."""
        graph = builder("A", "Z", E("A", "B", "Z"), W("B", "A")).build()
        assert graph.findings == ()
