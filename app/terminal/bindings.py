"""Key bindings: how they are created, and those that all screens of the console share."""

from __future__ import annotations

from dataclasses import replace

from textual.binding import Binding, BindingType


def key_binding(
    key: str,
    action: str,
    name: str,
    identifier: str,
    tooltip: str,
    *,
    show: bool = True,
    key_display: str | None = None,
    priority: bool = False,
) -> Binding:
    """Create a binding with the attributes that each one needs: label, id and tooltip."""
    return Binding(key, action, name, show, key_display, priority, tooltip, identifier)


def without_keys(keys: frozenset[str], binding: BindingType) -> Binding:
    """Return a binding without those of its keys that have another meaning there."""
    assert isinstance(binding, Binding)
    return replace(binding, key=",".join(each for each in binding.key.split(",") if each not in keys))


SCREENS = ("live", "decisions", "history", "rules", "triage")
"""Screens that a digit key opens from everywhere, in the order of the digits."""


def screen_key(screen: str, tooltip: str) -> Binding:
    """Create the binding of a screen's digit key; the title bar shows it."""
    digit = str(SCREENS.index(screen) + 1)
    # `rules` in the palette and in a screen's keys means the rules of the session.
    name = "rule files" if screen == "rules" else screen
    return key_binding(digit, f"app.{screen}", name, f"app.{screen}", tooltip, show=False)


_ON_A_MAC = ("inverted_exclamation_mark", "trade_mark_sign", "pound_sign", "cent_sign", "infinity")
"""Characters typed by alt with `1` to `5` on a Mac.

Textual also reads escape and a digit, which most terminals send for alt and the digit, as these
characters.
"""


def pane_key(
    number: int, pane: str, title: str, identifier: str, tooltip: str, *, priority: bool = False
) -> Binding:
    """Create the binding of a screen's pane: alt and a digit, as terminals send them."""
    return key_binding(
        f"alt+{number},{_ON_A_MAC[number - 1]}",
        f"pane('{pane}')",
        f"go to {title.lower()}",
        identifier,
        tooltip,
        show=False,
        key_display=f"alt+{number}",
        priority=priority,
    )


# Priority bindings, so that the next key goes to the new focus and not to the field before it.
FOCUS_KEYS = (
    key_binding(
        "tab",
        "app.focus_next",
        "next part",
        "focus.next",
        "Go to the next part",
        show=False,
        priority=True,
    ),
    key_binding(
        "shift+tab",
        "app.focus_previous",
        "previous part",
        "focus.previous",
        "Go to the previous part",
        show=False,
        priority=True,
    ),
)
COPY_KEY = key_binding(
    "ctrl+c,super+c",
    "screen.copy_text",
    "copy",
    "screen.copy",
    "Copy the text selected with the mouse",
    show=False,
)
FOLD_KEY = key_binding("space", "fold", "show all", "approval.fold", "Show or fold the long lines")
HELP_KEY = key_binding("question_mark,f1", "app.show_help", "help", "app.help", "The keys that work here")
COMMANDS_KEY = key_binding(
    "ctrl+p",
    "app.command_palette",
    "commands",
    "app.commands",
    "Every action by name",
    show=False,
    priority=True,
)
LEAVE_KEY = key_binding(
    "ctrl+q", "app.quit", "quit", "app.quit-anywhere", "Leave the console", show=False, priority=True
)
