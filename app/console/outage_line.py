"""Display of an outage of the journal: two lines on every screen, nothing in normal times."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, tzinfo

from textual.app import App
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget

from ...engine.core.clock import Clock
from ...engine.history.model.records import JournalOutage
from ...engine.hub.api import HubApi
from ..format.outage import outage_consequences, outage_headline
from ..format.text import shown
from ..terminal.charset import to_charset
from ..terminal.key_rights import Permission

LOOKS_PER_SECOND = 2
LEAST_REASON = 24
"""Fewest cells in which a truncated reason is shown."""


class OutageLine(Widget):
    """First two lines of a screen during an outage. On a dialog they overlay the screen below.

    The upper line has the fault and its start, the lower one the consequences for an operator who
    `decides` or only looks.
    """

    DEFAULT_CSS = """
    OutageLine {
        dock: top; height: 2; padding: 0 1;
        background: $error; color: $text; text-style: bold;
        &.-over { layer: _loading; }
    }
    """

    def __init__(
        self, outage: JournalOutage, now: Callable[[], datetime], zone: tzinfo | None, *, decides: bool
    ) -> None:
        super().__init__()
        self.outage = outage
        self._now = now
        self._zone = zone
        self._decides = decides

    def render(self) -> Content:
        width = self.content_size.width
        head = f"{to_charset('✗')} {outage_headline(self.outage, self._now(), self._zone)}"
        if len(head) + LEAST_REASON <= width:
            head += f": {shown(self.outage.reason)}"
        texts = [Content(each) for each in outage_consequences(self.outage, decides=self._decides)]
        fitting = next((each for each in texts if each.cell_length <= width), texts[-1])
        lines = Content(head), fitting
        return Content("\n").join(each.truncate(width, ellipsis=True) for each in lines)


class OutageDisplay:
    """Keeps these lines on the screens of `app`, including those opened during an outage."""

    def __init__(
        self, app: App[None], hub: HubApi, permission: Permission, clock: Clock, zone: tzinfo | None
    ) -> None:
        self._app = app
        self._hub = hub
        self._permission = permission
        self._clock = clock
        self._zone = zone

    def begin(self) -> None:
        """Start polling the hub: not every hub publishes its outages."""
        self._app.set_interval(1 / LOOKS_PER_SECOND, self.look)
        self._app.call_after_refresh(self.look)

    async def look(self) -> None:
        """Update every screen to the current state."""
        outage: JournalOutage | None = None
        with suppress(Exception):  # A hub that cannot be reached is reported by the screens.
            outage = self._hub.current_outage()
        for screen in list(self._app.screen_stack):
            if not screen.is_mounted:
                continue
            lines = list(screen.query(OutageLine))
            if [line.outage for line in lines] == ([] if outage is None else [outage]):
                for line in lines:
                    line.refresh()  # the time that it has lasted
                continue
            for line in lines:
                await line.remove()
            if outage is not None:
                decides = self._permission.refusal("decide") is None
                line = OutageLine(outage, self._clock, self._zone, decides=decides)
                line.set_class(isinstance(screen, ModalScreen), "-over")
                await screen.mount(line, before=0)
