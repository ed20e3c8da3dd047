"""The screen behind a panel, dimmed.

Textual tints it segment by segment through rich at every paint, which takes longer than all else that a
dialog paints. Here each of the few styles on a screen is tinted once.
"""

from __future__ import annotations

from functools import lru_cache

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.color import Color
from textual.css.styles import RulesMap
from textual.screen import Screen
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual


class Behind(Visual):
    """What `screen` shows, under a translucent `tint`; nothing on it can be clicked."""

    def __init__(self, screen: Screen[object], tint: Color) -> None:
        self._screen = screen
        self._tint = tint

    def render_strips(
        self, width: int, height: int | None, style: Style, options: RenderOptions
    ) -> list[Strip]:
        tint = self._tint
        return [
            Strip(
                [Segment(text, dimmed(look, tint)) for text, look, control in strip if not control],
                strip.cell_length,
            ).adjust_cell_length(width)
            for strip in self._screen._compositor.render_strips()
        ]

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return self._screen.size.height


@lru_cache(maxsize=1024)
def dimmed(look: RichStyle | None, tint: Color) -> RichStyle:
    """A style with its colours under `tint`, without links and actions."""
    if look is None:
        return RichStyle()
    look = look.clear_meta_and_links()
    color = look.color and (Color.from_rich_color(look.color) + tint).rich_color
    background = look.bgcolor and (Color.from_rich_color(look.bgcolor) + tint).rich_color
    return look + RichStyle.from_color(color, background)
