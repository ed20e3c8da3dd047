"""The part of a journal that commits: to a file, or to a database that several servers write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from ..database.connection import Connection
from ..errors import JournalError
from .rows import Written


class Refusal(NamedTuple):
    """Events of a session that were not taken: those from the number `seq` on."""

    error: JournalError
    seq: int


class SessionOwner(NamedTuple):
    """A server that owns a session, and the URL on which it is reached if it has one."""

    id: str
    name: str
    url: str | None


class BatchWriter(ABC):
    """Commits batches, one after the other. `commit`, `prove`, `release`, `returned` and `close` are one
    thread's.

    What has to do with other servers means nothing for a file, which has one process that writes it.
    """

    fenced = 0
    """Number of writes that were refused since another server owned the session."""

    @property
    def away(self) -> str | None:
        """The last error of the database, as long as it does not answer."""
        return None

    @abstractmethod
    def last_cursor(self, connection: Connection) -> int:
        """The cursor of the latest event of this writer, read on another connection."""

    @abstractmethod
    def commit(self, batch: Sequence[Written]) -> Mapping[str, Refusal]:
        """Write a batch; returns once it is durable, with what was not taken of which sessions.

        What it raises means that nothing of the batch is known to be written.
        """

    @abstractmethod
    def prove(self) -> None:
        """Make something durable that is no event and takes no room. Raises what a commit raises."""

    @abstractmethod
    def close(self) -> None: ...

    def looking(self) -> AbstractContextManager[Connection] | None:
        """A connection for short questions of who hands over; `None`: any will do.

        Only one at a time. Raises `JournalError`, soon, where the database does not answer.
        """
        return None

    def returned(self) -> bool:
        """Ask a database that was away whether it answers again."""
        return True

    def hurry(self) -> None:  # noqa: B027 - a file does not keep anybody waiting
        """Give up soon what the database does not take; any thread may ask for it."""

    def orphans(self, limit: int) -> list[str] | None:
        """Sessions, taken by this, that did not end and whose servers did; `None` without servers."""
        return None

    @property
    def newer_sessions(self) -> Mapping[str, str]:
        """Sessions that `orphans` last left to a server of a newer version, with the reason for each."""
        return {}

    def is_diverged(self, session: str) -> bool:
        """Tell whether the database lost what it had acknowledged of a session."""
        return False

    def owner(self, session: str) -> SessionOwner | None:
        """The living server that owns a session."""
        return None

    def release(self, session: str) -> None:  # noqa: B027 - see the class
        """Leave a session to whichever server wants it."""
