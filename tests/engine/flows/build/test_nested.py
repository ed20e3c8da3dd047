"""Flows inside flows: keys, order, and possible errors."""

from __future__ import annotations

import pytest

from interlock.engine.flows import BuildError, Flow, FlowBuilder, FlowRuntime, Invalid

from ..support.shapes import E, F, Fl, J, M, W, builder, flow, trace

CHAIN = flow("I", "IOut", W("I", "Mid", lambda n: n * 2), W("Mid", "IOut", lambda n: n + 10))
CHOICE = flow(
    "I", "IOut", E("I", "L", "R"), W("L", "IOut", lambda n: n + 100), W("R", "IOut", lambda n: n + 110)
)
SPLIT = flow("I", "IOut", F("I", "A", "B"), J("B", "A", "IOut", lambda b, a: 3 * b + a - 3))


def outer_flow(inner: type[Flow]) -> FlowBuilder:
    return builder("O", "Z", W("O", "I"), Fl(inner), W("IOut", "Z"))


def problems(g: FlowBuilder) -> tuple[str, ...]:
    with pytest.raises(Invalid) as caught:
        g.build()
    return caught.value.problems


class TestKeys:
    async def test_chain(self) -> None:
        """P-16, P-100, P-101: entry and exit keep their names, other keys get the entry's as prefix."""
        g = builder("O", "Z", W("O", "I"), Fl(CHAIN), W("IOut", "Z", lambda n: n + 1))
        assert list(g.build().nodes) == ["O", "I", "I::Mid", "IOut"]
        assert await trace(g, 5) == (["{O}", "{I}", "{I::Mid}", "{IOut}", "{Z}"], 21)
        assert await trace(CHAIN, 5) == (["{I}", "{Mid}", "{IOut}"], 20)

    async def test_either(self) -> None:
        """P-102: an inner either gives the renamed branch."""
        assert await trace(outer_flow(CHOICE), 10) == (["{O}", "{I}", "{I::L}", "{IOut}", "{Z}"], 110)
        assert (await trace(outer_flow(CHOICE), 11))[0][2] == "{I::R}"

    async def test_fork_and_join(self) -> None:
        """P-103: so do a fork's children; a join's values come in declared order."""
        assert await trace(outer_flow(SPLIT), 4) == (["{O}", "{I}", "{I::A,I::B}", "{IOut}", "{Z}"], 13)

    async def test_twice_nested(self) -> None:
        """P-104: keys nested twice have both names as prefix; each entry and exit has one."""
        middle = flow("M", "MOut", W("M", "I"), Fl(CHOICE), W("IOut", "MOut"))
        g = builder("O", "Z", W("O", "M"), Fl(middle), W("MOut", "Z"))
        expected = ["O", "M", "M::I", "M::I::L", "M::I::R", "M::IOut", "MOut"]
        assert list(g.build().nodes) == expected
        seen, _ = await trace(g, 2)
        assert seen == ["{O}", "{M}", "{M::I}", "{M::I::L}", "{M::IOut}", "{MOut}", "{Z}"]
        forked = flow("M", "MOut", W("M", "I"), Fl(SPLIT), W("IOut", "MOut"))
        seen, _ = await trace(builder("O", "Z", W("O", "M"), Fl(forked), W("MOut", "Z")), 2)
        assert seen[3:5] == ["{M::I::A,M::I::B}", "{M::IOut}"]

    async def test_same_type_outside_and_inside(self) -> None:
        """P-105: a type that is used inside and outside is two states."""
        g = builder("O", "Z", W("O", "Mid"), W("Mid", "I"), Fl(CHAIN), W("IOut", "Z"))
        assert await trace(g, 1) == (["{O}", "{Mid}", "{I}", "{I::Mid}", "{IOut}", "{Z}"], 12)

    async def test_flow_without_a_class(self) -> None:
        """P-16: a builder and a built graph can be inlined as well."""
        g = builder("I", "IOut", W("I", "Mid"), W("Mid", "IOut"))
        for inner in (g, g.build()):
            outer = builder("O", "IOut", W("O", "I"), Fl(inner))
            assert (await trace(outer, 3))[0] == ["{O}", "{I}", "{I::Mid}", "{IOut}"]


class TestProblems:
    def test_registered_twice(self) -> None:
        """P-107: a flow's entry is a key like any other."""
        twice = builder("O", "Z", W("O", "I"), Fl(CHAIN), Fl(CHAIN), W("IOut", "Z"))
        assert problems(twice) == ("flow 'I': duplicate node key",)
        taken = builder("O", "Z", W("O", "I"), W("I", "Z"), Fl(CHAIN))
        assert "flow 'I': duplicate node key" in problems(taken)
        late = builder("O", "Z", W("O", "I"), Fl(CHAIN), W("I", "Z"), W("IOut", "Z"))
        assert "work 'I': duplicate node key" in problems(late)

    def test_inner_build_fails(self) -> None:
        """P-108: an error in an inner flow's `build` is a problem of the outer graph."""

        class Fails(Flow[M("I"), M("IOut")]):
            @classmethod
            def build(cls, g):
                raise BuildError("deliberate inner failure")

        [problem] = problems(outer_flow(Fails))
        assert problem.startswith("flow ")
        assert problem.endswith("': deliberate inner failure")
        assert "flow 'I': " in problem

    def test_literal_clash(self) -> None:
        """P-109: a renamed key that already exists is reported with its new name."""
        model = type("Literal", (M("Other"),), {"__node_id__": "I::Mid", "__module__": __name__})

        def there(a):
            return M("I")(val=1)

        def back(a):
            return model(val=1)

        there.__annotations__ = {"a": model, "return": M("I")}
        back.__annotations__ = {"a": M("O"), "return": model}
        g = builder("O", "Z").work(back).work(there)
        expected = "flow 'I': inner node 'Mid' conflicts with outer node after rename to 'I::Mid'"
        assert problems(W("IOut", "Z")(g.flow(CHAIN))) == (expected,)

    def test_inner_orphan(self) -> None:
        """P-110: an inner node is checked at its final place and within its own flow."""
        orphan = flow("I", "IOut", W("I", "IOut"), W("X", "IOut"))
        found = problems(outer_flow(orphan))
        assert "node 'I::X': unreachable from entry 'O'" in found
        assert "flow 'I': node 'X': unreachable from entry 'I'" in found

    def test_inner_terminal(self) -> None:
        """P-110: an inner flow that does not end in its output gives the outer one another terminal."""
        astray = flow("I", "IOut", W("I", "Y"))
        g = builder("O", "IOut", W("O", "I"), Fl(astray))
        expected = "flow output 'IOut' does not match terminal state id 'I::Y'"
        with pytest.raises(Invalid, match=expected):
            FlowRuntime(g, M("O")(val=1))

    def test_recursion(self) -> None:
        """P-111: a flow inside itself is refused, with the path."""

        class Itself(Flow[M("I"), M("IOut")]):
            @classmethod
            def build(cls, g):
                return g.flow(Itself)

        with pytest.raises(Invalid, match="flow 'I': recursive inlining I → I"):
            Itself.graph()
        assert problems(outer_flow(Itself)) == ("flow 'I': recursive inlining I → I",)

    def test_mutual_recursion(self) -> None:
        """P-111: the same holds via another flow, whichever of them is built."""

        class One(Flow[M("I"), M("IOut")]):
            @classmethod
            def build(cls, g):
                return W("MOut", "IOut")(W("I", "M")(g).flow(Two))

        class Two(Flow[M("M"), M("MOut")]):
            @classmethod
            def build(cls, g):
                return W("IOut", "MOut")(W("M", "I")(g).flow(One))

        with pytest.raises(Invalid, match="flow 'I': recursive inlining I → M → I"):
            One.graph()
        with pytest.raises(Invalid, match="flow 'M': recursive inlining M → I → M"):
            Two.graph()
        assert problems(outer_flow(One)) == ("flow 'I': recursive inlining I → M → I",)

    def test_builder_in_itself(self) -> None:
        """P-111: a builder cannot contain itself."""
        g = builder("I", "IOut", W("I", "IOut"))
        with pytest.raises(Invalid, match="recursive inlining I → I"):
            g.flow(g)

    async def test_flows_with_the_same_output(self) -> None:
        """P-112: two flows with the same output must be on exclusive branches, or one overwrites it."""
        other = flow("K", "IOut", W("K", "IOut"))
        exclusive = builder("O", "Z", E("O", "I", "K"), Fl(CHAIN), Fl(other), W("IOut", "Z"))
        assert (await trace(exclusive, 1))[0] == ["{O}", "{K}", "{IOut}", "{Z}"]
        together = builder(
            "O", "IOut", F("O", "I", "K"), Fl(flow("I", "IOut", W("I", "IOut"))), Fl(other)
        )
        [problem] = problems(together)
        assert problem == "work 'K' would overwrite state 'IOut', after fork 'O' → work 'I'"
