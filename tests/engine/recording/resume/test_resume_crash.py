"""A host that is killed with its session, which another process resumes."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.journal.session_index import SessionLine
from interlock.engine.history.model.state import SessionState
from tests.support.forked import HUB, python_with
from tests.support.postgres import end_killed, named

HOST = '''
import asyncio, json, os, signal, sys
from pathlib import Path
from interlock.engine.agents import Agent, C, ScriptedModel, T, tool
from interlock.engine.agents.rules_notice import RULES_SENDER
from interlock.engine.history.model.events import ApprovalRequested
from interlock.engine.history.database.location import location_of
from interlock.engine.hub.hub import Hub, SessionConfig
from interlock.rules import compile_rules

RULES = """
require test before deploy
require human-approval before publish
limit deploy to 2 per session
limit test to 3 per session
"""
database, ran, mode = location_of(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def note(name):
    with ran.open("a") as file:
        file.write(f"{name}\\n")


@tool
async def test() -> str:
    """Run the tests."""
    note("test")
    return "test ok"


@tool
async def deploy() -> str:
    """Deploy."""
    note("deploy")
    if mode == "amid a tool":
        die()
    return "deploy ok"


@tool
async def publish() -> str:
    """Publish."""
    note("publish")
    return "publish ok"


SCRIPTS = {
    "amid a tool": [C(test={}), C(deploy={})],
    "while a person is asked": [C(test={}), C(deploy={}), C(test={}, publish={})],
    "between runs": [C(test={}), C(deploy={}), T("done")],
    "resume": [C(deploy={}), C(test={}), C(deploy={}), C(test={}), T("done")],
}


async def main():
    hub = Hub.open(database)
    model = ScriptedModel(SCRIPTS[mode])
    agent = Agent(model, name="bot", tools=[test, deploy, publish])
    registry = compile_rules(RULES).registry
    if mode == "resume":
        await hub.resume_session("s1", agent, SessionConfig(registry, by="ben"))
        resumed = (await hub.session("s1")).model_dump_json()
        await hub.send("s1", "go on", by="ben")
        await hub.wait("s1")
        messages = [m for m in model.requests[0].messages if getattr(m, "by", None) != RULES_SENDER]
        read = [(m.role, m.text) for m in messages]
        await hub.close()
        print(json.dumps({"resumed": json.loads(resumed), "read": read}))
        return
    events = hub.subscribe()
    await hub.open_session(agent, SessionConfig(registry), session_id="s1")
    await hub.send("s1", "ship it", by="maria")
    if mode == "while a person is asked":
        async for event in events:
            if isinstance(getattr(event, "body", None), ApprovalRequested):
                die()
    await hub.wait("s1")
    die()


asyncio.run(main())
'''


UNKNOWN = "Outcome unknown: the session ended before a result was recorded"
SKIPPED = "Skipped: user sent a new message"


@dataclass(frozen=True)
class Lives:
    """One session in two processes: the record that the first left, and the second's outcome.

    `resumed` is the state right after resuming, `read` the model's next prompt, and `ran` all runs of
    tools, of which the first process made `ran_before`.
    """

    database: Path
    left: SessionState
    resumed: SessionState
    end: SessionState
    read: list[tuple[str, str]]
    ran_before: list[str]
    ran: list[str]


def run_lives(folder: Path, death: str) -> Lives:
    """Host a session that is killed in this way, then resume it in another process."""
    database, log = folder / "life.db", folder / "ran.txt"

    def host(mode: str) -> subprocess.CompletedProcess[str]:
        command = [*python_with(*HUB), "-c", HOST, named(database), str(log), mode]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    died = host(death)
    assert died.returncode == -signal.SIGKILL, died.stderr
    end_killed(database)
    left, ran_before = fold(open_reader(database).events("s1")), log.read_text().split()
    done = host("resume")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return Lives(
        database,
        left,
        SessionState.model_validate(told["resumed"]),
        fold(open_reader(database).events("s1")),
        [(role, text) for role, text in told["read"]],
        ran_before,
        log.read_text().split(),
    )


def markings(state: SessionState) -> dict[str, dict[str, int]]:
    return {key: net.marking for key, net in state.nets.items()}


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Lives]:
    """Run the two lives of a session that died in some way, once per way."""
    return cache(lambda death: run_lives(tmp_path_factory.mktemp("lives"), death))


DEATHS = ("amid a tool", "while a person is asked", "between runs")


@pytest.mark.parametrize("death", DEATHS)
class TestEveryDeath:
    @pytest.mark.slow
    def test_markings_and_used_limits_are_kept(self, lives: Callable[[str], Lives], death: str) -> None:
        """G-63: the nets keep the markings of the dead host; used limits stay used."""
        life = lives(death)
        assert markings(life.resumed) == markings(life.left)
        assert (life.resumed.active, life.resumed.mode) == (life.left.active, life.left.mode)
        assert life.resumed.nets["limit-deploy-2"].marking["budget"] == 1
        # One of the two deploys that the second process tries lacks a test or exceeds the limit.
        assert life.end.nets["limit-deploy-2"].marking["budget"] == 0
        assert life.ran.count("deploy") == 2

    def test_nothing_runs_again(self, lives: Callable[[str], Lives], death: str) -> None:
        """The second process runs only its own model's calls and repeats none of the first's."""
        life = lives(death)
        old = set(life.resumed.calls)
        new = [c.tool for i, c in life.end.calls.items() if i not in old and c.status == "done"]
        assert life.ran == life.ran_before + new
        assert life.resumed.pending == []
        assert not {c.status for c in life.resumed.calls.values()} & {"running", "waiting"}

    def test_both_processes_make_one_record(self, lives: Callable[[str], Lives], death: str) -> None:
        """Both processes make one record: consecutive numbers, a matching list, and no open request."""
        life = lives(death)
        events = list(open_reader(life.database).events("s1"))
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
        line = open_reader(life.database).session("s1")
        assert line == SessionLine.of(events).summary()
        assert (line.status, line.waiting, life.end.approvals) == ("done", 0, {})


class TestOneDeath:
    def test_running_call_has_unknown_outcome(self, lives: Callable[[str], Lives]) -> None:
        """The running call has an unknown outcome, which the model reads."""
        life = lives("amid a tool")
        assert [(c.tool, c.status) for c in life.resumed.calls.values()] == [
            ("test", "done"),
            ("deploy", "unknown"),
        ]
        assert life.read[-3:] == [("assistant", ""), ("tool", UNKNOWN), ("user", "go on")]

    def test_message_skips_the_waiting_call(self, lives: Callable[[str], Lives]) -> None:
        """A-76: a message sent at once skips the waiting call; the allowed one has an unknown outcome."""
        life = lives("while a person is asked")
        assert [a.tool for a in life.left.approvals.values()] == ["publish"]
        assert [c.status for c in life.resumed.calls.values()] == ["done", "done", "unknown", "proposed"]
        assert [text for _, text in life.read[-3:]] == [UNKNOWN, SKIPPED, "go on"]
        assert "publish" not in life.ran

    def test_conversation_continues_unchanged(self, lives: Callable[[str], Lives]) -> None:
        """If nothing was open, the conversation continues unchanged."""
        assert lives("between runs").read == [
            ("user", "ship it"),
            ("assistant", ""),
            ("tool", "test ok"),
            ("assistant", ""),
            ("tool", "deploy ok"),
            ("assistant", "done"),
            ("user", "go on"),
        ]
