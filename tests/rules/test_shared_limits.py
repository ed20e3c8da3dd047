"""G-93: `limit refund to 20 per 1d across everyone`: one counter for all sessions."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.app.cli.rules.scenario_runner import run_scenario
from interlock.engine.core.condition import Surroundings
from interlock.engine.core.shared_limit import SharedLimit
from interlock.engine.gate import GateManager, SharedUses, ToolResult, create_gate, shared_uses
from interlock.engine.net.net import NetError, SkillNet, ToolCall, Transition, define_skill_net
from interlock.rules import RuleError, compile_rules
from interlock.rules.analysis.findings import examine
from interlock.rules.scenarios.scenarios import parse_scenarios

from ..support.laws import examples

DAY = 86_400.0


class Sessions:
    """Gates of several sessions with common counters and one clock."""

    def __init__(self, rules: str, sessions: int = 3, **fields: object) -> None:
        self.now = 0.0
        self.uses = SharedUses()
        registry = compile_rules(rules).registry
        self.gates = [
            GateManager(
                registry,
                clock=lambda: self.now,
                surroundings=Surroundings(session={"agent": None, "started_by": None, **fields}),
                uses=self.uses.of_session(str(number)),
            )
            for number in range(sessions)
        ]
        self._calls = 0

    async def call(self, session: int, *, ran: bool = True, **given: object) -> bool:
        """Make a call of `b` and end it; return true if it was allowed."""
        self._calls += 1
        call = ToolCall(f"c{self._calls}", "b", given)
        decision = await self.gates[session].handle_tool_call(call)
        if not decision.block:
            undo = () if ran else decision.steps
            result = ToolResult(call.tool_call_id, "b", given, not ran, undo)
            self.gates[session].handle_tool_result(result)
        return not decision.block


class TestCounting:
    async def test_counts_for_every_session(self) -> None:
        sessions = Sessions("limit b to 2 per 1d across everyone")
        assert [await sessions.call(n) for n in (0, 1, 2, 0)] == [True, True, False, False]
        sessions.now = DAY
        assert await sessions.call(2)

    async def test_model_text_contains_the_rest(self) -> None:
        sessions = Sessions("limit b to 2 per 1d across everyone")
        await sessions.call(0)
        assert sessions.gates[1].constraints() == (
            "b: 1 of 2 calls left across everyone, at most 2 in 1d.",
        )
        assert "budget:1" in sessions.gates[1].format_status()

    async def test_reason_names_the_reach(self) -> None:
        sessions = Sessions("limit b to 1 per 1d for each input.k across agent", agent="bot")
        await sessions.call(0, k=1)
        reason = sessions.gates[1].block_reason(ToolCall("c", "b", {"k": 1}))
        assert reason == "b has reached its limit of 1 calls per 1d for each input.k across agent."

    async def test_different_conditions_have_their_own_counters(self) -> None:
        both = "limit b to 1 per 1d across everyone when input.a > 1"
        sessions = Sessions(both)
        assert await sessions.call(0, a=1)
        assert await sessions.call(1, a=2)
        assert not await sessions.call(2, a=2)
        assert await sessions.call(2, a=1)

    async def test_limits_of_one_counter_count_a_call_once(self) -> None:
        sessions = Sessions("limit b to 4 per 1d across everyone\nlimit b to 3 per 1h across everyone")
        assert [await sessions.call(n) for n in (0, 1, 0, 1)] == [True, True, True, False]
        sessions.now = 3_600
        assert [await sessions.call(n, ran=False) for n in (2, 2)] == [True, True], "given back in both"
        assert [await sessions.call(n) for n in (2, 0)] == [True, False]

    async def test_repeated_id_is_another_call(self) -> None:
        sessions = Sessions("limit b to 3 per 1d across everyone")
        for _ in range(3):
            sessions._calls = 0
            assert await sessions.call(0)
        assert not await sessions.call(1)

    async def test_expired_uses_are_dropped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shared_uses, "FEW_USES", 10)
        sessions = Sessions("limit b to 1 per 1h for each input.k across everyone")
        for key in range(200):
            sessions.now = key * 360
            assert await sessions.call(key % 3, k=key)
        kept = sessions.uses
        assert len(kept._uses) == len(kept._of_call) == kept._count <= 21
        assert [await sessions.call(0, k=key) for key in (189, 190)] == [True, False]

    async def test_gate_without_sessions_counts_its_own_calls(self) -> None:
        nets = compile_rules("limit b to 1 per 1d across everyone").nets
        gates = [GateManager(nets, clock=lambda: 0.0) for _ in range(2)]
        for gate in gates:
            found = [(await gate.handle_tool_call(ToolCall(f"c{n}", "b", {}))).block for n in range(2)]
            assert found == [False, True]

    async def test_a_shadow_gate_counts_too(self) -> None:
        sessions = Sessions("limit b to 1 per 1d across everyone")
        sessions.gates[0].mode = "shadow"
        assert [await sessions.call(n) for n in (0, 0, 1)] == [True, True, False]

    async def test_wrapped_tools_count_together(self) -> None:
        def refund() -> str:
            return "ok"

        nets = compile_rules("limit refund to 1 per 1d across everyone").nets
        gate = create_gate(nets)
        first, second = gate.wrap_tools([refund]), gate.wrap_tools([refund])
        assert await first.call("refund") == "ok"
        with pytest.raises(Exception, match="across everyone"):
            await second.call("refund")

    @given(
        st.lists(
            st.tuples(
                st.integers(0, 2), st.sampled_from("xy"), st.booleans(), st.sampled_from([0, 1, 4, 7])
            ),
            max_size=25,
        )
    )
    @settings(max_examples=examples(200), deadline=None)
    def test_sessions_together_equal_one_counter(self, calls: list[tuple[int, str, bool, int]]) -> None:
        """Several sessions together allow the same calls as one counter, which counts calls that ran."""

        async def law() -> None:
            sessions = Sessions("limit b to 2 per 10s for each input.k across everyone")
            counted: dict[str, list[float]] = {"x": [], "y": []}
            for session, key, ran, wait in calls:
                sessions.now += wait
                times = [t for t in counted[key] if t > sessions.now - 10]
                allowed = await sessions.call(session, k=key, ran=ran)
                assert allowed == (len(times) < 2)
                counted[key] = [*times, sessions.now] if allowed and ran else times

        asyncio.run(law())


SCENARIO = """use a.rules
scenario "over sessions"
  session agent bot
  call b
  session new
  call b
  expect block "across agent"
  session agent other
  call b
"""


class TestScenarios:
    def test_other_sessions_share_the_limit(self) -> None:
        [scenario] = parse_scenarios(SCENARIO).scenarios
        assert run_scenario(scenario, compile_rules("limit b to 1 per 1d across agent")) is None
        found = run_scenario(scenario, compile_rules("limit b to 1 per 1d"))
        assert found is not None
        assert found.problem.line == 7

    def test_another_session_has_nets_of_its_own(self) -> None:
        text = 'use a.rules\nscenario "x"\n  call a\n  session new\n  call b\n  expect block'
        [scenario] = parse_scenarios(text).scenarios
        assert run_scenario(scenario, compile_rules("require a before b")) is None


class TestUses:
    def test_record_is_read_for_the_longest_window(self) -> None:
        asked: list[float] = []

        def recorded(window: float) -> list[tuple[str, str, str, str, float]]:
            asked.append(window)
            return [("s", "c1", "n", "counter", 5.0)]

        uses = SharedUses(recorded)
        day, hour = SharedLimit("b", "everyone", "budget", DAY), SharedLimit("b", "agent", "budget", 3600)
        uses.keep_for([])
        uses.keep_for([hour])
        uses.keep_for([hour])
        uses.keep_for([hour, day])
        assert asked == [3600, DAY]
        assert uses.left("counter", day, 3, 3, "other", 6.0) == 2
        assert uses.left("counter", hour, 3, 3, "other", 5.0 + 3600) == 3

    def test_unreadable_record_makes_no_gate(self) -> None:
        def recorded(window: float) -> list[tuple[str, str, str, str, float]]:
            raise OSError("gone")

        nets = compile_rules("limit b to 1 per 1d across everyone").nets
        with pytest.raises(OSError, match="gone"):
            GateManager(nets, uses=SharedUses(recorded).of_session("s"))

    def test_each_reach_has_its_own_counters(self) -> None:
        everyone, agent, operator = (
            SharedLimit("b", reach, "budget", DAY) for reach in ("everyone", "agent", "operator")
        )
        ada = {"agent": "bot", "started_by": "ada"}
        ben = {"agent": "bot", "started_by": "ben"}
        assert everyone.counter(ada) == everyone.counter(ben) == everyone.counter(None)
        assert agent.counter(ada) == agent.counter(ben) != agent.counter(None)
        assert operator.counter(ada) != operator.counter(ben)
        assert len({everyone.counter(ada), agent.counter(ada), operator.counter(ada)}) == 3
        assert everyone.counter(ada, "1") != everyone.counter(ada, "2")

    def test_other_spelling_has_the_same_counter(self) -> None:
        agent, operator = (SharedLimit("b", reach, "budget", DAY) for reach in ("agent", "operator"))
        ada = {"agent": "Release Bot", "started_by": "ada"}
        again = {"agent": "release\u200b  bot", "started_by": " ADA "}
        assert agent.counter(ada) == agent.counter(again)
        assert operator.counter(ada) == operator.counter(again)


def net(shared: SharedLimit) -> SkillNet:
    return define_skill_net(
        "n",
        places=("budget", "spent"),
        transitions=(
            Transition("do", ("budget",), ("spent",), ("b",)),
            Transition("back", ("spent",), ("budget",), after=60.0),
        ),
        initial_marking={"budget": 1},
        shared=shared,
    )


class TestNets:
    @pytest.mark.parametrize(("place", "window"), [("other", 60.0), ("budget", 30.0), ("spent", 60.0)])
    def test_invalid_shared_limit_is_refused(self, place: str, window: float) -> None:
        with pytest.raises(NetError, match="over sessions"):
            net(SharedLimit("b", "everyone", place, window))


class TestProof:
    def findings(self, rules: str) -> list[str]:
        return [w.message for w in examine(compile_rules(rules)).warnings]

    def test_limit_per_session_does_not_cover_one_across_sessions(self) -> None:
        rules = "limit b to 5 per 1d across everyone\nlimit b to {} per {}"
        assert not self.findings(rules.format(2, "session"))
        assert not self.findings(rules.format(5, "1d across agent").replace("b to 5 per", "b to 4 per"))[
            1:
        ]

    @pytest.mark.parametrize("other", ["5 per 1d", "5 per 1d across agent", "6 per 1d across everyone"])
    def test_looser_limit_is_redundant(self, other: str) -> None:
        found = self.findings(f"limit b to 5 per 1d across everyone\nlimit b to {other}")
        assert len(found) == 1
        assert "redundant" in found[0]

    def test_maximum_is_reported(self) -> None:
        rules = compile_rules("limit b to 5 per 1d across agent")
        [tool] = examine(rules).tools
        assert "5 per 1d across agent" in str(tool.most)


BAD = [
    ("limit a to 2 per session across everyone", "calls are counted per time", "per 1d across everyone"),
    ("limit a to 2 per b across agent", "calls are counted per time", "per 1d across agent"),
    ("limit a to 2 per 1d across", "'everyone', 'agent' or 'operator'", "across everyone"),
    ("limit a to 2 per 1d across all", "got 'all'", "across everyone"),
    ("limit a to 2 across everyone per 1d", "'per' must come before 'across'", "per <…> across everyone"),
    (
        "limit a to 2 per 1d across agent for each input.x",
        "'for' must come before",
        "for <…> across agent",
    ),
    (
        "limit a to 1.00 of input.x per session across agent",
        "only in limits on the number of calls",
        "sum per session",
    ),
    ("require a before b across everyone", "only in limits on the number of calls", "in every session"),
]


class TestMessages:
    @pytest.mark.parametrize(("line", "message", "remedy"), BAD)
    def test_name_the_remedy(self, line: str, message: str, remedy: str) -> None:
        with pytest.raises(RuleError) as raised:
            compile_rules(line)
        [problem] = raised.value.problems
        assert message in problem.message
        assert remedy in (problem.remedy or "")

    @pytest.mark.parametrize(
        "line", ["require across before b", "limit across to 1 per 1d", "block across"]
    )
    def test_across_is_a_name_elsewhere(self, line: str) -> None:
        assert len(compile_rules(line).nets) == 1
