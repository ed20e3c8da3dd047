"""A hub without agents: the same methods, states set by hand, events published by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import wraps
from pathlib import Path

from pydantic import JsonValue

from interlock.engine.approvals.passkeys import KeyAnswer, NewKey, page_link
from interlock.engine.approvals.request_order import Unread, longest_first
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.decisions.precedents import Precedents
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalRevealed,
    ApprovalWithdrawn,
    EventBody,
    JournalEvent,
)
from interlock.engine.history.model.records import FreezeRecord, JournalOutage
from interlock.engine.history.model.state import ApprovalState, Origin, SessionState, SessionSummary
from interlock.engine.history.redaction.hidden_text import RevealedText
from interlock.engine.hub.api import DEFAULT_LIMIT, HubApi, KeyRequest, PasskeyList, PasskeyView
from interlock.engine.hub.backtest_api import BacktestSource
from interlock.engine.hub.hub import (
    DisconnectedCalls,
    FreezeChanged,
    OutageChanged,
    Outcome,
    Revealed,
    Spawn,
    Streaming,
    Subscription,
    UnknownSessionError,
)
from interlock.engine.recording.explanation import ExplanationView


@dataclass(frozen=True)
class Answer:
    """A decision as received, with all of its fields."""

    approval_id: str
    approved: bool
    by: str
    reason: str | None = None
    input: dict[str, JsonValue] | None = None
    digest: str | None = None
    grant: GrantTerms | None = None
    stop: bool = False


def noted(name: str, word: str, message: str = "") -> Callable[..., Awaitable[Outcome]]:
    """Return the operation `name`, recorded as `word`; `message` has placeholders for the arguments."""

    @wraps(getattr(HubApi, name), updated=())
    async def act(self: FakeHub, *args: object, **kwargs: object) -> Outcome:
        self.asked.append((word, *args, *kwargs.values()))
        if self.refuse is not None:
            return Outcome(ok=False, message=self.refuse)
        return Outcome(ok=True, message=message.format(*args))

    return act


class HeldLease:
    """The right to act on what is recorded, which a hub without other servers never loses."""

    is_held = True

    async def until_held(self) -> None:
        """Return at once."""


class FakeHub(BacktestSource, HubApi):
    """Hub that records the console's requests in `asked`; its list of decisions is that of a `database`.

    `answers` are the received decisions in full.
    """

    database = Path("deploy.db")
    lease = HeldLease()

    def __init__(self, *states: SessionState, now: datetime) -> None:
        self.states = {state.id: state for state in states}
        self.now = now
        self.asked: list[tuple[object, ...]] = []
        self.answers: list[Answer] = []
        self.refuse: str | None = None
        self.past: dict[str, Precedents] = {}
        self.behind = "what is behind a mask"
        self.held: asyncio.Event | None = None
        self.explanation: ExplanationView | None = None
        self.spawn: object = None
        self.lacking = Unread()
        self.groups: dict[str, tuple[str, ...]] = {}
        self.page: str | None = None
        self.keys: tuple[PasskeyView, ...] = ()
        self.reads: str | None = None
        self.freeze_in_force: FreezeRecord | None = None
        self.outage: JournalOutage | None = None
        self.journal: list[JournalEvent] = []
        self._subscriptions: list[Subscription] = []

    def spawn_in(self, spawn: Spawn) -> None:
        self.spawn = spawn

    async def sessions(self) -> list[SessionState]:
        return list(self.states.values())

    async def session(self, session_id: str) -> SessionState:
        return self.states[session_id]

    async def approvals(self) -> list[ApprovalState]:
        waiting = [a for state in self.states.values() for a in state.approvals.values()]
        return longest_first(waiting)

    def groups_of(self, name: str) -> tuple[str, ...]:
        return self.groups.get(name, ())

    def key_link(self, approval_id: str) -> str | None:
        return page_link(self.page, approval_id)

    async def passkeys(self) -> PasskeyList:
        return PasskeyList(passkeys=self.keys)

    async def challenge_key(
        self, approval_id: str, *, digest: str | None, origin: str, by: str
    ) -> KeyRequest:
        return KeyRequest(ok=False, message="no challenge")

    async def begin_key(self, *, origin: str, by: str) -> KeyRequest:
        return KeyRequest(ok=False, message="no key")

    async def register_key(self, key: NewKey, *, by: str) -> KeyRequest:
        return KeyRequest(ok=False, message="no key")

    confirm_key = noted("confirm_key", "confirm key")
    remove_key = noted("remove_key", "remove key")

    def unread(self) -> Unread:
        return self.lacking

    async def decide(
        self,
        approval_id: str,
        *,
        approved: bool,
        by: str,
        reason: str | None = None,
        input: dict[str, JsonValue] | None = None,  # noqa: A002 - the hub's own name for it
        digest: str | None = None,
        grant: GrantTerms | None = None,
        stop: bool = False,
        passkey: KeyAnswer | None = None,
    ) -> Outcome:
        self.asked.append(("decide", approval_id, approved, by, reason))
        self.answers.append(Answer(approval_id, approved, by, reason, input, digest, grant, stop))
        if self.held is not None:
            await self.held.wait()
        if self.refuse is not None:
            return Outcome(ok=False, message=self.refuse)
        open_now = {a.id: a for a in await self.approvals()}
        request = open_now.get(approval_id)
        if request is None or digest != request.digest:
            return Outcome(ok=False, message="This is not the request that was shown: look again")
        if approved and len(request.given) + 1 < request.people:
            return self.given(approval_id, by)
        self.settle(approval_id)
        self.publish(
            request.session,
            ApprovalDecided(
                approval_id=approval_id, call_id=request.call_id, approved=approved, by=by, reason=reason
            ),
        )
        word = "approved" if approved else "denied"
        stopped = f"; {request.session} stopped" if stop else ""
        return Outcome(ok=True, message=f"{request.tool} {word} by {by}{stopped}")

    async def reveal(self, approval_id: str, *, by: str) -> Revealed:
        self.asked.append(("reveal", approval_id, by))
        if self.refuse is not None:
            return Revealed(ok=False, message=self.refuse)
        seen = next(a.revealed for s in self.states.values() if (a := s.approvals.get(approval_id)))
        request = self._change(approval_id, revealed=(*seen, by))
        self.publish(
            request.session,
            ApprovalRevealed(approval_id=approval_id, call_id=request.call_id, by=by),
        )
        texts = tuple(RevealedText(place=each.place, text=self.behind) for each in request.hidden)
        return Revealed(ok=True, message="shown", texts=texts)

    take_back = noted("take_back", "take back", "taken back")
    claim = noted("claim", "claim", "{0} claimed")
    unclaim = noted("unclaim", "unclaim", "{0} given up")
    comment = noted("comment", "comment", "said")

    async def note_reading(self, approval_id: str, reading: bool, *, by: str) -> None:
        self.reads = approval_id if reading else None

    async def precedents(self, approval_id: str) -> Precedents:
        if approval_id not in {each.id for each in await self.approvals()}:
            raise LookupError(f"No open request '{approval_id}'")
        return self.past.get(approval_id, Precedents())

    async def extend(self, approval_id: str, *, seconds: float | None, by: str) -> Outcome:
        self.asked.append(("extend", approval_id, seconds, by))
        if self.refuse is not None:
            return Outcome(ok=False, message=self.refuse)
        until = None if seconds is None else self.now + timedelta(seconds=seconds)
        request = self._change(approval_id, expires=until)
        self.publish(
            request.session,
            ApprovalExtended(approval_id=approval_id, call_id=request.call_id, until=until, by=by),
        )
        return Outcome(ok=True, message=f"{request.tool} has more time")

    async def explain(self, session_id: str, call_id: str) -> ExplanationView:
        self.asked.append(("explain", session_id, call_id))
        if self.explanation is None:
            raise UnknownSessionError(f"No live session '{session_id}'")
        return self.explanation

    send = noted("send", "send")
    abort = noted("abort", "abort")
    compact = noted("compact", "compact", "Compacted {0}: a summary and the last 4 messages")
    set_mode = noted("set_mode", "mode", "{0} is now in {1} mode")
    confirm_change = noted("confirm_change", "confirm", "Confirmed {1}")
    drop_change = noted("drop_change", "drop", "No longer proposed: {1}")
    revoke_grant = noted("revoke_grant", "revoke", "{1} revoked")

    async def toggle_net(
        self,
        session_id: str,
        net: str,
        active: bool,
        *,
        by: str,
        reason: str | None = None,
        seconds: float | None = None,
    ) -> Outcome:
        why = () if reason is None else (reason, seconds)
        self.asked.append(("toggle", session_id, net, active, by, *why))
        state = self.states[session_id]
        state.nets[net].active = active
        return Outcome(ok=True, message=f"{by} turned {'on' if active else 'off'} {net}")

    async def accept_loss(self, session_id: str, *, by: str, reason: str) -> Outcome:
        self.asked.append(("accept", session_id, by, reason))
        return Outcome(ok=True, message=f"Accepted by {by}")

    async def raise_limit(
        self, session_id: str, max_cost: float, *, by: str, reason: str | None = None
    ) -> Outcome:
        self.asked.append(("limit", session_id, max_cost, by, reason))
        if self.refuse is not None:
            return Outcome(ok=False, message=self.refuse)
        self.states[session_id].max_cost = max_cost
        return Outcome(ok=True, message=f"{session_id} may now cost ${max_cost:.2f}")

    async def close_session(self, session_id: str, by: str) -> None:
        self.asked.append(("close", session_id, by))
        del self.states[session_id]

    async def history(self, limit: int = DEFAULT_LIMIT) -> list[SessionSummary]:
        return []

    async def recorded(self, session_id: str) -> list[JournalEvent]:
        return self.journal

    async def origin(self, session_id: str) -> Origin:
        return Origin(session=session_id, source=None)

    def current_freeze(self) -> FreezeRecord | None:
        return self.freeze_in_force

    def current_outage(self) -> JournalOutage | None:
        return self.outage

    async def freeze(self, *, by: str, reason: str = "") -> Outcome:
        self.asked.append(("freeze", by, reason))
        self.show_freeze(FreezeRecord(by=by, at=self.now, reason=reason))
        return Outcome(ok=True, message="All agents are frozen")

    async def lift_freeze(self, *, by: str, reason: str) -> Outcome:
        self.asked.append(("lift", by, reason))
        self.show_freeze(None)
        return Outcome(ok=True, message="No longer frozen")

    def steers(self, session_id: str) -> bool:
        return False

    def server_of(self, session_id: str) -> str | None:
        return None

    def takes_edits(self, session_id: str) -> bool:
        return True

    def subscribe(self, limit: int | None = None) -> Subscription:
        subscription = Subscription(self._subscriptions.remove, limit)
        self._subscriptions.append(subscription)
        return subscription

    # Events that a test causes

    def show_freeze(self, freeze: FreezeRecord | None) -> None:
        """Freeze all agents, or end the freeze with `None`."""
        self.freeze_in_force = freeze
        for subscription in self._subscriptions:
            subscription.put(FreezeChanged(freeze=freeze))

    def show_outage(self, outage: JournalOutage | None) -> None:
        """Report an outage of the journal, or its end with `None`."""
        self.outage = outage
        for subscription in self._subscriptions:
            subscription.put(OutageChanged(outage=outage))

    def settle(self, approval_id: str) -> ApprovalState:
        """Remove a request from the queue."""
        for state in self.states.values():
            if approval_id in state.approvals:
                return state.approvals.pop(approval_id)
        raise KeyError(approval_id)

    def _change(self, approval_id: str, **change: object) -> ApprovalState:
        """Replace a request by a changed copy."""
        for state in self.states.values():
            if approval_id in state.approvals:
                changed = state.approvals[approval_id].model_copy(update=change)
                state.approvals[approval_id] = changed
                return changed
        raise KeyError(approval_id)

    def given(self, approval_id: str, by: str) -> Outcome:
        """Record the approval of one of several approvers."""
        given = next(a.given for s in self.states.values() if (a := s.approvals.get(approval_id)))
        request = self._change(approval_id, given=(*given, by), given_at=(self.now,) * (len(given) + 1))
        self.publish(
            request.session,
            ApprovalGiven(approval_id=approval_id, call_id=request.call_id, by=by, digest=request.digest),
        )
        missing = request.people - len(request.given)
        rest = "one more person must approve" if missing == 1 else f"{missing} more people must approve"
        so_far = f"{len(request.given)} of {request.people}"
        return Outcome(ok=True, message=f"{request.tool} approved by {by} ({so_far}); {rest}")

    def expire(self, approval_id: str, reason: str) -> None:
        """Expire a request that nobody decided in time."""
        request = self.settle(approval_id)
        self.publish(
            request.session,
            ApprovalExpired(approval_id=approval_id, call_id=request.call_id, reason=reason),
        )

    def asked_again(self, approval_id: str, **change: object) -> ApprovalState:
        """Withdraw a request because something changed, and request approval of the same call again."""
        old = next(a for s in self.states.values() if (a := s.approvals.get(approval_id)))
        self.withdraw(approval_id, "the request has changed; asked again")
        new = old.model_copy(update={"id": f"{approval_id}+", **change})
        self.request(new)
        return new

    def publish(self, session_id: str, body: EventBody) -> None:
        """Publish an event whose effect the states already have."""
        event = JournalEvent(
            cursor=len(self.journal) + 1, session=session_id, seq=1, at=self.now, body=body
        )
        for subscription in self._subscriptions:
            subscription.put(event)

    def tell(self, event: DisconnectedCalls) -> None:
        """Send subscribers an event that is not recorded, and whose effect the states already have."""
        for subscription in self._subscriptions:
            subscription.put(event)

    def stream(self, event: Streaming) -> None:
        for subscription in self._subscriptions:
            subscription.put(event)

    def request(self, request: ApprovalState) -> None:
        """Add a new request to its session's state, and publish it."""
        state = self.states[request.session]
        state.approvals[request.id] = request
        state.status = "waiting"
        shared = set(ApprovalRequested.model_fields) - {"approval_id", "type"}
        values = {k: v for k, v in request.model_dump().items() if k in shared}
        self.publish(request.session, ApprovalRequested(approval_id=request.id, **values))

    def withdraw(self, approval_id: str, reason: str) -> None:
        request = self.settle(approval_id)
        self.publish(
            request.session,
            ApprovalWithdrawn(approval_id=approval_id, call_id=request.call_id, reason=reason),
        )

    def decided_elsewhere(self, approval_id: str, *, approved: bool, by: str) -> None:
        request = self.settle(approval_id)
        self.publish(
            request.session,
            ApprovalDecided(approval_id=approval_id, call_id=request.call_id, approved=approved, by=by),
        )
