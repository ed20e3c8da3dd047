"""Bases of the screens that show recorded sessions: continuing one, and judging its calls."""

from __future__ import annotations

from datetime import tzinfo

from textual import on

from ....engine.history.model.state import SessionState, SessionSummary
from ....engine.hub.api import DecisionApi, HistoryApi
from ...format.text import count, shown
from ...sources.messages import BacktestChosen, HubMoved
from ...viewmodels.playback import Playable
from ...viewmodels.replay_feed import NotRead, ReadAgain, ReplayFeed
from .deferred_paint import SettledScreen


class RecordedScreen(SettledScreen[None], inherit_bindings=False):
    """A screen with one session chosen, or none. `zone` is the operator's; `None` is the machine's.

    With `goes_on` it can be continued, as something hosts it; with a `journal` judged by other rules.
    """

    def __init__(self, *, zone: tzinfo | None, goes_on: bool, journal: DecisionApi | None) -> None:
        super().__init__()
        self._zone = zone
        self._goes_on = goes_on
        self._journal = journal

    @property
    def state(self) -> SessionState | SessionSummary | None:
        """The chosen session."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only actions that this console can carry out."""
        match action:
            case "continue":
                return self._goes_on
            case "backtest":
                return self._journal is not None
            case _:
                return True

    def action_backtest(self) -> None:
        """Judge recorded calls by other rules, those of the chosen session first."""
        self.post_message(BacktestChosen.of(self.state))


# A screen that shows a recorded session which may go on meanwhile.


class GrowingScreen(RecordedScreen, inherit_bindings=False):
    """Has its session read again from `sessions` when something happens in it, and when asked to."""

    def __init__(
        self,
        session: str | None,
        sessions: HistoryApi | None,
        *,
        zone: tzinfo | None,
        goes_on: bool,
        journal: DecisionApi | None,
    ) -> None:
        super().__init__(zone=zone, goes_on=goes_on, journal=journal)
        self._feed = None
        if sessions is not None and session is not None:
            self._feed = ReplayFeed(sessions, session, self, lambda: self.here)

    @property
    def known(self) -> int:
        """Number of the session's events that have been read."""
        raise NotImplementedError

    @property
    def here(self) -> int:
        """The number of the event that is shown."""
        raise NotImplementedError

    def grow(self, ready: Playable) -> None:
        """There are more events; the moment that is shown is to stay as it is."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """It can be read again only where it was read from."""
        return self._feed is not None if action == "reload" else super().check_action(action, parameters)

    @on(HubMoved)
    def follow(self, moved: HubMoved) -> None:
        """Have what happens in the session meanwhile, too."""
        if self._feed is not None and self._feed.heard(moved.events, self.known):
            self._feed.soon()

    def action_reload(self) -> None:
        """Have what was recorded since."""
        if self._feed is not None:
            self._feed.now(asked=True)

    @on(ReadAgain)
    def take_more(self, message: ReadAgain) -> None:
        """Grow by the events that are new."""
        more = len(message.ready.events) - self.known
        if more > 0:
            self.grow(message.ready)
        if message.asked:
            self.notify(f"{count(more, 'event')} more" if more > 0 else "Nothing was recorded since")

    @on(NotRead)
    def stay(self, message: NotRead) -> None:
        """Keep the events that have been read, and notify the operator why no more could be."""
        self.notify(shown(message.error), title="Cannot read it again", severity="error", markup=False)
