"""Orders of tools that always held, and limits that were never exceeded."""

from __future__ import annotations

from pathlib import Path

import pytest

from .learning import Did, deploys, divergences, learned, record, suggested

RULES = "block rm"
LOOK, TEST, DEPLOY = Did("look"), Did("test"), Did("deploy", {"env": "dev"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def rules_of(path: Path, calls: list[Did], rules: str = RULES, *, sessions: int = 5) -> list[str]:
    """Return the suggested lines if each session has these calls."""
    return [each.rule for each in learned(path, rules, [calls] * sessions)]


class TestOrders:
    def test_order_that_always_held_is_suggested(self, path: Path) -> None:
        """Each of twenty calls in five sessions had a success of the other tool before it."""
        [found] = learned(path, RULES, [[LOOK, *[TEST, DEPLOY] * 4, LOOK]] * 5)
        assert (found.kind, found.rule, found.replaces) == ("order", "require test before deploy", None)
        assert not found.loosens
        assert (found.support.calls, found.support.sessions) == (20, 5)
        effect = found.effect
        assert (effect.calls, effect.allowed, effect.asked, effect.blocked) == (50, 0, 0, 0)
        assert 'call deploy env "dev"\n  expect block' in found.scenarios
        assert divergences(RULES, found) == [None, None]

    def test_too_few_calls_or_sessions(self, path: Path) -> None:
        """Nineteen calls or four sessions give no suggestion."""
        once = [LOOK, *[TEST, DEPLOY] * 4]
        assert rules_of(path, once, sessions=4) == []
        assert rules_of(path.with_name("long.db"), [LOOK, *[TEST, DEPLOY] * 9], sessions=4) == []

    def test_one_success_before_two_calls(self, path: Path) -> None:
        """One success before two calls gives no suggestion: the rule would stop the second call."""
        assert rules_of(path, [LOOK, TEST, DEPLOY, DEPLOY, *[TEST, DEPLOY] * 3]) == []

    def test_failed_call_is_no_success(self, path: Path) -> None:
        """A failed call before does not count as a success."""
        failed = Did("test", fails=True)
        assert rules_of(path, [LOOK, *[failed, DEPLOY] * 4]) == []

    def test_existing_rule_is_not_suggested(self, path: Path) -> None:
        """A rule that exists is not suggested again."""
        rules = "require test before deploy"
        assert rules_of(path, [LOOK, *[TEST, DEPLOY] * 4], rules) == []

    def test_tool_before_all_others_gives_no_order(self, path: Path) -> None:
        """A tool that precedes all others gives no order for one of them."""
        others = [Did(f"tool{n}") for n in range(20)]
        assert rules_of(path, [LOOK, *others[:10], *[LOOK, DEPLOY] * 4, *others[10:]]) == []


class TestLimits:
    def test_limit_is_twice_the_most_calls(self, path: Path) -> None:
        """The suggested limit is twice the most calls of one of twenty sessions."""
        [found] = learned(path, RULES, [*[[DEPLOY]] * 19, [DEPLOY] * 3])
        assert (found.kind, found.rule) == ("limit", "limit deploy to 6 per session")
        assert (found.support.calls, found.support.sessions) == (22, 20)
        assert divergences(RULES, found) == [None]

    def test_nineteen_sessions(self, path: Path) -> None:
        """Nineteen sessions give no suggestion."""
        assert rules_of(path, [DEPLOY], sessions=19) == []

    def test_tool_with_a_limit_gets_no_other(self, path: Path) -> None:
        """A tool that has a limit gets no other."""
        assert rules_of(path, [DEPLOY], "limit deploy to 9 per 1h", sessions=20) == []

    def test_unwritable_tool_name_is_left_out(self, path: Path) -> None:
        """A tool whose name cannot be written in a rule is left out."""
        assert rules_of(path, [Did("odd name"), Did("session")], sessions=20) == []


class TestNothing:
    def test_empty_journal_gives_no_suggestions(self, path: Path) -> None:
        """A journal without calls gives no suggestions and counts of zero."""
        record(path, RULES, [[]])
        found = suggested(path, RULES)
        assert (found.suggestions, found.calls, found.approved, found.denied) == ((), 0, 0, 0)

    def test_faulty_rules(self, path: Path) -> None:
        """Rules that do not compile give an error with file and line."""
        record(path, RULES, [deploys(1)])
        with pytest.raises(ValueError, match=r"deploy\.rules:1"):
            suggested(path, "require")
