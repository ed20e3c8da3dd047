"""G-113: conditions on hints, which the MCP server of a tool claims."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.app.cli.rules.explain import run
from interlock.app.cli.rules.scenario_runner import run_scenario
from interlock.engine.approvals.tool_hints import surely_needs_approval
from interlock.engine.backtest import Judge, Trial, fork
from interlock.engine.backtest.explain_recorded import explain_recorded_call
from interlock.engine.backtest.journal_reader import recordings
from interlock.engine.core.condition import Surroundings, condition_text, holds, unknown_reason
from interlock.engine.core.hints import HINTS, Hints, SessionClaims, claimed_hints
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import CallDecided, ToolHints
from interlock.engine.hub.hub import ExternalAgent, Hub
from interlock.engine.net.net import ToolCall
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import RuleError, compile_rules, condition_of
from interlock.rules.analysis.findings import examine
from interlock.rules.scenarios.scenarios import parse_scenarios
from tests.support.command import printed

RULES = "block fetch when not hint.read_only = true\n"
SESSION = "s-1"
CLAIMS = st.dictionaries(st.sampled_from(sorted(HINTS)), st.booleans())


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    hub = Hub(Journal.open(tmp_path / "hub.db"))
    try:
        yield hub
    finally:
        await hub.close()


async def fetch(hub: Hub, number: int, tool: str = "fetch") -> str:
    answer = await hub.call(SESSION, f"c{number}", tool, {})
    if answer.outcome == "allow":
        await hub.result(SESSION, f"c{number}", output="", is_error=False)
    return answer.outcome


async def opened(hub: Hub, rules: str = RULES) -> None:
    config = SessionConfig(compile_rules(rules).registry)
    await hub.open_external(ExternalAgent(name="bot"), config, session_id=SESSION)


class TestHolds:
    def test_only_claims_about_the_called_tool_count(self) -> None:
        """Neither the call's input nor the claims about another tool count."""
        condition = condition_of("hint.read_only = true")
        assert condition is not None
        spoofed = {"hint": {"read_only": True}, "read_only": True}
        around = Surroundings(hints={"fetch": {"read_only": True}})
        assert holds(condition, spoofed, around.about("fetch")) is True
        assert holds(condition, spoofed, around.about("send")) is None
        reason = "the tool's server claims no hint.read_only that counts"
        assert unknown_reason(condition, spoofed) == reason

    @pytest.mark.parametrize(
        ("text", "claimed", "of_none"),
        [
            ("hint.destructive = true", False, None),
            ("hint.destructive != true", True, None),
            ("not hint.destructive = true", True, None),
            ("hint.destructive is missing", False, True),
            ("hint.destructive is present", True, False),
        ],
    )
    def test_missing_hint_is_unknown(self, text: str, claimed: bool, of_none: bool | None) -> None:
        """A hint without a claim is unknown and has no default."""
        condition = condition_of(text)
        assert condition is not None
        assert condition_text(condition) == text
        assert holds(condition, {}, Surroundings(hint={"destructive": False})) is claimed
        assert holds(condition, {}) is of_none

    def test_condition_on_the_session_is_not_certain(self) -> None:
        """A condition that depends on the session does not count as certain to require approval."""
        call = ToolCall("c1", "deploy", {"to": "prod"})
        for text in ("not hint.read_only = true", 'session.agent = "bot"', "input.to not from user"):
            condition = condition_of(text)
            assert condition is not None
            assert not surely_needs_approval([condition], call)
        sure = condition_of('input.to = "prod"')
        assert sure is not None
        assert surely_needs_approval([sure], call)


class TestClaims:
    def test_are_read_from_annotations(self) -> None:
        """Only true and false under MCP's own names are claims."""
        given = {"readOnlyHint": True, "destructiveHint": "no", "title": "x", "open_world": True}
        assert claimed_hints(given) == {"read_only": True}
        assert claimed_hints(None) == claimed_hints([1]) == {}

    @given(claims=st.lists(CLAIMS, min_size=1, max_size=5), called=st.booleans())
    def test_hints_only_decrease(self, claims: list[dict[str, bool]], called: bool) -> None:
        """The counted hints are those that every claim contains, and they only decrease."""
        session, counts = SessionClaims(), None
        if called:
            session.called.add("fetch")
        for number, each in enumerate(claims, 1):
            earlier, counts = counts, session.note("fetch", each)["fetch"]  # type: ignore[arg-type]
            said = claims[:number] if not called else [{}, *claims[:number]]
            assert counts == {k: v for k, v in said[0].items() if all(s.get(k) is v for s in said)}
            assert earlier is None or counts.items() <= earlier.items()


class TestErrors:
    @pytest.mark.parametrize(
        ("condition", "message", "remedy"),
        [
            (
                "hint.readOnlyHint = true",
                "the hints of a tool are hint.read_only",
                "hint.read_only = true",
            ),
            ("hint.read-only = true", "got 'hint.read-only'", "when hint.read_only = true"),
            ("hint.x.y = true", "got 'hint.x.y'", "hint.read_only = true"),
            ('hint.read_only = "yes"', "is true or false, got", "when hint.read_only = true"),
            ("hint.read_only < 3", "which '<' does not compare", "hint.read_only = true"),
            ("hint.read_only in [true]", "which 'in' does not compare", "hint.read_only = true"),
            ("any hint.read_only = true", "is one value, got 'any'", "when hint.read_only = true"),
            ("hint.read_only from user", "which 'from' does not compare", "hint.read_only = true"),
        ],
    )
    def test_impossible_comparison_is_refused(self, condition: str, message: str, remedy: str) -> None:
        """A comparison that no hint can meet is refused, because it would apply to every call."""
        with pytest.raises(RuleError) as error:
            compile_rules(f"block x when {condition}")
        [problem] = error.value.problems
        assert message in problem.message
        assert remedy in problem.remedy


class TestCheck:
    def found(self, rules: str) -> list[str]:
        return [each.message for each in examine(compile_rules(rules)).warnings]

    @pytest.mark.parametrize(
        "rule",
        [
            "require human-approval before fetch when not hint.read_only = true",
            "block fetch when hint.destructive = true",
            'limit fetch to 2 per session when input.x = "a" and hint.open_world != false',
            "require human-approval before anything-else when hint.read_only is missing",
        ],
    )
    def test_rule_that_a_claim_can_evade_is_a_warning(self, rule: str) -> None:
        """A rule from which a server can exempt its own tool is a warning with a remedy."""
        [warning] = examine(compile_rules(rule)).warnings
        assert "is a claim of the tool's server" in warning.message
        assert warning.remedy.startswith("add a rule without a hint: require human-approval")

    @pytest.mark.parametrize(
        "rules",
        [
            "require human-approval before fetch\nblock fetch when hint.destructive = true",
            'require human-approval before fetch when input.x = "a"\n'
            'block fetch when input.x = "a" and hint.destructive = true',
        ],
    )
    def test_covered_tool_causes_no_warning(self, rules: str) -> None:
        """No warning appears if another rule covers the tool without a hint."""
        assert self.found(rules) == []

    def test_all_values_of_a_hint_are_considered(self) -> None:
        """A hint may be true, false or missing, and the proof considers all three."""
        both = "hint.read_only = true or hint.read_only = false or hint.read_only is missing"
        assert "this condition always holds" in self.found(f"block x when {both}")
        never = "hint.read_only = true and hint.read_only = false"
        assert "this condition never holds" in self.found(f"block x when {never}")
        order = "require fetch before send\n"
        assert examine(compile_rules(order + "block fetch")).errors
        assert not examine(compile_rules(order + RULES)).errors


class TestScenarios:
    def test_hint_applies_from_its_line(self) -> None:
        """`hint` sets a server's claim; a hint that changes no longer counts."""
        text = (
            'use a.rules\nscenario "x"\n  call fetch\n  expect block\n'
            'scenario "y"\n  hint fetch read_only true open_world false\n  call fetch\n'
            "  hint fetch read_only false\n  call fetch\n  expect block\n"
            "  hint fetch read_only true\n  call fetch\n  expect block\n"
            "  session new\n  hint fetch read_only true\n  call fetch\n"
            'scenario "called before"\n  call fetch\n  expect block\n  hint fetch read_only true\n'
            "  call fetch\n  expect block"
        )
        for scenario in parse_scenarios(text).scenarios:
            assert run_scenario(scenario, compile_rules(RULES)) is None

    def test_errors_have_a_remedy(self) -> None:
        with pytest.raises(RuleError) as error:
            parse_scenarios('use a.rules\nscenario "x"\n  hint fetch readonly true\n  call fetch')
        assert "read_only" in str(error.value)

    def test_are_explained(self, tmp_path: Path) -> None:
        """`interlock explain --after "hint …"` explains a call with these hints."""
        rules = tmp_path / "a.rules"
        rules.write_text(RULES)
        codes: list[int] = []
        for after in ([], ["hint fetch read_only false"], ["hint fetch read_only true"]):
            args = Namespace(files=[str(rules)], call="fetch", after=after, json=False)
            codes.append(printed(lambda args=args: run(args))[0])
        assert codes == [4, 4, 0]


class TestSessions:
    async def test_recorded_hints_are_used_everywhere(self, hub: Hub) -> None:
        """The gate, a backtest, a fork and an explanation use the recorded hints."""
        await opened(hub)
        outcomes = [await fetch(hub, 1, "other")]
        await hub.note_hints(SESSION, "fetch", {"read_only": True})
        outcomes.append(await fetch(hub, 2))
        # A repeated claim adds no event.
        await hub.note_hints(SESSION, "fetch", {"read_only": True})
        await hub.note_hints(SESSION, "fetch", {"read_only": False})
        outcomes.append(await fetch(hub, 3))
        assert outcomes == ["allow", "allow", "block"]
        events = await hub.recorded(SESSION)
        claims = [e.body for e in events if isinstance(e.body, ToolHints)]
        assert [(c.hints, c.differ) for c in claims] == [({"read_only": True}, ()), ({}, ("read_only",))]
        state = await hub.session(SESSION)
        assert any("differently than before" in (entry.text or "") for entry in state.transcript)
        registry = compile_rules(RULES).registry
        recording = next(recordings(hub.database, [SESSION]))
        assert [j.now.outcome for j in Judge(Trial.of(registry)).judge(recording.items)] == outcomes
        decided = [e for e in events if isinstance(e.body, CallDecided)]
        rest = fork(events, decided[1].seq - 1, Trial.of(registry))
        judged = Judge(Trial.of(registry)).judge(rest.items, rest.start)
        assert [j.now.outcome for j in judged] == ["allow", "block"]
        explained = [
            explain_recorded_call(
                fold(e for e in events if e.seq < each.seq), each.body, each.at, condition_of
            ).outcome
            for each in decided
        ]
        assert explained == outcomes

    async def test_claim_after_the_first_call_is_ignored(self, hub: Hub) -> None:
        """A claim after the tool's first call does not count."""
        await opened(hub)
        assert await fetch(hub, 1) == "block"
        await hub.note_hints(SESSION, "fetch", {"read_only": True})
        assert await fetch(hub, 2) == "block"

    async def test_are_kept_when_resumed(self, hub: Hub, tmp_path: Path) -> None:
        """A resumed session keeps its recorded hints, and compares later claims with them."""
        await opened(hub)
        await hub.note_hints(SESSION, "fetch", {"read_only": True})
        await hub.close()
        again = Hub(Journal.open(tmp_path / "hub.db"))
        try:
            config = SessionConfig(compile_rules(RULES).registry)
            await again.resume_external(SESSION, ExternalAgent(name="bot"), config)
            assert await fetch(again, 1) == "allow"
            changed: Hints = {"read_only": True, "destructive": True}
            await again.note_hints(SESSION, "fetch", changed)
            assert (await again.session(SESSION)).hints["fetch"].differ == ("destructive",)
            assert await fetch(again, 2) == "allow"
        finally:
            await again.close()
