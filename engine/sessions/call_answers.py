"""Answers to an external agent's calls, from the session's record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from pydantic import JsonValue

from ..history.model.events import CallDecided, CallResult, EventBody, MessageAdded
from ..history.model.fast_models import construct_model
from ..history.model.records import CallRecord
from ..recording.records import copied
from .call_answer import CallAnswer

NO_RESULT = (
    "Outcome unknown: the agent's turn ended without a result of this call, which may not have run"
)


@dataclass(slots=True)
class CallIndex:
    """Calls of a session's record and their decisions, by call id.

    `latest` is by an agent's own id the id of the last call made under it, where that is another;
    `renamed` are those ids. `settled` are the calls that have a result.
    """

    asked: dict[str, CallRecord] = field(default_factory=dict[str, CallRecord])
    decided: dict[str, CallDecided] = field(default_factory=dict[str, CallDecided])
    latest: dict[str, str] = field(default_factory=dict[str, str])
    renamed: set[str] = field(default_factory=set[str])
    settled: set[str] = field(default_factory=set[str])

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
            case CallDecided():
                self.decided[body.call_id] = body
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
