"""Closing sessions, and runs in an external worker."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path

import pytest

from interlock.engine.agents import Agent as InterlockAgent
from interlock.engine.agents import (
    AgentError,
    C,
    LocalRuntime,
    ScriptedModel,
    StatusEvent,
    T,
    TextDelta,
    TurnEnd,
)

from ..script import Slow, Watched, alive, pid_in, until, watched


class TestWaiting:
    async def test_cancelled_waiter_does_not_cancel_the_run(self) -> None:
        """A-97: cancelling a waiter does not cancel the run."""
        slow = Slow()
        w = await watched(C(slow={}), T("ok"), tools=[slow.tool])
        w.session.send("go")
        await slow.started.wait()
        waiter = asyncio.create_task(w.session.wait_for_idle())
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert w.session.status == "busy"
        slow.go_on.set()
        await w.session.wait_for_idle()
        assert w.turn_end.text == "ok"


class TestClosing:
    async def test_no_process_survives(self, tmp_path: Path) -> None:
        """A-97: leaving `async with` ends the run and its processes."""
        w = await watched(
            C(bash={"command": "echo $$ > pid; exec sleep 1000"}), runtime=LocalRuntime(tmp_path)
        )
        async with w.session:
            w.session.send("go")
            pid = await pid_in(tmp_path / "pid")
            assert alive(pid)
        assert w.session.status == "idle"
        assert w.session.closed
        await until(lambda: not alive(pid))
        assert w.turn_end.stop_reason == "aborted"

    async def test_background_processes_end_with_the_call(self, tmp_path: Path) -> None:
        """Background processes of a command end with its call."""
        w = await watched(
            C(bash={"command": "sleep 1000 > /dev/null 2>&1 & echo $! > pid"}),
            T("ok"),
            runtime=LocalRuntime(tmp_path),
        )
        await w.say("go")
        pid = await pid_in(tmp_path / "pid")
        await until(lambda: not alive(pid))

    async def test_twice(self) -> None:
        """Closing twice is allowed."""
        w = await watched(T("x"))
        await w.say("go")
        await w.session.aclose()
        await w.session.aclose()
        assert w.session.closed

    async def test_messages_during_turn_end_are_handed_back(self) -> None:
        """A-63: messages sent while the turn end is reported are handed back on close."""
        w = await watched(T("one"), T("never"))

        async def end(event: TurnEnd) -> None:
            w.session.send("more")
            w.session.send("and more", mode="queue")
            assert w.session.waiting == ("more", "and more")
            await w.session.aclose()

        w.session.on("turn_end", end)
        await w.say("go")
        last = w.events[-1]
        assert isinstance(last, StatusEvent)
        assert (last.status, last.undelivered) == ("idle", ("more", "and more"))
        assert (w.session.undelivered, w.session.waiting) == (("more", "and more"), ())
        assert len(w.model.requests) == 1

    async def test_message_for_unstarted_run_is_handed_back(self) -> None:
        """A-63: a message for the next run is handed back if the session closes before it begins."""
        w = await watched(T("one"), T("never"))
        closing: list[asyncio.Future[None]] = []

        def end(event: TurnEnd) -> None:
            w.session.send("more")
            asyncio.get_running_loop().call_soon(
                lambda: closing.append(asyncio.ensure_future(w.session.aclose()))
            )

        w.session.on("turn_end", end)
        await w.say("go")
        await closing[0]
        assert w.session.undelivered == ("more",)
        assert [e.undelivered for e in w.events if isinstance(e, StatusEvent)] == [(), ("more",)]

    async def test_listener_can_close_its_own_session(self) -> None:
        """A listener can close its own session."""
        w = await watched(T("a", "b"), T("never"))
        w.session.on("text_delta", lambda e: w.session.aclose())
        await w.say("go")
        assert w.seen[-1] == 'turn_end("a")'
        assert w.session.closed


class TestSpawn:
    """A run in an external worker."""

    def spawned(self) -> tuple[list[asyncio.Task[None]], object]:
        """Return a list of workers, and a `spawn` that fills it without telling the session."""
        workers: list[asyncio.Task[None]] = []

        def spawn(run: Coroutine[None, None, None]) -> str:
            workers.append(asyncio.get_running_loop().create_task(run))
            return "a worker"

        return workers, spawn

    async def session(self, *replies: object, tools: object, spawn: object) -> Watched:
        """Return a session whose runs are started by `spawn`."""
        agent = InterlockAgent(ScriptedModel(list(replies)), tools=tools)
        return Watched(agent, await agent.create_session(spawn=spawn))

    async def test_run_in_a_worker(self) -> None:
        """A run needs no task of the session itself."""
        workers, spawn = self.spawned()
        w = await self.session(T("ok"), tools=[], spawn=spawn)
        assert (await w.say("go"))[-1] == 'turn_end("ok")'
        assert len(workers) == 1

    async def test_cancelled_worker(self) -> None:
        """Cancelling the worker settles the session as aborted."""
        workers, spawn = self.spawned()
        slow = Slow()
        w = await self.session(C(c1=("slow", {})), tools=[slow.tool], spawn=spawn)
        w.session.send("go")
        await slow.started.wait()
        workers[0].cancel()
        await w.session.wait_for_idle()
        assert w.turn_end.stop_reason == "aborted"
        assert (await w.stored())[-1] == 'result c1 err "The operation was aborted"'
        with pytest.raises(asyncio.CancelledError):
            await workers[0]

    async def test_cancelled_before_it_starts(self) -> None:
        """Cancelling a worker before its first step also settles the session."""
        workers, spawn = self.spawned()
        w = await self.session(T("never"), tools=[], spawn=spawn)
        w.session.send("go")
        workers[0].cancel()
        await w.session.wait_for_idle()
        assert w.seen == ['user "go"', 'turn_end("")']

    async def test_cancelled_twice(self) -> None:
        """A tool that does not stop cannot hold a worker that is cancelled twice."""
        workers, spawn = self.spawned()
        stuck = asyncio.Event()

        async def hold(event: TextDelta) -> None:
            stuck.set()
            await asyncio.Event().wait()

        w = await self.session(T("a"), tools=[], spawn=spawn)
        w.session.on("text_delta", hold)
        w.session.send("go")
        await stuck.wait()
        workers[0].cancel()
        await asyncio.sleep(0)
        assert w.session.status == "busy"
        workers[0].cancel()
        await w.session.wait_for_idle()
        assert w.turn_end.stop_reason == "aborted"

    async def test_spawn_that_raises(self) -> None:
        """If a run cannot be started, the session stays idle and the sender gets the error."""

        def spawn(run: object) -> None:
            raise RuntimeError("no workers left")

        w = await self.session(T("x"), tools=[], spawn=spawn)
        with pytest.raises(RuntimeError, match="no workers left"):
            w.session.send("go")
        assert (w.session.status, w.session.undelivered) == ("idle", ())

    async def test_run_that_is_dropped(self) -> None:
        """A run that was never started fails for its waiters."""
        dropped: list[Coroutine[None, None, None]] = []
        w = await self.session(T("x"), tools=[], spawn=dropped.append)
        w.session.send("go")
        waiter = asyncio.create_task(w.session.wait_for_idle())
        await asyncio.sleep(0)
        dropped.pop().close()
        with pytest.raises(AgentError, match="was never started"):
            await waiter
        assert w.session.undelivered == ("go",)

    async def test_next_run_that_cannot_start(self) -> None:
        """A-63: messages for a run that could not start are handed back, and waiters return."""
        workers, spawn = self.spawned()

        def spawn_once(run: Coroutine[None, None, None]) -> object:
            if workers:
                raise RuntimeError("no workers left")
            return spawn(run)

        w = await self.session(T("one"), tools=[], spawn=spawn_once)

        def more(event: TurnEnd) -> None:
            w.session.send("more")
            w.session.send("and more", mode="queue")

        w.session.on("turn_end", more)
        w.session.send("go")
        with pytest.raises(AgentError, match="was never started"):
            await w.session.wait_for_idle()
        assert (w.session.status, w.session.waiting) == ("idle", ())
        assert sorted(w.session.undelivered) == ["and more", "more"]


class TestLoopThatShutsDown:
    def test_no_process_survives(self, tmp_path: Path) -> None:
        """A program that only ends its event loop leaves no process behind."""

        async def console() -> int:
            w = await watched(
                C(bash={"command": "echo $$ > pid; exec sleep 1000"}), runtime=LocalRuntime(tmp_path)
            )
            w.session.send("go")
            return await pid_in(tmp_path / "pid")

        pid = asyncio.run(console())
        asyncio.run(until(lambda: not alive(pid)))
