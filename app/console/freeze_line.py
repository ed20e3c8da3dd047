"""Display of a freeze of all agents: a line on every screen while the freeze lasts."""

from __future__ import annotations

from contextlib import suppress

from textual.app import App
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget

from ...engine.history.model.records import FreezeRecord
from ...engine.hub.api import HubApi
from ..format.text import shown
from ..terminal.key_rights import Permission
from ..terminal.keymap import key_of
from .outage_line import OutageLine

LOOKS_PER_SECOND = 2


class FreezeLine(Widget):
    """First line of a screen while all agents are frozen. On a dialog it overlays the screen below.

    In an outage it comes below the lines on that. `key` is the key that lifts the freeze, or `None` if
    the operator may not lift it.
    """

    DEFAULT_CSS = """
    FreezeLine {
        dock: top; height: 1; padding: 0 1;
        background: $warning; color: $background; text-style: bold;
        &.-over { layer: _loading; }
        &.-below { margin-top: 2; }
    }
    """

    def __init__(self, freeze: FreezeRecord, key: str | None) -> None:
        super().__init__()
        self.freeze = freeze
        self._key = key

    def render(self) -> Content:
        width, words = self.content_size.width, shown(self.freeze.words)
        lines = [f"ALL AGENTS {words} · new calls wait", f"ALL AGENTS {words}"]
        if self._key is not None:
            lines.insert(0, f"{lines[0]} · {self._key} lifts it")
        found = next((line for line in map(Content, lines) if line.cell_length <= width), None)
        return found or Content(lines[-1]).truncate(width, ellipsis=True)


class FreezeDisplay:
    """Shows a `FreezeLine` on every screen of `app`, including screens opened later."""

    def __init__(self, app: App[None], hub: HubApi, permission: Permission) -> None:
        self._app = app
        self._hub = hub
        self._permission = permission

    def begin(self) -> None:
        """Start to follow the hub's freeze. Polls, because not every hub reports changes."""
        self._app.set_interval(1 / LOOKS_PER_SECOND, self.look)
        self._app.call_after_refresh(self.look)

    async def look(self) -> None:
        """Update the line on every screen to the current state."""
        freeze: FreezeRecord | None = None
        with suppress(Exception):  # The screens show the hub's error.
            freeze = self._hub.current_freeze()
        for screen in list(self._app.screen_stack):
            if not screen.is_mounted:
                continue
            lines = list(screen.query(FreezeLine))
            is_below = bool(screen.query(OutageLine))
            if [line.freeze for line in lines] == ([] if freeze is None else [freeze]):
                for line in lines:
                    line.set_class(is_below, "-below")
                continue
            for line in lines:
                await line.remove()
            if freeze is not None:
                lifts = self._permission.refusal("administer") is None
                line = FreezeLine(freeze, key_of(type(self._app), "app.freeze") if lifts else None)
                line.set_class(isinstance(screen, ModalScreen), "-over")
                line.set_class(is_below, "-below")
                await screen.mount(line, before=0)
