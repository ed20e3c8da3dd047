"""A console that loses its terminal or gets a signal to end, on real pseudo-terminals."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import (
    ApprovalRequested,
    ApprovalWithdrawn,
    JournalEvent,
    SessionStatus,
)

SOON = 30.0
"""Seconds in which each step ends even on a slow machine."""
RUN = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests may run under nohup, which a console respects
from interlock.app.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
OURS = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
SHOP = """
from interlock.engine.agents import Agent, C, ScriptedModel, T, ToolContext, tool


@tool
async def deploy(ctx: ToolContext) -> str:
    "Deploy."
    return "deployed"


agent = Agent(ScriptedModel([C(deploy={}), T("done")]), name="release-bot", tools=[deploy])
"""


class Terminal:
    """A console on its own pty; with `controlling` the system signals when the pty closes."""

    def __init__(self, folder: Path, *line: str, controlling: bool) -> None:
        self._master, slave = pty.openpty()
        self.painted = b""
        env = dict(os.environ) | {
            "TERM": "xterm-256color",
            "HOME": str(folder),
            "INTERLOCK_CONFIG_DIR": str(folder / "config"),
            "TMPDIR": str(folder),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", (OURS if controlling else "") + RUN, *line],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=env,
            start_new_session=True,
        )
        os.close(slave)

    def until(self, text: bytes) -> None:
        """Read the output until it contains `text`."""
        ends = time.monotonic() + SOON
        while text not in self.painted:
            left = ends - time.monotonic()
            if left <= 0 or not select.select([self._master], [], [], left)[0]:
                raise AssertionError(f"{text!r} was not painted: {self.painted[-2000:]!r}")
            self.painted += os.read(self._master, 65536)

    def close(self) -> None:
        """Close the terminal."""
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def ends(self) -> int:
        """Read the remaining output and return the exit code."""
        ends = time.monotonic() + SOON
        while self.process.poll() is None and time.monotonic() < ends:
            if self._master < 0:
                self.process.wait(SOON)
            elif select.select([self._master], [], [], 0.05)[0]:
                self.painted += self._rest()
        if self._master >= 0:
            while select.select([self._master], [], [], 0)[0] and (rest := self._rest()):
                self.painted += rest
        assert self.process.returncode is not None, "it goes on"
        return self.process.returncode

    def _rest(self) -> bytes:
        try:
            return os.read(self._master, 65536)
        except OSError:  # The other end is closed.
            return b""

    def end_by_force(self) -> None:
        self.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for each in opened:
        each.end_by_force()


@pytest.fixture
def waiting_console(
    tmp_path: Path, terminals: list[Terminal], request: pytest.FixtureRequest
) -> Terminal:
    """A console whose agent waits for an approval."""
    terminal = console_with_deploy(tmp_path, controlling=request.param)
    terminals.append(terminal)
    terminal.until(b"Approve")
    return terminal


def console_with_deploy(folder: Path, *, controlling: bool) -> Terminal:
    """A console that hosts an agent with a deploy that requires approval."""
    (folder / "shop.py").write_text(SHOP)
    (folder / "deploy.rules").write_text("require human-approval before deploy\n")
    line = ("run", "shop:agent", "--rules", "deploy.rules", "--db", "shop.db", "--as", "maria", "Ship it")
    return Terminal(folder, *line, controlling=controlling)


def recorded(tmp_path: Path) -> list[JournalEvent]:
    """Return the events of the only session and verify its chain."""
    database = tmp_path / "shop.db"
    (check,) = verify_journal(database)
    assert check.fault is None
    return open_reader(database).events(check.session)


def assert_ended(tmp_path: Path) -> None:
    """Assert that the requests are withdrawn and the session has ended, as after an operator quits."""
    bodies = [event.body for event in recorded(tmp_path)]
    asked = [body.approval_id for body in bodies if isinstance(body, ApprovalRequested)]
    assert asked
    assert [b.approval_id for b in bodies if isinstance(b, ApprovalWithdrawn)] == asked
    statuses = [body.status for body in bodies if isinstance(body, SessionStatus)]
    assert statuses[-1] != "running"


@pytest.mark.slow
class TestTerminalGone:
    @pytest.mark.parametrize("waiting_console", [True, False], indirect=True, ids=["told", "not told"])
    def test_console_ends_in_order(self, waiting_console: Terminal, tmp_path: Path) -> None:
        """After SIGHUP or the end of its input the console closes the hub and exits as after SIGHUP."""
        waiting_console.close()
        assert waiting_console.ends() == 128 + signal.SIGHUP
        assert_ended(tmp_path)

    def test_idle_console_ends_in_order(self, tmp_path: Path, terminals: list[Terminal]) -> None:
        """A console that only waits for keys exits as well."""
        for line in (("console", "--db", "j.db"), ("console", "--read-only", "--db", "j.db")):
            terminal = Terminal(tmp_path, *line, controlling=False)
            terminals.append(terminal)
            terminal.until(b"0 waiting")
            terminal.close()
            assert terminal.ends() == 128 + signal.SIGHUP


@pytest.mark.slow
class TestSignals:
    @pytest.mark.parametrize("waiting_console", [True], indirect=True)
    @pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
    def test_console_ends_in_order(
        self, waiting_console: Terminal, tmp_path: Path, number: signal.Signals
    ) -> None:
        """The console ends the agent, keeps the journal intact and restores the terminal."""
        waiting_console.process.send_signal(number)
        assert waiting_console.ends() == 128 + number
        assert_ended(tmp_path)
        assert b"\x1b[?1049l" in waiting_console.painted
        assert b"Traceback" not in waiting_console.painted

    def test_replay_ends_in_order(self, tmp_path: Path, terminals: list[Terminal]) -> None:
        """A replay, which hosts no agent, exits with the same code."""
        host = console_with_deploy(tmp_path, controlling=True)
        terminals.append(host)
        host.until(b"Approve")
        host.process.send_signal(signal.SIGTERM)
        host.ends()
        (session,) = {event.session for event in recorded(tmp_path)}
        replay = Terminal(tmp_path, "replay", session, "--db", "shop.db", controlling=True)
        terminals.append(replay)
        replay.until(b"event")
        replay.process.send_signal(signal.SIGTERM)
        assert replay.ends() == 128 + signal.SIGTERM
        assert b"Traceback" not in replay.painted
