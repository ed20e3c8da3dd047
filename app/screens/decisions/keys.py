"""The keys of the decisions screen."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from ...terminal.bindings import COPY_KEY, FOCUS_KEYS

DECISION_KEYS: tuple[BindingType, ...] = (
    Binding(
        "slash",
        "filter",
        "filter",
        key_display="/",
        id="decisions.filter",
        tooltip="Filter: words (of an input its first 200 characters), input: (all of it), tool:, "
        "rule:, verdict:, session:, agent:, result:, since:, until:; by:NAME who decided or changed it, "
        "kind: call, toggle, mode, limit, grant, rules, extension, or change for all but calls",
    ),
    Binding(
        "g", "group", "group", id="decisions.group", tooltip="Count by rule, then by tool, then list"
    ),
    Binding(
        "r",
        "replay",
        "replay",
        id="decisions.replay",
        tooltip="Go to this decision in the replay of its session",
    ),
    Binding(
        "s",
        "shadow",
        "shadow",
        id="decisions.shadow",
        tooltip="What enforce would have stopped, session by session",
    ),
    Binding(
        "e",
        "enforce",
        "enforce",
        id="decisions.enforce",
        tooltip="Switch this decision's session from shadow to enforce",
    ),
    Binding(
        "f",
        "fatigue",
        "approvals",
        id="decisions.fatigue",
        tooltip="Approval statistics and suggestions",
    ),
    Binding("h", "app.history", "history", id="decisions.history", tooltip="The recorded sessions"),
    Binding(
        "R", "app.rules", "rule files", id="decisions.rules", tooltip="Rules files, and what they mean"
    ),
    Binding("f5", "reload", "reload", id="decisions.reload", tooltip="Read the decisions again"),
    Binding("escape", "leave", "back", id="decisions.back", tooltip="Clear the filter, or go back"),
    *FOCUS_KEYS,
    COPY_KEY,
)
