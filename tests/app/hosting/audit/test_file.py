"""Streams to files have complete lines, even if the file is renamed or the process dies."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from interlock.app.hosting.audit.file import FileTarget
from interlock.app.hosting.audit.target import TargetError
from interlock.engine.history.audit.stream import LineFormat
from interlock.engine.history.audit.stream_check import StreamCheck, check_stream
from tests.engine.history.audit.test_stream import drained, stream
from tests.engine.history.support.keeping import MASK, NOW, recorded_at
from tests.support.command import command

from .receivers import sending, until

pytestmark = pytest.mark.sqlite("positions are kept beside a file")

LIFE = """
import asyncio, sys
from pathlib import Path
from tests.app.hosting.audit.receivers import sending
from interlock.app.hosting.audit.file import FileTarget

async def life():
    async with sending(Path(sys.argv[1]), FileTarget(Path(sys.argv[2]))):
        print("sending", flush=True)
        await asyncio.sleep(60)

asyncio.run(life())
"""


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "j.db"
    recorded_at(path, NOW, "s1")
    return path


def check(*files: Path) -> StreamCheck:
    return check_stream((each.name, each.read_bytes().splitlines(keepends=True)) for each in files)


def open_handles(file: Path) -> list[str]:
    """The open handles of this process for a file."""
    found = Path("/proc/self/fd")
    return [each for each in os.listdir(found) if os.path.realpath(found / each) == str(file)]


async def send_events(journal: Path, file: Path, events: int) -> None:
    """Send events until the file has so many lines."""
    async with sending(journal, FileTarget(file)):
        await until(lambda: file.exists() and len(file.read_bytes().splitlines()) >= events)


class TestFile:
    async def test_new_file_is_private(self, journal: Path, tmp_path: Path) -> None:
        """A new file is readable only by its owner and has one line for each event."""
        file = tmp_path / "a.jsonl"
        await send_events(journal, file, 10)
        assert file.stat().st_mode & 0o777 == 0o600
        assert (check(file).lines, check(file).faults) == (10, ())

    async def test_restart_appends_to_the_file(self, journal: Path, tmp_path: Path) -> None:
        """A second process appends to the file and keeps its changed mode."""
        file = tmp_path / "a.jsonl"
        await send_events(journal, file, 10)
        file.chmod(0o640)
        recorded_at(journal, NOW, "s2")
        await send_events(journal, file, 20)
        found = check(file)
        assert (found.lines, found.repeated, found.faults) == (20, 0, ())
        assert file.stat().st_mode & 0o777 == 0o640

    @pytest.mark.parametrize("gone", [False, True])
    async def test_rotated_file_is_replaced(self, journal: Path, tmp_path: Path, gone: bool) -> None:
        """After a rotation, new lines go to a new file without any signal."""
        file, old = tmp_path / "a.jsonl", tmp_path / "a.jsonl.1"
        async with sending(journal, FileTarget(file)) as sent:
            await until(lambda: sent.stream.state.sent == 10)
            file.rename(old)
            if gone:
                old.unlink()
            recorded_at(journal, NOW, "s2")
            await until(lambda: sent.stream.state.sent == 20)
        found = check(file) if gone else check(old, file)
        assert (found.lines, found.faults) == (10 if gone else 20, ())

    async def test_failed_write_is_repeated_whole(
        self, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A failed partial write leaves no partial line and is repeated."""
        file, write, failed = tmp_path / "a.jsonl", os.write, [0]

        def writing(handle: int, data: bytes) -> int:
            if len(data) < 300 or failed[0] > 2 or not data.startswith(b'{"after"'):
                return write(handle, data)
            failed[0] += 1
            write(handle, data[:300])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "write", writing)
        async with sending(journal, FileTarget(file)) as sent:
            await until(lambda: sent.stream.state.sent == 10)
        assert failed == [3]
        assert "No space left" in sent.heard[0]
        found = check(file)
        assert (found.lines, found.repeated, found.faults) == (10, 0, ())


class TestTornLines:
    @pytest.mark.parametrize("cut", [1, 7, 200])
    async def test_incomplete_last_line_is_sent_again(
        self, journal: Path, tmp_path: Path, cut: int
    ) -> None:
        """An incomplete last line is removed at the start, and its event is sent again."""
        file = tmp_path / "a.jsonl"
        await send_events(journal, file, 10)
        data = file.read_bytes()
        file.write_bytes(data + data[:cut])
        recorded_at(journal, NOW, "s2")
        await send_events(journal, file, 20)
        assert (check(file).lines, check(file).faults) == (20, ())

    async def test_incomplete_only_line_is_removed(self, journal: Path, tmp_path: Path) -> None:
        """An incomplete line that is the only one is removed, too."""
        file = tmp_path / "a.jsonl"
        file.write_bytes(b'{"after":0,"at":"2026')
        await send_events(journal, file, 10)
        assert (check(file).lines, check(file).faults) == (10, ())

    async def test_zeros_after_a_power_failure_are_removed(self, journal: Path, tmp_path: Path) -> None:
        """Zeros after a power failure are removed, too."""
        file = tmp_path / "a.jsonl"
        await send_events(journal, file, 10)
        data = file.read_bytes()
        file.write_bytes(data + data[:40] + b"\0" * 100_000)
        recorded_at(journal, NOW, "s2")
        await send_events(journal, file, 20)
        assert (check(file).lines, check(file).faults) == (20, ())

    @pytest.mark.slow
    def test_repeated_kills_lose_no_event(self, journal: Path, tmp_path: Path) -> None:
        """However often the process is killed, no event is missing, and repeated ones are recognised."""
        file = tmp_path / "a.jsonl"
        for life in range(4):
            recorded_at(journal, NOW, f"t{life}")
            process = subprocess.Popen(
                [sys.executable, "-c", LIFE, journal, file], stdout=subprocess.PIPE
            )
            assert process.stdout is not None
            assert process.stdout.readline() == b"sending\n"
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            process.stdout.close()
            if file.exists():  # torn, as after a crash of the machine
                file.write_bytes(file.read_bytes()[: -1 - life * 40])
                journal.with_name("j.db.stream-s").unlink(missing_ok=True)

        async def rest() -> None:
            async with sending(journal, FileTarget(file)) as sent:
                await until(lambda: sent.stream.state.backlog.oldest is None and sent.stream.state.sent)

        asyncio.run(rest())
        found = check(file)
        assert (found.lines - found.repeated, found.sessions, found.faults) == (50, 5, ())


class TestRefusals:
    def test_foreign_file_is_rejected(self, tmp_path: Path) -> None:
        """A file with other lines is rejected and not changed."""
        file = tmp_path / "notes.txt"
        for text in ("my notes", "my notes\n", '{"other": 1}\n'):
            file.write_text(text)
            with pytest.raises(TargetError, match="lines that no stream wrote; name a separate file"):
                FileTarget(file).check()
            assert file.read_text() == text

    def test_irregular_file_is_rejected(self, tmp_path: Path) -> None:
        """A directory, a pipe, a link and a missing directory are rejected."""
        (tmp_path / "d").mkdir()
        os.mkfifo(tmp_path / "p")
        (tmp_path / "l").symlink_to(tmp_path / "target")
        for name in ("d", "p", "l", "none/a.jsonl"):
            with pytest.raises(TargetError, match=name):
                FileTarget(tmp_path / name).check()
        assert not (tmp_path / "target").exists()

    async def test_slow_write_keeps_the_file_open(
        self, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A file of an ended stream stays open until its last write has reached the disk."""
        file, begun, done = tmp_path / "a.jsonl", threading.Event(), threading.Event()
        sync = os.fsync

        def slow(handle: int) -> None:
            if stat.S_ISREG(os.fstat(handle).st_mode) and os.fstat(handle).st_size:
                begun.set()
                assert done.wait(60)
            sync(handle)

        target = FileTarget(file)
        target.check()
        [handle] = open_handles(file)
        monkeypatch.setattr(os, "fsync", slow)
        [line] = drained(stream(journal))[:1]
        sending = asyncio.ensure_future(target.send([LineFormat("events", MASK).line(line)]))
        await asyncio.to_thread(begun.wait, 60)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await target.close()
        assert open_handles(file) == [handle]
        done.set()
        await until(lambda: not open_handles(file))

    async def test_file_of_another_stream_is_rejected(self, tmp_path: Path) -> None:
        """Two streams cannot share a file, because one could remove the other's unfinished line."""
        first = FileTarget(tmp_path / "a.jsonl")
        first.check()
        with pytest.raises(TargetError, match="another process; name a file for each"):
            FileTarget(tmp_path / "a.jsonl").check()
        await first.close()
        second = FileTarget(tmp_path / "a.jsonl")
        second.check()
        await second.close()

    def test_command_does_not_start_without_write_access(self, tmp_path: Path) -> None:
        """A command does not start if it cannot write the file; the error names it."""
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "interlock.toml").write_text('[audit]\nstream = "file:none/a.jsonl"\n')
        env = {"INTERLOCK_CONFIG_DIR": str(tmp_path / "config"), "HOME": str(tmp_path)}
        line = ("demo", "--headless", "--answer", "approve", "--db", "j.db")
        done = command(tmp_path, *line, env=env)
        assert done.returncode == 2
        assert "[audit]: stream: '" in done.stderr
        assert "No such file or directory. Check the path" in done.stderr
