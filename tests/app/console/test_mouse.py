"""The console by mouse: clicks on keys in bars and frames, and on rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.widgets import Input

from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.common.detail import Detail
from interlock.app.screens.common.guarded_keys import ASLEEP
from interlock.app.screens.common.help import Help
from interlock.app.screens.decisions.detail import DecisionDetail
from interlock.app.screens.decisions.screen import DecisionsScreen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.screens.replay.screen import ReplayScreen

from ..support.stage import Stage, stage
from ..support.views import BY_NAME, Shown, showing


async def click(on: Shown | Stage, text: str, *, times: int = 1) -> None:
    """Click on a text; of several, on the lowest and rightmost."""
    lines = on.painted().split("\n")
    rows = [row for row, line in enumerate(lines) if text in line]
    assert rows, f"{text!r} is not on screen:\n{on.painted()}"
    at = (lines[rows[-1]].rindex(text), rows[-1])
    await on.pilot.click(offset=at, times=times)
    await on.pilot.pause(0.05)


class TestApproval:
    @pytest.mark.slow
    async def test_clicks_approve_a_request(self) -> None:
        """Clicks alone open and approve the queue's request."""
        async with stage() as on:
            await click(on, "a approve")
            assert isinstance(on.app.screen, ApprovalScreen)
            await on.wake()
            await click(on, "a approve once")
            await on.settle()
            assert on.decisions() == [("decide", "ap1", True, "maria", None)]

    @pytest.mark.slow
    async def test_early_click_decides_nothing(self) -> None:
        """In the first 400 ms a click on a decision only shows that keys are locked."""
        async with stage() as on:
            dialog = await on.open_dialog(awake=False)
            on.seconds += ASLEEP - 0.1
            await click(on, "a approve once")
            await click(on, "d deny  ✗ s")
            await on.settle()
            assert on.decisions() == []
            assert on.app.screen is dialog
            assert not isinstance(on.app.focused, Input)
            assert "keys unlock in 0.4 s" in on.painted()
            on.seconds += ASLEEP
            await click(on, "a approve once")
            await on.settle()
            assert len(on.decisions()) == 1

    @pytest.mark.slow
    async def test_two_clicks_decide_once(self) -> None:
        """A double click makes one decision."""
        async with stage() as on:
            await on.open_dialog()
            await click(on, "a approve once", times=2)
            await on.settle()
            assert len(on.decisions()) == 1

    @pytest.mark.slow
    async def test_clicking_elsewhere_decides_nothing(self) -> None:
        """Clicks on the text, the frame and the screen behind the dialog decide nothing."""
        async with stage() as on:
            dialog = await on.open_dialog()
            for text in (
                "WHAT WILL RUN",
                "release-bot (release-bot-1f3a)",
                "Approve: deploy",
                "Sessions",
            ):
                await click(on, text)
            assert on.decisions() == []
            assert on.app.screen is dialog

    @pytest.mark.slow
    async def test_deny_and_back_can_be_clicked(self) -> None:
        """Deny opens the line for the reason; the keys in the frame deny or go back."""
        async with stage() as on:
            await on.open_dialog()
            await click(on, "d deny  ✗ s")
            assert isinstance(on.app.focused, Input)
            await click(on, "esc go back")
            await on.until_gone("enter deny")
            await on.wake()
            await click(on, "d deny  ✗ s")
            await on.press(*"no")
            await on.wake()
            await click(on, "enter deny")
            await on.settle()
            assert on.decisions() == [("decide", "ap1", False, "maria", "no")]

    @pytest.mark.slow
    async def test_other_dialog_keys_can_be_clicked(self, tmp_path: Path) -> None:
        """The dialog's other keys, and the key that closes the panel, can be clicked."""
        async with showing(BY_NAME["approval-hard"], tmp_path, (120, 40)) as on:
            dialog = on.app.screen
            await click(on, "space show all")
            assert "lines hidden" not in on.painted()
            await click(on, "x explain")
            assert isinstance(on.app.screen, Detail)
            await click(on, "esc close")
            assert on.app.screen is dialog
            await click(on, "esc decide later")
            assert isinstance(on.app.screen, LiveScreen)


@pytest.mark.slow
class TestLive:
    async def test_clicks_select_and_open_rows(self) -> None:
        """A click selects a session; a double click opens a request or a net."""
        async with stage() as on:
            await click(on, "● docs-writer")
            await on.until("Check the handbook's examples.")
            await click(on, "◐ release-bot")
            await on.until("limit-deploy-2")
            await click(on, "limit-deploy-2", times=2)
            await on.until("Net: limit-deploy-2")
            await click(on, "esc close")
            await click(on, "./deploy --env prod --…", times=2)
            await on.until("WHAT WILL RUN")

    async def test_click_on_a_tab_shows_its_pane(self, tmp_path: Path) -> None:
        """A click on a tab shows its pane."""
        async with showing(BY_NAME["live"], tmp_path) as on:
            await click(on, "Nets  Pending")
            assert "limit-deploy-2" in on.painted()
            await click(on, "Waiting 1")
            assert "./deploy --env prod --commit 9f31c02" in on.painted()

    async def test_ellipsis_opens_the_palette(self, tmp_path: Path) -> None:
        """The ellipsis among the keys opens the palette, where a click runs a command."""
        async with showing(BY_NAME["live"], tmp_path) as on:
            assert "r replay" not in on.painted().split("\n")[-1]
            await click(on, "…  ? help")
            await on.until("Decisions")
            await on.pilot.pause(0.3)
            await click(on, "Decisions")
            for _ in range(100):
                await on.pilot.pause(0.02)
                if isinstance(on.app.screen, DecisionsScreen):
                    break
            assert isinstance(on.app.screen, DecisionsScreen)

    async def test_clicks_open_help_and_screens(self, tmp_path: Path) -> None:
        """A click in the bar opens the help; a click on a name in the title opens that screen."""
        async with showing(BY_NAME["live"], tmp_path) as on:
            await click(on, "? help")
            assert isinstance(on.app.screen, Help)
            await click(on, "esc close")
            await click(on, "decisions")
            await on.until("decisions")
            assert isinstance(on.app.screen, DecisionsScreen)

    async def test_answers_of_a_question_can_be_clicked(self, tmp_path: Path) -> None:
        """The answers in a question's frame can be clicked."""
        async with showing(BY_NAME["confirm"], tmp_path) as on:
            await click(on, "n no")
            assert isinstance(on.app.screen, LiveScreen)
            await click(on, "m mode")
            await on.until("stop blocking calls")
            await click(on, "esc cancel")
            assert isinstance(on.app.screen, LiveScreen)

    async def test_clicks_switch_a_net(self, tmp_path: Path) -> None:
        """A click selects a net, and a click on the frame's key switches it."""
        async with showing(BY_NAME["switch-nets"], tmp_path) as on:
            await click(on, "block-rm")
            await click(on, "space switch")
            await on.until("Turn off block-rm")
            await on.pilot.press("x", "enter")
            await on.pilot.pause(0.05)
            [asked] = on.app.hub.asked  # type: ignore[attr-defined]
            assert asked == ("toggle", "release-bot-1f3a", "block-rm", False, "maria", "x", None)
            await click(on, "esc close")
            assert isinstance(on.app.screen, LiveScreen)


@pytest.mark.slow
class TestDecisions:
    async def test_rows_keys_and_panels_can_be_clicked(self, tmp_path: Path) -> None:
        """Clicks select and open a decision, close its panel, group the rows and show shadow mode."""
        async with showing(BY_NAME["decisions"], tmp_path) as on:
            await click(on, "13:25:30     release-")
            await on.until("row 9")
            await click(on, "13:25:30     release-", times=2)
            await on.until("decided by")
            assert isinstance(on.app.screen, DecisionDetail)
            await click(on, "esc close")
            await click(on, "g group")
            await on.until("by rule")
            await click(on, "s shadow")
            await on.until("Shadow mode: what enforce would have done")


class TestReplay:
    @pytest.fixture(autouse=True)
    def here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    @pytest.mark.slow
    async def test_clicks_step_and_jump_on_the_line(self, tmp_path: Path) -> None:
        """Clicks step, jump to decisions, go to a mark on the line and change the pane."""
        async with showing(BY_NAME["replay"], tmp_path) as on:
            screen = on.app.screen
            assert isinstance(screen, ReplayScreen)
            await click(on, "] step")
            assert screen.position == 4
            await click(on, "[ back")
            assert screen.position == 3
            await click(on, "} next decision")
            assert screen.position == 7
            line = next(row for row in on.painted().split("\n") if re.match(r" ├", row))
            await on.pilot.click(offset=(line.index("■"), 2))
            await on.pilot.pause(0.05)
            assert screen.position == 2
            await click(on, "Nets  Pending")
            await on.until("require-test-before")

    async def test_keys_in_a_dialog_frame_can_be_clicked(self, tmp_path: Path) -> None:
        """The keys in a dialog's frame can be clicked."""
        async with showing(BY_NAME["go-to"], tmp_path) as on:
            await click(on, "esc stay")
            assert isinstance(on.app.screen, ReplayScreen)

    @pytest.mark.slow
    async def test_clicks_switch_a_net_and_judge(self, tmp_path: Path) -> None:
        """Clicks switch a net and start the judgement."""
        async with showing(BY_NAME["what-if"], tmp_path) as on:
            await click(on, "space switch")
            await click(on, "^s judge")
            await on.until("nothing would have gone differently")
