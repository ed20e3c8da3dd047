"""Events that the reference does not have, and the stream of all events."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from interlock.engine.agents import (
    Agent,
    C,
    Event,
    ReasoningDelta,
    ScriptedModel,
    StatusEvent,
    T,
    TextDelta,
    ToolInputDelta,
    ToolProgress,
    TurnStart,
)

from ..script import Watched, noted, shown, watched


class TestAdded:
    """Events in addition to the reference: status, starts, reasoning."""

    async def test_added_events_surround_the_others(self) -> None:
        """Part 2: the added events surround those of the reference and do not change them."""
        reply = T("let me") + C(c1=("bash", {"command": "true"}))
        w = await watched(replace(reply, reasoning=("hm",)), T("Done"))
        await w.say("go")
        assert [shown(e) for e in w.events if not isinstance(e, ToolProgress)] == [
            "status busy",
            "turn_start",
            'user "go"',
            "step_start 1",
            'reasoning "hm"',
            'delta "let me"',
            'assistant "let me"+c1',
            "step(tool-calls,10,5)",
            "tool_call c1",
            'result c1 ok "(no output)"',
            "step_start 2",
            'delta "Done"',
            'assistant "Done"',
            "step(stop,10,5)",
            'turn_end("Done")',
            "status idle",
        ]
        assert not any("hm" in line for line in await w.stored())

    async def test_arguments_are_reported_as_written(self) -> None:
        """Section 9: the arguments that a model writes are reported before its calls are decided."""
        model = ScriptedModel(
            [T("so") + C(c1=("note", {"text": "x"}), c2=("note", "[1,")), T("ok")], input_delta=8
        )
        agent = Agent(model, tools=[noted([])])
        w = Watched(agent, await agent.create_session())
        await w.say("go")
        lines = [shown(e) for e in w.events]
        first = lines.index('delta "so"') + 1
        assert lines[first : first + 6] == [
            'input 0 note ""',
            'input 0 note "{"text":"',
            'input 0 note " "x"}"',
            'input 1 note ""',
            'input 1 note "[1,"',
            'assistant "so"+c1+c2',
        ]
        assert w.seen == (await self._whole()).seen

    @staticmethod
    async def _whole() -> Watched:
        """Return the same script without streaming of arguments."""
        replies = T("so") + C(c1=("note", {"text": "x"}), c2=("note", "[1,")), T("ok")
        w = await watched(*replies, tools=[noted([])])
        await w.say("go")
        return w

    async def test_abort_amid_arguments(self) -> None:
        """A-95: an incomplete call of an aborted run is dropped."""
        model = ScriptedModel([C(note={"text": "x"})], input_delta=1)
        ran: list[str] = []
        agent = Agent(model, tools=[noted(ran)])
        w = Watched(agent, await agent.create_session())
        w.session.on("tool_input_delta", lambda e: w.session.abort("enough"))
        await w.say("go")
        assert w.seen == ['user "go"', 'turn_end("")']
        assert (ran, await w.stored()) == ([], ['user "go"'])

    async def test_every_added_event_can_have_listeners(self) -> None:
        """Part 2: every added event can have listeners."""
        w = await watched(replace(T("x"), reasoning=("a", "b")))
        heard: list[str] = []
        for name in ("status", "turn_start", "step_start", "reasoning_delta"):
            w.session.on(name, lambda e: heard.append(shown(e)))
        await w.say("go")
        assert heard == [
            "status busy",
            "turn_start",
            "step_start 1",
            'reasoning "a"',
            'reasoning "b"',
            "status idle",
        ]

    async def test_session_is_not_idle_between_adjacent_runs(self) -> None:
        """Part 2: a session whose runs follow each other directly is not idle in between."""
        w = await watched(T("one"), T("two"))
        w.session.on("turn_end", lambda e: w.session.send("more") if e.text == "one" else None)
        await w.say("go")
        added = [shown(e) for e in w.events if isinstance(e, StatusEvent | TurnStart)]
        assert added == ["status busy", "turn_start", "turn_start", "status idle"]

    async def test_message_from_idle_listener_starts_a_run(self) -> None:
        """Part 2, A-82: a message sent when the session becomes idle starts a new run."""
        w = await watched(T("one"), T("two"))

        def again(event: StatusEvent) -> None:
            if event.status == "idle" and len(w.model.requests) == 1:
                w.session.send("more")

        w.session.on("status", again)
        await w.say("go")
        assert w.turn_end.text == "two"
        assert [e.status for e in w.events if isinstance(e, StatusEvent)] == ["busy", "idle"] * 2

    @pytest.mark.parametrize("name", ["status", "turn_start", "step_start", "reasoning_delta"])
    async def test_listener_that_raises(self, name: str) -> None:
        """A-32: a listener of an added event that raises also ends the run."""
        w = await watched(replace(T("x"), reasoning=("a",)), T("never"))

        def broken(event: Event) -> None:
            raise RuntimeError("broken")

        w.session.on(name, broken)
        w.session.send("go")
        with pytest.raises(RuntimeError, match="broken"):
            await w.session.wait_for_idle()
        assert w.seen == ['user "go"', "error(broken)"]
        assert w.session.status == "idle"
        w.session.off(name, broken)
        w.model.requests.clear()
        await w.say("again")
        assert w.prompt(1) == ['user "go"', 'user "again"']

    async def test_unreported_idle_status_fails_the_run(self) -> None:
        """A-32: a run whose idle status cannot be reported fails after its turn end."""
        w = await watched(T("x"))

        def broken(event: StatusEvent) -> None:
            if event.status == "idle":
                raise RuntimeError("broken")

        w.session.on("status", broken)
        w.session.send("go")
        with pytest.raises(RuntimeError, match="broken"):
            await w.session.wait_for_idle()
        assert w.seen[-2:] == ['turn_end("x")', "error(broken)"]


class TestStream:
    async def test_everything_in_order(self) -> None:
        """A stream gives every event in order and ends when the session closes."""
        w = await watched(C(bash={"command": "echo hi"}), T("ok"))
        stream = w.session.events()
        await w.say("go")
        await w.session.aclose()
        got = [event async for event in stream]
        assert [shown(e) for e in got] == [shown(e) for e in w.events]

    async def test_slow_reader_does_not_block_the_session(self) -> None:
        """A slow reader does not block the session; missed deltas are joined."""
        words = [f"{number} " for number in range(2000)]
        w = await watched(replace(T(*words), reasoning=tuple(words)))
        stream = w.session.events()
        await w.say("go")
        await w.session.aclose()
        got = [event async for event in stream]
        assert len(got) < 300
        assert "".join(e.delta for e in got if isinstance(e, TextDelta)) == "".join(words)
        assert "".join(e.delta for e in got if isinstance(e, ReasoningDelta)) == "".join(words)

    @pytest.mark.slow
    async def test_arguments_are_joined(self) -> None:
        """For a slow reader the arguments of each call are joined separately."""
        long = {"text": "x" * 1000}
        model = ScriptedModel([C(a=("note", long), b=("note", long)), T("ok")], input_delta=1)
        agent = Agent(model, tools=[noted([])])
        w = Watched(agent, await agent.create_session())
        stream = w.session.events()
        await w.say("go")
        await w.session.aclose()
        got = [event async for event in stream if isinstance(event, ToolInputDelta)]
        assert len(got) < 300
        for index in (0, 1):
            assert json.loads("".join(e.delta for e in got if e.index == index)) == long

    async def test_stream_of_closed_session_ends_at_once(self) -> None:
        """A stream of a closed session ends at once."""
        w = await watched()
        await w.session.aclose()
        assert [event async for event in w.session.events()] == []
