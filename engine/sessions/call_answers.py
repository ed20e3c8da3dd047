"""Answers to an external agent's calls, from the session's record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from pydantic import JsonValue

from ..history.model.events import (
    ApprovalDecided,
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
    """A call whose answer its agent gets until a time, by making it again (G-102)."""

    call_id: str
    until: datetime
    subagent: str


@dataclass(slots=True)
class CallIndex:
    """Calls of a session's record and their decisions, by call id.

    `latest` is by an agent's own id the id of the last call made under it, where that is another;
    `renamed` are those ids. `settled` are the calls that have a result. `late` are those whose client has
    gone: undecided, or denied by a person in the meantime.
    """

    asked: dict[str, CallRecord] = field(default_factory=dict[str, CallRecord])
    decided: dict[str, CallDecided] = field(default_factory=dict[str, CallDecided])
    latest: dict[str, str] = field(default_factory=dict[str, str])
    renamed: set[str] = field(default_factory=set[str])
    settled: set[str] = field(default_factory=set[str])
    late: dict[str, LateCall] = field(default_factory=dict[str, LateCall])
    _denied: set[str] = field(default_factory=set[str])

    def current(self, own: str) -> str:
        """The id in the record of the last call that an agent made under its `own` id."""
        return self.latest.get(own, own)

    def rename(self, own: str) -> str:
        """Another id for the next call under an agent's `own` id: `c7#2` (G-76)."""
        number = 2
        while (fresh := f"{own}#{number}") in self.asked or fresh in self.renamed:
            number += 1
        self._name(own, fresh)
        return fresh

    def late_like(
        self, tool: str, arguments: Mapping[str, JsonValue], subagent: str, now: datetime
    ) -> str | None:
        """The late call that is this one: the same tool, the same input, of the same subagent."""
        same = None
        for late in self.late.values():
            if late.subagent != subagent or late.until <= now:
                continue
            made = self.asked[late.call_id]
            same = same or digest(tool, arguments)
            if digest(made.tool, made.input) == same:
                return late.call_id
        return None

    def _name(self, own: str, call_id: str) -> None:
        self.latest[own] = call_id
        self.renamed.add(call_id)

    def take(self, body: EventBody) -> None:
        """Move on by one event."""
        match body:
            case MessageAdded(calls=calls):
                for call in calls:
                    self.asked.setdefault(call.call_id, call)
                    if call.made_as is not None:
                        self._name(call.made_as, call.call_id)
            case CallLate() if body.call_id in self.asked:
                self.late[body.call_id] = LateCall(body.call_id, body.until, body.subagent)
            case CallRepeated():
                self.late.pop(body.call_id, None)
                if body.made_as != body.call_id:
                    self.latest[body.made_as] = body.call_id
            case ApprovalDecided(approved=False) if body.call_id in self.late:
                self._denied.add(body.call_id)
            case ApprovalWithdrawn(again=False):
                self.late.pop(body.call_id, None)
            case SessionResumed():
                # What its host held open is asked anew; what was denied stays so.
                self.late = {key: late for key, late in self.late.items() if key in self._denied}
            case CallDecided():
                self.decided[body.call_id] = body
                if body.call_id not in self._denied or not is_blocked(body):
                    self.late.pop(body.call_id, None)
            case CallResult() if body.anomaly is None and (not body.unknown or body.output == NO_RESULT):
                # A turn that is over has nothing more to say of its calls; a host that died has.
                self.settled.add(body.call_id)
            case _:
                pass


def digest(tool: str, arguments: Mapping[str, JsonValue]) -> bytes:
    """Hash of a call's tool and input, equal only for the same call; `1` and `1.0` differ."""
    return sha256(json.dumps([tool, arguments], sort_keys=True).encode()).digest()


def answer_of(decided: CallDecided, *, repeated: bool) -> CallAnswer:
    """A recorded decision as the agent gets it."""
    shadow = decided.mode == "shadow"
    # A call that was blocked after all keeps no approval.
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
    """Tell whether a decision keeps a call from running; in shadow mode none does."""
    return decided.outcome == "block" and decided.mode != "shadow"
