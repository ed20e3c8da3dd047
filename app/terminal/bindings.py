"""Keys that every screen of the console has."""

from __future__ import annotations

from textual.binding import Binding

# Before the part with the focus sees them: a key that follows at once then goes where the focus is going,
# not into the field before it.
FOCUS_KEYS = (
    Binding(
        "tab",
        "app.focus_next",
        "next part",
        show=False,
        priority=True,
        id="focus.next",
        tooltip="Go to the next part",
    ),
    Binding(
        "shift+tab",
        "app.focus_previous",
        "previous part",
        show=False,
        priority=True,
        id="focus.previous",
        tooltip="Go to the part before",
    ),
)
COPY_KEY = Binding(
    "ctrl+c,super+c",
    "screen.copy_text",
    "copy",
    show=False,
    id="screen.copy",
    tooltip="Copy the text selected with the mouse",
)
FOLD_KEY = Binding("space", "fold", "show all", id="approval.fold", tooltip="Show or fold the long lines")
HELP_KEY = Binding(
    "question_mark,f1", "app.show_help", "help", id="app.help", tooltip="The keys that work here"
)
COMMANDS_KEY = Binding(
    "ctrl+p",
    "app.command_palette",
    "commands",
    show=False,
    priority=True,
    id="app.commands",
    tooltip="Every action by name",
)
LEAVE_KEY = Binding(
    "ctrl+q",
    "app.quit",
    "quit",
    show=False,
    priority=True,
    id="app.quit-anywhere",
    tooltip="Leave the console",
)
