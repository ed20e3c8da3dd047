"""Hooks around model calls and the end of a run, and the values accepted as hooks."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine.agents import ERR, Agent, Hooks, ModelCall, ModelRequest, ScriptedModel, T

from .gates import Log
from .hooked import CALL, failing, raises, turn
from .script import noted, until, watched


class TestBeforeModelCall:
    async def test_hook_can_change_prompt_and_tools(self) -> None:
        """Part 2: a hook can change system prompt and tools of one call."""
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

    async def test_omitted_tool_cannot_be_called(self) -> None:
        """Part 2: a tool that was left out of a call cannot be called in its reply; no gate is asked."""
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

    async def test_changes_to_the_request_have_no_effect(self) -> None:
        """Part 2, A-12: changes that a hook makes to the given request have no effect."""

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
    async def test_raising_or_invalid_hook_fails_the_run(self, hook: object, expected: str) -> None:
        """Part 2, A-32: the run fails, and the model is not called."""
        w, ran = await failing(Hooks(before_model_call=hook), expected)
        assert (w.model.requests, ran) == ([], [])
        assert w.seen[0] == 'user "go"'

    async def test_abort_does_not_wait_for_a_hook(self) -> None:
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
    async def test_returned_text_continues_the_run(self) -> None:
        """Part 2: a returned text continues the same run like a queued message."""
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

    async def test_endless_continuation_ends_with_the_steps(self) -> None:
        """Part 2, A-62: a hook that always continues ends with the steps, and is not called in vain."""
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

    async def test_not_called_while_a_message_waits(self) -> None:
        """Part 2, A-79: the hook is not called while a message waits."""
        heard: list[str] = []
        w = await watched(T("A"), T("B"), hooks=Hooks(before_stop=heard.append))
        w.session.send("1")
        w.session.send("2", mode="queue")
        await w.session.wait_for_idle()
        assert heard == ["B"]

    async def test_not_called_after_a_reply_with_calls(self) -> None:
        """Part 2: a reply with calls does not stop the run, so the hook is not called."""
        heard: list[str] = []
        await turn(Hooks(before_stop=heard.append))
        assert heard == ["ok"]

    @pytest.mark.parametrize(
        ("hook", "expected"),
        [(raises, "hook broke"), (lambda text: True, "must return None or text, not bool")],
    )
    async def test_raising_or_invalid_hook_fails_the_run(self, hook: object, expected: str) -> None:
        """Part 2, A-32: the run fails, and the reply is kept."""
        w = await watched(T("Done"), T("never"), hooks=Hooks(before_stop=hook))
        w.session.send("go")
        with pytest.raises(Exception, match=expected):
            await w.session.wait_for_idle()
        assert await w.stored() == ['user "go"', 'assistant "Done"']

    async def test_abort_does_not_wait_for_a_hook(self) -> None:
        """Part 2: an abort does not wait for a hook, and its text is discarded."""
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

    async def test_message_during_the_hook_comes_first(self) -> None:
        """Part 2, A-81: a message that arrives during the hook comes first, and none is lost."""
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
    def test_value_that_is_no_hooks_is_refused(self) -> None:
        """Part 2: an agent refuses a value that is not `Hooks`."""
        with pytest.raises(TypeError, match="hooks are Hooks, not dict"):
            Agent(ScriptedModel([]), hooks=[{"before_stop": print}])

    async def test_hooks_apply_to_every_session(self) -> None:
        """Part 2: an agent's hooks apply to each of its sessions."""
        heard: list[str] = []
        agent = Agent(ScriptedModel([T("A"), T("B")]), hooks=Hooks(before_stop=heard.append))
        await (await agent.create_session()).prompt("1")
        await (await agent.create_session()).prompt("2")
        assert heard == ["A", "B"]

    async def test_self_raised_cancellation_fails_the_run(self) -> None:
        """Part 2, A-32: a hook that raises a cancellation fails the run instead of aborting it."""

        def hook(request: ModelRequest) -> None:
            raise asyncio.CancelledError

        w = await watched(T("never"), ERR("never"), hooks=Hooks(before_model_call=hook))
        w.session.send("go")
        with pytest.raises(Exception, match="cancelled from within"):
            await w.session.wait_for_idle()
        await until(lambda: w.session.status == "idle")
