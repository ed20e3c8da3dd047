"""The list that an approval dialog's text stands in."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.binding import Binding, BindingType

from .blocks import BlockList
from .reviewed_list import ReviewedList

GRANTS = "g"
"""A key of the dialog, which lists have for their first entry."""


def _without(key: str, binding: BindingType) -> Binding:
    assert isinstance(binding, Binding)
    return replace(binding, key=",".join(each for each in binding.key.split(",") if each != key))


class RequestList(ReviewedList, inherit_bindings=False):
    """Scrolls like any list, with the keys that the dialog leaves to it."""

    BINDINGS: ClassVar[list[BindingType]] = [_without(GRANTS, each) for each in BlockList.BINDINGS]
