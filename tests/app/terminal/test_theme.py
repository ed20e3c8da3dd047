"""Colours: the console's themes, the choice of one, and the contrast of text in each."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import Color
from textual.theme import BUILTIN_THEMES

from interlock.app.terminal.appearance import Appearance
from interlock.app.terminal.theme import HIGH_CONTRAST, OWN_THEMES, theme_names

from ..support.views import BY_NAME, Shown, showing

AA = 4.5
AAA = 7.0
CURSOR = 0.12
"""The share of the primary colour in the line under a list's cursor; see `BlockList`."""
TEXTS = ("foreground", "text-primary", "text-secondary", "text-accent", "text-warning", "text-error")


def luminance(colour: Color) -> float:
    """WCAG 2's relative luminance."""

    def linear(value: int) -> float:
        share = value / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(colour.r) + 0.7152 * linear(colour.g) + 0.0722 * linear(colour.b)


def contrast(one: Color, other: Color) -> float:
    """WCAG 2's contrast ratio of two colours, from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def low_contrast_words(on: Shown) -> list[tuple[str, float]]:
    """The words with a contrast below 4.5, in the panel if there is one."""
    framed = list(on.app.screen.query(".frame, #--container"))
    region = framed[0].region if framed else on.app.screen.region
    found: list[tuple[str, float]] = []
    for y, strip in enumerate(on.strips()):
        x = 0
        for text, style, _ in strip:
            inside = region.y <= y < region.bottom and region.x <= x < region.right
            x += len(text)
            if not inside or style is None or not any(c.isalnum() for c in text):
                continue
            assert style.color is not None, text
            assert style.bgcolor is not None, text
            ratio = contrast(Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor))
            if ratio < AA:
                found.append((text.strip(), round(ratio, 2)))
    return found


async def check_contrast(on: Shown) -> None:
    """Check that all text on a screen has enough contrast in each of the three themes."""
    for theme in OWN_THEMES:
        on.app.theme = theme.name
        await on.pilot.pause(0.05)
        assert low_contrast_words(on) == [], theme.name


class TestContrast:
    def test_the_ratio_is_wcag_s(self) -> None:
        """Black on white is 21 to 1, a colour on itself 1, and #767676 on white is just sufficient."""
        white = Color.parse("#ffffff")
        assert contrast(Color.parse("#000000"), white) == pytest.approx(21)
        assert contrast(white, white) == 1
        assert contrast(Color.parse("#767676"), white) == pytest.approx(4.54, abs=0.01)
        assert contrast(Color.parse("#777777"), white) < AA

    @pytest.mark.variants
    @pytest.mark.parametrize("theme", OWN_THEMES, ids=lambda theme: theme.name)
    async def test_every_pair_of_a_theme(self, theme: object, tmp_path: Path) -> None:
        """Text, muted text and text of each state have enough contrast on every background."""
        least = AAA if theme is HIGH_CONTRAST else AA
        async with showing(BY_NAME["live"], tmp_path, (80, 24), Appearance(theme=theme.name)) as on:  # type: ignore[attr-defined]
            colours = on.app.theme_variables
            primary = Color.parse(colours["primary"]).with_alpha(CURSOR)
            texts = {name: Color.parse(colours[name]) for name in (*TEXTS, "text-success", "text-muted")}
            texts["muted"] = Color.parse(colours["foreground"]).with_alpha(0.6)
            for ground in ("background", "surface"):
                plain = Color.parse(colours[ground])
                for place, colour in ((ground, plain), (f"{ground} under the cursor", plain + primary)):
                    for name, text in texts.items():
                        if name == "text-muted" and colour is not plain:
                            continue  # Only titles and legends.
                        assert round(contrast(colour + text, colour), 1) >= least, (name, place)
            panel = Color.parse(colours["panel"])
            for name, text in texts.items():
                assert contrast(panel + text, panel) >= least, (name, "panel")
            for badge in ("warning", "primary"):
                assert contrast(Color.parse(colours[badge]), panel) >= AA, badge


class TestChoice:
    def test_console_themes_come_first(self) -> None:
        """The console's three themes and all of Textual's can be chosen."""
        names = theme_names()
        assert names[:3] == ["interlock", "interlock-light", "interlock-contrast"]
        assert set(BUILTIN_THEMES) < set(names)

    @pytest.mark.slow
    async def test_chosen_theme_is_used(self, tmp_path: Path) -> None:
        """A light theme paints a light ground."""
        async with showing(
            BY_NAME["live"], tmp_path, (80, 24), Appearance(theme="interlock-light")
        ) as on:
            last = next(iter(on.strips()[10]))
            assert last.style is not None
            assert last.style.bgcolor is not None
            assert luminance(Color.from_rich_color(last.style.bgcolor)) > 0.8

    @pytest.mark.slow
    async def test_built_in_themes_work(self, tmp_path: Path) -> None:
        """Each built-in theme paints the complete dialog."""
        async with showing(BY_NAME["approval-hard"], tmp_path) as on:
            wanted = on.painted()
            for name in BUILTIN_THEMES:
                on.app.theme = name
                await on.pilot.pause(0.02)
                assert on.painted() == wanted, name

    @pytest.mark.slow
    async def test_palette_switches_the_theme(self, tmp_path: Path) -> None:
        """Choosing a theme in the palette changes the colours."""
        async with showing(BY_NAME["live"], tmp_path) as on:
            await on.pilot.press("ctrl+p")
            await on.until("Open the selected request")
            await on.pilot.press(*"theme")
            await on.until("Change the colours")
            await on.pilot.pause(0.2)
            await on.pilot.press("enter")
            await on.until("Search for themes")
            await on.pilot.press(*"interlock-light")
            await on.until("interlock-light")
            await on.pilot.pause(0.3)
            await on.pilot.press("enter")
            await on.pilot.pause(0.2)
            assert on.app.theme == "interlock-light"
