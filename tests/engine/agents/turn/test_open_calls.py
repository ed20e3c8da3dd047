"""Calls that a dead process left undecided: decided in the run that continues."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from interlock.engine.agents import (
    AbortSignal,
    Agent,
    AssistantMessage,
    C,
    Deny,
    InMemorySessionStore,
    Message,
    MessageEvent,
    ModelTool,
    ProposedCall,
    ScriptedModel,
    StepEvent,
    StepStart,
    T,
    ToolCallEvent,
    ToolMessage,
    ToolResultEvent,
    UserMessage,
)
from interlock.engine.agents.hooks import Hooks, ModelCall
from interlock.engine.agents.runtime.local.runtime import LocalRuntime
from interlock.engine.agents.turn.loop import loop
from interlock.engine.agents.turn.loop_config import LoopConfig

from ..gates import Log, block
from ..script import SKIPPED, Slow, Watched, noted

UNKNOWN = "Outcome unknown: the session ended before a result was recorded"


def call(call_id: str, text: str, tool: str = "note") -> ProposedCall:
    return ProposedCall(call_id=call_id, name=tool, args={"text": text})


def conversation_with_open_calls(*calls: ProposedCall, answered: int = 0) -> list[Message]:
    """Return a conversation that ends with a step of which only the first calls are answered."""
    told = [ToolMessage(call_id=c.call_id, name=c.name, text="ok") for c in calls[:answered]]
    return [UserMessage(text="go"), AssistantMessage(tool_calls=calls), *told]


async def resumed_session(
    said: Sequence[Message],
    *replies: object,
    tools: Sequence[ModelTool],
    gate: object = None,
    **options: object,
) -> Watched:
    """Return a session that another process left with `said`."""
    store = InMemorySessionStore()
    for message in said:
        await store.append("s", message)
    agent = Agent(ScriptedModel(list(replies)), tools=tools, store=store, **options)
    return Watched(agent, await agent.resume_session("s", gate=gate))


class TestLoop:
    def started_loop(
        self, ran: list[str], said: Sequence[Message], **options: object
    ) -> tuple[ScriptedModel, object]:
        model = ScriptedModel([T("ok")])
        tools = {"note": noted(ran)}
        config = LoopConfig(model=model, runtime=LocalRuntime(), tools=tools, offered=tools, **options)
        last = next(m for m in said if isinstance(m, AssistantMessage))
        answered = sum(isinstance(m, ToolMessage) for m in said)
        return model, loop(said, config, undecided=last.tool_calls[answered:])

    async def test_decisions_come_first(self) -> None:
        """A-20: no message or step comes before the calls; then the model gets their results."""
        ran: list[str] = []
        model, events = self.started_loop(
            ran, conversation_with_open_calls(call("c1", "1"), call("c2", "2"))
        )
        kinds = [type(event) async for event in events]
        assert kinds[:4] == [ToolCallEvent, ToolCallEvent, ToolResultEvent, ToolResultEvent]
        assert (kinds.count(MessageEvent), kinds.count(StepEvent)) == (1, 1)
        assert ran == ["1", "2"]
        assert [m.text for m in model.requests[0].messages[2:]] == ["noted 1", "noted 2"]

    async def test_events_have_all_calls_of_the_step(self) -> None:
        """A-51: the events have all calls of the step, including those answered before."""
        _, events = self.started_loop(
            [], conversation_with_open_calls(call("c1", "1"), call("c2", "2"), answered=1)
        )
        [shown] = [event async for event in events if isinstance(event, ToolCallEvent)]
        assert (shown.call_id, shown.index) == ("c2", 1)
        assert [c.call_id for c in shown.batch] == ["c1", "c2"]

    async def test_changes_to_events_have_no_effect(self) -> None:
        """A-47: the events have copies of the arguments; changing them has no effect."""
        ran: list[str] = []
        _, events = self.started_loop(ran, conversation_with_open_calls(call("c1", "1")))
        async for event in events:
            if isinstance(event, ToolCallEvent):
                event.args["text"] = "changed"
        assert ran == ["1"]

    async def test_continued_step_costs_no_model_call(self) -> None:
        """A-62: the continued step costs none of the run's model calls."""
        model, events = self.started_loop([], conversation_with_open_calls(call("c1", "1")), max_steps=1)
        assert [e async for e in events if isinstance(e, StepEvent)]
        assert len(model.requests) == 1

    async def test_call_of_unoffered_tool_is_refused(self) -> None:
        """A-49: a call of a tool that the step does not offer is refused."""
        config = LoopConfig(
            model=ScriptedModel([T("ok")]), runtime=LocalRuntime(), tools={"note": noted([])}, offered={}
        )
        said = conversation_with_open_calls(call("c1", "1"))
        results = [
            event.result
            async for event in loop(said, config, undecided=[call("c1", "1")])
            if isinstance(event, ToolResultEvent)
        ]
        assert results == ["Tool not found: note"]


class TestRun:
    async def test_gate_and_order(self) -> None:
        """A-56, A-77: the gate decides each, results come in call order, and the store is the prompt."""
        ran: list[str] = []
        gate = Log()
        said = conversation_with_open_calls(call("c1", "1"), call("c2", "2"), call("c3", "3"), answered=1)
        w = await resumed_session(said, T("done"), tools=[noted(ran)], gate=gate)
        w.session.continue_(decide_open=True)
        await w.session.wait_for_idle()
        assert gate.happened[:2] == ["decide c2", "decide c3"]
        assert sorted(gate.happened[2:]) == ["settle c2", "settle c3"]
        assert ran == ["2", "3"]
        assert w.seen == [
            "tool_call c2",
            "tool_call c3",
            'result c2 ok "noted 2"',
            'result c3 ok "noted 3"',
            'delta "done"',
            'assistant "done"',
            "step(stop,10,5)",
            'turn_end("done")',
        ]
        assert w.prompt(1) == (await w.stored())[:-1]
        assert [m.role for m in w.turn_end.messages] == ["tool", "tool", "assistant"]
        assert [e.number for e in w.events if isinstance(e, StepStart)] == [1]

    async def test_call_blocked_now_does_not_run(self) -> None:
        """G-15: a call that the gate now blocks does not run, and the model gets the reason."""
        ran: list[str] = []
        w = await resumed_session(
            conversation_with_open_calls(call("c1", "1")), T("ok"), tools=[noted(ran)], gate=Log(block)
        )
        w.session.continue_(decide_open=True)
        await w.session.wait_for_idle()
        assert ran == []
        assert w.prompt(1)[-1] == 'result c1 err "not now"'

    async def test_listener_can_deny(self) -> None:
        """A-40: a listener can deny it like any call."""
        w = await resumed_session(
            conversation_with_open_calls(call("c1", "1")), T("ok"), tools=[noted([])]
        )
        w.session.on("tool_call", lambda event: Deny(reason=f"no {event.args['text']}"))
        w.session.continue_(decide_open=True)
        await w.session.wait_for_idle()
        assert w.prompt(1)[-1] == 'result c1 err "no 1"'

    async def test_tool_omitted_by_a_hook_cannot_be_called(self) -> None:
        """Part 2: a tool that hooks leave out of a step's model call cannot be called in its rest."""
        ran: list[str] = []
        asked: list[list[str]] = []

        def only_before(request: object) -> ModelCall | None:
            roles = [m.role for m in request.messages]
            asked.append(roles)
            return ModelCall(tools=[]) if roles == ["user"] else None

        hooks = Hooks(before_model_call=only_before)
        w = await resumed_session(
            conversation_with_open_calls(call("c1", "1")), T("ok"), tools=[noted(ran)], hooks=hooks
        )
        w.session.continue_(decide_open=True)
        await w.session.wait_for_idle()
        assert ran == []
        assert w.prompt(1)[-1] == 'result c1 err "Tool not found: note"'
        assert asked == [["user"], ["user", "assistant", "tool"]]

    async def test_failing_hook_ends_the_run(self) -> None:
        """A-32: a hook that raises ends the run; the results say that the calls did not run."""
        ran: list[str] = []

        def fails(request: object) -> None:
            raise RuntimeError("no hook today")

        hooks = Hooks(before_model_call=fails)
        w = await resumed_session(
            conversation_with_open_calls(call("c1", "1")), T("ok"), tools=[noted(ran)], hooks=hooks
        )
        w.session.continue_(decide_open=True)
        with pytest.raises(RuntimeError, match="no hook today"):
            await w.session.wait_for_idle()
        assert ran == []
        [told] = [line for line in await w.stored() if line.startswith("result")]
        assert told.startswith('result c1 err "Tool call not executed: ')
        assert "no hook today" in told

    async def test_aborted_before_a_decision(self) -> None:
        """A-96: an abort answers the calls as not run, not as of unknown outcome."""
        ran: list[str] = []
        w = await resumed_session(
            conversation_with_open_calls(call("c1", "1"), call("c2", "2")), T("never"), tools=[noted(ran)]
        )
        w.session.continue_(decide_open=True)
        w.session.abort()
        await w.session.wait_for_idle()
        assert (ran, w.model.requests) == ([], [])
        assert (await w.stored())[2:] == ['result c1 err "Aborted"', 'result c2 err "Aborted"']

    async def test_message_sent_at_once_joins_after_results(self) -> None:
        """A-76, A-77: a message sent at once joins after the results; no call is decided."""
        ran: list[str] = []
        gate = Log()
        w = await resumed_session(
            conversation_with_open_calls(call("c1", "1")), T("ok"), tools=[noted(ran)], gate=gate
        )
        w.session.continue_(decide_open=True)
        w.session.send("rather not")
        await w.session.wait_for_idle()
        assert (ran, gate.happened) == ([], [])
        assert w.prompt(1)[2:] == [f'result c1 err "{SKIPPED}"', 'user "rather not"']


class TestSession:
    async def test_calls_are_not_decided_by_default(self) -> None:
        """A-32: without `decide_open` the calls get an unknown outcome, and nothing runs."""
        ran: list[str] = []
        w = await resumed_session(
            conversation_with_open_calls(call("c1", "1")), T("ok"), tools=[noted(ran)]
        )
        w.session.continue_()
        await w.session.wait_for_idle()
        assert ran == []
        assert w.prompt(1)[-1] == f'result c1 err "{UNKNOWN}"'

    async def test_continues_without_open_calls(self) -> None:
        """Part 2: without open calls it continues as usual."""
        w = await resumed_session(
            conversation_with_open_calls(call("c1", "1"), answered=1), T("ok"), tools=[noted([])]
        )
        w.session.continue_(decide_open=True)
        await w.session.wait_for_idle()
        assert w.turn_end.text == "ok"

    async def test_only_the_first_run_decides_open_calls(self) -> None:
        """A-32: only the first run decides calls that were open; later runs close open ones."""
        slow = Slow()
        said = conversation_with_open_calls(call("c1", "1", "slow").model_copy(update={"args": {}}))
        w = await resumed_session(said, T("one"), C(c9=("slow", {})), T("two"), tools=[slow.tool])
        w.session.continue_(decide_open=True)
        assert w.session.status == "busy"
        await slow.started.wait()
        slow.go_on.set()
        await w.session.wait_for_idle()
        await w.say("more")
        assert w.prompt(3)[-1] == 'result c9 ok "done"'

    async def test_signal_aborts_the_deciding_run(self) -> None:
        """A-94: the given signal aborts the run that decides."""
        waiting = asyncio.Event()

        async def never(event: ToolCallEvent) -> None:
            waiting.set()
            await asyncio.Event().wait()

        w = await resumed_session(
            conversation_with_open_calls(call("c1", "1")), T("never"), tools=[noted([])]
        )
        w.session.on("tool_call", never)
        signal = AbortSignal()
        w.session.continue_(decide_open=True, abort=signal)
        await waiting.wait()
        signal.abort("enough")
        await w.session.wait_for_idle()
        assert w.turn_end.reason == "enough"
        assert (await w.stored())[-1] == 'result c1 err "Aborted"'
