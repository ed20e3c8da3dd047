"""Bindings of keys: how they are made, and those that every screen of the console has."""

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
    """A binding with what each one here has: its name in footer and help, its id and its tooltip."""
    return Binding(key, action, name, show, key_display, priority, tooltip, identifier)


def without_keys(keys: frozenset[str], binding: BindingType) -> Binding:
    """A binding without those of its keys that mean something else where it is."""
    assert isinstance(binding, Binding)
    return replace(binding, key=",".join(each for each in binding.key.split(",") if each not in keys))


# Before the part with the focus sees them: a key that follows at once then goes where the focus is going,
# not into the field before it.
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
        "Go to the part before",
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
