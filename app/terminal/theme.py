"""The console's own themes: a dark one (signal box), a light one, and one with high contrast.

Colours are reserved for states. Text, including muted text, has a contrast ratio of at least 4.5 (WCAG 2,
AA) in all three themes, and of at least 7 in the high-contrast theme.
"""

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
    # Styles in content cannot resolve Textual's `auto 60%`, but can resolve a colour.
    variables={
        "text-muted": "#858d97",
        "scrollbar": "#3a4552",
        "scrollbar-background": "#151a21",
        "border-blurred": "#2b3440",
    },
)
DAYLIGHT = Theme(
    name="interlock-light",
    primary="#0b57a4",
    secondary="#6a36b0",
    accent="#7a4f00",
    warning="#8a4b00",
    error="#b3141d",
    success="#14632f",
    foreground="#0a0d11",
    background="#f7f8fa",
    surface="#ffffff",
    panel="#e6eaef",
    dark=False,
    variables={
        "text-muted": "#565d66",
        "scrollbar": "#a9b2bd",
        "scrollbar-background": "#e6eaef",
        "border-blurred": "#b9c1cb",
    },
)
HIGH_CONTRAST = Theme(
    name="interlock-contrast",
    primary="#8cc8ff",
    secondary="#dcb8ff",
    accent="#ffe08a",
    warning="#ffc14d",
    error="#ff9c9c",
    success="#7df0a8",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#000000",
    dark=True,
    variables={
        "text-muted": "#b8b8b8",
        "scrollbar": "#9a9a9a",
        "scrollbar-background": "#000000",
        "border-blurred": "#8a8a8a",
    },
)
OWN_THEMES = (SIGNAL_BOX, DAYLIGHT, HIGH_CONTRAST)


def theme_names() -> list[str]:
    """Return the names of all themes: ours first, then Textual's own."""
    from textual.theme import BUILTIN_THEMES

    return [theme.name for theme in OWN_THEMES] + sorted(BUILTIN_THEMES)
