"""Key bindings of the approval dialog."""

from __future__ import annotations

from dataclasses import replace

from textual.binding import ActiveBinding

from ....engine.core.plan import PLAN
from ....engine.history.model.state import ApprovalState
from ...terminal.bindings import FOLD_KEY, key_binding

APPROVAL_KEYS = (
    key_binding("a", "approve", "approve once", "approval.approve", "Let this one call run"),
    key_binding(
        "e", "edit", "edit", "approval.edit", "Edit the input; you review the changes before you approve"
    ),
    key_binding(
        "g", "grant", "grant", "approval.grant", "Approve, and choose which later calls need no approval"
    ),
    key_binding(
        "G",
        "always",
        "always like this",
        "approval.always",
        "Change the rule that asked, so that calls like this one need no approval; decides nothing",
        show=False,
    ),
    key_binding("d", "deny", "deny", "approval.deny", "Refuse the call, with a reason if you like"),
    key_binding("s", "stop", "deny and stop", "approval.stop", "Deny the call and stop the agent"),
    key_binding(
        "u",
        "take_back",
        "take it back",
        "approval.take_back",
        "Take the approval back before its call runs; the request is open again",
    ),
    key_binding(
        "c",
        "claim",
        "claim",
        "approval.claim",
        "Claim it: others are asked once more before they decide it; press again to give it up",
        show=False,
    ),
    key_binding(
        "at",
        "comment",
        "comment",
        "approval.comment",
        "Comment on it for everybody; @name and a note asks that person to look",
        key_display="@",
        show=False,
    ),
    key_binding("plus", "extend", "more time", "approval.extend", "Extend by 15 min", key_display="+"),
    key_binding(
        "w",
        "passkey",
        "passkey",
        "approval.passkey",
        "The link and QR code of the page where your passkey approves this",
    ),
    key_binding(
        "x",
        "explain",
        "explain",
        "approval.explain",
        "What every rule says about this call, and what leads to it",
    ),
    key_binding(
        "p",
        "precedent",
        "earlier call",
        "approval.precedent",
        "The nearest earlier call: how it was decided, its result, what differs",
    ),
    FOLD_KEY,
    key_binding(
        "n",
        "next",
        "next request",
        "approval.next",
        "Open another request, once nothing is left to decide about this one",
    ),
    # Shown in the frame instead of the footer, as in every panel, along with its other effects.
    key_binding(
        "escape", "close", "decide later", "approval.close", "Close; it stays in the queue", show=False
    ),
)


def close_keys(found: dict[str, ActiveBinding]) -> dict[str, ActiveBinding]:
    """Return the bindings of a dialog with nothing left to decide: `close` instead of `decide later`."""
    tooltip = "Close; nothing is left to decide"
    return _renamed(found, "approval.close", "close", tooltip)


def answer_keys(found: dict[str, ActiveBinding], request: ApprovalState) -> dict[str, ActiveBinding]:
    """Return the bindings for a request that may want an answer or show a plan."""
    if request.wants is not None:
        tooltip = "Fill in the answer and send it"
        return _renamed(found, "approval.approve", "answer", tooltip)
    if request.called == PLAN:
        tooltip = "Let the calls in this plan run, as often as it says"
        return _renamed(found, "approval.approve", "approve this plan", tooltip)
    return found


def edit_keys(found: dict[str, ActiveBinding], request: ApprovalState) -> dict[str, ActiveBinding]:
    """Return the bindings for the review of an edit, which may only renew the request."""
    if not request.renewed_by_edit:
        return found
    tooltip = "Have everybody asked about the call as it is now"
    return _renamed(found, "approval.edited", "ask again", tooltip)


def page_keys(
    found: dict[str, ActiveBinding], binding: str = "approval.approve"
) -> dict[str, ActiveBinding]:
    """Return the bindings of a dialog that has not been seen completely."""
    tooltip = "Show the next page; scroll to the end to enable approve"
    return _renamed(found, binding, "next page", tooltip)


def reveal_keys(found: dict[str, ActiveBinding]) -> dict[str, ActiveBinding]:
    """Return the bindings of a dialog in which masked text may be more than a secret."""
    tooltip = "Show the masked text that may be more than a secret; it is recorded that you saw it"
    return _renamed(found, "approval.approve", "show masked", tooltip)


def _renamed(
    found: dict[str, ActiveBinding], binding: str, description: str, tooltip: str
) -> dict[str, ActiveBinding]:
    """Return the bindings with another description and tooltip for one of them."""
    return {
        key: each._replace(binding=replace(each.binding, description=description), tooltip=tooltip)
        if each.binding.id == binding
        else each
        for key, each in found.items()
    }
