"""One writing process per journal: a lock that ends with the process that holds it."""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import suppress
from pathlib import Path

from ...core.sanitize import visible
from ..errors import JournalError
from .schema import name_of

HOLDER = 1000
"""Bytes of a lock's file that are read."""


class WriteLock:
    """An advisory lock on `<database>.lock`, which names its holder. Create it with `acquire`.

    The file's second line is the URL of the server that holds the lock, if a server does.

    The lock belongs to the open file, so a crash releases it, and a second journal in the same process is
    rejected as well.
    """

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    @classmethod
    def acquire(cls, database: Path, *, maintenance: bool = False) -> WriteLock:
        """Acquire the lock. Raises `JournalError` naming the process that holds it.

        For `maintenance` the error says to stop that process; otherwise it says how to work with its
        journal.
        """
        name = name_of(database)
        path = database.with_name(f"{database.name}.lock")
        try:
            handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JournalError(
                f"Cannot write journal '{name}': no lock file '{name_of(path)}': {error.strerror}. "
                "Check the permissions of its directory, or choose another file."
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder, _, url = os.read(handle, HOLDER).decode("utf-8", "replace").strip().partition("\n")
            os.close(handle)
            way = "Stop that process, or choose another file." if maintenance else _ways(url)
            raise JournalError(
                f"Journal '{name}' is in use by {visible(holder) or 'another process'}"
                f"{f', a server on {visible(url)}' if url else ''}. {way}"
            ) from error
        except OSError as error:
            os.close(handle)
            raise JournalError(
                f"Cannot lock journal '{name}': {error.strerror}. Choose a file on a local disk."
            ) from error
        with suppress(OSError):  # on a full disk the lock is valid, only without a name
            os.ftruncate(handle, 0)
            os.pwrite(handle, _holder().encode(), 0)
        return cls(handle)

    def name_server(self, url: str) -> None:
        """Record the URL of the server that holds the lock, for processes that find it taken."""
        if self._handle is not None:
            with suppress(OSError):
                os.pwrite(self._handle, f"{_holder()}{url}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._handle is not None:
            with suppress(OSError):
                os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None


def is_written(database: Path) -> bool:
    """Return whether a process has the journal open for writing; true if that cannot be determined."""
    try:
        handle = os.open(database.with_name(f"{database.name}.lock"), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(handle)


def _ways(url: str) -> str:
    """Return ways to work with a journal that another process has open."""
    if url:
        advice = f"Work there with `interlock console --connect {visible(url)}`, or only look"
    else:
        advice = "Look at it"
    return f"{advice} with `interlock console --read-only`; or choose another file with --db."


def _holder() -> str:
    return f"process {os.getpid()} ({_command()})\n"


def _command() -> str:
    return Path(sys.argv[0] if sys.argv and sys.argv[0] else sys.executable).name
