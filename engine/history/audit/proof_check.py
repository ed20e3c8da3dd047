"""Verification of the passkeys in a session's record: each approval that needs a proof has a valid one.

A chain shows that an event was changed after it was recorded, unless all of the chain was rewritten. A
proof cannot be rewritten without the operator's key. It proves a digest, so the digest is computed again
from the request, and the input that ran is compared with the approved one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from pydantic import TypeAdapter, ValidationError

from ...core.people import person_key
from ...core.value_key import split_key
from ..model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalFused,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalTakenBack,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    RulesReplaced,
    SessionOpened,
    SessionResumed,
)
from ..model.records import NetRecord
from .canonical_json import canonical
from .hash_chain import ChainPosition
from .passkeys import ApprovedRequest, KeyEntry, KeyProofError, check_approval, request_digest

_Approval = ApprovalGiven | ApprovalFused | ApprovalDecided
_MODELS = {
    "approval.requested": ApprovalRequested,
    "approval.given": ApprovalGiven,
    "approval.fused": ApprovalFused,
    "approval.decided": ApprovalDecided,
    "approval.taken_back": ApprovalTakenBack,
    "approval.expired": ApprovalExpired,
    "approval.withdrawn": ApprovalWithdrawn,
    "call.decided": CallDecided,
    "call.result": CallResult,
    "rules.replaced": RulesReplaced,
    "session.opened": SessionOpened,
    "session.resumed": SessionResumed,
}
_OF_NETS = frozenset({"rules.replaced", "session.opened", "session.resumed"})
_OF_CALLS = frozenset({"call.decided", "call.result"})
_READERS: Mapping[str, TypeAdapter[object]] = {
    name: TypeAdapter[object](model) for name, model in _MODELS.items()
}


@dataclass(frozen=True, slots=True)
class ProofFault:
    """An approval without a valid proof: the event's number, and what does not match."""

    seq: int
    message: str


@dataclass(slots=True)
class _Request:
    """An open request that needs passkeys; `input` is `None` if it is masked.

    `trouble` is what is wrong with its digest, `proved` are the operators who proved a key.
    """

    call_id: str
    net: str
    digest: str | None
    people: int
    input: str | None
    form: bool
    trouble: str | None = None
    proved: set[str] = field(default_factory=set[str])


class ProofCheck:
    """Check of one session's proofs, event by event; `known` are the keys of the log, if there is one."""

    def __init__(self, known: Mapping[str, KeyEntry] | None) -> None:
        self._keys = known
        self._open_requests: dict[str, _Request] = {}
        # Transitions that need a passkey, by net, and the inputs that were approved, by call and net.
        self._keyed_transitions: dict[str, frozenset[str]] = {}
        self._approved_inputs: dict[tuple[str, str], str | None] = {}
        self.proofs = 0
        self.faults: list[ProofFault] = []

    def follow(self, place: ChainPosition, kind: str, body: str, *, masked: bool = False) -> None:
        """Check the next event. Faults of its chain are reported by the chain's check.

        With `masked` its content is not what was approved, and a request's digest cannot be computed
        again.
        """
        reader = _READERS.get(kind)
        if reader is None or (kind == "approval.requested" and "passkey" not in body):
            return
        if not self._keyed_transitions and (
            kind in _OF_CALLS or (kind in _OF_NETS and "passkey" not in body)
        ):
            return
        try:
            # Masked values in an export may have another type.
            event = reader.validate_python(_facts(body, masked=masked))
        except (ValidationError, ValueError):
            return
        for message in self._messages(place, event, masked=masked):
            self.faults.append(ProofFault(place.seq, f"event {place.seq} ({kind}): {message}"))

    def _messages(self, place: ChainPosition, event: object, *, masked: bool) -> Iterator[str]:
        match event:
            case SessionOpened(nets=nets):
                self._note_nets(nets)
            case SessionResumed() | RulesReplaced():
                for net in event.dropped:
                    self._keyed_transitions.pop(net, None)
                renewed = event.renewed if isinstance(event, RulesReplaced) else ()
                self._note_nets((*event.nets, *renewed))
            case CallDecided():
                yield from self._decision(event, masked=masked)
            case CallResult(call_id=call_id):
                for key in [each for each in self._approved_inputs if each[0] == call_id]:
                    del self._approved_inputs[key]
            case ApprovalRequested(approvers=terms):
                self._approved_inputs.pop((event.call_id, event.net), None)
                if terms is not None and terms.passkey:
                    self._open_requests[event.approval_id] = _request(place, event, masked=masked)
            case ApprovalTakenBack():
                if (request := self._open_requests.get(event.approval_id)) is not None:
                    request.proved.clear()
            case ApprovalGiven() | ApprovalFused():
                yield from self._approval(place, event)
            case ApprovalDecided(approved=True):
                yield from self._approval(place, event)
                request = self._open_requests.pop(event.approval_id, None)
                if request is not None:
                    self._approved_inputs[request.call_id, request.net] = request.input
                if request is not None and len(request.proved) < request.people:
                    proof_count = len(request.proved) or "nobody"
                    yield f"{request.people} must approve with a passkey, and {proof_count} proved one"
            case ApprovalDecided() | ApprovalExpired() | ApprovalWithdrawn():
                self._open_requests.pop(event.approval_id, None)
            case _:
                pass

    def _note_nets(self, nets: Iterable[NetRecord]) -> None:
        """Note the transitions of nets that need a passkey from now on."""
        for net in nets:
            terms = ((each.name, each.approvers) for each in net.transitions)
            keyed_transitions = frozenset(name for name, who in terms if who is not None and who.passkey)
            self._keyed_transitions.pop(net.key, None)
            if keyed_transitions:
                self._keyed_transitions[net.key] = keyed_transitions

    def _decision(self, event: CallDecided, *, masked: bool) -> Iterator[str]:
        """Check that a call which needs a passkey was approved with one, and ran as approved."""
        if event.outcome != "allow" or event.mode != "enforce":
            return
        for step in event.steps:
            net = split_key(step.net)[0]
            if step.transition not in self._keyed_transitions.get(net, ()):
                continue
            if (event.call_id, net) not in self._approved_inputs:
                yield f"{event.tool} was allowed, and nobody approved it with the passkey for {net}"
                return
            approved = self._approved_inputs[event.call_id, net]
            if approved is not None and not masked and approved != canonical(event.input):
                yield f"{event.tool} ran with another input than was approved"
                return

    def _approval(self, place: ChainPosition, event: _Approval) -> Iterator[str]:
        request, proof = self._open_requests.get(event.approval_id), event.proof
        if proof is None:
            if request is not None:
                yield f"{event.by} approved without the passkey that its rule asks for"
            return
        self.proofs += 1
        if request is not None and request.digest != event.digest:
            yield f"{event.by} approved something else than was shown"
            return
        if request is not None and request.trouble is not None:
            yield f"{event.by} approved something else than is recorded: {request.trouble}"
            return
        edited = None if isinstance(event, ApprovalGiven) else event.input
        if request is not None and edited is not None and not request.form:
            yield f"{event.by} approved another input than was shown"
            return
        approved = ApprovedRequest(place.session, event.approval_id, event.digest or "", event.by)
        try:
            check_approval(approved, proof, place.at, self._keys)
        except KeyProofError as error:
            yield f"the passkey of {event.by} does not prove this approval: {error}"
            return
        if request is not None:
            request.proved.add(person_key(event.by))


def _request(place: ChainPosition, event: ApprovalRequested, *, masked: bool) -> _Request:
    """Return a request that needs passkeys, with its digest computed again."""
    problem = None
    if event.rules_digest is None:
        problem = "its digest cannot be made again, since the hash of its rules is missing"
    elif not masked:
        computed_digest = request_digest(
            session=place.session,
            call_id=event.call_id,
            called=event.called,
            arguments=event.input,
            names=event.names,
            tool=event.tool,
            net=event.net,
            transition=event.transition,
            people=event.people,
            rules=event.rules_digest,
            salt=event.digest_salt,
        )
        if computed_digest != event.digest:
            problem = "the digest that was approved is of another call, or of other rules"
    return _Request(
        event.call_id,
        event.net,
        event.digest,
        event.people,
        None if masked else canonical(event.input),
        event.wants is not None,
        problem,
    )


def _facts(body: str, *, masked: bool) -> object:
    """Return an event's members; of a masked one without those whose type a mask may have changed."""
    value: object = json.loads(body)
    if not masked:
        return value
    if not isinstance(value, dict):
        return None
    members = cast("dict[str, object]", value)
    for name in ("input", "preview", "uninspectable"):
        if members.get(name) is not None:
            members[name] = {} if name == "input" else None
    # For a form it matters only that there was one.
    if members.get("wants") is not None:
        members["wants"] = {}
    return members
