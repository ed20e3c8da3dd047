"""Log of the passkeys of a journal's operators: each line is chained to the one before it.

A key is not part of a session, so it cannot be in a session's record. Enrolments, removals and use counts
of keys are lines of JSON in an append-only log. A line that cannot be read, is not chained, or has no
valid confirmation enrolls no key, so such a key approves nothing. Removals and use counts apply in any
line: a program that can append a line, and so break the chain, cannot restore a removed key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from ..audit.passkeys import KeyEntry, KeyProofError, check_enrolment
from ..database.location import Location
from ..model.records import EnrolledKey, Record
from ..model.times import to_ms
from .line_log import line_log

MOST_READ = 64 << 20
"""Maximum size of a log that is read, in bytes; a line has about a thousand."""


class _Enrolled(Record):
    step: Literal["enrolled"] = "enrolled"
    before: str
    key: EnrolledKey


class _Removed(Record):
    step: Literal["removed"] = "removed"
    before: str
    credential: str
    by: str
    at: datetime


class _Used(Record):
    step: Literal["used"] = "used"
    before: str
    credential: str
    uses: int


_Entry: TypeAlias = Annotated[_Enrolled | _Removed | _Used, Field(discriminator="step")]
_ENTRY: TypeAdapter[_Enrolled | _Removed | _Used] = TypeAdapter(_Entry)


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """All keys in a log, by the hash of their line, and the faults of lines that do not count.

    `lines` is the number of lines.
    """

    entries: Mapping[str, KeyEntry] = field(default_factory=dict[str, KeyEntry])
    faults: tuple[str, ...] = ()
    head: str = ""
    lines: int = 0

    def in_force(self) -> list[KeyEntry]:
        """Return the keys in force, oldest first."""
        return [each for each in self.entries.values() if each.in_force()]

    def uses(self, credential: str) -> int:
        """Return the use count of a key."""
        return max((e.uses for e in self.entries.values() if e.key.credential == credential), default=0)


class KeyLog:
    """The log of a `journal`."""

    def __init__(self, journal: Location) -> None:
        self.lines = line_log(journal, "keys")

    def read(self) -> KeyHistory:
        """Return the keys and the faults in the log; no keys if it cannot be read."""
        name = self.lines.name
        try:
            text = self.lines.read(MOST_READ + 1)
        except OSError as error:
            return KeyHistory(faults=(f"{name}: {error.strerror or error}",))
        if text is None:
            return KeyHistory()
        if len(text) > MOST_READ:
            return KeyHistory(faults=(f"{name}: more than {MOST_READ} bytes",))
        entries: dict[str, KeyEntry] = {}
        faults: list[str] = []
        head, is_broken = "", False
        for number, line in enumerate(text.split(b"\n"), 1):
            if not line:
                continue
            try:
                entry = _ENTRY.validate_json(line)
            except ValidationError:
                faults.append(f"{name}:{number}: this line is not an entry of a key log")
                continue
            if is_broken or entry.before != head:
                if not is_broken:
                    faults.append(f"{name}:{number}: a line before this one was changed or removed")
                is_broken = True
                if isinstance(entry, _Enrolled):
                    continue
            else:
                head = sha256(line).hexdigest()
            try:
                _follow(entries, entry, head)
            except KeyProofError as error:
                faults.append(f"{name}:{number}: this key does not count: {error}")
        return KeyHistory(entries, tuple(faults), head, text.count(b"\n"))

    def newer(self, history: KeyHistory) -> KeyHistory:
        """Return the current keys, to which other servers may have added lines. Raises `OSError`."""
        return self.read() if self.lines.has_grown(history.lines) else history

    def enroll(self, key: EnrolledKey, history: KeyHistory) -> KeyHistory:
        """Record a key; durable when this returns. Raises `OSError`, and `KeyProofError`."""
        return self._append(lambda current: _Enrolled(before=current.head, key=key), history)

    def remove(self, credential: str, by: str, at: datetime, history: KeyHistory) -> KeyHistory:
        """Record that a key is no longer valid. Raises as `enroll` does."""
        return self._append(
            lambda current: _Removed(before=current.head, credential=credential, by=by, at=at), history
        )

    def note_uses(self, credential: str, uses: int, history: KeyHistory) -> KeyHistory:
        """Record a key's own count of its uses. Raises as `enroll` does.

        Raises `KeyProofError` if another server recorded the same count in the meantime.
        """

        def entry(current: KeyHistory) -> _Used:
            if current is not history and current.uses(credential) >= uses:
                raise KeyProofError("the key was used at another server at the same time: try again")
            return _Used(before=current.head, credential=credential, uses=uses)

        return self._append(entry, history)

    def _append(
        self, entry_after: Callable[[KeyHistory], _Enrolled | _Removed | _Used], history: KeyHistory
    ) -> KeyHistory:
        """Append to the log as `history` has it; if it has grown since, to its current state."""
        while True:
            entry = entry_after(history)
            line = entry.model_dump_json()
            entries = dict(history.entries)
            head = sha256(line.encode()).hexdigest()
            _follow(entries, entry, head)
            if self.lines.append_to(history.lines, line):
                return replace(history, entries=entries, head=head, lines=history.lines + 1)
            current_history = self.read()
            if current_history.lines <= history.lines:
                raise OSError(
                    next(iter(current_history.faults), f"{self.lines.name}: lines were removed")
                )
            history = current_history


def _follow(entries: dict[str, KeyEntry], entry: _Enrolled | _Removed | _Used, head: str) -> None:
    """Apply a line to the keys. Raises `KeyProofError` for an invalid enrolment."""
    match entry:
        case _Enrolled(key=key):
            if any(each.key.credential == key.credential for each in entries.values()):
                raise KeyProofError("a key with this id was enrolled before")
            check_enrolment(key, entries.values())
            entries[head] = KeyEntry(key, head, to_ms(key.at), uses=key.uses)
        case _Removed(credential=credential, at=at):
            for each in entries.values():
                if each.key.credential == credential and each.in_force():
                    entries[each.hash] = replace(each, removed=to_ms(at))
        case _Used(credential=credential, uses=uses):
            for each in entries.values():
                if each.key.credential == credential:
                    entries[each.hash] = replace(each, uses=max(uses, each.uses))
