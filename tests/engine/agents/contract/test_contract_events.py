"""The contract's events: the exact examples, and each clause with a case that could break it."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine.agents import (
    C,
    ErrorEvent,
    Event,
    InMemorySessionStore,
    LocalRuntime,
    LoopConfig,
    Message,
    MessageEvent,
    Reply,
    ScriptedModel,
    T,
    TextDelta,
    ToolResultEvent,
    TurnEnd,
    Usage,
    UserMessage,
    loop,
)
from interlock.engine.agents.models.openai_format import ReplyPart, ReplyReader

from ..script import noted, transcript, watched

REFERENCE = ("text_delta", "message", "tool_call", "tool_result", "step", "turn_end")


def finish_of(*parts: dict[str, object]) -> object:
    """Return the end of a reply that a provider streams in these parts."""
    reader = ReplyReader()
    for part in parts:
        list(reader.read(ReplyPart.model_validate(part)))
    return list(reader.end())[-1]


class TestExactExamples:
    async def test_text_in_the_raw_loop(self) -> None:
        """A-21: the raw loop yields the assistant's message, but never the user's."""
        config = LoopConfig(model=ScriptedModel([T("Hel", "lo")]), runtime=LocalRuntime())
        events = [e async for e in loop([UserMessage(text="Hi")], config)]
        assert [e.type for e in events] == ["text_delta", "text_delta", "message", "step"]
        assert [transcript([e.message]) for e in events if isinstance(e, MessageEvent)] == [
            ['assistant "Hello"']
        ]

    async def test_turn_with_a_tool(self) -> None:
        """A-22, A-24: the turn end has its four messages in order, and the store has the same."""
        w = await watched(T("let me") + C(c1=("bash", {"command": "echo hi"})), T("Done"))
        await w.say("go")
        four = ['user "go"', 'assistant "let me"+c1', 'result c1 ok "hi\n"', 'assistant "Done"']
        assert transcript(w.turn_end.messages) == four
        assert await w.stored() == four
        assert w.turn_end.text == "Done"

    async def test_payload_of_a_failure(self) -> None:
        """A-23: an error result has the flag besides its id, name and text."""
        w = await watched(C(c1=("bash", {"command": "true"})), T("ok"))
        w.session.on("tool_call", lambda e: {"deny": "blocked"})
        await w.say("go")
        [result] = [e for e in w.events if isinstance(e, ToolResultEvent)]
        assert (result.call_id, result.name, result.result, result.is_error) == (
            "c1",
            "bash",
            "blocked",
            True,
        )

    async def test_text_of_an_empty_last_reply(self) -> None:
        """A-25, A-28: an empty last reply leaves the turn's text empty, whatever came before."""
        w = await watched(T("let me") + C(c1=("bash", {"command": "true"})), Reply())
        await w.say("go")
        assert w.turn_end.text == ""
        assert (await w.stored())[-1] == 'result c1 ok "(no output)"'

    async def test_run_with_all_kinds_of_messages_has_one_turn_end(self) -> None:
        """A-26: a run with steering and queued messages has one turn end, after the last reply."""
        w = await watched(T("A"), T("B"), T("C"))
        w.session.send("1")
        w.session.send("2", mode="queue")
        w.session.on("text_delta", lambda e: w.session.steer("3") if e.delta == "A" else None)
        await w.session.wait_for_idle()
        assert [s for s in w.seen if s.startswith(("user", "turn_end"))] == [
            'user "1"',
            'user "3"',
            'user "2"',
            'turn_end("C")',
        ]
        assert len(w.turn_end.messages) == 6


class TestStep:
    @pytest.mark.parametrize(
        ("counts", "usage"),
        [
            ({"prompt_tokens": 3}, Usage(input=3)),
            ({"completion_tokens": 4}, Usage(output=4)),
            ({"prompt_tokens": None, "completion_tokens": None}, Usage()),
        ],
    )
    def test_missing_token_counts_are_zero(self, counts: dict[str, int | None], usage: Usage) -> None:
        """A-27: a count that a provider leaves out is 0, and the other one is kept."""
        text = {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}
        assert finish_of(text, {"choices": [], "usage": counts}).usage == usage

    def test_error_is_a_reason(self) -> None:
        """A-27: the reason `error` is kept, and a reason without a unified name is `other`."""
        reasons = [
            finish_of({"choices": [{"delta": {"content": "x"}, "finish_reason": given}]}).reason
            for given in ("error", "function_call", "whatever")
        ]
        assert reasons == ["error", "tool-calls", "other"]

    @pytest.mark.parametrize(
        "reason", ["stop", "tool-calls", "length", "content-filter", "error", "other"]
    )
    async def test_step_has_its_reason(self, reason: str) -> None:
        """A-27: the step has every reason."""
        w = await watched(Reply(deltas=("x",), finish=reason))
        assert f"step({reason},10,5)" in await w.say("go")


class TestStoredBeforeTold:
    async def test_messages_are_stored_before_reported(self) -> None:
        """A-11: a message is reported only after even a slow store has it, and then at once."""
        happened: list[str] = []

        class Slow(InMemorySessionStore):
            async def append(self, session_id: str, message: Message) -> None:
                happened.append(f"begin {message.role}")
                for _ in range(5):
                    await asyncio.sleep(0)
                await super().append(session_id, message)
                happened.append(f"stored {message.role}")

        w = await watched(C(note={}), T("ok"), tools=[noted([])], store=Slow())

        def told(event: Event) -> None:
            if isinstance(event, MessageEvent):
                happened.append(f"told {event.message.role}")
            if isinstance(event, ToolResultEvent):
                happened.append("told tool")

        w.session.on_any(told)
        await w.say("go")
        assert happened == [
            f"{what} {role}"
            for role in ("user", "assistant", "tool", "assistant")
            for what in ("begin", "stored", "told")
        ]

    @pytest.mark.parametrize("role", ["user", "assistant", "tool"])
    async def test_store_that_raises(self, role: str) -> None:
        """A-11: if any message cannot be stored, there is one error, which waiting raises."""

        class Full(InMemorySessionStore):
            async def append(self, session_id: str, message: Message) -> None:
                if message.role == role:
                    raise OSError("disk full")
                await super().append(session_id, message)

        w = await watched(C(note={}), T("ok"), tools=[noted([])], store=Full())
        w.session.send("go")
        with pytest.raises(OSError, match="disk full"):
            await w.session.wait_for_idle()
        assert isinstance(w.error.error, OSError)
        assert not any(isinstance(e, TurnEnd) for e in w.events)
        told = {s.split()[0] for s in w.seen}
        assert {"user": "user", "assistant": "assistant", "tool": "result"}[role] not in told
        assert role not in [m.role for m in w.session.messages]


class TestListening:
    async def test_one_function_for_several_events(self) -> None:
        """A-29: a function counts once per event; removing it from one event leaves the others."""
        w = await watched(T("one"), T("two"))
        heard: list[str] = []

        def listener(event: Event) -> None:
            heard.append(event.type)

        w.session.on("text_delta", listener).on("step", listener).on("step", listener)
        await w.say("a")
        assert heard == ["text_delta", "step"]
        w.session.off("text_delta", listener)
        await w.say("b")
        assert heard == ["text_delta", "step", "step"]

    async def test_returned_value_does_not_stop_later_listeners(self) -> None:
        """A-31: a returned value does not stop later listeners of any event but `tool_call`."""
        w = await watched(T("let me") + C(c1=("bash", {"command": "echo hi"})), T("ok"))
        heard: list[str] = []
        for name in REFERENCE:
            if name != "tool_call":
                w.session.on(name, lambda e: {"deny": "no", "args": {}})
                w.session.on(name, lambda e: heard.append(e.type))
        assert 'result c1 ok "hi\n"' in await w.say("go")
        assert heard == [e.type for e in w.events if e.type in REFERENCE and e.type != "tool_call"]

    @pytest.mark.parametrize("name", [n for n in REFERENCE if n != "tool_call"])
    async def test_waiting_listener_blocks_later_events(self, name: str) -> None:
        """A-30: while a listener of any event waits, no later event is reported and nothing is stored."""
        w = await watched(T("let me") + C(c1=("bash", {"command": "echo hi"})), T("ok"))
        meanwhile: list[tuple[int, int]] = []

        async def listener(event: Event) -> None:
            before = (len(w.events), len(w.session.messages))
            for _ in range(30):
                await asyncio.sleep(0)
            after = (len(w.events), len(w.session.messages))
            meanwhile.append((after[0] - before[0], after[1] - before[1]))

        w.session.on(name, listener)
        await w.say("go")
        assert meanwhile
        assert set(meanwhile) == {(0, 0)}

    async def test_listeners_of_calls_are_awaited(self) -> None:
        """A-30: listeners of a call are awaited one after another before its tool starts."""
        order: list[str] = []
        w = await watched(C(note={"text": "ran"}), T("ok"), tools=[noted(order)])

        async def slow(event: Event) -> None:
            order.append("first")
            for _ in range(10):
                await asyncio.sleep(0)
            order.append("first done")

        w.session.on("tool_call", slow)
        w.session.on("tool_call", lambda e: order.append("second"))
        await w.say("go")
        assert order == ["first", "first done", "second", "ran"]


class TestListenerThatRaises:
    @pytest.mark.parametrize("name", REFERENCE)
    async def test_listener_of_any_event_ends_the_run(self, name: str) -> None:
        """A-32: the run ends with the exception as its only error, and every call has a result."""
        ran: list[str] = []
        w = await watched(
            T("let me") + C(c1=("note", {"text": "1"}), c2=("note", {"text": "2"})),
            T("ok"),
            tools=[noted(ran)],
        )
        broke = RuntimeError("listener broke")

        async def broken(event: Event) -> None:
            # Not for the first message, because a call must exist.
            if getattr(getattr(event, "message", None), "role", "") != "user":
                raise broke

        w.session.on(name, broken)
        w.session.send("go")
        with pytest.raises(RuntimeError, match="listener broke") as raised:
            await w.session.wait_for_idle()
        assert raised.value is broke
        assert w.error.error is broke
        assert isinstance([e for e in w.events if e.type != "status"][-1], ErrorEvent)
        called = [c.call_id for m in w.session.messages for c in getattr(m, "tool_calls", ())]
        answered = [m.call_id for m in w.session.messages if m.role == "tool"]
        assert answered == called
        if name in ("message", "step", "tool_call"):
            assert ran == []
            assert (await w.stored())[2:] == [
                'result c1 err "Tool call not executed: listener broke"',
                'result c2 err "Tool call not executed: listener broke"',
            ]
        assert await w.stored() == transcript(w.session.messages)

    async def test_waiters_get_the_runs_own_error(self) -> None:
        """A-33: all waiters get the run's own error, not the error listener's, and do not hang."""
        w = await watched(T("x"))

        async def first(event: TextDelta) -> None:
            raise RuntimeError("the run's own")

        async def worse(event: ErrorEvent) -> None:
            await asyncio.sleep(0)
            raise ValueError("the listener's")

        w.session.on("text_delta", first)
        w.session.on("error", worse)
        w.session.send("go")
        async with asyncio.timeout(10):
            outcomes = await asyncio.gather(
                *(w.session.wait_for_idle() for _ in range(2)), return_exceptions=True
            )
        assert [str(o) for o in outcomes] == ["the run's own"] * 2
        assert w.session.status == "idle"
