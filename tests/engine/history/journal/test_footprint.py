"""A journal whose files are changed by others while open: detected at the next commit, permanently."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

from interlock.engine.agents import Agent, C, Message, Reply, ScriptedModel, T
from interlock.engine.history.journal import file_schema, footprint
from interlock.engine.history.journal import read_connections as connections
from interlock.engine.history.journal.file_schema import connect_readonly
from interlock.engine.history.journal.journal import Journal, JournalError
from interlock.engine.history.journal.reader import SessionNotFound
from interlock.engine.history.model.events import MessageAdded
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ...support.shop import Shop
from ..support.recording import opening

pytestmark = pytest.mark.sqlite("a file that somebody else touches")

HELLO = MessageAdded(role="user", text="hello")
BULK = MessageAdded(role="user", text="x" * 20_000)


def wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def until_noticed(path: Path, change: Callable[[Path], None]) -> None:
    """Change a file until its modification time differs, because file system clocks are coarse."""
    before = path.stat().st_mtime_ns
    while path.exists() and path.stat().st_mtime_ns == before:
        change(path)


def touch(path: Path) -> None:
    """Change only the inode's change time, as a change of owner does."""
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        path.chmod(before.st_mode)


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\xff")


def replace(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copy2(path, copy)
    copy.replace(path)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)


def restored(path: Path) -> None:
    """Overwrite pages and restore the file's times."""
    before = path.stat()
    overwrite(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def another_writer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE event SET body = replace(body, 'hello', 'hullo')")
        connection.commit()


def checkpointed(path: Path) -> Journal:
    """Return a journal of several pages that are all in its main file."""
    journal = Journal.open(path)
    journal.write("s1", opening(), BULK, BULK)
    journal.close()
    return Journal.open(path)


DISTURBANCES: dict[str, tuple[Callable[[Path], None], str]] = {
    "deleted": (lambda path: path.unlink(), "file was moved, deleted or replaced"),
    "replaced": (replace, "file was moved, deleted or replaced"),
    "cut": (lambda path: until_noticed(path, cut), "file was cut off"),
    "overwritten": (lambda path: until_noticed(path, overwrite), "file was changed by another program"),
    "set back": (restored, "file was damaged"),
    "no log": (lambda path: wal(path).unlink(), "write-ahead log was moved, deleted or replaced"),
    "log cut": (lambda path: until_noticed(wal(path), cut), "write-ahead log was cut off"),
    "written": (another_writer, "write-ahead log was changed by another program"),
}


class TestDisturbed:
    @pytest.mark.parametrize(("disturb", "says"), DISTURBANCES.values(), ids=DISTURBANCES)
    def test_disturbance_fails_all_later_commits(
        self, tmp_path: Path, disturb: Callable[[Path], None], says: str
    ) -> None:
        """The next commit and all later ones fail with the file and the kind of change."""
        journal = checkpointed(tmp_path / "journal.db")
        try:
            journal.write("s1", HELLO)
            disturb(journal.path)
            for _ in range(2):
                with pytest.raises(JournalError) as raised:
                    journal.write("s1", HELLO)
                assert says in str(raised.value)
                assert "Nothing more is recorded or allowed" in str(raised.value)
        finally:
            journal.close()

    def test_harmless_changes_are_ignored(self, tmp_path: Path) -> None:
        """A new file mode, a second link (as backups make it) and readers are no disturbance."""
        with checkpointed(tmp_path / "journal.db") as journal:
            journal.path.chmod(0o640)
            os.link(journal.path, tmp_path / "backup.db")
            assert len(list(journal.reader().events("s1"))) == 3
            journal.write("s1", HELLO)
            assert len(list(journal.reader().events("s1"))) == 4

    def test_new_sessions_cause_no_full_check(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """New sessions do not cause a full check of the file, even if root changes its times."""
        checks: list[Path] = []

        def as_root(path: Path) -> sqlite3.Connection:
            touch(wal(path))
            return connect_readonly(path)

        def check(path: Path) -> sqlite3.Connection:
            checks.append(path)
            return as_root(path)

        with checkpointed(tmp_path / "journal.db") as journal:
            for module in (file_schema, connections):
                monkeypatch.setattr(module, "connect_readonly", as_root)
            monkeypatch.setattr(footprint, "connect_readonly", check)
            for number in range(5):
                with suppress(SessionNotFound):
                    journal.reader().session(f"new {number}")
                journal.write(f"new {number}", opening())
            assert len(checks) == 1

    def test_change_during_the_check_fails_the_commit(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A change to the log while the file is being checked fails that commit."""
        log = wal(tmp_path / "journal.db")

        def connect_after_append(path: Path) -> sqlite3.Connection:
            connection = connect_readonly(path)
            append(log)
            return connection

        with checkpointed(tmp_path / "journal.db") as journal:
            journal.write("s1", HELLO)
            monkeypatch.setattr(footprint, "connect_readonly", connect_after_append)
            touch(log)
            with pytest.raises(JournalError, match="write-ahead log was changed"):
                journal.write("s1", HELLO)


class TestHub:
    @pytest.mark.parametrize("how", ["deleted", "replaced", "cut", "overwritten"])
    async def test_no_call_runs_after_a_disturbance(self, tmp_path: Path, how: str) -> None:
        """After the journal is disturbed, even a call that no rule blocks does not run."""
        disturb, _ = DISTURBANCES[how]
        hub = Hub(checkpointed(tmp_path / "journal.db"))
        shop = Shop()

        def reply(messages: Sequence[Message]) -> Reply:
            if len(messages) > 1:
                return T("done")
            disturb(tmp_path / "journal.db")
            return C(deploy={})

        agent = Agent(ScriptedModel(reply), name="bot", tools=shop.tools())
        session = await hub.open_session(agent, SessionConfig(compile_rules("block rm").registry))
        try:
            await hub.send(session, "go", by="maria")
            with suppress(JournalError):
                await hub.wait(session)
            assert shop.ran == []
        finally:
            with suppress(JournalError):
                await hub.close()
