"""The contract's approval phase: each clause with a case that could break it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable

import pytest

from interlock.engine.agents import (
    Allow,
    BashTool,
    C,
    Decision,
    Deny,
    FakeRuntime,
    LocalRuntime,
    LoopConfig,
    LoopEvent,
    Override,
    ScriptedModel,
    T,
    Tool,
    ToolCallEvent,
    ToolContext,
    ToolInputError,
    ToolResultEvent,
    UserMessage,
    loop,
    tool,
)

from ..script import noted, shown, watched


def raw_loop(*tools: Tool, model: ScriptedModel) -> AsyncGenerator[LoopEvent, Decision]:
    """Return a loop without listeners, to be driven by hand."""
    table = {each.name: each for each in tools}
    config = LoopConfig(model=model, runtime=LocalRuntime(), tools=table)
    return loop([UserMessage(text="go")], config)


async def drive_loop(
    events: AsyncGenerator[LoopEvent, object], answer: Callable[[LoopEvent], object]
) -> list[LoopEvent]:
    """Return the events of a loop, sending `answer(event)` after each."""
    seen: list[LoopEvent] = []
    sent: object = None
    while True:
        try:
            seen.append(await events.asend(sent))
        except StopAsyncIteration:
            return seen
        sent = answer(seen[-1])


def results(events: list[LoopEvent]) -> list[str]:
    """Return the results among `events`, in the notation of the scripts."""
    return [shown(e) for e in events if isinstance(e, ToolResultEvent)]


@tool
async def put(items: list[str]) -> str:
    """Put items."""
    return f"put {' '.join(items)}"


class TestAnswers:
    async def test_overriding_arguments_run(self) -> None:
        """A-40: the overriding arguments run, and the model reads their result."""
        w = await watched(C(c1=("bash", {"command": "echo hi"})), T("ok"))
        w.session.on("tool_call", lambda e: {"args": {"command": "echo overridden"}})
        assert 'result c1 ok "overridden\n"' in await w.say("go")
        assert w.prompt(2)[-1] == 'result c1 ok "overridden\n"'

    async def test_denied_does_not_run(self) -> None:
        """A-40: a denied call does not run."""
        ran: list[str] = []
        w = await watched(C(c1=("note", {"text": "1"})), T("ok"), tools=[noted(ran)])
        w.session.on("tool_call", lambda e: {"deny": "blocked"})
        assert 'result c1 err "blocked"' in await w.say("go")
        assert ran == []

    @pytest.mark.parametrize(
        ("first", "result"),
        [
            ({"args": {"text": "first"}}, "noted first"),
            (Override(args={"text": "first"}), "noted first"),
            (Allow(), "noted model"),
        ],
    )
    async def test_first_listener_that_allows_decides(self, first: object, result: str) -> None:
        """A-41: after an override or an explicit allow, later listeners are not called."""
        asked: list[str] = []
        w = await watched(C(c1=("note", {"text": "model"})), T("ok"), tools=[noted([])])
        w.session.on("tool_call", lambda e: first)

        def later(event: ToolCallEvent) -> dict[str, str]:
            asked.append(event.call_id)
            return {"deny": "too late"}

        w.session.on("tool_call", later)
        assert f'result c1 ok "{result}"' in await w.say("go")
        assert asked == []

    async def test_skipped_listener_is_called_for_next_call(self) -> None:
        """A-41: a listener that was skipped for one call is called for the next."""
        asked: list[str] = []
        w = await watched(C(c1=("note", {}), c2=("note", {})), T("ok"), tools=[noted([])])
        w.session.on("tool_call", lambda e: {"deny": "no"} if e.call_id == "c1" else None)
        w.session.on("tool_call", lambda e: asked.append(e.call_id))
        await w.say("go")
        assert asked == ["c2"]

    @pytest.mark.parametrize("answer", [True, False, 0, "", {}, [], "yes", {"allow": True}, Deny, 3.5])
    async def test_other_value_denies_in_the_raw_loop(self, answer: object) -> None:
        """A-44: in the raw loop, a sent value that is not a decision denies, even a falsy one."""
        ran: list[str] = []
        model = ScriptedModel([C(c1=("note", {})), T("ok")])
        events = await drive_loop(
            raw_loop(noted(ran), model=model), lambda e: answer if isinstance(e, ToolCallEvent) else None
        )
        [result] = results(events)
        assert result.startswith('result c1 err "')
        assert ran == []

    async def test_coroutine_as_result_denies(self) -> None:
        """A-44: an async listener's coroutine is awaited once; a second coroutine as result denies."""

        async def inner() -> None:
            return None

        w = await watched(C(c1=("bash", {"command": "echo hi"})), T("ok"))
        made: list[object] = []

        async def outer(event: ToolCallEvent) -> object:
            made.append(inner())
            return made[0]

        w.session.on("tool_call", outer)
        await w.say("go")
        [result] = [e for e in w.events if isinstance(e, ToolResultEvent)]
        assert result.is_error
        assert result.result.endswith("not coroutine")
        made[0].close()

    async def test_override_is_checked_before_the_tool(self) -> None:
        """A-46: overriding arguments are validated before the tool starts, even if hand-written."""
        started: list[object] = []

        class Strict:
            name, description = "strict", "Strict."
            parameters = {"type": "object", "properties": {"n": {"type": "integer"}}}  # noqa: RUF012

            def validate(self, args: dict[str, object]) -> None:
                if not isinstance(args.get("n"), int):
                    raise ToolInputError("Invalid arguments for strict: n: expected an integer")

            async def execute(self, args: dict[str, object], ctx: ToolContext) -> str:
                started.append(args)
                return "ran"

        w = await watched(C(c1=("strict", {"n": 1}), c2=("strict", {"n": 2})), T("ok"), tools=[Strict()])
        w.session.on("tool_call", lambda e: {"args": {"n": "x"}} if e.call_id == "c1" else None)
        seen = await w.say("go")
        assert 'result c1 err "Invalid arguments for strict: n: expected an integer"' in seen
        assert started == [{"n": 2}]


class TestArguments:
    async def test_raw_loop_gets_a_copy(self) -> None:
        """A-47: the driver of the raw loop also gets a copy of the arguments."""
        model = ScriptedModel([C(c1=("put", {"items": ["model"]})), T("ok")])

        def change(event: LoopEvent) -> None:
            if isinstance(event, ToolCallEvent):
                event.args["items"].append("changed")
                event.args["more"] = "changed"

        events = await drive_loop(raw_loop(put, model=model), change)
        assert results(events) == ['result c1 ok "put model"']
        assert model.requests[1].messages[1].tool_calls[0].args == {"items": ["model"]}

    async def test_nested_changes_are_not_seen_by_others(self) -> None:
        """A-47: changes that a listener makes to nested arguments are not seen by others."""
        w = await watched(C(c1=("bash", {"command": "echo hi"})), T("ok"))
        seen: list[object] = []

        def change(event: ToolCallEvent) -> None:
            seen.append((dict(event.args), dict(event.batch[0].args)))
            event.args["command"] = event.batch[0].args["command"] = "rm"

        w.session.on_any(lambda e: change(e) if isinstance(e, ToolCallEvent) else None)
        w.session.on("tool_call", change)
        w.session.on("tool_call", functools.partial(change))
        assert 'result c1 ok "hi\n"' in await w.say("go")
        assert seen == [({"command": "echo hi"}, {"command": "echo hi"})] * 3

    @pytest.mark.parametrize("by_class", [True, False])
    async def test_later_changes_to_an_override_have_no_effect(self, by_class: bool) -> None:
        """A-47: later changes to a listener's overriding arguments have no effect."""
        items = ["approved"]
        w = await watched(C(c1=("put", {"items": []}), c2=("put", {"items": []})), T("ok"), tools=[put])

        def decide(event: ToolCallEvent) -> object:
            if event.call_id == "c1":
                return answer
            items.append("changed")
            return None

        w.session.on("tool_call", decide)
        answer = Override(args={"items": items}) if by_class else {"args": {"items": items}}
        assert 'result c1 ok "put approved"' in await w.say("go")


class TestOrder:
    async def test_result_of_denied_call_waits_for_all_decisions(self) -> None:
        """A-50: the result of a call denied first comes after the decision on the last call."""
        w = await watched(C(c1=("note", {}), c2=("note", {})), T("ok"), tools=[noted([])])
        w.session.on("tool_call", lambda e: {"deny": "no"} if e.call_id == "c1" else None)
        assert (await w.say("go"))[3:7] == [
            "tool_call c1",
            "tool_call c2",
            'result c1 err "no"',
            'result c2 ok "noted "',
        ]

    async def test_calls_that_cannot_run_are_in_the_batch(self) -> None:
        """A-49, A-51: calls that cannot run are in the batch and count, although they are not decided."""
        w = await watched(
            C(c1=("nope", {}), c2=("note", {}), c3=("note", "{"), c4=("note", {})),
            T("ok"),
            tools=[noted([])],
        )
        await w.say("go")
        shown_calls = [e for e in w.events if isinstance(e, ToolCallEvent)]
        assert [(e.call_id, e.index) for e in shown_calls] == [("c2", 1), ("c4", 3)]
        for event in shown_calls:
            assert [c.call_id for c in event.batch] == ["c1", "c2", "c3", "c4"]
            assert (event.batch[event.index].call_id, event.batch[event.index].args) == (
                event.call_id,
                event.args,
            )

    async def test_step_with_only_unknown_tools(self) -> None:
        """A-49: a step with only unknown tools is not decided, gets its results, and continues."""
        w = await watched(C(c1=("nope", {}), c2=("nada", {})), T("ok"))
        asked: list[object] = []
        w.session.on("tool_call", asked.append)
        assert (await w.say("go"))[3:6] == [
            'result c1 err "Tool not found: nope"',
            'result c2 err "Tool not found: nada"',
            'delta "ok"',
        ]
        assert asked == []

    async def test_second_call_waits_for_the_first_decision(self) -> None:
        """A-51: no listener or observer gets the second call while the first is undecided."""
        w = await watched(C(c1=("note", {}), c2=("note", {})), T("ok"), tools=[noted([])])
        during: list[list[str]] = []

        async def decide(event: ToolCallEvent) -> None:
            for _ in range(30):
                await asyncio.sleep(0)
            during.append([e.call_id for e in w.events if isinstance(e, ToolCallEvent)])

        w.session.on("tool_call", decide)
        await w.say("go")
        assert during == [["c1"], ["c1", "c2"]]


class TestRawLoop:
    async def test_denial_after_another_event_is_ignored(self) -> None:
        """A-52: a denial that is sent after any other event is ignored when the call comes."""
        model = ScriptedModel(
            [T("let me") + C(c1=("bash", {"command": "echo one; echo two"})), T("Done")]
        )
        events = await drive_loop(
            raw_loop(BashTool, model=model),
            lambda e: None if isinstance(e, ToolCallEvent) else Deny(reason="ignored"),
        )
        assert results(events) == ['result c1 ok "one\ntwo\n"']
        assert [e.type for e in events][-1] == "step"

    @pytest.mark.parametrize(
        ("answer", "result"),
        [
            (None, 'result c1 ok "hi\n"'),
            (Allow(), 'result c1 ok "hi\n"'),
            (Deny(reason="no"), 'result c1 err "no"'),
            ({"deny": "no"}, 'result c1 err "no"'),
            (Override(args={"command": "echo x"}), 'result c1 ok "x\n"'),
            ({"args": {"command": "echo x"}}, 'result c1 ok "x\n"'),
        ],
    )
    async def test_every_decision(self, answer: object, result: str) -> None:
        """A-40, A-52: the raw loop accepts each decision that a listener can give."""
        model = ScriptedModel([C(c1=("bash", {"command": "echo hi"})), T("ok")])
        events = await drive_loop(
            raw_loop(BashTool, model=model), lambda e: answer if isinstance(e, ToolCallEvent) else None
        )
        assert results(events) == [result]

    async def test_decisions_go_to_their_calls(self) -> None:
        """A-48, A-52: each sent decision applies only to the call that was just yielded."""
        model = ScriptedModel([C(c1=("note", {}), c2=("note", {}), c3=("note", {})), T("ok")])
        answers = {"c1": Deny(reason="one"), "c2": None, "c3": Deny(reason="three")}
        events = await drive_loop(
            raw_loop(noted([]), model=model),
            lambda e: answers[e.call_id] if isinstance(e, ToolCallEvent) else None,
        )
        assert results(events) == [
            'result c1 err "one"',
            'result c2 ok "noted "',
            'result c3 err "three"',
        ]

    async def test_denied_call_does_not_reach_the_runtime(self) -> None:
        """A-40, A-58: in the raw loop as well, a denied call does not reach the runtime."""
        runtime = FakeRuntime()
        model = ScriptedModel([C(c1=("bash", {"command": "rm -rf /"})), T("ok")])
        config = LoopConfig(model=model, runtime=runtime, tools={"bash": BashTool})
        await drive_loop(
            loop([UserMessage(text="go")], config),
            lambda e: Deny(reason="no") if isinstance(e, ToolCallEvent) else None,
        )
        assert runtime.calls == []
