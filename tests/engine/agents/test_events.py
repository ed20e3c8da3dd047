"""The events of a session and their order."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import ValidationError

from interlock.engine.agents import (
    ERR,
    AbortSignal,
    C,
    Event,
    LocalRuntime,
    LoopConfig,
    MessageEvent,
    Reply,
    ScriptedModel,
    StepEvent,
    T,
    TextDelta,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
    TurnEnd,
    Usage,
    UserMessage,
    loop,
)

from .script import ADDED, noted, transcript, watched


class TestTurnOfText:
    async def test_order_and_store(self) -> None:
        """A-20: user message, deltas, assistant message, step, turn end; the store has both messages."""
        w = await watched(T("Hel", "lo"))
        assert await w.say("Hi") == [
            'user "Hi"',
            'delta "Hel"',
            'delta "lo"',
            'assistant "Hello"',
            "step(stop,10,5)",
            'turn_end("Hello")',
        ]
        assert transcript(w.turn_end.messages) == ['user "Hi"', 'assistant "Hello"']
        assert await w.stored() == ['user "Hi"', 'assistant "Hello"']

    async def test_raw_loop(self) -> None:
        """A-21: the raw loop yields deltas, the assistant's message and the step."""
        config = LoopConfig(model=ScriptedModel([T("Hel", "lo")]), runtime=LocalRuntime())
        seen = [event async for event in loop([UserMessage(text="Hi")], config)]
        assert [type(event) for event in seen] == [TextDelta, TextDelta, MessageEvent, StepEvent]

    async def test_given_list_is_not_changed(self) -> None:
        """A-12: the loop does not change the given list."""
        config = LoopConfig(model=ScriptedModel([T("Hello")]), runtime=LocalRuntime())
        given = [UserMessage(text="Hi")]
        assert len([event async for event in loop(given, config)]) == 3
        assert given == [UserMessage(text="Hi")]

    async def test_raw_loop_that_is_aborted(self) -> None:
        """A-93: if the signal is already set, the loop yields nothing."""
        stop = AbortSignal()
        stop.abort()
        model = ScriptedModel([T("never")])
        config = LoopConfig(model=model, runtime=LocalRuntime())
        assert [event async for event in loop([UserMessage(text="Hi")], config, stop)] == []
        assert model.requests == []

    async def test_empty_reply(self) -> None:
        """A-28: a reply without text or calls is a step without a message."""
        w = await watched(Reply(), T("now"))
        assert await w.say("Hi") == ['user "Hi"', "step(stop,10,5)", 'turn_end("")']
        assert await w.stored() == ['user "Hi"']
        await w.say("again")
        assert w.prompt(2) == ['user "Hi"', 'user "again"']

    async def test_lone_surrogates(self) -> None:
        """Text with lone surrogates does not break the run."""
        w = await watched(T("a\ud800b"))
        assert (await w.say("\udfff"))[2] == 'assistant "a?b"'


class TestTurnWithTools:
    async def test_order(self) -> None:
        """A-22: calls come after the step, results after the calls, and the model gets the results."""
        w = await watched(T("let me") + C(c1=("bash", {"command": "echo hi"})), T("Done"))
        assert await w.say("go") == [
            'user "go"',
            'delta "let me"',
            'assistant "let me"+c1',
            "step(tool-calls,10,5)",
            "tool_call c1",
            'result c1 ok "hi\n"',
            'delta "Done"',
            'assistant "Done"',
            "step(stop,10,5)",
            'turn_end("Done")',
        ]
        assert w.prompt(2) == ['user "go"', 'assistant "let me"+c1', 'result c1 ok "hi\n"']

    async def test_payload(self) -> None:
        """A-23: a call has id, name and arguments; a result has id, name, text and error flag."""
        w = await watched(C(bash={"command": "echo hi"}), T("Done"))
        await w.say("go")
        [call] = [e for e in w.events if isinstance(e, ToolCallEvent)]
        assert (call.call_id, call.name, call.args) == ("call-1", "bash", {"command": "echo hi"})
        [result] = [e for e in w.events if isinstance(e, ToolResultEvent)]
        assert (result.call_id, result.name, result.result, result.is_error) == (
            "call-1",
            "bash",
            "hi\n",
            False,
        )

    async def test_messages_of_the_turn(self) -> None:
        """A-24: `message` fires for user and assistant only; the turn end also has tool messages."""
        w = await watched(T("first"), C(c1=("bash", {"command": "true"})), T("second"))
        await w.say("one")
        await w.say("two")
        roles = [e.message.role for e in w.events if isinstance(e, MessageEvent)]
        assert roles == ["user", "assistant", "user", "assistant", "assistant"]
        assert transcript(w.turn_end.messages) == [
            'user "two"',
            'assistant ""+c1',
            'result c1 ok "(no output)"',
            'assistant "second"',
        ]

    async def test_text_of_the_turn(self) -> None:
        """A-25: the turn's text is that of the last reply, empty if it has only calls."""
        w = await watched(
            T("let me") + C(bash={"command": "true"}), C(bash={"command": "true"}), max_steps=2
        )
        await w.say("go")
        assert w.turn_end.text == ""

    async def test_one_turn_end(self) -> None:
        """A-26: a run has one turn end for any number of queued messages."""
        w = await watched(T("A"), T("B"), T("C"), send_mode="queue")
        for text in ("1", "2", "3"):
            w.session.send(text)
        await w.session.wait_for_idle()
        assert [e.text for e in w.events if isinstance(e, TurnEnd)] == ["C"]

    async def test_calls_before_results(self) -> None:
        """A-50: all calls of a step are decided before any of its results is reported."""
        ran: list[str] = []
        w = await watched(C(c1=("note", {}), c2=("note", {})), T("ok"), tools=[noted(ran)])
        kinds = [line.split()[0] for line in await w.say("go")]
        assert [k for k in kinds if k in ("tool_call", "result")] == [
            "tool_call",
            "tool_call",
            "result",
            "result",
        ]

    async def test_progress(self) -> None:
        """Output of a running tool is reported between its call and its result."""
        w = await watched(C(bash={"command": "echo one; echo two"}), T("ok"))
        await w.say("go")
        kinds = [e.type for e in w.events]
        inside = kinds[kinds.index("tool_call") + 1 : kinds.index("tool_result")]
        assert set(inside) == {"tool_progress"}
        assert "".join(e.text for e in w.events if isinstance(e, ToolProgress)) == "one\ntwo\n"


class TestStep:
    async def test_usage(self) -> None:
        """A-27: a step has its tokens and reason, and the session sums up the tokens."""
        w = await watched(Reply(deltas=("x",), finish="length", usage=Usage(input=3)), T("y"))
        assert "step(length,3,0)" in await w.say("a")
        await w.say("b")
        assert w.session.usage == Usage(input=13, output=5)


class TestListening:
    async def test_removed_listener_gets_no_events(self) -> None:
        """A-29: a removed listener gets no more events; `on` and `off` return the session."""
        w = await watched(T("one"), T("two"))
        heard: list[str] = []

        def listener(event: TextDelta) -> None:
            heard.append(event.delta)

        assert w.session.on("text_delta", listener) is w.session
        await w.say("a")
        assert w.session.off("text_delta", listener) is w.session
        w.session.off("text_delta", listener)
        await w.say("b")
        assert heard == ["one"]

    async def test_registered_twice(self) -> None:
        """A-29: a function registered twice for one event is called once."""
        w = await watched(T("one"))
        heard: list[str] = []

        @w.session.on("text_delta")
        def listener(event: TextDelta) -> None:
            heard.append(event.delta)

        w.session.on("text_delta", listener)
        await w.say("a")
        assert heard == ["one"]

    async def test_unknown_event(self) -> None:
        """A misspelt event name is an error."""
        w = await watched()
        with pytest.raises(ValueError, match="unknown event 'tool_calls'"):
            w.session.on("tool_calls", print)

    async def test_listeners_are_awaited_in_order(self) -> None:
        """A-30: listeners are awaited in order, and the loop waits for them."""
        w = await watched(T("a", "b"))
        steps: list[str] = []

        async def first(event: TextDelta) -> None:
            steps.append(f"first {event.delta}")
            await asyncio.sleep(0.01)
            steps.append(f"first {event.delta} done")

        w.session.on("text_delta", first)
        w.session.on("text_delta", lambda e: steps.append(f"second {e.delta}"))
        await w.say("go")
        assert steps == [
            "first a",
            "first a done",
            "second a",
            "first b",
            "first b done",
            "second b",
        ]

    async def test_only_tool_call_listeners_values_have_effect(self) -> None:
        """A-31: only return values of `tool_call` listeners have an effect."""
        w = await watched(C(bash={"command": "echo hi"}), T("ok"))
        for name in ("text_delta", "message", "tool_result", "step", "turn_end"):
            w.session.on(name, lambda event: {"deny": "no"})
        assert 'result call-1 ok "hi\n"' in await w.say("go")

    async def test_observers_first(self) -> None:
        """An observer gets every event in order, before the listeners of its type."""
        w = await watched(T("a"), T("b"))
        order: list[str] = []
        w.session.on("text_delta", lambda e: order.append("listener"))

        def observer(event: Event) -> None:
            if not isinstance(event, ADDED):
                order.append(event.type)

        assert w.session.on_any(observer) is w.session
        await w.say("go")
        assert order == ["message", "text_delta", "listener", "message", "step", "turn_end"]
        w.session.off_any(observer)
        await w.say("again")
        assert order[6:] == ["listener"]

    async def test_events_are_copies(self) -> None:
        """A-9: changes that a listener makes to a message reach neither the store nor the next prompt."""
        w = await watched(C(c1=("bash", {"command": "echo hi"})), T("ok"))

        def change(event: MessageEvent) -> None:
            for call in getattr(event.message, "tool_calls", ()):
                call.args["command"] = "echo changed"

        w.session.on("message", change)
        assert 'result c1 ok "hi\n"' in await w.say("go")
        call = w.session.messages[1].tool_calls[0]
        call.args["command"] = "echo changed"
        stored = await w.agent.store.load(w.session.id)
        assert stored[1].tool_calls[0].args == {"command": "echo hi"}
        assert w.session.messages[1].tool_calls[0].args == {"command": "echo hi"}
        assert w.model.requests[1].messages[1].tool_calls[0].args == {"command": "echo hi"}

    async def test_events_are_frozen(self) -> None:
        """Events and messages are immutable."""
        with pytest.raises(ValidationError):
            TextDelta(delta="a").delta = "b"


class TestListenerThatRaises:
    async def test_ends_the_run(self) -> None:
        """A-32: the run ends with the listener's exception, and every call has a result."""
        w = await watched(C(c1=("bash", {"command": "true"}), c2=("bash", {"command": "true"})), T("ok"))

        def broken(event: ToolCallEvent) -> None:
            raise KeyError("listener broke")

        w.session.on("tool_call", broken)
        w.session.send("go")
        with pytest.raises(KeyError, match="listener broke"):
            await w.session.wait_for_idle()
        assert isinstance(w.error.error, KeyError)
        reason = "Tool call not executed: 'listener broke'"
        assert await w.stored() == [
            'user "go"',
            'assistant ""+c1+c2',
            f'result c1 err "{reason}"',
            f'result c2 err "{reason}"',
        ]
        w.session.off("tool_call", broken)
        assert (await w.say("again"))[-1] == 'turn_end("ok")'

    async def test_results_of_finished_tools_are_kept(self) -> None:
        """A-32: results of tools that ran are kept unchanged."""
        ran: list[str] = []
        w = await watched(
            C(c1=("note", {"text": "1"}), c2=("note", {"text": "2"})), T("ok"), tools=[noted(ran)]
        )

        def broken(event: ToolResultEvent) -> None:
            raise RuntimeError("no")

        w.session.on("tool_result", broken)
        w.session.send("go")
        with pytest.raises(RuntimeError, match="no"):
            await w.session.wait_for_idle()
        assert (await w.stored())[2:] == ['result c1 ok "noted 1"', 'result c2 ok "noted 2"']
        assert len(w.model.requests) == 1

    async def test_raising_observer_prevents_the_call(self) -> None:
        """A-32: an observer that raises on a call prevents the tool from running."""
        ran: list[str] = []
        w = await watched(C(note={"text": "1"}), T("ok"), tools=[noted(ran)])

        def broken(event: object) -> None:
            if getattr(event, "type", None) == "tool_call":
                raise RuntimeError("cannot record")

        w.session.on_any(broken)
        w.session.send("go")
        with pytest.raises(RuntimeError, match="cannot record"):
            await w.session.wait_for_idle()
        assert ran == []

    async def test_raising_turn_end_listener_fails_the_run(self) -> None:
        """A-32: a run fails if a listener of its end raises."""
        w = await watched(T("x"))

        def broken(event: TurnEnd) -> None:
            raise RuntimeError("no end")

        w.session.on("turn_end", broken)
        w.session.send("go")
        with pytest.raises(RuntimeError, match="no end"):
            await w.session.wait_for_idle()
        assert w.seen[-2:] == ['turn_end("x")', "error(no end)"]

    async def test_raising_error_listener_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """A-33: an error listener that raises is logged, and the session settles."""
        w = await watched(ERR("boom"), T("ok"))

        def broken(event: object) -> None:
            raise RuntimeError("worse")

        w.session.on("error", broken)
        w.session.send("go")
        with pytest.raises(RuntimeError, match="boom"):
            await w.session.wait_for_idle()
        assert w.session.status == "idle"
        assert "worse" in caplog.text
        assert (await w.say("again"))[-1] == 'turn_end("ok")'


class TestNames:
    async def test_repeated_ids_become_unique(self) -> None:
        """Calls of a model that restarts its numbering in each reply get unique ids."""
        w = await watched(
            C(c1=("bash", {"command": "echo 1"})), C(c1=("bash", {"command": "echo 2"})), T("ok")
        )
        seen = await w.say("go")
        assert 'result c1 ok "1\n"' in seen
        assert 'result c1-2 ok "2\n"' in seen

    async def test_missing_id_is_added(self) -> None:
        """Calls without an id each get one."""
        w = await watched(C(bash={"command": "echo 1"}) + C(bash={"command": "echo 2"}), T("ok"))
        seen = await w.say("go")
        assert 'result call-1 ok "1\n"' in seen
        assert 'result call-2 ok "2\n"' in seen
