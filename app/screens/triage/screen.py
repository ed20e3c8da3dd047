"""The triage screen: the queue over the whole terminal, a line per request, in groups, with a preview."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input

from ....engine.approvals.request_order import ApprovalQueue, Unread
from ....engine.hub.hub import Outcome
from ...sources.messages import HubMoved
from ...viewmodels.stream import changes_queue
from ...widgets.base.bars import KeyBar
from ...widgets.base.title_bar import TitleBar
from ..common.deferred_paint import SettledScreen
from ..common.operator_context import OperatorContext
from .keys import TRIAGE_SCREEN_KEYS
from .pane import TriagePane


class TriageScreen(SettledScreen[None], inherit_bindings=False):
    """Triage of all open requests. New requests join the list instead of opening a dialog."""

    BINDINGS: ClassVar[list[BindingType]] = [*TRIAGE_SCREEN_KEYS]
    shows_queue = True

    def __init__(self, context: OperatorContext, deny_reasons: Sequence[str] = ()) -> None:
        super().__init__()
        self._hub = context.hub
        self._operator = context.operator
        self._pane = TriagePane(context, deny_reasons)

    def compose(self) -> ComposeResult:
        yield TitleBar(self._operator, self._hub.location, self._hub.server, here="triage")
        yield self._pane
        yield KeyBar()

    async def on_mount(self) -> None:
        self._pane.take_focus()
        self.set_interval(1.0, self._pane.paint)
        await self.read()

    def on_screen_resume(self) -> None:
        """Clear notices, which may cover a line; keys are inert for a moment."""
        self.app.clear_notifications()
        self._pane.fall_asleep()
        self.run_worker(self.read(), group="read", exclusive=True)

    @on(HubMoved)
    async def follow(self, moved: HubMoved) -> None:
        """Read the queue again if it has changed."""
        if not moved.events or any(changes_queue(event) for event in moved.events):
            await self.read()

    async def read(self) -> None:
        """Show the hub's current queue."""
        try:
            sessions = {state.id: state for state in await self._hub.sessions()}
            queue, unread = ApprovalQueue(await self._hub.approvals()), self._hub.unread()
        except Exception as error:
            self._pane.show(ApprovalQueue(), {}, Unread())
            self._pane.say(f"The hub does not answer: {error}")
            return
        self._pane.show(queue, sessions, unread)
        title = self.query_one(TitleBar)
        title.waiting, title.place = len(queue) + unread.requests, self._hub.location

    def tell(self, outcome: Outcome) -> None:
        """Show the outcome of a decision in a dialog over this screen."""
        self._pane.say(outcome.message, bad=not outcome.ok)

    @on(TriagePane.Exit)
    def leave(self) -> None:
        self.action_leave()

    @property
    def open_line(self) -> Input | None:
        """Return the line for a denial's reason while it is shown."""
        return self._pane.open_line
