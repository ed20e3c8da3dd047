"""Painting for a terminal that can show only ASCII."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.widget import Widget

from .charset import as_ascii


class AsciiFilter(LineFilter):
    """Replaces our symbols by ASCII characters in painted lines."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(as_ascii(text), style, control) for text, style, control in segments]


class UnfilteredWidget(Widget):
    """Widget whose characters are not ours, or are already filtered, so that none is replaced."""

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [each for each in super().get_line_filters() if not isinstance(each, AsciiFilter)]
