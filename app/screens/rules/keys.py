"""The keys of the rules screen."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from ...terminal.bindings import COPY_KEY, FOCUS_KEYS

RULES_KEYS: tuple[BindingType, ...] = (
    Binding(
        "p",
        "picture",
        "picture",
        id="rules.picture",
        tooltip="The net of this rule as places and transitions, as a session begins with it",
    ),
    Binding(
        "b",
        "backtest",
        "backtest",
        id="rules.backtest",
        tooltip="Judge recorded calls under these rules",
    ),
    Binding(
        "n",
        "finding(1)",
        "next finding",
        id="rules.next-finding",
        tooltip="Go to the next line with an error or a warning",
    ),
    Binding(
        "N",
        "finding(-1)",
        "finding before",
        show=False,
        id="rules.previous-finding",
        tooltip="Go to the line with an error or a warning before this one",
    ),
    Binding(
        "e",
        "edit",
        "edit",
        id="rules.edit",
        tooltip="Open this file in your editor ($VISUAL or $EDITOR); agents keep running",
    ),
    Binding("o", "name_files", "other files", id="rules.open", tooltip="Name other rules files"),
    Binding(
        "f5",
        "reload",
        "reload",
        id="rules.reload",
        tooltip="Read the files again, and find out which there are",
    ),
    Binding(
        "v",
        "app.decisions",
        "decisions",
        show=False,
        id="rules.decisions",
        tooltip="All decisions of all sessions",
    ),
    Binding(
        "h",
        "app.history",
        "history",
        show=False,
        id="rules.history",
        tooltip="The recorded sessions",
    ),
    Binding("escape", "leave", "back", id="rules.back", tooltip="Close the line for names, or go back"),
    *FOCUS_KEYS,
    COPY_KEY,
)
