"""The screen behind a panel, dimmed.

Textual tints it segment by segment through rich at every paint, which takes longer than all else that a
dialog paints. Here each of the few styles on a screen is tinted once, and what was painted stays as long
as nothing behind the panel has changed.
"""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.color import Color
from textual.css.styles import RulesMap
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual

LOOKS = 4096
"""How many tinted styles are kept."""


class Backdrop(Visual):
    """Copy of what `screen` shows, under a translucent `tint`; nothing on it can be clicked."""

    def __init__(self, screen: Screen[object], tint: Color) -> None:
        self._screen = screen
        self._tint = tint
        self._looks: dict[RichStyle | None, RichStyle] = {}
        self._parts: list[tuple[Region, Region, list[Strip]]] = []
        self._painted: list[Strip] = []
        self._width = 0

    def covers(self, screen: Screen[object], tint: Color) -> bool:
        """Tell whether this is `screen` under `tint`."""
        return self._screen is screen and self._tint == tint

    def render_strips(
        self, width: int, height: int | None, style: Style, options: RenderOptions
    ) -> list[Strip]:
        # What its widgets painted, and where. Those that did not change give the very strips of before.
        # Neither is public.
        compositor = self._screen._compositor  # pyright: ignore[reportPrivateUsage]
        renders = compositor._get_renders()  # pyright: ignore[reportPrivateUsage]
        parts = [(region, clip, list(strips)) for region, clip, strips in renders]
        if width != self._width or parts != self._parts:
            self._painted = [
                Strip(
                    [Segment(text, self._dim(look)) for text, look, control in strip if not control],
                    strip.cell_length,
                ).adjust_cell_length(width)
                for strip in compositor.render_strips()
            ]
            self._width, self._parts = width, parts
        return list(self._painted)

    def _dim(self, look: RichStyle | None) -> RichStyle:
        found = self._looks.get(look)
        if found is None:
            # A style has the place of its text in it: with what comes into view ever more of them do.
            if len(self._looks) == LOOKS:
                self._looks.clear()
            found = self._looks[look] = dimmed(look, self._tint)
        return found

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return self._screen.size.height


def dimmed(look: RichStyle | None, tint: Color) -> RichStyle:
    """A style with its colours under `tint`, without links and actions."""
    if look is None:
        return RichStyle()
    look = look.clear_meta_and_links()
    color = look.color and (Color.from_rich_color(look.color) + tint).rich_color
    background = look.bgcolor and (Color.from_rich_color(look.bgcolor) + tint).rich_color
    return look + RichStyle.from_color(color, background)
