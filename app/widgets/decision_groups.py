"""Decisions counted by rule or by tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from ...engine.history.decision_counts import Group, GroupBy
from ..decision_text import group_lines
from .blocks import Block, BlockList
from .decision_table import TABLE_KEYS


class GroupList(BlockList, inherit_bindings=False):
    """The groups, the largest first. A block's key is `=` and the group's name, empty without one."""

    BINDINGS: ClassVar[list[BindingType]] = [*TABLE_KEYS]

    def show_groups(self, groups: Sequence[Group], by: GroupBy) -> None:
        """Show these, counted `by` rule or tool."""
        found = _Lines(tuple(groups), by)
        self.show([_block(found, index, group) for index, group in enumerate(groups)])


class _Lines:
    """The lines of all groups for a width: how wide a column is depends on all of them."""

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
