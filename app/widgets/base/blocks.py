"""Virtual list of blocks of lines; only visible lines are painted.

Every pane of the console is such a list. A block creates its lines for a width. The list keeps the
blocks' heights and positions, and the strips painted last. Painting a transcript of thousands of entries
costs no more than painting one of ten.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import overload

from textual import events
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from ...format.text import wrap_all
from .cursor_list import GUTTER, NOTHING_TO_OPEN, CursorList
from .greyed_keys import Parameters

Lines = Callable[[int], Sequence[Content]]


class StyledRows(Sequence[Content]):
    """Rows that are styled on access, so that only the visible part of a long text is styled."""

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


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together. The same `stamp` under the same `key` guarantees the same lines.

    `lines` receives a width in cells and returns lines no wider than it. `height` returns their number
    for a width if this is cheaper than creating them, since most blocks of a long list are never painted.
    """

    key: str
    stamp: Hashable
    lines: Lines
    selectable: bool = True
    height: Callable[[int], int] | None = None


def look_of(*lines: Content) -> Hashable:
    """Return text and styles of lines, as the stamp of a block that depends on nothing else."""
    return tuple((line.plain, *line.spans) for line in lines)


def line_block(key: str, stamp: Hashable, line: Content, *, selectable: bool = True) -> Block:
    """Return a block of one line, cut off at the width."""
    return Block(key, stamp, lambda width: [line.truncate(width, ellipsis=True)], selectable)


PIECE = 100
"""Lines of a long text per block."""


def text_pieces(lines: Sequence[Content]) -> list[Block]:
    """Split a long text into blocks of equal length; a block is updated if one of its lines differs."""
    starts = range(0, len(lines), PIECE)
    return [_piece(f"{start}", lines[start : start + PIECE]) for start in starts]


def _piece(key: str, lines: Sequence[Content]) -> Block:
    return Block(key, look_of(*lines), lambda _: lines)


@dataclass
class BlockMessage(Message):
    """Message of a list about one of its blocks."""

    blocks: BlockList
    key: str

    @property
    def control(self) -> BlockList:
        return self.blocks


class BlockList(CursorList):
    """List of blocks. With `follow` the end stays in view until the operator scrolls away."""

    class Moved(BlockMessage):
        """The cursor moved to another block."""

    class Opened(BlockMessage):
        """A block is to be shown in full."""

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
        self._choices: list[int] = []
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

    # Content

    def say_when_empty(self, text: str) -> None:
        """Set the text that is shown if there are no blocks."""
        if text != self._empty:
            self._empty = text
            self.refresh()

    @property
    def blocks(self) -> Sequence[Block]:
        return self._blocks

    @property
    def current(self) -> str | None:
        """Return the key of the block under the cursor."""
        return None if self._cursor is None else self._blocks[self._cursor].key

    def show(self, blocks: Sequence[Block], *, keep: int = 0) -> None:
        """Show `blocks` after the first `keep` of the current ones. If nothing differs, do nothing.

        The cursor stays on its key.
        """
        old = self._blocks[keep:]
        if len(old) == len(blocks) and all(
            a.key == b.key and a.stamp == b.stamp for a, b in zip(old, blocks, strict=True)
        ):
            return
        key = self.current
        at_end = self._cursor == len(self._blocks) - 1
        had_cursor = self._cursor is not None
        before = self._lines_in_view()
        heights = dict(zip(((b.key, b.stamp) for b in old), self._heights[keep:], strict=False))
        self._blocks[keep:] = blocks
        if not self._blocks:
            # The next blocks may have the same keys but other content.
            self._lines.clear()
            self._painted.clear()
        if self._has_cursor:
            self._choices = [i for i, block in enumerate(self._blocks) if block.selectable]
        fresh = [heights.get((b.key, b.stamp)) or self._measure(b) for b in blocks]
        self._heights[keep:] = fresh
        self._place()
        self._repaint(before)
        self._keep_cursor(key, to_end=self._following and at_end)
        if had_cursor != (self._cursor is not None) and self.has_focus:
            self.screen.refresh_bindings()

    def select(self, key: str) -> bool:
        """Move the cursor to a block without posting a message. Return whether the key exists."""
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
        choices = self._choices
        if not choices:
            self._cursor = None
            return
        before = self._cursor or 0
        self._cursor = choices[-1] if to_end or (key is None and self._follow) else None
        if self._cursor is None:
            self._cursor = next((i for i in choices if self._blocks[i].key == key), None)
        if self._cursor is None:
            self._cursor = self._choice_near(before)
        if self.current != key:
            self.post_message(self.Moved(self, self._blocks[self._cursor].key))

    def _choice_near(self, index: int) -> int:
        """Return the selectable block nearest to `index`. There must be at least one."""
        at = bisect_left(self._choices, index)
        return min(self._choices[max(0, at - 1) : at + 1], key=lambda i: abs(i - index))

    # Layout

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
                self.refresh()
            return
        self._width = width
        self._lines.clear()
        self._painted.clear()
        self._heights = [self._measure(block) for block in self._blocks]
        self._place()
        self.refresh()
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
        """Return one line of the list."""
        width = self.scrollable_content_region.width
        line = self.scroll_offset.y + y
        if not self._blocks:
            said = wrap_all(self._empty.split("\n"), max(4, width - GUTTER))
            if y >= len(said):
                return self._blank(width)
            return self._paint(Content.styled(said[y], "dim"), width)
        index = bisect_right(self._ends, line)
        if index >= len(self._blocks):
            return self._blank(width)
        return self._strip(index, line - self._start(index)) or self._blank(width)

    def _strip(self, index: int, offset: int) -> Strip | None:
        """Return a line of a block. Only visible lines of a block are painted."""
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
            here = marked and (bool(line) or offset > 0)
            strip = painted[offset] = self._paint(line, width, marked=here)
        return strip

    def _line_at(self, line: int) -> Content | None:
        """Return a line of the whole list."""
        index = bisect_right(self._ends, line)
        if index >= len(self._blocks):
            return None
        lines, offset = self._lines_of(self._blocks[index]), line - self._start(index)
        return lines[offset] if offset < len(lines) else None

    def _lines_in_view(self) -> Sequence[Content | None]:
        """Return the visible lines of a list without a cursor; otherwise nothing."""
        if self._has_cursor or not self._blocks:
            return ()
        top = self.scroll_offset.y
        return [self._line_at(line) for line in range(top, top + self.scrollable_content_region.height)]

    def _repaint(self, before: Sequence[Content | None]) -> None:
        """Repaint the lines that differ from those before, or everything if the lines have moved."""
        after, top = self._lines_in_view(), self.scroll_offset.y
        if len(before) != len(after) or not after:
            self.refresh()
            return
        for line, (old, new) in enumerate(zip(before, after, strict=True), top):
            if old is not new and (old is None or new is None or not old.is_same(new)):
                self.refresh_lines(line)

    def _rows_of(self, crop: Region) -> range:
        """Return the list's line numbers within a region of this widget."""
        above, height = self.gutter.top, self.scrollable_content_region.height
        first, last = (max(0, min(height, y - above)) for y in (crop.y, crop.bottom))
        return range(self.scroll_offset.y + first, self.scroll_offset.y + last)

    def _lines_of(self, block: Block) -> Sequence[Content]:
        key = (block.key, block.stamp)
        lines = self._lines.get(key)
        if lines is None:
            lines = self._lines[key] = block.lines(self._width or 20)
        return lines

    # Keys and mouse

    def offers(self, action: str, parameters: Parameters = ()) -> bool:
        """Offer opening only if the list has a cursor."""
        return self._has_cursor or action != "open"

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Return why nothing can be opened: the list is empty."""
        return NOTHING_TO_OPEN if action == "open" and self._cursor is None else None

    def action_cursor(self, step: int) -> None:
        """Move by entries; without a cursor, by lines."""
        choices = self._choices if self._has_cursor else []
        if not choices:
            self.scroll_relative(y=step, animate=False)
            return
        at = 0 if self._cursor is None else bisect_left(choices, self._cursor)
        tall = self._cursor is not None and self._taller_than_view(step)
        if tall:
            self.scroll_relative(y=step, animate=False)
        else:
            self._go(choices[max(0, min(len(choices) - 1, at + step))])

    def _taller_than_view(self, step: int) -> bool:
        """Return whether the block at the cursor continues beyond the edge that `step` moves towards."""
        assert self._cursor is not None
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        start, end = self._start(self._cursor), self._ends[self._cursor]
        if end - start <= height:
            return False
        return end > top + height if step > 0 else start < top

    def action_page(self, step: int) -> None:
        """Move by a page."""
        height = max(1, self.scrollable_content_region.height - 1)
        if not self._has_cursor or self._cursor is None:
            self.scroll_relative(y=step * height, animate=False)
            return
        line = max(0, self._start(self._cursor) + step * height)
        index = min(bisect_right(self._ends, line), len(self._blocks) - 1)
        self._go(self._choice_near(index))

    def action_edge(self, which: int) -> None:
        """Move to the first or the last entry."""
        choices = self._choices if self._has_cursor else []
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
        # If the list scrolls, all lines are painted; otherwise only those of two blocks.
        for each in (self._cursor, index):
            if each is not None:
                self.refresh_lines(self._start(each), self._heights[each])
        self._cursor = index
        if self._follow and index < len(self._blocks) - 1:
            self._following = False
        self._reveal()
        self.post_message(self.Moved(self, self._blocks[index].key))

    def _index_at(self, line: int) -> int | None:
        index = bisect_right(self._ends, line)
        if not self._has_cursor or index >= len(self._blocks):
            return None
        return index if self._blocks[index].selectable else None
