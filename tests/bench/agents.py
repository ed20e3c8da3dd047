"""Agent sessions without the model's own time: steps, many sessions at once, memory, long transcripts."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from interlock.app.console.app import InterlockConsole
from interlock.app.widgets.lists.transcript import Transcript
from interlock.engine.agents import Agent, C, Message, Reply, ScriptedModel, T, ToolContext, tool
from interlock.engine.history.model.state import CallState, SessionState, TranscriptEntry
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ..support.fake_hub import FakeHub

STEPS = 200
REPEATS = 5
SESSIONS = 100
IDLE = 200
MESSAGES = 5_000
RULES = "require look before work\nlimit work to 100000 per session\nblock rm"


@tool
async def work(ctx: ToolContext, number: int = 0) -> str:
    """Do nothing, quickly."""
    return "done"


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure steps: a model call, one tool call through the gate, and its result."""
    with tempfile.TemporaryDirectory() as folder:
        bare = [asyncio.run(_bare(STEPS)) for _ in range(REPEATS)]
        hosted = [asyncio.run(_hosted(Path(folder) / f"{n}.db", 1, STEPS)) for n in range(REPEATS)]
        yield "step without gate or journal", median(bare) / STEPS * 1000, "ms"
        yield "step with gate and journal", median(hosted) / STEPS * 1000, "ms"
        yield "of those steps' time, the hub's share", 1 - median(bare) / median(hosted), "ratio"
        many = asyncio.run(_hosted(Path(folder) / "many.db", SESSIONS, 10))
        alone = median(hosted) / STEPS
        yield f"{SESSIONS} sessions of 10 steps at once", many, "s"
        yield "a step there / a step alone", many / (SESSIONS * 10) / alone, "ratio"
        yield (
            "memory per idle session",
            asyncio.run(_idle_memory(Path(folder) / "idle.db")) / 1000,
            "KB (goal ≤ 100)",
        )
    ticks = asyncio.run(_busy_console())
    yield "console with 10 working sessions, a 10 ms tick, median", ticks[len(ticks) // 2] * 1000, "ms"
    yield "the same, slowest 1 %", ticks[len(ticks) * 99 // 100] * 1000, "ms"
    yield (
        f"transcript of {MESSAGES:,} messages opened",
        median(asyncio.run(_open_transcript()) for _ in range(REPEATS)) * 1000,
        "ms (goal ≤ 300)",
    )


def _model(steps: int) -> ScriptedModel:
    def reply(messages: Sequence[Message]) -> Reply:
        done = len(messages) // 2
        return C(work={"number": done}) if done < steps else T("finished")

    return ScriptedModel(reply)


async def _bare(steps: int) -> float:
    agent = Agent(_model(steps), tools=[work], max_steps=steps + 1)
    session = await agent.create_session()
    start = time.perf_counter()
    await session.prompt("go")
    return time.perf_counter() - start


async def _hosted(database: Path, sessions: int, steps: int) -> float:
    hub = Hub.open(database)
    registry = compile_rules(RULES).registry
    agent = Agent(_model(steps), tools=[work], max_steps=steps + 1)
    try:
        names = [
            await hub.open_session(
                agent, SessionConfig(registry, active=["limit-work-100000", "block-rm"])
            )
            for _ in range(sessions)
        ]
        start = time.perf_counter()
        await asyncio.gather(*(hub.send(name, "go") for name in names))
        await asyncio.gather(*(hub.wait(name) for name in names))
        return time.perf_counter() - start
    finally:
        await hub.close()


async def _idle_memory(database: Path) -> float:
    """Return the bytes per idle session, as allocated by Python."""
    hub = Hub.open(database)
    registry = compile_rules(RULES).registry
    agent = Agent(_model(1), tools=[work])
    for _ in range(10):
        await hub.open_session(agent, SessionConfig(registry))
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(IDLE):
            await hub.open_session(agent, SessionConfig(registry))
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / IDLE
    finally:
        tracemalloc.stop()
        await hub.close()


async def _busy_console() -> list[float]:
    """Return the durations of a 10 ms sleep while ten agents stream, call tools and are painted.

    They are sorted.
    """

    def reply(messages: Sequence[Message]) -> Reply:
        return T(*(f"word {n} of many " for n in range(20))) + C(work={"number": len(messages)})

    agent = Agent(ScriptedModel(reply, delay=0.02), tools=[work], max_steps=1_000)
    registry = compile_rules(RULES).registry

    async def start(hub: Hub) -> None:
        for number in range(10):
            session = await hub.open_session(
                agent,
                SessionConfig(registry, active=["limit-work-100000", "block-rm"]),
                session_id=f"agent-{number}",
            )
            await hub.send(session, "go")

    ticks: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        hub = Hub.open(Path(folder) / "busy.db")
        app = InterlockConsole(hub, operator="bench", start=start)
        async with app.run_test(size=(120, 40)):
            await asyncio.sleep(2)
            end = time.perf_counter() + 6
            while (begun := time.perf_counter()) < end:
                await asyncio.sleep(0.01)
                ticks.append(time.perf_counter() - begun)
        await hub.close()
    return sorted(ticks)


async def _open_transcript() -> float:
    """Return the time from choosing a long session in the running console until its end is painted."""
    now = datetime.now(UTC)
    entries: list[TranscriptEntry] = []
    for number in range(MESSAGES // 2):
        call = CallState(
            call_id=f"c{number}",
            tool="bash",
            input={"command": f"make step-{number}"},
            at=now,
            status="done",
            outcome="allow",
            names=("bash",),
            output=f"line {number}\n" * 5,
            seconds=0.1,
        )
        text = f"Step {number}: this takes a sentence or two, as agents like to explain what they do."
        entries.append(TranscriptEntry(at=now, kind="assistant", text=text))
        entries.append(TranscriptEntry(at=now, kind="call", call=call))
    long = SessionState(id="long", agent="long", status="idle", transcript=entries)
    short = SessionState(id="short", agent="short", status="idle")
    app = InterlockConsole(FakeHub(short, long, now=now), operator="bench", clock=lambda: now)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.3)
        transcript = app.screen.query_one("#transcript", Transcript)
        app.screen.query_one("#sessions").focus()
        await pilot.pause(0.1)
        start = time.perf_counter()
        await pilot.press("j")
        for _ in range(10_000):
            if len(transcript.blocks) == MESSAGES and transcript.scroll_offset.y > 0:
                break
            await asyncio.sleep(0)
        else:
            raise TimeoutError("the transcript did not come to its end")
        app.screen._compositor.render_strips()
        return time.perf_counter() - start
