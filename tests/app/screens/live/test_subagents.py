"""Subagents on screen: listed below their parent, and named by their requests."""

from __future__ import annotations

import pytest

from interlock.app.widgets.lists.sessions import in_families
from interlock.engine.history.model.state import SessionState

from ...support.scenes import deploy_request, docs_writer, entry, release_bot
from ...support.stage import stage


def child(name: str, parent: str, **more: object) -> SessionState:
    return SessionState(id=f"{name}-1", agent=name, kind="child", parent=parent, status="running", **more)


class TestList:
    @pytest.mark.variants
    @pytest.mark.parametrize("size", [(120, 40), (80, 24)])
    async def test_children_follow_their_parent(self, size: tuple[int, int]) -> None:
        """A child follows its parent with an indent, whatever the order in which they were opened."""
        bot, writer = release_bot(), docs_writer()
        reviewer = child("reviewer", bot.id)
        async with stage(bot, writer, reviewer, child("reader", reviewer.id), size=size) as on:
            await on.press("alt+1")
            await on.settle()
            lines = on.painted().splitlines()
        at = {
            name: next(i for i, line in enumerate(lines) if name in line[:30])
            for name in ("release-bot", "reviewer", "reader", "docs-writer")
        }
        assert at["release-bot"] < at["reviewer"] < at["reader"] < at["docs-writer"]
        assert "└ ● reviewer" in lines[at["reviewer"]]
        assert "  └ ● reader" in lines[at["reader"]]

    @pytest.mark.slow
    async def test_selected_child_shows_its_transcript(self) -> None:
        """A child's transcript is shown like any other."""
        bot = release_bot()
        reviewer = child("reviewer", bot.id, transcript=[entry("assistant", "Line 3 is wrong.", 5)])
        async with stage(bot, reviewer) as on:
            await on.press("alt+1", "j")
            await on.until("Line 3 is wrong.")

    def test_child_without_listed_parent_is_at_top_level(self) -> None:
        """A child whose parent is not listed is at the top level."""
        lost = child("lost", "gone")
        assert in_families([lost]) == [(lost, 0)]
        assert in_families([]) == []


class TestAsking:
    async def test_queue_dialog_and_transcript_name_subagent(self) -> None:
        """The subagent is named wherever its call is shown, and the dialog has its last words."""
        bot = release_bot()
        reviewer = child("reviewer", bot.id, transcript=[entry("assistant", "I would ship it.", 5)])
        bot.approvals["ap1"] = deploy_request(via="reviewer-1")
        waiting = bot.calls["c9"].model_copy(update={"via": "reviewer-1"})
        bot.transcript[-1] = bot.transcript[-1].model_copy(update={"call": waiting})
        async with stage(bot, reviewer) as on:
            assert "reviewer-1 of release-" in on.painted()
            assert "reviewer-1 ▸ deploy" in on.painted()
            await on.open_dialog()
            shown = on.painted()
        assert "made by reviewer-1" in shown
        assert "“I would ship it.”" in shown
