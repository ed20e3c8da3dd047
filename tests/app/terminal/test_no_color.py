"""`NO_COLOR`: information shown by colours is also shown by characters or text attributes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.style import Style
from textual.color import Color
from textual.widgets import Input

from interlock.app.terminal.charset import as_ascii
from interlock.app.terminal.symbols import CALL, SESSION
from interlock.app.widgets.base.blocks import BlockList
from interlock.app.widgets.lists.decision_table import DecisionTable

from ..support.stage import stage
from ..support.views import BY_NAME, Shown, showing

LISTS = (BlockList, DecisionTable)
GREY = 2
"""The largest difference between the parts of a grey after rounding."""


@pytest.fixture(autouse=True)
def no_color(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)


def without_colours(on: Shown) -> list[str]:
    """Every line with its text attributes, without its colours and greys."""
    lines: list[str] = []
    for strip in on.strips():
        line = ""
        for text, style, _ in strip:
            signs = [] if style is None else [s for s, has in attributes(style).items() if has]
            line += f"<{''.join(signs)}:{text}>" if signs and (text.strip() or "r" in signs) else text
        lines.append(line.rstrip())
    return lines


def attributes(style: Style) -> dict[str, bool]:
    return {"b": bool(style.bold), "r": bool(style.reverse), "u": bool(style.underline)}


def check_grey(on: Shown) -> None:
    """Check that the screen has only greys."""
    for strip in on.strips():
        for text, style, _ in strip:
            for each in () if style is None else (style.color, style.bgcolor):
                if each is not None and not each.is_default:
                    colour = Color.from_rich_color(each)
                    assert max(colour.rgb) - min(colour.rgb) <= GREY, (text, colour)


async def check_focus(on: Shown) -> None:
    """Check that a focused list has a bar beside the selected entry, and a text field a cursor."""
    focused = on.app.focused
    if isinstance(focused, LISTS) and getattr(focused, "current", None) is not None:
        region = focused.content_region
        rows = [strip.text for strip in on.strips()[region.y : region.bottom]]
        assert any(row[region.x] == as_ascii("▌") for row in rows), rows
    elif isinstance(focused, Input):
        focused.cursor_blink = False
        await on.pilot.pause(0.05)
        rows = without_colours(on)[focused.region.y : focused.region.bottom]
        assert any("r" in sign for row in rows for sign in re.findall(r"<(\w+):", row)), rows


class TestStates:
    @pytest.mark.parametrize("looks", [SESSION, CALL], ids=["sessions", "calls"])
    def test_each_has_its_own_symbol_and_word(self, looks: dict[str, object]) -> None:
        """Each state has its own combination of symbol and word."""
        signs = [(look.symbol, look.word) for look in looks.values()]  # type: ignore[attr-defined]
        assert len(set(signs)) == len(signs)

    @pytest.mark.slow
    async def test_sessions_in_the_list(self, tmp_path: Path) -> None:
        """The state of each session is shown by a symbol and a word."""
        async with showing(BY_NAME["live-sessions"], tmp_path) as on:
            text = on.painted()
        for sign in ("◐ release-bot", "asks", "● docs-writer", "running", "S nightly-sync", "✓ cleanup"):
            assert sign in text

    @pytest.mark.slow
    async def test_calls_in_the_transcript(self, tmp_path: Path) -> None:
        """Done, failed, blocked and waiting calls have different signs."""
        async with showing(BY_NAME["live"], tmp_path, (120, 40)) as on:
            text = on.painted()
            await on.pilot.press("alt+2", "home")
            await on.until("■ deploy")
            text += on.painted()
        for sign in ("✓ lint", "✗ test", "◐ deploy", "waiting 0:42", "blocked"):
            assert sign in text

    @pytest.mark.slow
    async def test_nets_that_are_off(self, tmp_path: Path) -> None:
        """A net that is off has an empty box and the word."""
        async with showing(BY_NAME["live-nets"], tmp_path) as on:
            assert re.search(r"\[ \] require-freeze-before-deploy.*off \(state kept\)", on.painted())
            assert "[x] block-rm" in on.painted()

    @pytest.mark.slow
    async def test_verdicts_in_the_decisions(self, tmp_path: Path) -> None:
        """Each verdict is a word beside its symbol. Failed calls have a cross."""
        async with showing(BY_NAME["decisions"], tmp_path) as on:
            text = on.painted()
        for sign in ("▸ allow", "■ block", "S would block ✗", "S would ask", "■ denied", "◐ approved"):
            assert sign in text

    @pytest.mark.slow
    async def test_changed_nets_in_a_replay_have_a_mark(self, tmp_path: Path) -> None:
        """Nets that an event changed have a mark, and the position on the line is a dot."""
        async with showing(BY_NAME["replay-nets"], tmp_path) as on:
            assert "[x] Δ require-test" in on.painted()
            assert re.search(r"├─+■─+●─+■─+┤", on.painted())


class TestApproval:
    @pytest.mark.slow
    async def test_warnings_and_differences(self, tmp_path: Path) -> None:
        """A doubt is written in capitals. Added and removed lines begin with their sign."""
        async with showing(BY_NAME["approval-hard"], tmp_path) as on:
            text = on.painted()
        for sign in (
            "CANNOT BE FULLY ANALYSED: ",
            "│ -for i in range(n):",
            "│ +for i in range(n + 1):",
            "lines hidden",
        ):
            assert sign in text

    @pytest.mark.slow
    async def test_sleeping_keys_are_shown_by_text_and_frame(self) -> None:
        """A text says that keys are asleep, and a key pressed too early makes the frame heavy."""
        async with stage(size=(80, 24)) as on:
            await on.open_dialog(awake=False)
            await on.until("keys unlock in 0.4 s")
            assert "╭─" in on.painted()
            await on.press("a")
            await on.until("┏━")


class TestChoices:
    async def test_current_tab_is_reversed(self, tmp_path: Path) -> None:
        """The current pane is reversed among the tabs, and the current screen in the title."""
        async with showing(BY_NAME["live-nets"], tmp_path) as on:
            title, tabs = without_colours(on)[:2]
        assert "<br: 1 live >" in title
        assert "<br: Nets >" in tabs
        assert "1 waiting" in title

    @pytest.mark.slow
    async def test_ticks_and_choices(self, tmp_path: Path) -> None:
        """A ticked box has a cross, a selected choice a dot."""
        async with showing(BY_NAME["start"], tmp_path) as on:
            assert "[ ] Shadow mode" in on.painted()
            await on.pilot.click("Tick")
            await on.pilot.pause(0.05)
            assert "[x] Shadow mode" in on.painted()
        async with showing(BY_NAME["backtest"], tmp_path) as on:
            assert "(●) this session" in on.painted()

    @pytest.mark.slow
    async def test_current_palette_line_is_reversed(self, tmp_path: Path) -> None:
        """The command that enter would run is reversed."""
        async with showing(BY_NAME["palette"], tmp_path) as on:
            await on.pilot.press("down")
            await on.pilot.pause(0.05)
            assert any(
                ("r:" in line and "Approve" in line) or "<r" in line for line in without_colours(on)
            )


class TestSetting:
    @pytest.mark.slow
    async def test_empty_value_has_no_effect(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """no-color.org: only a value that is not empty switches colours off."""
        monkeypatch.setenv("NO_COLOR", "")
        async with showing(BY_NAME["live"], tmp_path) as on:
            assert not on.app.no_color
