"""Findings of a journal's verification, as lines of 80 columns and as JSON for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...engine.core.sanitize import visible
from ...engine.history.audit.compare import Comparison
from ...engine.history.audit.prune import StubCheck
from ...engine.history.audit.receipt import ReceiptCheck
from ...engine.history.audit.signing import fingerprint
from ...engine.history.audit.stream_check import StreamCheck
from ...engine.history.audit.verify import ChainCheck, ChainFault, FileCheck, Gap
from ...engine.history.model.times import from_ms
from ...engine.history.postgres.divergence import Divergence
from .text import count

MOST_LISTED = 10
NO_FILE = FileCheck(events=0, missing=0)


@dataclass(frozen=True, slots=True)
class ExportComparison:
    """An exported file, compared with what the journal still has of it."""

    name: str
    found: Comparison


@dataclass(frozen=True, slots=True)
class JournalFindings:
    """Findings of a verification: hash chains in order, then findings on the whole file.

    `otherwise` are sessions whose listing differs from their events, `compared` are exports compared
    with the journal, `keys` are faults of the log of passkeys, `diverged` are losses of acknowledged
    events that no operator has accepted. `own` is this machine's public key, `trusted` are the named
    keys of others.
    """

    checks: tuple[ChainCheck, ...]
    stubs: tuple[StubCheck, ...] = ()
    file: FileCheck = NO_FILE
    otherwise: tuple[str, ...] = ()
    compared: tuple[ExportComparison, ...] = ()
    own: bytes | None = None
    trusted: frozenset[bytes] = frozenset()
    keys: tuple[str, ...] = ()
    diverged: tuple[Divergence, ...] = ()

    def knows(self, stub: StubCheck) -> bool:
        """Return whether a stub is signed with a known key; anybody can create a key and sign with it."""
        return stub.good and (stub.key == self.own or stub.key in self.trusted)

    @property
    def unknown(self) -> int:
        """Return the number of stubs with a valid signature by an unknown key."""
        return sum(stub.good and not self.knows(stub) for stub in self.stubs)

    def vouches(self, check: ChainCheck) -> bool:
        """Return whether a known key signed the origin and all masked content of an imported session."""
        known = self.trusted if self.own is None else self.trusted | {self.own}
        return not check.imported or (not check.unvouched and check.keys <= known)

    @property
    def unsure(self) -> int:
        """Return the number of imported sessions that no known key vouches for completely."""
        return sum(check.fault is None and not self.vouches(check) for check in self.checks)

    @property
    def masked(self) -> int:
        """Return the number of events of which facts and position were checked, but not texts."""
        return sum(check.masked for check in self.checks)

    @property
    def unsalted(self) -> int:
        """Return the number of requests whose digests reveal a short input by guessing, masked or not."""
        return sum(check.unsalted for check in self.checks)

    @property
    def broken(self) -> bool:
        return bool(
            self.file.missing
            or self.otherwise
            or self.keys
            or self.diverged
            or any(check.fault or check.unproved for check in self.checks)
            or any(compared.found.fault for compared in self.compared)
            or any(not stub.good for stub in self.stubs)
        )


def findings_lines(found: JournalFindings) -> Iterator[str]:
    """Yield lines: sessions, then stubs, findings on the whole file, and a summary."""
    width = max((len(visible(check.session)) for check in found.checks), default=0)
    for check in found.checks:
        name = visible(check.session).ljust(width)
        if check.fault is not None:
            yield f"✗ {name}  {visible(check.fault.message)}"
            yield from _unproved(check)
            continue
        imported = ", imported" if check.imported else ""
        masked = f", {check.masked} masked" if check.masked else ""
        head = check.head.hex()[:16] if check.head else "none"
        sure = found.vouches(check)
        mark = "✗" if check.unproved else "✓" if sure else "?"
        proofs = f", {count(check.proofs, 'passkey proof')}" if check.proofs else ""
        yield f"{mark} {name}  {count(check.events, 'event')}{imported}{masked}{proofs}, hash {head}"
        yield from _unproved(check)
        if not sure:
            yield f"    {_unsure(check)}"
    for stub in found.stubs:
        pruned = stub.stub
        if not stub.good:
            yield f"✗ {visible(pruned.session)}  the stub that pruning left was changed"
            continue
        known = found.knows(stub)
        here = ", signed here" if stub.key == found.own else ""
        yield (
            f"{'-' if known else '?'} {visible(pruned.session)}  {count(pruned.events, 'event')}, "
            f"pruned {day(pruned.at)} by {visible(pruned.by)}{here}"
        )
        if not here:
            key_text = "the trusted key" if known else "a key this machine does not know:"
            yield f"    signed by {key_text} {fingerprint(stub.key)}"
    if found.unknown:
        yield "? Whoever signed with an unknown key can tell you its fingerprint. If it is the"
        yield "    same, trust the key's public half: interlock history verify --trust FILE"
    if found.masked:
        yield "  Inputs and texts of masked events cannot be checked here; all else is."
    if found.unsalted:
        requests = count(found.unsalted, "request")
        yield f"  {requests} of an older version: the digest has no salt, so a short secret"
        yield "  in the input can be guessed by trying, also in an export that masks it. See"
        yield "  'Digests of older journals' in the documentation (how-to/audit)."
    for each in found.diverged:
        yield f"✗ {visible(each.session)}  diverged: {visible(each.reason)}"
        yield f"    noticed {day(each.at)} by {visible(each.name)}"
        yield f"    {each.remedy}"
    for fault in found.keys[:MOST_LISTED]:
        yield f"✗ {visible(fault)}"
    missing = found.file.missing
    if missing > 0:
        were = "was" if missing == 1 else "were"
        yield f"✗ {count(missing, 'event')} that the file has numbered {were} removed from it"
        for gap in found.file.gaps:
            yield f"    {_gap(gap)}"
    elif missing < 0:
        yield f"✗ the file holds {count(-missing, 'event')} more than it ever numbered"
    if found.otherwise:
        yield f"✗ {count(len(found.otherwise), 'session')} listed differently from what the events say:"
        for session in found.otherwise[:MOST_LISTED]:
            yield f"    {visible(session)}"
        if len(found.otherwise) > MOST_LISTED:
            yield f"    and {len(found.otherwise) - MOST_LISTED} more"
        yield "    The events are right. To rebuild the lists: interlock history rebuild"
    for compared in found.compared:
        yield _compared(compared)
    total = sum(check.events for check in found.checks)
    yield f"{count(len(found.checks), 'session')}, {count(total, 'event')}: {_verdict(found)}."


def _unproved(check: ChainCheck) -> Iterator[str]:
    """Yield lines on approvals whose passkey signatures are invalid."""
    for fault in check.unproved[:MOST_LISTED]:
        yield f"    {visible(fault.message)}"
    if len(check.unproved) > MOST_LISTED:
        yield f"    and {len(check.unproved) - MOST_LISTED} more"


def _unsure(check: ChainCheck) -> str:
    """Return why a session may differ from the original that was imported."""
    if check.unvouched:
        return (
            f"nobody vouches for {count(check.unvouched, 'event')} of it: an older version imported it, "
            "or it was changed or marked since. Import its export again: --db JOURNAL"
        )
    keys = ", ".join(map(fingerprint, sorted(check.keys)))
    return f"imported with a key this machine does not know: {keys}"


def _verdict(found: JournalFindings) -> str:
    broken = sum(check.fault is not None for check in found.checks)
    if broken:
        verdict = f"{broken} broken"
    elif unproved := sum(bool(check.unproved) for check in found.checks):
        verdict = f"{count(unproved, 'session')} with approvals that no passkey proves"
    elif found.diverged:
        verdict = f"{len({each.session for each in found.diverged})} diverged"
    elif found.keys:
        verdict = "the log of passkeys is not intact"
    elif found.file.missing or any(not stub.good for stub in found.stubs):
        verdict = "the file is not intact"
    elif found.otherwise:
        verdict = "the lists are wrong"
    elif found.broken:
        verdict = "not everything that was exported"
    else:
        verdict = "all intact"
    if found.unsure:
        verdict = f"{verdict}, {count(found.unsure, 'import')} unproven"
    return f"{verdict}, {count(found.unknown, 'stub')} with unknown keys" if found.unknown else verdict


def _compared(compared: ExportComparison) -> str:
    """Return the line on the events of an exported file that the journal still has."""
    name, found = visible(compared.name), compared.found
    events = "its event is" if found.events == 1 else f"its {found.events} events are"
    since = f", {found.since} more since" if found.since else ""
    if found.fault is not None:
        return f"✗ {name}  {visible(found.fault.message)}"
    if found.pruned:
        return f"- {name}  {events} among those of a stub{since}"
    return f"✓ {name}  {events} in the journal{since}"


def _gap(gap: Gap) -> str:
    """Return the numbers of missing events, and the event before them."""
    numbers = f"number {gap.first}" if gap.first == gap.last else f"numbers {gap.first} to {gap.last}"
    behind = f"after event {gap.seq} of {visible(str(gap.session))}" if gap.seq else "at its beginning"
    return f"{numbers}, {behind}"


def findings_json(found: JournalFindings) -> dict[str, object]:
    """Return the findings as JSON for programs."""
    return {
        "whole": not found.broken,
        "unknown_keys": found.unknown,
        "missing_events": found.file.missing,
        "gaps": [
            {"first": gap.first, "last": gap.last, "after_session": gap.session, "after_event": gap.seq}
            for gap in found.file.gaps
        ],
        "listed_otherwise": list(found.otherwise),
        "passkey_log": list(found.keys),
        "diverged": [
            {
                "session": each.session,
                "acknowledged": each.seq,
                "head": each.hash.hex() if each.hash else None,
                "kept": each.kept,
                "noticed_by": each.name,
                "at": each.at,
            }
            for each in found.diverged
        ],
        "sessions": [
            {
                "session": check.session,
                "events": check.events,
                "imported": check.imported,
                "masked": check.masked,
                "unsalted_digests": check.unsalted,
                "proven": found.vouches(check),
                "head": check.head.hex() if check.head else None,
                "fault": _fault(check.fault),
                "passkey_proofs": check.proofs,
                "unproved": [{"event": each.seq, "message": each.message} for each in check.unproved],
            }
            for check in found.checks
        ],
        "pruned": [
            {
                "session": stub.stub.session,
                "events": stub.stub.events,
                "head": stub.stub.head.hex(),
                "by": stub.stub.by,
                "at": stub.stub.at,
                "good": stub.good,
                "key": fingerprint(stub.key),
                "own_key": stub.key == found.own,
                "known_key": found.knows(stub),
            }
            for stub in found.stubs
        ],
        "compared": [
            {
                "file": compared.name,
                "session": compared.found.session,
                "events": compared.found.events,
                "since": compared.found.since,
                "pruned": compared.found.pruned,
                "fault": _fault(compared.found.fault),
            }
            for compared in found.compared
        ],
    }


def _fault(fault: ChainFault | None) -> dict[str, object] | None:
    if fault is None:
        return None
    return {"event": fault.seq, "kind": fault.kind, "message": fault.message}


def day(ms: int) -> str:
    """Return the day of a time in UTC milliseconds."""
    return from_ms(ms).date().isoformat()


def stream_lines(found: StreamCheck) -> Iterator[str]:
    """Yield the lines on checked files of a stream."""
    for fault in found.faults:
        yield f"✗ {visible(fault.file)}:{fault.line}: {fault.message}"
    if not found.lines:
        yield "✗ it contains no events"
        return
    for cursor in found.begins.values():
        yield f"- begins after the journal's event {cursor}, which is not in these files"
    if found.masked:
        yield f"- {count(found.masked, 'event')} without all content: facts and position were checked"
    if found.bare:
        yield f"- {count(found.bare, 'event')} of which only the position was sent, and was checked"
    if found.repeated:
        yield f"- {count(found.repeated, 'event')} that came twice"
    if found.last is not None:
        yield f"- the last is the journal's event {found.last[0]}, {visible(found.last[1])}"
    if found.waiting:
        yield f"- {count(found.waiting, 'event')} of the journal still to be sent"
    contents = f"{count(found.lines - found.repeated, 'event')} of {count(found.sessions, 'session')}"
    if found.faults:
        yield f"{count(len(found.faults), 'fault')} in {contents}"
    elif found.compared is None:
        yield f"✓ {contents}: as they were sent, none left out before the last"
    else:
        yield f"✓ {contents}: as they were sent, and as the journal has them, none left out"


def stream_json(found: StreamCheck) -> dict[str, object]:
    """Return the check of a stream as JSON for programs."""
    return {
        "whole": bool(found.lines) and not found.faults,
        "events": found.lines - found.repeated,
        "sessions": found.sessions,
        "repeated": found.repeated,
        "masked": found.masked,
        "place_only": found.bare,
        "begins_after": list(found.begins.values()),
        "last": None if found.last is None else {"cursor": found.last[0], "at": found.last[1]},
        "compared": found.compared,
        "waiting": found.waiting,
        "faults": [
            {"file": each.file, "line": each.line, "kind": each.kind, "message": each.message}
            for each in found.faults
        ],
    }


def receipt_lines(found: ReceiptCheck) -> Iterator[str]:
    """Yield the lines on a checked receipt."""
    decided = found.decision
    yield f"Session {visible(found.session)}, call {visible(found.call)}, {found.at}"
    verb = {"allow": "allowed", "block": "blocked"}.get(decided.outcome, "needs approval")
    mode = "" if decided.mode == "enforce" else f" in {decided.mode} mode"
    who = f", approved by {visible(decided.approver_names)}" if decided.approved_by else ""
    why = f", by {visible(decided.rule.text)}" if decided.rule is not None else ""
    yield f"{visible(decided.tool)}: {verb}{mode}{who}{why}"
    if found.imported:
        yield "The session was imported: the author of its export wrote all of it."
    if found.masked:
        yield "Its input is masked: the record has its hash."
    yield f"✓ the events are as they were recorded, up to event {found.seq}: {found.head}"
