"""The replay screen: a recorded session, event by event, forward and back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import Static

from ...engine.history.changes import headline
from ...engine.history.errors import FoldError
from ...engine.history.events import JournalEvent
from ...engine.history.fold import apply, new_state
from ...engine.history.replay import Replay
from ...engine.history.state import SessionState
from ..messages import ContinueChosen
from ..moments import clock, day
from ..text import shown
from ..widgets.bars import KeyBar, PaneTabs
from ..widgets.blocks import BlockList
from ..widgets.event_details import EventDetails, fields
from ..widgets.moment_nets import MomentNets, changed_nets
from ..widgets.moment_transcript import MomentTranscript
from ..widgets.queues import PendingList, WaitingList
from ..widgets.scrubber import STYLES, SYMBOLS, Scrubber, marks_of
from .detail import Detail, entry_detail, text_blocks
from .goto import GoToScreen
from .net_picture import net_picture

PANES = (
    ("transcript", "Transcript"),
    ("details", "Event"),
    ("nets", "Nets"),
    ("queues", "Pending"),
)
TITLES = {
    "transcript": "Transcript up to this moment",
    "details": "This event",
    "nets": "Nets",
    "pending": "Pending",
    "waiting": "Waiting",
}
WIDE = 100
HEADING = "bold $text-primary"


def _key(key: str, action: str, name: str, own: str, tooltip: str, **more: str | bool) -> Binding:
    """A binding of this screen. It has priority: the panes' own lists know `g`, `home` and `end` too."""
    return Binding(key, action, name, id=f"replay.{own}", tooltip=tooltip, priority=True, **more)


class ReplayScreen(Screen[None]):
    """The events of one recorded session, from the first to the last; `zone` is the operator's.

    With `goes_on` a new session can begin at any event of it. Events that cannot follow from those
    before them are not shown; the screen says which and why.
    """

    CSS_PATH = "replay.tcss"
    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]]] = [(0, "-narrow"), (WIDE, "-wide")]
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]]] = [(0, "-low"), (18, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [
        _key("left_square_bracket", "step(-1)", "back", "back", "One event back", key_display="["),
        _key("right_square_bracket", "step(1)", "step", "step", "One event forward", key_display="]"),
        _key("left", "step(-1)", "back", "back-arrow", "One event back", show=False),
        _key("right", "step(1)", "step", "step-arrow", "One event forward", show=False),
        _key(
            "left_curly_bracket",
            "decision(-1)",
            "last decision",
            "previous-decision",
            "Back to the block or approval before this event",
            key_display="{",
        ),
        _key(
            "right_curly_bracket",
            "decision(1)",
            "next decision",
            "next-decision",
            "On to the next block or approval",
            key_display="}",
        ),
        _key("g", "go_to", "go to", "go-to", "Go to an event's number or a time"),
        _key("home", "edge(0)", "first", "first", "Go to the first event", show=False),
        _key("end", "edge(-1)", "last", "last", "Go to the last event", show=False),
        _key("c", "continue", "continue", "continue", "Go on from here in a new session"),
        _key("o", "open_event", "open event", "open", "Show everything that this event says"),
        *(
            _key(str(number), f"pane('{pane}')", title, f"pane-{pane}", f"Show {title}", show=False)
            for number, (pane, title) in enumerate(PANES, 1)
        ),
        Binding("escape", "leave", "close", id="replay.leave", tooltip="Leave the replay"),
    ]

    position: reactive[int] = reactive(0, init=False)
    """The number of the event that is shown, from 1; 0 where there is none."""
    pane: reactive[str] = reactive("transcript", init=False)
    """The pane that has the keys, and on a narrow screen the one that is shown."""

    def __init__(
        self,
        recorded: Sequence[JournalEvent],
        *,
        zone: tzinfo | None = None,
        goes_on: bool = False,
    ) -> None:
        super().__init__()
        self._goes_on = goes_on
        self._replay, self._trouble = _playable(recorded)
        self._recorded: Sequence[JournalEvent] = self._replay.events if self._replay else ()
        self._marks = marks_of(self._recorded)
        self._zone = zone

    def compose(self) -> ComposeResult:
        yield Static("", id="where")
        yield Static("", id="what")
        if self._trouble:
            yield Static(Content(f"✗ {shown(self._trouble)}"), id="trouble")
        if self._recorded:
            first, last = (clock(self._recorded[at].at, self._zone) for at in (0, -1))
            yield Scrubber(len(self._recorded), self._marks, start=first, end=last)
            yield PaneTabs(PANES)
            with Vertical(id="panes"):
                with Horizontal(id="above"):
                    yield MomentTranscript()
                    yield EventDetails()
                with Horizontal(id="below"):
                    yield MomentNets()
                    with Vertical(id="queues"):
                        yield PendingList()
                        yield WaitingList()
        yield KeyBar()

    def on_mount(self) -> None:
        if not self._recorded:
            return
        for name, title in TITLES.items():
            self.query_one(f"#{name}").border_title = title
        self.watch_pane(self.pane)
        self.position = 1

    def on_resize(self) -> None:
        if self._replay is not None and self.position:
            self._show_heading(self._replay)

    # Where we are

    @property
    def state(self) -> SessionState | None:
        """The session as it was after the event that is shown."""
        return self._replay.state if self._replay else None

    def validate_position(self, position: int) -> int:
        return max(1, min(len(self._recorded), position)) if self._recorded else 0

    def watch_position(self, position: int) -> None:
        """Show event number `position` and the session around it."""
        replay = self._replay
        if replay is None:
            return
        replay.goto(position)
        before, after, event = replay.before, replay.state, self._recorded[position - 1]
        self._show_heading(replay)
        self.query_one(Scrubber).position = position
        self.query_one(MomentTranscript).show_moment(after, event)
        self.query_one(EventDetails).show_event(event, replay.changes)
        nets = self.query_one(MomentNets)
        nets.show_moment(before, after)
        nets.reveal(changed_nets(before, after))
        waiting = list(after.approvals.values())
        self.query_one(PendingList).show_pending(after, event.at)
        self.query_one(WaitingList).show_waiting(waiting, {}, event.at)
        self.query_one(PaneTabs).counts = {"queues": len(after.pending) + len(waiting)}

    def _show_heading(self, replay: Replay) -> None:
        event = self._recorded[self.position - 1]
        dot = (" · ", "$text-muted")
        where = Content.assemble(
            *(
                [("Interlock", "bold $primary"), (" ── ", "$text-muted")]
                if self.size.width >= WIDE
                else []
            ),
            ("replay ", "$foreground"),
            (shown(replay.state.id), "bold"),
            dot,
            (f"event {self.position} of {len(self._recorded)}", "bold $text-primary"),
            dot,
            clock(event.at, self._zone),
            dot,
            (f"{day(event.at, self._zone)} · {replay.state.mode}", "$text-muted"),
        )
        self.query_one("#where", Static).update(where)
        mark = self._marks.get(self.position)
        kind, *words = headline(event).split("  ", 1)
        what = Content.assemble(
            (f"{SYMBOLS[mark]} " if mark else "", STYLES[mark] if mark else ""),
            (kind, "$text-muted"),
            ("  ".join(["", *(shown(word) for word in words)]), "bold"),
        )
        self.query_one("#what", Static).update(what)

    # Moving

    def action_step(self, by: int) -> None:
        """One event forward or back."""
        self.position += by

    def action_edge(self, which: int) -> None:
        """To the first or the last event."""
        self.position = 1 if which == 0 else len(self._recorded)

    def action_decision(self, direction: int) -> None:
        """To the next or the previous block or approval."""
        if direction > 0:
            there = next((n for n in self._marks if n > self.position), None)
        else:
            there = next((n for n in reversed(self._marks) if n < self.position), None)
        if there is None:
            side = "after" if direction > 0 else "before"
            self.notify(f"No block or approval {side} this event", severity="information")
        else:
            self.position = there

    def action_go_to(self) -> None:
        """Ask for an event's number or a time."""
        if self._recorded:
            self.app.push_screen(GoToScreen(self._recorded, zone=self._zone), self._go)

    def _go(self, number: int | None) -> None:
        if number is not None:
            self.position = number

    @on(Scrubber.Chosen)
    def scrub(self, message: Scrubber.Chosen) -> None:
        self.position = message.position

    # Looking closer

    def action_pane(self, pane: str) -> None:
        """Bring a pane to the front, and the keys to it."""
        self.pane = pane

    @on(PaneTabs.Chosen)
    def choose_pane(self, message: PaneTabs.Chosen) -> None:
        self.pane = message.pane

    def watch_pane(self, pane: str) -> None:
        if not self._recorded:
            return
        for name, _ in PANES:
            self.query_one(f"#{name}").set_class(name == pane, "-front")
        for row, names in (("above", ("transcript", "details")), ("below", ("nets", "queues"))):
            self.query_one(f"#{row}").set_class(pane in names, "-front")
        self.query_one(PaneTabs).current = pane
        self.query_one("#pending" if pane == "queues" else f"#{pane}").focus()

    def action_open_event(self) -> None:
        """The event that is shown, whole."""
        if self._replay is not None:
            event = self._recorded[self.position - 1]
            self.app.push_screen(event_detail(event, self._replay.changes, self._zone))

    @on(BlockList.Opened, "#transcript")
    def open_entry(self, message: BlockList.Opened) -> None:
        if self.state is not None and message.key.isdecimal():
            entry = self.state.transcript[int(message.key)]
            self.app.push_screen(entry_detail(entry, self.state.agent))

    @on(BlockList.Opened, "#nets")
    def open_net(self, message: BlockList.Opened) -> None:
        net = self.state.nets.get(message.key) if self.state is not None else None
        if net is not None:
            self.app.push_screen(net_picture(net))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Sessions go on only where something can host them."""
        return self._goes_on if action == "continue" else True

    def action_continue(self) -> None:
        """Begin a new session where this one was at the event that is shown."""
        if self._recorded:
            self.post_message(ContinueChosen(self._recorded[0].session, at=self.position))

    def action_leave(self) -> None:
        """Back to where the replay was opened from."""
        if self.is_current:
            self.dismiss()


def _playable(recorded: Sequence[JournalEvent]) -> tuple[Replay | None, str | None]:
    """The events that follow from each other, to be replayed, and what is wrong with the rest."""
    if not recorded:
        return None, "This session has no events, so there is nothing to replay. Press escape to go back."
    try:
        return Replay(recorded), None
    except FoldError:
        state = new_state(recorded[0].session)
        for number, event in enumerate(recorded):
            try:
                apply(state, event)
            except FoldError as error:
                rest = f"Shown are the {number} events before it." if number else "Nothing can be shown."
                return (Replay(recorded[:number]) if number else None), f"Cannot replay {error}. {rest}"
        raise


def event_detail(event: JournalEvent, changes: Sequence[str], zone: tzinfo | None = None) -> Detail:
    """The panel with everything an event says, however long."""
    blocks = text_blocks("changed", "CHANGED", style=HEADING)
    blocks += text_blocks("changes", "\n".join(changes) or "nothing in the nets or the queue")
    for name, lines in fields(event.body, longest=None):
        blocks += text_blocks(f"{name} label", f"\n{name.upper()}", style=HEADING)
        blocks += text_blocks(name, "\n".join(lines))
    return Detail(f"Event {event.seq} · {event.body.type} · {clock(event.at, zone)}", blocks)
