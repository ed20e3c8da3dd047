"""A console for what is recorded only: the history, or one session's replay, with no hub running."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen

from ..engine.clock import Clock, utc_now
from ..engine.history.events import JournalEvent
from ..engine.judging import JudgedSource
from .appearance import Appearance
from .collector import settle_collector
from .history_source import HistorySource
from .playable import Playable
from .recorded_app import RecordedApp
from .screens.replay import ReplayScreen


class HistoryConsole(RecordedApp):
    """Shows the sessions of `source`, or straight away the replay of `recorded`.

    Closes when the screen it started with is left.
    """

    TITLE = "Interlock"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit", show=False, id="app.quit", tooltip="Leave the console"),
    ]

    def __init__(
        self,
        source: HistorySource,
        *,
        recorded: Playable | Sequence[JournalEvent] | None = None,
        zone: tzinfo | None = None,
        clock: Clock = utc_now,
        appearance: Appearance | None = None,
    ) -> None:
        journal = source if isinstance(source, JudgedSource) else None
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
