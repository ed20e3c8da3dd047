"""Display of an outage of the journal: two lines on every screen, nothing in normal times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo

from textual.app import App
from textual.content import Content
from textual.screen import Screen

from ...engine.core.clock import Clock
from ...engine.history.model.records import JournalOutage
from ...engine.hub.api import HubApi
from ..format.outage import outage_cause, outage_consequences, outage_headline
from ..format.text import shown
from ..terminal.charset import to_charset
from ..terminal.key_rights import Permission
from .status_line import StatusDisplay, StatusLine

LEAST_REASON = 24
"""Fewest cells in which a truncated reason is shown."""


class OutageLine(StatusLine[JournalOutage]):
    """First two lines of a screen during an outage.

    The upper line has the fault and its start, the lower one the consequences for an operator who
    `decides` or only looks.
    """

    DEFAULT_CSS = """
    OutageLine {
        height: 2; background: $error; color: $text;
    }
    """

    def __init__(
        self, outage: JournalOutage, now: Callable[[], datetime], zone: tzinfo | None, *, decides: bool
    ) -> None:
        super().__init__(outage)
        self._now = now
        self._zone = zone
        self._decides = decides

    def render(self) -> Content:
        width = self.content_size.width
        head = f"{to_charset('✗')} {outage_headline(self.state, self._now(), self._zone)}"
        if len(head) + LEAST_REASON <= width:
            reasons = shown(self.state.reason), shown(outage_cause(self.state))
            head += (
                f": {next((each for each in reasons if len(head) + 2 + len(each) <= width), reasons[1])}"
            )
        texts = [Content(each) for each in outage_consequences(self.state, decides=self._decides)]
        fitting = next((each for each in texts if each.cell_length <= width), texts[-1])
        lines = Content(head), fitting
        return Content("\n").join(each.truncate(width, ellipsis=True) for each in lines)

    def update_on(self, screen: Screen[object]) -> None:
        self.refresh()  # the time that it has lasted


class OutageDisplay(StatusDisplay[JournalOutage]):
    """Shows an `OutageLine` during an outage."""

    def __init__(
        self, app: App[None], hub: HubApi, permission: Permission, clock: Clock, zone: tzinfo | None
    ) -> None:
        super().__init__(app, OutageLine)
        self._hub = hub
        self._permission = permission
        self._clock = clock
        self._zone = zone

    def _state(self) -> JournalOutage | None:
        return self._hub.current_outage()

    def _line(self, state: JournalOutage) -> OutageLine:
        decides = self._permission.refusal("decide") is None
        return OutageLine(state, self._clock, self._zone, decides=decides)
