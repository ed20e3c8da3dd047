"""Stopping a run: nothing starts afterwards, nothing survives, and it is not an error."""

from __future__ import annotations

import asyncio
from pathlib import Path

from interlock.engine.agents import (
    AbortSignal,
    C,
    LocalRuntime,
    ScriptedModel,
    T,
    ToolCallEvent,
    TurnEnd,
    tool,
)
from interlock.engine.agents import Agent as InterlockAgent

from ..script import Slow, Watched, alive, noted, pid_in, until, watched


class TestBeforeAnything:
    async def test_signal_already_set(self) -> None:
        """A-93: the message is stored, the model is not called, and waiting returns."""
        w = await watched(T("never"))
        stop = AbortSignal()
        stop.abort("enough")
        w.session.send("go", abort=stop)
        await w.session.wait_for_idle()
        assert w.seen == ['user "go"', 'turn_end("")']
        assert await w.stored() == ['user "go"']
        assert (w.turn_end.stop_reason, w.turn_end.reason) == ("aborted", "enough")

    async def test_signal_of_the_first_message(self) -> None:
        """A-85: the signal given with the first message stops the run; a later one's is ignored."""
        slow = Slow()
        w = await watched(C(slow={}), T("never"), tools=[slow.tool])
        first, later = AbortSignal(), AbortSignal()
        w.session.send("go", abort=first)
        await slow.started.wait()
        w.session.send("more", mode="queue", abort=later)
        later.abort()
        await asyncio.sleep(0)
        assert w.session.status == "busy"
        first.abort()
        await w.session.wait_for_idle()
        assert w.turn_end.stop_reason == "aborted"

    async def test_aborting_when_idle_has_no_effect(self) -> None:
        """Aborting an idle session does not affect the next run."""
        w = await watched(T("fine"))
        w.session.abort("x")
        assert (await w.say("go"))[-1] == 'turn_end("fine")'


class TestWhileAToolRuns:
    async def test_run_ends_without_error(self) -> None:
        """A-94: the tool's result says so, the turn ends, and the model is not called again."""
        slow = Slow()
        w = await watched(C(c1=("slow", {})), T("never"), tools=[slow.tool])
        w.session.send("go")
        await slow.started.wait()
        w.session.abort()
        await w.session.wait_for_idle()
        assert w.seen[-2:] == ['result c1 err "The operation was aborted"', 'turn_end("")']
        assert len(w.model.requests) == 1
        assert (await w.stored())[-1] == 'result c1 err "The operation was aborted"'

    async def test_process_group_is_killed(self, tmp_path: Path) -> None:
        """A-94, A-104: the command's process group has ended when the session is idle."""
        command = "sh -c 'echo $$ > child; exec sleep 1000' & echo $$ > parent; wait"
        w = await watched(C(bash={"command": command}), runtime=LocalRuntime(tmp_path))
        w.session.send("go")
        pids = [await pid_in(tmp_path / "child"), await pid_in(tmp_path / "parent")]
        assert all(alive(pid) for pid in pids)
        w.session.abort()
        await w.session.wait_for_idle()
        await until(lambda: not any(alive(pid) for pid in pids))
        assert w.turn_end.stop_reason == "aborted"

    async def test_tool_that_aborts_its_own_run(self) -> None:
        """A-94: a tool that aborts its own run and returns keeps its result."""

        @tool
        async def give_up() -> str:
            """Stop everything."""
            w.session.abort("the tool gave up")
            return "stopped"

        w = await watched(C(c1=("give_up", {})), T("never"), tools=[give_up])
        assert 'result c1 ok "stopped"' in await w.say("go")
        assert w.turn_end.reason == "the tool gave up"

    async def test_waiting_messages_are_handed_back(self) -> None:
        """A-63: waiting messages are handed back; a message after the abort starts a new run."""
        slow = Slow()
        w = await watched(C(slow={}), T("hello"), tools=[slow.tool])
        w.session.send("go")
        await slow.started.wait()
        w.session.send("before", mode="queue")
        w.session.abort()
        w.session.send("after")
        await w.session.wait_for_idle()
        [first, second] = [e for e in w.events if e.type == "turn_end"]
        assert (first.undelivered, first.stop_reason) == (("before",), "aborted")
        assert (second.text, second.stop_reason) == ("hello", "completed")
        assert w.prompt(2)[-1] == 'user "after"'


class TestWhileTheEndIsTold:
    async def test_message_by_turn_end_listener_is_stored(self) -> None:
        """A-63, A-82: a message by a turn end listener that is then aborted is stored, not answered."""
        w = await watched(T("one"), T("never"))

        def more(event: TurnEnd) -> None:
            if event.text == "one":
                w.session.send("more")
                w.session.send("and more", mode="queue")
                w.session.abort("changed my mind")

        w.session.on("turn_end", more)
        await w.say("go")
        assert (await w.stored())[-1] == 'user "more"'
        assert w.turn_end.stop_reason == "aborted"
        assert w.turn_end.reason == "changed my mind"
        assert w.turn_end.undelivered == ("and more",)
        assert len(w.model.requests) == 1


class TestWhileTheModelSpeaks:
    async def test_partial_text_is_kept(self) -> None:
        """A-95: the shown text is stored, calls are dropped, and waiting returns."""
        w = await watched(T("a", "b") + C(c1=("bash", {"command": "true"})), T("ok"))
        w.session.on("text_delta", lambda e: w.session.abort("stop") if e.delta == "a" else None)
        seen = await w.say("go")
        assert seen == ['user "go"', 'delta "a"', 'assistant "a"', 'turn_end("a")']
        assert await w.stored() == ['user "go"', 'assistant "a"']
        assert w.turn_end.stop_reason == "aborted"
        assert w.turn_end.reason == "stop"

    async def test_silent_models_stream_is_closed(self) -> None:
        """A-95: a silent model's stream is closed, and nothing of it is stored."""
        left = asyncio.Event()
        entered = asyncio.Event()

        class Hangs(ScriptedModel):
            async def stream(self, request):
                entered.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    left.set()
                yield

        agent = InterlockAgent(Hangs([]))
        w = Watched(agent, await agent.create_session())
        w.session.send("go")
        await entered.wait()
        w.session.abort()
        await w.session.wait_for_idle()
        assert left.is_set()
        assert w.seen == ['user "go"', 'turn_end("")']


class TestWhileACallIsDecided:
    async def test_undecided_and_unstarted_calls_are_aborted(self) -> None:
        """A-96: the decision is withdrawn; decided, undecided and unstarted calls get `Aborted`."""
        ran: list[str] = []
        w = await watched(
            C(c1=("note", {}), c2=("note", {}), c3=("note", {})), T("never"), tools=[noted(ran)]
        )
        asked = asyncio.Event()

        async def person(event: ToolCallEvent) -> None:
            if event.call_id == "c2":
                asked.set()
                await asyncio.Event().wait()

        w.session.on("tool_call", person)
        w.session.send("go")
        await asked.wait()
        w.session.abort()
        await w.session.wait_for_idle()
        assert w.seen[3:] == [
            "tool_call c1",
            "tool_call c2",
            'result c1 err "Aborted"',
            'result c2 err "Aborted"',
            'result c3 err "Aborted"',
            'turn_end("")',
        ]
        assert ran == []
        assert len(w.model.requests) == 1
