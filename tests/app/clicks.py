"""Where a click does something that is written into the text: only on what frames say of their keys."""

from __future__ import annotations

from textual.app import App

from interlock.app.keymap import bindings_of


def clicks_of_others(app: App[None]) -> list[str]:
    """Actions in painted text that do not stand on the lower edge of a frame, or are not its screen's."""
    own = {binding.action for binding in bindings_of(type(app.screen))} | {"submit"}
    edges = {frame.region.bottom - 1 for frame in app.screen.query(".frame")}
    found: list[str] = []
    for y, strip in enumerate(app.screen._compositor.render_strips()):
        for text, style, _ in strip:
            action = style.meta.get("@click") if style else None
            if action is not None and not (y in edges and action.removeprefix("screen.") in own):
                found.append(f"{action} at {text!r}")
    return found
