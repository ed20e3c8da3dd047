"""Position up to which a stream of the record was sent, so that it continues there after a restart.

For an SQLite file it is a file beside the journal, in PostgreSQL a row of a table. The row also names the
one server that sends the stream.
"""

from __future__ import annotations

import json
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ..errors import JournalError


class SentEvent(NamedTuple):
    """The last event of a lane that was sent. Its hash is unknown if the stream began after it."""

    cursor: int
    hash: str = ""


SentEvents: TypeAlias = dict[int, SentEvent]
"""The last event of each lane that was sent."""


class StreamElsewhereError(JournalError):
    """Another server sends the stream now."""


class StreamPositions(ABC):
    """The position of one stream. Methods wait for the disk or the database, and raise `JournalError`."""

    @abstractmethod
    def claim(self) -> bool:
        """Take the stream, to send it from now on; return false if another server sends it."""

    @abstractmethod
    def read(self) -> SentEvents | None:
        """Return the position; `None` for a stream that never began."""

    @abstractmethod
    def note(self, sent: Mapping[int, SentEvent]) -> None:
        """Store the position. Raises `StreamElsewhereError` if another server sends the stream now."""

    @abstractmethod
    def let_go(self) -> None:
        """Release the stream to any server that wants it."""


class FilePositions(StreamPositions):
    """A position in a file beside the journal's, which one process writes.

    If it is lost or damaged, everything is sent again, and nothing is left out.
    """

    def __init__(self, journal: Path, stream: str) -> None:
        self._path = journal.with_name(f"{journal.name}.stream-{stream}")

    def claim(self) -> bool:
        return True

    def read(self) -> SentEvents | None:
        try:
            return read_positions(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise JournalError(f"'{self._path}' cannot be read: {error}") from error

    def note(self, sent: Mapping[int, SentEvent]) -> None:
        try:
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}-")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(positions_text(sent))
                Path(name).replace(self._path)
            except BaseException:
                with suppress(OSError):
                    Path(name).unlink()
                raise
        except OSError as error:
            raise JournalError(f"'{self._path}' cannot be written: {error.strerror}") from error

    def let_go(self) -> None:
        """Do nothing: no other server uses the file's journal."""


def positions_beside(journal: Path) -> dict[str, SentEvents]:
    """Return the positions of all streams of a journal's file, by name. Raises `JournalError`."""
    begin = f"{journal.name}.stream-"
    try:
        names = [each.name for each in journal.parent.iterdir() if each.name.startswith(begin)]
    except OSError as error:
        raise JournalError(f"'{journal.parent}' cannot be read: {error.strerror}") from error
    streams = [name.removeprefix(begin) for name in sorted(names)]
    return {stream: FilePositions(journal, stream).read() or {} for stream in streams}


def positions_text(sent: Mapping[int, SentEvent]) -> str:
    """Return a position as stored text."""
    return json.dumps({str(lane): [*each] for lane, each in sorted(sent.items())})


def read_positions(text: str) -> SentEvents:
    """Parse a stored position; a damaged one means that nothing was sent."""
    try:
        return {
            int(lane): SentEvent(int(cursor), str(digest))
            for lane, (cursor, digest) in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}
