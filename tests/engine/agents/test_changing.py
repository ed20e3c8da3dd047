"""Changes to a live session: settings, several texts at once, and continuing."""

from __future__ import annotations

import pytest

from interlock.engine.agents import (
    ERR,
    Agent,
    AgentError,
    AssistantMessage,
    C,
    DuplicateToolError,
    InMemorySessionStore,
    InvalidModelUrlError,
    LitellmModel,
    ProposedCall,
    ScriptedModel,
    SessionClosedError,
    T,
    ToolCallEvent,
    ToolMessage,
    UserMessage,
)

from .gates import Log
from .script import Slow, Watched, noted, watched


class TestSettings:
    async def test_new_model_is_used_from_next_call(self) -> None:
        """Part 2: a new model is used from the next model call on, even during a run."""
        slow, other = Slow(), ScriptedModel([T("other")], name="other")
        w = await watched(C(slow={}), T("never"), tools=[slow.tool])
        w.session.send("go")
        await slow.started.wait()
        w.session.model = other
        slow.go_on.set()
        await w.session.wait_for_idle()
        assert w.turn_end.text == "other"
        assert len(w.model.requests) == 1
        assert w.session.model is other

    async def test_model_by_name(self) -> None:
        """Part 2: a name means a litellm model; an invalid name or value changes nothing."""
        w = await watched(T("x"))
        with pytest.raises(InvalidModelUrlError, match="missing scheme"):
            w.session.model = "gpt-4o"
        with pytest.raises(TypeError, match="int is not a model"):
            w.session.model = 3
        assert w.session.model is w.agent.model
        w.session.model = "openai://gpt-4o"
        assert isinstance(w.session.model, LitellmModel)

    async def test_new_system_prompt_is_sent_from_next_call(self) -> None:
        """Part 2: a new system prompt is sent from the next model call on."""
        w = await watched(T("a"), T("b"), system_prompt="Be kind.")
        await w.say("1")
        w.session.system_prompt = "Be brief."
        await w.say("2")
        assert [r.system_prompt for r in w.model.requests] == ["Be kind.", "Be brief."]
        assert (w.session.system_prompt, w.agent.system_prompt) == ("Be brief.", "Be kind.")

    async def test_new_tools_are_offered_from_next_call(self) -> None:
        """Part 2: new tools are offered and run from the next model call on, behind the gate."""
        gate, ran = Log(), []
        w = await watched(
            C(c1=("two", {})), C(c2=("two", {})), T("ok"), tools=[noted([], "one")], gate=gate
        )
        assert [t.name for t in w.session.tools] == ["one"]

        def add(event: object) -> None:
            w.session.tools = [*w.session.tools, noted(ran, "two")]

        w.session.on("tool_result", lambda e: add(e) if e.call_id == "c1" else None)
        seen = await w.say("go")
        assert 'result c1 err "Tool not found: two"' in seen
        assert 'result c2 ok "noted "' in seen
        assert (ran, gate.happened) == ([""], ["decide c2", "settle c2"])
        assert [[t.name for t in r.tools] for r in w.model.requests] == [["one"], *[["one", "two"]] * 2]

    async def test_removed_tool_still_runs_in_the_current_step(self) -> None:
        """Part 2: the current step keeps the tools that its model was offered."""
        ran: list[str] = []
        w = await watched(C(c1=("note", {})), C(c2=("note", {})), T("ok"), tools=[noted(ran)], gate=Log())

        def take(event: ToolCallEvent) -> dict[str, object]:
            w.session.tools = []
            return {"args": {"text": "other"}}

        w.session.on("tool_call", take)
        seen = await w.say("go")
        assert 'result c1 ok "noted other"' in seen
        assert 'result c2 err "Tool not found: note"' in seen

    async def test_duplicate_names(self) -> None:
        """A-61: duplicate tool names are refused here too, and nothing changes."""
        w = await watched(tools=[noted([], "one")])
        with pytest.raises(DuplicateToolError, match='Duplicate tool name: "two"'):
            w.session.tools = [noted([], "two"), noted([], "two")]
        assert [t.name for t in w.session.tools] == ["one"]

    async def test_other_sessions_are_unaffected(self) -> None:
        """Part 2: settings of one session do not affect another."""
        agent = Agent(ScriptedModel([T("a"), T("b")]), tools=[noted([])], system_prompt="p")
        one, two = await agent.create_session(), await agent.create_session()
        one.tools, one.system_prompt, one.model = [], None, ScriptedModel([])
        assert ([t.name for t in two.tools], two.system_prompt, two.model) == (["note"], "p", agent.model)


class TestSaying:
    async def test_several_texts_become_separate_messages(self) -> None:
        """Part 2: several texts become separate messages, in order."""
        w = await watched(T("ok"))
        w.session.send(["1", "2", "3"], by="maria")
        await w.session.wait_for_idle()
        assert w.prompt(1) == ['user "1"', 'user "2"', 'user "3"']
        assert [m.by for m in w.session.messages[:3]] == ["maria"] * 3

    async def test_queued_texts_get_a_turn_each(self) -> None:
        """Part 2, A-80: queued texts get a turn each."""
        w = await watched(T("A"), T("B"), T("C"))
        w.session.send(["1", "2", "3"], mode="queue")
        await w.session.wait_for_idle()
        assert w.prompt(3) == ['user "1"', 'assistant "A"', 'user "2"', 'assistant "B"', 'user "3"']

    async def test_several_while_busy(self) -> None:
        """Part 2, A-72: texts sent to a busy session all join before the next model call."""
        slow = Slow()
        w = await watched(C(slow={}), T("ok"), tools=[slow.tool])
        w.session.send("go")
        await slow.started.wait()
        w.session.send(["1", "2"])
        assert w.session.waiting == ("1", "2")
        slow.go_on.set()
        await w.session.wait_for_idle()
        assert w.prompt(2)[-2:] == ['user "1"', 'user "2"']

    async def test_message_object_is_sent_unchanged(self) -> None:
        """Part 2: a message object is sent unchanged."""
        w = await watched(T("ok"))
        w.session.send(UserMessage(text="go", by="maria"))
        await w.session.wait_for_idle()
        assert w.session.messages[0] == UserMessage(text="go", by="maria")

    @pytest.mark.parametrize("nothing", [[], ()])
    async def test_empty_list_is_an_error(self, nothing: list[str]) -> None:
        """Part 2: an empty list is an error and starts nothing."""
        w = await watched()
        with pytest.raises(ValueError, match="there is nothing to send"):
            w.session.send(nothing)
        assert w.session.status == "idle"

    async def test_value_that_is_no_text_is_an_error(self) -> None:
        """Part 2: a value that is not text is an error, and none of several is sent."""
        w = await watched()
        with pytest.raises(ValueError, match="text"):
            w.session.send(["fine", 3])
        assert (w.session.status, w.session.waiting, w.session.messages) == ("idle", (), ())


class TestGoingOn:
    async def test_continues_after_an_error(self) -> None:
        """Part 2: after an error, the model is called again without a new message."""
        w = await watched(ERR("boom"), T("ok"))
        w.session.send("go")
        with pytest.raises(RuntimeError, match="boom"):
            await w.session.wait_for_idle()
        w.session.continue_()
        assert w.session.status == "busy"
        await w.session.wait_for_idle()
        assert w.prompt(2) == ['user "go"']
        assert w.turn_end.text == "ok"
        assert await w.stored() == ['user "go"', 'assistant "ok"']

    async def test_continues_after_an_abort(self) -> None:
        """Part 2, A-94: after an abort during a tool, the run continues from its result."""
        slow = Slow()
        w = await watched(C(c1=("slow", {})), T("ok"), tools=[slow.tool])
        w.session.send("go")
        await slow.started.wait()
        w.session.abort()
        await w.session.wait_for_idle()
        w.session.continue_()
        await w.session.wait_for_idle()
        assert w.prompt(2)[-1] == 'result c1 err "The operation was aborted"'
        assert [m.role for m in w.turn_end.messages] == ["assistant"]

    async def test_continues_after_step_limit(self) -> None:
        """Part 2, A-62: a run that used up its steps gets as many again."""
        w = await watched(C(note={}), T("ok"), tools=[noted([])], max_steps=1)
        await w.say("go")
        assert w.turn_end.stop_reason == "max_steps"
        w.session.continue_()
        await w.session.wait_for_idle()
        assert w.turn_end.text == "ok"

    @pytest.mark.parametrize("answered", [False, True])
    async def test_resumed_session_continues(self, answered: bool) -> None:
        """Part 2, A-32: a resumed session continues; an open call gets a result first."""
        store = InMemorySessionStore()
        await store.append("s", UserMessage(text="go"))
        await store.append("s", AssistantMessage(tool_calls=(ProposedCall(call_id="c1", name="x"),)))
        if answered:
            await store.append("s", ToolMessage(call_id="c1", name="x", text="done"))
        agent = Agent(ScriptedModel([T("ok")]), store=store)
        w = Watched(agent, await agent.resume_session("s"))
        w.session.continue_()
        await w.session.wait_for_idle()
        assert w.prompt(1)[-1].startswith(f"result c1 {'ok' if answered else 'err'}")
        assert w.turn_end.text == "ok"

    async def test_message_sent_right_after_joins(self) -> None:
        """Part 2, A-74: a message sent right after joins the first prompt."""
        w = await watched(ERR("boom"), T("ok"))
        w.session.send("go")
        with pytest.raises(RuntimeError, match="boom"):
            await w.session.wait_for_idle()
        w.session.continue_()
        w.session.send("please")
        await w.session.wait_for_idle()
        assert w.prompt(2) == ['user "go"', 'user "please"']

    async def test_message_is_required(self) -> None:
        """Part 2: without messages, or after the model's answer, a message is required."""
        w = await watched(T("ok"))
        with pytest.raises(AgentError, match="nobody has said anything; send a message"):
            w.session.continue_()
        await w.say("go")
        with pytest.raises(AgentError, match="the model had the last word; send a message"):
            w.session.continue_()
        assert w.session.status == "idle"

    async def test_busy_or_closed_session_cannot_be_continued(self) -> None:
        """Part 2: a busy or closed session cannot be continued."""
        slow = Slow()
        w = await watched(C(slow={}), T("ok"), tools=[slow.tool])
        w.session.send("go")
        await slow.started.wait()
        with pytest.raises(AgentError, match="is busy"):
            w.session.continue_()
        slow.go_on.set()
        await w.session.wait_for_idle()
        await w.session.aclose()
        with pytest.raises(SessionClosedError):
            w.session.continue_()
