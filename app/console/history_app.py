"""Console for recorded data only: the history, or the replay of one session, without a running hub."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import ClassVar

from textual.binding import BindingType
from textual.screen import Screen

from ...engine.core.clock import Clock, utc_now
from ...engine.history.model.events import JournalEvent
from ...engine.hub.api import HistoryApi
from ...engine.hub.backtest_api import BacktestSource
from ..screens.replay.screen import ReplayScreen
from ..terminal.appearance import Appearance
from ..terminal.bindings import key_binding
from ..terminal.gc import settle_collector
from ..viewmodels.playback import Playable
from .app import RecordedApp


class HistoryConsole(RecordedApp):
    """Shows the sessions of `source`, or directly the replay of `recorded`.

    Closes when its first screen is left.
    """

    TITLE = "Interlock"
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("q", "quit", "quit", "app.quit", "Leave the console", show=False),
    ]

    def __init__(
        self,
        source: HistoryApi,
        *,
        recorded: Playable | Sequence[JournalEvent] | None = None,
        zone: tzinfo | None = None,
        clock: Clock = utc_now,
        appearance: Appearance | None = None,
    ) -> None:
        journal = source if isinstance(source, BacktestSource) else None
        super().__init__(source, journal, appearance, clock=clock, zone=zone)
        self._recorded = recorded

    def on_mount(self) -> None:
        first: Screen[None] = (
            self._history()
            if self._recorded is None
            else ReplayScreen(
                self._recorded, zone=self._zone, journal=self._journal, sessions=self._source
            )
        )
        self.push_screen(first, lambda _: self.exit())
        if not self.is_headless:
            self.call_after_refresh(settle_collector)
