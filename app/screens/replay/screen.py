"""The replay screen: a recorded session, event by event, forward and back."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import ClassVar, cast

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static
from textual.worker import Worker, get_current_worker  # pyright: ignore[reportUnknownVariableType] - any worker

from ....engine.approvals.request_order import ApprovalQueue, longest_first
from ....engine.history.errors import FoldError, JournalError
from ....engine.history.fold.replay import Replay
from ....engine.history.model.events import JournalEvent
from ....engine.history.model.state import SessionState
from ....engine.hub.api import DecisionApi, HistoryApi
from ...format.calls import call_timeline
from ...format.text import count, name_shown, shown
from ...sources.messages import ContinueChosen, HubMoved
from ...terminal.gc import bulk_load
from ...terminal.keymap import key_of
from ...viewmodels.playback import Playable, playable, shortened
from ...viewmodels.replay_feed import ReadFailed, ReplayFeed, SessionRead
from ...viewmodels.what_if import WhatIf
from ...widgets.base.bars import KeyBar, PaneTabs
from ...widgets.base.blocks import BlockList
from ...widgets.base.greyed_keys import Parameters
from ...widgets.base.title_bar import ScreenBar
from ...widgets.lists.sessions import PendingList, WaitingList
from ...widgets.nets.flow_lines import FLOW, askers, flow_title
from ...widgets.replay.event_details import EventDetails
from ...widgets.replay.nets import MomentNets, MomentPicture, changed_nets
from ...widgets.replay.position_line import event_line, heading_texts
from ...widgets.replay.scrubber import Scrubber
from ...widgets.replay.transcript import MomentTranscript
from ..common.detail import entry_detail
from ..common.net_picture import picture_of
from ..common.recorded import RecordedSessionScreen
from .event_detail import event_detail
from .goto import GoToScreen, ends_of
from .keys import PANES, REPLAY_KEYS, TITLES

WIDE = 100
NO_EVENT = "There is no event to show."
OF_EVENT = frozenset(
    {"step", "edge", "decision", "go_to", "what_if", "open_decision", "picture", "pane", "continue"}
)
"""Actions on the event shown, or from it to another event."""


class ReplayScreen(RecordedSessionScreen, inherit_bindings=False):
    """Replay of one recorded session; `zone` is the operator's.

    With `can_continue` a new session can continue from any event. With a `journal` other sessions can be
    backtested. `sessions` is the source for reading the session again when it grows. `at` is the number
    of the event shown first. Events that cannot follow from those before them are reported and not shown.
    """

    CSS_PATH = "screen.tcss"
    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-narrow"), (WIDE, "-wide")]
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-low"), (18, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [*REPLAY_KEYS]

    @dataclass
    class Shortened(Message):
        """Only the events in `ready` can be replayed."""

        ready: Playable

    position: reactive[int] = reactive(0, init=False)
    """Number of the event shown, from 1; 0 if there is none."""
    pane: reactive[str] = reactive("transcript", init=False)
    """The focused pane; on a narrow screen also the only pane shown."""

    def __init__(
        self,
        recorded: Playable | Sequence[JournalEvent],
        *,
        zone: tzinfo | None = None,
        can_continue: bool = False,
        journal: DecisionApi | None = None,
        sessions: HistoryApi | None = None,
        at: int | None = None,
    ) -> None:
        ready = recorded if isinstance(recorded, Playable) else playable(recorded)
        super().__init__(zone=zone, can_continue=can_continue, journal=journal)
        self._feed = None
        if sessions is not None and ready.events:
            self._feed = ReplayFeed(sessions, ready.events[0].session, self, lambda: self.position)
        self._first = at or 1
        self._greyed: tuple[bool, ...] = ()
        self._take(ready)

    def _take(self, ready: Playable) -> None:
        self._complete = ready.complete
        self._replay, self._trouble = ready.replay, ready.trouble
        self._recorded: Sequence[JournalEvent] = ready.events
        self._marks = ready.marks
        self._stops = list(ready.marks)

    def compose(self) -> ComposeResult:
        yield ScreenBar("replay", id="where")
        yield Static("", id="what")
        trouble = Static(Content(f"✗ {shown(self._trouble or '')}"), id="trouble")
        trouble.display = self._trouble is not None
        yield trouble
        if not self._recorded:
            leave = key_of(ReplayScreen, "replay.leave")
            yield Static(f"{NO_EVENT} {leave} goes back.", id="none")
        else:
            first, last = self._ends()
            yield Scrubber(len(self._recorded), self._marks, start=first, end=last)
            yield PaneTabs(PANES)
            with Vertical(id="panes"):
                with Horizontal(id="above"):
                    yield MomentTranscript()
                    yield EventDetails()
                    yield MomentPicture()
                with Horizontal(id="below"):
                    yield MomentNets()
                    with Vertical(id="queues"):
                        yield PendingList()
                        yield WaitingList()
        yield KeyBar()

    def on_mount(self) -> None:
        # If the screen is left immediately, its widgets are gone before this is called.
        if not self._recorded or not self.query(PendingList):
            return
        for name, title in TITLES.items():
            self.query_one(f"#{name}").border_title = title
        self.query_one(WaitingList).say_when_empty("Nobody was being asked.")
        self.watch_pane(self.pane)
        self.position = self._first
        if not self._complete:
            # The first event shown needs only the events before it.
            self.call_after_refresh(self._complete_replay)

    @work(thread=True, group="replay", exit_on_error=False)
    def _complete_replay(self) -> None:
        """Make every moment quick to reach, and check that each event can follow from those before it."""
        worker = cast("Worker[None]", get_current_worker())
        try:
            if self._replay is not None:
                with bulk_load():
                    self._replay.fill(lambda: worker.is_cancelled)
        except (FoldError, JournalError):
            self._look_for_trouble()

    @work(thread=True, group="trouble", exclusive=True, exit_on_error=False)
    def _look_for_trouble(self) -> None:
        """Find the first event that cannot be applied or read, and keep only the events before it."""
        with bulk_load():
            self.post_message(self.Shortened(shortened(self._recorded)))

    @on(Shortened)
    def shorten(self, message: Shortened) -> None:
        """Show only the events that can be replayed, and report the problem with the rest."""
        position = self.position
        self._renew(message.ready)
        self.set_reactive(ReplayScreen.position, 0)
        self.position = position

    def _renew(self, ready: Playable) -> None:
        """Replace the events, and report what is wrong with them."""
        self._take(ready)
        trouble = self.query_one("#trouble", Static)
        trouble.update(Content(f"✗ {shown(self._trouble or '')}"))
        trouble.display = self._trouble is not None
        self.query_one(Scrubber).renew(len(self._recorded), self._marks, self._ends())
        self._grey_keys()

    # Reading again

    @property
    def event_count(self) -> int:
        """Return the number of the session's events that have been read."""
        return len(self._recorded)

    def offers(self, action: str, parameters: Parameters = ()) -> bool:
        """Offer reloading only if the replay was given a source to read from."""
        return self._feed is not None if action == "reload" else super().offers(action, parameters)

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Return why an action is not possible now, such as stepping past the first or last event."""
        if action in OF_EVENT and self.state is None:
            return NO_EVENT
        match action, parameters:
            case ("step", (-1,)) | ("edge", (0,)) if self.position <= 1:
                return "This is the first event."
            case ("step", (1,)) | ("edge", (-1,)) if self.position >= self.event_count:
                return "This is the last event."
            case "decision", (direction,) if self._decision_from(direction == 1) is None:
                side = "after" if direction == 1 else "before"
                return f"There is no block or approval {side} this event."
            case _:
                return None

    def _grey_keys(self) -> None:
        """Refresh the key bar if the set of greyed keys has changed."""
        stops = self._decision_from(False) is None, self._decision_from(True) is None
        greyed = (self.position <= 1, self.position >= self.event_count, *stops)
        if greyed != self._greyed:
            self._greyed = greyed
            self.refresh_bindings()

    @on(HubMoved)
    def follow(self, moved: HubMoved) -> None:
        """Read the session again after events in it."""
        if self._feed is not None and self._feed.has_new(moved.events, self.event_count):
            self._feed.read_soon()

    def action_reload(self) -> None:
        """Read what has been recorded since."""
        if self._feed is not None:
            self._feed.read_now(by_key=True)

    @on(SessionRead)
    def add_events(self, message: SessionRead) -> None:
        """Add the new events."""
        more = len(message.ready.events) - self.event_count
        if more > 0:
            self._extend(message.ready)
        if message.by_key:
            self.notify(f"{count(more, 'event')} more" if more > 0 else "Nothing was recorded since")

    @on(ReadFailed)
    def report_failed_read(self, message: ReadFailed) -> None:
        """Keep the events that have been read, and notify the operator of the read error."""
        self.notify(shown(message.error), title="Cannot read it again", severity="error", markup=False)

    def _extend(self, ready: Playable) -> None:
        """Add new events; the position and what is shown of it stay the same."""
        if ready.replay is not None and self._trouble is None:
            self.workers.cancel_group(self, "replay")  # pyright: ignore[reportUnknownMemberType] - any workers
            self._renew(ready)
            ready.replay.goto(self.position)
            self._show_heading(ready.replay)
            if not self._complete:
                self._complete_replay()

    def _ends(self) -> tuple[str, str]:
        return ends_of(self._recorded, self._zone)

    def on_resize(self) -> None:
        if self._replay is not None and self.position:
            self._show_heading(self._replay)

    # Current position

    @property
    def state(self) -> SessionState | None:
        """Return the session as it was after the event shown."""
        return self._replay.state if self._replay else None

    def validate_position(self, position: int) -> int:
        return max(1, min(len(self._recorded), position)) if self._recorded else 0

    def watch_position(self, position: int) -> None:
        """Show event number `position` and the session at that moment."""
        replay = self._replay
        if replay is None:
            return
        try:
            replay.goto(position)
            event, story = self._recorded[position - 1], call_timeline(self._recorded, position)
        except (FoldError, JournalError):
            self._look_for_trouble()
            return
        before, after = replay.before, replay.state
        self._show_heading(replay)
        self.query_one(Scrubber).position = position
        self.query_one(MomentTranscript).show_moment(after, event, replay.earlier)
        details = self.query_one(EventDetails)
        details.show_event(event, replay.changes, story)
        nets = self.query_one(MomentNets)
        nets.show_moment(before, after)
        if not self.has_class("-pictured"):
            # While the picture is shown, the chosen net stays selected.
            nets.reveal(changed_nets(before, after))
        self._show_picture()
        waiting = ApprovalQueue(longest_first(after.approvals.values()))
        self.query_one(PendingList).show_pending(after, event.at)
        names = askers({after.id: after}, {after.id: name_shown(after.agent)})
        self.query_one(WaitingList).show_waiting(waiting, names, event.at)
        self.query_one(PaneTabs).counts = {"queues": len(after.pending) + len(waiting)}
        self._grey_keys()

    def _show_heading(self, replay: Replay) -> None:
        event = self._recorded[self.position - 1]
        what = event_line(replay, event, self._marks.get(self.position))
        self.query_one(ScreenBar).say(*heading_texts(replay, event, self._zone))
        self.query_one("#what", Static).update(what, layout=False)

    # Moving

    def action_step(self, by: int) -> None:
        """Move one event forward or back."""
        self.position += by

    def action_edge(self, which: int) -> None:
        """Move to the first or the last event."""
        self.position = 1 if which == 0 else len(self._recorded)

    def action_decision(self, direction: int) -> None:
        """Move to the next or the previous block or approval."""
        there = self._decision_from(direction > 0)
        if there is not None:
            self.position = there

    def _decision_from(self, forward: bool) -> int | None:
        """Return the number of the next or previous event that is a block or an approval."""
        at = bisect_right if forward else bisect_left
        index = at(self._stops, self.position) - (not forward)
        return self._stops[index] if 0 <= index < len(self._stops) else None

    def action_go_to(self) -> None:
        """Open the panel for an event's number or a time."""
        if self._recorded:
            self.app.push_screen(GoToScreen(self._recorded, zone=self._zone), self._go)

    def _go(self, number: int | None) -> None:
        if number is not None:
            self.position = number

    @on(Scrubber.Chosen)
    def scrub(self, message: Scrubber.Chosen) -> None:
        self.position = message.position

    # Details

    def action_pane(self, pane: str) -> None:
        """Show and focus a pane."""
        self.pane = pane

    @on(PaneTabs.Chosen)
    def choose_pane(self, message: PaneTabs.Chosen) -> None:
        self.pane = message.pane

    def watch_pane(self, pane: str) -> None:
        if not self._recorded:
            return
        for name, _ in PANES:
            self.query_one(f"#{name}").set_class(name == pane, "-front")
        for row, names in (
            ("above", ("transcript", "details", "picture")),
            ("below", ("nets", "queues")),
        ):
            self.query_one(f"#{row}").set_class(pane in names, "-front")
        if pane in ("details", "picture"):
            self.set_class(pane == "picture", "-pictured")
            self._show_picture()
        self.query_one(PaneTabs).current = pane
        self.query_one("#pending" if pane == "queues" else f"#{pane}").focus()

    def action_picture(self) -> None:
        """Show the chosen net as a picture next to the transcript, or the event again."""
        self.pane = "details" if self.has_class("-pictured") else "picture"

    @on(BlockList.Moved, "#nets")
    def choose_net(self) -> None:
        self._show_picture()

    def _show_picture(self) -> None:
        """Draw the net under the cursor at this moment."""
        picture = self.query_one(MomentPicture)
        key = self.query_one(MomentNets).current
        flow = None if self.state is None or key != FLOW else self.state.flow
        named = f"Net: {shown(key or '')}" if flow is None else flow_title(flow)
        picture.border_title = Content("Net" if key is None else named)
        if self.state is not None and self.position and self.has_class("-pictured"):
            picture.show_moment(self.state, self._recorded[self.position - 1], key)

    def action_open_decision(self) -> None:
        """Open the explained decision on the event's call; without a decision, open the event."""
        from .event_detail import replayed_decision

        if self._replay is not None:
            panel = replayed_decision(self._replay, self._zone)
            self.app.push_screen(panel) if panel is not None else self.open_event()

    @on(BlockList.Opened, "#details")
    def open_event(self) -> None:
        """Open the event shown, in full."""
        if self._replay is not None:
            event = self._recorded[self.position - 1]
            self.app.push_screen(event_detail(event, self._replay.changes, self._zone))

    @on(BlockList.Opened, "#transcript")
    def open_entry(self, message: BlockList.Opened) -> None:
        replay = self._replay
        if replay is not None and message.key.isdecimal():
            entry = replay.state.transcript[int(message.key) - replay.earlier]
            self.app.push_screen(entry_detail(entry, replay.state.agent, replay.state.id))

    @on(BlockList.Opened, "#nets")
    def open_net(self, message: BlockList.Opened) -> None:
        state = self.state
        if state is None:
            return
        panel = picture_of(state, message.key, None, self._shown_events)
        if panel is not None:
            self.app.push_screen(panel)

    async def _shown_events(self) -> Sequence[JournalEvent]:
        """Return the events up to the one shown."""
        return self._recorded[: self.position]

    # Other rules on the same history

    def action_what_if(self) -> None:
        """Open the what-if dialog, and decide the rest of the session with the chosen nets."""
        from .what_if import WhatIfDialog

        state, at = self.state, self.position
        if state is None:
            return

        def chosen(what_if: WhatIf | None) -> None:
            if what_if is not None:
                self._show_judged(state, at, what_if)

        self.app.push_screen(WhatIfDialog(state, at), chosen)

    def _show_judged(self, state: SessionState, at: int, what_if: WhatIf) -> None:
        from .what_if_result import JudgedScreen

        judged = JudgedScreen(self._recorded, at, state, what_if, journal=self._journal, zone=self._zone)
        self.app.push_screen(judged, self._go)

    def action_continue(self) -> None:
        """Continue from the event shown in a new session; a flow continues after its last step."""
        if not self._recorded:
            return
        is_flow = self.state is not None and self.state.flow is not None
        at = None if is_flow else self.position
        self.post_message(ContinueChosen(self._recorded[0].session, at=at, is_flow=is_flow))
