"""Hooks: an author's own say before and after calls, never past the gate, and closed when they fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from interlock.engine.agents import (
    ERR,
    Agent,
    Allow,
    C,
    Deny,
    FinishedCall,
    Hooks,
    ModelCall,
    ModelRequest,
    Override,
    ScriptedModel,
    T,
    ToolCallEvent,
    ToolContext,
    ToolOutput,
    ToolResultEvent,
    tool,
)

from .gates import Log, allow, block
from .script import SKIPPED, Watched, noted, until, watched

CALL = C(c1=("note", {"text": "x"}))


async def turn(hooks: object, *, gate: object = None, ran: list[str] | None = None) -> Watched:
    """A finished turn with one call of `note`."""
    tools = [noted([] if ran is None else ran)]
    w = await watched(CALL, T("ok"), tools=tools, gate=gate, hooks=hooks)
    await w.say("go")
    return w


async def failing(hooks: Hooks, expected: str, *, gate: object = None) -> tuple[Watched, list[str]]:
    """A turn with one call that fails as expected, and what its tool did."""
    ran: list[str] = []
    w = await watched(CALL, T("never"), tools=[noted(ran)], gate=gate, hooks=hooks)
    w.session.send("go")
    with pytest.raises(Exception, match=expected):
        await w.session.wait_for_idle()
    assert len(w.model.requests) <= 1
    assert str(w.error.error)
    return w, ran


def result(w: Watched) -> ToolResultEvent:
    """The only result."""
    [found] = [e for e in w.events if isinstance(e, ToolResultEvent)]
    return found


def raises(*_: object) -> None:
    """A hook that raises."""
    raise RuntimeError("hook broke")


class TestBeforeToolCall:
    @pytest.mark.parametrize(
        ("answer", "shown"),
        [
            (None, 'result c1 ok "noted x"'),
            (Allow(), 'result c1 ok "noted x"'),
            (Deny(reason="no"), 'result c1 err "no"'),
            ({"deny": "no"}, 'result c1 err "no"'),
            (Override(args={"text": "y"}), 'result c1 ok "noted y"'),
            ({"args": {"text": "y"}}, 'result c1 ok "noted y"'),
            (True, 'result c1 err "a before_tool_call hook must return None'),
            ("no", 'result c1 err "a before_tool_call hook must return None'),
            ({"args": {"wrong": 1}}, 'result c1 err "Invalid arguments for note'),
        ],
    )
    @pytest.mark.parametrize("gated", [False, True])
    async def test_answers(self, answer: object, shown: str, gated: bool) -> None:
        """Part 2, A-40, A-44, A-46: a hook answers like a listener; what is no decision denies."""
        w = await turn(Hooks(before_tool_call=lambda e: answer), gate=Log() if gated else None)
        assert any(line.startswith(shown) for line in w.seen)

    async def test_order(self) -> None:
        """Part 2: the gate, then the hooks in their order, then the listeners."""
        gate = Log()
        hooks = [
            Hooks(before_tool_call=lambda e: gate.happened.append("first")),
            Hooks(before_tool_call=lambda e: gate.happened.append("second")),
        ]
        w = await watched(CALL, T("ok"), tools=[noted([])], gate=gate, hooks=hooks)
        w.session.on("tool_call", lambda e: gate.happened.append("listener"))
        await w.say("go")
        assert gate.happened == ["decide c1", "first", "second", "listener", "settle c1"]

    async def test_first_decision_wins(self) -> None:
        """Part 2, A-41: whoever decides first is the last who is asked."""
        asked: list[str] = []
        hooks = [
            Hooks(before_tool_call=lambda e: asked.append("first")),
            Hooks(before_tool_call=lambda e: Deny(reason="second")),
            Hooks(before_tool_call=lambda e: asked.append("third")),
        ]
        w = await watched(CALL, T("ok"), tools=[noted([])], hooks=hooks)
        w.session.on("tool_call", lambda e: asked.append("listener"))
        assert 'result c1 err "second"' in await w.say("go")
        assert asked == ["first"]

    async def test_never_past_the_gate(self) -> None:
        """Part 2: what the gate blocks no hook is asked about, and none can allow it."""
        asked: list[object] = []
        ran: list[str] = []

        def hook(event: ToolCallEvent) -> object:
            asked.append(event)
            return Allow()

        w = await turn(Hooks(before_tool_call=hook), gate=Log(block), ran=ran)
        assert 'result c1 err "not now"' in w.seen
        assert (asked, ran) == ([], [])

    async def test_override_passes_the_gate_again(self) -> None:
        """Part 2: what a hook overrides, the gate is asked about, and may block."""
        ran: list[str] = []
        gate = Log(lambda call: block(call) if call.input["text"] == "rm" else allow(call))
        w = await turn(
            Hooks(before_tool_call=lambda e: Override(args={"text": "rm"})), gate=gate, ran=ran
        )
        assert 'result c1 err "not now"' in w.seen
        assert ran == []
        assert gate.happened == ["decide c1", "settle c1", "decide c1"]

    async def test_denied_is_settled(self) -> None:
        """Part 2: a call the gate allowed and a hook denies is settled as failed."""
        gate = Log()
        await turn(Hooks(before_tool_call=lambda e: Deny(reason="no")), gate=gate)
        assert gate.settled == [("c1", True, "no", {"text": "x"})]

    async def test_own_copy(self) -> None:
        """Part 2, A-47: what a hook does to its event changes nothing."""
        ran: list[str] = []
        await turn(Hooks(before_tool_call=lambda e: e.args.update(text="changed")), ran=ran)
        assert ran == ["x"]

    async def test_raises(self) -> None:
        """Part 2, A-32: a hook that raises fails the run, and the tool does not run."""
        gate = Log()
        w, ran = await failing(Hooks(before_tool_call=raises), "hook broke", gate=gate)
        assert ran == []
        assert w.seen[-2] == 'result c1 err "Tool call not executed: hook broke"'
        assert gate.settled == [("c1", True, "Tool call not executed: hook broke", {"text": "x"})]

    async def test_withdrawn_by_a_message(self) -> None:
        """Part 2, A-78: a message that steers does not wait for a hook."""
        asked = asyncio.Event()

        async def hook(event: ToolCallEvent) -> None:
            asked.set()
            await asyncio.Event().wait()

        hooks = Hooks(before_tool_call=hook)
        w = await watched(CALL, T("ok"), tools=[noted([])], hooks=hooks)
        w.session.send("go")
        await asked.wait()
        w.session.send("STEER")
        await w.session.wait_for_idle()
        assert f'result c1 err "{SKIPPED}"' in w.seen


class TestAfterToolCall:
    @pytest.mark.parametrize(
        ("answer", "shown", "metadata"),
        [
            (None, 'result c1 ok "noted x"', {}),
            ("other", 'result c1 ok "other"', {}),
            ("", 'result c1 ok ""', {}),
            (ToolOutput("bad", {"n": 1}, is_error=True), 'result c1 err "bad"', {"n": 1}),
        ],
    )
    async def test_answers(self, answer: object, shown: str, metadata: object) -> None:
        """Part 2: a hook may give what the model reads instead; it is stored, told and sent."""
        w = await turn(Hooks(after_tool_call=lambda call: answer))
        assert shown in w.seen
        assert w.prompt(2)[-1] == shown
        assert (await w.stored())[2] == shown
        assert result(w).metadata == metadata

    async def test_sees_the_call(self) -> None:
        """Part 2: a hook is shown the arguments that ran and the tool's own output."""
        seen: list[FinishedCall] = []
        hooks = Hooks(
            before_tool_call=lambda e: Override(args={"text": "y"}),
            after_tool_call=seen.append,
        )
        await turn(hooks)
        [call] = seen
        assert (call.call_id, call.name, call.args) == ("c1", "note", {"text": "y"})
        assert call.output == ToolOutput("noted y")
        assert call.seconds > 0

    async def test_the_gate_hears_the_tools_own_result(self) -> None:
        """Part 2: the gate settles what the tool gave, before the hook is asked."""
        gate = Log()

        def hook(call: FinishedCall) -> ToolOutput:
            gate.happened.append("hook")
            return ToolOutput("looks bad", is_error=True)

        w = await turn(Hooks(after_tool_call=hook), gate=gate)
        assert gate.happened == ["decide c1", "settle c1", "hook"]
        assert gate.settled == [("c1", False, "noted x", {"text": "x"})]
        assert 'result c1 err "looks bad"' in w.seen

    async def test_failure_cannot_be_hidden_from_the_gate(self) -> None:
        """Part 2: a hook that calls a failure a success changes what the model reads, nothing else."""
        gate = Log()

        @tool(name="note")
        async def broken(text: str) -> str:
            """Fail."""
            raise RuntimeError("kaboom")

        hooks = Hooks(after_tool_call=lambda call: ToolOutput("fine"))
        w = await watched(CALL, T("ok"), tools=[broken], gate=gate, hooks=hooks)
        assert 'result c1 ok "fine"' in await w.say("go")
        assert gate.settled == [("c1", True, "kaboom", {"text": "x"})]

    async def test_only_calls_that_ran(self) -> None:
        """Part 2: no hook makes a result of a call that was blocked, denied, unknown or malformed."""
        seen: list[str] = []

        def hook(call: FinishedCall) -> ToolOutput:
            seen.append(call.call_id)
            return ToolOutput("done!")

        gate = Log(lambda call: block(call) if call.tool_call_id == "c1" else allow(call))
        calls = C(c1=("note", {}), c2=("note", {}), c3=("nope", {}), c4=("note", "{"), c5=("note", {}))
        hooks = Hooks(after_tool_call=hook)
        w = await watched(calls, T("ok"), tools=[noted([])], gate=gate, hooks=hooks)
        w.session.on("tool_call", lambda e: Deny(reason="no") if e.call_id == "c2" else None)
        await w.say("go")
        results = [e for e in w.events if isinstance(e, ToolResultEvent)]
        assert [r.is_error for r in results] == [True, True, True, True, False]
        assert seen == ["c5"]
        assert [r.result == "done!" for r in results] == [False, False, False, False, True]

    async def test_one_after_the_other(self) -> None:
        """Part 2: each hook sees what the one before made of the result."""

        def adding(word: str) -> Hooks:
            return Hooks(after_tool_call=lambda call: f"{call.output.text} {word}")

        w = await turn([adding("one"), Hooks(), adding("two")])
        assert 'result c1 ok "noted x one two"' in w.seen

    async def test_own_copy(self) -> None:
        """Part 2, A-47: what a hook does to the output it is shown changes nothing."""

        @tool(name="note")
        async def described(text: str) -> ToolOutput:
            """Give metadata."""
            return ToolOutput("noted", metadata={"n": 1})

        hooks = Hooks(after_tool_call=lambda call: call.output.metadata.clear())
        w = await watched(CALL, T("ok"), tools=[described], hooks=hooks)
        await w.say("go")
        assert result(w).metadata == {"n": 1}

    @pytest.mark.parametrize("hook", [raises, lambda call: 7, lambda call: {"deny": "x"}])
    async def test_raises_or_answers_nonsense(self, hook: Callable[[object], object]) -> None:
        """Part 2, A-32: the run fails, and the result that was not looked over is read by nobody."""
        gate = Log()
        w, ran = await failing(Hooks(after_tool_call=hook), "hook", gate=gate)
        assert ran == ["x"]
        assert gate.settled == [("c1", False, "noted x", {"text": "x"})]
        assert result(w).is_error
        assert "looked over: " in result(w).result
        assert not any("noted" in line for line in [*w.seen, *await w.stored()])

    async def test_aborted_meanwhile(self) -> None:
        """Part 2, A-94: an abort does not wait for a hook; what it had not looked over is not kept."""
        asked = asyncio.Event()

        async def hook(call: FinishedCall) -> None:
            asked.set()
            await asyncio.Event().wait()

        hooks = Hooks(after_tool_call=hook)
        w = await watched(CALL, T("never"), tools=[noted([])], hooks=hooks)
        w.session.send("go")
        await asked.wait()
        w.session.abort()
        await w.session.wait_for_idle()
        expected = 'result c1 err "The run was aborted before the call\'s result was looked over"'
        assert w.seen[-2:] == [expected, 'turn_end("")']

    async def test_aborted_before(self) -> None:
        """Part 2, A-94: a tool that was stopped says so; nobody looks that over any more."""

        @tool(name="note")
        async def stuck(ctx: ToolContext, text: str) -> str:
            """Wait for ever."""
            w.session.abort()
            await asyncio.Event().wait()
            return "never"

        hooks = Hooks(after_tool_call=lambda call: "never")
        w = await watched(CALL, T("never"), tools=[stuck], hooks=hooks)
        assert 'result c1 err "The operation was aborted"' in await w.say("go")


class TestBeforeModelCall:
    async def test_change(self) -> None:
        """Part 2: a hook may change system prompt and tools of one call."""
        numbers: list[int] = []

        def hook(request: ModelRequest) -> ModelCall | None:
            numbers.append(len(request.messages))
            if len(numbers) > 1:
                return None
            return ModelCall(system_prompt="Be brief.", tools=["one"])

        w = await watched(
            T("a"),
            T("b"),
            tools=[noted([], "one"), noted([], "two")],
            system_prompt="Be kind.",
            hooks=Hooks(before_model_call=hook),
        )
        await w.say("go")
        await w.say("on")
        first, second = w.model.requests
        assert (first.system_prompt, [t.name for t in first.tools]) == ("Be brief.", ["one"])
        assert (second.system_prompt, [t.name for t in second.tools]) == ("Be kind.", ["one", "two"])
        assert numbers == [1, 3]

    async def test_tool_that_is_left_out(self) -> None:
        """Part 2: a tool that was left out of a call cannot be called in its reply; nobody is asked."""
        ran: list[str] = []
        gate = Log()
        w = await watched(
            CALL,
            T("ok"),
            tools=[noted(ran)],
            gate=gate,
            hooks=Hooks(before_model_call=lambda request: ModelCall(tools=[])),
        )
        assert 'result c1 err "Tool not found: note"' in await w.say("go")
        assert (ran, gate.happened) == ([], [])

    async def test_own_copy(self) -> None:
        """Part 2, A-12: what a hook does to the request it is shown changes nothing."""

        def hook(request: ModelRequest) -> None:
            for message in request.messages:
                for call in getattr(message, "tool_calls", ()):
                    call.args["text"] = "changed"

        w = await turn(Hooks(before_model_call=hook))
        assert w.model.requests[1].messages[1].tool_calls[0].args == {"text": "x"}
        assert w.session.messages[1].tool_calls[0].args == {"text": "x"}

    @pytest.mark.parametrize(
        ("hook", "expected"),
        [
            (raises, "hook broke"),
            (lambda request: {"tools": []}, "must return None or a ModelCall, not dict"),
            (lambda request: ModelCall(tools=["nope"]), "wants the tool 'nope'; there are: note"),
        ],
    )
    async def test_raises_or_answers_nonsense(self, hook: object, expected: str) -> None:
        """Part 2, A-32: the run fails, and the model is not called."""
        w, ran = await failing(Hooks(before_model_call=hook), expected)
        assert (w.model.requests, ran) == ([], [])
        assert w.seen[0] == 'user "go"'

    async def test_aborted_meanwhile(self) -> None:
        """Part 2, A-95: an abort does not wait for a hook, and the model is not called."""
        asked = asyncio.Event()

        async def hook(request: ModelRequest) -> None:
            asked.set()
            await asyncio.Event().wait()

        w = await watched(T("never"), hooks=Hooks(before_model_call=hook))
        w.session.send("go")
        await asked.wait()
        w.session.abort()
        await w.session.wait_for_idle()
        assert w.seen == ['user "go"', 'turn_end("")']
        assert w.model.requests == []


class TestBeforeStop:
    async def test_goes_on(self) -> None:
        """Part 2: text goes on as if a person had queued it, in the same run."""
        heard: list[str] = []

        def hook(text: str) -> str | None:
            heard.append(text)
            return "Are you sure?" if len(heard) == 1 else None

        w = await watched(T("Done"), T("Sure"), hooks=Hooks(before_stop=hook))
        await w.say("go")
        assert heard == ["Done", "Sure"]
        assert w.prompt(2) == ['user "go"', 'assistant "Done"', 'user "Are you sure?"']
        assert await w.stored() == [*w.prompt(2), 'assistant "Sure"']
        assert [s for s in w.seen if s.startswith("turn_end")] == ['turn_end("Sure")']

    async def test_never_for_ever(self) -> None:
        """Part 2, A-62: a hook that never has enough ends with the steps, and is not asked in vain."""
        heard: list[str] = []

        def hook(text: str) -> str:
            heard.append(text)
            return "more"

        w = await watched(*[T(str(n)) for n in range(9)], max_steps=3, hooks=Hooks(before_stop=hook))
        await w.say("go")
        assert heard == ["0", "1"]
        assert w.turn_end.text == "2"
        assert w.session.undelivered == ()
        assert len(w.model.requests) == 3

    async def test_people_come_first(self) -> None:
        """Part 2, A-79: the hook is not asked while somebody's message waits."""
        heard: list[str] = []
        w = await watched(T("A"), T("B"), hooks=Hooks(before_stop=heard.append))
        w.session.send("1")
        w.session.send("2", mode="queue")
        await w.session.wait_for_idle()
        assert heard == ["B"]

    async def test_not_after_calls(self) -> None:
        """Part 2: a reply with calls does not stop the run, so the hook is not asked about it."""
        heard: list[str] = []
        await turn(Hooks(before_stop=heard.append))
        assert heard == ["ok"]

    @pytest.mark.parametrize(
        ("hook", "expected"),
        [(raises, "hook broke"), (lambda text: True, "must return None or text, not bool")],
    )
    async def test_raises_or_answers_nonsense(self, hook: object, expected: str) -> None:
        """Part 2, A-32: the run fails; what was said is kept."""
        w = await watched(T("Done"), T("never"), hooks=Hooks(before_stop=hook))
        w.session.send("go")
        with pytest.raises(Exception, match=expected):
            await w.session.wait_for_idle()
        assert await w.stored() == ['user "go"', 'assistant "Done"']

    async def test_aborted_meanwhile(self) -> None:
        """Part 2: an abort does not wait for a hook, and its text is nobody's."""
        asked = asyncio.Event()

        async def hook(text: str) -> str:
            asked.set()
            await asyncio.Event().wait()
            return "never"

        w = await watched(T("Done"), hooks=Hooks(before_stop=hook))
        w.session.send("go")
        await asked.wait()
        w.session.abort()
        await w.session.wait_for_idle()
        assert (w.turn_end.stop_reason, w.turn_end.undelivered) == ("aborted", ())

    async def test_message_meanwhile(self) -> None:
        """Part 2, A-81: a message that comes while the hook thinks goes first, and none is lost."""
        asked, answer = asyncio.Event(), asyncio.Event()

        async def hook(text: str) -> str | None:
            if asked.is_set():
                return None
            asked.set()
            await answer.wait()
            return "hook"

        w = await watched(T("A"), T("B"), T("C"), hooks=Hooks(before_stop=hook))
        w.session.send("go")
        await asked.wait()
        w.session.send("person")
        answer.set()
        await w.session.wait_for_idle()
        said = [s for s in await w.stored() if s.startswith("user")]
        assert said == ['user "go"', 'user "person"', 'user "hook"']


class TestMaking:
    def test_what_are_no_hooks(self) -> None:
        """Part 2: an agent is not made with what nobody would ask."""
        with pytest.raises(TypeError, match="hooks are Hooks, not dict"):
            Agent(ScriptedModel([]), hooks=[{"before_stop": print}])

    async def test_shared_by_sessions(self) -> None:
        """Part 2: hooks are the agent's, for each of its sessions."""
        heard: list[str] = []
        agent = Agent(ScriptedModel([T("A"), T("B")]), hooks=Hooks(before_stop=heard.append))
        await (await agent.create_session()).prompt("1")
        await (await agent.create_session()).prompt("2")
        assert heard == ["A", "B"]

    async def test_cancelled_from_within(self) -> None:
        """Part 2, A-32: a hook that cancels itself fails the run; it is no abort."""

        def hook(request: ModelRequest) -> None:
            raise asyncio.CancelledError

        w = await watched(T("never"), ERR("never"), hooks=Hooks(before_model_call=hook))
        w.session.send("go")
        with pytest.raises(Exception, match="cancelled from within"):
            await w.session.wait_for_idle()
        await until(lambda: w.session.status == "idle")
