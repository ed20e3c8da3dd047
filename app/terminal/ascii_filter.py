"""Painting for a terminal that has ASCII only."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.widget import Widget

from .charset import as_ascii


class AsciiFilter(LineFilter):
    """Puts stand-ins for our symbols into painted lines."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(as_ascii(text), style, control) for text, style, control in segments]


class UnfilteredWidget(Widget):
    """A widget whose characters are not ours, or painted already: none is replaced."""

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [each for each in super().get_line_filters() if not isinstance(each, AsciiFilter)]
