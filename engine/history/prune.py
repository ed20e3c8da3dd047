"""Removing what is too old to keep, so that it shows: a signed stub stays for each session.

The stub says how long the session was and how its chain ended. An export that was made before can be
held against it, and the file's count of events still comes out even.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import JsonValue

from .canonical import canonical
from .errors import JournalError
from .schema import UNLINKED, inspect, name_of, reading
from .signing import Signer, signed
from .upkeep import changing
from .verify import ChainCheck, check_session

_COLUMNS = "session, agent, opened, updated, events, head, at, by, key, signature"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Stub:
    """What is left of a session; `at` and `by` tell its end. Times in UTC milliseconds."""

    session: str
    agent: str
    opened: int
    updated: int
    events: int
    head: bytes
    at: int
    by: str

    def message(self) -> bytes:
        """What is signed: the canonical JSON of all members and a version, hashes in hexadecimal."""
        members: dict[str, JsonValue] = {**asdict(self), "head": self.head.hex(), "v": _VERSION}
        return canonical(members).encode()


@dataclass(frozen=True, slots=True)
class StubCheck:
    """A stub, whether its signature is good, and by which public key."""

    stub: Stub
    good: bool
    key: bytes


@dataclass(frozen=True, slots=True)
class Pruning:
    """What was removed, and what was kept because its chain is broken: that is evidence."""

    pruned: tuple[Stub, ...]
    kept: tuple[ChainCheck, ...]


def prune(path: Path, *, before: int, by: str, at: int, key: Path, dry: bool = False) -> Pruning:
    """Remove the sessions of the journal at `path` that last changed before `before`.

    The stubs are signed with the key in the file `key`, which is made if there is none. Times are UTC
    milliseconds. With `dry` nothing is changed. Raises `JournalError`.
    """
    with changing(path, shrink=not dry) as connection:
        rows = connection.execute(
            "SELECT id, agent, opened, updated, events FROM session WHERE updated < ? ORDER BY updated",
            (before,),
        ).fetchall()
        stubs: list[Stub] = []
        kept: list[ChainCheck] = []
        for session, agent, opened, updated, events in rows:
            check = check_session(connection, session, events)
            if check.fault is not None or check.head is None:
                kept.append(check)
                continue
            stubs.append(Stub(session, agent, opened, updated, events, check.head, at, by))
        if stubs and not dry:
            signer = Signer.open(key)
            connection.executemany(
                f"INSERT INTO pruned ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(*asdict(stub).values(), signer.public, signer.sign(stub.message())) for stub in stubs],
            )
            gone = [(stub.session,) for stub in stubs]
            connection.executemany("DELETE FROM event WHERE session = ?", gone)
            connection.executemany("DELETE FROM session WHERE id = ?", gone)
    return Pruning(tuple(stubs), tuple(kept))


def stubs(path: Path) -> Iterator[StubCheck]:
    """What is left of the pruned sessions, oldest first. Raises `JournalError`."""
    age, found = inspect(path)
    if age == "fresh" or found in UNLINKED:
        raise JournalError(f"Journal '{name_of(path)}' has never been pruned.")
    with reading(path) as connection:
        rows = connection.execute(f"SELECT {_COLUMNS} FROM pruned ORDER BY at, rowid").fetchall()
    for *members, key, signature in rows:
        stub = Stub(*members)
        yield StubCheck(stub, signed(stub.message(), signature, key), key)
