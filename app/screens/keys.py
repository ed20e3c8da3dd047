"""Keys that every screen of the console has."""

from __future__ import annotations

from textual.binding import Binding

FOCUS_KEYS = (
    Binding(
        "tab", "app.focus_next", "next part", show=False, id="focus.next", tooltip="Go to the next part"
    ),
    Binding(
        "shift+tab",
        "app.focus_previous",
        "previous part",
        show=False,
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
