"""Copy of a journal's file and its logs, made while it may be written and verified before it is kept."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ...core.sanitize import visible
from ..database.location import Location, absolute
from ..errors import JournalError
from ..journal.file_schema import connect_readonly
from ..journal.schema import name_of
from ..logs.line_log import LOGS
from .verify import check_file, require_journal, verify_journal

_DATABASE = (
    "'{}' is a database, which has backups of its own: pg_dump, or interlock journal copy into a file "
    "while its servers are stopped"
)


_REMAINS = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Backup:
    """Content of a backup; all of its chains were verified."""

    sessions: int
    events: int


def back_up(journal: Location, target: Path) -> Backup:
    """Copy the file `journal`, as it is at one moment, to `target`, and its logs beside it.

    Its writer may continue during the copy. Either everything is copied or nothing. Raises `JournalError`
    for a database, for a target that exists, and for a copy that fails verification.
    """
    source = absolute(journal)
    if not isinstance(source, Path):
        raise JournalError(_DATABASE.format(source))
    require_journal(source)
    source, target = source.resolve(), target.expanduser().absolute()
    logs = [f"{target.name}.{log}" for log in LOGS]
    # When the backup is opened, SQLite would apply the write-ahead log of an older file with that name to
    # it.
    remains = [f"{target.name}{each}" for each in _REMAINS]
    for name in (target.name, *logs, *remains):
        if os.path.lexists(target.with_name(name)):
            raise JournalError(f"'{name_of(target.with_name(name))}' exists already; name another file.")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
            copy = Path(folder) / target.name
            _copy(source, copy)
            backup = _verify_copy(source, copy)
            for path in sorted(Path(folder).iterdir(), key=lambda each: each == copy):
                _sync(path)
                # A file that appeared in the meantime is kept: a hard link does not overwrite it.
                os.link(path, target.with_name(path.name))
        _sync(target.parent)
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise JournalError(
            f"'{name_of(target)}' could not be written: {visible(reason)}. "
            "Check the directory, its permissions and the free space."
        ) from error
    return backup


def _copy(source: Path, copy: Path) -> None:
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(connect_readonly(source)) as reading, closing(sqlite3.connect(copy)) as writing:
        # In one step: with several, SQLite restarts the copy at each commit of the writer.
        reading.backup(writing, pages=-1)
        writing.execute("PRAGMA journal_mode = DELETE").fetchone()
    for log in LOGS:
        log_file = source.with_name(f"{source.name}.{log}")
        if log_file.exists():
            shutil.copyfile(log_file, copy.with_name(f"{copy.name}.{log}"))
            copy.with_name(f"{copy.name}.{log}").chmod(0o600)


def _verify_copy(source: Path, copy: Path) -> Backup:
    """Verify a copy. Raises `JournalError` if one of its chains has a fault or events are missing."""
    checks = list(verify_journal(copy))
    for check in checks:
        if check.fault is not None:
            raise JournalError(
                f"Session '{visible(check.session)}' is not intact: {visible(check.fault.message)}. No "
                f"backup was made; see: interlock history --db {name_of(source)} verify"
            )
    if missing_count := check_file(copy).missing:
        raise JournalError(
            f"The journal lacks {missing_count} of the events that it numbered. No backup was made; see: "
            f"interlock history --db {name_of(source)} verify"
        )
    return Backup(len(checks), sum(check.events for check in checks))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
