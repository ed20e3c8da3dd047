"""A console for what is recorded only: the history, or one session's replay, with no hub running."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import tzinfo
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ..engine.history.events import JournalEvent
from .history_source import HistorySource
from .palette import binding_commands
from .screens.help import help_for
from .screens.history import HistoryScreen
from .screens.panel import Panel
from .screens.replay import ReplayScreen
from .theme import SIGNAL_BOX


class HistoryConsole(App[None]):
    """Shows the sessions of `source`, or straight away the replay of `recorded`.

    Closes when the screen it started with is left.
    """

    TITLE = "Interlock"
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "question_mark,f1", "show_help", "help", id="app.help", tooltip="The keys that work here"
        ),
        Binding("q,ctrl+q", "quit", "quit", show=False, id="app.quit", tooltip="Leave the console"),
    ]

    def __init__(
        self,
        source: HistorySource,
        *,
        recorded: Sequence[JournalEvent] | None = None,
        zone: tzinfo | None = None,
    ) -> None:
        super().__init__()
        self._source = source
        self._recorded = recorded
        self._zone = zone
        self.register_theme(SIGNAL_BOX)
        self.theme = SIGNAL_BOX.name

    def on_mount(self) -> None:
        first: Screen[None] = (
            HistoryScreen(self._source, zone=self._zone)
            if self._recorded is None
            else ReplayScreen(self._recorded, zone=self._zone)
        )
        self.push_screen(first, lambda _: self.exit())

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        return binding_commands(self, screen)

    def action_show_help(self) -> None:
        """The keys that work where the operator is."""
        if not isinstance(self.screen, Panel):
            self.push_screen(help_for(self.screen))
