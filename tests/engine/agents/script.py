"""Shared by the agents' tests: the notation of events, and quick agents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from interlock.engine.agents import (
    Agent,
    AssistantMessage,
    BashTool,
    CompactedEvent,
    CompactionFailed,
    CompactionStart,
    ErrorEvent,
    Event,
    Message,
    MessageEvent,
    ModelTool,
    ReasoningDelta,
    Reply,
    ScriptedModel,
    Session,
    StatusEvent,
    StepEvent,
    StepStart,
    SummaryMessage,
    TextDelta,
    ToolCallEvent,
    ToolContext,
    ToolInputDelta,
    ToolMessage,
    ToolProgress,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    UserMessage,
    tool,
)

SKIPPED = "Skipped: user sent a new message"

# Events that the reference does not have; they only add to the specification's exact sequences.
ADDED = (StatusEvent, TurnStart, StepStart, ReasoningDelta, ToolInputDelta, ToolProgress)


def shown(event: Event) -> str:
    """Return an event in the notation of the scripts."""
    match event:
        case TextDelta():
            return f'delta "{event.delta}"'
        case MessageEvent():
            return said(event.message)
        case ToolCallEvent():
            return f"tool_call {event.call_id}"
        case ToolProgress():
            return f'progress {event.call_id} "{event.text}"'
        case ToolResultEvent():
            return said(event.message)
        case StepEvent():
            return f"step({event.finish_reason},{event.usage.input},{event.usage.output})"
        case TurnEnd():
            return f'turn_end("{event.text}")'
        case ErrorEvent():
            return f"error({event.error})"
        case StatusEvent():
            return f"status {event.status}"
        case TurnStart():
            return "turn_start"
        case StepStart():
            return f"step_start {event.number}"
        case ReasoningDelta():
            return f'reasoning "{event.delta}"'
        case ToolInputDelta():
            return f'input {event.index} {event.name} "{event.delta}"'
        case CompactionStart():
            return "compaction_start"
        case CompactionFailed():
            return f"compaction_failed({event.reason})"
        case CompactedEvent():
            return f"compacted {said(event.message)}"


def said(message: Message) -> str:
    """Return a message in the notation of the scripts."""
    match message:
        case UserMessage():
            return f'user "{message.text}"'
        case AssistantMessage():
            calls = "".join(f"+{call.call_id}" for call in message.tool_calls)
            return f'assistant "{message.text}"{calls}'
        case ToolMessage():
            return f'result {message.call_id} {"err" if message.is_error else "ok"} "{message.text}"'
        case SummaryMessage():
            return f'summary "{message.text}" keeping {message.kept}'


def transcript(messages: Sequence[Message]) -> list[str]:
    """Return messages in the notation of the scripts."""
    return [said(message) for message in messages]


class Watched:
    """A session, its model, and all of its events so far."""

    def __init__(self, agent: Agent, session: Session) -> None:
        self.agent = agent
        self.session = session
        self.events: list[Event] = []
        session.on_any(self.events.append)

    @property
    def model(self) -> ScriptedModel:
        assert isinstance(self.agent.model, ScriptedModel)
        return self.agent.model

    @property
    def seen(self) -> list[str]:
        """Return the reference's events in the notation of the scripts."""
        return [shown(event) for event in self.events if not isinstance(event, ADDED)]

    @property
    def turn_end(self) -> TurnEnd:
        """Return the end of the last turn."""
        return [event for event in self.events if isinstance(event, TurnEnd)][-1]

    @property
    def error(self) -> ErrorEvent:
        """Return the only error."""
        [error] = [event for event in self.events if isinstance(event, ErrorEvent)]
        return error

    def prompt(self, number: int) -> list[str]:
        """Return the messages of the model call with this number, from 1."""
        return transcript(self.model.requests[number - 1].messages)

    async def stored(self) -> list[str]:
        """Return the content of the store."""
        return transcript(await self.agent.store.load(self.session.id))

    async def say(self, text: str) -> list[str]:
        """Send a text, wait until idle, and return the new events."""
        before = len(self.seen)
        self.session.send(text)
        await self.session.wait_for_idle()
        return self.seen[before:]


async def watched(
    *replies: Reply, tools: Sequence[ModelTool] = (BashTool,), gate: object = None, **options: object
) -> Watched:
    """Return a session of an agent whose model gives `replies`."""
    agent = Agent(ScriptedModel(list(replies)), tools=tools, **options)
    return Watched(agent, await agent.create_session(gate=gate))


class Slow:
    """A tool `slow` that signals its start and ends on request."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()

        @tool
        async def slow(ctx: ToolContext) -> str:
            """Wait."""
            self.started.set()
            await self.go_on.wait()
            return "done"

        self.tool = slow


def noted(ran: list[str], name: str = "note") -> ModelTool:
    """Return a tool that records each `text` of its calls."""

    @tool(name=name)
    async def note(text: str = "") -> str:
        """Note a text."""
        ran.append(text)
        return f"noted {text}"

    return note


async def until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until `condition` holds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - processes and plain lists set no event
            await asyncio.sleep(0)


def alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def pid_in(file: Path) -> int:
    """Return the process id that a command writes into `file`."""
    text = ""

    def written() -> bool:
        nonlocal text
        text = file.read_text() if file.exists() else ""
        return text.endswith("\n")

    await until(written)
    return int(text)
