"""Base of the screens that show recorded sessions: resume and backtest."""

from __future__ import annotations

from datetime import tzinfo

from ....engine.history.model.state import SessionState, SessionSummary
from ....engine.hub.api import DecisionApi
from ...sources.messages import BacktestChosen
from ...widgets.base.greyed_keys import Parameters
from .deferred_paint import SettledScreen


class RecordedSessionScreen(SettledScreen[None], inherit_bindings=False):
    """Screen with one chosen session, or none. `zone` is the operator's; `None` means the machine's.

    `can_continue` means that there is a host that can resume sessions. A `journal` permits backtests.
    """

    def __init__(self, *, zone: tzinfo | None, can_continue: bool, journal: DecisionApi | None) -> None:
        super().__init__()
        self._zone = zone
        self._can_continue = can_continue
        self._journal = journal

    @property
    def state(self) -> SessionState | SessionSummary | None:
        """Return the chosen session."""
        raise NotImplementedError

    def offers(self, action: str, parameters: Parameters = ()) -> bool:
        """Offer only actions that this console can carry out."""
        match action:
            case "continue":
                return self._can_continue
            case "backtest":
                return self._journal is not None
            case _:
                return True

    def action_backtest(self) -> None:
        """Open a backtest of recorded calls with other rules, initially over the chosen session."""
        self.post_message(BacktestChosen.of(self.state))
