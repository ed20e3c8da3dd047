"""The part of a console that shows what is recorded: sessions, replays, decisions, and rules."""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING

from textual import on

from ..engine.clock import Clock, utc_now
from .appearance import Appearance
from .door import Door, Journal
from .history_source import HistorySource
from .key_rights import Permission
from .messages import BacktestChosen, ReplayChosen
from .terminal import TerminalApp
from .text import shown
from .visiting import visit

if TYPE_CHECKING:
    from .screens.history import HistoryScreen


class RecordedApp(TerminalApp):
    """Shows the sessions of `source`; screens are imported when they are first wanted.

    What its `journal` has is listed call by call and judged by other rules. With a `host` sessions go on,
    for its `operator`. `zone` is the operator's; `None` is the machine's.
    """

    def __init__(
        self,
        source: HistorySource,
        journal: Journal | None,
        appearance: Appearance | None,
        *,
        host: Door | None = None,
        operator: str = "",
        clock: Clock = utc_now,
        zone: tzinfo | None = None,
        permission: Permission | None = None,
    ) -> None:
        super().__init__(appearance, permission=permission)
        self.operator = operator
        self._source = source
        self._journal = journal
        self._host = host
        self._clock = clock
        self._zone = zone

    def _history(self) -> HistoryScreen:
        from .screens.history import HistoryScreen

        goes_on = self._host is not None
        return HistoryScreen(self._source, zone=self._zone, goes_on=goes_on, journal=self._journal)

    @on(ReplayChosen)
    def replay_chosen(self, event: ReplayChosen) -> None:
        """Replay a session, from one of its decisions where that is what was chosen."""
        self.run_worker(self._replay(event), group="screens", exclusive=True, exit_on_error=False)

    async def _replay(self, chosen: ReplayChosen) -> None:
        from .playable import open_recorded
        from .screens.replay import ReplayScreen

        try:
            ready = await open_recorded(self._source, chosen.session_id, chosen.at)
        except Exception as error:
            self.notify(shown(str(error)), title="Cannot replay", severity="error", markup=False)
            return
        goes_on = self._host is not None
        replay = ReplayScreen(
            ready,
            zone=self._zone,
            goes_on=goes_on,
            journal=self._journal,
            sessions=self._source,
            at=chosen.at,
        )
        self.call_later(self.push_screen, replay)

    @on(BacktestChosen)
    def backtest_chosen(self, event: BacktestChosen) -> None:
        """Judge recorded calls by other rules."""
        from .screens.backtest import BacktestScreen

        if self._journal is not None:
            chosen = (event.session_id, event.rules)
            self.push_screen(BacktestScreen(self._journal, *chosen, clock=self._clock, zone=self._zone))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Decisions are shown where the journal is."""
        return self._journal is not None if action == "decisions" else True

    async def action_history(self) -> None:
        """The recorded sessions."""
        from .screens.history import HistoryScreen

        await visit(self, HistoryScreen, self._history)

    async def action_decisions(self) -> None:
        """All decisions of all sessions."""
        from .screens.decisions import DecisionsScreen

        journal = self._journal
        if journal is not None:
            await visit(
                self,
                DecisionsScreen,
                lambda: DecisionsScreen(
                    journal,
                    sessions=self._source,
                    hub=self._host,
                    operator=self.operator,
                    clock=self._clock,
                    zone=self._zone,
                ),
            )

    async def action_rules(self) -> None:
        """The rules of the chosen session, and others."""
        from .rules_desk import visit_rules

        await visit_rules(self, self._source, judges=self._journal is not None)
