"""A rule with a further condition by an operator: its effect, and denied calls it would allow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from interlock.app.config.rules_writer import RulesWriter
from interlock.engine.backtest.suggestions import Narrowing, narrow
from interlock.engine.history.redaction.redaction import Redaction
from interlock.rules import condition_of
from tests.support.clock import Clock

from .learning import FILE, Did, deploys, record

ASKS = "require human-approval before deploy  # ask\nblock rm\n"


def narrowed(path: Path, when: str, rules: str = ASKS, *, since: datetime | None = None) -> Narrowing:
    condition = condition_of(when)
    assert condition is not None
    return narrow(path, {FILE: rules}, FILE, 1, condition, RulesWriter(), Redaction(), since=since)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Approved deploys to staging, denied ones to prod, and one to eu approved with an edited input."""
    path = tmp_path / "journal.db"
    edited = Did("deploy", {"env": "eu"}, edited={"env": "test"})
    calls = [*deploys(5, env="staging"), *deploys(2, approved=False, env="prod"), edited]
    record(path, ASKS, [calls], clock=Clock())
    return path


class TestNarrowed:
    def test_excluded_calls_need_no_approval(self, journal: Path) -> None:
        """Calls that the condition excludes need no approval; all others still do."""
        found = narrowed(journal, 'input.env != "staging"')
        made = found.suggestion
        assert made.rule == 'require human-approval before deploy when input.env != "staging" # ask'
        assert (made.replaces, made.before) == (
            f"{FILE}:1",
            "require human-approval before deploy  # ask",
        )
        assert (made.effect.saved, made.effect.allowed, made.effect.asked) == (5, 5, 0)
        assert (made.support.calls, made.support.denied) == (5, 3)
        assert (found.denied, found.errors) == (0, ())

    @pytest.mark.variants
    @pytest.mark.parametrize(("most", "allowed"), [(3, 0), (9, 4), (20, 5)])
    def test_warning_if_recorded_calls_exceed_the_limit(
        self, journal: Path, most: int, allowed: int
    ) -> None:
        """Another session's deploys count; a warning is given if recorded calls would be stopped."""
        before = Clock()
        before.now -= timedelta(hours=1)
        record(journal, ASKS, [deploys(5, env="dev")], clock=before, bot="other")
        limited = f"{ASKS}limit deploy to {most} per 1d across everyone\n"
        made = narrowed(journal, 'input.env != "staging"', limited).suggestion
        assert made.effect.allowed == allowed
        said = [each for each in made.warnings if each.startswith(f"{FILE}:3: this limit counts over")]
        assert bool(said) is (most < 20)

    def test_allowed_denied_calls_are_listed(self, journal: Path) -> None:
        """Denied calls that would be allowed are counted and listed."""
        found = narrowed(journal, 'input.env != "prod"')
        assert found.denied == 2
        assert [call.input for call in found.listed_denied] == ["prod", "prod"]

    def test_earlier_denials_count(self, journal: Path) -> None:
        """A denial counts at any time."""
        found = narrowed(journal, 'input.env != "prod"', since=datetime(2030, 1, 1, tzinfo=UTC))
        assert (found.denied, found.suggestion.effect.calls) == (2, 0)

    def test_edited_calls_count_as_denied(self, journal: Path) -> None:
        """A call that was approved only with an edited input counts as denied."""
        found = narrowed(journal, 'input.env != "eu"')
        assert found.denied == 1
        assert found.listed_denied[0].input == "eu"
        assert found.listed_denied[0].event > 0

    def test_rules_own_condition_is_kept(self, tmp_path: Path) -> None:
        """The rule's own condition is kept, in parentheses where needed."""
        rules = 'require human-approval before deploy when input.env != "a" or input.n > 3\n'
        record(tmp_path / "journal.db", rules, [deploys(1, env="b", n=1)])
        found = narrowed(tmp_path / "journal.db", "input.n != 1", rules)
        assert found.suggestion.rule == (
            'require human-approval before deploy when (input.env != "a" or input.n > 3) and input.n != 1'
        )


class TestRefused:
    @pytest.mark.parametrize(
        "rule",
        [
            "require human-approval before deploy risk high",
            "require human-approval before deploy by 2",
            "require human-approval before deploy no grants",
            "block deploy after read until human-approval",
            "block deploy",
            "require test before deploy",
        ],
    )
    def test_strict_rule_is_not_narrowed(self, journal: Path, rule: str) -> None:
        """A strict rule, or one without approval, gets no further condition."""
        with pytest.raises(ValueError, match="no approval rule that may be loosened"):
            narrowed(journal, 'input.env != "staging"', f"{rule}\n")

    def test_rule_implied_by_a_map(self, journal: Path) -> None:
        """A rule implied by a map has no line that could be changed."""
        rules = "map bash.command ./deploy as deploy\nrequire human-approval before deploy\n"
        with pytest.raises(ValueError, match="no approval rule that may be loosened"):
            narrowed(journal, 'input.env != "staging"', rules)
