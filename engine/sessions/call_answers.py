"""Answers to an external agent's calls, from the session's record."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from pydantic import JsonValue

from ..history.model.events import (
    ApprovalDecided,
    ApprovalFused,
    ApprovalTakenBack,
    ApprovalWithdrawn,
    CallDecided,
    CallLate,
    CallRepeated,
    CallResult,
    EventBody,
    MessageAdded,
    SessionResumed,
)
from ..history.model.fast_models import construct_model
from ..history.model.records import CallRecord
from ..recording.records import copied
from .call_answer import CallAnswer

NO_RESULT = (
    "Outcome unknown: the agent's turn ended without a result of this call, which may not have run"
)


@dataclass(frozen=True, slots=True)
class LateCall:
    """A call whose agent gets the answer by making the call again (G-102); `made` is its digest."""

    call_id: str
    until: datetime
    subagent: str
    made: bytes


@dataclass(slots=True)
class CallIndex:
    """Calls of a session's record and their decisions, by call id.

    `latest` maps an agent's own id to the recorded id of the last call made under it, if they differ;
    `renamed` are those recorded ids. `settled` are the calls that have a result. `late` are the calls
    whose client has gone: undecided, or denied by an operator in the meantime. `holders` are the agent's
    own ids of late calls that were made again. Sets that are rarely needed are replaced, not changed, so
    that most sessions share empty ones.
    """

    asked: dict[str, CallRecord] = field(default_factory=dict[str, CallRecord])
    decided: dict[str, CallDecided] = field(default_factory=dict[str, CallDecided])
    latest: dict[str, str] = field(default_factory=dict[str, str])
    renamed: set[str] = field(default_factory=set[str])
    settled: set[str] = field(default_factory=set[str])
    late: dict[str, LateCall] = field(default_factory=dict[str, LateCall])
    holders: dict[str, str] = field(default_factory=dict[str, str])
    _denied: frozenset[str] = frozenset()
    _approved: frozenset[str] = frozenset()

    def current(self, own: str) -> str:
        """Return the recorded id of the last call that an agent made under its `own` id."""
        return self.latest.get(own, own)

    def rename(self, own: str) -> str:
        """Return a new id for the next call under an agent's `own` id: `c7#2` (G-76)."""
        number = 2
        while (fresh := f"{own}#{number}") in self.asked or fresh in self.renamed:
            number += 1
        self._name(own, fresh)
        return fresh

    def late_like(
        self, tool: str, arguments: Mapping[str, JsonValue], subagent: str, now: datetime
    ) -> str | None:
        """Return the late call that equals this one in tool, input and subagent.

        Of several, one that has an answer already comes first.
        """
        open_ones = [c for c in self.late.values() if c.subagent == subagent and c.until > now]
        if not open_ones:
            return None
        call_digest = digest(tool, arguments)
        same = [late.call_id for late in open_ones if late.made == call_digest]
        answered_calls = (key for key in same if key in self._denied or key in self._approved)
        return next(answered_calls, same[0] if same else None)

    def hand_over(self, call_id: str, own: str) -> Callable[[], None]:
        """Give a late call to the agent's `own` id, under which it is made again; return the undoing.

        From then on no other call can be this one: the next call under its previous id gets a new id
        (G-103).
        """
        holder = self.holders.get(call_id, self.asked[call_id].made_as or call_id)
        before = {name: self.latest.get(name) for name in (own, holder)}
        if holder != own:
            self.rename(holder)
        self.holders[call_id] = own
        self.latest[own] = call_id

        def undo() -> None:
            self.holders[call_id] = holder
            for name, named in before.items():
                if named is None:
                    self.latest.pop(name, None)
                else:
                    self.latest[name] = named

        return undo

    def _name(self, own: str, call_id: str) -> None:
        self.latest[own] = call_id
        self.renamed.add(call_id)

    def take(self, body: EventBody) -> None:
        """Process one event."""
        match body:
            case MessageAdded(calls=calls):
                for call in calls:
                    self.asked.setdefault(call.call_id, call)
                    if call.made_as is not None:
                        self._name(call.made_as, call.call_id)
            case CallLate() if body.call_id in self.asked:
                call = self.asked[body.call_id]
                call_digest = digest(call.tool, call.input)
                self.late[body.call_id] = LateCall(body.call_id, body.until, body.subagent, call_digest)
            case CallRepeated() if body.call_id in self.asked:
                self.late.pop(body.call_id, None)
                self.hand_over(body.call_id, body.made_as)
            case ApprovalDecided(approved=False) if body.call_id in self.late:
                self._denied |= {body.call_id}
            case ApprovalFused():
                self._approved |= {body.call_id}
            case ApprovalTakenBack() | ApprovalWithdrawn(again=True):
                self._approved -= {body.call_id}
            case ApprovalWithdrawn(again=False):
                self.late.pop(body.call_id, None)
            case SessionResumed():
                # Requests that its host had open are asked anew; denials stay.
                self.late = {key: late for key, late in self.late.items() if key in self._denied}
            case CallDecided():
                self.decided[body.call_id] = body
                if body.call_id not in self._denied or not is_blocked(body):
                    self.late.pop(body.call_id, None)
            case CallResult() if body.anomaly is None and (not body.unknown or body.output == NO_RESULT):
                # The end of a turn settles its calls, even with an unknown outcome; the death of a host
                # does not.
                self.settled.add(body.call_id)
            case _:
                pass


def digest(tool: str, arguments: Mapping[str, JsonValue]) -> bytes:
    """Return a hash of a call's tool and input, equal only for the same call; `1` and `1.0` differ."""
    return sha256(json.dumps([tool, arguments], sort_keys=True).encode()).digest()


def answer_of(decided: CallDecided, *, repeated: bool) -> CallAnswer:
    """Return a recorded decision as the agent gets it."""
    shadow = decided.mode == "shadow"
    # A call that was blocked in spite of its approval is not reported as approved.
    approved_by = decided.approved_by if decided.outcome == "allow" else ()
    fields = {
        "outcome": "block" if is_blocked(decided) else "allow",
        "input": copied(decided.input),
        "approved": bool(approved_by),
        "approved_by": approved_by,
        "edited": decided.edited,
        "reason": decided.reason,
        "mode": decided.mode,
        "repeated": repeated,
        "would": decided.outcome if shadow else None,
    }
    return construct_model(CallAnswer, fields)


def is_blocked(decided: CallDecided) -> bool:
    """Return whether a decision keeps a call from running; in shadow mode none does."""
    return decided.outcome == "block" and decided.mode != "shadow"
