"""Navigation: the request that the dialog shows, and screens that exist only once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, runtime_checkable

from textual.app import App
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, TextArea

from ...engine.history.model.events import ApprovalRequested
from ...engine.history.model.state import ApprovalState, SessionState, SessionSummary
from ...engine.hub.api import HistoryApi
from ...engine.hub.hub import Outcome, UnknownSessionError
from ..format.text import name_shown, shown
from ..screens.approval.screen import ApprovalScreen
from ..screens.common.operator_context import OperatorContext
from ..screens.rules.screen import RulesScreen
from ..sources.rules_files import files_of
from ..widgets.inputs.safe_input import TakesText


@runtime_checkable
class ShowsQueue(Protocol):
    """A screen on which an operator may be going through the queue, request by request."""

    @property
    def shows_queue(self) -> bool:
        """Return whether the operator is going through the queue now."""
        ...

    def tell(self, outcome: Outcome) -> None:
        """Show the outcome of a decision made in a dialog over this screen."""


class DialogManager:
    """Shows requests in the `dialog` of an app, one after the other."""

    def __init__(self, app: App[None], context: OperatorContext, dialog: ApprovalScreen) -> None:
        self._app = app
        self._hub = context.hub
        self._dialog = dialog
        self._next_requests: list[str] = []
        self._monotonic = context.monotonic
        self._new_requests = 0
        self._announced_at = float("-inf")
        self._latest = ""
        self._notice_is_due = False

    async def present(self, body: ApprovalRequested) -> bool:
        """Show a new request unless the operator is typing or reading a dialog. Return whether it was
        shown.

        A request that arrives while the dialog closes after a decision is shown next. A request that
        arrives while the operator goes through the queue joins the queue.
        """
        if isinstance(self._app.screen, ApprovalScreen):
            # The dialog shows how many requests wait; a notice would cover that.
            if self._app.screen.deciding:
                self._next_requests.append(body.approval_id)
            return False
        screen = self._app.screen
        if isinstance(screen, ShowsQueue) and screen.shows_queue:
            return False
        if self._busy():
            self._announce(body)
            return False
        return await self.open(body.approval_id)

    def _announce(self, body: ApprovalRequested) -> None:
        """Count a new request in the notice. One notice covers all requests that arrive while it is
        shown.

        The notice is shown after the next paint. Otherwise the first of several requests before that
        paint would keep a notice of its own.
        """
        now = self._monotonic()
        within_notice = now - self._announced_at < self._app.NOTIFICATION_TIMEOUT
        self._new_requests = self._new_requests + 1 if within_notice else 1
        self._announced_at = now
        self._latest = name_shown(body.tool)
        if not self._notice_is_due:
            self._notice_is_due = self._app.call_after_refresh(self._show_notice)

    def _show_notice(self) -> None:
        self._notice_is_due = False
        if self._new_requests > 1:
            self._app.clear_notifications()
        self._app.notify(
            f"{self._latest} needs approval."
            if self._new_requests == 1
            else f"{self._new_requests} new requests; the latest: {self._latest}.",
            title="New request" if self._new_requests == 1 else "New requests",
            severity="warning",
            markup=False,
        )

    def _busy(self) -> bool:
        screen = self._app.screen
        typing = isinstance(screen.focused, Input | TextArea) or self._line_is_open()
        return isinstance(screen, ModalScreen) or typing

    def _line_is_open(self) -> bool:
        """Return whether a text line is open for typing.

        A dialog would take the typed keys for decisions.
        """
        screen = self._app.screen
        return isinstance(screen, TakesText) and screen.open_line is not None

    async def open(self, approval_id: str, why: str = "") -> bool:
        """Open the dialog of an open request over any screen, with the reason `why`.

        Return whether it opened.
        """
        app = self._app
        try:
            request = next((a for a in await self._hub.approvals() if a.id == approval_id), None)
            if request is None:
                app.notify("This request is no longer open.")
                return False
            sessions = await self._live_sessions(request)
        except Exception as error:
            app.notify(shown(str(error)), title="Cannot open the request", severity="error", markup=False)
            return False
        if isinstance(app.screen, ModalScreen) or self._line_is_open():
            return False
        app.clear_notifications()
        session, speaker = sessions.get(request.session), sessions.get(request.via or "")
        self._dialog.present(request, session, speaker, why)
        app.push_screen(self._dialog, self._after_dialog)
        return True

    async def _live_sessions(self, request: ApprovalState) -> dict[str, SessionState]:
        """Return the live sessions, including the request's while a server's are still being read."""
        sessions = {state.id: state for state in await self._hub.sessions()}
        for session in (request.session, request.via):
            if session is not None and session not in sessions and self._hub.unread().sessions:
                with suppress(UnknownSessionError):
                    sessions[session] = await self._hub.session(session)
        return sessions

    async def _after_dialog(self, outcome: Outcome | None) -> None:
        """After a dialog closes, report the decision and show a request that arrived in the meantime."""
        screen = self._app.screen
        if outcome is not None and isinstance(screen, ShowsQueue) and screen.shows_queue:
            screen.tell(outcome)  # A notice would cover lines of the queue.
        elif outcome is not None:
            self._app.notify(shown(outcome.message), markup=False)
        # The dialog may already show one of these requests.
        following = [each for each in self._next_requests if each != self._dialog.request.id]
        self._next_requests = []
        if following:
            await self.open(following[0])


# Screens that exist once: return to the open one, or push a new one.


async def visit(app: App[None], kind: type[Screen[None]], make: Callable[[], Screen[None]]) -> None:
    """Show the screen of this `kind`."""
    if not any(isinstance(screen, kind) for screen in app.screen_stack):
        app.push_screen(make())
        return
    while not isinstance(app.screen, kind):
        await app.pop_screen()


# The rules screen, opened from any screen with the rules of the session chosen there.


@runtime_checkable
class ShowsSession(Protocol):
    """A screen on which one session is chosen, or none."""

    @property
    def state(self) -> SessionState | SessionSummary | None: ...


async def visit_rules(app: App[None], source: HistoryApi, *, judges: bool) -> None:
    """Show the rules screen. One that is already open shows the rules of the session chosen here."""
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
