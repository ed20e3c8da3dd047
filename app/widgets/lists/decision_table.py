"""List of any length of which only visible rows are loaded.

It keeps the positions of the list's parts and the content of some parts. A row whose part is missing
requests the part and is painted when the part arrives.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar, TypeAlias

from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from ....engine.history.decisions.counts import Group, GroupBy
from ....engine.history.decisions.reader import Decision, DecisionPage, ListPosition
from ...format.decisions import group_lines
from ..base.blocks import Block, BlockList
from ..base.cursor_list import GUTTER, CursorList

TABLE_KEYS: tuple[BindingType, ...] = tuple(
    replace(key, key="home") if isinstance(key, Binding) and key.id == "list.first" else key
    for key in CursorList.BINDINGS
)
"""Keys of every list except `g`, which groups here."""

KEPT_PARTS = 48
KEPT_STRIPS = 600

_PageKey: TypeAlias = tuple[ListPosition, ListPosition | None]

Line = Callable[[Decision, int], Content]


class DecisionTable(CursorList, inherit_bindings=False):
    """Decisions, newest first.

    When newer decisions arrive, the cursor and the view stay on theirs, unless the cursor is on the
    newest decision and this is in view. `moved` is called when the operator moves the cursor, so that
    what depends on it is painted at the same time.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*TABLE_KEYS]

    @dataclass
    class PartNeeded(Message):
        """A part that is visible, or will be soon, is not loaded."""

        part: DecisionPage

    @dataclass
    class Moved(Message):
        """The cursor moved to another decision, or the decision under it has been loaded."""

    @dataclass
    class Opened(Message):
        """The decision under the cursor is to be shown in full."""

        decision: Decision

    def __init__(
        self,
        line: Line,
        moved: Callable[[], None] = lambda: None,
        *,
        id: str | None = None,  # noqa: A002 - Textual's own name
    ) -> None:
        super().__init__(id=id)
        self._line = line
        self._moved = moved
        self._parts: list[DecisionPage] = []
        self._ends: list[int] = []
        # Each with the change count when it was read; a lower count than now means outdated.
        self._loaded: LRUCache[_PageKey, tuple[int, Sequence[Decision]]] = LRUCache(KEPT_PARTS)
        self._asked: dict[_PageKey, int] = {}
        self._changes = 0
        self._strips: LRUCache[tuple[object, ...], Strip] = LRUCache(KEPT_STRIPS)
        self._cursor = 0
        self._newer = 0

    # Content

    @property
    def total(self) -> int:
        """Return the number of rows known so far."""
        return self._ends[-1] if self._ends else 0

    @property
    def row(self) -> int:
        """Return the row of the cursor; the newest decision is row 0."""
        return self._cursor

    @property
    def current(self) -> Decision | None:
        """Return the decision under the cursor, or `None` until it is loaded."""
        return self.decision(self._cursor)

    @property
    def following(self) -> bool:
        """Return whether the list follows the newest decision at the top."""
        return self._cursor == 0 and self.scroll_offset.y == 0

    @property
    def newer(self) -> int:
        """Return the number of decisions that arrived on top while the operator was further down."""
        return 0 if self.scroll_offset.y == 0 else min(self._newer, int(self.scroll_offset.y))

    @property
    def border(self) -> ListPosition | None:
        """Return the position below which newer decisions change nothing.

        The part above may still grow.
        """
        return self._parts[0].bottom if self._parts else None

    def clear(self) -> None:
        """Clear the list for another search."""
        self._parts, self._cursor, self._newer = [], 0, 0
        self._loaded.clear()
        self._asked.clear()
        self._place()
        self.scroll_to(y=0, animate=False)

    def extend(self, parts: Sequence[DecisionPage]) -> None:
        """Append parts with older decisions."""
        first = not self._parts
        self._parts += parts
        self._place()
        if first and parts:
            self.post_message(self.Moved())

    def renew(self, parts: Sequence[DecisionPage], read: Sequence[Sequence[Decision]]) -> None:
        """Replace the first part by `parts`, which contain it and newer decisions on top.

        `read` has the decisions of the first of `parts`, so that no visible row becomes blank.
        """
        following, head = self.following, self._parts[:1]
        self._parts[:1] = parts
        for part, decisions in zip(parts, read, strict=False):
            self._keep(part, self._changes, decisions)
        added = sum(part.count for part in parts) - sum(part.count for part in head)
        self._place()
        if following or not head:
            self._newer = 0
        elif added:
            self._cursor += added
            self._newer = self.newer + added
            self.scroll_to(y=self.scroll_offset.y + added, animate=False, force=True)
        self.post_message(self.Moved())

    def fill(self, part: DecisionPage, decisions: Sequence[Decision]) -> None:
        """Store the decisions of a part. An older reading does not replace a newer one."""
        asked = self._asked.pop(_key(part), 0)
        before = self._loaded.get(_key(part))
        if before is not None and before[0] > asked:
            return
        self._keep(part, asked, decisions)
        self.refresh()
        here = self._part_of(self._cursor)
        if here is not None and here[0] == part:
            self.post_message(self.Moved())

    def _keep(self, part: DecisionPage, changes: int, decisions: Sequence[Decision]) -> None:
        # Textual's cache does not replace a value that exists.
        self._loaded.discard(_key(part))
        self._loaded[_key(part)] = (changes, decisions)

    def failed(self, part: DecisionPage) -> None:
        """Note that a part could not be read; it is requested again when it is next painted."""
        self._asked.pop(_key(part), None)

    def outdate(self) -> None:
        """Mark all parts as outdated: each is shown until it has been read again for a repaint."""
        self._changes += 1
        self.refresh()

    def decision(self, row: int) -> Decision | None:
        """Return the decision in a row if it is loaded; otherwise request its part."""
        found = self._part_of(row)
        if found is None:
            return None
        part, offset = found
        changes, decisions = self._loaded.get(_key(part)) or (-1, ())
        if changes < self._changes:
            self._want(part)
        return decisions[offset] if offset < len(decisions) else None

    def _part_of(self, row: int) -> tuple[DecisionPage, int] | None:
        if not 0 <= row < self.total:
            return None
        index = bisect_right(self._ends, row)
        part = self._parts[index]
        return part, row - (self._ends[index] - part.count)

    def _want(self, part: DecisionPage) -> None:
        if _key(part) not in self._asked:
            self._asked[_key(part)] = self._changes
            self.post_message(self.PartNeeded(part))

    def _place(self) -> None:
        self._ends = list(accumulate(part.count for part in self._parts))
        self._cursor = max(0, min(self._cursor, self.total - 1))
        self.virtual_size = Size(self.scrollable_content_region.width, self.total)
        self.refresh()

    # Painting

    def notify_style_update(self) -> None:
        self._strips.clear()
        super().notify_style_update()

    def repaint(self) -> None:
        """Build every line again, since its text depends on more than its decision."""
        self._strips.clear()
        self.refresh()

    def _on_resize(self, event: events.Resize) -> None:
        self._strips.clear()
        self.call_later(self._fit)

    def _fit(self) -> None:
        self._place()
        self._reveal()

    def render_line(self, y: int) -> Strip:
        """Return one row, blank until its decision is loaded."""
        width = self.scrollable_content_region.width
        row = self.scroll_offset.y + y
        if row >= self.total:
            return self._blank(width)
        decision = self.decision(row)
        marked = row == self._cursor
        key = (decision and (decision.cursor, decision.result), width, marked, marked and self.has_focus)
        strip = self._strips.get(key)
        if strip is None:
            room = max(4, width - GUTTER)
            line = Content.styled("…", "dim") if decision is None else self._line(decision, room)
            strip = self._strips[key] = self._paint(line, width, marked=marked)
        return strip

    # Keys and mouse

    def action_cursor(self, step: int) -> None:
        """Move by rows."""
        self._go(self._cursor + step)

    def action_page(self, step: int) -> None:
        """Move by a page."""
        self._go(self._cursor + step * max(1, self.scrollable_content_region.height - 1))

    def action_edge(self, which: int) -> None:
        """Move to the newest or the oldest decision."""
        self._go(0 if which == 0 else self.total - 1)

    def action_open(self) -> None:
        """Request that the decision under the cursor is shown in full."""
        decision = self.current
        if decision is not None:
            self.post_message(self.Opened(decision))

    def _go(self, index: int) -> None:
        row = max(0, min(self.total - 1, index))
        if row != self._cursor:
            self._cursor = row
            self.refresh()
            self._moved()
        self._reveal()

    def _reveal(self) -> None:
        if self.total:
            self.scroll_to_region(Region(0, self._cursor, 1, 1), animate=False, force=True)

    def _index_at(self, line: int) -> int | None:
        return line if line < self.total else None


def _key(part: DecisionPage) -> _PageKey:
    return part.top, part.bottom


# Decisions counted by rule or by tool.


class GroupList(BlockList, inherit_bindings=False):
    """Groups, largest first. A block's key is `=` and the group's name; empty without a name."""

    BINDINGS: ClassVar[list[BindingType]] = [*TABLE_KEYS]

    def show_groups(self, groups: Sequence[Group], by: GroupBy) -> None:
        """Show groups counted `by` rule or tool."""
        found = _Lines(tuple(groups), by)
        self.show([_block(found, index, group) for index, group in enumerate(groups)])


class _Lines:
    """Lines of all groups for a width. Column widths depend on all groups."""

    def __init__(self, groups: Sequence[Group], by: GroupBy) -> None:
        self._groups = groups
        self._by: GroupBy = by
        self._made: tuple[int, list[Content]] = (0, [])

    def at(self, index: int, width: int) -> Content:
        if self._made[0] != width:
            self._made = (width, group_lines(self._groups, self._by, width))
        return self._made[1][index]


def _block(found: _Lines, index: int, group: Group) -> Block:
    key = "" if group.name is None else f"={group.name}"
    return Block(key, found, lambda width: [found.at(index, width)])
