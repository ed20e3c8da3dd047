"""The approval dialog: one request, its whole input, and keys that decide.

It only sends a decision by id and digest; the gate waits on the hub, not on this screen. Closing it
decides nothing. Keys are inert until the request has been on screen long enough to be read.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol, runtime_checkable

from pydantic import JsonValue
from textual import events, on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Input

from ....engine.approvals.request_order import in_order
from ....engine.history.decisions.precedents import Precedents
from ....engine.history.model.state import ApprovalState, SessionState
from ....engine.hub.hub import Outcome, Revealed
from ...format.times import with_more
from ...sources.capabilities import can_be_edited
from ...sources.messages import HubMoved
from ...terminal.key_rights import permission_of
from ...terminal.keymap import clickable, hints, key_of
from ...viewmodels.always_like import no_always_reason
from ...viewmodels.answer_schema import AnswerDraft
from ...viewmodels.grant_terms import no_grant_reason
from ...viewmodels.input_draft import InputDraft
from ...viewmodels.request import (
    ClaimWarning,
    FormDrafts,
    OperatorDecision,
    news_of,
    unreadable_reason,
)
from ...widgets.approval.frame import RequestFrame, RequestList, ShownRequest
from ...widgets.approval.passkey_link import NO_PAGE, passkey_rows
from ...widgets.approval.precedents import past_call_lines
from ...widgets.approval.progress import approval_obstacle
from ...widgets.approval.title import request_title
from ...widgets.base.blocks import Block
from ...widgets.base.greyed_keys import Parameters
from ...widgets.inputs.reason_line import ReasonLine
from ..common.detail import Detail
from ..common.guarded_keys import NOTHING_LEFT, SENDING, FollowsRequest, GuardedKeys
from ..common.operator_context import OperatorContext
from .keys import APPROVAL_KEYS, answer_keys, close_keys, page_keys, reveal_keys

READING_AGAIN = 20.0
"""Seconds between two reports that the operator has this request on screen."""
LOOK_BACK = 0.05
"""Seconds between showing a request and searching for precedents, so that it is painted first."""
DECIDING = frozenset({"approve", "edit", "grant", "always", "deny", "stop", "extend"})


@dataclass
class DecisionSent(Message):
    """The hub's outcome of the decision taken here, and whether the request is still open."""

    request: str
    outcome: Outcome
    still_open: bool


@dataclass
class Extended(Message):
    """The hub's outcome of an extension, a claim, a comment, or taking back an approval."""

    request: str
    outcome: Outcome


@dataclass
class Unmasked(Message):
    """The hub's answer to the request to show masked text."""

    request: str
    revealed: Revealed


@dataclass
class PrecedentsFound(Message):
    """Precedents of a request, or `None` if they are unknown."""

    request: ApprovalState
    found: Precedents | None


@runtime_checkable
class TakesAnswers(Protocol):
    """A form over the dialog that sends an answer."""

    def answered(self, outcome: Outcome) -> None:
        """Process the outcome of the answer."""


class ApprovalScreen(GuardedKeys[Outcome | None]):
    """Dialog of one request. Dismissed with the hub's outcome once decided here, else with `None`."""

    CSS_PATH = "screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*APPROVAL_KEYS]

    def __init__(self, context: OperatorContext, deny_reasons: Sequence[str] = ()) -> None:
        super().__init__(context.monotonic, context.quiet)
        self._operator_context = context
        self._hub = context.hub
        self._clock = context.clock
        self.request: ApprovalState
        self._frame = RequestFrame(context.viewer, context.clock, deny_reasons)
        self._inputs = FormDrafts(lambda request: request.input, lambda r: InputDraft(r.input))
        self._answers = FormDrafts(lambda request: request.wants, AnswerDraft.of)
        self._reads: tuple[str | None, float] = None, 0.0
        self._reset()

    def present(
        self,
        request: ApprovalState,
        session: SessionState | None,
        speaker: SessionState | None = None,
        why: str = "",
    ) -> None:
        """Show another request, before the screen is pushed again. `speaker` is the session that made the
        call.

        `why` is shown below the request: the reason why it is opened although a key was meant to decide
        it. One dialog is used for all requests, because building its widgets takes longer than everything
        else between a request and its first paint.
        """
        self._reset()
        self.request = request
        self._session, self._speaker, self._why = session, speaker, why
        if self.is_mounted:
            self._prepare()

    def _reset(self) -> None:
        self._session: SessionState | None = None
        self._speaker: SessionState | None = None
        self._why = ""
        self._precedents: Precedents | None = None
        self._flash_until = 0.0
        self.deciding = self._over = self._too_late = False
        self._meanwhile: str | None = None
        self._claims = ClaimWarning(self._operator_context.operator)
        self._ending = ""
        self._titled: tuple[Content, Content] | None = None
        self._others = 0
        self._shown_at = None
        self._stop_coming()

    def compose(self) -> ComposeResult:
        yield self._frame

    def on_mount(self) -> None:
        self._prepare()

    def _prepare(self) -> None:
        self._frame.begin(ShownRequest(self.request, self._session, self._speaker))
        self._precedents = None
        self.set_timer(LOOK_BACK, self._look_back)
        if self._why:
            self.say(self._why, bad=False)
        self.tick()

    def _look_back(self) -> None:
        """Search for precedents, once the dialog is painted."""
        request = self.request

        async def find() -> None:
            self.post_message(PrecedentsFound(request, await self._operator_context.precedents(request)))

        self.run_worker(find(), group="precedents", exclusive=True, exit_on_error=False)

    @on(PrecedentsFound)
    def show_precedents(self, message: PrecedentsFound) -> None:
        """Show precedents if they belong to the request shown."""
        if (message.request.id, message.request.digest) == (self.request.id, self.request.digest):
            self._precedents = message.found
            self._frame.show_precedents(message.found)
            self.refresh_bindings()

    def on_screen_resume(self) -> None:
        """Mark lines that were covered by a panel as seen only now, and clear notices over them."""
        self.app.clear_notifications()
        self._frame.look_again()

    def on_resize(self) -> None:
        self._frame.refit()
        self.call_after_refresh(self.tick)

    # Display

    def tick(self) -> None:
        """Update ages, active keys and expiry."""
        if not self.is_mounted:
            return
        now = self._clock()
        self._frame.refit()
        self._frame.look_again()
        expires = self.request.expires
        late = expires is not None and now >= expires and self.request.fuse is None
        if late and not self._over and not self.deciding:
            self._too_late = True
            self._end("This request has expired: nothing can be decided any more")
        width = max(20, self.app.size.width - 8)
        title = request_title(self.request, now, width, self._others, over=self._over)
        note = self._note()
        # Setting a title repaints the whole frame, even if it is the same.
        if self._titled is None or not (self._titled[0].is_same(title) and self._titled[1].is_same(note)):
            self._titled = title, note
            self._frame.border_title, self._frame.border_subtitle = title, note
        self._frame.set_class(self.flashes, "-early")
        self._frame.set_class(self._over, "-over")
        self._show_reading()

    def _note(self) -> Content:
        sleep = self.sleep_note()
        if self._frame.reason.is_open and not self.deciding and not (sleep and self.flashes):
            what = "enter deny and stop the agent" if self._frame.reason.stop else "enter deny"
            ways = (clickable(what, "submit"), hints(self, ("approval.close", "go back")))
            return Content.assemble(" ", ways[0], " · ", ways[1], " ").stylize("bold $text-warning")
        if self._over:
            others = [("approval.next", "next")] if self._others else []
            ways = hints(self, *others, ("approval.close", "close"))
            return Content("nothing left to decide · ") + ways
        if self.deciding:
            return Content("deciding…")
        if sleep is not None:
            return sleep
        later = hints(self, ("approval.close", "decide later"))
        if not self._frame.guard.complete:
            return self._unseen_note(later)
        where = self._frame.position
        return Content.assemble(where, " · ", later) if where else later

    def _unseen_note(self, later: Content) -> Content:
        """Return the note that everything must be seen before approval, with the key that shows more."""
        if self._frame.guard.concealed:
            way = hints(self, ("approval.approve", "show what is masked"))
            return Content.assemble(" ", way.stylize("bold $text-error"), " · ", later, " ")
        page = self._frame.unseen
        way = hints(self, ("approval.approve", f"show the next page{f' · {page}' if page else ''}"))
        note = Content.assemble(" ", way.stylize("bold $text-warning"), " ")
        both = Content.assemble(" ", way.stylize("bold $text-warning"), " · ", later, " ")
        return both if both.cell_length <= self._frame.size.width - 4 else note

    def say(self, text: str, *, bad: bool = True) -> None:
        """Show a message below the request."""
        self._frame.say(text, bad=bad)

    # Hub events

    @on(HubMoved)
    async def follow(self, moved: HubMoved) -> None:
        """Process events: others may decide or withdraw the request, and the queue may change."""
        news = news_of(
            moved.events,
            self.request,
            over=self._over,
            deciding=self.deciding,
            operator=self._operator_context.operator,
        )
        self._meanwhile = news.meanwhile or self._meanwhile
        if news.ended is not None:
            self._too_late = False
            self._end(news.ended)
        if news.changes_view:
            await self._look_again(news.again)

    async def _look_again(self, again: str | None) -> None:
        """Show the request as it is now, or the request that replaces it, and count the others."""
        waiting, known = await self._queue()
        before, now = self.request, waiting.get(again or self.request.id)
        if now is not None and now != before:
            self.request = now
            self._session = known.get(now.session, self._session)
            self._speaker = known.get(now.via or "", self._speaker)
            self._frame.show(ShownRequest(now, self._session, self._speaker))
            self._renew(before, now)
            if now.digest != before.digest:
                self._look_back()
        self._others = sum(each != self.request.id for each in waiting) + self._hub.unread().requests
        self.tick()
        self.refresh_bindings()

    async def _queue(self) -> tuple[dict[str, ApprovalState], dict[str, SessionState]]:
        """Return open requests, most urgent first, and all sessions; empty if the hub does not answer."""
        try:
            waiting = {request.id: request for request in in_order(await self._hub.approvals())}
            return waiting, {state.id: state for state in await self._hub.sessions()}
        except Exception as error:
            self.say(f"The hub does not answer: {error}")
            return {}, {}

    def _renew(self, before: ApprovalState, now: ApprovalState) -> None:
        """Report what has changed in the request, and make keys inert."""
        if now.id != before.id:
            self._over = self.deciding = False
            self._meanwhile = None
            self._hide_reason()
            before_that = f"{self._frame.said}. " if self._frame.said else ""
            self.say(f"{before_that}This is the current request", bad=False)
            self._tell_panels("The request has changed: go back and look again")
            self.fall_asleep()
        elif now.given != before.given:
            if not self.deciding:
                self.say(f"{now.given[-1]} has approved ({len(now.given)} of {now.people})", bad=False)
            self.fall_asleep()
        elif now.fuse != before.fuse:
            if now.taken_back is not None and now.fuse is None and not self.deciding:
                self.say(f"{now.taken_back} took the approval back: it is asked again", bad=False)
            self.fall_asleep()
        elif (now.late is None) != (before.late is None):
            # The effect of an approval has changed: it releases the call at once, or waits for the agent.
            gone = "Its client is gone: an approval waits until the agent makes the call again"
            self.say("The agent has made the call again" if now.late is None else gone, bad=False)
            self.fall_asleep()
        elif self._too_late:
            self._over = self._too_late = False
            self.fall_asleep()
        self.refresh_bindings()

    def _end(self, text: str) -> None:
        self._over, self._ending = True, text
        self._stop_coming()
        self._hide_reason()
        self.say(text, bad=False)
        self._tell_panels(text)
        self.tick()
        self.refresh_bindings()
        self.call_later(self._look_again, None)

    def _tell_panels(self, text: str) -> None:
        """Notify the panels about this request that it is over."""
        for screen in self.app.screen_stack:
            if isinstance(screen, FollowsRequest):
                screen.request_over(text)

    # Actions

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """Return the bindings as shown, `escape` included."""
        found = super().active_bindings
        if self._over:
            return close_keys(found)
        if self._frame.guard.concealed:
            return reveal_keys(found)
        return answer_keys(found, self.request) if self._frame.guard.complete else page_keys(found)

    def offers(self, action: str, parameters: Parameters = ()) -> bool:
        """Return whether the dialog offers an action.

        An answer cannot be edited or granted, a request without a deadline cannot be extended, and
        deciding keys disappear once there is nothing to decide.
        """
        if action in DECIDING and self._over:
            return False
        match action:
            case "extend":
                return self.request.expires is not None
            case "claim" | "comment":
                return not self._over
            case "passkey":
                return self.request.passkey and not self._over
            case "take_back":
                return self.request.fuse is not None and not self._over
            case "edit" | "grant" | "always":
                return self.request.wants is None
            case "next":
                return self._over and self._others > 0
            case "precedent":
                return self._precedents is not None and self._precedents.nearest is not None
            case "fold":
                return self._frame.foldable or self._frame.expanded
            case _:
                return True

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Return why an action is not possible now, such as a second decision or an edit of this call."""
        if action not in DECIDING:
            return None
        if self.deciding:
            return SENDING
        if self._over:
            return self._ending or NOTHING_LEFT
        unread = None if action in ("deny", "stop", "extend") else unreadable_reason(self.request)
        if unread is not None:
            return f"Not from here: {unread}"
        match action:
            case "approve" | "edit" | "grant" if self.request.fuse is not None:
                late = self.request.late is not None
                when = "it runs once the agent makes the call again" if late else "it runs in a moment"
                return f"{self.request.fuse.by} has approved it: {when}"
            case "approve" if self.request.passkey and self._frame.guard.complete:
                return self._not_counting() or self._elsewhere()
            case "edit" if not self.request.input:
                return "This call has no input to edit"
            case "edit" if not can_be_edited(self.request.session, self._hub):
                return "The agent cannot accept an edited input: approve or deny the call as it is"
            case "grant" if (reason := no_grant_reason(self.request)) is not None:
                return reason
            case "approve" | "edit" | "grant" if self._frame.guard.complete:
                return self._not_counting()
            case "always":
                return no_always_reason(self.request, self._session)
            case _:
                return None

    def _elsewhere(self) -> str:
        """Return why a request that requires a passkey cannot be approved in a terminal."""
        if self._hub.key_link(self.request.id) is None:
            return NO_PAGE
        key = key_of(type(self), "approval.passkey")
        return f"Its rule asks for a passkey: {key} shows the link to approve with it"

    def _not_counting(self) -> str | None:
        """Return the reason why this operator's approval would not count, or `None`."""
        reason = approval_obstacle(self.request, self._session, self._operator_context.viewer)
        return reason and f"Your approval does not count: {reason}"

    def _all_seen(self) -> bool:
        """Return whether the whole request was on screen; if not, show more of it."""
        if self._frame.guard.complete:
            return True
        if self._frame.guard.concealed:
            if self.accepts_key():
                self._run(self._reveal(self.request))
            return False
        self.show_more(self._frame.show_next)
        return False

    @on(Unmasked)
    def show_unmasked(self, message: Unmasked) -> None:
        """Show masked parts that may be more than a secret to the operator who is to approve."""
        if message.request != self.request.id or self._over:
            return
        if message.revealed.ok:
            self._frame.reveal(message.revealed.texts)
            self.say("The masked text is shown now; it is recorded that you saw it", bad=False)
        else:
            self.say(message.revealed.message)
        self.fall_asleep()
        self.call_after_refresh(self.tick)
        self.refresh_bindings()

    def action_approve(self) -> None:
        """Show the next unseen page.

        Once all was seen, approve the call, or open the form for its answer.
        """
        if self._frame.reason.is_open or not self._all_seen() or not self.accepts_key():
            return
        if not self._passes_claim():
            return
        draft = self._answers.draft_of(self.request)
        if not draft.fields:
            edited = None if self.request.wants is None else dict[str, JsonValue]()
            self.deliberately(lambda: self._decide(OperatorDecision(True, edited=edited)))
        else:
            from .forms.answer_form import AnswerForm

            send = partial(self._answer, self.request)
            self.app.push_screen(AnswerForm(self.request, draft, send, self.monotonic, self.quiet))

    def _answer(self, request: ApprovalState, answer: dict[str, JsonValue]) -> bool:
        """Send the answer if the request has not changed, and return whether it was sent."""
        if still := self._still(request):
            self._decide(OperatorDecision(True, edited=answer))
        return still

    def action_edit(self) -> None:
        """Once the whole input was seen, open the form for the input, with the draft as it was left."""
        if self._frame.reason.is_open or not self._all_seen() or not self.accepts_key():
            return
        if not self._passes_claim():
            return
        from .forms.edit_input import InputForm

        request = self.request
        draft = self._inputs.draft_of(request)

        def answered(edited: dict[str, JsonValue] | None) -> None:
            if edited is not None and self._still(request):
                self._decide(OperatorDecision(True, edited=edited))

        self.app.push_screen(InputForm(request, draft, self.monotonic, self.quiet), answered)

    def action_grant(self) -> None:
        """Once all was seen, open the panel for approval with a grant."""
        if self._frame.reason.is_open or not self._all_seen() or not self.accepts_key():
            return
        if not self._passes_claim():
            return
        request = self.request
        from .grant import GrantChosen, GrantScreen

        def answered(chosen: GrantChosen | None) -> None:
            if chosen is not None and self._still(request):
                self._decide(OperatorDecision(True, chosen.reason, grant=chosen.terms))

        self.app.push_screen(GrantScreen(request, self.monotonic, self.quiet), answered)

    def action_always(self) -> None:
        """Once all was seen, propose a rule under which similar calls need no approval."""
        if self._frame.reason.is_open or not self._all_seen() or not self.accepts_key():
            return
        from .always import AlwaysScreen

        self.app.push_screen(AlwaysScreen(self.request, self._session, self._operator_context))

    def _still(self, request: ApprovalState) -> bool:
        """Return whether the dialog still shows exactly this request, undecided."""
        same = (request.id, request.digest) == (self.request.id, self.request.digest)
        return same and not self._over and not self.deciding

    @on(events.Key)
    def explain_enter(self, event: events.Key) -> None:
        """Explain that enter decides nothing here.

        It may have been typed right after the key that opened the dialog.
        """
        if event.key == "enter" and not (self._frame.reason.is_open or self._over or self.deciding):
            approve, deny = (key_of(ApprovalScreen, f"approval.{each}") for each in ("approve", "deny"))
            self.say(f"Enter decides nothing here: {approve} approves, {deny} denies", bad=False)

    def action_deny(self) -> None:
        """Open the line for the reason. Enter in that line denies."""
        self._ask_reason(stop=False)

    def action_stop(self) -> None:
        """Open the line for the reason. Enter in that line denies and stops the agent."""
        self._ask_reason(stop=True)

    def _ask_reason(self, *, stop: bool) -> None:
        if self.accepts_key() and self._passes_claim():
            self._frame.reason.open(stop=stop, agent=self.request.agent or self.request.session)
            # Focus at once: what is typed next is the reason and must not reach the dialog's keys.
            self.set_focus(self._frame.reason.input)
            self._frame.refit()
            self.fall_asleep()

    def action_submit(self) -> None:
        """Deny with the typed reason, as enter in its line does. Used for clicks."""
        line = self._frame.reason.input
        if self._frame.reason.is_open:
            # The line has to run it itself: after a click on the frame, messages of the action would stop
            # at the frame.
            line.call_later(line.action_submit)

    @on(ReasonLine.Typed)
    def reason_typed(self) -> None:
        self.interrupted()

    @on(ReasonLine.Denied)
    def deny_with_reason(self, event: ReasonLine.Denied) -> None:
        event.stop()
        if not self._over and not self.deciding:
            if self.sleeps_for() > 0:
                self.say("Enter came too soon: nothing is denied yet, press it again", bad=False)
            self.deliberately(
                lambda: self._decide(OperatorDecision(False, event.reason, stop=event.stopping))
            )

    def action_claim(self) -> None:
        """Claim the request, or give up the claim."""
        self._run(self._said(self.request, self._operator_context.claim(self.request)))

    def action_comment(self) -> None:
        """Open the panel for a comment on the request."""
        from .comment import CommentPanel

        request = self.request

        def answered(line: str | None) -> None:
            if line is not None:
                self._run(self._said(request, self._operator_context.comment(request, line)))

        self.app.push_screen(CommentPanel(request), answered)

    async def _said(self, request: ApprovalState, act: Coroutine[object, object, Outcome]) -> Message:
        return Extended(request.id, await act)

    def _passes_claim(self) -> bool:
        """Return whether the request may be decided here.

        If another person has claimed it, warn first and accept the next key.
        """
        found = self._claims.take([self.request])
        if found is not None:
            self.say(found, bad=False)
            self.fall_asleep()
        return found is None

    def _show_reading(self) -> None:
        """Report to other operators that this operator has the request on screen, until it is closed."""
        if permission_of(self.app).refusal("decide") is not None:
            return
        reads = self.request.id if self in self.app.screen_stack and not self._over else None
        now, before = self._operator_context.monotonic(), self._reads
        if reads == before[0] and (reads is None or now - before[1] < READING_AGAIN):
            return
        self._reads = reads, now
        request = reads or before[0]
        if request is not None:
            note = self._operator_context.note_reading(request, reading=reads is not None)
            self.app.run_worker(note, group="reading", exit_on_error=False)

    def on_screen_suspend(self) -> None:
        """End that report if the dialog was closed, not only covered."""
        self.app.call_later(self._show_reading)

    def action_take_back(self) -> None:
        """Take an approval back before its call runs. Not delayed, because time is short."""
        self._run(self._take_back(self.request))

    async def _take_back(self, request: ApprovalState) -> Message:
        return Extended(request.id, await self._operator_context.take_back(request))

    def action_extend(self) -> None:
        """Extend the deadline at which the request is denied."""
        seconds = with_more(self.request, self._clock())
        if seconds is not None and self.accepts_key():
            self._run(self._extend(self.request, seconds))

    @on(Extended)
    def show_extended(self, message: Extended) -> None:
        if message.request == self.request.id and not self._over:
            self.say(message.outcome.message, bad=not message.outcome.ok)

    def _decide(self, decision: OperatorDecision) -> None:
        if self._over or self.deciding:
            return
        self.deciding = True
        self.tick()
        self.refresh_bindings()
        self._run(self._send(self.request, decision))

    async def _send(self, request: ApprovalState, decision: OperatorDecision) -> Message:
        outcome = await self._operator_context.decide(request, decision)
        still_open = not outcome.ok and await self._operator_context.is_open(request)
        return DecisionSent(request.id, outcome, still_open)

    async def _extend(self, request: ApprovalState, seconds: float) -> Message:
        return Extended(request.id, await self._operator_context.extend(request, seconds))

    async def _reveal(self, request: ApprovalState) -> Message:
        return Unmasked(request.id, await self._operator_context.reveal(request))

    def _run(self, action: Coroutine[object, object, Message]) -> None:
        """Run in the app's worker, not the dialog's: closing the dialog must not interrupt a decision."""

        async def finish() -> None:
            self.post_message(await action)

        self.app.run_worker(finish(), group="decisions", exit_on_error=False)

    @on(DecisionSent)
    def show_answer(self, message: DecisionSent) -> None:
        """Close if the decision took effect; otherwise show why not and stay open.

        If others have ended the request, it is over here too, even without an event of the hub.
        """
        if message.request != self.request.id:
            return
        if message.outcome.ok:
            self._inputs.forget(self.request)
            self._answers.forget(self.request)
        for screen in reversed(self.app.screen_stack):
            if isinstance(screen, TakesAnswers):
                screen.answered(message.outcome)
        if message.outcome.ok and self.is_current:
            # `deciding` stays set: a second click must not decide again before the dialog is gone.
            self.dismiss(message.outcome)
            return
        self.deciding = False
        if not message.outcome.ok and not self._over and not message.still_open:
            self._end(self._meanwhile or message.outcome.message)
            return
        self.say(message.outcome.message, bad=not message.outcome.ok)
        self._over = message.outcome.ok or self._over
        self.tick()
        self.refresh_bindings()

    def action_explain(self) -> None:
        """Show every net's verdict on this call, on top of the dialog."""
        explain = partial(self._hub.explain, self.request.session, self.request.call_id)
        self.app.push_screen(Detail(f"Explain: {self.request.tool}", [], explain=explain))

    def action_passkey(self) -> None:
        """Show the link and QR code of the page where a passkey approves the request."""
        link = self._hub.key_link(self.request.id)
        block = Block("passkey", 0, lambda width: passkey_rows(link, width))
        self.app.push_screen(Detail(f"Approve with a passkey: {self.request.tool}", [block]))

    def action_precedent(self) -> None:
        """Show the nearest earlier call: its decision, its result, and how its input differs."""
        call = None if self._precedents is None else self._precedents.nearest
        if call is None:
            return
        request, now = self.request, self._clock()
        block = Block(call.call_id, 0, lambda width: past_call_lines(request, call, now, width))
        self.app.push_screen(Detail(f"Nearest earlier call: {call.session}", [block]))

    async def action_next(self) -> None:
        """Open the most urgent of the other open requests."""
        waiting, known = await self._queue()
        following = next((each for each in waiting.values() if each.id != self.request.id), None)
        if following is not None and self._over:
            self.present(following, known.get(following.session), known.get(following.via or ""))
            self.fall_asleep()
            await self._look_again(None)

    def action_fold(self) -> None:
        """Show every line of the input, or fold it again."""
        self._frame.expanded = not self._frame.expanded
        self._frame.refit()
        self.call_after_refresh(self.tick)

    def action_close(self) -> None:
        """Leave the reason line, or the dialog. Decides nothing."""
        if self.deciding:
            return
        if self._frame.reason.is_open:
            self._hide_reason()
            self._frame.refit()
        elif self.is_current:
            self.dismiss(None)

    @property
    def open_line(self) -> Input | None:
        """Return the line for a denial's reason while it is shown."""
        return self._frame.reason.input if self._frame.reason.is_open else None

    def _hide_reason(self) -> None:
        if self._frame.reason.is_open:
            self._frame.reason.close()
            self.query_one(RequestList).focus()
