"""The part of a journal that commits: to a file, or to a database that several servers write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

from ..database.connection import Connection
from ..errors import JournalError
from .rows import Written

if TYPE_CHECKING:
    from ..postgres.divergence import Divergence


class Refusal(NamedTuple):
    """Events of a session that were not written: those from the number `seq` on."""

    error: JournalError
    seq: int


class SessionOwner(NamedTuple):
    """A server that owns a session, and the URL at which it is reached if it has one."""

    id: str
    name: str
    url: str | None


class Silence(NamedTuple):
    """A database that does not answer: for how many seconds, and the last error."""

    seconds: float
    reason: str


class BatchWriter(ABC):
    """Commits batches, one after the other.

    Only one thread calls `commit`, `prove`, `release`, `returned` and `close`. The defaults of methods
    about other servers are for a file, which only one process writes.
    """

    fenced = 0
    """Number of writes that were rejected because another server owned the session."""

    @property
    def away(self) -> str | None:
        """The last error of the database, while it does not answer; else `None`."""
        return None

    @property
    def silence(self) -> Silence | None:
        """The silence of the database, once it is long enough to be shown; any thread may ask."""
        return None

    @property
    def is_held(self) -> bool:
        """False while other servers may have taken over, so that nothing recorded may be acted on."""
        return True

    @abstractmethod
    def last_cursor(self, connection: Connection) -> int:
        """Return the cursor of the latest event of this writer, read on another connection."""

    @abstractmethod
    def commit(self, batch: Sequence[Written]) -> Mapping[str, Refusal]:
        """Write a batch; return, once it is durable, which events of which sessions were rejected.

        An exception means that nothing of the batch is known to be written.
        """

    @abstractmethod
    def prove(self) -> None:
        """Make a durable change that is not an event and takes no space. Raises as `commit` does."""

    @abstractmethod
    def close(self) -> None: ...

    def looking(self) -> AbstractContextManager[Connection] | None:
        """A connection for short queries of the thread that hands events over; `None`: any will do.

        Only one may be used at a time. Raises `JournalError`, soon, if the database does not answer.
        """
        return None

    def returned(self) -> bool:
        """Return whether a database that was unavailable answers again."""
        return True

    def hurry(self) -> None:  # noqa: B027 - a file does not keep anybody waiting
        """Give up soon on writes that the database does not accept; any thread may call this."""

    def orphans(self, limit: int) -> list[str] | None:
        """Take unfinished sessions whose servers ended and return their ids; `None` without servers."""
        return None

    @property
    def newer_sessions(self) -> Mapping[str, str]:
        """Sessions that `orphans` last left to a server of a newer version, with the reason for each."""
        return {}

    @property
    def diverged_sessions(self) -> Mapping[str, Divergence]:
        """Sessions that lost acknowledged events, where no operator has accepted the loss."""
        return {}

    def take_stopped(self) -> Mapping[str, Divergence]:
        """Return this writer's sessions that were found to have diverged since the last call."""
        return {}

    def divergence(self, session: str) -> Divergence | None:
        """Return a session's divergence, also one that this writer did not notice; `None` without one."""
        return None

    def note_followed(self, session: str, seq: int, *, is_over: bool) -> None:  # noqa: B027
        """Note the newest event number of another server's session: the database must not lose it."""

    def settle(self) -> None:  # noqa: B027 - see the class
        """Record what the database lost, before others take over the sessions. Raises `JournalError`."""

    def owner(self, session: str) -> SessionOwner | None:
        """Return the living server that owns a session."""
        return None

    def release(self, session: str) -> None:  # noqa: B027 - see the class
        """Release a session to any server that wants it."""
