"""Display of a freeze of all agents: a line on every screen while the freeze lasts."""

from __future__ import annotations

from textual.app import App
from textual.content import Content
from textual.screen import Screen

from ...engine.history.model.records import FreezeRecord
from ...engine.hub.api import HubApi
from ..format.text import shown
from ..terminal.key_rights import Permission
from ..terminal.keymap import key_of
from .outage_line import OutageLine
from .status_line import StatusDisplay, StatusLine


class FreezeLine(StatusLine[FreezeRecord]):
    """First line of a screen while all agents are frozen.

    In an outage it comes below the lines on that. `key` is the key that lifts the freeze, or `None` if
    the operator may not lift it.
    """

    DEFAULT_CSS = """
    FreezeLine {
        height: 1; background: $warning; color: $background;
        &.-below { margin-top: 2; }
    }
    """

    def __init__(self, freeze: FreezeRecord, key: str | None) -> None:
        super().__init__(freeze)
        self._key = key

    def render(self) -> Content:
        width, words = self.content_size.width, shown(self.state.words)
        lines = [f"ALL AGENTS {words} · new calls wait", f"ALL AGENTS {words}"]
        if self._key is not None:
            lines.insert(0, f"{lines[0]} · {self._key} lifts it")
        found = next((line for line in map(Content, lines) if line.cell_length <= width), None)
        return found or Content(lines[-1]).truncate(width, ellipsis=True)

    def update_on(self, screen: Screen[object]) -> None:
        self.set_class(bool(screen.query(OutageLine)), "-below")


class FreezeDisplay(StatusDisplay[FreezeRecord]):
    """Shows a `FreezeLine` while all agents are frozen."""

    def __init__(self, app: App[None], hub: HubApi, permission: Permission) -> None:
        super().__init__(app, FreezeLine)
        self._hub = hub
        self._permission = permission

    def _state(self) -> FreezeRecord | None:
        return self._hub.current_freeze()

    def _line(self, state: FreezeRecord) -> FreezeLine:
        lifts = self._permission.refusal("administer") is None
        return FreezeLine(state, key_of(type(self._app), "app.freeze") if lifts else None)
