"""The live screen: sessions, the selected session's transcript, nets and pending calls, and the queue.

Its own state is the selection and the streamed text. Everything else is read from the hub after events,
and painted at most five times a second. A new request is painted at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.dom import DOMNode
from textual.widget import Widget
from textual.widgets import Input, Static

from ....engine.approvals.request_order import ApprovalQueue
from ....engine.history.fold.event_text import dollars
from ....engine.history.model.state import ApprovalState, SessionState, TranscriptEntry
from ....engine.hub.hub import FreezeChanged, OutageChanged, Outcome
from ...format.text import amount, clip, count, name_shown, shown
from ...sources.capabilities import can_be_told, not_told, what_stops
from ...sources.messages import HubMoved, ReplayChosen, RequestChosen
from ...terminal.key_rights import permission_of, rights_for
from ...terminal.keymap import key_of
from ...terminal.symbols import session_look
from ...viewmodels.stream import LiveStream, changes_queue
from ...widgets.base.bars import KeyBar, PaneTabs
from ...widgets.base.blocks import BlockList
from ...widgets.base.greyed_keys import Parameters
from ...widgets.base.title_bar import TitleBar
from ...widgets.base.titles import entitle
from ...widgets.inputs.say_line import SayLine
from ...widgets.lists.sessions import (
    NO_SESSION,
    NOTHING_WAITS,
    READING,
    LiveSessionList,
    PendingList,
    WaitingList,
    session_names,
)
from ...widgets.lists.transcript import NOTHING_YET, Transcript
from ...widgets.nets.flow_lines import flow_title, where
from ...widgets.nets.list import NO_RULES, NO_SESSION_SELECTED, NetList
from ..common.confirm import when_yes
from ..common.detail import entry_detail
from ..common.net_picture import picture_of
from ..common.operator_context import OperatorContext
from ..triage.pane import TriagePane
from .cost_limit import RaiseLimit, has_limit
from .keys import LIVE_KEYS, PANES
from .loosen import Loosening, ProposedChange, banner, loosen_mode
from .queue import QueueScreen
from .switch_nets import SwitchNets

# Titles of the panes' frames.


def transcript_titles(
    state: SessionState, name: str, *, raises: str = "", one_line: bool = False
) -> tuple[Content, Content]:
    """Return the titles above and below the transcript.

    Above: session name, state and mode. Below: the model with its usage, *external agent*, or the flow's
    step; then the labels. `raises` is the key that raises the cost limit, if any. With `one_line` all is
    above.
    """
    if one_line:
        above, below = transcript_titles(state, name, raises=raises)
        return Content.assemble(above, "  ", below.stylize("not bold")), Content("")
    look = session_look(state)
    above = Content.assemble(
        (clip(name, 40), "bold"), "  ", (f"{look.symbol} {look.word}", look.style), f"  {state.mode}"
    )
    model, labels = clip(shown(state.model), 30), _labels(state)
    if state.flow is not None:
        return above, Content(f"{flow_title(state.flow)} · {where(state.flow)}{labels}")
    if state.kind == "outside":
        return above, Content((f"{model} · external agent" if model else "external agent") + labels)
    return above, Content(f"{model}{_used(state, raises)}{labels}")


def _labels(state: SessionState) -> str:
    """Return the session's labels, preceded by a separator."""
    return f" · {clip(shown(', '.join(state.session_labels)), 40)}" if state.session_labels else ""


def nothing_said(state: SessionState | None, keys: type[DOMNode], *, reading: bool = False) -> str:
    """Return the text for an empty transcript. If no session is live, it names the key of the history.

    While a console is still `reading` a server's sessions, it does not claim that there is none.
    """
    if state is not None:
        return NOTHING_YET
    if reading:
        return READING
    start, history = key_of(keys, "live.start"), key_of(keys, "live.history")
    return f"{NO_SESSION} {start} starts one, {history} shows past ones."


def counted(word: str, number: int, more: str = "") -> str:
    """Return a title such as `Waiting (2)`, `Waiting`, or `Waiting (2) · 1 marked`."""
    return (f"{word} ({number})" if number else word) + (f" · {more}" if more else "")


def _used(state: SessionState, raises: str) -> str:
    """Return the tokens read and written by the model so far, if any, and their cost.

    A cost limit comes first, since the frame may have no space for everything.
    """
    read, written = state.input_tokens, state.output_tokens
    tokens = f" · {amount(read)} in {amount(written)} out" if read or written else ""
    if state.max_cost is None:
        return f"{tokens} · {dollars(state.cost)}" if tokens and state.cost else tokens
    how = f", {raises} raises it" if raises else ""
    return f" · {dollars(state.cost)} of {dollars(state.max_cost)}{how}{tokens}"


PAINTS_PER_SECOND = 5
LOWER = frozenset({"nets", "pending"})
OF_SESSION = frozenset({"interrupt", "switch_nets", "mode", "stop", "compact", "replay"})
"""Actions on the selected session."""


class LiveScreen(QueueScreen, inherit_bindings=False):
    """Main screen of the console."""

    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-narrow"), (100, "-wide")]
    BINDINGS: ClassVar[list[BindingType]] = [*LIVE_KEYS]

    def __init__(
        self,
        context: OperatorContext,
        *,
        selected: str | None = None,
        deny_reasons: Sequence[str] = (),
    ) -> None:
        super().__init__(context)
        self._selected = selected
        self._none_chosen = False
        self._deny_reasons = deny_reasons
        self._pane: TriagePane | None = None
        self._flows: dict[str, LiveStream] = {}
        self._say = SayLine()
        self._dirty = True
        self._problem = ""
        self._returns_to: str = "transcript"
        self._folds: bool | None = None
        self.add_class("show-transcript", update=False)

    def compose(self) -> ComposeResult:
        yield TitleBar(self._operator, self._hub.location, self._hub.server)
        yield Static("", id="problem")
        yield Static("", id="switched")
        yield PaneTabs(PANES)
        with Vertical(id="panes"):
            with Horizontal(id="upper"):
                yield LiveSessionList()
                yield Transcript()
                yield WaitingList()
            with Horizontal(id="lower"):
                yield NetList()
                yield PendingList()
        yield self._say
        yield KeyBar()

    async def on_mount(self) -> None:
        self.query_one("#problem").display = False
        self.query_one("#switched").display = False
        if self._problem:
            self.show_problem(self._problem)
        self.query_one("#upper #sessions").border_title = "Sessions"
        past = f"{key_of(LiveScreen, 'live.decisions')} shows past decisions."
        self.query_one("#waiting", WaitingList).say_when_empty(f"{NOTHING_WAITS}\n{past}")
        self._bring("transcript")
        # The number of lines of the nets is known only once their width is known.
        self.watch(self.query_one("#nets"), "virtual_size", self._size_lower, init=False)
        self.set_interval(1 / PAINTS_PER_SECOND, self._paint_changes)
        self.set_interval(1.0, self._age)
        await self.paint()

    def _age(self) -> None:
        self._dirty |= self._is_in_view

    @property
    def _is_in_view(self) -> bool:
        """Return whether the screen is visible: it is behind a dialog, but not behind another screen."""
        # Textual counts the screen below the top one as current, whatever covers it.
        return self.app.screen is self or self.app.screen.is_modal

    async def _paint_changes(self) -> None:
        if self._dirty and self._is_in_view:
            await self.paint()

    # Hub events

    @on(HubMoved)
    async def follow(self, moved: HubMoved) -> None:
        """Update the streams. Paint at once if the queue has changed, else with the next tick."""
        now = self._clock()
        for event in moved.events:
            if not isinstance(event, FreezeChanged | OutageChanged):
                self._flows.setdefault(event.session, LiveStream()).take(event, now)
        self._dirty = True
        if any(changes_queue(event) for event in moved.events):
            await self.paint()

    async def paint(self) -> None:
        """Update every pane to the hub's state."""
        self._dirty = False
        try:
            sessions = await self._hub.sessions()
            self._queue, self._unread = ApprovalQueue(await self._hub.approvals()), self._hub.unread()
        except Exception as error:
            self.show_problem(f"The hub does not answer: {error}")
            return
        self._sessions = {state.id: state for state in sessions}
        if self._none_chosen and self._waiting and not self.has_class("-narrow"):
            self._selected = None
        elif self._selected not in self._sessions and not (self._selected and self._unread.sessions):
            self._none_chosen = False
            self._selected = sessions[0].id if sessions else None
        await self._show_pane()
        names = session_names(sessions)
        now = self._clock()
        state = self.state
        listed = self.query_one("#sessions", LiveSessionList)
        start = f"{NO_SESSION}\n{key_of(LiveScreen, 'live.start')} starts one."
        listed.say_when_empty(READING if self._unread.sessions else start)
        listed.show_sessions(sessions, now, self._queue.stops())
        if self._selected is not None:
            listed.select(self._selected)
        flow = self._flows.get(self._selected or "", LiveStream())
        transcript = self.query_one("#transcript", Transcript)
        transcript.say_when_empty(nothing_said(state, LiveScreen, reading=bool(self._unread.sessions)))
        transcript.show_session(state, flow, now)
        self._show_queue(names, now)
        nets = self.query_one("#nets", NetList)
        rules = f"{NO_RULES} {key_of(LiveScreen, 'live.rules')} shows rule files."
        nets.say_when_empty(NO_SESSION_SELECTED if state is None else rules)
        nets.show_nets(state, now=now)
        self.query_one("#pending", PendingList).show_pending(state, now, flow.just_resolved(now))
        self._title(state, names)
        self._show_switched(state, names)
        self._size_lower()

    async def _show_pane(self) -> None:
        """If no session is chosen, show the queue instead of transcript, nets and calls."""
        if self._none_chosen and self._pane is None:
            self._pane = TriagePane(self._operator_context, self._deny_reasons)
            await self.query_one("#upper").mount(self._pane, after="#transcript")
        was_shown = self.shows_queue
        self.set_class(self._none_chosen, "-queue")
        if self._pane is not None and self._none_chosen:
            self._pane.show(self._queue, self._sessions, self._unread)
            if not was_shown:
                self._pane.take_focus()
                self._pane.fall_asleep()
        elif was_shown:
            self._bring("sessions")

    def _title(self, state: SessionState | None, names: dict[str, str]) -> None:
        waiting, pending = self._waiting, len(state.pending) if state else 0
        unread = self._unread.sessions
        _entitle(self.query_one("#sessions"), f"Sessions · {unread} to read" if unread else "Sessions")
        title = self.query_one(TitleBar)
        title.waiting, title.place = waiting, self._hub.location
        self.query_one(PaneTabs).counts = {"waiting": waiting, "pending": pending}
        self.app.title = f"Interlock · {waiting} waiting" if waiting else "Interlock"
        name = names.get(state.id, "") if state else ""
        marked = f"{len(self._marked)} marked" if self._marked else ""
        narrow = self.has_class("-narrow")  # A narrow pane has no title below.
        _entitle(
            self.query_one("#waiting"), counted("Waiting", waiting, marked if narrow else ""), marked
        )
        _entitle(self.query_one("#pending"), counted("Pending", pending))
        _entitle(self.query_one("#nets"), f"Nets of {clip(name, 40)}" if name else "Nets")
        transcript = self.query_one("#transcript")
        if state is None:
            _entitle(transcript, "Transcript")
        else:
            offered = (
                self.offers("raise_limit")
                and permission_of(self.app).refusal(rights_for("live.limit")) is None
            )
            key = key_of(LiveScreen, "live.limit") if offered else ""
            server = self._hub.server_of(state.id)
            name = name if server is None else f"{name} at {clip(name_shown(server), 40)}"
            titles = transcript_titles(state, name, raises=key, one_line=narrow)
            entitle(transcript, titles[0], subtitle=titles[1])

    def _show_switched(self, state: SessionState | None, names: dict[str, str]) -> None:
        """Show a banner while rules are off in any session, or while this is proposed."""
        others = {
            names.get(each.id, each.id): each for each in self._sessions.values() if each is not state
        }
        found = banner(state, others, max(20, self.size.width - 4))
        line = self.query_one("#switched", Static)
        if found is not None:
            line.update(found)
        line.display = found is not None

    @property
    def folded(self) -> bool:
        """Return whether nets and calls are folded; by default if the operator may not switch nets."""
        if self._folds is not None:
            return self._folds
        return permission_of(self.app).refusal(rights_for("live.nets")) is not None

    @property
    def _hides_lower(self) -> bool:
        """Return whether folding hides panes. On a narrow screen each pane has its own tab."""
        return self.folded and not self.has_class("-narrow")

    def action_fold(self) -> None:
        """Fold the nets and pending calls, or unfold them."""
        self._folds = not self.folded
        self._size_lower()
        if self.folded and (self._in("nets") or self._in("pending")):
            self._bring("transcript")

    def _size_lower(self) -> None:
        """Size the lower panes to the height of the nets, up to two fifths of the screen."""
        self.set_class(self.folded, "-folded")
        if self.has_class("-narrow"):
            self.query_one("#lower").styles.height = "1fr"
            return
        nets = max(3, self.query_one("#nets", NetList).virtual_size.height)
        self.query_one("#lower").styles.height = min(nets + 2, max(5, self.size.height * 2 // 5))

    def show_problem(self, text: str) -> None:
        """Show a line that stays until the console ends. May be called before the screen is mounted."""
        self._problem = text
        if not self.query("#problem"):
            return
        problem = self.query_one("#problem", Static)
        problem.update(Content.styled(f"✗ {shown(text)}", "bold $text-error"))
        problem.display = True

    @property
    def _waiting(self) -> int:
        """Return the number of open requests, including those that cannot be listed yet."""
        return len(self._queue) + self._unread.requests

    @property
    def state(self) -> SessionState | None:
        """Return the selected session."""
        return self._sessions.get(self._selected or "")

    # Selection

    @on(BlockList.Moved, "#sessions")
    async def choose_session(self, event: BlockList.Moved) -> None:
        if self.focused is event.blocks and event.key != self._selected:
            self._choose(event.key)
            await self.paint()

    def _choose(self, session: str | None) -> None:
        self._selected, self._none_chosen = session, session is None

    async def action_choose_none(self) -> None:
        """Deselect the session; the middle shows all open requests."""
        self._choose(None)
        await self.paint()

    @on(TriagePane.Exit)
    async def choose_first(self) -> None:
        """Select the first session again."""
        self._choose(next(iter(self._sessions), None))
        await self.paint()

    @property
    def shows_queue(self) -> bool:
        """Return whether the operator is going through the queue, where no dialog opens by itself."""
        return self.has_class("-queue")

    def tell(self, outcome: Outcome) -> None:
        """Show the outcome of a decision in a dialog over the queue."""
        if self._pane is not None:
            self._pane.say(outcome.message, bad=not outcome.ok)

    def fall_asleep(self) -> None:
        super().fall_asleep()
        if self._pane is not None:
            self._pane.fall_asleep()

    def on_screen_resume(self) -> None:
        """Clear notices over the queue; its keys are inert for a moment."""
        self.call_later(self._paint_changes)
        if self._pane is not None and self.shows_queue:
            self.app.clear_notifications()
            self._pane.fall_asleep()

    @on(BlockList.Moved, "#waiting")
    async def choose_request(self, event: BlockList.Moved) -> None:
        """Show the session of the request under the queue's cursor."""
        request = self.selected_request
        if self.focused is event.blocks and request is not None and request.session != self._selected:
            self._selected = request.session
            await self.paint()
            if self.state is None:
                self.run_worker(self._read(request.session), group="read", exclusive=True)

    async def _read(self, session: str) -> None:
        """Read a session before the others that the server still has to send, and show it."""
        with suppress(Exception):  # The next paint shows the hub's error.
            await self._hub.session(session)
        await self.paint()

    async def show_session(self, session_id: str) -> None:
        """Select and show a session."""
        self._choose(session_id)
        await self.paint()
        self._bring("transcript")

    @on(BlockList.Opened, "#sessions")
    async def open_session(self, event: BlockList.Opened) -> None:
        if event.key != self._selected:
            self._choose(event.key)
            await self.paint()
        self.action_pane("transcript")

    @on(BlockList.Opened, "#waiting")
    def open_request(self, event: BlockList.Opened) -> None:
        self.post_message(RequestChosen(event.key))

    @on(BlockList.Opened, "#transcript")
    def open_entry(self, event: BlockList.Opened) -> None:
        state, entry = self.state, self._entry_at(event.key)
        if state is None or entry is None:
            return
        if entry.call is not None and entry.call.status == "waiting":
            own = self._queue.of(state.id)
            asking = next((each for each in own if each.call_id == entry.call.call_id), None)
            if asking is not None:
                self.post_message(RequestChosen(asking.id))
                return
        self._show_entry(entry, state)

    def _show_entry(self, entry: TranscriptEntry, state: SessionState) -> None:
        call = entry.call
        explain = None if call is None else lambda: self._hub.explain(state.id, call.call_id)
        self.app.push_screen(entry_detail(entry, state.agent, state.id, explain=explain))

    @on(BlockList.Opened, "#nets")
    def open_net(self, event: BlockList.Opened) -> None:
        state = self.state
        if state is not None:
            read = partial(self._hub.recorded, state.id)
            panel = picture_of(state, event.key, self._clock(), read)
            if panel is not None:
                self.app.push_screen(panel)

    @on(BlockList.Moved, "#nets")
    def choose_net(self) -> None:
        """Update the keys, since only a grant can be revoked."""
        self.refresh_bindings()

    @on(BlockList.Opened, "#pending")
    def open_pending(self, event: BlockList.Opened) -> None:
        state = self.state
        call_id = event.key.split("/")[0]
        if state is None:
            return
        entry = next((e for e in state.transcript if e.call and e.call.call_id == call_id), None)
        if entry is not None:
            self._show_entry(entry, state)

    @on(PaneTabs.Chosen)
    def choose_tab(self, event: PaneTabs.Chosen) -> None:
        self.action_pane(event.pane)

    def action_pane(self, pane: str) -> None:
        """Show and focus a pane. A line that is being typed is closed and kept as a draft."""
        self._say.close_with_draft()
        if self.shows_queue and pane != "sessions":
            self._choose(next(iter(self._sessions), None))
            self.remove_class("-queue")
            self._dirty = True
        self._bring(pane)

    def action_turn(self, step: int) -> None:
        """Show and focus the next pane, or the previous one."""
        if self._pane is not None and self.shows_queue:
            if self._in("sessions"):
                self._pane.take_focus()
            else:
                self._bring("sessions")
            return
        names = [name for name, _ in PANES if not (self._hides_lower and name in LOWER)]
        here = self._returns_to if self._returns_to in names else "transcript"
        self._bring(names[(names.index(here) + step) % len(names)])

    def _bring(self, pane: str) -> None:
        """Show a pane, and focus it unless a line is being typed."""
        if pane in LOWER and self._hides_lower:
            self._folds = False
            self._size_lower()
        if not self.has_class(f"show-{pane}"):
            # The styles are updated once, not for each class.
            self.remove_class(*(f"show-{name}" for name, _ in PANES), update=False)
            self.add_class(f"show-{pane}")
        self.query_one(PaneTabs).current = pane
        self._returns_to = pane
        if self.open_line is None:
            # Focus at once: a delayed focus could take it from a line that is opened in the meantime.
            self.set_focus(self.query_one(f"#{pane}"))

    @property
    def open_line(self) -> Input | None:
        """Return the line for a message to an agent, or for a denial's reason, while it is shown."""
        if self._say.is_open:
            return self._say.input
        return None if self._pane is None else self._pane.open_line

    def on_descendant_focus(self) -> None:
        """Remember the focused pane as the one to return to, and close a line that is being typed."""
        focused = self.focused
        if isinstance(focused, BlockList) and focused.id in dict(PANES):
            self._say.close_with_draft()
            self._returns_to = focused.id
            self.query_one(PaneTabs).current = focused.id

    def on_resize(self) -> None:
        """Move the focus away from a pane that a narrower screen hides, but not from an open line."""
        if not self.shows_queue:
            self._bring(self._returns_to)
        self._dirty = True

    # Actions

    def action_decide(self, _intent: str) -> None:
        """Open the relevant request, for every key that decides, since its whole input has to be seen."""
        request = self.request_at_hand
        if request is not None:
            self.post_message(RequestChosen(request.id))
        else:
            waiting = count(self._waiting, "request")
            key = key_of(LiveScreen, "live.pane-waiting")
            name = "This session" if self.state is None else self.state.agent or self.state.id
            text = f"{name} is not waiting. {waiting} in other sessions: {key} goes to the queue."
            self.notify(shown(text), markup=False)

    @property
    def request_at_hand(self) -> ApprovalState | None:
        """Return the request under the cursor of the focused pane, else the session's most urgent one.

        The cursor of a pane without focus does not count, since it may be out of view.
        """
        if self._in("waiting"):
            return self.selected_request
        own = self._queue.of(self._selected or "")
        if self._in("transcript"):
            call = self._call_at(self.query_one("#transcript", Transcript).current)
            own = [each for each in own if each.call_id == call] or own
        return own[0] if own else None

    def _call_at(self, key: str | None) -> str | None:
        """Return the id of the call that an entry of the transcript is about."""
        entry = self._entry_at(key)
        return None if entry is None or entry.call is None else entry.call.call_id

    def _entry_at(self, key: str | None) -> TranscriptEntry | None:
        entries = [] if self.state is None else self.state.transcript
        known = key is not None and key.isdecimal() and int(key) < len(entries)
        return entries[int(key)] if known and key is not None else None

    def action_interrupt(self) -> None:
        """Open the line for a message to the agent."""
        state = self.state
        if state is None or (not can_be_told(state, self._hub) and self._cannot_steer(state)):
            return
        self._say.open(state.id, state.agent or state.id)

    def _cannot_steer(self, state: SessionState) -> bool:
        """Return whether the session cannot be steered from here; if so, notify the operator why."""
        reason = not_told(state)
        if reason:
            self.notify(reason, title="Not from here", markup=False)
        return bool(reason)

    @on(SayLine.Said)
    def say(self, event: SayLine.Said) -> None:
        self._do(self._send(event))

    async def _send(self, message: SayLine.Said) -> Outcome:
        await self._hub.send(message.session, message.text, by=self._operator, mode=message.mode)
        later = "" if message.mode == "steer" else ", after its turn"
        return Outcome(ok=True, message=f"Sent to {message.session}{later}")

    @on(SayLine.Closed)
    def stop_saying(self) -> None:
        self._bring(self._returns_to)

    def action_switch_nets(self) -> None:
        state = self.state
        if state is not None:
            self.app.push_screen(SwitchNets(self._hub, state, operator=self._operator))

    def action_mode(self) -> None:
        """Switch the session's mode.

        Leaving enforce mode needs a reason, and possibly other people (G-67).
        """
        state = self.state
        if state is None:
            return
        if state.mode == "shadow":
            self._do(self._hub.set_mode(state.id, "enforce", by=self._operator))
            return
        proposed = next((c for c in state.changes.values() if c.net is None), None)
        if proposed is not None:
            drop = partial(self._hub.drop_change, state.id, proposed.id, by=self._operator)
            agree = partial(self._hub.confirm_change, state.id, proposed.id, by=self._operator)
            panel = ProposedChange(proposed, lambda: self._do(drop()))
            self.app.push_screen(panel, when_yes(lambda: self._do(agree())))
            return

        def answered(answer: Loosening | None) -> None:
            if answer is not None:
                self._do(
                    self._hub.set_mode(
                        state.id,
                        "shadow",
                        by=self._operator,
                        reason=answer.reason,
                        seconds=answer.seconds,
                    )
                )

        self.app.push_screen(loosen_mode(state), answered)

    def action_stop(self) -> None:
        state = self.state
        if state is None:
            return
        self._ask(
            "Stop the agent",
            f'Stop {"flow" if state.kind == "flow" else "agent"} "{state.agent or state.id}"?',
            [what_stops(state, self._hub)],
            lambda: self._abort(state.id),
        )

    async def _abort(self, session: str) -> Outcome:
        await self._hub.abort(session, by=self._operator)
        return Outcome(ok=True, message=f"Stopped {session}")

    def action_compact(self) -> None:
        state = self.state
        if state is None or self._cannot_steer(state):
            return
        self._do(self._hub.compact(state.id, by=self._operator))

    def action_raise_limit(self) -> None:
        """Request a higher cost limit, and set it."""
        state, hub = self.state, self._hub
        if state is None or not has_limit(state, hub):
            return

        def answered(raised: tuple[float, str] | None) -> None:
            if raised is not None:
                max_cost, reason = raised
                self._do(hub.raise_limit(state.id, max_cost, by=self._operator, reason=reason))

        self.app.push_screen(RaiseLimit(state), answered)

    def action_replay(self) -> None:
        if self._selected is not None:
            self.post_message(ReplayChosen(self._selected))

    def offers(self, action: str, parameters: Parameters = ()) -> bool:
        """Return whether an action is offered. On a narrow screen the queue is a screen of its own."""
        if action == "raise_limit":
            return has_limit(self.state, self._hub)
        if action in ("choose_none", "fold"):
            return not self.has_class("-narrow")
        return super().offers(action, parameters)

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Return why an action is not possible now: no request is open, or no session is selected."""
        if action in ("decide", "triage", "choose_none") and not self._waiting:
            return NOTHING_WAITS
        if action in OF_SESSION and self.state is None:
            return f"{NO_SESSION} {key_of(LiveScreen, 'live.start')} starts one."
        return None


def _entitle(widget: Widget, title: str, subtitle: str = "") -> None:
    entitle(widget, Content(title), subtitle=Content(subtitle))
