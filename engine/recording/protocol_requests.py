"""Requests of the Agent Approval Protocol as recorded in a session, and how each one ended.

The order of the record decides: of a decision, a cancellation and an expiry, the first one written
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from pydantic import JsonValue

from ..core.json_values import same_json
from ..history.model.events import (
    ApprovalRequested,
    CallDecided,
    CallResult,
    JournalEvent,
    MessageAdded,
    RequestMade,
    RequestStep,
    SessionStatus,
)

RequestEnd: TypeAlias = Literal["approved", "denied", "expired", "cancelled"]

EDITED: Final = (
    "An operator changed the input of this call, which this protocol cannot pass on. The call must not "
    "run as it was"
)


@dataclass(frozen=True, slots=True)
class RequestDecision:
    """Final state of a request; `expires` is when an approval becomes invalid."""

    status: RequestEnd
    at: datetime
    note: str | None = None
    expires: datetime | None = None


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """Reported outcome of a call that was run."""

    is_error: bool
    note: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ProtocolRequest:
    """A request: `arguments` are `None` until its call is recorded, `called` is the tool for the rules.

    `asked` says that operators have its approval request; `used` is when the approval was used, for the
    idempotency key with the hash `used_by`.
    """

    id: str
    session: str
    made: RequestMade
    at: datetime
    called: str = ""
    arguments: Mapping[str, JsonValue] | None = None
    asked: bool = False
    decision: RequestDecision | None = None
    used: datetime | None = None
    used_by: str | None = None
    outcome: RequestOutcome | None = None
    notified: bool = False


@dataclass(slots=True)
class ProtocolRequests:
    """Fold of a session's record to its requests; `listeners` are called with the ids of changed ones."""

    found: dict[str, ProtocolRequest] = field(default_factory=dict[str, ProtocolRequest])
    listeners: set[Callable[[str], object]] = field(default_factory=set[Callable[[str], object]])

    def take(self, event: JournalEvent) -> None:
        """Apply one event."""
        match event.body:
            case RequestMade() as body:
                known = self.found.get(body.call_id)
                if known is None or known.arguments is None:
                    self._set(ProtocolRequest(body.call_id, event.session, body, event.at))
            case MessageAdded(calls=calls) if self.found:
                for call in calls:
                    known = self.found.get(call.call_id)
                    if known is not None and known.arguments is None:
                        self._set(replace(known, called=call.tool, arguments=call.input))
            case ApprovalRequested() as body if (known := self.found.get(body.call_id)) is not None:
                self._set(replace(known, asked=True))
            case CallDecided() as body if (known := self.found.get(body.call_id)) is not None:
                self._end(known, _decision(known, body, event.at))
            case RequestStep() as body if (known := self.found.get(body.call_id)) is not None:
                self._step(known, body, event.at)
            case CallResult() as body if (known := self.found.get(body.call_id)) is not None:
                if body.anomaly is None and not body.unknown and known.used is not None:
                    self._set(
                        replace(known, outcome=RequestOutcome(body.is_error, body.output, event.at))
                    )
            case SessionStatus(status="done", by=str()) if self.found:
                # A session that ends with its server continues on the next server.
                for known in list(self.found.values()):
                    self._end(known, RequestDecision("cancelled", event.at, "The session was ended"))
                    self._cut_off(known, event.at)
            case _:
                pass

    def _step(self, known: ProtocolRequest, body: RequestStep, at: datetime) -> None:
        match body.step:
            case "cancelled" | "expired":
                self._end(known, RequestDecision(body.step, at))
            case "consumed" if known.used is None:
                self._set(replace(known, used=at, used_by=body.key))
            case "notified":
                self._set(replace(known, notified=True))
            case _:
                pass

    def _end(self, known: ProtocolRequest, decision: RequestDecision) -> None:
        if known.decision is None:
            self._set(replace(known, decision=decision))

    def _cut_off(self, known: ProtocolRequest, at: datetime) -> None:
        """End an unused approval now."""
        decision = known.decision
        if known.used is None and decision is not None and decision.expires is not None:
            self._set(replace(known, decision=replace(decision, expires=min(decision.expires, at))))

    def _set(self, request: ProtocolRequest) -> None:
        self.found[request.id] = request
        for listener in self.listeners:
            listener(request.id)


def _decision(known: ProtocolRequest, body: CallDecided, at: datetime) -> RequestDecision:
    """Decision on a call in the form of its request: an approval is for exactly what was asked."""
    if at > known.made.deadline:
        return RequestDecision("expired", at)
    if body.outcome == "block" and body.mode != "shadow":
        return RequestDecision("denied", at, body.reason)
    if body.tool != known.called or not same_json(body.input, known.arguments):
        return RequestDecision("denied", at, EDITED)
    return RequestDecision("approved", at, expires=at + timedelta(seconds=known.made.valid))
