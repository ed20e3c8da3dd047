"""Laws of the suggestions from any journal."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from interlock.engine.backtest import Judge, Trial, recorded_sessions, recordings
from interlock.engine.backtest.recording import RecordedCall, RecordedQuestion
from interlock.engine.core.condition import holds
from interlock.engine.core.rule import ApprovalRule
from interlock.engine.net.net import Input
from interlock.rules import RuleSet, compile_rules
from tests.support.laws import examples

from .learning import Did, changed, divergences, record, suggested

RULES = """\
require human-approval before deploy
require human-approval before pay when input.amount > 5 or input.env = "prod"
require human-approval before pay risk high when input.force = true
"""

inputs = st.fixed_dictionaries(
    {},
    optional={
        "env": st.sampled_from(["dev", "lab", "prod"]),
        "amount": st.one_of(st.integers(0, 12), st.sampled_from([2.5, 7.25])),
        "force": st.booleans(),
        "file": st.sampled_from(["a/b/c", "a/b/d", "a/x", "../a/b/c"]),
    },
)
answers = st.sampled_from(["yes", "yes", "yes", "no", "edited"])
groups = st.tuples(st.sampled_from(["deploy", "pay"]), inputs, answers, st.integers(1, 9))
journals = st.lists(st.lists(groups, max_size=6), min_size=1, max_size=3)


def calls_of(session: list[tuple[str, dict[str, object], str, int]]) -> list[Did]:
    return [
        Did(tool, values, answer != "no", {"env": "dev"} if answer == "edited" else {})
        for tool, values, answer, times in session
        for _ in range(times)
    ]


def needs_approval(rules: RuleSet, tool: str, values: Input) -> bool:
    """Return whether an approval rule for the tool applies to the call."""
    return any(
        isinstance(rule, ApprovalRule)
        and rule.tool == tool
        and (rule.when is None or holds(rule.when, values) is not False)
        for rule in (net.rule for net in rules)
    )


@pytest.mark.slow
class TestDenied:
    @given(journals)
    # Many journals give no suggestion and are skipped here.
    @settings(
        max_examples=examples(160, usual=10),
        deadline=None,
        suppress_health_check=[HealthCheck.filter_too_much],
    )
    def test_no_denied_call_passes(
        self, journal: list[list[tuple[str, dict[str, object], str, int]]]
    ) -> None:
        """No suggestion allows a denied or edited call, and each saves as many requests as it says."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "journal.db")
            record(path, RULES, [calls_of(session) for session in journal])
            found = suggested(path, RULES).suggestions
            assume(found)
            sessions = [list(r.items) for r in recordings(path, recorded_sessions(path))]
        before = compile_rules(RULES)
        for suggestion in found:
            after = compile_rules(changed(RULES, suggestion))
            judge = Judge(Trial.of(after.registry))
            saved = 0
            for items in sessions:
                questions = {i.call_id: i.input for i in items if isinstance(i, RecordedQuestion)}
                for call in (item for item in items if isinstance(item, RecordedCall)):
                    asked = questions.get(call.call_id)
                    if asked is None:
                        continue
                    changed_input = dict(asked) != dict(call.input)
                    if call.then.denied or changed_input:
                        assert needs_approval(after, call.tool, asked)
                    saved += (
                        bool(call.then.by)
                        and not call.then.denied
                        and not changed_input
                        and needs_approval(before, call.tool, call.input)
                        and not needs_approval(after, call.tool, call.input)
                    )
                judged = list(judge.judge(items))
                assert [j for j in judged if j.call.then.denied and j.now.outcome == "allow"] == []
            assert suggestion.effect.saved == saved
            assert saved > 0 or not suggestion.loosens
            assert divergences(RULES, suggestion) == [None] * suggestion.scenarios.count("scenario ")
            assert (suggestion.replaces or "").rpartition(":")[2] != "3"


def test_typical_journals_lead_to_suggestions() -> None:
    """Typical answers lead to suggestions, so the law above is not vacuous."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal.db")
        values = cast("dict[str, object]", {"env": "lab", "amount": 7, "force": False})
        record(path, RULES, [calls_of([("pay", values, "yes", 9), ("pay", values, "yes", 2)])])
        assert suggested(path, RULES).suggestions
