"""A virtual list: blocks of lines, of which only those on screen are painted.

Every pane of the console is one. A block knows how to make its lines for a width; the list keeps their
heights, the place of each, and the strips of what was painted last. A transcript of thousands of entries
costs no more to paint than one of ten.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, overload

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style

Lines = Callable[[int], Sequence[Content]]

GUTTER = 2


class StyledRows(Sequence[Content]):
    """Rows of text that are styled when they are looked at: of a megabyte only a screenful ever is."""

    def __init__(self, rows: Sequence[str], style: Callable[[int, str], Content]) -> None:
        self._rows = rows
        self._style = style

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Content: ...
    @overload
    def __getitem__(self, index: slice) -> list[Content]: ...
    def __getitem__(self, index: int | slice) -> Content | list[Content]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self._style(index, self._rows[index])


def _parsed(style: str | Style) -> Style:
    return style if isinstance(style, Style) else Style.parse(style)


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together. The same `stamp` under the same `key` promises the same lines.

    `lines` is called with a width in cells and returns lines no wider than it. `height` gives their
    number for a width where that is cheaper than making them: of a long list most are never painted.
    """

    key: str
    stamp: Hashable
    lines: Lines
    selectable: bool = True
    height: Callable[[int], int] | None = None


class BlockList(ScrollView, can_focus=True, inherit_bindings=False):
    """Blocks below each other, with a cursor that keys and mouse move.

    A bar in the gutter marks the block under the cursor, so that it does not depend on colour. With
    `follow` the end stays in view as long as nobody scrolled away from it.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"blocks--cursor", "blocks--cursor-focused"}

    DEFAULT_CSS = """
    BlockList {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        & > .blocks--cursor { background: $boost; }
        & > .blocks--cursor-focused { background: $primary 12%; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "cursor(-1)", "Up", show=False, id="list.up", tooltip="Move to the entry above"),
        Binding(
            "down,j", "cursor(1)", "Down", show=False, id="list.down", tooltip="Move to the entry below"
        ),
        Binding("pageup", "page(-1)", "Page up", show=False, id="list.page-up", tooltip="A page back"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="list.page-down", tooltip="A page on"),
        Binding(
            "home,g", "edge(0)", "First", show=False, id="list.first", tooltip="Go to the first entry"
        ),
        Binding("end,G", "edge(-1)", "Last", show=False, id="list.last", tooltip="Go to the last entry"),
        Binding(
            "enter", "open", "open", id="list.open", tooltip="Show the entry under the cursor in full"
        ),
    ]

    @dataclass
    class Moved(Message):
        """The cursor came to another block."""

        blocks: BlockList
        key: str

        @property
        def control(self) -> BlockList:
            return self.blocks

    @dataclass
    class Opened(Message):
        """Somebody wants to see a block in full."""

        blocks: BlockList
        key: str

        @property
        def control(self) -> BlockList:
            return self.blocks

    def __init__(
        self,
        *,
        empty: str = "",
        follow: bool = False,
        cursor: bool = True,
        id: str | None = None,  # noqa: A002 - Textual's own name for it
    ) -> None:
        super().__init__(id=id)
        self._blocks: list[Block] = []
        self._heights: list[int] = []
        self._ends: list[int] = []
        self._width = 0
        self._cursor: int | None = None
        self._has_cursor = cursor
        self._empty = empty
        self._follow = follow
        self._following = follow
        self._lines: LRUCache[tuple[str, Hashable], Sequence[Content]] = LRUCache(512)
        self._painted: LRUCache[tuple[str, Hashable, bool, bool], dict[int, Strip]] = LRUCache(512)

    # What it shows

    @property
    def blocks(self) -> Sequence[Block]:
        return self._blocks

    @property
    def current(self) -> str | None:
        """The key of the block under the cursor."""
        return None if self._cursor is None else self._blocks[self._cursor].key

    def show(self, blocks: Sequence[Block], *, keep: int = 0) -> None:
        """Show `blocks` after the first `keep` of those there are; nothing happens when all are the same.

        The cursor stays on the key it was on.
        """
        old = self._blocks[keep:]
        if len(old) == len(blocks) and all(
            a.key == b.key and a.stamp == b.stamp for a, b in zip(old, blocks, strict=True)
        ):
            return
        key = self.current
        at_end = self._cursor == len(self._blocks) - 1
        heights = dict(zip(((b.key, b.stamp) for b in old), self._heights[keep:], strict=False))
        self._blocks[keep:] = blocks
        fresh = [heights.get((b.key, b.stamp)) or self._measure(b) for b in blocks]
        self._heights[keep:] = fresh
        self._place()
        self._keep_cursor(key, to_end=self._following and at_end)

    def select(self, key: str) -> bool:
        """Put the cursor on a block, without a message. False when there is none of that key."""
        for index, block in enumerate(self._blocks):
            if block.key == key:
                if index != self._cursor:
                    self._cursor = index
                    self._reveal()
                    self.refresh()
                return True
        return False

    def _keep_cursor(self, key: str | None, *, to_end: bool) -> None:
        if not self._has_cursor:
            return
        choices = self._choices()
        if not choices:
            self._cursor = None
            return
        before = self._cursor or 0
        self._cursor = choices[-1] if to_end or (key is None and self._follow) else None
        if self._cursor is None:
            self._cursor = next((i for i in choices if self._blocks[i].key == key), None)
        if self._cursor is None:
            self._cursor = min(choices, key=lambda i: abs(i - before))
        if self.current != key:
            self.post_message(self.Moved(self, self._blocks[self._cursor].key))

    def _choices(self) -> list[int]:
        return [i for i, block in enumerate(self._blocks) if block.selectable]

    # Where things are

    def _measure(self, block: Block) -> int:
        if not self._width:
            return 1
        return len(self._lines_of(block)) if block.height is None else block.height(self._width)

    def _place(self) -> None:
        self._ends = list(accumulate(self._heights))
        total = self._ends[-1] if self._ends else 0
        self.virtual_size = Size(self._width + GUTTER, total)
        if self._following:
            self._to_end()
        self.refresh()

    def watch_show_vertical_scrollbar(self, _old: bool, shown: bool) -> None:
        """A list that has just become longer than its pane can scroll only from now on."""
        if shown and self._follow:
            self._to_end()

    def _to_end(self) -> None:
        if self._following:
            end = max(0, self.virtual_size.height - self.scrollable_content_region.height)
            self.scroll_to(y=end, animate=False)

    def _on_resize(self, event: events.Resize) -> None:
        self.call_later(self._fit)

    def _fit(self) -> None:
        width = max(4, self.scrollable_content_region.width - GUTTER)
        if width == self._width:
            if self._following:
                self._place()
            return
        self._width = width
        self._lines.clear()
        self._painted.clear()
        self._heights = [self._measure(block) for block in self._blocks]
        self._place()
        self._reveal()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._follow:
            self._following = new_value >= self.max_scroll_y - 1

    def _start(self, index: int) -> int:
        return self._ends[index] - self._heights[index]

    def _reveal(self) -> None:
        if self._cursor is None or not self._ends:
            return
        region = Region(0, self._start(self._cursor), 1, self._heights[self._cursor])
        self.scroll_to_region(region, animate=False, force=True)

    # Painting

    def notify_style_update(self) -> None:
        self._painted.clear()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        """One line of the list, from the block it belongs to."""
        width = self.scrollable_content_region.width
        line = self.scroll_offset.y + y
        if not self._blocks:
            return (
                self._paint(Content.styled(self._empty, "dim"), width) if y == 0 else self._blank(width)
            )
        index = bisect_right(self._ends, line)
        if index >= len(self._blocks):
            return self._blank(width)
        return self._strip(index, line - self._start(index)) or self._blank(width)

    def _strip(self, index: int, offset: int) -> Strip | None:
        """A line of a block. Of a block of many lines only those are painted that are seen."""
        block = self._blocks[index]
        marked = index == self._cursor
        key = (block.key, block.stamp, marked, marked and self.has_focus)
        painted = self._painted.get(key)
        if painted is None:
            painted = self._painted[key] = {}
        strip = painted.get(offset)
        if strip is None:
            lines = self._lines_of(block)
            if offset >= len(lines):
                return None
            line, width = lines[offset], self.scrollable_content_region.width
            if line or offset:
                extra = self._cursor_style() if marked else None
                mark = "▌" if marked and self.has_focus else " "
                strip = self._paint(line, width, extra, mark)
            else:
                strip = self._paint(line, width)
            painted[offset] = strip
        return strip

    def _lines_of(self, block: Block) -> Sequence[Content]:
        key = (block.key, block.stamp)
        lines = self._lines.get(key)
        if lines is None:
            lines = self._lines[key] = block.lines(self._width or 20)
        return lines

    def _cursor_style(self) -> Style:
        part = "blocks--cursor-focused" if self.has_focus else "blocks--cursor"
        return Style(background=self.get_visual_style(part, partial=True).background)

    def _paint(self, line: Content, width: int, extra: Style | None = None, mark: str = " ") -> Strip:
        base = self.visual_style + extra if extra is not None else self.visual_style
        accent = base + Style.parse("$primary") if mark != " " else base
        segments = [Segment(mark + " " * (GUTTER - 1), accent.rich_style)]
        segments += [
            Segment(text, style.rich_style)
            for text, style in line.render(base, end="", parse_style=_parsed)
        ]
        return Strip(segments).adjust_cell_length(width, base.rich_style)

    def _blank(self, width: int) -> Strip:
        return Strip.blank(width, self.visual_style.rich_style)

    # What keys and mouse do

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing is opened where nothing can be under the cursor."""
        return self._has_cursor if action == "open" else True

    def action_cursor(self, step: int) -> None:
        """Move by entries; without a cursor, by lines."""
        choices = self._choices() if self._has_cursor else []
        if not choices:
            self.scroll_relative(y=step, animate=False)
            return
        at = choices.index(self._cursor) if self._cursor in choices else 0
        tall = self._cursor is not None and self._taller_than_view(step)
        if tall:
            self.scroll_relative(y=step, animate=False)
        else:
            self._go(choices[max(0, min(len(choices) - 1, at + step))])

    def _taller_than_view(self, step: int) -> bool:
        """Whether the block under the cursor goes on beyond the edge that `step` moves towards."""
        assert self._cursor is not None
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        start, end = self._start(self._cursor), self._ends[self._cursor]
        if end - start <= height:
            return False
        return end > top + height if step > 0 else start < top

    def action_page(self, step: int) -> None:
        """Move by what is on screen."""
        height = max(1, self.scrollable_content_region.height - 1)
        if not self._has_cursor or self._cursor is None:
            self.scroll_relative(y=step * height, animate=False)
            return
        line = max(0, self._start(self._cursor) + step * height)
        index = min(bisect_right(self._ends, line), len(self._blocks) - 1)
        choices = self._choices()
        self._go(min(choices, key=lambda i: abs(i - index)))

    def action_edge(self, which: int) -> None:
        """Go to the first or the last entry."""
        choices = self._choices() if self._has_cursor else []
        if choices:
            self._go(choices[which])
        else:
            self.scroll_to(y=0 if which == 0 else self.max_scroll_y, animate=False)

    def action_open(self) -> None:
        if self.current is not None:
            self.post_message(self.Opened(self, self.current))

    def _go(self, index: int) -> None:
        if index == self._cursor:
            self._reveal()
            return
        self._cursor = index
        if self._follow and index < len(self._blocks) - 1:
            self._following = False
        self._reveal()
        self.refresh()
        self.post_message(self.Moved(self, self._blocks[index].key))

    def _index_at(self, y: int) -> int | None:
        index = bisect_right(self._ends, self.scroll_offset.y + y)
        return index if index < len(self._blocks) and self._blocks[index].selectable else None

    def _on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        index = self._index_at(offset.y) if offset is not None and self._has_cursor else None
        if index is None:
            return
        self._go(index)
        if event.chain == 2:
            self.action_open()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()
