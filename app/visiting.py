"""Going to a screen of which there is one: back to it where it is open below, else to a new one."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import App
from textual.screen import Screen


async def visit(app: App[None], kind: type[Screen[None]], make: Callable[[], Screen[None]]) -> None:
    """Show the screen of this `kind`."""
    if not any(isinstance(screen, kind) for screen in app.screen_stack):
        app.push_screen(make())
        return
    while not isinstance(app.screen, kind):
        await app.pop_screen()
