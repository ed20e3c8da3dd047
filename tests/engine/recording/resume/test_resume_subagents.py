"""A host that is killed while subagents work; in another process they continue and answer."""

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
from interlock.engine.history.model.events import (
    ApprovalRequested,
    CallDecided,
    CallResult,
    JournalEvent,
    MessageAdded,
    SessionOpened,
    SessionResumed,
)
from interlock.engine.history.model.state import SessionState
from tests.support.forked import HUB, python_with
from tests.support.postgres import end_killed, named

HOST = '''
import asyncio, json, os, signal, sys
from pathlib import Path
from interlock.engine.agents import Agent, C, ScriptedModel, T, ToolContext, task_tool, tool
from interlock.engine.history.model.events import ApprovalRequested, MessageAdded, SessionStatus
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.database.location import location_of
from interlock.engine.hub.hub import Hub, SessionConfig
from interlock.rules import compile_rules

RULES = """
require task_mid before deploy
require test before publish
require human-approval before publish
limit test to 3 per session
limit task_low to 1 per session
"""
database, ran, mode = location_of(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
LOW = {
    "resume": [T("low ", "done")],
    "asked": [C(c1=("test", {})), C(c1=("publish", {}), c2=("test", {}))],
    "amid a tool": [C(c1=("test", {})), C(c1=("die", {}))],
    "answered": [T("low ", "done")],
    "mid answered": [T("low ", "done")],
}
MID = {"mid answered": [C(c1=("task_low", {"prompt": "low work"})), T("mid done")]}
TASKS = C(c1=("task_mid", {"prompt": "mid work"}), c2=("test", {}), c3=("nope", {}))


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def made(name):
    @tool(name=name)
    async def run(ctx: ToolContext) -> str:
        """Do it."""
        with ran.open("a") as file:
            file.write(f"{ctx.session_id}/{ctx.call_id}:{name}\\n")
        if name == "die":
            die()
        return f"{name} ok"

    return run


async def main():
    hub = Hub.open(database)
    first = mode in ("asked", "amid a tool", "answered", "mid answered")
    models = {
        "low": ScriptedModel(LOW.get(mode, LOW["resume"])),
        "mid": ScriptedModel(
            MID.get(mode, [C(c1=("task_low", {"prompt": "low work"}))]) if first else [T("mid done")]
        ),
        "boss": ScriptedModel([TASKS] if first else [C(c4=("deploy", {})), T("fine")]),
    }
    tools = [made(name) for name in ("test", "publish", "deploy", "die")]
    low = Agent(models["low"], tell_rules=False, name="low", tools=tools)
    below = [task_tool(low)] if mode != "no low" else tools
    mid = Agent(models["mid"], tell_rules=False, name="mid", tools=below)
    boss = Agent(models["boss"], tell_rules=False, name="boss", tools=[*tools, task_tool(mid)])
    registry = compile_rules(RULES).registry
    events = hub.subscribe()
    if first:
        await hub.open_session(boss, SessionConfig(registry), session_id="s1")
        await hub.send("s1", "ship it", by="maria")
    else:
        await hub.resume_session("s1", boss, SessionConfig(registry, by="ben"))
    watching = asyncio.create_task(watch(hub, events))
    await hub.wait("s1")
    events.close()
    await watching
    same = [fold(await hub.recorded(s.id)) == s for s in await hub.sessions()]
    for hosted in hub._live:
        same.append(await hosted.load(hosted.id) == list(hosted.session.messages))
    gate = hub._live.get("s1")[0].manager
    state = await hub.session("s1")
    markings = {k: n.marking for k, n in state.nets.items()}
    same.append(markings == {k: s.marking for k, s in gate.states.items()})
    read = {
        name: [[f"{m.role}: {m.text}" for m in request.messages] for request in model.requests]
        for name, model in models.items()
    }
    await hub.close()
    print(json.dumps({"same": same, "read": read}))


async def watch(hub, events):
    async for event in events:
        body = getattr(event, "body", None)
        match body:
            case ApprovalRequested() if mode in ("asked", "die again"):
                die()
            case ApprovalRequested():
                yes = mode != "deny"
                await hub.decide(body.approval_id, approved=yes, by="ben", reason=None if yes else "no")
            case SessionStatus(status="done") if mode == "answered" and event.session.startswith("low-"):
                die()
            case MessageAdded(role="assistant", text="mid done") if mode == "mid answered":
                die()
            case _:
                pass


asyncio.run(main())
'''
UNKNOWN = "Outcome unknown: the session ended before a result was recorded"
REFUSED = "Tool call not executed: it was refused, and the session ended before the reason was recorded"


@dataclass(frozen=True)
class Lives:
    """A family of sessions that was killed, and its outcome.

    `read` is the prompts of each agent's model afterwards, call by call. `ran_first` is what tools did
    before, and `ran` what they did afterwards.
    """

    database: Path
    same: list[bool]
    read: dict[str, list[list[str]]]
    ran_first: list[str]
    ran: list[str]

    def events(self, session: str) -> list[JournalEvent]:
        return list(open_reader(self.database).events(session))

    def family(self) -> dict[str, str]:
        """Return the ids of the sessions by agent."""
        return {line.agent: line.id for line in open_reader(self.database).sessions()}

    def state(self, agent: str) -> SessionState:
        return fold(self.events(self.family()[agent]))

    def of(self, agent: str, kind: type) -> list:
        return [e.body for e in self.events(self.family()[agent]) if isinstance(e.body, kind)]


def run_lives(folder: Path, *modes: str) -> Lives:
    """Host the sessions in successive processes, of which all but the last are killed."""
    database, log = folder / "life.db", folder / "ran.txt"
    log.touch()

    def host(mode: str) -> subprocess.CompletedProcess[str]:
        command = [*python_with(*HUB), "-c", HOST, named(database), str(log), mode]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    for mode in modes[:-1]:
        died = host(mode)
        assert died.returncode == -signal.SIGKILL, died.stderr
        end_killed(database)
    ran_first = log.read_text().split()
    done = host(modes[-1])
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    ran = log.read_text().split()[len(ran_first) :]
    return Lives(database, told["same"], told["read"], ran_first, ran)


WAYS = {
    "approved": ("asked", "resume"),
    "approved after two deaths": ("asked", "die again", "resume"),
    "denied": ("asked", "deny"),
    "amid a tool": ("amid a tool", "resume"),
    "answered": ("answered", "resume"),
    "mid answered": ("mid answered", "resume"),
}


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Lives]:
    """Run a family that died in some way, once per way."""
    return cache(lambda way: run_lives(tmp_path_factory.mktemp("lives"), *WAYS[way]))


@pytest.mark.parametrize("way", WAYS)
class TestEveryWay:
    @pytest.mark.slow
    def test_open_calls_are_answered_once_in_order(self, lives: Callable[[str], Lives], way: str) -> None:
        """A-56: each call of the open step is answered once, in order; the task's by its subagent."""
        life = lives(way)
        [first, _] = life.read["boss"]
        assert first == [
            "user: ship it",
            "assistant: ",
            "tool: mid done",
            "tool: test ok",
            f"tool: {REFUSED}",
        ]

    def test_task_success_moves_the_nets(self, lives: Callable[[str], Lives], way: str) -> None:
        """G-16, G-63: a transition waiting for the task fires on its success; no limit is used twice."""
        life = lives(way)
        boss = life.state("boss")
        assert boss.calls["c4"].status == "done"
        assert boss.nets["limit-task_low-1"].marking["budget"] == 0
        assert boss.pending == []
        assert [r.is_error for r in life.of("boss", CallResult) if r.call_id == "c1"] == [False]
        assert [r.unknown for r in life.of("boss", CallResult) if r.call_id == "c1"] == [False]

    def test_nothing_runs_again(self, lives: Callable[[str], Lives], way: str) -> None:
        """No call's tool runs twice in any session or process."""
        life = lives(way)
        everything = life.ran_first + life.ran
        assert len(set(everything)) == len(everything)
        assert life.ran[-1] == "s1/c4:deploy"

    def test_records_fold_to_the_live_sessions(self, lives: Callable[[str], Lives], way: str) -> None:
        """G-63, A-77: every record folds to its live session and has its conversation."""
        life = lives(way)
        assert all(life.same)
        for session in life.family().values():
            events = life.events(session)
            assert [e.seq for e in events] == list(range(1, len(events) + 1))
            assert open_reader(life.database).session(session) == SessionLine.of(events).summary()
            assert fold(events).status == "done"

    def test_no_second_subagent_is_started(self, lives: Callable[[str], Lives], way: str) -> None:
        """Each agent has one session, which names the call that started it."""
        life = lives(way)
        assert len(open_reader(life.database).sessions()) == 3
        [mid], [low] = life.of("mid", SessionOpened), life.of("low", SessionOpened)
        assert (mid.kind, mid.parent, mid.parent_call) == ("child", "s1", "c1")
        assert (low.kind, low.parent, low.parent_call) == ("child", life.family()["mid"], "c1")
        assert [e.text for e in life.of("low", MessageAdded) if e.role == "user"] == ["low work"]


class TestOneWay:
    def test_grandchild_request_is_repeated(self, lives: Callable[[str], Lives]) -> None:
        """A grandchild's request is repeated under its name, and the approved call runs once."""
        life = lives("approved")
        low = life.family()["low"]
        asked = life.of("boss", ApprovalRequested)
        path = f"{life.family()['mid']}/{low}/c1-2"
        assert [(a.call_id, a.via) for a in asked] == [(path, low)] * 2
        assert sorted(life.ran) == sorted([f"{low}/c1-2:publish", f"{low}/c2:test", "s1/c4:deploy"])
        [resumed] = life.of("boss", SessionResumed)
        assert resumed.asked_again == (path, path.replace("c1-2", "c2"))
        assert resumed.going_on == ("c1", f"{life.family()['mid']}/c1")
        [resumed] = life.of("low", SessionResumed)
        assert (resumed.asked_again, resumed.going_on) == (("c1-2", "c2"), ())
        [read] = life.read["low"]
        assert read[-2:] == ["tool: publish ok", "tool: test ok"]
        made = {d.call_id: d.via for d in life.of("boss", CallDecided)}
        assert made[path] == low

    def test_transcript_has_each_call_once(self, lives: Callable[[str], Lives]) -> None:
        """Each call is once in each transcript, and the parent's note counts the repeated calls."""
        for agent in ("boss", "mid", "low"):
            calls = [e.call for e in lives("approved").state(agent).transcript if e.call is not None]
            ids = [c.call_id for c in calls]
            assert len(set(ids)) == len(ids)
            assert {c.status for c in calls if c.tool != "nope"} == {"done"}
        notes = [e.text for e in lives("approved").state("boss").transcript if e.kind == "note"]
        assert "resumed by ben; 2 calls are asked again; 2 calls continue" in notes

    def test_denied_subagent_continues(self, lives: Callable[[str], Lives]) -> None:
        """The subagent reads the denial and continues."""
        life = lives("denied")
        [read] = life.read["low"]
        assert read[-2:] == ["tool: publish was rejected by human review: no", "tool: test ok"]

    def test_running_call_has_unknown_outcome(self, lives: Callable[[str], Lives]) -> None:
        """A subagent's call that ran without a result has an unknown outcome and is not repeated."""
        life = lives("amid a tool")
        [read] = life.read["low"]
        assert read[-1] == f"tool: {UNKNOWN}"
        assert life.state("low").calls["c1-2"].status == "unknown"
        assert sum(line.endswith(":die") for line in life.ran_first + life.ran) == 1

    def test_given_answer_is_not_asked_again(self, lives: Callable[[str], Lives]) -> None:
        """A subagent that had given its answer is not asked again."""
        life = lives("answered")
        assert life.read["low"] == []
        assert life.read["mid"][0][-1] == "tool: low done"
        life = lives("mid answered")
        assert (life.read["low"], life.read["mid"]) == ([], [])

    @pytest.mark.slow
    def test_missing_subagent_tool_gives_unknown_outcome(self, tmp_path: Path) -> None:
        """Without the subagent's tool, its call has an unknown outcome, and the others continue."""
        life = run_lives(tmp_path, "asked", "no low")
        [read] = life.read["mid"]
        assert read[-1] == f"tool: {UNKNOWN}"
        assert life.state("low").status == "failed"
        assert life.read["boss"][0][2] == "tool: mid done"
        assert not any(line.endswith(":publish") for line in life.ran)
