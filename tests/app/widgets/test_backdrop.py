"""The screen behind a panel: dimmed and up to date."""

from __future__ import annotations

import pytest
from textual.color import Color
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions

from interlock.app.widgets.base.backdrop import Backdrop

from ..support.scenes import deploy_request
from ..support.stage import Stage, stage

ASKS = "2 waiting"


def line(on: Stage, text: str) -> Strip:
    """The painted line that contains `text`."""
    return next(strip for strip in on.app.screen._compositor.render_strips() if text in strip.text)


def brightness(strip: Strip) -> float:
    """The brightness of a line's brightest letter, from 0 to 1."""
    colours = [style.color for text, style, _ in strip if text.strip() and style and style.color]
    return max(Color.from_rich_color(colour).brightness for colour in colours)


def background_brightness(on: Stage) -> float:
    """The brightness of the first line's background, from 0 to 1."""
    first = on.app.screen._compositor.render_strips()[0]
    colour = next(style.bgcolor for _, style, _ in first if style and style.bgcolor)
    return Color.from_rich_color(colour).brightness


class TestBehind:
    async def test_screen_behind_is_darker(self) -> None:
        """The title of the screen behind a panel is readable but darker."""
        async with stage() as on:
            before = line(on, "1 waiting")
            await on.press("question_mark")
            await on.until("THIS SCREEN")
            behind = line(on, "1 waiting")
            assert behind.text == before.text
            assert brightness(behind) < brightness(before)

    @pytest.mark.slow
    async def test_change_behind_is_visible(self) -> None:
        """A request that arrives while a panel is open is counted behind it."""
        async with stage() as on:
            await on.press("question_mark")
            await on.until("THIS SCREEN")
            assert ASKS not in on.painted()
            on.hub.request(deploy_request(id="ap2", call_id="c10"))
            await on.until(ASKS)

    @pytest.mark.slow
    async def test_theme_change_affects_screen_behind(self) -> None:
        """A change of theme changes the panel and the screen behind it."""
        async with stage() as on:
            await on.press("question_mark")
            await on.until("THIS SCREEN")
            assert background_brightness(on) < 0.3
            on.app.theme = "interlock-light"
            await on.settle()
            assert background_brightness(on) > 0.7

    @pytest.mark.slow
    async def test_screen_behind_fills_a_new_size(self) -> None:
        """After the terminal has grown, the screen behind the panel reaches the edges."""
        async with stage(size=(80, 24)) as on:
            await on.press("question_mark")
            await on.until("THIS SCREEN")
            await on.pilot.resize_terminal(120, 40)
            await on.settle()
            strips = on.app.screen._compositor.render_strips()
            assert {strip.cell_length for strip in strips} == {120}
            assert strips[39].text.rstrip().endswith("? help")

    @pytest.mark.slow
    async def test_unchanged_screen_behind_is_rendered_once(self) -> None:
        """While the screen behind does not change, its strips are not rendered again."""
        async with stage() as on:
            await on.press("question_mark")
            await on.until("THIS SCREEN")
            behind = on.app.screen.render()
            assert isinstance(behind, Backdrop)
            options = RenderOptions(Style.parse, {})
            one, other, narrow = (
                behind.render_strips(width, 40, Style.null(), options) for width in (120, 120, 100)
            )
            assert all(a is b for a, b in zip(one, other, strict=True))
            assert {strip.cell_length for strip in narrow} == {100}
