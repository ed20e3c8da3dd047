"""Decisions counted by rule or by tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from ...engine.history.decision_counts import Group, GroupBy
from ..decision_text import group_line
from .blocks import Block, BlockList
from .decision_table import TABLE_KEYS


class GroupList(BlockList, inherit_bindings=False):
    """The groups, the largest first. A block's key is `=` and the group's name, empty without one."""

    BINDINGS: ClassVar[list[BindingType]] = [*TABLE_KEYS]

    def show_groups(self, groups: Sequence[Group], by: GroupBy) -> None:
        """Show these, counted `by` rule or tool."""
        self.show([_block(group, by) for group in groups])


def _block(group: Group, by: GroupBy) -> Block:
    def lines(width: int) -> list[Content]:
        return [group_line(group, by, width).truncate(width, ellipsis=True)]

    key = "" if group.name is None else f"={group.name}"
    return Block(key, (group.count, group.stopped, group.asked, group.course, by), lines)
