"""Conversations kept as files, one a session, which people can read, search and copy."""

from __future__ import annotations

import asyncio
import logging
import unicodedata
from datetime import datetime
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import quote, unquote
from uuid import uuid4
from weakref import WeakValueDictionary

from ..clock import Clock, utc_now
from .errors import EntryNotFoundError, SessionIdError, SessionNotFoundError
from .jsonl import StoredEntry, append_entry, path_to, read_entries, sync_folder
from .messages import Message
from .store import Messages, StoredSession, StoredSessions, first_text

T = TypeVar("T")

log = logging.getLogger(__name__)

SUFFIX = ".jsonl"
LONGEST_NAME = 255
"""Bytes of a file's name that every usual file system takes."""

StoredEntries: TypeAlias = list[StoredEntry]

_Found: TypeAlias = list[tuple[tuple[datetime, int], StoredSession]]
"""Stored sessions, each after what to sort it by."""


class JsonlSessionStore:
    """Keeps each session in a file of `folder`, which only its owner may read.

    A message is durable when `append` returns. Messages of a session are written one at a time, in the
    order they were given, also by several processes. `clock` gives an aware datetime.

    A store goes on where it wrote last, or else after the last message in the file. `branch` gives one
    that goes on elsewhere: both go their own way in the same file.
    """

    def __init__(self, folder: Path | str, *, clock: Clock = utc_now) -> None:
        self._folder = Path(folder)
        self._clock = clock
        self._leaves: dict[str, str] = {}
        # One that nobody waits for belongs to no event loop any more.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def load(self, session_id: str) -> Messages:
        """The branch it goes on with, oldest message first; none for an unknown id (A-9).

        What is no entry is left out, with a warning in the log. Raises `SessionIdError` and `OSError`.
        """
        return [entry.message for entry in await self._branch(session_id)]

    async def append(self, session_id: str, message: Message) -> None:
        """Add a message. One that was cancelled amid writing is written all the same.

        Raises `SessionIdError`, `OSError`, and `ValueError` for what JSON cannot hold.
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
                # The next message follows this one: its place is known when it is written.
                await asyncio.wait({writing})
                if writing.exception() is None:
                    self._leaves[session_id] = writing.result().id
                raise
            self._leaves[session_id] = entry.id

    async def exists(self, session_id: str) -> bool:
        """Whether its file holds a message. Raises as `load`."""
        return bool(await self.entries(session_id))

    async def list(self) -> StoredSessions:
        """What is kept, the latest changed first; of each session the branch that `load` gives.

        Files that are none of its own or cannot be read are left out, with a warning in the log.
        """
        found = await asyncio.to_thread(self._list)
        return [stored for _, stored in sorted(found, key=lambda each: each[0], reverse=True)]

    async def entries(self, session_id: str) -> StoredEntries:
        """The session's entries on all branches, in the order they were written. Raises as `load`."""
        return await asyncio.to_thread(read_entries, self._path(session_id))

    async def branch(self, session_id: str, leaf_id: str) -> JsonlSessionStore:
        """A store of the same files for which the session goes on after the entry `leaf_id`.

        What followed stays, on a branch of its own. Raises `SessionNotFoundError`,
        `EntryNotFoundError`, and as `load`.
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
        return self._own(session_id, await self.entries(session_id))

    def _own(self, session_id: str, entries: StoredEntries) -> StoredEntries:
        leaf = self._leaves.get(session_id)
        if leaf is not None and all(entry.id != leaf for entry in entries):
            log.warning(
                "Session '%s' has lost its last message in %s; it goes on after the last one there",
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

    def _list(self) -> _Found:
        found: _Found = []
        for path in self._folder.glob(f"*{SUFFIX}"):
            session_id = unquote(path.name.removesuffix(SUFFIX))
            try:
                if file_name(session_id) != path.name:
                    raise SessionIdError("its name is no session's")
                entries = read_entries(path)
                changed = path.stat().st_mtime_ns
            except (OSError, SessionIdError) as error:
                log.warning("%s is left out of the list: %s", path, error)
                continue
            if entries:
                messages = [entry.message for entry in self._own(session_id, entries)]
                updated = entries[-1].at
                line = StoredSession(session_id, first_text(messages), len(messages), updated)
                found.append(((updated, changed), line))
        return found


def file_name(session_id: str) -> str:
    """The name of a session's file: its id, with `%2F` for the `/` before a subagent's part.

    Raises `SessionIdError` for an id that as a path would lead elsewhere, or that no file's name holds.
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
        return "it has a backslash, a control character or half a character in it"
    if len(quote(session_id, safe=" @+=,~")) + len(SUFFIX) > LONGEST_NAME:
        return f"it is longer than the {LONGEST_NAME} bytes of a file's name"
    return None
