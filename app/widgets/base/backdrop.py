"""The dimmed screen behind a panel.

Textual tints it segment by segment at every paint, which takes longer than everything else that a dialog
paints. Here each style of a screen is tinted once, and a line is reused until something in it changes.
"""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.color import Color
from textual.css.styles import RulesMap
from textual.screen import Screen
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual

LOOKS = 4096
"""Maximum number of cached tinted styles."""


class Backdrop(Visual):
    """Copy of what `screen` shows, under a translucent `tint`. Nothing in it can be clicked."""

    def __init__(self, screen: Screen[object], tint: Color) -> None:
        self._screen = screen
        self._tint = tint
        self._looks: dict[RichStyle | None, RichStyle] = {}
        self._shown: list[Strip] = []
        self._painted: list[Strip] = []
        self._width = 0

    def covers(self, screen: Screen[object], tint: Color) -> bool:
        """Return whether this is the backdrop of `screen` under `tint`."""
        return self._screen is screen and self._tint == tint

    def render_strips(
        self, width: int, height: int | None, style: Style, options: RenderOptions
    ) -> list[Strip]:
        # Not public. Called once per paint, since it assembles whole lines from all widgets each time.
        shown = self._screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
        if width != self._width or len(shown) != len(self._shown):
            self._painted = [self._dimmed(strip, width) for strip in shown]
            self._width = width
        else:
            for line, (strip, before) in enumerate(zip(shown, self._shown, strict=True)):
                if strip != before:
                    self._painted[line] = self._dimmed(strip, width)
        self._shown = shown
        return list(self._painted)

    def _dimmed(self, strip: Strip, width: int) -> Strip:
        segments = [Segment(text, self._dim(look)) for text, look, control in strip if not control]
        return Strip(segments, strip.cell_length).adjust_cell_length(width)

    def _dim(self, look: RichStyle | None) -> RichStyle:
        found = self._looks.get(look)
        if found is None:
            # A style includes the position of its text, so new styles keep appearing as content changes.
            if len(self._looks) == LOOKS:
                self._looks.clear()
            found = self._looks[look] = dimmed(look, self._tint)
        return found

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return self._screen.size.height


def dimmed(look: RichStyle | None, tint: Color) -> RichStyle:
    """Return a style with its colours under `tint`, without links and actions."""
    if look is None:
        return RichStyle()
    look = look.clear_meta_and_links()
    color = look.color and (Color.from_rich_color(look.color) + tint).rich_color
    background = look.bgcolor and (Color.from_rich_color(look.bgcolor) + tint).rich_color
    return look + RichStyle.from_color(color, background)
