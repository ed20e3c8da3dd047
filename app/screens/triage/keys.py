"""Key bindings of the triage table."""

from __future__ import annotations

from textual.binding import BindingType

from ...terminal.bindings import COPY_KEY, key_binding

TRIAGE_KEYS: tuple[BindingType, ...] = (
    key_binding(
        "a", "approve", "approve once", "triage.approve", "Let the marked calls run, or the one chosen"
    ),
    key_binding(
        "d", "deny", "deny", "triage.deny", "Refuse the marked calls, or the one chosen, with a reason"
    ),
    key_binding(
        "g",
        "grant",
        "grant",
        "triage.grant",
        "Approve the chosen call, and choose which later calls need no approval",
    ),
    key_binding("x", "mark", "mark", "triage.mark", "Mark the request, to decide it with others"),
    key_binding(
        "asterisk",
        "alike",
        "mark all alike",
        "triage.alike",
        "Mark all of the same rule, agent, tool and risk whose input has the same fields",
    ),
    key_binding("slash", "filter", "filter", "triage.filter", "Show only some: words, risk:high agent:x"),
    key_binding("plus", "extend", "15 min more", "triage.extend", "Extend by 15 min"),
    key_binding(
        "u",
        "take_back",
        "take back",
        "triage.take_back",
        "Take back the approvals of the marked calls, or of the one chosen, before they run",
        show=False,
    ),
    key_binding("escape", "back", "back", "triage.back", "Close the line, clear the marks, or go back"),
)

TRIAGE_SCREEN_KEYS: tuple[BindingType, ...] = (
    key_binding("v", "app.decisions", "decisions", "triage.decisions", "All decisions", show=False),
    key_binding("h", "app.history", "history", "triage.history", "The recorded sessions", show=False),
    key_binding("R", "app.rules", "rule files", "triage.rules", "The rules files", show=False),
    COPY_KEY,
)
