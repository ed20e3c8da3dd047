"""The keys of the approval dialog."""

from __future__ import annotations

from dataclasses import replace

from textual.binding import ActiveBinding, Binding

from ....engine.history.model.state import ApprovalState
from ...terminal.bindings import FOLD_KEY

APPROVAL_KEYS = (
    Binding("a", "approve", "approve once", id="approval.approve", tooltip="Let this one call run"),
    Binding(
        "e",
        "edit",
        "edit",
        id="approval.edit",
        tooltip="Edit the input; you review the changes before you approve",
    ),
    Binding(
        "g",
        "grant",
        "grant",
        id="approval.grant",
        tooltip="Approve, and choose which later calls need no approval",
    ),
    Binding(
        "d", "deny", "deny", id="approval.deny", tooltip="Refuse the call, with a reason if you like"
    ),
    Binding(
        "s",
        "stop",
        "deny and stop",
        id="approval.stop",
        tooltip="Deny the call and stop the agent",
    ),
    Binding(
        "plus",
        "extend",
        "more time",
        key_display="+",
        id="approval.extend",
        tooltip="Extend by 15 min",
    ),
    Binding(
        "x",
        "explain",
        "explain",
        id="approval.explain",
        tooltip="What every rule says of this call, and what leads to it",
    ),
    FOLD_KEY,
    Binding(
        "n",
        "next",
        "next request",
        id="approval.next",
        tooltip="Open another request, once nothing is left to decide about this one",
    ),
    Binding(
        "escape",
        "close",
        "decide later",
        # It stands on the frame, as every panel's does, where it also says what else it would do.
        show=False,
        id="approval.close",
        tooltip="Close; it stays in the queue",
    ),
)


def once_over(found: dict[str, ActiveBinding]) -> dict[str, ActiveBinding]:
    """The keys of a dialog with nothing to decide any more: what leaves it leaves nothing for later."""
    tooltip = "Close; nothing is left to decide"
    return _renamed(found, "approval.close", "close", tooltip)


def to_answer(found: dict[str, ActiveBinding], request: ApprovalState) -> dict[str, ActiveBinding]:
    """The keys of a dialog about a request, which may want an answer."""
    if request.wants is None:
        return found
    tooltip = "Fill in the answer; what is filled in is sent from there"
    return _renamed(found, "approval.approve", "answer", tooltip)


def to_read_on(
    found: dict[str, ActiveBinding], binding: str = "approval.approve"
) -> dict[str, ActiveBinding]:
    """The keys of a dialog that was not on screen as a whole yet."""
    tooltip = "Show the next page; scroll to the end to enable approve"
    return _renamed(found, binding, "next page", tooltip)


def to_reveal(found: dict[str, ActiveBinding]) -> dict[str, ActiveBinding]:
    """The keys of a dialog in which masked text may be more than a secret."""
    tooltip = "Show the masked text that may be more than a secret; that you saw it is recorded"
    return _renamed(found, "approval.approve", "show masked", tooltip)


def _renamed(
    found: dict[str, ActiveBinding], binding: str, description: str, tooltip: str
) -> dict[str, ActiveBinding]:
    """The same keys, one of them with another name for what it does now."""
    return {
        key: each._replace(binding=replace(each.binding, description=description), tooltip=tooltip)
        if each.binding.id == binding
        else each
        for key, each in found.items()
    }
