"""The console's own theme: a dark signal box, colours kept for states."""

from __future__ import annotations

from textual.theme import Theme

SIGNAL_BOX = Theme(
    name="interlock",
    primary="#6cb6ff",
    secondary="#c297ff",
    accent="#e8c07d",
    warning="#f2a93b",
    error="#ff6b6b",
    success="#62c98a",
    foreground="#d5dbe3",
    background="#0f1318",
    surface="#151a21",
    panel="#1d242d",
    dark=True,
    # Styles of content do not resolve Textual's `auto 60%`; a colour they do.
    variables={
        "text-muted": "#858d97",
        "scrollbar": "#3a4552",
        "scrollbar-background": "#151a21",
        "border-blurred": "#2b3440",
    },
)
