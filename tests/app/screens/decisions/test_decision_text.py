"""Decisions as lines: information that a terminal of 80 columns must not cut off."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from interlock.app.format.decisions import (
    course_line,
    facts,
    group_lines,
    line,
    merged,
    nothing_found,
    shadow_words,
    share_lines,
    title_texts,
)
from interlock.engine.history.decisions.counts import (
    CallResults,
    DecisionCounts,
    Group,
    RuleShare,
    ShadowSummary,
)
from interlock.engine.history.decisions.filter import DecisionFilter
from interlock.engine.history.decisions.reader import Decision

AT = datetime(2026, 11, 20, 14, 2, 11, tzinfo=UTC)
LONG = "require-deploy-before-web_fetch"
COURSE = (1, 0, 3, 2) * 6


def decided(**more: object) -> Decision:
    """A decision of a session whose id has the usual length."""
    given = {
        "cursor": 1,
        "session": "release-bot-a75a451c101b",
        "seq": 50,
        "at": AT,
        "agent": "release-bot",
        "call_id": "c1",
        "tool": "deploy",
        "called": "bash",
        "input": "./deploy staging",
        "mode": "enforce",
        "verdict": "block",
        **more,
    }
    return Decision.model_validate(given)


class TestShadowWords:
    def test_first_blocks_are_counted_separately(self) -> None:
        """G-57: blocks after a session's first block are counted separately."""
        blocked = (
            RuleShare(net="require-lint", ended=CallResults(calls=2), first=2),
            RuleShare(net="require-test", ended=CallResults(calls=3), first=1),
        )
        words = shadow_words(ShadowSummary(calls=9, blocked=blocked)).plain
        assert "blocked 5 (require-lint 2, require-test 3; 2 after the first)" in words


class TestFacts:
    def test_failed_call_shows_session_and_time_at_80_columns(self) -> None:
        """At 80 columns a failed shadow call shows its verdict, result, session and time."""
        made = decided(verdict="would-block", mode="shadow", result="failed")
        first = facts(made, UTC)[0].truncate(78, ellipsis=True).plain
        for said in ("would block", "✗ failed", "release-bot-a75a451c101b", "11-20 14:02:11"):
            assert said in first

    def test_wide_line_has_all_facts(self) -> None:
        """A wide line also has the mode, the calling subagent, the agent and the called name."""
        first = facts(decided(via="reader-3c"), UTC)[0].plain
        assert first.endswith("enforce · made by reader-3c · release-bot · called bash")


class TestLine:
    @pytest.mark.parametrize("width", [77, 117])
    def test_sessions_of_one_agent_are_distinguishable(self, width: int) -> None:
        """A shortened session id keeps both the agent's name and its own end."""
        one, other = (
            line(decided(session=f"release-bot-a75a451c{end}"), width, now=AT, zone=UTC).plain
            for end in ("101b", "77d0")
        )
        assert "release" in one
        assert "101b" in one
        assert "77d0" in other
        assert len(one) == len(other) == width

    @pytest.mark.parametrize("width", [77, 117, 160])
    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            ({"verdict": "allow"}, "▸ allow, unclear"),
            ({"verdict": "block"}, "■ block, unclear"),
            ({"verdict": "approved", "by": "maria"}, "◐ approved, unclear by maria"),
            ({"verdict": "allow", "mode": "shadow"}, "S allow, unclear"),
            (
                {"verdict": "allow", "off": "block-rm was off: maria"},
                "▸ allowed, unclear (block-rm was off: maria)",
            ),
        ],
    )
    def test_unclear_call_is_marked(self, more: dict[str, str], expected: str, width: int) -> None:
        """G-64: only verdicts on unclear calls say "unclear", in the list and below it."""
        marked = line(decided(unclear=True, **more), width, now=AT, zone=UTC).plain
        cut = marked[marked.index(expected[0]) :].split("  ")[0].rstrip("…")
        assert expected.startswith(cut)
        assert len(cut) > len("▸ allow, un")
        assert facts(decided(unclear=True, **more), UTC)[0].plain.startswith(expected)
        assert "unclear" not in line(decided(**more), width, now=AT, zone=UTC).plain


class TestTitle:
    def test_no_row_number_without_chosen_row(self) -> None:
        """The title shows a row number only if a row is chosen."""
        assert "row" not in title_texts(12, None, 0, some=False, looked=None)[0].plain
        assert "row 3" in title_texts(12, 2, 0, some=False, looked=None)[0].plain


class TestGroups:
    @pytest.mark.parametrize("width", [54, 64, 74, 114])
    def test_names_are_shown_in_full(self, width: int) -> None:
        """Rule names are shown in full at every width, beside their numbers."""
        groups = [
            Group(name=LONG, rule="require deploy before web_fetch", count=16_623, stopped=352, asked=2),
            Group(name="block-rm", count=8, stopped=8, course=COURSE),
            Group(name=None, count=11_940, course=COURSE),
        ]
        lines = [line.plain for line in group_lines(groups, "rule", width)]
        assert all(len(line) <= width for line in lines)
        assert LONG in lines[0]
        assert lines[2].startswith("no rule ")
        assert ["16,623" in lines[0], "■ 352" in lines[0], "◐ 2" in lines[0]] == [True] * 3

    def test_numbers_are_aligned_in_columns(self) -> None:
        """Each column has the width of its longest number in every line."""
        groups = [Group(name=name, count=count) for name, count in (("a", 12_000), ("bb", 7))]
        first, second = (line.plain for line in group_lines(groups, "tool", 60))
        assert first.index("■") == second.index("■")
        assert first.index("◐") == second.index("◐")
        assert second.index("7 ") == first.index("12,000") + len("12,000") - 1

    def test_shorter_time_course_keeps_all_counts(self) -> None:
        """In a narrow line two steps of a time course become one."""
        assert merged((1, 0, 3, 2, 5), 2) == (1, 5, 5)

    def test_no_match_has_no_time_course(self) -> None:
        """A filter without matches has no time course."""
        nothing = DecisionCounts(total=Group(name=None, course=(0,) * 24), start=AT, end=AT)
        assert course_line(nothing, 80, UTC).plain == ""


class TestShares:
    ROWS = (
        ("■ would block", RuleShare(net=LONG, ended=CallResults(calls=1_204, done=1_100, failed=104))),
        ("◐ would ask", RuleShare(net="rm", ended=CallResults(calls=2))),
    )

    @pytest.mark.parametrize("width", [65, 74, 100])
    def test_rule_that_would_have_blocked_is_named(self, width: int) -> None:
        """G-26: each rule's name, count and call results are shown, also at 80 columns."""
        lines = [line.plain for line in share_lines(self.ROWS, width)]
        assert all(len(line) <= width for line in lines)
        for said in (LONG, "1,204", "✓ 1,100", "✗ 104"):
            assert said in lines[0]
        assert lines[0].index("✓") == lines[1].index("✓")
        assert lines[0].index("✗") == lines[1].index("✗")

    def test_wide_table_names_results_in_words(self) -> None:
        """A wide table shows `done` and `failed` beside every symbol, a narrow one beside none."""
        wide = [line.plain for line in share_lines(self.ROWS, 100)]
        assert [("done" in line, "failed" in line, "would" in line) for line in wide] == [(True,) * 3] * 2
        narrow = [line.plain for line in share_lines(self.ROWS, 65)]
        assert not any("done" in line or "failed" in line for line in narrow)


class TestNothingFound:
    def test_value_with_comma_hints_at_several_values(self) -> None:
        """A value with a comma is searched for as one value. The hint shows how to name several."""
        found = nothing_found(DecisionFilter(tools=("push,deploy",)), "esc", "f5")
        assert "tool:push tool:deploy" in found

    def test_plain_filter_gets_no_hint(self) -> None:
        """A plain filter without matches gets no hint."""
        found = nothing_found(DecisionFilter(tools=("push",)), "esc", "f5")
        assert found == "No decision matches. Press esc to see all of them."
