"""The nets and pending calls of the live screen, folded or not."""

from __future__ import annotations

import pytest

from interlock.app.screens.live.screen import LiveScreen
from interlock.app.terminal.key_rights import Permission

from ...support.stage import Stage, stage


def is_lower_part_shown(on: Stage) -> bool:
    return bool(on.app.screen.query_one("#lower").display)


class TestFold:
    async def test_key_folds_and_unfolds(self) -> None:
        """Live: a key folds nets and calls, so the transcript gets their lines, and unfolds them."""
        async with stage() as on:
            high = on.app.screen.query_one("#transcript").size.height
            assert is_lower_part_shown(on)
            await on.press("alt+3", "z")
            await on.settle()
            assert not is_lower_part_shown(on)
            assert on.app.screen.query_one("#transcript").size.height > high
            assert on.app.focused is on.app.screen.query_one("#transcript")
            await on.press("z")
            await on.settle()
            assert is_lower_part_shown(on)

    @pytest.mark.slow
    async def test_panes_start_folded_for_pure_approver(self) -> None:
        """Live: for an operator who may not switch nets they start folded. A pane key unfolds them."""
        async with stage() as on:
            on.app.permission = Permission("decide", "ops")
            await on.settle()
            await on.until("z nets")
            screen = on.app.screen
            assert isinstance(screen, LiveScreen)
            await screen.paint()
            await on.settle()
            assert not is_lower_part_shown(on)
            await on.press("tab")
            await on.settle()
            assert screen.focused is screen.query_one("#waiting")
            await on.press("alt+3")
            await on.settle()
            assert is_lower_part_shown(on)
            assert screen.focused is screen.query_one("#nets")

    @pytest.mark.slow
    async def test_nothing_is_folded_with_tabs(self) -> None:
        """Live: if each pane has its own tab, nothing is folded."""
        async with stage(size=(80, 24)) as on:
            on.app.permission = Permission("decide", "ops")
            await on.press("alt+3", "z")
            await on.settle()
            assert on.app.screen.query_one("#nets").display
            assert on.app.focused is on.app.screen.query_one("#nets")
