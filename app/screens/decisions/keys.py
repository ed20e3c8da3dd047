"""Key bindings of the decisions screen."""

from __future__ import annotations

from textual.binding import BindingType

from ...terminal.bindings import COPY_KEY, FOCUS_KEYS, key_binding

DECISION_KEYS: tuple[BindingType, ...] = (
    key_binding(
        "slash",
        "filter",
        "filter",
        "decisions.filter",
        "Filter: words (of an input its first 200 characters), input: (all of it), tool:, "
        "rule:, verdict:, session:, agent:, result:, since:, until:; by:NAME who decided or changed it, "
        "kind: call, toggle, mode, limit, grant, rules, extension, freeze, or change for all but calls",
        key_display="/",
    ),
    key_binding("g", "group", "group", "decisions.group", "Count by rule, then by tool, then list"),
    key_binding(
        "r", "replay", "replay", "decisions.replay", "Go to this decision in the replay of its session"
    ),
    key_binding(
        "s", "shadow", "shadow", "decisions.shadow", "What enforce would have stopped, session by session"
    ),
    key_binding(
        "e",
        "enforce",
        "enforce",
        "decisions.enforce",
        "Switch this decision's session from shadow to enforce",
    ),
    key_binding("f", "fatigue", "approvals", "decisions.fatigue", "Approval statistics and suggestions"),
    key_binding(
        "p",
        "suggest",
        "suggest rules",
        "decisions.suggest",
        "Propose rules from this journal, for the rules files that are known here",
    ),
    # Shown in the title bar instead.
    key_binding("h", "app.history", "history", "decisions.history", "The recorded sessions", show=False),
    key_binding(
        "R", "app.rules", "rule files", "decisions.rules", "Rules files, and what they mean", show=False
    ),
    key_binding("f5", "reload", "reload", "decisions.reload", "Read the decisions again"),
    key_binding("escape", "leave", "back", "decisions.back", "Clear the filter, or go back"),
    *FOCUS_KEYS,
    COPY_KEY,
)
