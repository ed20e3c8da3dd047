"""Key bindings of the rules screen."""

from __future__ import annotations

from textual.binding import BindingType

from ...terminal.bindings import COPY_KEY, FOCUS_KEYS, key_binding

RULES_KEYS: tuple[BindingType, ...] = (
    key_binding(
        "p",
        "picture",
        "picture",
        "rules.picture",
        "The net of this rule as places and transitions, as a session begins with it",
    ),
    key_binding("b", "backtest", "backtest", "rules.backtest", "Judge recorded calls under these rules"),
    key_binding(
        "a",
        "apply",
        "apply",
        "rules.apply",
        "Compare these rules with those of the server, and apply them there",
    ),
    key_binding(
        "n",
        "finding(1)",
        "next finding",
        "rules.next-finding",
        "Go to the next line with an error or a warning",
    ),
    key_binding(
        "N",
        "finding(-1)",
        "previous finding",
        "rules.previous-finding",
        "Go to the previous line with an error or a warning",
        show=False,
    ),
    key_binding(
        "e",
        "edit",
        "edit",
        "rules.edit",
        "Open this file in your editor ($VISUAL or $EDITOR); agents keep running",
    ),
    key_binding(
        "c",
        "copy_here",
        "copy here",
        "rules.copy",
        "Copy this file of the library into the folder of this console, to be changed there",
    ),
    key_binding("o", "name_files", "other files", "rules.open", "Name other rules files"),
    key_binding(
        "f5", "reload", "reload", "rules.reload", "Read the files again, and find out which there are"
    ),
    key_binding(
        "v", "app.decisions", "decisions", "rules.decisions", "All decisions of all sessions", show=False
    ),
    key_binding("h", "app.history", "history", "rules.history", "The recorded sessions", show=False),
    key_binding("escape", "leave", "back", "rules.back", "Close the line for names, or go back"),
    *FOCUS_KEYS,
    COPY_KEY,
)
