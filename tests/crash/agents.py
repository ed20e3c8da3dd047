"""The agents of a busy host: tools that write marks, and helpers (subagents) that agents start.

The actions of an agent in a step are random from a seed, and always the same for the same step. Its calls
are named after the caller: `s01.3.0` is the first call of session `s01`'s step 3; if that is a task,
`s01.3.0.1.0` is the first call of the helper's step 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from pydantic import JsonValue

from interlock.engine.agents import (
    Agent,
    AssistantMessage,
    Message,
    Reply,
    ScriptedModel,
    T,
    ToolContext,
    task_tool,
)
from interlock.engine.agents.models.scripted import ScriptedCall
from interlock.rules import compile_rules

from .marks import Marks

RULES = """
require test before deploy
require human-approval before deploy
require human-approval before publish
limit deploy to 40 per session
limit push to 2 per test
limit publish to 4 per task_helper
block remove
"""
NETS = compile_rules(RULES).registry
"""The nets of every session."""

TOOLS = ("look", "test", "push", "deploy", "publish", "remove")
HELPERS = ("helper", "runner")
"""Helper started by an agent, and helper started by that one."""

HELPERS_STEPS = 2
"""Number of steps after which a helper has finished its task."""

Step = Callable[[str, int], Reply]
"""Returns an agent's reply in a numbered step: a session's, or that of the helper started by a call."""


def steps_from(seed: int) -> Step:
    """Return steps with up to three calls each, or the end of the turn."""

    def step(who: str, number: int) -> Reply:
        random = Random(f"{seed} {who} {number}")
        level = level_of(who)
        if random.random() < 0.1 or (level and number >= HELPERS_STEPS):
            return T("done")
        tasks = [f"task_{name}" for name in HELPERS[level : level + 1]]
        calls: list[ScriptedCall] = []
        for n in range(random.choice((1, 1, 2, 3))):
            call_id = f"{who}.{number}.{n}"
            name = random.choices((*TOOLS, *tasks), (3, 5, 3, 5, 4, 1, *(2 for _ in tasks)))[0]
            env = random.choice(("staging", "production"))
            args: dict[str, JsonValue] = {"prompt": call_id} if name in tasks else {"env": env}
            calls.append(ScriptedCall(name, args, call_id))
        return Reply(calls=tuple(calls))

    return step


def level_of(who: str) -> int:
    """Return 0 for a session, 1 for a helper that it started, and so on."""
    return who.count(".") // 2


@dataclass(frozen=True, slots=True)
class MarkingTool:
    """A tool that writes a mark when it starts, and fails in one of five calls."""

    name: str
    marks: Marks
    description: str = "Do it."
    parameters: dict[str, JsonValue] = field(
        default_factory=lambda: {"type": "object", "properties": {"env": {"type": "string"}}}
    )

    async def execute(self, args: dict[str, JsonValue], ctx: ToolContext) -> str:
        """Run for some iterations of the event loop."""
        self.marks.ran(ctx.session_id, ctx.call_id, self.name, str(args.get("env")))
        luck = Random(ctx.call_id)
        for _ in range(luck.randrange(40)):
            await asyncio.sleep(0)
        if luck.random() < 0.2:
            raise ValueError(f"{self.name} failed")
        return f"{self.name} ok"


class Agents:
    """The agents of all sessions, which share their helpers."""

    def __init__(self, marks: Marks, step: Step) -> None:
        self._step = step
        tools: list[object] = [MarkingTool(name, marks) for name in TOOLS]
        below: list[object] = []
        for name in reversed(HELPERS):
            below = [task_tool(Agent(_model(step), name=name, tools=[*tools, *below]))]
        self._tools = [*tools, *below]

    def of(self, session: str) -> Agent:
        """Return the agent of a session; its conversation determines the next step."""
        return Agent(_model(self._step, session), name=session, tools=self._tools, max_steps=1000)


def _model(step: Step, session: str | None = None) -> ScriptedModel:
    """Return the model of a session's agent; without a session that of a helper, found by its task."""

    def reply(messages: Sequence[Message]) -> Reply:
        who = session or messages[0].text
        return step(who, sum(isinstance(message, AssistantMessage) for message in messages))

    return ScriptedModel(reply)
