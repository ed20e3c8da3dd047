"""G-89 to G-91: `for same input.pr` and `for each input.customer`: a separate state for each value."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.core import value_key
from interlock.engine.core.value_key import ValueKey, split_key, value_net
from interlock.engine.gate import GateContext, GateManager, ReplayEntry, ToolResult, create_gate_manager
from interlock.engine.gate.wrapping.single_net import handle_tool_call, handle_tool_result
from interlock.engine.history.fold.fold import fold
from interlock.engine.net.net import (
    NetError,
    SkillNet,
    ToolCall,
    Transition,
    define_skill_net,
    initial_state,
)
from interlock.engine.verify import Never, Together, Way
from interlock.engine.verify.vocabulary import vocabulary
from interlock.rules import RuleError, RuleSet, compile_rules
from tests.engine.backtest.recorder import Recorder
from tests.support.laws import examples

from .support.world import World

ORDER = "require review before merge for same input.pr"
LIMIT = "limit refund to 2 per 1d for each input.customer"
BLOCK = "block send after read for same input.thread"
DAY = 86_400.0


class TestOrders:
    async def test_each_value_has_its_own_order(self) -> None:
        world = World(ORDER)
        assert not await world.call("merge", pr=1)
        assert await world.call("review", pr=1)
        assert not await world.call("merge", pr=2)
        assert await world.call("merge", pr=1)
        assert not await world.call("merge", pr=1)

    async def test_a_failed_call_unlocks_nothing(self) -> None:
        world = World(ORDER)
        await world.call("review", pr=1, fails=True)
        assert not await world.call("merge", pr=1)

    async def test_calls_with_other_values_may_overlap(self) -> None:
        world = World(ORDER)
        first, second = await world.begin("review", pr=1), await world.begin("review", pr=2)
        world.end(second)
        assert not await world.call("merge", pr=1)
        assert await world.call("merge", pr=2)
        world.end(first)
        assert await world.call("merge", pr=1)

    @pytest.mark.parametrize("value", [17, "17", 17.0])
    async def test_number_equals_its_text(self, value: object) -> None:
        world = World(ORDER)
        await world.call("review", pr=17)
        assert await world.call("merge", pr=value)

    @pytest.mark.parametrize("value", ["17 ", "17.5", " 17", True, "Main"])
    async def test_value_written_differently_is_another_value(self, value: object) -> None:
        world = World(ORDER)
        await world.call("review", pr=17)
        await world.call("review", pr="main")
        assert not await world.call("merge", pr=value)

    async def test_other_tool_spelling_locks_the_same_value(self) -> None:
        """G-66, G-89: `Edit` locks its value like `edit`, but not another spelling of the value."""
        world = World("require test since edit before push for same input.path")
        await world.call("test", path="a.py")
        await world.call("edit", path="A.py")
        assert await world.call("push", path="a.py")
        await world.call("test", path="a.py")
        await world.call("Edit", path="a.py")
        await world.call("Test", path="a.py")
        assert not await world.call("push", path="a.py")

    @pytest.mark.parametrize(
        "given",
        [{}, {"pr": None}, {"pr": [1]}, {"pr": {"id": 1}}, {"pr": 1, "PR": 1}, {"pr": "x" * 10_001}],
    )
    async def test_call_without_a_value(self, given: dict[str, object]) -> None:
        world = World(ORDER)
        assert await world.call("review", **given)
        assert not await world.call("merge", **given)
        [verdict] = world.gate.classify(ToolCall("c", "merge", given))
        assert verdict.reason is not None
        assert "no single value in input.pr" in verdict.reason
        assert await world.call("review", pr=1)
        assert await world.call("merge", pr=1)

    async def test_since_and_within_hold_for_each_value(self) -> None:
        world = World("require test since edit before deploy within 1h for same input.repo")
        await world.call("test", repo="a")
        await world.call("test", repo="b")
        await world.call("edit", repo="a")
        assert not await world.call("deploy", repo="a")
        assert await world.call("deploy", repo="b")
        await world.call("test", repo="a")
        world.now += 3_601
        assert not await world.call("deploy", repo="a")
        assert not await world.call("edit"), "which value it would lock is unknown"

    async def test_reason_and_constraints_name_the_value(self) -> None:
        gate = create_gate_manager(compile_rules(ORDER).nets, explain_blocks=True)
        decision = await gate.handle_tool_call(ToolCall("c", "merge", {"pr": 1}))
        assert decision.reason == (
            "merge requires a successful call to review first for the same input.pr. "
            "To get there: review → merge."
        )
        decision = await gate.handle_tool_call(ToolCall("c", "merge"))
        assert decision.reason is not None
        assert "To get there" not in decision.reason
        assert gate.format_constraints().endswith(
            "- merge needs a successful review first for the same input.pr."
        )


class TestLimits:
    async def test_each_value_has_its_own_limit(self) -> None:
        world = World(LIMIT)
        assert [await world.call("refund", customer=c) for c in ("ada", "ada", "ada", "bob")] == [
            True, True, False, True,
        ]  # fmt: skip
        world.now += DAY
        assert await world.call("refund", customer="ada")

    @pytest.mark.parametrize("same", ["Ada", " ada ", "a\u200bda", "\uff21da"])
    async def test_other_spelling_is_the_same_value(self, same: str) -> None:
        world = World(LIMIT)
        assert [await world.call("refund", customer=c) for c in ("ada", "ada", same)] == [
            True,
            True,
            False,
        ]

    async def test_refill_restores_only_its_value(self) -> None:
        world = World("limit push to 1 per tag for each input.branch")
        for branch in ("a", "b"):
            assert await world.call("push", branch=branch)
        await world.call("tag", branch="a")
        assert await world.call("push", branch="a")
        assert not await world.call("push", branch="b")
        await world.call("tag")
        assert not await world.call("push", branch="b")

    async def test_limit_with_a_condition(self) -> None:
        world = World("limit push to 1 per session for each input.branch when input.force = true")
        assert [await world.call("push", branch="a", force=f) for f in (True, False, True)] == [
            True, True, False,
        ]  # fmt: skip
        assert await world.call("push", force=False), "calls outside of the condition need no value"

    async def test_call_that_never_ran_is_returned_to_its_value(self) -> None:
        gate = create_gate_manager(compile_rules(LIMIT).nets, clock=lambda: 0.0)

        async def refund(call_id: str, customer: str) -> Any:
            return await gate.handle_tool_call(ToolCall(call_id, "refund", {"customer": customer}))

        decision = await refund("a", "ada")
        await refund("b", "bob")
        undo = ToolResult("a", "refund", {"customer": "ada"}, is_error=True, undo=decision.steps)
        assert gate.handle_tool_result(undo).undone == decision.steps
        assert [(await refund(f"c{n}", "ada")).outcome for n in range(3)] == ["allow", "allow", "block"]
        assert [(await refund(f"d{n}", "bob")).outcome for n in range(2)] == ["allow", "block"]

    async def test_number_of_stored_values_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Beyond the limit a new value is blocked, and values in their initial state are forgotten."""
        monkeypatch.setattr("interlock.engine.gate.conditions.MOST_VALUES", 3)
        world = World(LIMIT)
        assert [await world.call("refund", customer=str(c)) for c in range(4)] == [
            True,
            True,
            True,
            False,
        ]
        assert await world.call("refund", customer="0")
        [verdict] = world.gate.classify(ToolCall("c", "refund", {"customer": "new"}))
        assert verdict.reason == (
            "refund is blocked: 3 other values of input.customer are remembered, "
            "which is as many as can be."
        )
        world.now += DAY
        assert await world.call("refund", customer="new")
        [state] = world.gate.states.values()
        assert len(state.values) == 1

    async def test_new_value_beyond_the_bound_stays_locked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("interlock.engine.gate.conditions.MOST_VALUES", 1)
        world = World(ORDER)
        assert [await world.call("review", pr=n) for n in range(2)] == [True, True]
        assert [await world.call("merge", pr=n) for n in (1, 0)] == [False, True]


class TestOneNetAlone:
    async def test_values_are_kept_in_the_given_state(self) -> None:
        [order] = compile_rules(ORDER).nets
        [limit] = compile_rules(LIMIT).nets
        [total] = compile_rules("limit pay to 10 of input.amount per session for each input.to").nets
        states = {net.name: initial_state(net) for net in (order, limit, total)}

        async def run(net: SkillNet, tool: str, **given: object) -> bool:
            call = ToolCall(f"c{len(given)}", tool, given)
            decision = await handle_tool_call(
                call, GateContext(), net, states[net.name], clock=lambda: 0.0
            )
            if not decision.block:
                done = ToolResult(call.tool_call_id, tool, given)
                handle_tool_result(done, net, states[net.name], clock=lambda: 0.0)
            return not decision.block

        assert [await run(order, "merge", pr=1), await run(order, "review", pr=1)] == [False, True]
        assert [await run(order, "merge", pr=n) for n in (2, 1, 1)] == [False, True, False]
        assert await run(order, "review")
        people = ("ada", "bob", "ada", "ada")
        assert [await run(limit, "refund", customer=c) for c in people] == [True, True, True, False]
        paid = [await run(total, "pay", amount=6, to=to) for to in ("a", "a", "b")]
        assert paid == [True, False, True]


class TestBlocks:
    async def test_each_value_is_blocked_separately(self) -> None:
        world = World(BLOCK)
        assert await world.call("send", thread="a")
        assert await world.call("read", thread="a", fails=True)
        assert [await world.call("send", thread=t) for t in ("a", "b")] == [False, True]

    async def test_other_spelling_is_blocked_too(self) -> None:
        """G-89: another spelling of a value is blocked, as in a limit."""
        world = World(BLOCK)
        assert await world.call("read", thread="Launch plan")
        assert not await world.call("send", thread="launch  PLAN")

    async def test_activating_call_needs_the_value(self) -> None:
        world = World(BLOCK)
        assert not await world.call("read")


class TestSeveralNames:
    async def test_map_gives_the_name_and_field_the_value(self) -> None:
        world = World(
            "map bash.command git-merge as merge\nrequire review before merge for same input.pr"
        )
        await world.call("review", pr=1)
        assert not await world.call("bash", command="git-merge 1", pr=2)
        assert await world.call("bash", command="git-merge 1", pr=1)

    async def test_an_unclear_call_unlocks_nothing(self) -> None:
        world = World(f"map bash.command review as review\nallow unclear bash\n{ORDER}")
        await world.call("bash", command='review "$(x)"; $y', pr=1)
        assert not await world.call("merge", pr=1)
        await world.call("bash", command="review", pr=1)
        assert await world.call("merge", pr=1)


class TestState:
    def test_a_history_counts(self) -> None:
        gate = create_gate_manager(compile_rules(f"{ORDER}\n{LIMIT}").nets, clock=lambda: 0.0)
        gate.replay([
            ReplayEntry("review", {"pr": 1}),
            ReplayEntry("review", {"pr": 2}, is_error=True),
            ReplayEntry("review"),
            *[ReplayEntry("refund", {"customer": "ada"})] * 2,
        ])  # fmt: skip
        calls = [("merge", {"pr": 1}), ("merge", {"pr": 2}), ("refund", {"customer": "ada"})]
        verdicts = [{v.kind for v in gate.classify(ToolCall("c", tool, given))} for tool, given in calls]
        assert verdicts == [{"gated", "abstain"}, {"blocked", "abstain"}, {"blocked", "abstain"}]

    async def test_record_restores_every_value(self) -> None:
        rules = compile_rules(f"{ORDER}\n{LIMIT}")
        recorder = Recorder(rules.registry)
        await recorder.call("a", "review", pr=1)
        recorder.result("a")
        await recorder.call("b", "review", pr=2)
        await recorder.call("c", "refund", customer="ada")
        state = fold(recorder.events)
        gate = create_gate_manager(registry=rules.registry)
        nets = {**state.nets, **state.values}
        pending = [
            (p.step.net, p.step.transition, p.step.tool, ToolCall(p.call_id, "review", {"pr": 2}))
            for p in state.pending
        ]
        gate.restore(
            markings={key: net.marking for key, net in nets.items()},
            since={key: net.since for key, net in nets.items()},
            pending=pending,
        )
        assert gate.pending == recorder.manager.pending
        assert values_of(gate) == values_of(recorder.manager)
        gate.handle_tool_result(ToolResult("b", "review", {"pr": 2}))
        for pr, expected in ((1, "allow"), (2, "allow"), (3, "block")):
            assert (
                await gate.handle_tool_call(ToolCall(f"m{pr}", "merge", {"pr": pr}))
            ).outcome == expected
        gate.restore(markings={key: dict(net.marking) for key, net in state.nets.items()}, pending=[])
        assert not any(values for values in values_of(gate).values()), "the record tells of none"

    async def test_pending_success_is_void_after_a_restart(self) -> None:
        """A test beside an edit proves nothing, also if it was allowed before a restart."""
        registry = compile_rules("require test since edit before deploy for same input.repo").registry
        before, gate = (create_gate_manager(registry=registry) for _ in range(2))
        given = {"repo": "a"}
        await before.handle_tool_call(ToolCall("t", "test", given))
        [(key, template)] = before.states.items()
        [(digest, state)] = template.values.items()
        markings = {key: template.marking, value_net(key, digest): state.marking}
        gate.restore(markings=markings, pending=before.pending)
        for each in (before, gate):
            await each.handle_tool_call(ToolCall("e", "edit", given))
            each.handle_tool_result(ToolResult("e", "edit", given))
            assert not each.handle_tool_result(ToolResult("t", "test", given)).fired
            assert (await each.handle_tool_call(ToolCall("d", "deploy", given))).block

    async def test_record_names_the_values(self) -> None:
        recorder = Recorder(compile_rules(LIMIT).registry)
        for number, customer in enumerate(("Ada", "bob", "ada")):
            await recorder.call(f"c{number}", "refund", customer=customer)
        values = fold(recorder.events).values
        assert [(v.value, v.marking["budget"]) for v in values.values()] == [("bob", 1), ("Ada", 0)]
        assert {v.net for v in values.values()} == {"limit-refund-2-per-1d-each-customer"}

    def test_a_registered_net_cannot_have_the_key_of_a_value(self) -> None:
        [net] = compile_rules(LIMIT).nets
        with pytest.raises(NetError, match="single values"):
            create_gate_manager(registry={value_net("n", "0" * 32): net})

    def test_a_tool_may_have_a_name_like_such_a_key(self) -> None:
        tool = value_net("x", "0" * 32)
        gate = create_gate_manager(registry=compile_rules(f"block {tool}\nblock b after {tool}").registry)
        assert gate.block_reason(ToolCall("c", tool)) is not None
        assert gate.block_reason(ToolCall("c", "b")) is None

    def test_digests_and_net_keys(self) -> None:
        digest = ValueKey(("pr",)).digest({"pr": 1})
        assert digest is not None
        assert split_key(value_net("a[b]", digest)) == ("a[b]", digest)
        assert split_key("a[b]") == ("a[b]", None)
        assert ValueKey(("a.b", "c")).field == 'input."a.b".c'
        assert ValueKey(("n",)).digest({"n": 10**5_000}) is None
        assert ValueKey(("n",)).digest({"n": float("nan")}) is None
        assert value_key.MOST_VALUES == 10_000


def values_of(gate: GateManager) -> dict[str, dict[str, dict[str, int]]]:
    """Return the markings of all values, by net and digest."""
    return {
        key: {digest: value.marking for digest, value in state.values.items()}
        for key, state in gate.states.items()
    }


SETS = [
    "require a before b for same input.k",
    "require a or c before b for same input.k",
    "require a and c before b for same input.k",
    "require a since c before b for same input.k",
    "limit b to 2 per session for each input.k",
    "limit b to 1 per a for each input.k",
    "block b after a for same input.k",
]
events = st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.booleans(), st.integers(0, 2))


class TestLaws:
    @pytest.mark.slow
    @given(
        st.lists(st.sampled_from(SETS), min_size=1, max_size=3, unique=True),
        st.lists(events, max_size=12),
    )
    async def test_each_value_behaves_as_a_separate_gate(
        self, lines: list[str], calls: list[tuple[str, int, bool, int]]
    ) -> None:
        """Law: a call is decided as by a gate with the rules without `for` that sees this value alone.

        Results arrive later than calls, and the fold of the record has the same state.
        """
        whole = Recorder(compile_rules("\n".join(lines)).registry)
        plain = "\n".join(line.partition(" for ")[0] for line in lines)
        alone = {value: Recorder(compile_rules(plain).registry) for value in (1, 2, 3)}
        running: list[tuple[str, int, bool]] = []
        for number, (tool, value, fails, ends) in enumerate(calls):
            call_id = f"c{number}"
            for recorder in (whole, alone[value]):
                await recorder.call(call_id, tool, k=value)
            assert (call_id in whole.running) == (call_id in alone[value].running)
            if call_id in whole.running:
                running.append((call_id, value, fails))
            for _ in range(min(ends, len(running))):
                ended, of, failed = running.pop(0)
                for recorder in (whole, alone[of]):
                    recorder.result(ended, is_error=failed)
            folded = fold(whole.events)
            assert {key: value.marking for key, value in folded.values.items()} == {
                value_net(key, digest): marking
                for key, values in values_of(whole.manager).items()
                for digest, marking in values.items()
            }
            assert [(p.step.net, p.call_id) for p in folded.pending] == sorted(
                ((net, call.tool_call_id) for net, _, _, call in whole.manager.pending),
                key=[(p.step.net, p.call_id) for p in folded.pending].index,
            )


class TestProof:
    @staticmethod
    def together(text: str) -> Together:
        rules = compile_rules(text)
        return Together(rules.registry, words=vocabulary(rules.nets, None))

    def test_way_uses_one_value(self) -> None:
        way = self.together(ORDER).way("merge")
        assert isinstance(way, Way)
        assert (list(map(str, way.calls)), way.shortest) == (["review", "merge"], True)

    def test_limit_on_each_value_does_not_bound_the_session(self) -> None:
        most = self.together("limit refund to 2 per session for each input.customer").most("refund")
        assert (most.unlimited, most.each) == (True, ("2 per session for each input.customer",))

    def test_maximum_considers_several_values(self) -> None:
        """The maximum considers calls with several values."""
        text = "limit push to 1 per session for each input.branch\nrequire push before tag"
        assert self.together(text).most("tag").unlimited

    def test_call_impossible_for_every_value(self) -> None:
        assert isinstance(self.together(f"{ORDER}\nblock review").way("merge"), Never)

    def test_order_on_all_calls_is_another_rule(self) -> None:
        """Neither rule is redundant: two reviews count for two merges of other values."""
        from interlock.rules.analysis.findings import examine

        found = examine(compile_rules(f"{ORDER}\nrequire review before merge"))
        assert not found.errors
        assert not [w for w in found.warnings if "redundant" in w.message]

    def test_limit_on_all_calls_covers_one_on_each_value(self) -> None:
        from interlock.rules.analysis.findings import examine

        each, whole = "limit a to 3 per session for each input.x", "limit a to 2 per session"
        [warning] = examine(compile_rules(f"{each}\n{whole}")).warnings
        assert (warning.line, "redundant" in warning.message) == (1, True)
        assert not examine(compile_rules(f"{each.replace('3', '1')}\n{whole}")).warnings

    @pytest.mark.slow
    @given(st.lists(st.sampled_from(SETS), min_size=1, max_size=3, unique=True))
    @settings(max_examples=examples(500, usual=20), deadline=None)
    async def test_agrees_with_the_gate(self, lines: list[str]) -> None:
        """Law: a way works with one value, and no short sequence reaches an impossible call."""
        rules = compile_rules("\n".join(lines))
        together = Together(rules.registry, words=vocabulary(rules.nets, None))
        for name in "abc":
            way, reached = together.way(name), await reachable(rules, name)
            if isinstance(way, Way):
                assert await all_calls_run(rules, [(call.names[0], 1) for call in way.calls])
                assert reached is not None
                assert not way.shortest or len(way.calls) == reached
            elif isinstance(way, Never) and way.nets:
                assert reached is None


async def reachable(rules: RuleSet, name: str) -> int | None:
    """Return the length of the shortest sequence to a call of `name`, of up to 3 calls, or `None`."""
    each = list(product("abc", (1, 2)))
    for length in range(1, 4):
        for sequence in product(each, repeat=length):
            if sequence[-1][0] == name and await all_calls_run(rules, sequence):
                return length
    return None


async def all_calls_run(rules: RuleSet, sequence: Sequence[tuple[str, int]]) -> bool:
    """Return true if all calls run, each successful before the next."""
    gate = create_gate_manager(registry=rules.registry)
    for number, (tool, value) in enumerate(sequence):
        call = ToolCall(f"c{number}", tool, {"k": value})
        if (await gate.handle_tool_call(call)).block:
            return False
        gate.handle_tool_result(ToolResult(call.tool_call_id, tool, call.input))
    return True


class TestNets:
    def test_have_no_callbacks_of_their_own(self) -> None:
        """A net with values cannot have callbacks, because their state would be shared."""
        key = ValueKey(("k",))
        use = Transition("use", ("p",), ("p",), ("a",))
        with pytest.raises(NetError, match="callbacks of its own"):
            define_skill_net(
                "n",
                places=["p"],
                transitions=[use],
                initial_marking={"p": 1},
                per_value=key,
                validate_tool_call=lambda *_: None,
            )


class TestErrors:
    @pytest.mark.parametrize(
        ("line", "message", "remedy"),
        [
            ("require a before b for each input.x", "an order says 'for same'", "for same <field>"),
            ("limit a to 2 per session for same input.x", "a limit says 'for each'", "for each <field>"),
            ("require a before b for same pr", "such as input.pr, got 'pr'", "write: input.pr"),
            ("require a before b for same session.agent", "such as input.pr", "begin with 'input.'"),
            ("require a before b for", "expected 'same' after 'for'", "for same input.pr"),
            ("limit a to 2 per session for", "expected 'each' after 'for'", "for each input.customer"),
            ("require a before b for same", "expected a field", "for same input.pr"),
            ("require a before b for input.x", "got 'input.x'", "write: for same input.x"),
            ("block a for same input.x", "must follow 'after <tool>'", "block <tool> when <condition>"),
            (
                "require human-approval before b for same input.x",
                "orders, limits and blocks",
                "each call",
            ),
            ("block a after b until human-approval for same input.x", "orders, limits", "each call"),
            (
                "limit a to 2 for each input.x per session",
                "'per' must come before 'for'",
                "for each input.x",
            ),
            (
                "require a before b for same input.x within 5m",
                "'within' must come before",
                "for same input.x",
            ),
        ],
    )
    def test_name_the_remedy(self, line: str, message: str, remedy: str) -> None:
        with pytest.raises(RuleError) as error:
            compile_rules(line)
        [problem] = error.value.problems
        assert message in problem.message
        assert remedy in problem.remedy
