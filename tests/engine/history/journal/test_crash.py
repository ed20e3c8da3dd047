"""A killed writer: all acknowledged events are kept, and the journal is intact."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.journal.session_index import SessionLine
from interlock.engine.history.model.events import MessageAdded

pytestmark = pytest.mark.sqlite("a process on a file that is killed")

WRITER = """
import asyncio, sys
from pathlib import Path
from interlock.engine.history.model.events import MessageAdded, SessionOpened
from interlock.engine.history.journal.journal import Journal

async def caller(journal, name):
    for n in range(100_000):
        text = f"{name} {n}"
        await journal.append("s1", MessageAdded(role="user", text=text))
        print(text, flush=True)

async def main():
    journal = Journal.open(Path(sys.argv[1]))
    await journal.append("s1", SessionOpened(agent="a", model="m", mode="enforce"))
    await asyncio.gather(*(caller(journal, name) for name in range(8)))

asyncio.run(main())
"""


@pytest.fixture
def killed(tmp_path: Path) -> tuple[Path, list[str]]:
    """A journal whose writer was killed, and the events that it had acknowledged."""
    path = tmp_path / "journal.db"
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    acknowledged = [child.stdout.readline() for _ in range(300)]
    os.kill(child.pid, signal.SIGKILL)
    acknowledged += child.stdout.readlines()
    child.wait()
    child.stdout.close()
    return path, [line.strip() for line in acknowledged if line.endswith("\n")]


class TestKilledWriter:
    def test_keeps_every_acknowledged_event(self, killed: tuple[Path, list[str]]) -> None:
        """No acknowledged event is missing, and the numbers have no gap."""
        path, acknowledged = killed
        events = list(open_reader(path).events("s1"))
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
        assert set(acknowledged) <= {e.body.text for e in events if isinstance(e.body, MessageAdded)}
        assert len(acknowledged) >= 300

    @pytest.mark.slow
    def test_leaves_a_file_that_can_be_written(self, killed: tuple[Path, list[str]]) -> None:
        """The lock ends with its process; the file is intact and its list agrees with its events."""
        path, _ = killed
        with Journal.open(path) as journal:
            last = journal.reader().session("s1").events
            [event] = journal.write("s1", MessageAdded(role="user", text="again"))
            assert event.seq == last + 1
            assert (
                journal.reader().session("s1") == SessionLine.of(journal.reader().events("s1")).summary()
            )
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
