"""The decisions screen over a recorded journal: the list, its filter, its groups, its panels."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from textual.binding import Binding

from interlock.app.screens.decisions.detail import DecisionDetail
from interlock.app.screens.decisions.screen import DecisionsScreen
from interlock.app.screens.decisions.shadow import ShadowPanel
from interlock.app.screens.history.screen import HistoryScreen
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.app.widgets.inputs.filter_line import FilterLine
from interlock.app.widgets.lists.decision_table import KEPT_PARTS, DecisionTable, GroupList
from interlock.engine.history.decisions.reader import PAGE_SIZE
from interlock.engine.history.journal.journal import Journal
from tests.support.decisions import Ticking, call, many, opened, usual

from .decisions_world import desk

LARGE = 60_000


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return usual(tmp_path_factory.mktemp("usual") / "deploy.db")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return many(tmp_path_factory.mktemp("large") / "large.db", LARGE)


class TestList:
    async def test_newest_call_first_with_all_columns(self, journal: Path) -> None:
        """Each call is one row: time, session, agent, tool, input, verdict with operator, and rule."""
        async with desk(journal) as on:
            rows = on.rows()
            assert len(rows) == 12
            assert [word in rows[0] for word in ("13:31:50", "docs-writer-77c0", "make check", "allow ?")]
            approved = next(row for row in rows if "approved" in row)
            for word in ("13:24:30", "release-bot-1f3a", "release-bot ", "deploy", "◐ approved by maria"):
                assert word in approved
            assert any("■ denied by jo" in row and "approve-before-de" in row for row in rows)
            assert sum("S would block" in row for row in rows) == 3
            assert sum("cat README.md" in row for row in rows) == 1

    @pytest.mark.slow
    async def test_chosen_decision_is_shown_in_full(self, journal: Path) -> None:
        """Below the list the chosen decision is shown in full."""
        async with desk(journal, (60, 24)) as on:
            await on.press("end")
            await on.until("require test before deploy", "release-bot-1f3a", "enforce")

    @pytest.mark.slow
    async def test_only_visible_parts_are_loaded(self, large: Path) -> None:
        """Only a few parts of a long list are in memory, from the newest to the oldest row."""
        async with desk(large) as on:
            await on.when(lambda: on.table.total == LARGE)
            assert len(on.table._loaded) <= 2
            await on.press("end")
            await on.when(lambda: on.table.current is not None and on.table.current.seq == 1)
            await on.until(f"row {LARGE:,}", "--step 1 ")
            for _ in range(70):
                on.table.scroll_to(y=on.table.scroll_offset.y - 700, animate=False, force=True)
                await on.pilot.pause(0)
            await on.press("pageup")
            await on.when(lambda: on.table.current is not None)
            assert len(on.table._loaded) <= KEPT_PARTS
            await on.press("home")
            await on.until(f"--step {LARGE}"[:12])

    @pytest.mark.slow
    async def test_the_mouse_chooses_and_opens(self, journal: Path) -> None:
        """A click puts the cursor on a row. A second click opens it."""
        async with desk(journal) as on:
            await on.pilot.click(DecisionTable, offset=(30, 3))
            assert on.table.row == 3
            await on.pilot.click(DecisionTable, offset=(30, 3), times=2)
            await on.when(lambda: isinstance(on.app.screen, DecisionDetail))

    async def test_empty_journal(self, tmp_path: Path) -> None:
        """For an empty journal the screen explains how decisions get there."""
        path = tmp_path / "j.db"
        Journal.open(path).close()
        async with desk(path) as on:
            await on.until("No decisions are recorded yet.", "`interlock run`, then press f5.")


class TestFilter:
    @pytest.mark.slow
    async def test_typing_narrows_the_list(self, journal: Path) -> None:
        """The filter takes words and keys. Enter goes to the list; escape shows everything again."""
        async with desk(journal) as on:
            await on.press("slash", *"verdict:would-block")
            await on.until("3 decisions match")
            await on.press("enter")
            assert on.table.has_focus
            assert all("S would block" in row for row in on.rows())
            await on.press("escape")
            await on.until("12 decisions")
            assert not on.screen.query_one(FilterLine).display

    @pytest.mark.slow
    async def test_invalid_filter_shows_its_error_and_keeps_the_list(self, journal: Path) -> None:
        """The list stays while the filter line has an error."""
        async with desk(journal) as on:
            await on.filter("tool:rm")
            await on.until("3 decisions match")
            await on.filter("tool:rm verdict:never")
            await on.until("column 9: 'never' is not a verdict; use ask", "3 decisions match")
            await on.filter("tool:rm verdict:block")
            await on.until("0 decisions match", "No decision matches.")

    @pytest.mark.slow
    async def test_search_without_matches_reads_to_the_end(self, large: Path) -> None:
        """A search for a text without matches reads to the end, and the screen reports the result."""
        async with desk(large) as on:
            await on.filter("nowhere-to-be-found")
            await on.until("0 decisions match", "No decision matches.", gone="searching")
            await on.filter("shop-77")
            await on.until("decisions match", gone="searching")
            assert all("shop-77" in (d.input if (d := on.table.decision(n)) else "") for n in range(5))


class TestGroups:
    @pytest.mark.slow
    async def test_g_groups_by_rule_then_by_tool(self, journal: Path) -> None:
        """`g` groups by rule, then by tool, each with a time course, then lists again."""
        async with desk(journal) as on:
            await on.press("g")
            await on.until("by rule: calls", "block-rm  block rm", "limit-push-3", "no rule")
            row = next(line for line in on.painted().split("\n") if "block-rm" in line)
            assert "3  ■ 3  ◐ 0" in row
            assert any(bar in row for bar in "▁▂▃▄▅▆▇█")
            await on.press("g")
            await on.until("by tool: calls", "lint", gone="block-rm  block rm")
            await on.press("g")
            await on.until("make check")
            assert on.table.has_focus

    @pytest.mark.slow
    @pytest.mark.parametrize("back", [("g", "g"), ("escape",)], ids=["g", "escape"])
    @pytest.mark.parametrize("size", [(120, 40), (60, 24)])
    async def test_list_heading_returns_after_groups(
        self, journal: Path, back: tuple[str, ...], size: tuple[int, int]
    ) -> None:
        """After leaving the groups by either key, the heading of the list is shown again."""
        async with desk(journal, size) as on:
            await on.until("tool", "make check")

            def heading() -> str:
                return on.painted().split("\n")[on.screen.query_one("#heading").region.y]

            before = heading()
            await on.press("g")
            await on.until("by rule: calls")
            await on.press(*back)
            await on.until("make check", gone="calls, ■ stopped")
            assert heading() == before

    @pytest.mark.slow
    async def test_a_group_opens_as_a_filter(self, journal: Path) -> None:
        """`enter` on a rule lists its decisions."""
        async with desk(journal) as on:
            await on.press("g")
            await on.until("block-rm  block rm")
            on.screen.query_one(GroupList).select("=block-rm")
            await on.press("enter")
            await on.until("3 decisions match", "rule:block-rm")
            assert len(on.rows()) == 3

    @pytest.mark.slow
    async def test_group_without_rule_cannot_become_a_filter(self, journal: Path) -> None:
        """The group of decisions without a rule cannot become a filter and reports this."""
        async with desk(journal) as on:
            await on.press("g")
            await on.until("no rule")
            on.screen.query_one(GroupList).select("")
            await on.press("enter")
            await on.until("These have no rule to filter by.")

    @pytest.mark.slow
    async def test_time_course_of_all_decisions(self, journal: Path) -> None:
        """A line over the list shows the time course from the first decision to the last."""
        async with desk(journal) as on:
            await on.until("11-20 13:23 ", " 11-20 13:31")


class TestOpening:
    @pytest.mark.slow
    async def test_enter_opens_decision_and_record(self, journal: Path) -> None:
        """`enter` shows verdict, reason, rule with its place, input, operator and position."""
        async with desk(journal) as on:
            await on.filter("verdict:denied")
            await on.until("1 decision match")
            await on.press("enter")
            await on.until(
                "■ denied by jo",
                "deploy was rejected by human review: enough for today",
                "deploy.rules:5  require human-approval before deploy",
                "./deploy --env prod --commit 9f31c02",
                "release-bot-1f3a · event 11",
            )

    @pytest.mark.slow
    async def test_reason_of_an_unclear_call_is_shown(self, tmp_path: Path) -> None:
        """G-64, G-66: list and panel mark a call that could not be fully analysed; the panel shows why.

        An input field with the same name as the record's field marks nothing.
        """
        path = tmp_path / "journal.db"
        why = "command: eval runs a computed text"
        with Journal.open(path, clock=Ticking()) as journal:
            journal.write("s", opened("bot"))
            unread = call("c1", "bash", 'eval "$x"', uninspectable=why, judged_as=("deploy",))
            journal.write("s", unread)
            journal.write("s", call("c2", "bash", "ls", input={"uninspectable": "x"}))
        async with desk(path) as on:
            rows = on.rows()
            assert [("unclear" in row) for row in rows if "bash" in row] == [False, True]
            await on.press("down", "enter")
            await on.until("▸ allow, unclear", f"cannot be fully analysed: {why}")
            await on.until("judged as", "deploy")

    @pytest.mark.slow
    async def test_r_opens_its_event_in_the_replay(self, journal: Path) -> None:
        """`r` in the panel or in the list goes to the decision's event."""
        async with desk(journal) as on:
            await on.filter("verdict:denied")
            await on.until("1 decision match")
            await on.press("enter")
            await on.when(lambda: isinstance(on.app.screen, DecisionDetail))
            await on.press("r")
            await on.when(lambda: isinstance(on.app.screen, ReplayScreen))
            await on.until("event 11 of 11", "call.decided")
            await on.press("escape")
            assert isinstance(on.app.screen, DecisionsScreen)
            await on.filter("verdict:approved")
            await on.until("◐ approved by maria", "1 decision match", gone="denied")
            await on.press("r")
            await on.when(lambda: isinstance(on.app.screen, ReplayScreen))
            await on.until("event 7 of 11")

    @pytest.mark.slow
    async def test_missing_event_is_reported(self, large: Path) -> None:
        """A row whose event is missing reports this and stays."""
        async with desk(large) as on:
            await on.press("enter")
            await on.until("Cannot open the decision")
            assert isinstance(on.app.screen, DecisionsScreen)


class TestShadow:
    async def test_summary_counts_calls_that_enforce_would_stop(self, journal: Path) -> None:
        """G-26: the summary counts the calls that enforce would have stopped, by rule and result."""
        async with desk(journal) as on:
            await on.until(
                "S Shadow: 1 session, 5 calls; enforce would have blocked 3",
                "(block-rm 3; 2 after the first)",
                "and asked 1",
                "(approve-before-deploy 1); 3 of",
                "those 4 calls succeeded",
            )

    @pytest.mark.slow
    async def test_s_lists_every_session(self, journal: Path) -> None:
        """`s` shows every session with its rules. Recorded sessions cannot be switched."""
        async with desk(journal) as on:
            await on.until("S Shadow")
            await on.press("s")
            await on.when(lambda: isinstance(on.app.screen, ShadowPanel))
            await on.until("■ would block  3  block-rm", "✓ 2 done  ✗ 1 failed")
            await on.press("e")
            assert isinstance(on.app.screen, ShadowPanel)

    @pytest.mark.slow
    async def test_summary_is_hidden_without_shadow_sessions(self, journal: Path) -> None:
        """Without a matching shadow session the summary is hidden."""
        async with desk(journal) as on:
            await on.until("S Shadow")
            await on.filter("session:release-bot")
            await on.until("4 decisions match", gone="S Shadow")
            await on.press("s")
            await on.until("No call in view was made in shadow mode.")


class TestEverywhere:
    @pytest.mark.slow
    @pytest.mark.parametrize("size", [(40, 10), (8, 3), (200, 60)])
    async def test_any_size(self, journal: Path, size: tuple[int, int]) -> None:
        """The console works at every terminal size."""
        async with desk(journal, size) as on:
            await on.press("down", "g", "g", "g", "slash", "r", "m", "escape", "enter")
            await on.pilot.resize_terminal(60, 20)
            await on.pilot.pause()
            assert on.table.total == 12

    async def test_keys_are_bindings_with_id_tooltip_and_command(self, journal: Path) -> None:
        """Every key has an id and a tooltip and is in the command palette."""
        async with desk(journal) as on:
            keys = [*DecisionsScreen.BINDINGS, *DecisionTable.BINDINGS, *DecisionDetail.BINDINGS]
            own = [key for key in [*keys, *ShadowPanel.BINDINGS] if isinstance(key, Binding)]
            assert all(key.id and key.tooltip for key in own)
            ids = [key.id for key in DecisionsScreen.BINDINGS if isinstance(key, Binding)]
            assert len(ids) == len(set(ids))
            titles = {c.title.lower() for c in on.app.get_system_commands(on.app.screen)}
            assert {"filter", "group", "replay", "shadow", "reload", "history", "back"} <= titles
            assert "enforce" not in titles

    @pytest.mark.slow
    async def test_help_names_the_keys(self, journal: Path) -> None:
        """`?` shows what the keys do on this screen."""
        async with desk(journal) as on:
            await on.press("question_mark")
            await on.until("Count by rule, then by tool, then list")

    @pytest.mark.slow
    async def test_history_and_decisions_switch_by_key(self, journal: Path) -> None:
        """`h` and `v` switch between history and decisions without a second decisions screen."""
        async with desk(journal) as on:
            await on.press("h")
            await on.when(lambda: isinstance(on.app.screen, HistoryScreen))
            await on.press("v")
            await on.when(lambda: isinstance(on.app.screen, DecisionsScreen))
            assert sum(isinstance(s, DecisionsScreen) for s in on.app.screen_stack) == 1

    @pytest.mark.slow
    async def test_f5_reads_the_journal_again(self, tmp_path: Path) -> None:
        """F5 shows changes by another process."""
        path = usual(tmp_path / "j.db")
        async with desk(path) as on:
            await on.until("12 decisions")
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("DELETE FROM decision WHERE verdict = 'denied'")
                connection.commit()
            await on.press("f5")
            await on.until("11 decisions")


def test_parts_fit_a_screen() -> None:
    """A part has more rows than any terminal, so a screen needs at most two."""
    assert PAGE_SIZE >= 150
