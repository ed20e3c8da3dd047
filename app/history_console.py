"""A console for what is recorded only: the history, or one session's replay, with no hub running."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ..engine.history.decision_source import DecisionSource
from ..engine.history.events import JournalEvent
from .appearance import Appearance
from .collector import settle_collector
from .history_source import HistorySource
from .messages import BacktestChosen, ReplayChosen
from .playable import Playable, open_recorded
from .screens.decisions import DecisionsScreen
from .screens.history import HistoryScreen
from .screens.replay import ReplayScreen
from .terminal import TerminalApp
from .text import shown, utc_now
from .visiting import visit


class HistoryConsole(TerminalApp):
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
        clock: Callable[[], datetime] = utc_now,
        appearance: Appearance | None = None,
    ) -> None:
        super().__init__(appearance)
        self._source = source
        self._clock = clock
        self._recorded = recorded
        self._zone = zone

    def on_mount(self) -> None:
        first: Screen[None] = (
            self._history()
            if self._recorded is None
            else ReplayScreen(self._recorded, zone=self._zone, journal=self._journal)
        )
        self.push_screen(first, lambda _: self.exit())
        if not self.is_headless:
            self.call_after_refresh(settle_collector)

    @property
    def _journal(self) -> DecisionSource | None:
        """The journal that can be judged by other rules, where there is one."""
        return self._source if isinstance(self._source, DecisionSource) else None

    def _history(self) -> HistoryScreen:
        return HistoryScreen(self._source, zone=self._zone, journal=self._journal)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Decisions are shown where the source has them."""
        return isinstance(self._source, DecisionSource) if action == "decisions" else True

    @on(BacktestChosen)
    def backtest_chosen(self, event: BacktestChosen) -> None:
        """Judge recorded calls by other rules."""
        from .screens.backtest import BacktestScreen

        if self._journal is not None:
            chosen = (event.session_id, event.rules)
            screen = BacktestScreen(self._journal, *chosen, clock=self._clock, zone=self._zone)
            self.push_screen(screen)

    @on(ReplayChosen)
    def replay_chosen(self, event: ReplayChosen) -> None:
        """Replay a session from one of its decisions."""
        self.run_worker(self._replay(event), group="screens", exclusive=True, exit_on_error=False)

    async def _replay(self, chosen: ReplayChosen) -> None:
        try:
            ready = await open_recorded(self._source, chosen.session_id, chosen.at)
        except Exception as error:
            self.notify(shown(str(error)), title="Cannot replay", severity="error", markup=False)
            return
        replay = ReplayScreen(ready, zone=self._zone, journal=self._journal, at=chosen.at)
        self.call_later(self.push_screen, replay)

    async def action_history(self) -> None:
        """The recorded sessions."""
        await visit(self, HistoryScreen, self._history)

    async def action_decisions(self) -> None:
        """All decisions of all sessions."""
        source = self._source
        if isinstance(source, DecisionSource):
            await visit(
                self,
                DecisionsScreen,
                lambda: DecisionsScreen(source, clock=self._clock, zone=self._zone),
            )

    async def action_rules(self) -> None:
        """The rules of the chosen session, and others."""
        from .rules_desk import visit_rules

        await visit_rules(self, self._source, judges=self._journal is not None)
