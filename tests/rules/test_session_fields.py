"""G-88: conditions on the session: `session.agent`, `session.started_by`, `session.labels`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypedDict

import pytest

from interlock.app.cli.rules.explain import run
from interlock.app.cli.rules.scenario_runner import run_scenario
from interlock.engine import Agent, ScriptedModel, ToolContext, task_tool, tool
from interlock.engine.agents import C, T
from interlock.engine.backtest import Judge, Trial, fork
from interlock.engine.backtest.explain_recorded import explain_recorded_call
from interlock.engine.backtest.journal_reader import recordings
from interlock.engine.core.condition import Surroundings, condition_text, holds, unknown_reason
from interlock.engine.core.labels import checked_labels
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import CallDecided, SessionOpened
from interlock.engine.hub.hub import ExternalAgent, Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import RuleError, compile_rules, condition_of
from interlock.rules.analysis.findings import examine
from interlock.rules.scenarios.scenarios import parse_scenarios
from tests.support.command import printed

RULES = 'block deploy when session.agent != "release-bot" or session.started_by != "ada"\n'
NIGHTLY = 'block deploy when not session.labels contains "nightly"\n'
SESSION = "s-1"


class Said(TypedDict, total=False):
    """Some fields of a session's configuration."""

    by: str
    labels: tuple[str, ...]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    hub = Hub(Journal.open(tmp_path / "hub.db"))
    try:
        yield hub
    finally:
        await hub.close()


async def deploy(hub: Hub, number: int) -> str:
    answer = await hub.call(SESSION, f"c{number}", "deploy", {})
    if answer.outcome == "allow":
        await hub.result(SESSION, f"c{number}", output="", is_error=False)
    return answer.outcome


@tool(name="deploy")
async def deploy_tool(ctx: ToolContext) -> str:
    """Deploy."""
    return "deployed"


class TestHolds:
    def test_only_fields_of_the_session_count(self) -> None:
        """A call's input does not count as a field of the session."""
        condition = condition_of('session.agent = "bot"')
        assert condition is not None
        spoofed = {"session": {"agent": "bot"}, "agent": "bot"}
        assert holds(condition, spoofed, Surroundings(session={"agent": "other"})) is False
        assert holds(condition, {}, Surroundings(session={"agent": "bot"})) is True
        assert holds(condition, spoofed) is None
        assert unknown_reason(condition, spoofed) == "session.agent is not known here"

    def test_missing_started_by(self) -> None:
        """In a known session `started_by` may be missing; without a session it is unknown."""
        missing = condition_of("session.started_by is missing")
        ada = condition_of('session.started_by = "ada"')
        assert missing is not None
        assert ada is not None
        around = Surroundings(session={"agent": "bot", "started_by": None})
        assert (holds(missing, {}, around), holds(ada, {}, around)) == (True, False)
        assert holds(missing, {}) is None

    @pytest.mark.parametrize(
        "text",
        [
            'session.agent = "bot" and input.agent != "bot"',
            "session.started_by not matches /^ci-/",
            'any session.labels = "nightly" or session.labels not contains "ci"',
            'every session.labels in ["ci", "nightly"]',
            "session.labels is missing",
        ],
    )
    def test_is_read_as_it_is_written(self, text: str) -> None:
        condition = condition_of(text)
        assert condition is not None
        assert condition_text(condition) == text

    def test_session_and_input_fields_are_different(self) -> None:
        """The fields `session.agent` and `input.agent` are different for a proof."""
        rules = compile_rules('block x when session.agent = "a"\nblock x when input.agent = "a"')
        assert examine(rules).warnings == ()
        never = compile_rules('block x when session.agent = "a" and session.agent = "b"')
        assert [w.message for w in examine(never).warnings] == ["this condition never holds"]


LABELLED = {"agent": "bot", "started_by": "ada", "labels": ("ci", "nightly")}


class TestLabels:
    @pytest.mark.parametrize(
        ("text", "labelled", "bare"),
        [
            ('any session.labels = "nightly"', True, False),
            ('session.labels contains "nightly"', True, False),
            ('session.labels contains "night"', False, False),
            ('every session.labels in ["ci", "nightly"]', True, True),
            ('every session.labels = "ci"', False, True),
            ('any session.labels not in ["ci"]', True, False),
            ("any session.labels matches /^night/", True, False),
            ("session.labels is missing", False, True),
            ("session.labels is present", True, False),
        ],
    )
    def test_each_label_is_compared(self, text: str, labelled: bool, bare: bool) -> None:
        """Each label is compared; without any, `every` holds, `any` does not, and they are missing."""
        condition = condition_of(text)
        assert condition is not None
        assert holds(condition, {}, Surroundings(session=LABELLED)) is labelled
        assert holds(condition, {}, Surroundings(session={**LABELLED, "labels": ()})) is bare
        # A program may pass them as a list, as JSON does.
        assert holds(condition, {}, Surroundings(session={**LABELLED, "labels": []})) is bare

    def test_unknown_labels_make_the_rule_apply(self) -> None:
        """If the session or its labels are unknown, the rule applies; a call's input has no labels."""
        condition = condition_of('not session.labels contains "nightly"')
        assert condition is not None
        spoofed = {"labels": ["nightly"], "session": {"labels": ["nightly"]}}
        assert holds(condition, spoofed) is None
        assert unknown_reason(condition, spoofed) == "session.labels is not known here"
        around = Surroundings(session={"agent": "bot"})
        assert holds(condition, spoofed, around) is None
        assert unknown_reason(condition, {}, around) == "the session has no session.labels"

    @pytest.mark.parametrize(
        "rule",
        [
            'block x when not session.labels contains "trusted"',
            'block x when session.labels is present and any session.labels = "ci"',
            'block x when session.labels is missing and every session.labels = "ci"',
        ],
    )
    def test_contains_causes_no_warning(self, rule: str) -> None:
        """An agent cannot add a label, so a list with `contains` causes no warning."""
        assert examine(compile_rules(rule)).warnings == ()

    def test_are_sorted_unique_words(self) -> None:
        """Labels are sorted and unique; other characters and more than 20 labels are refused."""
        assert checked_labels(["nightly", "ci", "team:a.b_1-2", "ci"]) == (
            "ci",
            "nightly",
            "team:a.b_1-2",
        )
        for wrong in ("", "a b", "é", "x" * 65, "a\n", "a\u202eb", "a,b"):
            with pytest.raises(ValueError, match="a label has 1 to 64 letters"):
                checked_labels([wrong])
        assert len(checked_labels(map(str, range(20)))) == 20
        with pytest.raises(ValueError, match="at most 20 labels, found 21"):
            SessionConfig({}, labels=tuple(map(str, range(21))))


class TestScenarios:
    def test_session_labels_replace_all_labels(self) -> None:
        """`session labels` sets all labels from that step on; a scenario begins without labels."""
        text = (
            'use a.rules\nscenario "x"\n  call deploy\n  expect block\n  session labels ci nightly\n'
            "  call deploy\n  session labels ci\n  call deploy\n  expect block"
        )
        [scenario] = parse_scenarios(text).scenarios
        assert run_scenario(scenario, compile_rules(NIGHTLY)) is None

    def test_are_explained(self, tmp_path: Path) -> None:
        """`interlock explain --after "session labels …"` explains a call with these labels."""
        rules = tmp_path / "a.rules"
        rules.write_text(NIGHTLY)
        codes: list[int] = []
        for after in ([], ["session labels ci"], ["session labels nightly ci"]):
            args = Namespace(files=[str(rules)], call="deploy", after=after, json=False)
            codes.append(printed(lambda args=args: run(args))[0])
        assert codes == [4, 4, 0]


class TestErrors:
    @pytest.mark.parametrize(
        ("field", "remedy"),
        [
            ("session.agnt", "session.agent"),
            ("session.agent.name", "when session.agent"),
            ("session.x", "agent"),
        ],
    )
    def test_known_fields_are_listed(self, field: str, remedy: str) -> None:
        with pytest.raises(RuleError) as error:
            compile_rules(f'block x when {field} = "a"')
        [problem] = error.value.problems
        known = "session.agent, session.started_by, or session.labels"
        assert problem.message == f"a session has {known}, got '{field}'"
        assert remedy in problem.remedy

    @pytest.mark.parametrize(
        ("condition", "message", "remedy"),
        [
            ('session.labels = "ci"', "is a list, which '=' does not", 'any session.labels = "ci"'),
            (
                'session.labels not in ["ci"]',
                "is a list, which 'in' does not",
                "any session.labels not in",
            ),
            ('any session.agent = "a"', "is one value, got 'any'", 'when session.agent = "a"'),
            (
                "every session.agent from user",
                "is one value, got 'every'",
                "when session.agent from user",
            ),
        ],
    )
    def test_impossible_comparison_with_a_list_is_refused(
        self, condition: str, message: str, remedy: str
    ) -> None:
        """A comparison that a list cannot meet is refused, because it would apply to every session."""
        with pytest.raises(RuleError) as error:
            compile_rules(f"block x when {condition}")
        [problem] = error.value.problems
        assert message in problem.message
        assert remedy in problem.remedy


class TestSessions:
    @pytest.mark.parametrize(
        ("rules", "first", "second"),
        [
            (RULES, {"by": "ada"}, {"by": "eve"}),
            (NIGHTLY, {"labels": ("nightly", "ci")}, {"labels": ("ci",)}),
            (NIGHTLY, {"labels": ("nightly",)}, {}),
        ],
    )
    async def test_latest_resume_sets_operator_and_labels(
        self, hub: Hub, tmp_path: Path, rules: str, first: Said, second: Said
    ) -> None:
        """The operator and the labels of the latest resume count, in the record and at the gate."""
        registry = compile_rules(rules).registry
        agent = ExternalAgent(name="release-bot", labels={"deploy": "nightly"})
        await hub.open_external(agent, SessionConfig(registry, **first), session_id=SESSION)
        outcomes = [await deploy(hub, 1)]
        await hub.close()
        again = Hub(Journal.open(tmp_path / "hub.db"))
        try:
            await again.resume_external(SESSION, agent, SessionConfig(registry, **second))
            outcomes.append(await deploy(again, 2))
            assert outcomes == ["allow", "block"]
            events = await again.recorded(SESSION)
            recording = next(recordings(again.database, [SESSION]))
            judged = list(Judge(Trial.of(registry)).judge(recording.items))
            assert [j.now.outcome for j in judged] == outcomes
            decided = [e for e in events if isinstance(e.body, CallDecided)]
            rest = fork(events, decided[1].seq - 1, Trial.of(registry))
            assert [j.now.outcome for j in Judge(Trial.of(registry)).judge(rest.items, rest.start)] == [
                "block"
            ]
            explained = [
                explain_recorded_call(
                    fold(e for e in events if e.seq < each.seq), each.body, each.at, condition_of
                ).outcome
                for each in decided
            ]
            assert explained == outcomes
        finally:
            await again.close()

    async def test_recorded_labels_are_sorted(self, hub: Hub) -> None:
        """Recorded labels are sorted; an older event without them has none."""
        config = SessionConfig({}, labels=("nightly", "ci", "nightly"))
        await hub.open_external(ExternalAgent(name="bot"), config, session_id=SESSION)
        assert (await hub.session(SESSION)).session_labels == ("ci", "nightly")
        opened = (await hub.recorded(SESSION))[0].body
        before = opened.model_dump(exclude={"session_labels"})
        assert SessionOpened.model_validate(before).session_labels == ()

    @pytest.mark.slow
    async def test_subagent_has_its_parents_labels(self, hub: Hub) -> None:
        """A subagent's session has the labels of its parent."""
        helper = Agent(ScriptedModel([C(deploy={}), T("done")]), name="helper", tools=[deploy_tool])
        boss = [C(task_helper={"prompt": "deploy"}), T("done")]
        agent = Agent(ScriptedModel(boss), name="boss", tools=[task_tool(helper)])
        config = SessionConfig(compile_rules(NIGHTLY).registry, labels=("nightly",))
        session = await hub.open_session(agent, config)
        await hub.send(session, "go", by="ada")
        await hub.wait(session)
        found = [state for state in await hub.sessions() if state.parent == session]
        assert [state.session_labels for state in found] == [("nightly",)]
        [decided] = [e.body for e in await hub.recorded(found[0].id) if isinstance(e.body, CallDecided)]
        assert decided.outcome == "allow"
