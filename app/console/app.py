"""The approval console: the app around the screens.

It routes events and messages; screens and widgets own the rest.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.binding import BindingType
from textual.message import Message
from textual.screen import ModalScreen, Screen

from ...engine.core.clock import Clock, utc_now
from ...engine.core.people import same_person
from ...engine.core.rights import FULL
from ...engine.history.model.events import ApprovalCommented, ApprovalRequested, JournalEvent
from ...engine.hub.api import DecisionApi, HistoryApi, HubApi
from ...engine.hub.hub import FreezeChanged, Hub, HubEvent, OutageChanged, Outcome, Subscription
from ..config.notifications import AttentionSettings
from ..format.text import count, shown
from ..screens.approval.screen import ApprovalScreen
from ..screens.common.confirm import Confirm, when_yes
from ..screens.common.guarded_keys import QUIET
from ..screens.common.operator_context import OperatorContext, outcome_of
from ..screens.live.screen import LiveScreen
from ..sources.deep_link import DeepLink
from ..sources.messages import (
    ActionDone,
    BacktestChosen,
    ContinueChosen,
    HubMoved,
    ReplayChosen,
    RequestChosen,
    SessionStarted,
    StartFailed,
)
from ..sources.read_only import ReadOnlyHub
from ..terminal.appearance import Appearance
from ..terminal.bindings import key_binding, screen_key
from ..terminal.gc import PaintFirst, settle_collector
from ..terminal.key_rights import Permission
from ..viewmodels.stream import changes_queue
from .attention import Attention, Terminal, terminal_of
from .base import TerminalApp
from .connection import ConnectionDisplay
from .freeze_line import FreezeDisplay
from .navigation import DialogManager, visit
from .outage_line import OutageDisplay

if TYPE_CHECKING:
    from textual._path import CSSPathType

    from ..screens.history.screen import HistoryScreen
    from ..sessions.start import PreparedStart, StartForm


# Base for recorded data: sessions, replays, decisions and rules.


class RecordedApp(TerminalApp):
    """App that shows the recorded sessions of `source`. Screens are imported when first opened.

    `journal` provides decisions and backtests. With a `host`, sessions can be resumed in the name of
    `operator`. `zone` is the operator's time zone; `None` means the machine's.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        screen_key("decisions", "All decisions of all sessions"),
        screen_key("history", "The recorded sessions"),
        screen_key("rules", "The rules of this session, and others"),
    ]

    def __init__(
        self,
        source: HistoryApi,
        journal: DecisionApi | None,
        appearance: Appearance | None,
        *,
        host: HubApi | None = None,
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
        from ..screens.history.screen import HistoryScreen

        can_continue = self._host is not None
        return HistoryScreen(
            self._source, zone=self._zone, can_continue=can_continue, journal=self._journal
        )

    @on(ReplayChosen)
    def replay_chosen(self, event: ReplayChosen) -> None:
        """Replay a session, starting at one of its decisions if a decision was chosen."""
        self.run_worker(self._replay(event), group="screens", exclusive=True, exit_on_error=False)

    async def _replay(self, chosen: ReplayChosen) -> None:
        from ..screens.replay.screen import ReplayScreen
        from ..viewmodels.playback import open_recorded

        try:
            ready = await open_recorded(self._source, chosen.session_id, chosen.at)
        except Exception as error:
            self.notify(shown(str(error)), title="Cannot replay", severity="error", markup=False)
            return
        can_continue = self._host is not None
        replay = ReplayScreen(
            ready,
            zone=self._zone,
            can_continue=can_continue,
            journal=self._journal,
            sessions=self._source,
            at=chosen.at,
        )
        self.call_later(self.push_screen, replay)

    @on(BacktestChosen)
    def backtest_chosen(self, event: BacktestChosen) -> None:
        """Open a backtest of recorded calls with other rules."""
        from ..screens.history.backtest import BacktestScreen

        if self._journal is not None:
            chosen = (event.session_id, event.rules)
            self.push_screen(BacktestScreen(self._journal, *chosen, clock=self._clock, zone=self._zone))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the decisions screen only if there is a journal."""
        return self._journal is not None if action == "decisions" else True

    async def action_history(self) -> None:
        """Show the recorded sessions."""
        from ..screens.history.screen import HistoryScreen

        await visit(self, HistoryScreen, self._history)

    async def action_decisions(self) -> None:
        """Show all decisions of all sessions."""
        from ..screens.decisions.screen import DecisionsScreen

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
        """Show the rules of the chosen session, with other rules files."""
        from .navigation import visit_rules

        await visit_rules(self, self._source, judges=self._journal is not None)


Start = Callable[[Hub], Awaitable[object]]

PANES_AFTER = 0.05
"""Seconds by which pane updates are delayed after a new request, so that its dialog is painted first."""


class InterlockConsole(RecordedApp):
    """Approval console on a hub. The creator of the hub has to close it.

    `start` opens the sessions; `open_at` is the deep link to open first. `permission` states what the
    operator may do. `terminal` replaces the real terminal for signals. `deny_reasons` are offered for
    denials. `clock` gives the time from which ages are computed; `monotonic` measures the seconds in
    which keys are inert. See `GuardedKeys` for `quiet`.
    """

    TITLE = "Interlock"
    # Textual creates the default screen before it would read that screen's own style sheet.
    CSS_PATH: ClassVar[CSSPathType | None] = ["console.tcss", "../screens/live/screen.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        screen_key("live", "Running sessions and waiting requests"),
        screen_key("triage", "All waiting requests, one line each"),
        key_binding("q", "quit", "quit", "app.quit", "Leave the console"),
        key_binding(
            "F",
            "freeze",
            "freeze all agents",
            "app.freeze",
            "Hold every new call of all agents, or lift the freeze",
            show=False,
        ),
    ]

    class Arrived(Message, bubble=False):
        """New hub events are in the inbox."""

    @dataclass
    class ConnectionMoved(Message, bubble=False):
        """The connection to a server was lost, for the reason `trouble`, or is back (`None`)."""

        trouble: str | None

    def __init__(
        self,
        hub: HubApi,
        *,
        operator: str,
        start: Start | None = None,
        open_at: DeepLink | None = None,
        appearance: Appearance | None = None,
        permission: Permission | None = None,
        attention: AttentionSettings | None = None,
        terminal: Terminal | None = None,
        deny_reasons: Sequence[str] = (),
        quiet: float = QUIET,
        clock: Clock = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            hub,
            hub,
            appearance,
            host=hub,
            operator=operator,
            clock=clock,
            permission=permission or Permission("look" if isinstance(hub, ReadOnlyHub) else FULL),
        )
        self._attention_settings = attention
        self._terminal = terminal
        self._attention: Attention | None = None
        self._programs: set[asyncio.Task[None]] = set()
        self.hub = hub
        self._start = start
        self._open_at = open_at or DeepLink()
        self.monotonic = monotonic
        self._operator_context = OperatorContext(hub, operator, clock, monotonic, quiet)
        self._deny_reasons = deny_reasons
        self._inbox: list[HubEvent] = []
        self._outbox: list[HubEvent] = []
        self._paint_first = PaintFirst()
        self._form: StartForm | None = None
        dialog = ApprovalScreen(self._operator_context, deny_reasons)
        # An installed screen keeps its widgets when it is closed.
        self.install_screen(dialog, "approval")  # pyright: ignore[reportUnknownMemberType] - any screen
        self._dialogs = DialogManager(self, self._operator_context, dialog)
        self._connection = ConnectionDisplay(self, lambda: hub.location)
        self._outage = OutageDisplay(self, hub, self.permission, clock, self._zone)
        self._freeze = FreezeDisplay(self, hub, self.permission)

    def get_default_screen(self) -> Screen[None]:
        return LiveScreen(
            self._operator_context, selected=self._open_at.session, deny_reasons=self._deny_reasons
        )

    def on_mount(self) -> None:
        self.hub.spawn_in(self._start_agent)
        # Subscribe before anything starts, so that no event is missed.
        self.run_worker(self._pump(self.hub.subscribe()), name="hub", group="hub", exit_on_error=False)
        self._outage.begin()
        self._freeze.begin()
        if self._start is not None:
            self.run_worker(
                self._run_start(self._start), name="start", group="start", exit_on_error=False
            )
        if self._open_at != DeepLink():
            self.call_after_refresh(self._go_to, self._open_at)
        if not self.is_headless:
            self.call_after_refresh(settle_collector)
        terminal = self._terminal or terminal_of(self, self._programs)
        if terminal is not None:
            self._attention = Attention(terminal, self._attention_settings)
            self._attention.begin()
            # Textual leaves an app's return type open.
            self.app_resume_signal.subscribe(self, self._resume_attention, immediate=True)  # pyright: ignore[reportUnknownMemberType]

    def _resume_attention(self, _: object) -> None:
        if self._attention is not None:
            self._attention.resume()

    def on_unmount(self) -> None:
        self._paint_first.end()
        if self._attention is not None:
            self._attention.end()

    def _start_agent(self, coroutine: Coroutine[None, None, None], name: str) -> object:
        """Run an agent in a worker: if the agent crashes, its session ends and the console continues.

        A session passes a coroutine that has already started. A task can continue such a coroutine, an
        `await` cannot.
        """

        async def attend(task: asyncio.Task[None]) -> None:
            await task

        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        return self.run_worker(attend(task), name=name, group="agents", exit_on_error=False)

    async def _run_start(self, start: Start) -> None:
        try:
            await start(cast("Hub", self.hub))
        except Exception as error:
            self.post_message(StartFailed(f"{type(error).__name__}: {error}"))

    async def _pump(self, subscription: Subscription) -> None:
        """Collect hub events.

        At most one `Arrived` message is outstanding, however many events arrive.
        """
        try:
            async for event in subscription:
                self._inbox.append(event)
                if len(self._inbox) == 1:
                    self.post_message(self.Arrived())
        finally:
            subscription.close()

    @on(ConnectionMoved)
    async def show_connection(self, event: ConnectionMoved) -> None:
        """Mark screens as out of date while the connection is lost, and refresh them once it is back."""
        await self._connection.show(event.trouble)
        if event.trouble is None:
            for screen in self.screen_stack:
                screen.post_message(HubMoved(()))

    # Routing

    @on(Arrived)
    async def route(self) -> None:
        """Pass events to every screen.

        The dialog of a new request is shown first, then the panes are updated.
        """
        events, self._inbox = tuple(self._inbox), []
        if any(isinstance(event, OutageChanged) for event in events):
            await self._outage.look()
        if any(isinstance(event, FreezeChanged) for event in events):
            await self._freeze.look()
        was_idle = not self._outbox
        self._outbox += events
        shown = False
        for event in events:
            if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested):
                self._paint_first.begin()
                shown |= await self._dialogs.present(event.body)
            elif isinstance(event, JournalEvent) and isinstance(event.body, ApprovalCommented):
                self._show_addressed(event.body)
        if self._attention is not None and any(map(changes_queue, events)):
            with suppress(Exception):  # The screens show the hub's error.
                waiting = await self.hub.approvals()
                self._attention.follow(events, waiting, self.hub.unread().requests)
        if shown:
            self.set_timer(PANES_AFTER, self._pass_on)
        elif was_idle:
            self._pass_on()

    def _show_addressed(self, comment: ApprovalCommented) -> None:
        """Notify the operator to whom a comment on a request is addressed."""
        if comment.to is not None and same_person(comment.to, self.operator):
            self.notify(
                shown(comment.text) or "a request",
                title=shown(f"{comment.by} asks you to look"),
                severity="warning",
                markup=False,
            )
            self.bell()

    def _pass_on(self) -> None:
        self._paint_first.end()
        events, self._outbox = tuple(self._outbox), []
        if events:
            for screen in self.screen_stack:
                screen.post_message(HubMoved(events))

    async def _go_to(self, place: DeepLink) -> None:
        """Open an open request, or the replay of a session that is no longer live."""
        if place.approval is not None:
            await self.open_request(place.approval)
        elif place.session is not None:
            with suppress(Exception):  # The screens show the hub's error.
                if all(state.id != place.session for state in await self.hub.sessions()):
                    self.post_message(ReplayChosen(place.session))

    async def open_request(self, approval_id: str, why: str = "") -> bool:
        """Open the dialog of an open request over any screen, with the reason `why`.

        Return whether it opened.
        """
        return await self._dialogs.open(approval_id, why)

    @on(RequestChosen)
    async def request_chosen(self, event: RequestChosen) -> None:
        await self.open_request(event.approval_id, event.why)

    @on(ActionDone)
    def action_done(self, event: ActionDone) -> None:
        severity = "information" if event.outcome.ok else "error"
        self.notify(shown(event.outcome.message), severity=severity, markup=False)

    @on(StartFailed)
    def start_failed(self, event: StartFailed) -> None:
        """Show the error permanently on the live screen; the console continues."""
        live = self.screen_stack[0]
        if isinstance(live, LiveScreen):
            live.show_problem(f"Could not start: {event.error}")
        self.notify(shown(event.error), title="Could not start", severity="error", markup=False)

    # Sessions

    def action_start_session(self) -> None:
        """Open the form for a new session, filled in as it was last left."""
        from ..screens.live.start import StartScreen
        from ..sessions.start import StartForm, starter_of

        screen = StartScreen(self._form or StartForm(), starter_of(self.hub, self.operator))

        def chosen(begin: PreparedStart | None) -> None:
            self._form = screen.last
            if begin is not None:
                self.run_worker(self._open(begin), name="open", group="start", exit_on_error=False)

        self.push_screen(screen, chosen)

    async def _open(self, begin: PreparedStart) -> None:
        """Start a session and show it."""
        try:
            session = await begin()
        except Exception as error:
            self.post_message(StartFailed(f"{type(error).__name__}: {error}"))
            return
        self.post_message(SessionStarted(session))

    @on(SessionStarted)
    async def session_started(self, event: SessionStarted) -> None:
        """Show the session, from any screen."""
        await self.action_live()
        live = self.screen_stack[0]
        if isinstance(live, LiveScreen):
            await live.show_session(event.session_id)

    @on(ContinueChosen)
    def continue_chosen(self, event: ContinueChosen) -> None:
        self.run_worker(self._ask_to_continue(event), group="start", exit_on_error=False)

    async def _ask_to_continue(self, event: ContinueChosen) -> None:
        from ..screens.live.resume_command import tell_command, tell_imported
        from ..sessions.acp_resume import is_acp

        try:
            origin = await self.hub.origin(event.session_id)
        except Exception as error:
            self.post_message(ActionDone(Outcome(ok=False, message=f"Cannot continue: {error}")))
            return
        if origin.imported:
            tell_imported(self, self.hub, origin, event.at)
            return
        if is_acp(origin.source):
            await tell_command(self, self.hub, origin.session)
            return
        where = "" if event.at is None else f" from event {event.at} in a new session"
        question = f"Continue {event.session_id}{where}?"
        step = "it takes the step after the last recorded one"
        otherwise = step if event.is_flow else "the agent waits for a message"
        details = [
            f"Its nets keep their markings. An open request is asked again; otherwise {otherwise}."
        ]

        def resume() -> None:
            self.run_worker(self._continue(event), group="start", exit_on_error=False)

        self.push_screen(Confirm("Continue", question, details), when_yes(resume))

    async def _continue(self, event: ContinueChosen) -> None:
        from ..sessions.start import starter_of

        try:
            starts = starter_of(self.hub, self.operator)
            session = await starts.resume(event.session_id, at=event.at)
        except Exception as error:
            self.post_message(ActionDone(Outcome(ok=False, message=f"Cannot continue: {error}")))
            return
        self.post_message(SessionStarted(session))

    async def action_live(self) -> None:
        """Return to the live screen. A modal dialog stays open."""
        while len(self.screen_stack) > 1 and not isinstance(self.screen, ModalScreen):
            await self.pop_screen()

    async def action_triage(self) -> None:
        """Show all open requests as a table over the whole width."""
        from ..screens.triage.screen import TriageScreen

        await visit(self, TriageScreen, lambda: TriageScreen(self._operator_context, self._deny_reasons))

    def action_backtest(self) -> None:
        """Open a backtest of recorded calls with other rules, from the live screen."""
        live = self.screen_stack[0]
        state = live.state if isinstance(live, LiveScreen) else None
        self.backtest_chosen(BacktestChosen.of(state))

    async def action_freeze(self) -> None:
        """Freeze all agents at once. If they are frozen, ask for the reason and lift the freeze."""
        frozen = self.hub.current_freeze()
        refused = self.permission.refusal("decide" if frozen is None else "administer")
        if refused is not None:
            self.notify(shown(refused), severity="warning", markup=False)
        elif frozen is None:
            self._run_action(lambda: self.hub.freeze(by=self.operator))
        else:
            from ..screens.live.loosen import Loosening, lift_freeze

            def answered(answer: Loosening | None) -> None:
                if answer is not None:
                    why = answer.reason
                    self._run_action(lambda: self.hub.lift_freeze(by=self.operator, reason=why))

            self.push_screen(lift_freeze(frozen, await self.hub.sessions()), answered)

    def _run_action(self, action: Callable[[], Awaitable[Outcome]]) -> None:
        async def finish() -> None:
            self.post_message(ActionDone(await outcome_of(action)))

        self.run_worker(finish(), group="decisions", exit_on_error=False)

    async def action_quit(self) -> None:
        """Leave the console. Confirm first if sessions are running or requests are waiting."""
        if isinstance(self.screen, Confirm):
            return
        if self.permission.rights == "look" or self.hub.server:
            self.exit()  # Leaving ends nothing here.
            return
        try:
            running = sum(s.status in ("running", "waiting") for s in await self.hub.sessions())
            waiting = len(await self.hub.approvals())
        except Exception:
            running = waiting = 0
        if not running and not waiting:
            self.exit()
            return
        facts = (
            [f"{count(running, 'session')} {'is' if running == 1 else 'are'} running"] if running else []
        )
        facts += [f"{count(waiting, 'request')} wait{'s' if waiting == 1 else ''}"] if waiting else []
        self.push_screen(
            Confirm(
                "Quit",
                f"{', '.join(facts)}. Quit?",
                ["Running agents are ended; the journal keeps everything."],
            ),
            when_yes(self.exit),
        )
