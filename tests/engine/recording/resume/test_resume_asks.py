"""A host that is killed during a request; in another process the request is in the queue again."""

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
from interlock.engine.history.model.events import ApprovalRequested, ApprovalWithdrawn, SessionResumed
from interlock.engine.history.model.state import SessionState
from tests.support.forked import HUB, python_with
from tests.support.postgres import end_killed, named

HOST = '''
import asyncio, json, os, signal, sys
from pathlib import Path
from interlock.engine.agents import Agent, C, ScriptedModel, T, ToolContext, tool
from interlock.engine.history.model.events import ApprovalRequested
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.database.location import location_of
from interlock.engine.hub.hub import Hub, SessionConfig
from interlock.rules import compile_rules

RULES = """
require test before deploy
require human-approval before publish
limit deploy to 2 per session
limit test to 3 per session
"""
NAMES = ("nope", "test", "rm", "publish", "publish", "test")
STEP = C(**{f"c{n}": (name, {}) for n, name in enumerate(NAMES, start=3)})
database, ran, mode = location_of(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]


def made(name):
    @tool(name=name)
    async def run(ctx: ToolContext) -> str:
        """Do it."""
        with ran.open("a") as file:
            file.write(f"{name}:{ctx.call_id}\\n")
        return f"{name} ok"

    return run


async def main():
    hub = Hub.open(database)
    first = mode == "first"
    model = ScriptedModel([C(c1=("test", {})), C(c2=("deploy", {})), STEP] if first else [T("done")])
    tools = [made(n) for n in ("test", "deploy", "publish", "rm")]
    agent = Agent(model, name="bot", tools=tools, tell_rules=False)
    registry = compile_rules(RULES + "block rm").registry
    events = hub.subscribe()
    if first:
        await hub.open_session(agent, SessionConfig(registry), session_id="s1")
        await hub.send("s1", "ship it", by="maria")
    else:
        await hub.resume_session("s1", agent, SessionConfig(registry, by="ben"))
    answering = asyncio.create_task(answer(hub, events))
    await hub.wait("s1")
    events.close()
    await answering
    same = fold(await hub.recorded("s1")) == await hub.session("s1")
    loaded = await hub._live.get("s1")[0].load("s1") == list(hub._live.get("s1")[1].messages)
    read = [(m.role, m.text) for m in model.requests[0].messages]
    await hub.close()
    print(json.dumps({"same": same and loaded, "read": read, "calls": len(model.requests)}))


async def answer(hub, events):
    async for event in events:
        if not isinstance(getattr(event, "body", None), ApprovalRequested):
            continue
        asked = event.body
        [waiting] = await hub.approvals()
        assert waiting.id == asked.approval_id
        match mode:
            case "first" | "die again":
                os.kill(os.getpid(), signal.SIGKILL)
            case "approve":
                await hub.decide(asked.approval_id, approved=True, by="ben")
            case "deny":
                await hub.decide(asked.approval_id, approved=False, by="ben", reason="not on Friday")
            case "steer":
                await hub.send("s1", "rather not", by="ben")


asyncio.run(main())
'''
UNKNOWN = "Outcome unknown: the session ended before a result was recorded"
REFUSED = "Tool call not executed: it was refused, and the session ended before the reason was recorded"
SKIPPED = "Skipped: user sent a new message"
REJECTED = "publish was rejected by human review: not on Friday"
NO_RM = "rm is blocked and cannot be called."


@dataclass(frozen=True)
class Lives:
    """A session that died during a request, and its outcome; `read` is its model's later prompt.

    `ran_first` is what tools did before it died, `ran` what they did afterwards, with the calls' ids.
    """

    database: Path
    left: SessionState
    end: SessionState
    same: bool
    read: list[str]
    ran_first: list[str]
    ran: list[str]

    def of(self, kind: type) -> list:
        """Return the events of a kind."""
        events = open_reader(self.database).events("s1")
        return [e.body for e in events if isinstance(e.body, kind)]


def run_lives(folder: Path, answer: str) -> Lives:
    """Kill a host during its request, as often as told, and answer in the last one."""
    database, log = folder / "life.db", folder / "ran.txt"

    def host(mode: str) -> subprocess.CompletedProcess[str]:
        command = [*python_with(*HUB), "-c", HOST, named(database), str(log), mode]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    *deaths, last = ("first", "die again", "approve") if answer == "twice" else ("first", answer)
    for mode in deaths:
        died = host(mode)
        assert died.returncode == -signal.SIGKILL, died.stderr
        end_killed(database)
    left, ran_first = fold(open_reader(database).events("s1")), log.read_text().split()
    done = host(last)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["calls"] == 1
    return Lives(
        database,
        left,
        fold(open_reader(database).events("s1")),
        told["same"],
        [f"{role}: {text}" for role, text in told["read"]],
        ran_first,
        log.read_text().split()[len(ran_first) :],
    )


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Lives]:
    """Run a session that is answered in some way, once per way."""
    return cache(lambda answer: run_lives(tmp_path_factory.mktemp("lives"), answer))


ANSWERS = ("approve", "deny", "steer", "twice")


@pytest.mark.parametrize("answer", ANSWERS)
class TestEveryAnswer:
    @pytest.mark.slow
    def test_record_folds_to_the_live_session(self, lives: Callable[[str], Lives], answer: str) -> None:
        """G-63, A-77: the record folds to the live session and has its prompt; the list agrees."""
        life = lives(answer)
        assert life.same
        events = list(open_reader(life.database).events("s1"))
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
        assert open_reader(life.database).session("s1") == SessionLine.of(events).summary()
        assert (life.end.status, life.end.approvals, life.end.pending) == ("done", {}, [])

    def test_each_call_gets_one_message(self, lives: Callable[[str], Lives], answer: str) -> None:
        """A-56: each call of the step gets exactly one message, in the order of the calls."""
        read = lives(answer).read
        assert read[:5] == [
            "user: ship it",
            "assistant: ",
            "tool: test ok",
            "assistant: ",
            "tool: deploy ok",
        ]
        publish = {"deny": REJECTED, "steer": SKIPPED}.get(answer, "publish ok")
        last = SKIPPED if answer == "steer" else "test ok"
        assert read[5:12] == [
            "assistant: ",
            f"tool: {REFUSED}",
            f"tool: {UNKNOWN}",
            f"tool: {NO_RM}",
            f"tool: {publish}",
            f"tool: {publish}",
            f"tool: {last}",
        ]
        assert read[12:] == (["user: rather not"] if answer == "steer" else [])

    def test_approved_call_runs_exactly_once(self, lives: Callable[[str], Lives], answer: str) -> None:
        """An approved call runs exactly once; a call that was allowed before does not run again."""
        life = lives(answer)
        assert life.ran_first == ["test:c1", "deploy:c2"]
        expected = {"deny": ["test:c8"], "steer": []}
        assert sorted(life.ran) == expected.get(answer, ["publish:c6", "publish:c7", "test:c8"])

    def test_used_limits_stay_used(self, lives: Callable[[str], Lives], answer: str) -> None:
        """G-63: used limits stay used, also for a call with an unknown outcome."""
        life = lives(answer)
        assert life.left.nets["limit-test-3"].marking["budget"] == 1
        left = 1 if answer == "steer" else 0
        assert life.end.nets["limit-test-3"].marking["budget"] == left
        assert life.end.nets["limit-deploy-2"].marking["budget"] == 1

    def test_transcript_has_each_call_once(self, lives: Callable[[str], Lives], answer: str) -> None:
        """Each call is in the transcript once, and a note says how many are requested again."""
        life = lives(answer)
        calls = [e.call for e in life.end.transcript if e.call is not None]
        assert [c.call_id for c in calls] == [f"c{n}" for n in range(1, 9)]
        publish = {"deny": "blocked", "steer": "skipped"}.get(answer, "done")
        last = "skipped" if answer == "steer" else "done"
        statuses = ["done", "done", "skipped", "unknown", "blocked", publish, publish, last]
        assert [c.status for c in calls] == statuses
        notes = [e.text for e in life.end.transcript if e.kind == "note"]
        assert "resumed by ben; 3 calls are asked again" in notes

    def test_request_is_withdrawn_and_repeated_under_new_id(
        self, lives: Callable[[str], Lives], answer: str
    ) -> None:
        """The first request is withdrawn with its host's death, and repeated under another id."""
        life = lives(answer)
        asked = [r.call_id for r in life.of(ApprovalRequested)]
        deaths = 2 if answer == "twice" else 1
        assert asked == ["c6"] * (deaths + 1) + ([] if answer == "steer" else ["c7"])
        assert len({r.approval_id for r in life.of(ApprovalRequested)}) == len(asked)
        assert len(life.of(ApprovalWithdrawn)) == deaths + (answer == "steer")
        assert [r.asked_again for r in life.of(SessionResumed)] == [("c6", "c7", "c8")] * deaths
