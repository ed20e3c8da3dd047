"""`NO_COLOR`: everything that colours say is said by characters or text attributes too."""

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
"""How far the parts of a grey may be apart after rounding."""


@pytest.fixture(autouse=True)
def no_color(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)


def without_colours(on: Shown) -> list[str]:
    """Every line with its attributes and nothing of its colours, greys neither."""
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
    """No colour is left on a screen."""
    for strip in on.strips():
        for text, style, _ in strip:
            for each in () if style is None else (style.color, style.bgcolor):
                if each is not None and not each.is_default:
                    colour = Color.from_rich_color(each)
                    assert max(colour.rgb) - min(colour.rgb) <= GREY, (text, colour)


async def check_focus(on: Shown) -> None:
    """A list with the keys has a bar in the gutter beside the chosen entry, a text field a cursor."""
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
    def test_no_two_have_the_same_sign_and_word(self, looks: dict[str, object]) -> None:
        """Each state has a symbol and a word that no other has together."""
        signs = [(look.symbol, look.word) for look in looks.values()]  # type: ignore[attr-defined]
        assert len(set(signs)) == len(signs)

    @pytest.mark.slow
    async def test_sessions_in_the_list(self, tmp_path: Path) -> None:
        """Who asks, runs, is in shadow mode or done is read from a symbol and a word."""
        async with showing(BY_NAME["live-sessions"], tmp_path) as on:
            text = on.painted()
        for sign in ("◐ release-bot", "asks", "● docs-writer", "running", "S nightly-sync", "✓ cleanup"):
            assert sign in text

    @pytest.mark.slow
    async def test_calls_in_the_transcript(self, tmp_path: Path) -> None:
        """Done, failed, blocked and waiting calls have signs of their own."""
        async with showing(BY_NAME["live"], tmp_path, (120, 40)) as on:
            text = on.painted()
            await on.pilot.press("alt+2", "home")
            await on.until("■ deploy")
            text += on.painted()
        for sign in ("✓ lint", "✗ test", "◐ deploy", "waiting 0:42", "blocked"):
            assert sign in text

    @pytest.mark.slow
    async def test_nets_that_are_off(self, tmp_path: Path) -> None:
        """A net that is off has an empty box and says so."""
        async with showing(BY_NAME["live-nets"], tmp_path) as on:
            assert re.search(r"\[ \] require-freeze-before-deploy.*off \(state kept\)", on.painted())
            assert "[x] block-rm" in on.painted()

    @pytest.mark.slow
    async def test_verdicts_in_the_decisions(self, tmp_path: Path) -> None:
        """Each verdict is a word beside its symbol; calls that failed carry a cross."""
        async with showing(BY_NAME["decisions"], tmp_path) as on:
            text = on.painted()
        for sign in ("▸ allow", "■ block", "S would block ✗", "S would ask", "■ denied", "◐ approved"):
            assert sign in text

    @pytest.mark.slow
    async def test_what_changed_in_a_replay(self, tmp_path: Path) -> None:
        """Nets that an event moved carry a mark, the position on the line is a dot of its own."""
        async with showing(BY_NAME["replay-nets"], tmp_path) as on:
            assert "[x] Δ require-test" in on.painted()
            assert re.search(r"├─+■─+●─+■─+┤", on.painted())


class TestApproval:
    @pytest.mark.slow
    async def test_warnings_and_differences(self, tmp_path: Path) -> None:
        """A doubt is a word in capitals, added and removed lines begin with their sign."""
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
    async def test_sleeping_keys(self) -> None:
        """That keys do nothing yet is written, and a key pressed too early makes the frame heavy."""
        async with stage(size=(80, 24)) as on:
            await on.open_dialog(awake=False)
            await on.until("keys unlock in 0.4 s")
            assert "╭─" in on.painted()
            await on.press("a")
            await on.until("┏━")


class TestChoices:
    async def test_the_tab_in_front(self, tmp_path: Path) -> None:
        """The pane that is shown is reversed among the tabs, the screen in the title."""
        async with showing(BY_NAME["live-nets"], tmp_path) as on:
            title, tabs = without_colours(on)[:2]
        assert "<br: 1 live >" in title
        assert "<br: Nets >" in tabs
        assert "1 waiting" in title

    @pytest.mark.slow
    async def test_ticks_and_choices(self, tmp_path: Path) -> None:
        """What is ticked has a cross, what is chosen a dot."""
        async with showing(BY_NAME["start"], tmp_path) as on:
            assert "[ ] Shadow mode" in on.painted()
            await on.pilot.click("Tick")
            await on.pilot.pause(0.05)
            assert "[x] Shadow mode" in on.painted()
        async with showing(BY_NAME["backtest"], tmp_path) as on:
            assert "(●) this session" in on.painted()

    @pytest.mark.slow
    async def test_the_palette_s_line(self, tmp_path: Path) -> None:
        """The command that enter would run is reversed."""
        async with showing(BY_NAME["palette"], tmp_path) as on:
            await on.pilot.press("down")
            await on.pilot.pause(0.05)
            assert any(
                ("r:" in line and "Approve" in line) or "<r" in line for line in without_colours(on)
            )


class TestSetting:
    @pytest.mark.slow
    async def test_an_empty_value_says_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """no-color.org: only a value that is not empty asks for no colours."""
        monkeypatch.setenv("NO_COLOR", "")
        async with showing(BY_NAME["live"], tmp_path) as on:
            assert not on.app.no_color
