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


class WriteLock:
    """An advisory lock on `<database>.lock`, which names its holder. Make one with `acquire`.

    The lock belongs to the open file, so a crash releases it, and a second journal in the same process is
    refused as well.
    """

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    @classmethod
    def acquire(cls, database: Path) -> WriteLock:
        """Take the lock. Raises `JournalError` naming the process that has it."""
        shown = name_of(database)
        path = database.with_name(f"{database.name}.lock")
        try:
            handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JournalError(
                f"Cannot write journal '{shown}': no lock file '{name_of(path)}': {error.strerror}. "
                "Check the permissions of its directory, or choose another file."
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = visible(os.read(handle, 200).decode("utf-8", "replace").strip())
            os.close(handle)
            raise JournalError(
                f"Journal '{shown}' is in use by {holder or 'another process'}. Stop that "
                "process, choose another file, or use interlock console --connect URL, or --read-only."
            ) from error
        except OSError as error:
            os.close(handle)
            raise JournalError(
                f"Cannot lock journal '{shown}': {error.strerror}. Choose a file on a local disk."
            ) from error
        with suppress(OSError):  # on a full disk the lock holds, only unnamed
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} ({_command()})\n".encode(), 0)
        return cls(handle)

    def release(self) -> None:
        """Give the lock up; twice does nothing."""
        if self._handle is not None:
            with suppress(OSError):
                os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None


def _command() -> str:
    return Path(sys.argv[0] if sys.argv and sys.argv[0] else sys.executable).name
