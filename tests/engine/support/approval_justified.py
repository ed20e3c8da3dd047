"""Whether a journal justifies what ran: its events, read one after the other, and nothing else.

It knows the rules only as `approval_rules` has them, and neither folds nor asks a gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalFused,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalTakenBack,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    FreezeBegan,
    FreezeLifted,
    GrantGiven,
    GrantRevoked,
    JournalEvent,
    ModeChanged,
    NetToggled,
    SessionOpened,
    SessionResumed,
)

from .approval_rules import HOUR, Written
from .approval_world import Mark


@dataclass
class _Asked:
    body: ApprovalRequested
    expires: datetime | None
    # The nets and the mode it was asked under.
    under: tuple[tuple[str, ...], str]
    by: list[str] = field(default_factory=list)
    # Approved, and for which input.
    approved: dict[str, Any] | None = None
    ended: bool = False
    # The approval that is to release the call in a moment.
    fuse: ApprovalFused | None = None


@dataclass
class _Granted:
    body: GrantGiven
    used: int = 0
    revoked: bool = False


class Journalled:
    """A session's events, of which every decision must be justified by those before it."""

    def __init__(self, rules: Sequence[Written], own_approvals: bool, fuse: float = 0.0) -> None:
        self.rules = rules
        self.own_approvals = own_approvals
        self.fuse = fuse
        self.frozen = False
        self.net_rules: dict[str, Written] = {}
        self.active: list[str] = []
        self.mode = ""
        self.opened_by: str | None = None
        self.asked: dict[str, _Asked] = {}
        self.grants: dict[str, _Granted] = {}
        self.decided: dict[str, tuple[int, CallDecided]] = {}
        self.uses: dict[str, list[tuple[str, float]]] = {}
        self.tested: dict[str, int] = {}

    def read(self, events: Sequence[JournalEvent]) -> Journalled:
        for event in events:
            self._event(event)
        return self

    def _event(self, event: JournalEvent) -> None:
        match event.body:
            case SessionOpened() as body:
                self.opened_by = body.opened_by
                self.mode, self.active = body.mode, list(body.active)
                for net in body.nets:
                    assert net.rule is not None
                    self.net_rules[net.key] = self.rules[net.rule.line - 1]
            case SessionResumed() as body:
                assert not body.nets
                self.mode, self.active = body.mode, list(body.active)
                self.frozen = False
            case FreezeBegan() | FreezeLifted() as body:
                assert self.frozen == isinstance(body, FreezeLifted)
                self.frozen = not self.frozen
            case ApprovalFused() as body:
                asked = self._open(event, body.approval_id)
                assert asked.fuse is None
                assert len(asked.by) + 1 == asked.body.people
                assert (asked.body.risk, body.digest) == ("high", asked.body.digest)
                asked.fuse = body
            case ApprovalTakenBack() as body:
                asked = self._open(event, body.approval_id, late=True)
                assert asked.fuse is not None
                asked.fuse = None
                asked.by.clear()
            case NetToggled() as body:
                (self.active.append if body.active else self.active.remove)(body.net)
            case ModeChanged() as body:
                self.mode = body.mode
            case ApprovalRequested() as body:
                assert body.approval_id not in self.asked
                self.asked[body.approval_id] = _Asked(body, body.expires, self._under)
            case ApprovalExtended() as body:
                asked = self._open(event, body.approval_id)
                asked.expires = body.until
            case ApprovalGiven() as body:
                self._given(self._open(event, body.approval_id), body.by, body.digest)
            case ApprovalDecided() as body:
                asked = self.asked[body.approval_id]
                self._open(event, body.approval_id, late=asked.fuse is not None)
                self._burnt(event, asked, body)
                self._answered(asked, body)
            case ApprovalWithdrawn() as body:
                self._open(event, body.approval_id, late=True).ended = True
                if body.reason.endswith("asked again"):
                    # What was shown is void, and with it whatever else was said about this call.
                    for asked in self._about(body.call_id):
                        asked.approved = None
            case ApprovalExpired() as body:
                asked = self._open(event, body.approval_id, late=True)
                assert asked.expires is not None
                assert event.at >= asked.expires
                asked.ended = True
            case GrantGiven() as body:
                self._granted(event, body)
            case GrantRevoked(key=key):
                assert not self.grants[key].revoked
                self.grants[key].revoked = True
            case CallDecided() as body:
                self._decided(event, body)
            case CallResult() as body:
                self._result(body)
            case _:
                pass

    # Requests

    @property
    def _under(self) -> tuple[tuple[str, ...], str]:
        return tuple(self.active), self.mode

    def _open(self, event: JournalEvent, approval_id: str, *, late: bool = False) -> _Asked:
        asked = self.asked[approval_id]
        assert not asked.ended, "a request ends once"
        assert late or asked.expires is None or event.at < asked.expires, "it had expired"
        return asked

    def _about(self, call_id: str) -> list[_Asked]:
        return [asked for asked in self.asked.values() if asked.body.call_id == call_id]

    def _given(self, asked: _Asked, by: str, digest: str | None) -> None:
        people = asked.body.people
        assert self._under == asked.under, "what was shown had changed"
        assert digest == asked.body.digest is not None
        assert by.strip() not in asked.by
        if people > 1 and not self.own_approvals:
            assert by.strip() != self.opened_by
        asked.by.append(by.strip())

    def _burnt(self, event: JournalEvent, asked: _Asked, body: ApprovalDecided) -> None:
        """An approval of high risk was open to be taken back for as long as it is said."""
        if body.approved and self.fuse and asked.body.risk == "high":
            fuse = asked.fuse
            assert fuse is not None, "it was released at once"
            assert event.at >= fuse.until, "it was released too early"
            assert (body.by, body.input) == (fuse.by, fuse.input)

    def _answered(self, asked: _Asked, body: ApprovalDecided) -> None:
        asked.ended = True
        assert body.digest == asked.body.digest
        if not body.approved:
            return
        assert body.others == tuple(asked.by)
        self._given(asked, body.by, body.digest)
        assert len(asked.by) == asked.body.people
        asked.approved = asked.body.input
        if body.input is not None and body.input != asked.body.input:
            assert asked.body.people == 1
            for other in self._about(body.call_id):
                other.approved = None
            asked.approved = body.input

    # Grants

    def _granted(self, event: JournalEvent, body: GrantGiven) -> None:
        assert body.grant.key not in self.grants
        assert body.call_id is not None
        rule = self.net_rules[body.grant.asks]
        assert (rule.kind, rule.people, rule.grants) == ("approval", 1, True)
        asked = [a for a in self._about(body.call_id) if a.approved is not None]
        assert any(a.body.net == body.grant.asks and body.by in a.by for a in asked)
        self.grants[body.grant.key] = _Granted(body)
        assert body.grant.since <= event.at.timestamp()

    def _covers(self, key: str, net: str, call: CallDecided, now: float) -> bool:
        held = self.grants[key]
        grant = held.body.grant
        if grant.asks != net:
            return False
        assert not held.revoked, f"{key} was revoked"
        assert grant.uses is None or held.used < grant.uses, f"{key} was used up"
        assert grant.seconds is None or now < grant.since + grant.seconds, f"{key} was over"
        assert grant.tool == call.tool
        assert set(grant.names) == set(call.names)
        assert not grant.exact or held.body.input == call.input
        assert not call.edited
        held.used += 1
        return True

    # Calls

    def _decided(self, event: JournalEvent, call: CallDecided) -> None:
        assert call.call_id not in self.decided, "a call is decided once"
        assert not self.frozen, "a call was decided while all agents were frozen"
        self.decided[call.call_id] = event.cursor, call
        now = event.at.timestamp()
        # One that was asked about when the mode changed is judged as it was asked.
        assert call.mode in (self.mode, "enforce")
        if call.outcome == "allow" and call.mode == "enforce":
            unused = set(call.granted)
            for key in sorted(self.active):
                rule = self.net_rules[key]
                if rule.applies(call.tool, call.input):
                    used = self._justify(key, rule, call, now)
                    unused.discard(used or "")
            assert not unused
        elif call.mode == "shadow":
            for key in call.granted:
                self.grants[key].used += 1
        for step in call.steps:
            if step.transition.startswith("do-") and not step.deferred:
                self.uses.setdefault(step.net, []).append((call.call_id, now))
                self.tested[step.net] = self.tested.get(step.net, 0) - 1

    def _justify(self, key: str, rule: Written, call: CallDecided, now: float) -> str | None:
        """That this rule lets the call run; the grant that did it, if one did."""
        steps = [step.transition for step in call.steps if step.net == key]
        match rule.kind:
            case "block":
                raise AssertionError(f"{rule.text} lets {call.call_id} run")
            case "limit":
                assert f"do-{rule.tool}" in steps
                recent = [at for _, at in self.uses.get(key, []) if at > now - HOUR]
                assert len(recent) < rule.limit, f"{rule.text}: {len(recent)} before {call.call_id}"
            case "sequence":
                assert f"do-{rule.tool}" in steps
                assert self.tested.get(key, 0) > 0, f"{rule.text}: not before {call.call_id}"
            case _:
                asked = [a for a in self._about(call.call_id) if a.body.net == key]
                if any(a.approved == call.input for a in asked):
                    assert all(len(a.by) >= rule.people for a in asked if a.approved is not None)
                    return None
                used = [g for g in call.granted if self._covers(g, key, call, now)]
                assert used, f"{rule.text}: nobody let {call.call_id} pass"
                return used[0]
        return None

    def _result(self, body: CallResult) -> None:
        for step in body.fired:
            if step.transition.startswith("do-"):
                assert not body.is_error
                assert step.tool == body.tool
                self.tested[step.net] = self.tested.get(step.net, 0) + 1
        for step in body.undone:
            if step.transition.startswith("do-"):
                self.uses[step.net] = [u for u in self.uses[step.net] if u[0] != body.call_id]
                self.tested[step.net] = self.tested.get(step.net, 0) + 1
            if step.net in self.grants:
                self.grants[step.net].used -= 1

    # What it comes to

    def justify(self, marks: Sequence[Mark]) -> None:
        """Every mark has its decision, which is for that very input and was in the file before."""
        assert len({mark.call_id for mark in marks}) == len(marks)
        for mark in marks:
            assert mark.call_id in self.decided, f"{mark} has no decision"
            cursor, call = self.decided[mark.call_id]
            assert cursor <= mark.cursor, f"{mark} ran before its decision was in the file"
            assert call.outcome == "allow" or call.mode == "shadow"
            assert (call.tool, call.input) == (mark.tool, mark.input)

    def ended(self) -> None:
        """Every request has come to an end."""
        assert [asked.body.approval_id for asked in self.asked.values() if not asked.ended] == []
