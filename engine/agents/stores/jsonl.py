"""A conversation as a file of JSON lines: one entry per line, each naming the entry it follows.

Entries that follow the same one are branches, so nothing is ever rewritten. A line that cannot be read is
skipped with a warning in the log; entries that follow it are attached to the entry before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import quote, unquote
from uuid import uuid4
from weakref import WeakValueDictionary

from pydantic import AwareDatetime, BaseModel, Field, JsonValue, ValidationError

from ...core.clock import Clock, utc_now
from ..errors import EntryNotFoundError, SessionIdError, SessionNotFoundError
from ..messages import Message
from .base import Messages, StoredSession, StoredSessions, first_text

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A stored message and the entry it follows, `None` for the first. `at` is an aware datetime."""

    id: str
    parent_id: str | None
    at: datetime
    message: Message


class _EntryLine(BaseModel):
    """An entry as written to the file."""

    id: str = Field(min_length=1)
    parent_id: str | None = Field(alias="parentId")
    timestamp: AwareDatetime
    message: Message


def read_entries(path: Path) -> list[StoredEntry]:
    """Return every readable entry in the order of writing; none if there is no file.

    Raises `OSError` for a file that cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return []
    with open(handle, "rb") as file:
        fcntl.flock(handle, fcntl.LOCK_SH)
        return _entries(file.read(), path)


def append_entry(path: Path, entry: StoredEntry, *, after_last: bool) -> StoredEntry:
    """Write an entry durably and return it. With `after_last` it follows the last entry of the file.

    A file created here is readable only by its owner. A partial line that a crash left stays a line by
    itself; an entry that this process could not write in full is removed. Raises `OSError`, and
    `ValueError` for content that JSON or UTF-8 cannot represent.
    """
    is_new = not path.exists()
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        size = os.fstat(handle).st_size
        if after_last:
            with open(os.dup(handle), "rb") as file:
                file.seek(0)
                entries = _entries(file.read(), path)
            entry = StoredEntry(entry.id, entries[-1].id if entries else None, entry.at, entry.message)
        has_torn_line = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        line = _encoded(entry)
        try:
            _write(handle, b"\n" + line if has_torn_line else line)
            os.fsync(handle)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, size)
            raise
    finally:
        os.close(handle)
    if is_new:
        sync_folder(path.parent)
    return entry


def sync_folder(folder: Path) -> None:
    """Make a folder's list of files durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def path_to(entries: Sequence[StoredEntry], leaf_id: str | None = None) -> list[StoredEntry]:
    """Return the entries from the first to `leaf_id`, by default to the last one written.

    Raises `KeyError` for an unknown `leaf_id`.
    """
    entries_by_id = {entry.id: entry for entry in entries}
    at = entries_by_id[leaf_id] if leaf_id is not None else entries[-1] if entries else None
    path: list[StoredEntry] = []
    while at is not None:
        path.append(at)
        at = None if at.parent_id is None else entries_by_id[at.parent_id]
    return path[::-1]


def _entries(content: bytes, path: Path) -> list[StoredEntry]:
    entries: list[StoredEntry] = []
    ids: set[str] = set()
    for number, line in _lines(content):
        try:
            read = _EntryLine.model_validate(json.loads(line))
        except (ValueError, RecursionError) as error:
            log.warning("%s:%d is skipped, it is not an entry: %s", path, number, _line_problem(error))
            continue
        if read.id in ids:
            log.warning("%s:%d is skipped, an earlier entry has its id %r", path, number, read.id)
            continue
        parent = read.parent_id
        if parent is not None and parent not in ids:
            log.warning(
                "%s:%d follows %r, which cannot be read; it is attached to the entry before it",
                path,
                number,
                parent,
            )
            parent = entries[-1].id if entries else None
        ids.add(read.id)
        entries.append(StoredEntry(read.id, parent, read.timestamp, read.message))
    return entries


def _lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, numbered from 1."""
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            yield number, line


def _line_problem(error: ValueError | RecursionError) -> str:
    """Describe the problem of a line without quoting it, because its text must not get into a log."""
    match error:
        case ValidationError():
            [first, *_] = error.errors(include_input=False, include_url=False)
            where = ".".join(str(part) for part in first["loc"])
            return f"{where}: {first['msg']}" if where else first["msg"]
        case json.JSONDecodeError():
            return f"{error.msg} at character {error.pos + 1}"
        case UnicodeDecodeError():
            return "it is not UTF-8"
        case _:
            return type(error).__name__


def _encoded(entry: StoredEntry) -> bytes:
    line: dict[str, JsonValue] = {
        "id": entry.id,
        "parentId": entry.parent_id,
        "timestamp": entry.at.isoformat(),
        "message": entry.message.model_dump(),
    }
    return json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


# Store of conversations in files, one per session, which people can read, search and copy.


T = TypeVar("T")

SUFFIX = ".jsonl"
LONGEST_NAME = 255
"""Maximum bytes of a file name that every common file system accepts."""

StoredEntries: TypeAlias = list[StoredEntry]

_SortedSessions: TypeAlias = list[tuple[tuple[datetime, int], StoredSession]]
"""Stored sessions, each after its sort key."""


class JsonlSessionStore:
    """Stores each session in a file of `folder`, which only its owner may read.

    A message is durable when `append` returns. Messages of a session are written one at a time in the
    given order, even by several processes. `clock` returns an aware datetime.

    A store continues after its own last entry, or else after the last message in the file. `branch`
    returns a store that continues after another entry: both write their own branch to the same file.
    """

    def __init__(self, folder: Path | str, *, clock: Clock = utc_now) -> None:
        self._folder = Path(folder)
        self._clock = clock
        self._leaves: dict[str, str] = {}
        # A lock that no task uses is dropped, so none stays bound to an old event loop.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def load(self, session_id: str) -> Messages:
        """Return the current branch, oldest message first; empty for an unknown id (A-9).

        Lines that are not entries are skipped with a warning in the log. Raises `SessionIdError` and
        `OSError`.
        """
        return [entry.message for entry in await self._branch(session_id)]

    async def append(self, session_id: str, message: Message) -> None:
        """Append a message. A message whose append was cancelled during writing is still written.

        Raises `SessionIdError`, `OSError`, and `ValueError` for content that JSON cannot represent.
        """
        path = self._path(session_id)
        lock = self._locks.setdefault(session_id, asyncio.Lock())
        async with lock:
            leaf = self._leaves.get(session_id)
            entry = StoredEntry(uuid4().hex[:16], leaf, self._clock(), message.model_copy(deep=True))
            writing = asyncio.ensure_future(asyncio.to_thread(self._append, path, entry, leaf is None))
            try:
                entry = await asyncio.shield(writing)
            except asyncio.CancelledError:
                # The next message follows this one, whose place is known only after writing.
                await asyncio.wait({writing})
                if writing.exception() is None:
                    self._leaves[session_id] = writing.result().id
                raise
            self._leaves[session_id] = entry.id

    async def exists(self, session_id: str) -> bool:
        """Return whether its file contains a message. Raises the errors of `load`."""
        return bool(await self.entries(session_id))

    async def list(self) -> StoredSessions:
        """Stored sessions, the last changed first, each with the branch that `load` returns.

        Files that are not the store's own or cannot be read are skipped with a warning in the log.
        """
        sessions = await asyncio.to_thread(self._list)
        return [session for _, session in sorted(sessions, key=lambda each: each[0], reverse=True)]

    async def entries(self, session_id: str) -> StoredEntries:
        """The session's entries on all branches, in the order of writing. Raises the errors of `load`."""
        return await asyncio.to_thread(read_entries, self._path(session_id))

    async def branch(self, session_id: str, leaf_id: str) -> JsonlSessionStore:
        """Return a store of the same files in which the session continues after the entry `leaf_id`.

        Later entries stay on their own branch. Raises `SessionNotFoundError`, `EntryNotFoundError`, and
        the errors of `load`.
        """
        entries = await self.entries(session_id)
        if not entries:
            raise SessionNotFoundError(f"Session not found: {session_id}")
        if all(entry.id != leaf_id for entry in entries):
            raise EntryNotFoundError(
                f"Session '{session_id}' has no entry '{leaf_id}'; entries() gives those it has"
            )
        store = JsonlSessionStore(self._folder, clock=self._clock)
        store._locks = self._locks
        store._leaves = {session_id: leaf_id}
        return store

    async def _branch(self, session_id: str) -> StoredEntries:
        return self._path_to_leaf(session_id, await self.entries(session_id))

    def _path_to_leaf(self, session_id: str, entries: StoredEntries) -> StoredEntries:
        leaf = self._leaves.get(session_id)
        if leaf is not None and all(entry.id != leaf for entry in entries):
            log.warning(
                "Session '%s' has lost its last message in %s; it continues after the last one there",
                session_id,
                self._path(session_id),
            )
            leaf = None
        return path_to(entries, leaf)

    def _path(self, session_id: str) -> Path:
        return self._folder / file_name(session_id)

    def _append(self, path: Path, entry: StoredEntry, after_last: bool) -> StoredEntry:
        if not self._folder.is_dir():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(self._folder.parent)
        return append_entry(path, entry, after_last=after_last)

    def _list(self) -> _SortedSessions:
        sessions: _SortedSessions = []
        for path in self._folder.glob(f"*{SUFFIX}"):
            session_id = unquote(path.name.removesuffix(SUFFIX))
            try:
                if file_name(session_id) != path.name:
                    raise SessionIdError("its name is not that of a session")
                entries = read_entries(path)
                modified_at = path.stat().st_mtime_ns
            except (OSError, SessionIdError) as error:
                log.warning("%s is skipped in the list: %s", path, error)
                continue
            if entries:
                messages = [entry.message for entry in self._path_to_leaf(session_id, entries)]
                updated_at = entries[-1].at
                line = StoredSession(session_id, first_text(messages), len(messages), updated_at)
                sessions.append(((updated_at, modified_at), line))
        return sessions


def file_name(session_id: str) -> str:
    """Return the name of a session's file: its id, with `%2F` for the `/` before a subagent's part.

    Raises `SessionIdError` for an id that would lead out of the folder as a path, or is too long for a
    file name.
    """
    if (problem := _problem(session_id)) is not None:
        raise SessionIdError(
            f"Session id {session_id[:80]!r} cannot name a file: {problem}; choose another id"
        )
    return quote(session_id, safe=" @+=,~") + SUFFIX


def _problem(session_id: str) -> str | None:
    for part in session_id.split("/"):
        if part in ("", ".", ".."):
            return f"'{part}' leads out of the folder" if part else "it is empty, or a part of it is"
    if any(char == "\\" or unicodedata.category(char) in ("Cc", "Cs") for char in session_id):
        return "it has a backslash, a control character or a lone surrogate in it"
    if len(quote(session_id, safe=" @+=,~")) + len(SUFFIX) > LONGEST_NAME:
        return f"it is longer than the {LONGEST_NAME} bytes of a file's name"
    return None
