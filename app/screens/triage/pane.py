"""Triage: the queue as a table with a preview, in which requests are marked, approved, denied and
granted.

A request is approved here only if its line with its group's heading, or the preview, showed all of it and
stayed in view. Any other request is opened, and its dialog says why. Each decision includes the digest of
what was shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.cache import LRUCache
from textual.containers import Container, Vertical
from textual.content import Content
from textual.events import Resize
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, Static

from ....engine.approvals.request_order import ApprovalQueue, Unread
from ....engine.history.decisions.filter import FilterError
from ....engine.history.decisions.precedents import Precedents
from ....engine.history.model.state import ApprovalState, SessionState
from ....engine.hub.hub import Outcome
from ...format.text import MUTED, count, name_shown, shown
from ...format.times import with_more
from ...sources.messages import RequestChosen
from ...viewmodels.grant_terms import no_grant_reason
from ...viewmodels.queue_filter import EVERYTHING, HINT, QueueFilter, parse_queue_filter
from ...viewmodels.request import ClaimWarning, OperatorDecision
from ...viewmodels.triage import TriageGroup, grouped, must_be_opened, shape_of
from ...widgets.approval.frame import ShownRequest
from ...widgets.approval.preview import RequestPreview
from ...widgets.approval.progress import approval_obstacle
from ...widgets.approval.reviewed_list import has_notices
from ...widgets.approval.triage_list import TriageList
from ...widgets.base.blocks import BlockList
from ...widgets.base.greyed_keys import GreyedKeys, Parameters
from ...widgets.base.titles import entitle
from ...widgets.inputs.filter_line import FilterLine
from ...widgets.inputs.reason_line import ReasonLine
from ...widgets.lists.sessions import NOTHING_WAITS
from ..common.guarded_keys import ASLEEP, SENDING, FollowsRequest, GuardsKeys
from ..common.operator_context import OperatorContext, outcome_of
from ..live.queue import MOST
from .keys import TRIAGE_KEYS

BESIDE = 110
"""Width in columns from which the preview is beside the list."""
LOOK_BACK = 0.2
"""Seconds for which the cursor stays on a request before its precedents are searched for."""
PAST = 200
"""Number of requests whose precedents are cached."""
BELOW = 34
"""Height in lines from which the preview is below the list if there is no space beside it."""


class TriagePane(GuardsKeys, GreyedKeys, Vertical):
    """Open requests, in groups. The pane does not read the hub: `show` passes the queue."""

    BINDINGS: ClassVar[list[BindingType]] = [*TRIAGE_KEYS]
    DEFAULT_CSS = """
    TriagePane {
        height: 1fr;
        & #triage-title {
            height: 1; padding: 0 1; background: $panel; text-wrap: nowrap; text-overflow: ellipsis;
        }
        & #triage-heading { height: 1; padding: 0 0 0 2; text-wrap: nowrap; }
        & #triage-body { height: 1fr; }
        & #triage { width: 1fr; height: 1fr; }
        & #preview {
            display: none; padding: 0; border: round $foreground 25%;
            border-title-color: $text-muted; border-subtitle-color: $text-muted;
        }
        &.-beside #triage-body { layout: horizontal; }
        &.-beside #preview { display: block; width: 44%; height: 1fr; }
        &.-below #triage-body { layout: vertical; }
        &.-below #preview { display: block; width: 1fr; height: 45%; }
        & #triage-said { height: auto; max-height: 3; padding: 0 2; display: none; }
    }
    """

    @dataclass
    class Answered(Message, bubble=False):
        """Outcome of one request; `last` is set for the final one."""

        request: str
        outcome: Outcome
        last: bool

    @dataclass
    class Extended(Message, bubble=False):
        """The hub's outcome of an extension, or of taking back an approval."""

        outcome: Outcome

    @dataclass
    class Found(Message, bubble=False):
        """Precedents of a request, or `None` if they are unknown."""

        request: ApprovalState
        found: Precedents | None

    @dataclass
    class Exit(Message):
        """The operator wants to leave the pane."""

    def __init__(self, context: OperatorContext, deny_reasons: Sequence[str] = ()) -> None:
        super().__init__(context.monotonic, context.quiet)
        self._operator_context = context
        self._clock = context.clock
        self._queue = ApprovalQueue()
        self._unread = Unread()
        self._sessions: Mapping[str, SessionState] = {}
        self._groups: list[TriageGroup] = []
        self._listed: dict[str, ApprovalState] = {}
        self._filter: QueueFilter = EVERYTHING
        self._marked: set[str] = set()
        self._sending: set[str] = set()
        self._outcomes: list[Outcome] = []
        self._under_cursor: tuple[str, str | None] | None = None
        self._granting: ApprovalState | None = None
        self._due: Timer | None = None
        self._past: LRUCache[tuple[str, str | None], Precedents] = LRUCache(PAST)
        self._denying: tuple[ApprovalState, ...] = ()
        self._claims = ClaimWarning(context.operator)
        self._heading = Static("", id="triage-title")
        self._columns = Static("", id="triage-heading")
        self._list = TriageList(context.monotonic, ASLEEP)
        self._preview = RequestPreview(context.viewer, context.clock, context.monotonic, ASLEEP)
        self._line = FilterLine(HINT)
        self._reason = ReasonLine(deny_reasons)

    def compose(self) -> ComposeResult:
        yield self._heading
        yield self._line
        yield self._columns
        with Container(id="triage-body"):
            yield self._list
            yield self._preview
        yield Static("", id="triage-said")
        yield self._reason

    @on(Resize)
    def place_preview(self) -> None:
        """Place the preview beside the list or below it, or hide it."""
        beside = self.size.width >= BESIDE
        self.set_class(beside, "-beside")
        self.set_class(not beside and self.size.height >= BELOW, "-below")
        self.call_after_refresh(self._follow_cursor)

    # Display

    def show(self, queue: ApprovalQueue, sessions: Mapping[str, SessionState], unread: Unread) -> None:
        """Show the current queue."""
        self._queue, self._sessions, self._unread = queue, sessions, unread
        self._regroup()

    def _regroup(self) -> None:
        wanted = self._queue.first()
        if self._filter != EVERYTHING:
            wanted = [each for each in wanted if self._filter.fits(each)]
        known = {group.key: group for group in self._groups}
        self._groups = grouped(wanted, self._sessions, known)
        self._listed = {each.id: each for each in wanted}
        open_now = {each.id for each in self._queue}
        self._marked &= open_now
        self._sending &= open_now
        self._end_grant()
        self.paint()
        self._list.forget_others()
        self._preview.keep(list(self._listed.values()))

    def paint(self) -> None:
        """Show everything in its current state, with current ages."""
        now = self._clock()
        some = self._filter != EVERYTHING
        self._list.say_when_empty("No waiting request matches the filter." if some else NOTHING_WAITS)
        self._list.show_groups(self._groups, now, self._marked, self._sending)
        self._columns.update(self._list.meta.heading(), layout=False)
        self._title()
        self._follow_cursor()
        self.refresh_bindings()

    def _paint_marks(self) -> None:
        self._list.show_marks(self._marked, self._clock(), self._sending)
        self._title()
        self.refresh_bindings()

    def _title(self) -> None:
        number, all_of_them = len(self._listed), len(self._queue) + self._unread.requests
        of_all = f"{number:,} of {count(all_of_them, 'request')}"
        words = count(number, "request") if number == all_of_them else of_all
        groups = f" in {count(len(self._groups), 'group')}" if number else ""
        parts = [Content.assemble((words, "bold"), groups)]
        if self._marked:
            parts.append(Content.styled(f"{len(self._marked)} marked", "bold $text-accent"))
        if above := self._list.above:
            parts.append(Content.styled(f"{above} above", MUTED))
        if below := self._list.below:
            parts.append(Content.styled(f"{below} below", MUTED))
        if (asleep := self.sleep_note()) is not None and self.request_at_cursor is not None:
            parts.append(asleep)
        self._heading.update(Content(" · ").join(parts), layout=False)

    @property
    def request_at_cursor(self) -> ApprovalState | None:
        """Return the request under the cursor."""
        return self._listed.get(self._list.current or "")

    @property
    def request(self) -> ApprovalState:
        """Return the request under the cursor, for the command palette, which waits for the pane's keys.

        Raises `LookupError` if there is none.
        """
        found = self.request_at_cursor
        if found is None:
            raise LookupError(NOTHING_WAITS)
        return found

    def _follow_cursor(self) -> None:
        """Preview the request under the cursor. If it has changed, keys are inert."""
        request = self.request_at_cursor
        if request is None:
            self._preview.preview(None)
        else:
            session = self._sessions.get(request.session)
            speaker = self._sessions.get(request.via or "")
            self._preview.preview(ShownRequest(request, session, speaker))
        self._note_cursor()
        self._preview_note()

    def _note_cursor(self) -> None:
        """Make keys inert when another request is under the cursor."""
        request = self.request_at_cursor
        found = None if request is None else (request.id, request.digest)
        if found != self._under_cursor:
            self._under_cursor = found
            self._look_back_soon()
            self.fall_asleep()
            self.refresh_bindings()

    def _look_back_soon(self) -> None:
        """Search for precedents of the request under the cursor once the cursor stays there."""
        if self._due is not None:
            self._due.stop()
        self._due = self.set_timer(LOOK_BACK, self._look_back)

    def _look_back(self) -> None:
        self._due = None
        request = self._preview.request
        if request is None or not self._preview.display:
            return
        known = self._past.get((request.id, request.digest))
        if known is not None:
            self._preview.show_precedents(known)
            return

        async def find() -> None:
            found = await self._operator_context.precedents(request)
            self.post_message(self.Found(request, found))

        self.run_worker(find(), group="precedents", exclusive=True, exit_on_error=False)

    @on(Found)
    def show_precedents(self, message: Found) -> None:
        """Show precedents if they belong to the request in the preview."""
        request, shown_now = message.request, self._preview.request
        if message.found is not None:
            self._past[request.id, request.digest] = message.found
        if shown_now is not None and (shown_now.id, shown_now.digest) == (request.id, request.digest):
            self._preview.show_precedents(message.found)

    def _preview_note(self) -> None:
        request, note = self._preview.request, ""
        if request is not None and request.wants is not None:
            note = " enter opens it, to fill it in "
        elif self._preview.guard.concealed:
            note = " enter opens it, to see masked text "
        elif request is not None and self._preview.is_longer:
            note = " more than fits here: enter opens it "
        entitle(self._preview, subtitle=Content.styled(note, "bold $text-warning"))

    @on(BlockList.Moved)
    def follow_cursor(self, event: BlockList.Moved) -> None:
        event.stop()
        self._note_cursor()
        self._title()
        # The preview takes longer, so the line is painted first to show that the key was received.
        self.call_after_refresh(self._follow_cursor)

    @on(BlockList.Opened)
    def open_request(self, event: BlockList.Opened) -> None:
        event.stop()
        self.post_message(RequestChosen(event.key))

    def tick(self) -> None:
        if not self.is_mounted or not self.display:
            return
        self._list.review()
        self._preview.look_again()
        self._preview.review()
        self._preview_note()
        self._title()

    def say(self, text: str, *, bad: bool = True) -> None:
        said = self.query_one("#triage-said", Static)
        said.update(Content.styled(shown(text), "bold $text-error" if bad else "bold $text-warning"))
        said.display = bool(text)

    def take_focus(self) -> None:
        """Focus the list, which does not decide anything."""
        self.screen.set_focus(self._list)

    # Actions

    @property
    def open_line(self) -> Input | None:
        """Return the line for a denial's reason while it is shown."""
        return self._reason.input if self._reason.is_open else None

    def accepts_key(self) -> bool:
        """Return whether a key decides now.

        Never while the request under the cursor has not been painted.
        """
        request = self.request_at_cursor
        now = None if request is None else (request.id, request.digest)
        if now != self._under_cursor:
            self._follow_cursor()
        return super().accepts_key()

    def show_obstacle(self, reason: str) -> None:
        """Show the reason in the pane, since a notice would cover what is to be read."""
        self.say(reason, bad=False)

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Return why an action is not possible now; without a request there is nothing to decide."""
        if action in ("back", "filter"):
            return None
        request = self.request_at_cursor
        if request is None:
            return NOTHING_WAITS
        if action in ("approve", "deny", "grant") and self._sending:
            return SENDING
        return no_grant_reason(request) if action == "grant" and not self._marked else None

    def _chosen(self) -> list[ApprovalState]:
        """Return the marked requests that are listed, in order; without marks, the one at the cursor."""
        if self._marked:
            found = [each for group in self._groups for each in group.requests if each.id in self._marked]
            if len(found) < len(self._marked):
                self.say("The filter hides marked requests: clear the filter or the marks", bad=False)
                return []
            return found
        request = self.request_at_cursor
        return [] if request is None else [request]

    def action_approve(self) -> None:
        """Approve the chosen requests once, or open the first one that was not completely seen."""
        chosen = self._chosen()
        if not chosen or self._reason.is_open or self._says_obstacle(chosen):
            return
        if not self._all_seen(chosen) or not self.accepts_key() or not self._passes_claims(chosen):
            return
        self.deliberately(lambda: self._decide(chosen, OperatorDecision(True)))

    def _passes_claims(self, chosen: Sequence[ApprovalState]) -> bool:
        """Return whether all may be decided.

        If other people have claims, warn first and accept the next key.
        """
        found = self._claims.take(chosen)
        if found is not None:
            self.say(found, bad=False)
            self.fall_asleep()
        return found is None

    def _says_obstacle(self, chosen: Sequence[ApprovalState]) -> bool:
        """Report why an approval by this operator would not count, and return whether it would not."""
        viewer = self._operator_context.viewer
        for each in chosen:
            why = approval_obstacle(each, self._sessions.get(each.session), viewer)
            if why is not None:
                among = f"{name_shown(each.tool)}: " if len(chosen) > 1 else ""
                self.say(f"{among}Your approval does not count: {why}", bad=False)
                return True
        return False

    def _all_seen(self, chosen: Sequence[ApprovalState]) -> bool:
        """Return whether all requests were completely seen, for long enough.

        Open one that cannot be seen here.
        """
        if has_notices(self):
            # The notices cover lines that have to be seen.
            self.app.clear_notifications()
            self.fall_asleep()
            return False
        self._list.review()
        self._preview.review()
        for each in chosen:
            if (why := self._unseen(each)) is None:
                continue
            if self.accepts_key():
                if self._comes_to_be_seen(each):
                    self.fall_asleep()
                else:
                    among = f", as one of {len(chosen)} that are marked" if len(chosen) > 1 else ""
                    self.post_message(RequestChosen(each.id, f"Opened, not approved{among}: {why}"))
            return False
        return True

    def _unseen(self, request: ApprovalState) -> str | None:
        """Return the reason why a request cannot be approved here; `None` if all of it was seen."""
        if request.wants is not None:
            return "it has a form to fill in"
        if request.hidden:
            return "masked text in it may be more than a secret"
        if self._list.was_seen(request) or self._preview.was_seen(request):
            return None
        return must_be_opened(request) or "not all of it was on screen"

    def _comes_to_be_seen(self, request: ApprovalState) -> bool:
        return self._list.comes_to_be_seen(request) or self._preview.comes_to_be_seen(request)

    def action_deny(self) -> None:
        """Open the line for the reason. Enter in that line denies the requests chosen now."""
        chosen = self._chosen()
        if not chosen or self._reason.is_open or not self.accepts_key():
            return
        if len(chosen) > 1 and any(each.wants is not None for each in chosen):
            self.say("One of these has a form to fill in: decide it separately", bad=False)
            return
        if not self._passes_claims(chosen):
            return
        self._denying = tuple(chosen)
        agent = chosen[0].agent if len(chosen) == 1 else ""
        self._reason.clear()
        self._reason.open(stop=False, agent=agent)
        if len(chosen) > 1:
            self.say(f"Denies {count(len(chosen), 'request')}", bad=False)
        # Focus at once: what is typed next is the reason and must not reach the pane's keys.
        self.screen.set_focus(self._reason.input)
        self.fall_asleep()

    @on(ReasonLine.Typed)
    def reason_typed(self, event: ReasonLine.Typed) -> None:
        event.stop()
        self.interrupted()

    @on(ReasonLine.Denied)
    def deny_with_reason(self, event: ReasonLine.Denied) -> None:
        event.stop()
        if self.sleeps_for() > 0:
            self.say("Enter came too soon: nothing is denied yet, press it again", bad=False)
        denying, decision = self._denying, OperatorDecision(False, event.reason)
        self.deliberately(lambda: self._deny(denying, decision))

    def _deny(self, chosen: Sequence[ApprovalState], decision: OperatorDecision) -> None:
        self._close_reason()
        self._decide(chosen, decision)

    def _close_reason(self) -> None:
        self._denying = ()
        self._reason.close()
        self.say("")
        self.take_focus()

    def action_grant(self) -> None:
        """Open the panel for an approval with a grant, for one request that was completely seen."""
        chosen = self._chosen()
        if not chosen or self._reason.is_open:
            return
        if len(chosen) > 1:
            self.say("A grant goes with one request: clear the other marks", bad=False)
            return
        [request] = chosen
        if (why := no_grant_reason(request)) is not None:
            self.say(why, bad=False)
            return
        if self._says_obstacle(chosen) or not self._all_seen(chosen) or not self.accepts_key():
            return
        if not self._passes_claims(chosen):
            return
        from ..approval.grant import GrantChosen, GrantScreen

        def answered(terms: GrantChosen | None) -> None:
            self._granting = None
            if terms is not None:
                self._decide([request], OperatorDecision(True, terms.reason, grant=terms.terms))

        self._granting = request
        self.app.push_screen(GrantScreen(request, self.monotonic, self.quiet), answered)

    def _end_grant(self) -> None:
        """Notify the grant panel if its request is over or has changed."""
        granting = self._granting
        if granting is None or self._is_same(granting):
            return
        self._granting = None
        for screen in self.app.screen_stack:
            if isinstance(screen, FollowsRequest):
                screen.request_over("This request is no longer what was shown: go back and look again")

    def _is_same(self, request: ApprovalState) -> bool:
        """Return whether a request is still the one that was shown."""
        found = self._queue.get(request.id)
        return found is not None and found.digest == request.digest

    def _decide(self, chosen: Sequence[ApprovalState], decision: OperatorDecision) -> None:
        """Send a decision for each request, provided that all of them are still what was shown."""
        same = [each for each in chosen if each.id not in self._sending and self._is_same(each)]
        if len(same) < len(chosen):
            self.say("Nothing was decided: what was chosen has changed, look again")
            return
        self._sending |= {each.id for each in same}
        self._outcomes = []
        self.say("")
        # Run in the app's worker: leaving the pane must not interrupt a series of decisions.
        self.app.run_worker(self._send(same, decision), group="decisions", exit_on_error=False)
        self.paint()

    async def _send(self, requests: Sequence[ApprovalState], decision: OperatorDecision) -> None:
        for request in requests:
            outcome = await self._operator_context.decide(request, decision)
            self.post_message(self.Answered(request.id, outcome, request is requests[-1]))

    @on(Answered)
    def show_answer(self, message: Answered) -> None:
        """Record the outcome of one request. After the last one, report them all."""
        self._outcomes.append(message.outcome)
        self._sending.discard(message.request)
        if message.outcome.ok:
            self._marked.discard(message.request)
        if not message.last:
            return
        failed = [each for each in self._outcomes if not each.ok]
        if len(self._outcomes) == 1:
            self.say(self._outcomes[0].message, bad=bool(failed))
        else:
            done = f"{count(len(self._outcomes) - len(failed), 'request')} decided"
            rest = f", {len(failed)} not: {failed[0].message}" if failed else ""
            self.say(done + rest, bad=bool(failed))
        self.paint()

    def action_mark(self) -> None:
        """Mark the request under the cursor, or remove its mark."""
        request = self.request_at_cursor
        if request is None:
            return
        if request.id in self._marked:
            self._marked.remove(request.id)
        elif self._may_mark(1):
            self._marked.add(request.id)
        self._paint_marks()

    def action_alike(self) -> None:
        """Mark all requests like the one under the cursor; if all are marked, remove the marks."""
        request = self.request_at_cursor
        if request is None:
            return
        shape = shape_of(request)
        alike = {each.id for each in self._listed.values() if shape_of(each) == shape}
        if alike <= self._marked:
            self._marked -= alike
        elif self._may_mark(len(alike - self._marked)):
            self._marked |= alike
        self._paint_marks()

    def _may_mark(self, number: int) -> bool:
        if len(self._marked) + number <= MOST:
            return True
        self.say(f"At most {MOST} requests are decided together", bad=False)
        return False

    def action_extend(self) -> None:
        """Extend the deadline of the request under the cursor by 15 minutes."""
        request = self.request_at_cursor
        if request is None or not self.accepts_key():
            return
        seconds = with_more(request, self._clock())
        if seconds is None:
            self.say("This request has no deadline", bad=False)
            return
        self.app.run_worker(self._extend(request, seconds), group="decisions", exit_on_error=False)

    async def _extend(self, request: ApprovalState, seconds: float) -> None:
        outcome = await outcome_of(lambda: self._operator_context.extend(request, seconds))
        self.post_message(self.Extended(outcome))

    def action_take_back(self) -> None:
        """Take back the approvals of the chosen requests before their calls run."""
        chosen = self._chosen()
        fused = [each for each in chosen if each.fuse is not None]
        if fused:
            self.app.run_worker(self._take_back(fused), group="decisions", exit_on_error=False)
        elif chosen or not self._marked:
            self.say("No approval can be taken back", bad=False)

    async def _take_back(self, requests: Sequence[ApprovalState]) -> None:
        # Concurrently, because the calls run in a moment.
        outcomes = await asyncio.gather(*map(self._operator_context.take_back, requests))
        refused = [each for each in outcomes if not each.ok]
        if len(outcomes) == 1:
            outcome = outcomes[0]
        else:
            back = f"{count(len(outcomes) - len(refused), 'approval')} taken back"
            rest = f", {len(refused)} not: {refused[0].message}" if refused else ""
            outcome = Outcome(ok=not refused, message=back + rest)
        self.post_message(self.Extended(outcome))

    @on(Extended)
    def show_extended(self, message: Extended) -> None:
        """Show the outcome."""
        self.say(message.outcome.message, bad=not message.outcome.ok)

    def action_filter(self) -> None:
        """Show the filter and focus it."""
        self._line.open()

    @on(FilterLine.Settled)
    def search(self, message: FilterLine.Settled) -> None:
        """Apply the filter. A filter with an error is reported and changes nothing."""
        message.stop()
        try:
            wanted = parse_queue_filter(self._line.text)
        except FilterError as error:
            self.say(str(error), bad=False)
            return
        self.say("")
        if wanted != self._filter:
            self._filter = wanted
            self._regroup()
        if message.done:
            self.take_focus()

    @on(FilterLine.Cleared)
    def clear(self, message: FilterLine.Cleared | None = None) -> None:
        """Clear the filter and list everything again."""
        if message is not None:
            message.stop()
        self._line.close()
        self._filter = EVERYTHING
        self.say("")
        self._regroup()
        self.take_focus()

    def action_back(self) -> None:
        """Leave the reason line, then the filter, then the marks, then the table. Decides nothing."""
        if self._reason.is_open:
            self._close_reason()
        elif self._line.display:
            self.clear()
        elif self._marked:
            self._marked.clear()
            self.paint()
        else:
            self.post_message(self.Exit())
