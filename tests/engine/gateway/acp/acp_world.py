"""A hub with a session of the scripted ACP agent, and the steps for its prompts."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interlock.engine.gateway.acp.agent import AcpAgent
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.state import ApprovalState, SessionState
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules
from tests.support.forked import python_with

AGENT = Path(__file__).with_name("acp_agent.py")
RULES = """
map execute.command ./test as test
map execute.command ./deploy as deploy
require test before deploy
require human-approval before fetch
block delete
"""


def agents_python() -> list[str]:
    """Return the Python for one of many scripted agents."""
    return python_with("asyncio", "acp", "acp.schema")


@dataclass
class World:
    """A hub with one session of the scripted agent, which works in `directory`."""

    hub: Hub
    directory: Path
    session: str = ""
    log: Path | None = None

    async def start(
        self, *arguments: str, rules: str = RULES, real: bool = False, **terms: object
    ) -> AcpAgent:
        """Start a session of the agent: as a fork, or with `real` as a process as users start it."""
        options = {k: terms.pop(k) for k in ("unasked",) if k in terms}
        self.log = self.directory / "stderr.log"
        agent = AcpAgent(
            self.hub,
            [*([sys.executable] if real else agents_python()), str(AGENT), *arguments],
            self.directory,
            log=self.log.open("wb"),
            **options,
        )
        self.session = await agent.open(SessionConfig(compile_rules(rules).registry, by="mia", **terms))
        return agent

    async def tell(self, *steps: object, mode: str = "steer") -> None:
        await self.hub.send(self.session, json.dumps(steps), by="mia", mode=mode)

    async def turn(self, *steps: object) -> SessionState:
        """Run one turn from its prompt to its end."""
        await self.tell(*steps)
        await asyncio.wait_for(self.hub.wait(self.session), 20)
        return await self.state()

    async def state(self) -> SessionState:
        return await self.hub.session(self.session)

    def done(self, what: str) -> list[object]:
        """Return the values that the agent noted under a name."""
        file = self.directory / "done.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [value for name, value in map(json.loads, lines) if name == what]

    async def events(self, kind: type) -> list:
        return [e.body for e in await self.hub.recorded(self.session) if isinstance(e.body, kind)]

    async def question(self) -> ApprovalState:
        await self.until(lambda: bool(self.asked()))
        [request] = self.asked()
        return request

    def asked(self) -> list[ApprovalState]:
        hosted = self.hub._live.hosted(self.session)
        return list(hosted.shown.approvals.values())

    async def until(self, holds: Callable[[], object]) -> None:
        for _ in range(2000):
            if holds():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("it did not happen")

    async def notes(self) -> list[str]:
        return [e.text for e in (await self.state()).transcript if e.kind == "note"]

    async def check_fold(self) -> None:
        assert fold(await self.hub.recorded(self.session)) == await self.state()


def call(call_id: str, kind: str = "execute", **given: object) -> dict:
    return {"toolCallId": call_id, "kind": kind, "title": f"{kind} it", "rawInput": given}


def report(call_id: str, status: str, **more: object) -> list:
    return [
        "update",
        {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": status, **more},
    ]


def begun(call_id: str, kind: str, status: str = "in_progress", **given: object) -> list:
    return ["update", {"sessionUpdate": "tool_call", **call(call_id, kind, **given), "status": status}]


def asks(call: dict) -> dict:
    options = [("yes", "allow_once"), ("no", "reject_once")]
    return {
        "sessionId": "s1",
        "toolCall": call,
        "options": [{"optionId": i, "name": i, "kind": kind} for i, kind in options],
    }


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
