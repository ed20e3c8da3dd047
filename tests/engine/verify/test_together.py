"""Rules proved together, compared with every state that the gate can reach."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from interlock.engine import (
    SkillNet,
    ToolCall,
    ToolResult,
    Transition,
    create_gate_manager,
    define_skill_net,
)
from interlock.engine.verify import Most, Never, Together, Unknown, Vocabulary, Way
from interlock.engine.verify.vocabulary import late_successes
from interlock.rules import compile_rules
from tests.rules.support.world import World

from ...support.dense import dense
from ...support.laws import examples
from .brute import product

TOOLS = ["a", "b", "c", "d"]
tools = st.sampled_from(TOOLS)
different = st.lists(tools, min_size=3, max_size=3, unique=True)


@st.composite
def rule(draw: st.DrawFn) -> str:
    """One rule about a few tools."""
    kind = draw(
        st.sampled_from(
            ["require"] * 4
            + ["limit", "per", "per", "block", "approve", "one", "each"]
            + ["after", "after any", "blocked after", "blocked after any"]
        )
    )
    first, second, third = draw(different)
    count = draw(st.integers(1, 3))
    return {
        "require": f"require {first} before {second}",
        "limit": f"limit {first} to {count} per session",
        "per": f"limit {first} to {count} per {second}",
        "block": f"block {first}",
        "approve": f"require human-approval before {first}",
        "one": f"require {first} or {third} before {second}",
        "each": f"require {first} and {third} before {second}",
        "after": f"after {second} require human-approval before {first}",
        "after any": f"after {second} or {third} require human-approval before {first}",
        "blocked after": f"block {first} after {second}",
        "blocked after any": f"block {first} after {second} or {third}",
    }[kind]


def requires_approval(line: str, name: str, made: list[str]) -> bool:
    """Return whether the line requires approval for a call of `name` after these calls."""
    causes = line.removesuffix(f"require human-approval before {name}")
    if causes == line:
        return False
    return not causes or any(cause in made for cause in causes.split() if cause in TOOLS)


def call(tool: str, command: str | None = None) -> ToolCall:
    return ToolCall("1", tool, {} if command is None else {"command": command})


class TestAgainstTheProduct:
    """Random small rule sets: answers equal those of enumeration."""

    @pytest.mark.slow
    @given(st.lists(rule(), min_size=1, max_size=5))
    @settings(max_examples=examples(80), deadline=None)
    def test_rules(self, lines: list[str]) -> None:
        """Ways are the shortest, `Never` is true and needs its nets, and the most is exact."""
        nets = compile_rules(lines).registry
        names = [t for t in TOOLS if any(t in line.split() for line in lines)]
        calls = [call(name) for name in names]
        brute = product(nets, calls)
        assume(brute is not None)
        together = Together(nets)
        # The product makes calls one after another, whereas calls beside others may do more.
        beside = bool(late_successes(nets))
        for number, name in enumerate(names):
            answer = together.way(name)
            if isinstance(answer, Unknown):
                assert beside
            elif isinstance(answer, Way):
                assert answer.shortest
                assert len(answer.calls) == brute.fewest.get(number)
                assert answer.calls[-1].names == (name,)
                made = [step.names[0] for step in answer.calls]
                assert answer.calls[-1].approval == any(
                    requires_approval(line, name, made[:-1]) for line in lines
                )
            else:
                assert isinstance(answer, Never)
                assert number not in brute.fewest
                check_needed(nets, answer.nets, calls, number)
            check_most(together.most(name), brute.most({number}), exact=not beside)

    @pytest.mark.slow
    @given(st.lists(rule(), min_size=1, max_size=4), st.sets(st.sampled_from("abc")))
    @settings(max_examples=examples(60), deadline=None)
    def test_maps(self, lines: list[str], mapped: set[str]) -> None:
        """G-50: with mapped names, even several in one call, no answer is false."""
        nets = compile_rules([*(f"map d.command {name} as {name}" for name in sorted(mapped)), *lines])
        names = [t for t in TOOLS if any(t in line.split() for line in lines)]
        some = [" ".join(c) for n in range(len(mapped) + 1) for c in combinations(sorted(mapped), n)]
        calls = [*(call("d", text) for text in some), *(call(n) for n in "abc" if n not in mapped)]
        singles = [made for made in calls if len(str(made.input.get("command", "")).split()) < 2]
        calls = [*singles, *(made for made in calls if made not in singles)]
        brute, plain = product(nets.registry, calls), product(nets.registry, singles)
        assume(brute is not None)
        assert plain is not None
        words = Vocabulary(dict.fromkeys(mapped, ("d",)))
        together = Together(nets.registry, words=words)
        for name in names:
            numbers = {n for n, made in enumerate(calls) if name in nets.resolve(made)}
            fewest = min((brute.fewest[n] for n in numbers if n in brute.fewest), default=None)
            match together.way(name):
                case Way(made, shortest):
                    assert shortest
                    assert fewest is not None
                    assert len(made) >= fewest
                    assert len(made) <= min(plain.fewest[n] for n in numbers if n in plain.fewest)
                case Never():
                    assert fewest is None
                case Unknown():
                    assert len(mapped) > 1 or late_successes(nets.registry)
            check_most(together.most(name), brute.most(numbers), exact=False)

    @pytest.mark.slow
    @given(st.data())
    @settings(max_examples=examples(80), deadline=None)
    def test_hand_built_nets(self, data: st.DataObject) -> None:
        """Arbitrary nets: manual, deferred, weighted, with transfers, structural, in definition order."""
        count = data.draw(st.integers(1, 3))
        nets = {f"n{i}": data.draw(hand_built(f"n{i}")) for i in range(count)}
        names = [n for n in "abc" if any(n in t.tools for net in nets.values() for t in net.transitions)]
        calls = [call(name) for name in names]
        brute = product(nets, calls, limit=400)
        assume(brute is not None)
        together = Together(nets)
        for number, name in enumerate(names):
            match together.way(name):
                case Way(made, shortest):
                    assert shortest
                    assert len(made) == brute.fewest.get(number)
                case Never(against):
                    assert number not in brute.fewest
                    check_needed(nets, against, calls, number)
                case Unknown():
                    pytest.fail("a small product is never too much")
            check_most(together.most(name), brute.most({number}), exact=True)


class TestCallsBesideOthers:
    """A call that began before another one blocked its tool still ends and unlocks later calls."""

    @pytest.mark.parametrize(
        ("rules", "name"),
        [
            ("block b after c\nlimit c to 1 per b", "c"),
            ("require b before c\nblock b after c", "c"),
            ("require x since c before b\nlimit x to 1 per session\nlimit c to 1 per b", "c"),
        ],
    )
    async def test_bound_includes_overlapping_calls(self, rules: str, name: str) -> None:
        world = World(rules)
        await world.call("x")
        running = [await world.begin("b"), await world.begin("b")]
        made = 0
        for call_id in running:
            made += await world.call(name)
            if call_id is not None:
                world.end(call_id)
            made += await world.call(name)
        most = Together(compile_rules(rules).registry).most(name)
        assert made >= 2
        assert most.unlimited or most.most is None or most.most >= made

    def test_answers_are_unchanged_if_no_call_can_overlap(self) -> None:
        nets = compile_rules("block b after a\nrequire a before b\nrequire b before c").registry
        assert isinstance(Together(nets).way("c"), Never)
        nets = compile_rules("block b after c\nrequire b before d\nlimit d to 3 per session").registry
        assert Together(nets).most("d").most == 3


class TestLarge:
    """Rule sets whose product has too many states to explore."""

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", [1, 3, 6, 9])
    async def test_gate_allows_every_way_found(self, seed: int) -> None:
        """The real gate allows every way found, and the nets of a `Never` alone forbid the call."""
        nets = dense(random.Random(seed))
        together = Together(nets)
        for name in together.certain.named:
            match together.way(name):
                case Way(made):
                    gate = create_gate_manager(dict(nets))
                    for step in made:
                        tool = step.names[0]
                        assert not (await gate.handle_tool_call(call(tool))).block
                        gate.handle_tool_result(ToolResult("1", tool, is_error=not step.succeeds))
                case Never(against):
                    alone = Together({key: nets[key] for key in against})
                    assert isinstance(alone.way(name), Never)
                case Unknown():
                    pytest.fail("dense sets of 50 are answered")

    @pytest.mark.slow
    @pytest.mark.parametrize("effort", [0, 500, 5_000])
    def test_too_little_effort_gives_unknown(self, effort: int) -> None:
        """With too little effort an answer is the same or unknown, but never different."""
        nets = dense(random.Random(9))
        full, hurried = Together(nets), Together(nets, effort=effort)
        hasty = 0
        for name in full.certain.named:
            match full.way(name), hurried.way(name):
                case _, Unknown():
                    hasty += 1
                case Way(made), Way(found, shortest):
                    assert len(found) == len(made) if shortest else len(found) >= len(made)
                    hasty += not shortest
                case Never(), Never():
                    pass
                case full_answer, other:
                    pytest.fail(f"{name}: {full_answer} became {other}")
        assert hasty or effort

    def test_endless_net_has_reachable_and_forbidden_calls(self) -> None:
        """G-2: in a net that makes tokens forever, reachable calls and forbidden calls are both found."""
        net = define_skill_net(
            "n",
            places=["p", "q"],
            transitions=[
                Transition("grow", ("p",), ("p", "p"), ("grow",)),
                Transition("many", ("p",) * 4, (), ("many",)),
                Transition("never", ("q",), ("q",), ("never",)),
            ],
            initial_marking={"p": 1},
        )
        together = Together({"n": net}, effort=2_000)
        assert str(together.way("many")) == "grow → grow → grow → many"
        assert together.way("never") == Never(("n",))
        assert together.most("grow").unlimited
        assert not together.most("many").exact or together.most("many").unlimited


def check_needed(
    nets: dict[str, SkillNet], against: tuple[str, ...], calls: list[ToolCall], number: int
) -> None:
    """Check that exactly these nets forbid the call, and that each of them is needed."""
    alone = product({key: nets[key] for key in against}, calls)
    assert alone is not None
    assert number not in alone.fewest
    for left_out in against:
        fewer = product({key: nets[key] for key in against if key != left_out}, calls)
        assert fewer is None or number in fewer.fewest


def check_most(most: Most, counted: float, *, exact: bool) -> None:
    if most.unlimited:
        assert counted == float("inf")
        return
    assert most.least <= counted
    assert most.most is None or most.most >= counted
    assert most.exact or not exact


@st.composite
def hand_built(draw: st.DrawFn, name: str) -> SkillNet:
    """A small net whose transitions return no more tokens than they take, so it has few states."""
    places = ["p", "q", "r"]
    transitions: list[Transition] = []
    for number in range(draw(st.integers(1, 4))):
        inputs = draw(st.lists(st.sampled_from(places), min_size=1, max_size=2))
        outputs = draw(st.lists(st.sampled_from(places), max_size=len(inputs)))
        names = tuple(draw(st.lists(st.sampled_from("abc"), max_size=2, unique=True)))
        manual = draw(st.booleans()) and bool(names)
        deferred = draw(st.booleans()) and bool(names)
        transfers = (("q", "r"),) if draw(st.integers(0, 4)) == 0 else ()
        kind = "manual" if manual else "auto"
        transitions.append(
            Transition(f"t{number}", tuple(inputs), tuple(outputs), names, kind, deferred, transfers)
        )
    marking = draw(st.fixed_dictionaries({p: st.integers(0, 2) for p in places}))
    free = draw(st.lists(st.sampled_from("abc"), max_size=1))
    return define_skill_net(
        name, places=places, transitions=transitions, initial_marking=marking, free_tools=free
    )
