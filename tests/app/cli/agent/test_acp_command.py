"""`interlock acp`: a real agent of the Agent Client Protocol, run by the command and in the console."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from interlock.app.console.app import InterlockConsole
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.common.confirm import Confirm
from interlock.app.screens.common.guarded_keys import ASLEEP
from interlock.engine.gateway.acp.agent import AcpAgent
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import CallDecided, SessionOpened, SessionStatus
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules
from tests.engine.gateway.acp.acp_world import AGENT as SCRIPT
from tests.engine.gateway.acp.acp_world import agents_python
from tests.support.command import command

from ...support.real_console import RealConsole

AGENT = (sys.executable, str(SCRIPT))
RULES = "require human-approval before fetch\nblock delete\n"
ASK = ["ask", {"toolCallId": "c1", "kind": "fetch", "title": "a page", "rawInput": {"url": "x"}}]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with rules that require an approval before a page is fetched."""
    (tmp_path / "my.rules").write_text(RULES)
    return tmp_path


def acp(here: Path, *line: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(here)}
    return command(here, "acp", "--db", "acp.db", "--as", "mia", *line, env=environ)


def headless(here: Path, *steps: object, more: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    task = json.dumps(steps)
    agent = (*agents_python(), str(SCRIPT))
    line = ("--headless", "--rules", "my.rules", "--task", task, *more, "--", *agent)
    return acp(here, *line)


def recorded(here: Path, kind: type) -> list:
    reader = open_reader(here / "acp.db")
    [summary] = reader.sessions()
    return [e.body for e in reader.events(summary.id) if isinstance(e.body, kind)]


def recorded_values(here: Path, what: str) -> list[object]:
    file = here / "done.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [value for name, value in map(json.loads, lines) if name == what]


class TestHeadless:
    @pytest.mark.slow
    @pytest.mark.parametrize(("answer", "chosen"), [("approve", "yes"), ("deny", "no")])
    def test_answer_option_decides_requests(self, here: Path, answer: str, chosen: str) -> None:
        """`--answer` answers a request, and the record names agent, operator and tool."""
        ran = headless(here, ["say", "looking"], ASK, more=("--answer", answer))
        assert ran.returncode == 0, ran.stderr
        assert recorded_values(here, "chosen") == [chosen]
        [opened] = recorded(here, SessionOpened)
        assert (opened.agent, opened.opened_by, opened.workdir) == ("scripted", "mia", str(here))
        [decided] = recorded(here, CallDecided)
        assert decided.tool == "fetch"
        assert "message  assistant  looking" in ran.stdout
        assert recorded(here, SessionStatus)[-1].status == "done"

    def test_denies_without_answer_option(self, here: Path) -> None:
        """Without `--answer` a request is denied."""
        assert headless(here, ASK).returncode == 0
        assert recorded_values(here, "chosen") == ["no"]

    @pytest.mark.slow
    def test_fails_with_its_agent(self, here: Path) -> None:
        """An agent that dies makes the command fail; its error output is printed and logged."""
        ran = headless(here, ["complain", "no memory"], ["die", 4], more=("--log", "agent.log"))
        assert ran.returncode == 1
        assert "exit code 4" in ran.stdout
        assert "no memory" in ran.stdout
        assert (here / "agent.log").read_text() == "no memory\n"

    @pytest.mark.slow
    def test_works_in_the_given_directory(self, here: Path) -> None:
        """`--cwd` is the agent's working directory."""
        (here / "project").mkdir()
        assert headless(here, ["say", "x"], more=("--cwd", "project")).returncode == 0
        assert (here / "project" / "done.jsonl").exists()

    @pytest.mark.slow
    def test_mode_is_recorded(self, here: Path) -> None:
        """With `--mode shadow` nothing is blocked."""
        call = {"toolCallId": "c1", "kind": "delete", "title": "rm", "rawInput": {}}
        assert headless(here, ["ask", call], more=("--mode", "shadow")).returncode == 0
        assert recorded_values(here, "chosen") == ["yes"]

    @pytest.mark.slow
    def test_labels_are_recorded(self, here: Path) -> None:
        """`--label` adds a session label; the working directory's settings file must not set labels."""
        assert headless(here, more=("--label", "nightly", "--label", "ci")).returncode == 0
        [opened] = recorded(here, SessionOpened)
        assert opened.session_labels == ("ci", "nightly")
        ran = headless(here, more=tuple(f"--label={n}" for n in range(21)))
        assert (ran.returncode, "--label: a session has at most 20" in ran.stderr) == (2, True)
        (here / "interlock.toml").write_text('labels = ["nightly"]\n')
        ran = headless(here)
        assert ran.returncode == 2
        assert "agents may write in the working directory" in " ".join(ran.stderr.split())

    def test_directory_settings_cannot_set_log_or_unasked(self, here: Path) -> None:
        """A settings file of the working directory must set neither the log file nor `unasked`."""
        (here / "interlock.toml").write_text('[acp]\nlog = "stolen"\nunasked = "note"\n')
        ran = headless(here)
        assert ran.returncode == 2
        assert "interlock.toml: unasked: is allowed in" in ran.stderr
        assert not (here / "stolen").exists()


class TestBadInput:
    @pytest.mark.parametrize(
        ("line", "says"),
        [
            (("--headless", "--rules", "my.rules", "--task", "x"), "which agent?"),
            (("--headless", "--task", "x", "--", *AGENT), "no rules were given"),
            (("--headless", "--rules", "my.rules", "--", *AGENT), "needs a --task"),
            (("--rules", "my.rules", "--", *AGENT), "not a terminal"),
            (("--headless", "--rules", "no.rules", "--task", "x", "--", *AGENT), "no.rules"),
            (
                ("--headless", "--rules", "my.rules", "--task", "x", "--cwd", "nowhere", "--", *AGENT),
                "expected a directory, found none at 'nowhere'",
            ),
            (("--headless", "--rules", "my.rules", "--task", "x", "--", "no-agent"), "cannot be run"),
            (("--read-only", "--rules", "my.rules", "--", *AGENT), "changes nothing"),
        ],
    )
    def test_wrong_input_is_reported_with_remedy(
        self, here: Path, line: tuple[str, ...], says: str
    ) -> None:
        """Missing or wrong input is reported with its remedy, and nothing is started."""
        ran = acp(here, *line)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert says in ran.stderr

    def test_missing_library_names_the_extra(self, here: Path) -> None:
        """Without the library the error names the extra to install."""
        with patch("interlock.app.cli.agent.acp.find_spec", return_value=None):
            ran = headless(here, ["say", "x"])
        assert ran.returncode == 2
        assert "interlock[acp]" in ran.stderr


@asynccontextmanager
async def console(here: Path) -> AsyncIterator[RealConsole]:
    """The console hosting a session of the agent."""
    hub = Hub.open(here / "acp.db")

    async def start(hub: Hub) -> None:
        agent = AcpAgent(hub, AGENT, here)
        await agent.open(SessionConfig(compile_rules(RULES).registry, by="mia"))

    app = InterlockConsole(hub, operator="mia", start=start, quiet=0.0)
    try:
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            on = RealConsole(app, pilot)
            await on.until("scripted")
            yield on
    finally:
        await hub.close()


async def send_message(on: RealConsole, text: str) -> None:
    await on.pilot.press("i")
    await on.pilot.pause()
    await on.type(text)
    await on.pilot.press("enter")


@pytest.mark.slow
class TestConsole:
    async def test_prompts_the_agent_and_approves_its_request(self, here: Path) -> None:
        """`i` prompts the agent, its messages appear, its request opens the dialog, `a` approves it."""
        async with console(here) as on:
            await send_message(on, "hello")
            await on.until("You said: hello")
            await send_message(on, json.dumps([ASK]))
            await on.until("a page")
            for _ in range(1000):
                if isinstance(on.app.screen, ApprovalScreen) and on.app.screen.sleeps_for() <= 0:
                    break
                await on.pilot.pause(0.02)
            await on.pilot.press("a")
            for _ in range(1000):
                if recorded_values(here, "chosen"):
                    break
                await on.pilot.pause(0.02)
        assert recorded_values(here, "chosen") == ["yes"]

    async def test_stopping_the_agent_ends_its_turn(self, here: Path) -> None:
        """Stopping the agent ends its turn; the session stays open."""
        async with console(here) as on:
            await send_message(on, '[["until_cancelled"]]')
            await on.until("running")
            await on.app.screen.run_action("stop")
            await on.until("a waiting request withdrawn")
            assert isinstance(on.app.screen, Confirm)
            await on.pilot.pause(ASLEEP + 0.1)
            await on.pilot.press("y")
            await on.until("Stopped")
        assert recorded_values(here, "cancelled") == [True]
