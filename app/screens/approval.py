"""The approval dialog: one request, its whole input, and two keys that decide.

It only ever sends a decision by id; the gate waits on the hub, not on this screen. Closing it decides
nothing, and keys sleep until the request has been on screen long enough to be read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from ...engine.history.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWithdrawn,
    JournalEvent,
)
from ...engine.history.state import ApprovalState, SessionState
from ...engine.hub import Hub, Outcome
from ..keymap import clickable, hints, key_of
from ..messages import HubMoved
from ..text import age, clip, seconds_between, shown
from ..widgets.bars import KeyBar
from ..widgets.blocks import GUTTER, Block, BlockList
from ..widgets.request import request_text
from .detail import Detail
from .keys import FOLD_KEY
from .panel import Panel

ASLEEP = 0.4
"""Seconds that decision keys do nothing after the request is shown."""
FLASH = 0.6
FRAME = 2 + 2 + GUTTER + 1
"""Columns around the text: border, padding, the list's gutter and its scrollbar."""
CHROME = 4
"""Lines of the frame, the notice and the keys around the text."""


class ApprovalScreen(Panel[Outcome | None]):
    """The dialog of one request. Dismissed with the hub's outcome once decided here, else with `None`."""

    CSS_PATH = "approval.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "approve", "approve once", id="approval.approve", tooltip="Let this one call run"),
        Binding(
            "d", "deny", "deny", id="approval.deny", tooltip="Refuse the call, with a reason if you like"
        ),
        Binding(
            "x",
            "explain",
            "explain",
            id="approval.explain",
            tooltip="What every net says of this call, and what leads to it",
        ),
        FOLD_KEY,
        Binding(
            "escape", "close", "decide later", id="approval.close", tooltip="Close; it stays in the queue"
        ),
    ]

    @dataclass
    class Answered(Message):
        """The hub's answer to the decision taken here."""

        request: str
        outcome: Outcome

    def __init__(
        self,
        hub: Hub,
        *,
        operator: str,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__()
        self._hub = hub
        self._operator = operator
        self._clock = clock
        self._monotonic = monotonic
        self.request: ApprovalState
        self._frame = Vertical(classes="frame")
        self._body = BlockList(id="request", cursor=False)
        self._notice = Static("", id="notice")
        self._reason_line = Horizontal(id="reason-line")
        self._reason = Input(placeholder="optional; the agent is told", id="reason")
        self._reset()

    def present(
        self,
        request: ApprovalState,
        session: SessionState | None,
        speaker: SessionState | None = None,
    ) -> None:
        """Take another request, before the screen is pushed again; `speaker` made the call.

        One dialog serves all: making the widgets anew takes longer than everything else between a
        request and its paint.
        """
        self._reset()
        self.request = request
        self._session, self._speaker = session, speaker
        if self.is_mounted:
            self._prepare()

    def _reset(self) -> None:
        self._session: SessionState | None = None
        self._speaker: SessionState | None = None
        self._shown_at: float | None = None
        self._flash_until = 0.0
        self.deciding = False
        self._over = False
        self._expanded = False
        self._others = 0
        self._foldable = False
        self._arranged: tuple[int, int, bool] | None = None

    def compose(self) -> ComposeResult:
        with self._frame:
            yield self._body
            yield self._notice
            with self._reason_line:
                yield Static(Content.styled("Reason ", "bold $text-warning"), id="reason-label")
                yield self._reason
            yield KeyBar()

    def on_mount(self) -> None:
        self._prepare()
        self.set_interval(0.1, self._tick)

    def _prepare(self) -> None:
        """Nothing typed, noticed or scrolled; the text has the focus."""
        self._reason_line.display = False
        self._reason.value = ""
        self._notice.display = False
        self._body.scroll_to(y=0, animate=False)
        self.set_focus(self._body)
        self._arrange()
        self._tick()

    def on_resize(self) -> None:
        self._arrange()

    def on_screen_resume(self) -> None:
        """Whatever brings the request into view starts the wait anew."""
        self._shown_at = None
        self.call_after_refresh(self._mark_shown)

    def _mark_shown(self) -> None:
        self._shown_at = self._monotonic()
        self._tick()

    # What it shows

    def _arrange(self) -> None:
        """Size the frame to the text, fold what does not fit, and show it."""
        wide, high = self.app.size
        width = min(118, wide if wide < 64 else wide - (2 if wide < 100 else 6))
        most = high if high < 20 else high - 2
        inner = width - FRAME
        small = high < 20
        self._frame.set_class(small, "-small")
        extras = self._reason_line.display + self._notice.display
        room = most - CHROME + small - extras
        arranged = (inner, room, self._expanded)
        if arranged == self._arranged:
            return
        self._arranged = arranged
        text = request_text(
            self.request,
            self._session,
            self._clock(),
            inner,
            room,
            expanded=self._expanded,
            speaker=self._speaker,
        )
        self._foldable, lines = text.folded, text.lines
        self._frame.styles.width = width
        self._frame.styles.height = min(most, len(lines) + most - room)
        pieces = [
            Block(
                f"{start}",
                (start, self.request.id, arranged),
                lambda _, start=start: lines[start : start + 100],
            )
            for start in range(0, len(lines), 100)
        ]
        self._body.show(pieces)
        self.refresh_bindings()
        self.call_after_refresh(self._tick)

    def _tick(self) -> None:
        if not self.is_mounted:
            return
        waited = age(seconds_between(self.request.since, self._clock()))
        name = clip(shown(self.request.title), max(10, self.app.size.width // 2))
        more = f" · {self._others} more waiting" if self._others else ""
        who = shown(self.request.agent or self.request.session)
        self._frame.border_title = Content(f"{name} · {who} · waiting {waited}{more}")
        self._frame.border_subtitle = self._note()
        self._frame.set_class(self._monotonic() < self._flash_until, "-early")
        self._frame.set_class(self._over, "-over")

    def _note(self) -> Content:
        left = self.sleeps_for()
        if self._reason_line.display and not self.deciding:
            ways = (clickable("enter denies", "submit"), hints(self, ("approval.close", "goes back")))
            return Content.assemble(" ", ways[0], " · ", ways[1], " ").stylize("bold $text-warning")
        if self._over:
            return Content("nothing to decide any more · ") + hints(self, ("approval.close", "closes"))
        if self.deciding:
            return Content("deciding…")
        if left > 0:
            style = (
                "bold $text-error reverse"
                if self._monotonic() < self._flash_until
                else "bold $text-warning"
            )
            return Content.styled(f" keys wake in {left:.1f} s ", style)
        height, total = self._body.scrollable_content_region.height, self._body.virtual_size.height
        if total > height > 0:
            top = self._body.scroll_offset.y
            more = f" · {key_of(BlockList, 'list.last')} ↓" if top + height < total else ""
            return Content(f"line {top + 1}–{min(total, top + height)} of {total}{more}")
        return Content("")

    def sleeps_for(self) -> float:
        """Seconds until decision keys wake; 0 when they are awake."""
        if self._shown_at is None:
            return ASLEEP
        return max(0.0, ASLEEP - (self._monotonic() - self._shown_at))

    def _say(self, text: str, *, bad: bool = True) -> None:
        self._notice.update(
            Content.styled(shown(text), "bold $text-error" if bad else "bold $text-warning")
        )
        self._notice.display = True
        self._arrange()

    # What happens elsewhere

    @on(HubMoved)
    async def follow(self, moved: HubMoved) -> None:
        """Somebody else may decide, or nobody may need to any more; others may come to wait."""
        for event in moved.events:
            match event:
                case JournalEvent(body=ApprovalDecided() as body) if body.approval_id == self.request.id:
                    if not self.deciding:
                        word = "approved" if body.approved else "denied"
                        why = f": {body.reason}" if body.reason else ""
                        self._end(f"Already {word} by {body.by}{why}")
                case JournalEvent(body=ApprovalRequested()):
                    await self._count_others()
                case JournalEvent(body=ApprovalWithdrawn() as body) if (
                    body.approval_id == self.request.id
                ):
                    self._end(f"Withdrawn: {body.reason}")
                case _:
                    pass

    async def _count_others(self) -> None:
        try:
            waiting = await self._hub.approvals()
        except Exception as error:
            self._say(f"The hub does not answer: {error}")
            return
        self._others = sum(request.id != self.request.id for request in waiting)
        self._tick()

    def _end(self, text: str) -> None:
        self._over = True
        self._hide_reason()
        self._say(text, bad=False)
        self._tick()

    # What the operator does

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Decision keys go away once there is nothing to decide."""
        if action in ("approve", "deny"):
            return not self._over and not self.deciding
        if action == "fold":
            return self._foldable or self._expanded
        return True

    def _awake(self) -> bool:
        if self.sleeps_for() <= 0:
            return True
        self._flash_until = self._monotonic() + FLASH
        self._tick()
        return False

    def action_approve(self) -> None:
        """Approve this one call."""
        if self._awake() and not self._reason_line.display:
            self._decide(True, None)

    def action_deny(self) -> None:
        """Open the line for the reason; enter there denies."""
        if self._awake():
            self._reason_line.display = True
            # At once: what is typed next is the reason, and must not reach the keys.
            self.set_focus(self._reason)
            self._arrange()

    @on(Input.Submitted, "#reason")
    def deny_with_reason(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_submit()

    def action_submit(self) -> None:
        """Deny with the reason typed: what enter does in its line, and a click on what is said of it."""
        open_line = self._reason_line.display and not self._over and not self.deciding
        if open_line and self._awake():
            self._decide(False, self._reason.value.strip() or None)

    def _decide(self, approved: bool, reason: str | None) -> None:
        self.deciding = True
        self._tick()
        self.refresh_bindings()
        # The app's worker, not this screen's: closing the screen must not cut a decision in half.
        send = self._send(self.request.id, approved, reason)
        self.app.run_worker(send, group="decisions", exit_on_error=False)

    async def _send(self, request: str, approved: bool, reason: str | None) -> None:
        try:
            outcome = await self._hub.decide(request, approved=approved, by=self._operator, reason=reason)
        except Exception as error:
            outcome = Outcome(ok=False, message=f"Not decided: {error}")
        self.post_message(self.Answered(request, outcome))

    @on(Answered)
    def show_answer(self, message: Answered) -> None:
        """Close when it took effect; otherwise say why not, and stay."""
        if message.request != self.request.id:
            return
        if message.outcome.ok and self.is_current:
            # Still deciding: until the dialog is gone, a second click or key must not decide again.
            self.dismiss(message.outcome)
            return
        self.deciding = False
        self._say(message.outcome.message, bad=not message.outcome.ok)
        self._over = message.outcome.ok or self._over
        self._tick()
        self.refresh_bindings()

    def action_explain(self) -> None:
        """Every net's verdict on this call, on top of the dialog."""
        request = self.request
        self.app.push_screen(
            Detail(
                f"Explain: {request.tool}",
                [],
                explain=lambda: self._hub.explain(request.session, request.call_id),
            )
        )

    def action_fold(self) -> None:
        """Show every line of the input, or fold it again."""
        self._expanded = not self._expanded
        self._arrange()

    def action_close(self) -> None:
        """Leave the reason line, or the dialog. Decides nothing."""
        if self.deciding:
            return
        if self._reason_line.display:
            self._hide_reason()
            self._arrange()
        elif self.is_current:
            self.dismiss(None)

    def _hide_reason(self) -> None:
        self._reason_line.display = False
        self._body.focus()
