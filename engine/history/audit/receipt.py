"""Receipt of one decision: the events of a call with their links, signed, for checks without a journal.

The hash of the last event covers all of the session's record up to there. The journal's key signs that
the chain was intact, and what is shown of it. Events of other calls in between appear only with their
facts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from ...core.sanitize import visible
from ..database.location import Location
from ..errors import JournalError
from ..journal.schema import name_of
from ..model.events import CallDecided, event_body
from .canonical_json import canonical
from .export import Mask, event_line, linked_events
from .hash_chain import CONTENT, content_hash
from .importing import ExportError, Line, event_of_line, read_export
from .signing import Signer, signed
from .verify import LinkedEvent, follows, strict_json, verify_session

FORMAT = "interlock-receipt"
VERSION = 1
_HASH = r"^[0-9a-f]{64}$"
MOST_BYTES = 64 << 20


class _Receipt(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    format: Literal["interlock-receipt"]
    version: Literal[1]
    session: str = Field(min_length=1)
    call: str = Field(min_length=1)
    imported: bool = False
    events: list[Line] = Field(min_length=1)
    key: str = Field(pattern=_HASH)
    signature: str = Field(pattern=r"^[0-9a-f]{128}$")


@dataclass(frozen=True, slots=True)
class ReceiptCheck:
    """Result for a receipt: the signer, the decision, and the last hash of the session that it covers.

    `masked` says that the call's input is partly masked, so that only its hash could be verified.
    """

    session: str
    call: str
    decision: CallDecided
    at: str
    seq: int
    head: str
    key: bytes
    masked: bool
    imported: bool


def make_receipt(journal: Location, session: str, call: str, mask: Mask | None, key: Path) -> str:
    """Return the JSON text of the receipt of a call's decision.

    Raises `JournalError` for a session whose chain has a fault, `ValueError` for a call that was not
    decided.
    """
    check = verify_session(journal, session)
    if check.fault is not None:
        raise JournalError(
            f"Session '{visible(session)}' is not as it was recorded: {visible(check.fault.message)}. "
            "There is no receipt of it; see: interlock history verify"
        )
    events = list(linked_events(journal, session))
    positions = [at for at, each in enumerate(events) if call in _calls_of(each)]
    if not any(events[at].kind == "call.decided" for at in positions):
        raise ValueError(
            f"session '{visible(session)}' has no decision on a call '{visible(call)}'; "
            "interlock history export SESSION shows the ids of its calls"
        )
    lines: list[JsonValue] = []
    for at in range(positions[0], positions[-1] + 1):
        prev = events[at - 1].hash if at else None
        # Content about other calls is not for the receipt's recipient.
        is_alone = _calls_of(events[at]) == {call}
        lines.append(event_line(events[at], prev, mask) if is_alone else _facts(events[at], prev))
    last = events[positions[-1]]
    signer = Signer.open(key)
    message = _message(session, call, last, lines, imported=check.imported)
    receipt: dict[str, JsonValue] = {
        "format": FORMAT,
        "version": VERSION,
        "session": session,
        "call": call,
        "imported": check.imported,
        "events": lines,
        "key": signer.public.hex(),
        "signature": signer.sign(message).hex(),
    }
    return json.dumps(receipt, indent=1, ensure_ascii=True)


def check_receipt(path: Path, against: Sequence[Path] = ()) -> ReceiptCheck:
    """Check a receipt, and that the exports in `against` have its last event.

    Raises `ValueError` for a file that is not a receipt or was changed, with what does not match.
    """
    name = name_of(path)
    receipt = _read(path)
    events = [event_of_line(name, number, line) for number, line in enumerate(receipt.events, 1)]
    first = receipt.events[0]
    prev = None if first.prev is None else bytes.fromhex(first.prev)
    for number, (event, line) in enumerate(zip(events, receipt.events, strict=True)):
        seq = receipt.events[0].seq + number
        is_linked = (
            line.prev == (None if prev is None else prev.hex()) and line.session == receipt.session
        )
        in_place = is_linked and event.seq == seq and (seq == 1) == (prev is None)
        if not in_place or not follows(event, seq, prev):
            raise ValueError(f"{name}: event {seq} is not as it was recorded; the receipt was changed")
        prev = event.hash
    last = events[-1]
    lines: list[JsonValue] = [line.model_dump(exclude_unset=True) for line in receipt.events]
    message = _message(receipt.session, receipt.call, last, lines, imported=receipt.imported)
    public = bytes.fromhex(receipt.key)
    if not signed(message, bytes.fromhex(receipt.signature), public):
        raise ValueError(f"{name}: this key did not sign these events; the receipt was changed")
    decisions = [
        (event, line)
        for event, line in zip(events, receipt.events, strict=True)
        if event.kind == "call.decided" and line.body.get("call_id") == receipt.call
    ]
    if not decisions:
        raise ValueError(f"{name}: it has no decision on call '{visible(receipt.call)}'")
    event, line = decisions[-1]
    for export in against:
        _compare(export, receipt.session, last)
    body = event_body.validate_json(json.dumps({"input": {}, **line.body}))
    assert isinstance(body, CallDecided)
    return ReceiptCheck(
        receipt.session,
        receipt.call,
        body,
        line.at,
        last.seq,
        last.hash.hex(),
        public,
        event.salt is None,
        receipt.imported,
    )


def _read(path: Path) -> _Receipt:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it is longer than {MOST_BYTES >> 20} MiB")
        return _Receipt.model_validate(strict_json(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(f"cannot read '{name_of(path)}': {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise ValueError(
            f"'{name_of(path)}' is not a receipt: {visible(why)}. Make one with: interlock history "
            "receipt SESSION CALL"
        ) from error


def _compare(path: Path, session: str, last: LinkedEvent) -> None:
    try:
        export = read_export(path)
    except ExportError as error:
        raise ValueError(str(error)) from error
    same = export.session == session and export.check.fault is None
    if not same or not any(each.seq == last.seq and each.hash == last.hash for each in export.events):
        raise ValueError(
            f"'{name_of(path)}' does not have event {last.seq} of session '{visible(session)}' as the "
            "receipt has it"
        )


def _message(
    session: str, call: str, last: LinkedEvent, lines: list[JsonValue], *, imported: bool
) -> bytes:
    """Return the bytes to sign: the call, and the hash up to which the chain was intact.

    The lines are signed as well: no hash covers masked content, and a first event that was left out would
    not be missed.
    """
    statement: dict[str, JsonValue] = {
        "call": call,
        "events": sha256(canonical(lines).encode()).hexdigest(),
        "hash": last.hash.hex(),
        "imported": imported,
        "seq": last.seq,
        "session": session,
        "version": VERSION,
    }
    return b"interlock-receipt\0" + canonical(statement).encode()


def _calls_of(event: LinkedEvent) -> set[str]:
    """Return the ids of the calls that an event is about."""
    body: dict[str, JsonValue] = json.loads(event.body)
    calls = body.get("calls")
    bodies = [body, *(calls if isinstance(calls, list) else [])]
    ids = [each.get("call_id") for each in bodies if isinstance(each, dict)]
    return {each for each in ids if isinstance(each, str)}


def _facts(event: LinkedEvent, prev: bytes | None) -> dict[str, JsonValue]:
    """Return an event's line with the hash of its content in place of the content."""
    line = event_line(event, prev, None)
    salt = line.pop("salt", None)
    body = line["body"]
    assert isinstance(body, dict)
    facts: dict[str, JsonValue] = {name: each for name, each in body.items() if name not in CONTENT}
    if salt is None:
        return {**line, "body": facts}
    assert event.salt is not None
    return {**line, "body": facts, "content": content_hash(event.body, event.salt).hex()}
