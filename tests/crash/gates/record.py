"""The record of all events, compared with the answers that agents and operators received."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from interlock.engine.history.audit.verify import check_file, verify_journal
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import (
    ApprovalClaimed,
    ApprovalDecided,
    ApprovalFused,
    ApprovalGiven,
    ApprovalTakenBack,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    FreezeBegan,
    FreezeLifted,
    GrantGiven,
    JournalEvent,
    NetToggled,
    SessionResumed,
)

from .people import Memory
from .servers import MOST_SPENT

LATE = 0.05
"""Seconds by which a duration may seem to have passed before a gate treats it as over."""


class Record:
    """All sessions of a database: their `problems`, and a `tally` of checked cases."""

    def __init__(self, location: PostgresLocation, memory: Memory) -> None:
        self._memory = memory
        self.problems: list[str] = []
        self.tally: Counter[str] = Counter()
        self._spent: set[tuple[str, str]] = set()
        self._acts: set[tuple[str, str, str]] = set()
        self._decided: dict[tuple[str, str], list[CallDecided]] = {}
        reader = open_reader(location)
        for line in reader.sessions(None):
            self._session(line.id, list(reader.events(line.id)))
        if len(self._spent) > MOST_SPENT:
            self.problems.append(f"{len(self._spent)} of {MOST_SPENT} uses of a limit were taken")
        self.tally["spent"] = len(self._spent)
        self._answers()
        self.tally["acts"] = len(memory.acts)
        lost = memory.acts - self._acts
        self.problems += [f"{act} is not recorded, of {of} by {by}" for act, of, by in sorted(lost)]
        self.problems += [f"{c.session}: {c.fault}" for c in verify_journal(location) if c.fault]
        if missing := check_file(location).missing:
            self.problems.append(f"{missing} events that were numbered are missing")

    def _session(self, session: str, events: Sequence[JournalEvent]) -> None:
        grants: dict[str, GrantGiven] = {}
        begun: dict[str, float] = {}
        uses: Counter[str] = Counter()
        allowed: dict[str, CallDecided] = {}
        fused: dict[str, float] = {}
        released: dict[str, str] = {}
        given: dict[str, set[str]] = {}
        frozen = False
        for event in events:
            at, body = event.at.timestamp(), event.body
            self._acts.update(_acts_of(event))
            where = f"{session} {event.seq}"
            match body:
                case FreezeBegan() | FreezeLifted() | SessionResumed():
                    frozen = isinstance(body, FreezeBegan)
                case GrantGiven():
                    grants[body.grant.key], begun[body.grant.key] = body, body.grant.since
                    self.tally["grants"] += 1
                case ApprovalGiven():
                    given.setdefault(body.approval_id, set()).add(body.by)
                case ApprovalFused():
                    fused[body.approval_id] = body.until.timestamp()
                    self.tally["fuses"] += 1
                case ApprovalTakenBack():
                    fused.pop(body.approval_id, None)
                    given.pop(body.approval_id, None)
                    self.tally["taken back"] += 1
                case ApprovalWithdrawn():
                    released.pop(body.call_id, None)
                case ApprovalDecided() if body.approved:
                    released[body.call_id] = body.approval_id
                    people = {body.by, *body.others}
                    known = given.get(body.approval_id, set())
                    if body.others and not set(body.others) <= known:
                        self.problems.append(f"{where}: {body.others} counted, and {known} approved")
                    if body.others and len(people) < 2:
                        self.problems.append(f"{where}: {body.by} counted twice")
                    self.tally["two people"] += len(people) == 2
                case CallDecided() if body.outcome == "allow":
                    self._allowed(where, body, at, frozen=frozen)
                    if body.call_id in allowed:
                        self.problems.append(f"{where}: {body.call_id} was allowed twice")
                    allowed[body.call_id] = body
                    self._approved(where, body, at, released, fused)
                    for key in body.granted:
                        uses[key] += 1
                        self._granted(where, body, grants.get(key), begun.get(key, 0.0), uses[key])
                case CallResult():
                    self.tally["unknown"] += body.unknown
                    for key in {step.net for step in body.undone}:
                        uses[key] -= key in uses
                    if any(step.net.startswith("limit-spend") for step in body.undone):
                        self._spent.discard((session, body.call_id))
                case _:
                    pass
            if isinstance(body, CallDecided):
                self._decided.setdefault((session, body.call_id), []).append(body)
        folded = fold(events)
        for key, grant in grants.items():
            marking = folded.grants[key].net.marking
            if grant.grant.uses is not None and marking["used"] != uses[key]:
                self.problems.append(f"{session}: {key} has {marking}, and let {uses[key]} calls pass")

    def _allowed(self, where: str, body: CallDecided, at: float, *, frozen: bool) -> None:
        self.tally["allowed"] += 1
        if frozen:
            self.problems.append(f"{where}: {body.call_id} was allowed in a session that is frozen")
        for begun, lifted in self._memory.freezes:
            if begun < at < lifted:
                late = 1000 * (at - begun)
                self.problems.append(f"{where}: {body.call_id} was allowed {late:.0f} ms after a freeze")
        if body.tool == "spend":
            self._spent.add((where.split(maxsplit=1)[0], body.call_id))
        if body.tool == "pay" and len({each.casefold() for each in body.approved_by}) < 2:
            self.problems.append(f"{where}: pay was approved by {body.approved_by}")

    def _approved(
        self,
        where: str,
        body: CallDecided,
        at: float,
        released: dict[str, str],
        fused: dict[str, float],
    ) -> None:
        """Check that a call that needed approval was approved by the request decided last."""
        if body.tool in ("pay", "danger", "plan") and body.call_id not in released:
            self.problems.append(f"{where}: {body.tool} {body.call_id} was approved by nobody")
        if body.tool in ("deploy", "ship") and not body.granted and body.call_id not in released:
            self.problems.append(f"{where}: {body.tool} {body.call_id} was approved by nobody")
        if body.tool != "danger" or body.call_id not in released:
            return
        approval = released[body.call_id]
        if approval not in fused:
            self.problems.append(f"{where}: {body.call_id} was released without its fuse")
        elif at < fused[approval] - LATE:
            self.problems.append(f"{where}: {body.call_id} was released before its fuse had burnt")
        if approval in self._memory.taken_back:
            self.tally["approved anew"] += 1
            if fused.get(approval, 0.0) < self._memory.taken_back[approval]:
                self.problems.append(f"{where}: {body.call_id} was taken back, and released")

    def _granted(
        self, where: str, body: CallDecided, grant: GrantGiven | None, begun: float, used: int
    ) -> None:
        self.tally["granted"] += 1
        if grant is None:
            self.problems.append(f"{where}: {body.call_id} was let pass by a grant that nobody gave")
            return
        terms = grant.grant
        if terms.uses is not None and used > terms.uses:
            self.problems.append(f"{where}: {terms.key} has {terms.uses} uses, and {used} were taken")
        if terms.seconds is not None and (body.clock or 0.0) > begun + terms.seconds + LATE:
            self.problems.append(f"{where}: {terms.key} was over, and let {body.call_id} pass")

    def _answers(self) -> None:
        """Compare the answers that agents received with the record, which must have each once."""
        for told in self._memory.answers:
            self.tally["answers"] += 1
            if told.outcome not in ("allow", "block"):
                continue
            decided = self._decided.get((told.session, told.call), [])
            same = [each for each in decided if each.outcome == told.outcome]
            if not same or same[-1].input != told.input:
                self.problems.append(f"{told} is recorded as {decided}")
            if told.outcome != "allow":
                continue
            for begun, lifted in self._memory.freezes:
                if begun < told.asked and told.heard < lifted:
                    self.problems.append(f"{told.call} was asked and allowed while all were frozen")


def _acts_of(event: JournalEvent) -> Iterator[tuple[str, str, str]]:
    """Yield operators' actions in an event: the kind, its request or session, and the operator."""
    match event.body:
        case ApprovalGiven() | ApprovalFused() as body:
            yield "approved", body.approval_id, body.by
        case ApprovalDecided() as body:
            yield "approved" if body.approved else "denied", body.approval_id, body.by
        case ApprovalTakenBack() as body:
            yield "taken back", body.approval_id, body.by
        case ApprovalClaimed() as body:
            yield "claimed", body.approval_id, body.by
        case NetToggled() as body:
            yield "on" if body.active else "off", event.session, body.by
        case _:
            pass
