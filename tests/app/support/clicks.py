"""A check for clickable text: only the key labels on frames may have click actions."""

from __future__ import annotations

from textual.app import App

from interlock.app.terminal.keymap import bindings_of


def clicks_of_others(app: App[None]) -> list[str]:
    """Return click actions in painted text that are not on a frame's lower edge or not of the screen.

    The edges are taken as painted: a frame that has just grown is already elsewhere.
    """
    own = {binding.action for binding in bindings_of(type(app.screen))} | {"submit"}
    compositor = app.screen._compositor
    painted = compositor.visible_widgets.items()
    edges = {region.bottom - 1 for widget, (region, _) in painted if widget.has_class("frame")}
    found: list[str] = []
    for y, strip in enumerate(compositor.render_strips()):
        for text, style, _ in strip:
            action = style.meta.get("@click") if style else None
            if action is not None and not (y in edges and action.removeprefix("screen.") in own):
                found.append(f"{action} at {text!r}")
    return found
