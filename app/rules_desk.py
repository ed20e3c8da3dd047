"""Going to the rules screen from wherever the operator is, with the rules of the session shown there."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from textual.app import App

from ..engine.history.state import SessionState, SessionSummary
from .history_source import HistorySource
from .rules_files import files_of
from .screens.rules import RulesScreen
from .visiting import visit


@runtime_checkable
class ShowsSession(Protocol):
    """A screen on which one session is the chosen one, or none."""

    @property
    def state(self) -> SessionState | SessionSummary | None: ...


async def visit_rules(app: App[None], source: HistorySource, *, judges: bool) -> None:
    """Show the rules screen; one that is open below shows the rules of the session chosen here."""
    screen = app.screen
    state = screen.state if isinstance(screen, ShowsSession) else None
    session, files = (None if state is None else state.id), files_of(state)
    found = [each for each in app.screen_stack if isinstance(each, RulesScreen)]
    await visit(
        app,
        RulesScreen,
        lambda: RulesScreen(source, session=session, files=files, judges=judges),
    )
    if found and found[-1] is not screen:
        found[-1].choose(session, files)
