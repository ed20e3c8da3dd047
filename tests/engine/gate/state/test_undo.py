"""Allowed calls that never ran: their moves are undone, or their tokens stay spent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine import GateManager, NetError, ToolResult, Transition, create_gate_manager
from interlock.engine.gate import GateDecision, Mode
from interlock.engine.net.net import SkillNet, auto_advance, define_skill_net, fire, is_enabled, unfired
from interlock.rules import compile_rules
from tests.support.laws import examples

from ..support.helpers import Operator, call, manager, markings, net, reason, registry, result, succeed
from ..test_laws import RULES, happen, histories

PLACES = ["a", "b", "c", "d"]
arcs = st.lists(st.sampled_from(PLACES), max_size=2)
transfers = st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(PLACES)), max_size=1)
nets = st.tuples(
    st.lists(st.tuples(arcs, arcs, st.just([])), max_size=2),
    st.lists(st.tuples(arcs, arcs, transfers), min_size=1, max_size=3),
    st.fixed_dictionaries({place: st.integers(0, 3) for place in PLACES}),
)


def hand_built(drawn: Any) -> SkillNet:
    """A net with structural transitions `s…` and others `t…`, each with its own tool."""
    structural, gated, marking = drawn
    transitions = [Transition(f"s{n}", i, o) for n, (i, o, _) in enumerate(structural)]
    transitions += [
        Transition(f"t{n}", i, o, [f"t{n}"], transfers=t) for n, (i, o, t) in enumerate(gated)
    ]
    return define_skill_net("n", places=PLACES, transitions=transitions, initial_marking=marking)


async def make_allowed_call(
    gate: GateManager, name: str, call_id: str = "1", **value: object
) -> GateDecision:
    """Make a call that is allowed and return the decision."""
    decision = await gate.handle_tool_call(call(name, call_id, **value), Operator(True).context)
    assert not decision.block
    return decision


def report_not_run(gate: GateManager, decision: GateDecision) -> list[str]:
    """Report that an allowed call never ran; return the transitions that were undone."""
    made = decision.call
    told = ToolResult(made.tool_call_id, made.tool_name, made.input, True, decision.steps)
    return [step.transition.name for step in gate.handle_tool_result(told).undone]


class TestUnfired:
    """One transition of one net."""

    @pytest.mark.slow
    @given(nets)
    @settings(max_examples=examples(400), deadline=None)
    def test_returns_previous_marking_or_none(self, drawn: Any) -> None:
        """A-40: undoing returns the marking before, or none if that cannot be determined."""
        made = hand_built(drawn)
        try:
            before = auto_advance(made, made.initial_marking)
            after = {
                t.name: auto_advance(made, fire(before, t))
                for t in made.transitions
                if t.tools and is_enabled(before, t)
            }
        except NetError:
            return
        for transition in made.transitions:
            if transition.name in after:
                assert unfired(made, after[transition.name], transition) in (before, None)

    def test_own_arcs_are_reversed(self) -> None:
        """A-40: output tokens go and input tokens return, also for places missing in the marking."""
        twice = Transition("t", ["a", "a", "b"], ["b", "c"], ["x"])
        made = net("n", twice, marking={"a": 2, "b": 1, "c": 0})
        assert unfired(made, {"b": 1, "c": 1}, twice) == {"a": 2, "b": 1, "c": 0}

    @pytest.mark.parametrize(
        ("transition", "other"),
        [
            (Transition("t", ["a"], ["b"], ["x"], transfers=[("c", "a")]), None),
            (Transition("t", ["a"], ["b"], ["x"]), Transition("s", ["b", "c"], ["b", "d"])),
            (Transition("t", ["a"], ["b"], ["x"]), Transition("s", ["a", "c"], ["d"])),
        ],
        ids=["transfers", "its output may have moved something", "its input kept something back"],
    )
    def test_ambiguous_marking_stays_spent(
        self, transition: Transition, other: Transition | None
    ) -> None:
        """A-40: if several markings lead to the present one, the token stays spent."""
        made = net("n", transition, *([other] if other else []), marking=dict.fromkeys(PLACES, 0))
        assert unfired(made, dict.fromkeys(PLACES, 1), transition) is None

    def test_output_token_already_spent(self) -> None:
        """A-40: if the output token is already gone, nothing is undone."""
        moved = Transition("t", ["a"], ["b"], ["x"])
        assert unfired(net("n", moved, marking={"a": 1, "b": 0}), {"a": 0, "b": 0}, moved) is None


class TestTakenBack:
    """A gate that is told that a call never ran."""

    @given(histories, st.data())
    @settings(max_examples=examples(100), deadline=None)
    def test_every_marking_is_as_before_the_call(self, history: list[Any], data: st.DataObject) -> None:
        """A-40: for compiled nets, a decided call that did not run leaves every marking as before."""

        async def check() -> None:
            gate = create_gate_manager(dict(RULES.registry))
            for event in history:
                if event[0] != "call":
                    await happen(gate, event)
                    continue
                before = markings(gate)
                decision = await happen(gate, event)
                if not decision.block and data.draw(st.booleans()):
                    report_not_run(gate, decision)
                    assert markings(gate) == before
                    assert decision.call.tool_call_id not in gate._pending.waiting

        asyncio.run(check())

    async def test_unexecuted_calls_do_not_count_against_a_limit(self) -> None:
        """A-40: calls that never ran do not count against a limit."""
        gate = manager("limit deploy to 2 per session")
        for number in range(3):
            assert report_not_run(gate, await make_allowed_call(gate, "deploy", f"n{number}")) == [
                "do-deploy"
            ]
        await succeed(gate, "deploy", "1")
        await succeed(gate, "deploy", "2")
        assert await reason(gate, "deploy", "3") == "deploy has reached its limit of 2 calls per session."

    async def test_failed_run_stays_charged(self) -> None:
        """G-16: a call that ran and failed stays charged."""
        gate = manager("limit deploy to 1 per session")
        await make_allowed_call(gate, "deploy")
        gate.handle_tool_result(result("deploy", is_error=True))
        assert await reason(gate, "deploy", "2") is not None

    async def test_call_is_undone_only_once(self) -> None:
        """A-40: a call is undone once, and an unknown call never."""
        gate = manager("limit deploy to 3 per session")
        first, second = (
            await make_allowed_call(gate, "deploy", "1"),
            await make_allowed_call(gate, "deploy", "2"),
        )
        assert report_not_run(gate, first) == ["do-deploy"]
        assert report_not_run(gate, first) == []
        stray = ToolResult("other", "deploy", {}, True, second.steps)
        assert gate.handle_tool_result(stray).undone == ()
        assert markings(gate)["limit-deploy-3"]["budget"] == 2

    async def test_success_with_undo_steps_counts_as_run(self) -> None:
        """A-40: a successful result with steps to undo counts as having run."""
        gate = manager("limit deploy to 1 per session")
        decision = await make_allowed_call(gate, "deploy")
        told = ToolResult("1", "deploy", {}, False, decision.steps)
        assert gate.handle_tool_result(told).undone == ()
        assert await reason(gate, "deploy", "2") is not None

    async def test_result_of_another_tool_changes_nothing(self) -> None:
        """G-53: a result that names another tool than its call changes nothing."""
        gate = manager("require deploy before test\nlimit deploy to 1 per session")
        decision = await make_allowed_call(gate, "deploy")
        before = markings(gate)
        record = gate.handle_tool_result(ToolResult("1", "other", {}, True, decision.steps))
        assert (record.anomaly is not None, record.undone, markings(gate)) == (True, (), before)

    async def test_equal_calls_are_undone_in_any_order(self) -> None:
        """A-40: equal calls can be undone in any order, and their deferred steps are dropped."""
        gate = manager("limit deploy to 3 per session\nrequire deploy before test")
        made = [await make_allowed_call(gate, "deploy", str(number)) for number in range(3)]
        for decision in made[::-1][1:] + made[2:]:
            assert report_not_run(gate, decision) == ["do-deploy"]
        assert markings(gate)["limit-deploy-3"]["budget"] == 3
        assert gate._pending.waiting == {}

    async def test_net_switched_off_in_between_is_undone(self) -> None:
        """G-17: a net that was switched off in between is also undone."""
        gate = registry("limit deploy to 1 per session")
        decision = await make_allowed_call(gate, "deploy")
        gate.remove_net("limit-deploy-1")
        assert report_not_run(gate, decision) == ["do-deploy"]
        assert markings(gate)["limit-deploy-1"]["budget"] == 1

    async def test_steps_of_a_net_are_undone_together(self) -> None:
        """A-40: the steps of a net are undone together, last first; each net separately."""
        steps = (
            Transition("one", ["a"], ["b"], ["x"]),
            Transition("two", ["b"], ["c"], ["y"]),
            Transition("eat", ["c"], ["d"], ["z"]),
        )
        both = {"call_names": lambda c: ("x", "y") if c.tool_name == "x" else (c.tool_name,)}
        chain = net("chain", *steps, marking={"a": 1, "b": 0, "c": 0, "d": 0}, **both)
        limit = net("limit", Transition("do", ["p"], [], ["x"]), **both)
        gate = create_gate_manager([chain, limit])
        decision = await make_allowed_call(gate, "x")
        assert report_not_run(gate, decision) == ["do", "two", "one"]
        decision = await make_allowed_call(gate, "x", "2")
        await make_allowed_call(gate, "z", "3")
        assert report_not_run(gate, decision) == ["do"]
        assert markings(gate)["chain"] == {"a": 0, "b": 0, "c": 0, "d": 1}

    async def test_approved_call_is_undone(self) -> None:
        """A-40: an approved call that never ran is also undone."""
        gate = manager("require human-approval before deploy\nlimit deploy to 1 per session")
        decision = await make_allowed_call(gate, "deploy")
        assert sorted(report_not_run(gate, decision)) == ["approve", "do-deploy"]
        assert markings(gate)["limit-deploy-1"]["budget"] == 1

    async def test_shadow_mode_undoes_moves(self) -> None:
        """G-57: shadow mode also undoes moves, even if enforce mode would have asked."""
        gate = manager(
            "limit deploy to 1 per session\nrequire human-approval before deploy", mode="shadow"
        )
        decision = await gate.handle_tool_call(call("deploy"), Operator().context)
        assert decision.outcome == "ask"
        assert sorted(report_not_run(gate, decision)) == ["approve", "do-deploy"]
        assert markings(gate)["limit-deploy-1"]["budget"] == 1


class TestStaysSpent:
    """Cases in which returning a token could give one too many."""

    async def test_limit_refilled_in_between(self) -> None:
        """A-40: a limit that was refilled in between does not get the token back."""
        gate = manager("limit a to 2 per r")
        first = await make_allowed_call(gate, "a", "1")
        await succeed(gate, "r", "2")
        await make_allowed_call(gate, "a", "3")
        assert report_not_run(gate, first) == []
        await make_allowed_call(gate, "a", "4")
        assert await reason(gate, "a", "5") == "a has reached its limit of 2 calls per r."

    async def test_another_success_in_between(self) -> None:
        """A-40: if another success came in between, an undone call does not give its token back."""
        gate = manager("require test before deploy")
        await succeed(gate, "test", "1")
        first = await make_allowed_call(gate, "deploy", "2")
        await succeed(gate, "test", "3")
        await succeed(gate, "deploy", "4")
        assert report_not_run(gate, first) == []
        assert await reason(gate, "deploy", "5") is not None

    async def test_restored_or_replayed_gate(self) -> None:
        """G-25, G-63: a restored or replayed gate has no call to undo."""
        for move in (
            lambda gate: gate.restore(markings={"limit-deploy-2": {"ready": 1, "budget": 2}}),
            lambda gate: gate.replay(["deploy"]),
        ):
            gate = manager("limit deploy to 2 per session")
            decision = await make_allowed_call(gate, "deploy")
            move(gate)
            before = markings(gate)
            assert report_not_run(gate, decision) == []
            assert markings(gate) == before

    @pytest.mark.parametrize("rules", ["limit deploy to 1 per session", "limit deploy to 1 per 1h"])
    async def test_shadow_call_exceeded_the_limit_in_between(self, rules: str) -> None:
        """G-57: the token is not returned if shadow mode let a call run past the limit in between."""
        gate = manager(rules, mode="shadow")
        first, second = (
            await make_allowed_call(gate, "deploy", "1"),
            await make_allowed_call(gate, "deploy", "2"),
        )
        assert (second.outcome, second.steps) == ("block", ())
        assert report_not_run(gate, first) == []
        gate.mode = "enforce"
        assert await reason(gate, "deploy", "3") is not None

    async def test_net_outside_the_shadow_call_is_undone(self) -> None:
        """G-57: another net that such a call did not concern still undoes its move."""
        gate = manager("limit a to 1 per session\nlimit b to 2 per session", mode="shadow")
        one, two = await make_allowed_call(gate, "a", "1"), await make_allowed_call(gate, "b", "2")
        await make_allowed_call(gate, "a", "3")
        assert (report_not_run(gate, one), report_not_run(gate, two)) == ([], ["do-b"])

    async def test_shadow_call_with_used_id(self) -> None:
        """G-53: a call that shadow mode ran under a used id has nothing to undo."""
        gate = manager("limit a to 2 per session\nrequire a before b", mode="shadow")
        first = await make_allowed_call(gate, "a", "1")
        assert (await make_allowed_call(gate, "a", "1")).outcome == "block"
        assert report_not_run(gate, first) == []

    @pytest.mark.variants
    @pytest.mark.parametrize("mode", ["enforce", "shadow"])
    @given(st.lists(st.sampled_from(["a", "b", "r", "fail", "back"]), max_size=14), st.data())
    @settings(max_examples=examples(200), deadline=None)
    def test_undone_calls_never_allow_extra_calls(
        self, mode: Mode, played: list[str], data: st.DataObject
    ) -> None:
        """A-40: with undone calls, no more calls may run than if they had never been made."""
        rules = compile_rules("limit a to 2 per r\nrequire r before b\nlimit b to 2 per session")

        async def check() -> None:
            gate = create_gate_manager(rules.nets, mode=mode)
            open_calls: list[GateDecision] = []
            story: list[tuple[str, str]] = []
            gone: set[str] = set()
            for number, what in enumerate(played):
                if what in ("a", "b", "r"):
                    decision = await gate.handle_tool_call(call(what, str(number)))
                    if not decision.block:
                        open_calls.append(decision)
                        story.append(("call", str(number)))
                elif open_calls:
                    decision = data.draw(st.sampled_from(open_calls))
                    made = decision.call
                    open_calls.remove(decision)
                    if what == "back" and made.tool_name != "r":
                        report_not_run(gate, decision)
                        gone.add(made.tool_call_id)
                    else:
                        failed = what == "fail"
                        gate.handle_tool_result(
                            result(made.tool_name, made.tool_call_id, is_error=failed)
                        )
                        story.append(("failed" if failed else "ok", made.tool_call_id))
            # Replay the same without the calls that never ran; this gate may have no more tokens.
            other = create_gate_manager(rules.nets, mode=mode)
            tools = {str(number): what for number, what in enumerate(played)}
            # If the other gate is already open when `r` is called, its success opens nothing, even after
            # `b` has closed it. In this gate it may have been closed, and then the success opens it.
            early: set[str] = set()
            spare = False
            for what, call_id in story:
                if call_id in gone:
                    continue
                if what == "call":
                    spare = spare and tools[call_id] != "b"
                    made = await other.handle_tool_call(call(tools[call_id], call_id))
                    if any(step.transition.name == "again-r" for step in made.steps):
                        early.add(call_id)
                else:
                    is_error = what == "failed"
                    other.handle_tool_result(result(tools[call_id], call_id, is_error=is_error))
                    spare |= call_id in early and not is_error
            for key, place, more in (
                ("limit-a-2-per-r", "budget", 0),
                ("require-r-before-b", "gate", int(spare)),
            ):
                assert markings(gate)[key][place] <= markings(other)[key][place] + more

        asyncio.run(check())
