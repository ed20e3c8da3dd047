"""Verification of the passkeys in a session's record: what needs a proof has one that holds.

A chain shows that an event was changed after it was recorded, unless all of it was written anew. A proof
cannot be written anew without the person's key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from pydantic import TypeAdapter, ValidationError

from ...core.people import person_key
from ..model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalFused,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalTakenBack,
    ApprovalWithdrawn,
)
from .hash_chain import ChainPosition
from .passkeys import ApprovedRequest, KeyEntry, KeyProofError, check_approval

_Approval = ApprovalGiven | ApprovalFused | ApprovalDecided
_MODELS = {
    "approval.requested": ApprovalRequested,
    "approval.given": ApprovalGiven,
    "approval.fused": ApprovalFused,
    "approval.decided": ApprovalDecided,
    "approval.taken_back": ApprovalTakenBack,
    "approval.expired": ApprovalExpired,
    "approval.withdrawn": ApprovalWithdrawn,
}
_READERS: Mapping[str, TypeAdapter[object]] = {
    name: TypeAdapter[object](model) for name, model in _MODELS.items()
}


@dataclass(frozen=True, slots=True)
class ProofFault:
    """An approval without a proof that holds: the event's number, and what does not match."""

    seq: int
    message: str


@dataclass(slots=True)
class _Request:
    digest: str | None
    people: int
    proved: set[str] = field(default_factory=set[str])


class ProofCheck:
    """Check of one session's proofs, event by event; `known` are the keys of the log, if there is one."""

    def __init__(self, known: Mapping[str, KeyEntry] | None) -> None:
        self._known = known
        self._open: dict[str, _Request] = {}
        self.proofs = 0
        self.faults: list[ProofFault] = []

    def follow(self, place: ChainPosition, kind: str, body: str) -> None:
        """Look at the next event. One whose chain does not hold is named by that."""
        reader = _READERS.get(kind)
        if reader is None or (kind == "approval.requested" and "passkey" not in body):
            return
        try:
            # What is masked in an export may be of another type there.
            event = reader.validate_python(_facts(body))
        except (ValidationError, ValueError):
            return
        for message in self._messages(place, event):
            self.faults.append(ProofFault(place.seq, f"event {place.seq} ({kind}): {message}"))

    def _messages(self, place: ChainPosition, event: object) -> Iterator[str]:
        match event:
            case ApprovalRequested(approvers=terms):
                if terms is not None and terms.passkey:
                    self._open[event.approval_id] = _Request(event.digest, event.people)
            case ApprovalTakenBack():
                if (request := self._open.get(event.approval_id)) is not None:
                    request.proved.clear()
            case ApprovalGiven() | ApprovalFused():
                yield from self._approval(place, event)
            case ApprovalDecided(approved=True):
                yield from self._approval(place, event)
                request = self._open.pop(event.approval_id, None)
                if request is not None and len(request.proved) < request.people:
                    proved = len(request.proved) or "nobody"
                    yield f"{request.people} must approve with a passkey, and {proved} proved one"
            case ApprovalDecided() | ApprovalExpired() | ApprovalWithdrawn():
                self._open.pop(event.approval_id, None)
            case _:
                pass

    def _approval(self, place: ChainPosition, event: _Approval) -> Iterator[str]:
        request, proof = self._open.get(event.approval_id), event.proof
        if proof is None:
            if request is not None:
                yield f"{event.by} approved without the passkey that its rule asks for"
            return
        self.proofs += 1
        if request is not None and request.digest != event.digest:
            yield f"{event.by} approved something else than was shown"
            return
        approved = ApprovedRequest(place.session, event.approval_id, event.digest or "", event.by)
        try:
            check_approval(approved, proof, place.at, self._known)
        except KeyProofError as error:
            yield f"the passkey of {event.by} does not prove this approval: {error}"
            return
        if request is not None:
            request.proved.add(person_key(event.by))


def _facts(body: str) -> object:
    """An event's members, without those that a mask may have made something else."""
    found: object = json.loads(body)
    if not isinstance(found, dict):
        return found
    members = cast("dict[str, object]", found)
    for name in ("input", "preview", "uninspectable", "wants"):
        if name in members:
            members[name] = {} if name == "input" else None
    return members
