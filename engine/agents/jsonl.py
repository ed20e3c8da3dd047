"""A conversation as a file of JSON lines: one entry a line, each naming the one it follows.

Entries that follow the same one are branches, so nothing is ever rewritten. A line that cannot be read
is left out and said so in the log; what followed it then follows the entry before it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, Field, JsonValue, ValidationError

from .messages import Message

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A stored message and its place: the entry it follows, `None` at a beginning. `at` is aware."""

    id: str
    parent_id: str | None
    at: datetime
    message: Message


class _Line(BaseModel):
    """An entry as it is written."""

    id: str = Field(min_length=1)
    parent_id: str | None = Field(alias="parentId")
    timestamp: AwareDatetime
    message: Message


def read_entries(path: Path) -> list[StoredEntry]:
    """Every entry that can be read, in the order they were written; none without a file.

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
    """Write an entry, which is returned; it is durable then. With `after_last` it follows the last one.

    Only its owner may read a file made here. What a crash left of a line stays a line of its own, and
    what this process could not write in full is taken back. Raises `OSError`, and `ValueError` for what
    JSON or UTF-8 cannot hold.
    """
    made = not path.exists()
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        size = os.fstat(handle).st_size
        if after_last:
            with open(os.dup(handle), "rb") as file:
                file.seek(0)
                written = _entries(file.read(), path)
            entry = StoredEntry(entry.id, written[-1].id if written else None, entry.at, entry.message)
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        line = _encoded(entry)
        try:
            _write(handle, b"\n" + line if torn else line)
            os.fsync(handle)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, size)
            raise
    finally:
        os.close(handle)
    if made:
        sync_folder(path.parent)
    return entry


def sync_folder(folder: Path) -> None:
    """Make durable which files a folder has."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def path_to(entries: Sequence[StoredEntry], leaf_id: str | None = None) -> list[StoredEntry]:
    """The entries from the beginning to `leaf_id`, by default to the last one written.

    Raises `KeyError` for an unknown one.
    """
    known = {entry.id: entry for entry in entries}
    at = known[leaf_id] if leaf_id is not None else entries[-1] if entries else None
    path: list[StoredEntry] = []
    while at is not None:
        path.append(at)
        at = None if at.parent_id is None else known[at.parent_id]
    return path[::-1]


def _entries(content: bytes, path: Path) -> list[StoredEntry]:
    entries: list[StoredEntry] = []
    known: set[str] = set()
    for number, line in _lines(content):
        try:
            read = _Line.model_validate(json.loads(line))
        except (ValueError, RecursionError) as error:
            log.warning("%s:%d is left out, it is no entry: %s", path, number, _why(error))
            continue
        if read.id in known:
            log.warning("%s:%d is left out, an earlier entry has its id %r", path, number, read.id)
            continue
        parent = read.parent_id
        if parent is not None and parent not in known:
            log.warning(
                "%s:%d follows %r, which cannot be read; it is taken to follow the entry before it",
                path,
                number,
                parent,
            )
            parent = entries[-1].id if entries else None
        known.add(read.id)
        entries.append(StoredEntry(read.id, parent, read.timestamp, read.message))
    return entries


def _lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines with something in them, numbered from 1."""
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            yield number, line


def _why(error: ValueError | RecursionError) -> str:
    """What is wrong with a line, without quoting it: it may hold what nobody should read in a log."""
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
