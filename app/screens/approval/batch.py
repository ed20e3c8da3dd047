"""Dialog that decides several requests together: a table of differences, read to its end, and two keys.

Each request is decided on its own and bound by its digest to what the table showed. A request that
changes, is withdrawn, or is answered by another operator is struck out and not decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from ....engine.history.fold.approvals import end_of
from ....engine.history.model.events import JournalEvent
from ....engine.history.model.state import ApprovalState, SessionState
from ....engine.hub.hub import Outcome
from ...format.text import count, shown
from ...sources.messages import HubMoved
from ...terminal.bindings import key_binding
from ...terminal.keymap import hints
from ...viewmodels.batch import Row, summary, too_much
from ...viewmodels.request import ClaimWarning, OperatorDecision
from ...viewmodels.stream import changes_queue
from ...widgets.approval.batch_lines import batch_lines
from ...widgets.approval.reviewed_list import ReviewedList
from ...widgets.base.bars import KeyBar
from ...widgets.base.blocks import text_pieces
from ...widgets.base.cursor_list import GUTTER
from ...widgets.base.greyed_keys import Parameters
from ...widgets.inputs.safe_input import TypedLine
from ..common.guarded_keys import NOTHING_LEFT, SENDING, GuardedKeys
from ..common.operator_context import OperatorContext
from .keys import page_keys

FRAME = 2 + 2 + GUTTER + 1
"""Columns around the text: border, padding, the list's gutter and its scrollbar."""
WIDEST = 140


class BatchScreen(GuardedKeys[None]):
    """Screen that decides several requests together. Only the operator closes it."""

    CSS_PATH = "batch.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        # First in the list, because another binding's label changes its width and no button may move
        # under the mouse.
        key_binding(
            "D",
            "deny_all",
            "deny all",
            "approval.deny-all",
            "Refuse every call of the table, with one reason if you like",
        ),
        key_binding(
            "A",
            "approve_all",
            "approve all once",
            "approval.approve-all",
            "Let every call of the table run once",
        ),
        key_binding(
            "escape", "close", "decide later", "batch.close", "Close; they stay in the queue", show=False
        ),
    ]

    @dataclass
    class Answered(Message):
        """Outcome of one request; `last` is set for the final one."""

        request: str
        outcome: Outcome
        last: bool

    def __init__(
        self,
        context: OperatorContext,
        requests: Sequence[ApprovalState],
        sessions: Mapping[str, SessionState],
    ) -> None:
        super().__init__(context.monotonic, context.quiet)
        self._operator_context = context
        self._hub = context.hub
        self._clock = context.clock
        self._viewer = context.viewer
        self._sessions = dict(sessions)
        self.rows = [Row(request) for request in requests]
        self.request = requests[0]
        """Representative request for the command palette, which waits for a dialog's keys."""
        self._claims = ClaimWarning(context.operator)
        self.deciding = False
        self._finished = False
        self._shown: tuple[object, ...] = ()
        self._frame = Vertical(classes="frame")
        self._body = ReviewedList(id="table")
        self._body.guard.begin(tuple((r.id, r.digest) for r in requests))
        self._notice = Static("", id="notice")
        self._reason_line = Horizontal(id="reason-line")
        self._reason = TypedLine(placeholder="optional; the agents see it", id="reason")

    def compose(self) -> ComposeResult:
        with self._frame:
            yield self._body
            yield self._notice
            with self._reason_line:
                yield Static(Content.styled("Reason for all ", "bold $text-warning"), id="reason-label")
                yield self._reason
            yield KeyBar()

    def on_mount(self) -> None:
        self._reason_line.display = self._notice.display = False
        self._body.focus()
        self._arrange()

    def on_resize(self) -> None:
        self._arrange()

    # Display

    def _arrange(self) -> None:
        """Show the table in its current state."""
        now, width = self._clock(), min(WIDEST, self.app.size.width) - FRAME
        stamp = (
            int(now.timestamp()),
            width,
            tuple((r.request, r.over, r.result, r.sent) for r in self.rows),
        )
        if stamp == self._shown:
            return
        aged = len(self._shown) == len(stamp) and self._shown[1:] == stamp[1:]
        self._shown = stamp
        lines = batch_lines(self.rows, self._sessions, now, width, self._viewer)
        self._body.guard.arrange(width, [line.plain for line in lines], aged=aged)
        self._body.show(text_pieces(lines))

    def tick(self) -> None:
        if not self.is_mounted:
            return
        self._arrange()
        self._body.look_again()
        still = sum(row.open for row in self.rows)
        title = summary(self.rows) if self._finished else f"Decide {count(still, 'request')} together"
        self._frame.border_title = Content(f"{title} · as {shown(self._operator_context.operator)}")
        self._frame.border_subtitle = self._note()
        self._frame.set_class(self.flashes, "-early")

    def _note(self) -> Content:
        if self._finished or not any(row.open for row in self.rows):
            return Content("nothing left to decide · ") + hints(self, ("batch.close", "close"))
        if self.deciding:
            return Content("deciding…")
        if self._reason_line.display:
            return Content.styled(" enter deny all · ", "bold $text-warning") + hints(
                self, ("batch.close", "go back")
            )
        asleep = self.sleep_note()
        if asleep is not None:
            return asleep
        later = hints(self, ("batch.close", "decide later"))
        if not self._body.guard.complete:
            words = f"show the next page · {self._body.unseen_note}"
            unread = hints(self, ("approval.approve-all", words)).stylize("bold $text-warning")
            both = Content.assemble(" ", unread, " · ", later, " ")
            return both if both.cell_length <= self._frame.size.width - 4 else unread
        return later

    def say(self, text: str, *, bad: bool = True) -> None:
        style = "bold $text-error" if bad else "bold $text-warning"
        self._notice.update(Content.styled(shown(text), style))
        self._notice.display = True

    # Hub events

    @on(HubMoved)
    async def follow(self, moved: HubMoved) -> None:
        """Strike out requests that were decided, ended or changed by others, and make keys inert."""
        if not any(changes_queue(event) for event in moved.events):
            return
        ends: dict[str, str] = {}
        for event in moved.events:
            end = end_of(event.body) if isinstance(event, JournalEvent) else None
            if end is not None:
                ends[end[0]] = _in_a_row(end[1])
        try:
            waiting = {request.id: request for request in await self._hub.approvals()}
        except Exception as error:
            self.say(f"The hub does not answer: {error}")
            return
        changed = False
        for row in self.rows:
            if row.open:
                changed |= self._compare(row, waiting.get(row.request.id), ends.get(row.request.id))
        if changed:
            self.fall_asleep()
            self.tick()

    def _compare(self, row: Row, found: ApprovalState | None, end: str | None) -> bool:
        """Compare a row with the current request, and return whether the row changed."""
        if end is not None or found is None:
            row.over = end or "no longer open"
        elif found.digest != row.request.digest:
            row.over = "changed: look again"
        elif found == row.request:
            return False
        else:
            row.request = found
        return True

    # Actions

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Return why all cannot be decided now; nothing is decided twice."""
        if action not in ("approve_all", "deny_all"):
            return None
        if self.deciding:
            return SENDING
        return NOTHING_LEFT if self._finished or not any(row.open for row in self.rows) else None

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """Return bindings as shown. Until everything was seen, the approve key shows the next page."""
        found = super().active_bindings
        return found if self._body.guard.complete else page_keys(found, "approval.approve-all")

    def action_approve_all(self) -> None:
        """Show the next unseen page.

        Once all was seen, approve every open request that a batch may approve.
        """
        if self._reason_line.display:
            return
        if self._body.guard.complete:
            if self._passes_claims():
                self.deliberately(lambda: self._decide(True, None))
        else:
            self.show_more(self._body.show_next_page)

    def action_deny_all(self) -> None:
        """Open the line for the reason. Enter in that line denies."""
        if not self._reason_line.display and self._passes_claims():
            self.deliberately(self._open_reason)

    def _passes_claims(self) -> bool:
        """Return whether all may be decided.

        If other people have claims, warn first and accept the next key.
        """
        if self.deciding or not self.accepts_key():
            return False
        found = self._claims.take(row.request for row in self.rows if row.open)
        if found is not None:
            self.say(found, bad=False)
            self.fall_asleep()
        return found is None

    def _open_reason(self) -> None:
        self._reason_line.display = True
        self.set_focus(self._reason)
        self.tick()

    @on(Input.Submitted, "#reason")
    def deny_with_reason(self, event: Input.Submitted) -> None:
        event.stop()
        if not self.deciding and not self._finished:
            if self.sleeps_for() > 0:
                self.say("Enter came too soon: nothing is denied yet, press it again", bad=False)
            self.deliberately(self._deny)

    def _deny(self) -> None:
        self._close_reason()
        self._decide(False, self._reason.value.strip() or None)

    def on_paste(self, event: events.Paste) -> None:
        """Paste into the reason line only."""
        if not self._reason_line.display:
            super().on_paste(event)

    def _decide(self, approved: bool, reason: str | None) -> None:
        if self.deciding or self._finished:
            return
        chosen = [row for row in self.rows if row.open]
        for row in chosen:
            alone = too_much(row.request) if approved or row.request.wants is not None else None
            if alone is not None:
                row.over = alone
        chosen = [row for row in chosen if row.over is None]
        if not chosen:
            self.say("Nothing was decided: none of these can be approved together with others")
            self.tick()
            return
        self.deciding = True
        for row in chosen:
            row.sent = True
        self.tick()
        self.refresh_bindings()
        # Run in the app's worker: closing this screen must not interrupt a batch.
        sending = self._send([row.request for row in chosen], approved, reason)
        self.app.run_worker(sending, group="decisions", exit_on_error=False)

    async def _send(self, requests: Sequence[ApprovalState], approved: bool, reason: str | None) -> None:
        for request in requests:
            outcome = await self._operator_context.decide(request, OperatorDecision(approved, reason))
            if outcome.ok and (request.people < 2 or not approved):
                word = "approved" if approved else "denied"
                outcome = Outcome(ok=True, message=word)
            self.post_message(self.Answered(request.id, outcome, request is requests[-1]))

    @on(Answered)
    def show_answer(self, message: Answered) -> None:
        """Show the outcome of one request. After the last one the table stays open for reading."""
        for row in self.rows:
            if row.request.id == message.request and row.sent:
                row.ok = message.outcome.ok
                row.result = _result(message.outcome)
        if message.last:
            self.deciding = False
            self._finished = True
            self.refresh_bindings()
        self.tick()

    def action_close(self) -> None:
        """Leave the reason line, or the batch. Decides nothing."""
        if self.deciding:
            return
        if self._reason_line.display:
            self._close_reason()
            self.tick()
        elif self.is_current:
            self.dismiss(None)

    @property
    def open_line(self) -> Input | None:
        """Return the line for a denial's reason while it is shown."""
        return self._reason if self._reason_line.display else None

    def _close_reason(self) -> None:
        self._reason_line.display = False
        self.set_focus(self._body)


def _result(outcome: Outcome) -> str:
    """Return the hub's message, shortened for a table row."""
    if not outcome.ok and ("look again" in outcome.message or "has changed" in outcome.message):
        return "changed: look again"
    return _in_a_row(outcome.message)


def _in_a_row(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
