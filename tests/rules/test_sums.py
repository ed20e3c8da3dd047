"""G-92: `limit send_money to 1000.00 of input.amount per session`: exact sums, with a token per unit."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.core.amounts import Amount, SumField, amount_units
from interlock.engine.gate import ReplayEntry, ToolResult, create_gate_manager
from interlock.engine.history.fold.fold import fold
from interlock.engine.net.net import NetError, ToolCall, Transition, define_skill_net
from interlock.engine.verify import Together
from interlock.engine.verify.reachability import reachable
from interlock.engine.verify.vocabulary import vocabulary
from interlock.rules import RuleError, compile_rules
from tests.engine.backtest.recorder import Recorder

from .support.world import World

LIMIT = "limit pay to 1000.00 of input.amount per session"
REFILL = "limit pay to 10 of input.amount per audit"


class TestSums:
    async def test_are_exact(self) -> None:
        """The sum of ten tenths is exactly one."""
        world = World("limit pay to 1 of input.amount per session")
        assert all([await world.call("pay", amount=0.1) for _ in range(10)])
        assert not await world.call("pay", amount=0.01)
        assert await world.call("pay", amount=0)

    async def test_call_takes_its_amount(self) -> None:
        world = World(LIMIT)
        paid = [await world.call("pay", amount=a) for a in (600, 400.01, 400, 0.01)]
        assert paid == [True, False, True, False]

    async def test_a_failed_call_counts(self) -> None:
        world = World(LIMIT)
        await world.call("pay", amount=1000, fails=True)
        assert not await world.call("pay", amount=1)

    async def test_amount_finer_than_the_unit_is_rounded_up(self) -> None:
        world = World("limit pay to 0.02 of input.amount per session")
        paid = [await world.call("pay", amount=a) for a in (0.001, 1e-300, 1e-9)]
        assert paid == [True, True, False]

    async def test_decimals_are_those_of_the_limit(self) -> None:
        world = World("limit pay to 0.003 of input.amount per session")
        assert [await world.call("pay", amount=0.001) for _ in range(4)] == [True, True, True, False]

    @pytest.mark.parametrize(
        "amount", ["5", -1, -0.01, True, None, [1], float("nan"), float("inf"), {"value": 1}, ""]
    )
    async def test_amount_that_is_no_number_is_blocked(self, amount: object) -> None:
        world = World(LIMIT)
        assert not await world.call("pay", amount=amount)
        [verdict] = world.gate.classify(ToolCall("c", "pay", {"amount": amount}))
        assert verdict.reason == "pay is blocked: the call has no number from 0 in input.amount."
        assert await world.call("pay", amount=1000), "it has taken nothing"

    async def test_missing_or_duplicate_amount_is_blocked(self) -> None:
        world = World(LIMIT)
        assert not await world.call("pay")
        assert not await world.call("pay", amount=1, AMOUNT=5000)

    @pytest.mark.parametrize("amount", [1e308, 10**400, 1000.01])
    async def test_amount_above_the_limit_is_blocked(self, amount: float) -> None:
        assert not await World(LIMIT).call("pay", amount=amount)

    async def test_reason_contains_the_rest(self) -> None:
        gate = create_gate_manager(compile_rules(f'{LIMIT} because "the budget"').nets)
        await gate.handle_tool_call(ToolCall("a", "pay", {"amount": 600}))
        decision = await gate.handle_tool_call(ToolCall("b", "pay", {"amount": 400.5}))
        assert decision.reason == (
            "pay would exceed its limit of 1000.00 of input.amount per session: the budget; "
            "400.00 is left."
        )
        assert gate.format_constraints().endswith(
            "- pay: 400.00 of 1000.00 of input.amount left in this session. Why: the budget."
        )

    async def test_refill_restores_the_whole_sum(self) -> None:
        world = World(REFILL)
        assert [await world.call("pay", amount=a) for a in (7, 7)] == [True, False]
        await world.call("audit", fails=True)
        assert not await world.call("pay", amount=7)
        await world.call("audit")
        assert [await world.call("pay", amount=a) for a in (7, 3, 1)] == [True, True, False]

    async def test_each_value_has_its_own_sum(self) -> None:
        world = World("limit pay to 10 of input.amount per session for each input.to")
        paid = [
            await world.call("pay", amount=a, to=to) for a, to in ((7, "a"), (7, "b"), (7, "A"), (3, "a"))
        ]
        assert paid == [True, True, False, True]
        assert not await world.call("pay", amount=1)

    async def test_limit_with_a_condition(self) -> None:
        world = World('limit pay to 10 of input.amount per session when input.currency = "EUR"')
        calls = [(9, "EUR"), (900, "USD"), ("much", "USD"), (2, "EUR")]
        paid = [await world.call("pay", amount=a, currency=c) for a, c in calls]
        assert paid == [True, True, True, False]

    async def test_sum_spent_during_an_open_request_blocks(self) -> None:
        """A call is blocked if another one spends the sum while its request is open."""
        world = World("limit pay to 10 of input.amount per session\nrequire human-approval before pay")
        assert [await world.call("pay", amount=a) for a in (6, 6, 4)] == [True, False, True]
        assert world.asked == 2

    async def test_call_beyond_the_sum_waits_without_a_request(self) -> None:
        """A call beyond the sum is not requested until the first two are decided."""
        text = "limit pay to 10 of input.amount per session\nrequire human-approval before pay"
        recorder = Recorder(compile_rules(text).registry)
        for call_id, amount in (("a", 2), ("b", 4), ("c", 8)):
            await recorder.call(call_id, "pay", amount=amount)
        assert recorder.waiting == ["a", "b"]
        for call_id in ("a", "b"):
            await recorder.answer(call_id, approved=call_id == "a")
        assert recorder.waiting == ["c"]


class TestRecord:
    async def test_amount_of_a_call_that_never_ran_is_returned(self) -> None:
        recorder = Recorder(compile_rules(LIMIT).registry)
        await recorder.call("a", "pay", amount=900)
        recorder.result("a", ran=False)
        await recorder.call("b", "pay", amount=1000)
        [state] = fold(recorder.events).nets.values()
        assert state.marking["budget"] == recorder.manager.states[state.key].marking["budget"] == 0

    async def test_sums_are_restored_from_the_record(self) -> None:
        rules = compile_rules(f"{REFILL} for each input.to")
        recorder = Recorder(rules.registry)
        for number, (amount, to) in enumerate(((2.5, "a"), (5, "b"), (1.25, "a"))):
            await recorder.call(f"c{number}", "pay", amount=amount, to=to)
        state = fold(recorder.events)
        assert [v.marking["budget"] for v in state.values.values()] == [500, 625]
        gate = create_gate_manager(registry=rules.registry)
        gate.restore(markings={key: v.marking for key, v in {**state.nets, **state.values}.items()})
        for amount, outcome in ((6.26, "block"), (6.25, "allow")):
            call = ToolCall(f"x{amount}", "pay", {"amount": amount, "to": "a"})
            assert (await gate.handle_tool_call(call)).outcome == outcome

    @pytest.mark.parametrize(
        ("history", "left"),
        [
            ([ReplayEntry("pay", {"amount": 999}), ReplayEntry("pay", {"amount": 0.5})], 50),
            ([ReplayEntry("pay", {"amount": 999}), ReplayEntry("pay", {"amount": 5})], 0),
            ([ReplayEntry("pay", {"amount": 5000})], 0),
            (["pay"], 0),
            ([ReplayEntry("pay", {"amount": "1"})], 0),
            ([ReplayEntry("pay", {"amount": 5000}, is_error=True)], 100_000),
        ],
    )
    def test_a_history_counts(self, history: list[ReplayEntry | str], left: int) -> None:
        """A call that ran takes its amount, and the whole rest if its amount is unknown."""
        gate = create_gate_manager(compile_rules(LIMIT).nets)
        gate.replay(history)
        [state] = gate.states.values()
        assert state.marking["budget"] == left


amounts = st.one_of(
    st.integers(0, 700),
    st.decimals(0, 700, places=2).map(float),
    st.sampled_from([0.1, 0.3, "1", -1, None, 1e-5]),
)


class TestLaws:
    @pytest.mark.slow
    @given(st.lists(st.tuples(amounts, st.booleans(), st.booleans()), max_size=12))
    async def test_calls_are_allowed_while_the_sum_lasts(
        self, calls: list[tuple[Any, bool, bool]]
    ) -> None:
        """Law: a call is allowed if and only if its amount fits into the sum since the last audit.

        The fold of the record has the same marking.
        """
        recorder = Recorder(compile_rules("limit pay to 1000 of input.amount per audit").registry)
        left = 1000
        spent = Decimal(0)
        for number, (amount, fails, audits) in enumerate(calls):
            await recorder.call(f"c{number}", "pay", amount=amount)
            runs = f"c{number}" in recorder.running
            if isinstance(amount, int | float) and amount >= 0:
                exact = Decimal(repr(amount))
                hundredths = exact.quantize(Decimal("0.01"), ROUND_CEILING)
                assert runs == (spent + hundredths <= left)
                spent += hundredths if runs else 0
            else:
                assert not runs
            if runs:
                recorder.result(f"c{number}", is_error=fails)
            if audits:
                await recorder.call(f"a{number}", "audit")
                recorder.result(f"a{number}")
                spent = Decimal(0)
            [state] = fold(recorder.events).nets.values()
            assert state.marking == recorder.manager.states[state.key].marking
            assert state.marking["budget"] == (left - spent) * 100

    @given(st.floats(0, 1e15), st.integers(2, 9))
    def test_units_match_the_written_number(self, amount: float, decimals: int) -> None:
        units = SumField(("a",), decimals).units({"a": amount})
        exact = Decimal(repr(amount))
        assert units is not None
        assert Decimal(units).scaleb(-decimals) >= exact > Decimal(units - 1).scaleb(-decimals)


class TestProof:
    def test_largest_sum_is_reported(self) -> None:
        rules = compile_rules(LIMIT)
        most = Together(rules.registry, words=vocabulary(rules.nets, None)).most("pay")
        assert (most.unlimited, most.each) == (True, ("1000.00 of input.amount per session",))

    def test_states_include_every_sum(self) -> None:
        [net] = compile_rules("limit pay to 0.05 of input.amount per audit").nets
        assert reachable(net).count == 7

    async def test_sum_and_number_of_calls_are_independent(self) -> None:
        from interlock.rules.analysis.findings import examine

        found = examine(compile_rules(f"{LIMIT}\nlimit pay to 3 per session"))
        assert not found.errors
        assert not found.warnings

    async def test_reason_has_a_way_only_where_one_is_known(self) -> None:
        gate = create_gate_manager(compile_rules(REFILL).nets, explain_blocks=True)
        await gate.handle_tool_call(ToolCall("a", "pay", {"amount": 9}))
        decision = await gate.handle_tool_call(ToolCall("b", "pay", {"amount": 2}))
        assert decision.reason == (
            "pay would exceed its limit of 10.00 of input.amount per audit; 1.00 is left. "
            "To get there: audit → pay."
        )
        gate.handle_tool_result(ToolResult("a", "pay", {"amount": 9}))
        decision = await gate.handle_tool_call(ToolCall("c", "pay", {"amount": 11}))
        assert decision.reason is not None
        assert "To get there" not in decision.reason


class TestNets:
    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"amount": Amount(SumField(("a",), 2), "q")}, "unknown place 'q'"),
            ({"amount": Amount(SumField(("a",), 2), "p")}, "no other arc to it"),
            ({"deferred": True}, "must fire at a call"),
            ({"type": "manual"}, "without approval"),
        ],
    )
    def test_invalid_nets_are_refused(self, change: dict[str, Any], said: str) -> None:
        terms = {"amount": Amount(SumField(("a",), 2), "b"), **change}
        use = Transition("use", ("p",), ("p",), ("pay",), **terms)
        with pytest.raises(NetError, match=said):
            define_skill_net("n", places=["p", "b"], transitions=[use], initial_marking={"p": 1, "b": 9})

    def test_units_need_a_transition_with_an_amount(self) -> None:
        with pytest.raises(NetError, match="takes no amount"):
            Transition("use", ("p",), ("p",), ("pay",)).of_units(1)


class TestErrors:
    @pytest.mark.parametrize(
        ("line", "message", "remedy"),
        [
            ("limit a to 0 of input.x per session", "above 0, got '0'", "1000.00"),
            ("limit a to 0.00 of input.x per session", "above 0, got '0.00'", "1000.00"),
            ("limit a to -5 of input.x per session", "above 0, got '-5'", "1000.00"),
            ("limit a to 9999999999999999 of input.x per session", "above 0", "15 digits"),
            ("limit a to 0.0000000001 of input.x per session", "above 0", "9 of them"),
            ("limit a to 5 of x per session", "such as input.amount, got 'x'", "write: input.x"),
            ("limit a to 5 of session.agent per session", "a field of the call", "begin with 'input.'"),
            ("limit a to 5 of input.x per 1d", "not per '1d'", "per session"),
            ("limit a to 5 of input.x per a", "cannot restore its own budget", "per session"),
            ("limit a to 5 of input.x", "expected 'per'", "per session"),
            ("limit a to 5 of", "expected a field after 'of'", "of input.amount"),
            (
                "limit a to 2.5 per session",
                "must be a positive integer, got '2.5'",
                "2.5 of input.amount",
            ),
        ],
    )
    def test_name_the_remedy(self, line: str, message: str, remedy: str) -> None:
        with pytest.raises(RuleError) as error:
            compile_rules(line)
        [problem] = error.value.problems
        assert message in problem.message
        assert remedy in problem.remedy

    @pytest.mark.parametrize(
        ("text", "found"),
        [("1000", (100_000, 2)), ("0.5", (50, 2)), ("00.125", (125, 3)), ("0", None), ("1" * 14, None)],
    )
    def test_amounts(self, text: str, found: tuple[int, int] | None) -> None:
        assert amount_units(text) == found
