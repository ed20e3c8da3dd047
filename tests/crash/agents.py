"""The agents of a busy host: tools that leave marks, and helpers that agents set to work.

What an agent does in a step is random from a seed, and always the same for the same step. Its calls are
named after whoever makes them: `s01.3.0` is the first of session `s01`'s step 3, and if that is a task,
`s01.3.0.1.0` is the first of the helper's step 1.
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
"""Who an agent sets to work, and whom that one does."""

HELPERS_STEPS = 2
"""After so many a helper has finished its task."""

Step = Callable[[str, int], Reply]
"""What an agent does in its step of this number: that of a session, or the helper that a call named so
has set to work."""


def steps_from(seed: int) -> Step:
    """Up to three calls a step, or the turn's end."""

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
    """0 for a session, 1 for a helper that it has set to work, and so on."""
    return who.count(".") // 2


@dataclass(frozen=True, slots=True)
class MarkingTool:
    """A tool that leaves a mark when it starts, and fails one time in five."""

    name: str
    marks: Marks
    description: str = "Do it."
    parameters: dict[str, JsonValue] = field(
        default_factory=lambda: {"type": "object", "properties": {"env": {"type": "string"}}}
    )

    async def execute(self, args: dict[str, JsonValue], ctx: ToolContext) -> str:
        """Takes some turns of the loop."""
        self.marks.ran(ctx.session_id, ctx.call_id, self.name, str(args.get("env")))
        luck = Random(ctx.call_id)
        for _ in range(luck.randrange(40)):
            await asyncio.sleep(0)
        if luck.random() < 0.2:
            raise ValueError(f"{self.name} failed")
        return f"{self.name} ok"


class Agents:
    """The agents of all sessions, who share their helpers."""

    def __init__(self, marks: Marks, step: Step) -> None:
        self._step = step
        tools: list[object] = [MarkingTool(name, marks) for name in TOOLS]
        below: list[object] = []
        for name in reversed(HELPERS):
            below = [task_tool(Agent(_model(step), name=name, tools=[*tools, *below]))]
        self._tools = [*tools, *below]

    def of(self, session: str) -> Agent:
        """The agent of a session, whose conversation says which step is next."""
        return Agent(_model(self._step, session), name=session, tools=self._tools, max_steps=1000)


def _model(step: Step, session: str | None = None) -> ScriptedModel:
    """Of a session's agent; of a helper's, which is known by its task, without one."""

    def reply(messages: Sequence[Message]) -> Reply:
        who = session or messages[0].text
        return step(who, sum(isinstance(message, AssistantMessage) for message in messages))

    return ScriptedModel(reply)
