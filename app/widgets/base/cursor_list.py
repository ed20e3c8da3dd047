"""Base of lists with a cursor: keys, clicks, and painting of the cursor's line."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style

from ...terminal.bindings import key_binding
from .greyed_keys import GreyedKeys

GUTTER = 2
NOTHING_TO_OPEN = "There is nothing here to open."


class CursorList(GreyedKeys, ScrollView, can_focus=True, inherit_bindings=False):
    """List that is painted line by line, with a cursor moved by keys and mouse.

    A bar in the gutter marks the cursor, so that it does not depend on colour. Lists have the actions
    `cursor` and `page` with a step, and `edge` for the first entry (0) or the last (-1).
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"list--cursor", "list--cursor-focused"}

    DEFAULT_CSS = """
    CursorList {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        & > .list--cursor { background: $boost; }
        & > .list--cursor-focused { background: $primary 12%; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("up,k", "cursor(-1)", "Up", "list.up", "Move to the entry above", show=False),
        key_binding("down,j", "cursor(1)", "Down", "list.down", "Move to the entry below", show=False),
        key_binding("pageup", "page(-1)", "Page up", "list.page-up", "A page back", show=False),
        key_binding("pagedown", "page(1)", "Page down", "list.page-down", "A page forward", show=False),
        key_binding("home,g", "edge(0)", "First", "list.first", "Go to the first entry", show=False),
        key_binding("end,G", "edge(-1)", "Last", "list.last", "Go to the last entry", show=False),
        key_binding("enter", "open", "open", "list.open", "Show the entry under the cursor in full"),
    ]

    def action_open(self) -> None:
        """Request that the entry under the cursor is shown in full."""
        raise NotImplementedError

    def _go(self, index: int) -> None:
        """Move the cursor to an entry, and scroll the entry into view."""
        raise NotImplementedError

    def _index_at(self, line: int) -> int | None:
        """Return the selectable entry in a line of the whole list."""
        raise NotImplementedError

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        index = None if offset is None else self._index_at(self.scroll_offset.y + offset.y)
        if index is None:
            return
        self._go(index)
        if event.chain == 2:
            self.action_open()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def _paint(self, line: Content, width: int, *, marked: bool = False) -> Strip:
        """Return a line after the gutter, `marked` if the cursor is there."""
        base = accent = self.visual_style
        bar = " "
        if marked:
            part = "list--cursor-focused" if self.has_focus else "list--cursor"
            base += Style(background=self.get_visual_style(part, partial=True).background)
            accent = base
            if self.has_focus:
                bar, accent = "▌", base + Style.parse("$primary")
        segments = [Segment(bar + " " * (GUTTER - 1), accent.rich_style)]
        segments += [
            Segment(text, style.rich_style)
            for text, style in line.render(base, end="", parse_style=_parsed)
        ]
        return Strip(segments).adjust_cell_length(width, base.rich_style)

    def _blank(self, width: int) -> Strip:
        return Strip.blank(width, self.visual_style.rich_style)


def _parsed(style: str | Style) -> Style:
    return style if isinstance(style, Style) else Style.parse(style)
