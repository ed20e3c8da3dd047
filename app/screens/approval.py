"""The approval dialog: one request, its whole input, and keys that decide.

It only ever sends a decision by id and digest; the gate waits on the hub, not on this screen. Closing it
decides nothing, and keys sleep until the request has been on screen long enough to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from pydantic import JsonValue
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from ...engine.gate.types import GrantTerms
from ...engine.history.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalWithdrawn,
    JournalEvent,
)
from ...engine.history.state import ApprovalState, SessionState
from ...engine.hub import Hub, Outcome
from ...engine.questions import ApprovalPolicy
from ..grant_terms import not_at_all
from ..input_draft import Draft
from ..keymap import clickable, hints, key_of
from ..messages import HubMoved
from ..text import seconds_between, shown, wrap_all
from ..widgets.bars import KeyBar
from ..widgets.blocks import GUTTER, Block, BlockList
from ..widgets.reason_line import ReasonLine
from ..widgets.request import request_text
from ..widgets.request_title import request_title
from ..widgets.so_far import Viewer
from .approval_keys import APPROVAL_KEYS
from .detail import Detail
from .wakeful import QUIET, FollowsRequest, Wakeful

FRAME = 2 + 2 + GUTTER + 1
"""Columns around the text: border, padding, the list's gutter and its scrollbar."""
CHROME = 4
"""Lines of the frame, the notice and the keys around the text."""
NOTICE = 3
"""Lines that a notice takes at most."""
MORE_TIME = 15 * 60.0
DRAFTS = 20
"""Requests for which what was typed is kept."""
DECIDING = frozenset({"approve", "edit", "grant", "deny", "stop", "extend"})


class ApprovalScreen(Wakeful[Outcome | None]):
    """The dialog of one request. Dismissed with the hub's outcome once decided here, else with `None`."""

    CSS_PATH = "approval.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*APPROVAL_KEYS]

    @dataclass
    class Answered(Message):
        """The hub's answer to the decision taken here."""

        request: str
        outcome: Outcome

    @dataclass
    class Extended(Message):
        """The hub's answer to a wish for more time."""

        request: str
        outcome: Outcome

    def __init__(
        self,
        hub: Hub,
        *,
        operator: str,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        deny_reasons: Sequence[str] = (),
        quiet: float = QUIET,
    ) -> None:
        super().__init__(monotonic, quiet)
        self._hub = hub
        self._operator = operator
        policy: object = getattr(hub, "policy", None)
        own = isinstance(policy, ApprovalPolicy) and policy.own_approvals
        self._viewer = Viewer(operator, own)
        self._clock = clock
        self.request: ApprovalState
        self._frame = Vertical(classes="frame")
        self._body = BlockList(id="request", cursor=False)
        self._notice = Static("", id="notice")
        self._reason = ReasonLine(deny_reasons)
        self._drafts: dict[tuple[str, str], Draft] = {}
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
        self._flash_until = 0.0
        self.deciding = False
        self._over = False
        self._too_late = False
        self._expanded = False
        self._others = 0
        self._foldable = False
        self._said = ""
        self._arranged: tuple[int, int, bool] | None = None
        self._shown_at = None
        self._stop_coming()

    def compose(self) -> ComposeResult:
        with self._frame:
            yield self._body
            yield self._notice
            yield self._reason
            yield KeyBar()

    def on_mount(self) -> None:
        self._prepare()

    def _prepare(self) -> None:
        """Nothing typed, noticed or scrolled; the text has the focus."""
        self._reason.clear()
        self._notice.display = False
        self._body.scroll_to(y=0, animate=False)
        self.set_focus(self._body)
        self._arrange()
        self.tick()

    def on_resize(self) -> None:
        self._arranged = None
        self._arrange()

    # What it shows

    def _arrange(self) -> None:
        """Size the frame to the text, fold what does not fit, and show it."""
        wide, high = self.app.size
        width = min(118, wide if wide < 64 else wide - (2 if wide < 100 else 6))
        most = high if high < 20 else high - 2
        inner = width - FRAME
        small = high < 20
        self._frame.set_class(small, "-small")
        notice = min(NOTICE, len(wrap_all([self._said], inner))) if self._notice.display else 0
        room = most - CHROME + small - notice - self._reason.height_for(width - 4)
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
            viewer=self._viewer,
        )
        self._foldable, lines = text.folded, text.lines
        self._frame.styles.width = width
        self._frame.styles.height = min(most, len(lines) + most - room)
        stamp = (self.request.id, self.request.given, arranged)
        pieces = [
            Block(f"{start}", (start, stamp), lambda _, start=start: lines[start : start + 100])
            for start in range(0, len(lines), 100)
        ]
        self._body.show(pieces)
        self.refresh_bindings()
        self.call_after_refresh(self.tick)

    def tick(self) -> None:
        """Time passes: what waits ages, keys wake, the request may expire."""
        if not self.is_mounted:
            return
        now = self._clock()
        expires = self.request.expires
        if expires is not None and now >= expires and not self._over and not self.deciding:
            self._too_late = True
            self._end("The time for this request is over: nothing can be decided any more")
        width = max(20, self.app.size.width - 8)
        self._frame.border_title = request_title(self.request, now, width, self._others, over=self._over)
        self._frame.border_subtitle = self._note()
        self._frame.set_class(self.flashes, "-early")
        self._frame.set_class(self._over, "-over")

    def _note(self) -> Content:
        sleep = self.sleep_note()
        if self._reason.is_open and not self.deciding and not (sleep and self.flashes):
            what = "enter denies and stops the agent" if self._reason.stop else "enter denies"
            ways = (clickable(what, "submit"), hints(self, ("approval.close", "goes back")))
            return Content.assemble(" ", ways[0], " · ", ways[1], " ").stylize("bold $text-warning")
        if self._over:
            return Content("nothing to decide any more · ") + hints(self, ("approval.close", "closes"))
        if self.deciding:
            return Content("deciding…")
        if sleep is not None:
            return sleep
        height, total = self._body.scrollable_content_region.height, self._body.virtual_size.height
        if total > height > 0:
            top = self._body.scroll_offset.y
            more = f" · {key_of(BlockList, 'list.last')} ↓" if top + height < total else ""
            return Content(f"line {top + 1}–{min(total, top + height)} of {total}{more}")
        return Content("")

    def say(self, text: str, *, bad: bool = True) -> None:
        """A sentence under the request."""
        self._said = shown(text)
        self._notice.update(
            Content.styled(self._said, "bold $text-error" if bad else "bold $text-warning")
        )
        self._notice.display = True
        self._arrange()

    # What happens elsewhere

    @on(HubMoved)
    async def follow(self, moved: HubMoved) -> None:
        """Somebody else may decide, or nobody may need to any more; others may come to wait."""
        changed, again, counted = False, None, False
        mine = self.request.id
        for event in moved.events:
            if not isinstance(event, JournalEvent):
                continue
            match event.body:
                case ApprovalDecided(approval_id=i, approved=yes, by=by, reason=reason) if i == mine:
                    if not self.deciding:
                        why = f": {reason}" if reason else ""
                        self._end(f"Already {'approved' if yes else 'denied'} by {by}{why}")
                case ApprovalExpired(approval_id=i, reason=reason) if i == mine:
                    self._too_late = False
                    self._end(f"Too late: {reason}")
                case ApprovalWithdrawn(approval_id=i, reason=reason) if i == mine:
                    self._end(f"Withdrawn: {reason}")
                case ApprovalGiven(approval_id=i) | ApprovalExtended(approval_id=i) if i == mine:
                    changed = True
                case ApprovalRequested(approval_id=i, call_id=call):
                    counted = True
                    if self._over and (event.session, call) == (
                        self.request.session,
                        self.request.call_id,
                    ):
                        again = i
                case _:
                    pass
        if changed or again is not None or counted:
            await self._look_again(again)

    async def _look_again(self, again: str | None) -> None:
        """Show the request as it is now, or the one that is asked in its place."""
        try:
            waiting = {request.id: request for request in await self._hub.approvals()}
            known = {state.id: state for state in await self._hub.sessions()}
        except Exception as error:
            self.say(f"The hub does not answer: {error}")
            return
        before, now = self.request, waiting.get(again or self.request.id)
        if now is not None and now != before:
            self.request = now
            self._session = known.get(now.session, self._session)
            self._speaker = known.get(now.via or "", self._speaker)
            self._arranged = None
            self._renew(before, now)
        self._others = sum(each != self.request.id for each in waiting)
        self.tick()

    def _renew(self, before: ApprovalState, now: ApprovalState) -> None:
        """Something new is under the operator's eyes: keys sleep, and what it is is said."""
        if now.id != before.id:
            self._over = self.deciding = False
            self._hide_reason()
            self.say(f"{self._said}. This is asked now" if self._said else "This is asked now", bad=False)
            self._tell_above("The request has changed: go back and look again")
            self.fall_asleep()
        elif now.given != before.given:
            if not self.deciding:
                self.say(f"{now.given[-1]} has approved ({len(now.given)} of {now.people})", bad=False)
            self.fall_asleep()
        elif self._too_late:
            self._over = self._too_late = False
            self.fall_asleep()
        self._arrange()
        self.refresh_bindings()

    def _end(self, text: str) -> None:
        self._over = True
        self._stop_coming()
        self._hide_reason()
        self.say(text, bad=False)
        self._tell_above(text)
        self.tick()
        self.refresh_bindings()

    def _tell_above(self, text: str) -> None:
        """Tell the panels about this request that lie over the dialog."""
        for screen in self.app.screen_stack:
            if isinstance(screen, FollowsRequest):
                screen.request_over(text)

    # What the operator does

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Decision keys go away once there is nothing to decide."""
        if action == "extend" and self.request.expires is None:
            return False
        if action == "edit" and not self.request.input:
            return False
        if action in DECIDING:
            return not self._over and not self.deciding
        if action == "fold":
            return self._foldable or self._expanded
        return True

    def action_approve(self) -> None:
        """Approve this one call."""
        if not self._reason.is_open:
            self.deliberately(lambda: self._decide(True))

    def action_edit(self) -> None:
        """Open the form for the input, as it was left."""
        if not self.awake() or self._reason.is_open:
            return
        from .edit_input import EditInput

        request, key = self.request, (self.request.session, self.request.call_id)
        draft = self._drafts.pop(key, None)
        if draft is None or draft.original != request.input:
            draft = Draft(request.input)
        self._drafts[key] = draft
        while len(self._drafts) > DRAFTS:
            del self._drafts[next(iter(self._drafts))]

        def answered(edited: dict[str, JsonValue] | None) -> None:
            if edited is not None and self._still(request):
                self._decide(True, edited=edited)

        self.app.push_screen(EditInput(request, draft, self.monotonic, self.quiet), answered)

    def action_grant(self) -> None:
        """Choose what passes from now on, or learn why nothing can."""
        if not self.awake() or self._reason.is_open:
            return
        request = self.request
        why = not_at_all(request)
        if why is not None:
            self.say(why, bad=False)
            return
        from .grant import GrantScreen

        def answered(terms: GrantTerms | None) -> None:
            if terms is not None and self._still(request):
                self._decide(True, grant=terms)

        self.app.push_screen(GrantScreen(request, self.monotonic, self.quiet), answered)

    def _still(self, request: ApprovalState) -> bool:
        """Whether the dialog is still about the very request that another panel was about."""
        same = (request.id, request.digest) == (self.request.id, self.request.digest)
        return same and not self._over and not self.deciding

    def action_deny(self) -> None:
        """Open the line for the reason; enter there denies."""
        self._ask_reason(stop=False)

    def action_stop(self) -> None:
        """The same, and the agent is stopped as well."""
        self._ask_reason(stop=True)

    def _ask_reason(self, *, stop: bool) -> None:
        if self.awake():
            self._reason.open(stop=stop, who=self.request.agent or self.request.session)
            # At once: what is typed next is the reason, and must not reach the keys.
            self.set_focus(self._reason.input)
            self._arrange()
            self.fall_asleep()

    async def action_submit(self) -> None:
        """Deny with the reason typed; what enter does in its line, for a click."""
        if self._reason.is_open:
            await self._reason.input.action_submit()

    @on(ReasonLine.Typed)
    def reason_typed(self) -> None:
        self.interrupted()

    @on(ReasonLine.Denied)
    def deny_with_reason(self, event: ReasonLine.Denied) -> None:
        event.stop()
        if not self._over and not self.deciding:
            self.deliberately(lambda: self._decide(False, reason=event.reason, stop=event.stopping))

    def action_extend(self) -> None:
        """Give the request more time before it is denied by itself."""
        expires = self.request.expires
        if expires is None or not self.awake():
            return
        left = seconds_between(self._clock(), expires)
        send = self._ask_for_time(self.request.id, left + MORE_TIME)
        self.app.run_worker(send, group="decisions", exit_on_error=False)

    async def _ask_for_time(self, request: str, seconds: float) -> None:
        try:
            outcome = await self._hub.extend(request, seconds=seconds, by=self._operator)
        except Exception as error:
            outcome = Outcome(ok=False, message=f"Not extended: {error}")
        self.post_message(self.Extended(request, outcome))

    @on(Extended)
    def show_extended(self, message: Extended) -> None:
        if message.request == self.request.id and not self._over:
            self.say(message.outcome.message, bad=not message.outcome.ok)

    def _decide(
        self,
        approved: bool,
        *,
        reason: str | None = None,
        edited: dict[str, JsonValue] | None = None,
        grant: GrantTerms | None = None,
        stop: bool = False,
    ) -> None:
        if self._over or self.deciding:
            return
        self.deciding = True
        self.tick()
        self.refresh_bindings()

        async def send(hub: Hub = self._hub, request: ApprovalState = self.request) -> None:
            try:
                outcome = await hub.decide(
                    request.id,
                    approved=approved,
                    by=self._operator,
                    reason=reason,
                    input=edited,
                    digest=request.digest,
                    grant=grant,
                    stop=stop,
                )
            except Exception as error:
                outcome = Outcome(ok=False, message=f"Not decided: {error}")
            self.post_message(self.Answered(request.id, outcome))

        # The app's worker, not this screen's: closing the screen must not cut a decision in half.
        self.app.run_worker(send(), group="decisions", exit_on_error=False)

    @on(Answered)
    def show_answer(self, message: Answered) -> None:
        """Close when it took effect; otherwise say why not, and stay."""
        if message.request != self.request.id:
            return
        self.deciding = False
        if message.outcome.ok:
            self._drafts.pop((self.request.session, self.request.call_id), None)
        if message.outcome.ok and self.is_current:
            self.dismiss(message.outcome)
            return
        self.say(message.outcome.message, bad=not message.outcome.ok)
        self._over = message.outcome.ok or self._over
        self.tick()
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
        if self._reason.is_open:
            self._hide_reason()
            self._arrange()
        elif self.is_current:
            self.dismiss(None)

    def _hide_reason(self) -> None:
        if self._reason.is_open:
            self._reason.close()
            self._body.focus()
