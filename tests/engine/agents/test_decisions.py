"""Deciding calls: the answers of listeners, and calls that cannot run."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine.agents import (
    Allow,
    BashTool,
    C,
    Deny,
    LocalRuntime,
    LoopConfig,
    Override,
    ScriptedModel,
    T,
    TextDelta,
    ToolCallEvent,
    ToolResultEvent,
    UserMessage,
    loop,
    tool,
)

from .script import Watched, noted, watched


async def turn_with_one_call(answer: object) -> Watched:
    """Return a finished turn with one bash call, whose listener answers with `answer`."""
    w = await watched(C(c1=("bash", {"command": "echo hi"})), T("ok"))
    w.session.on("tool_call", lambda event: answer)
    await w.say("go")
    return w


class TestAnswers:
    @pytest.mark.parametrize("answer", [None, Allow()])
    async def test_allow(self, answer: object) -> None:
        """A-40: None or Allow runs the call unchanged."""
        assert 'result c1 ok "hi\n"' in (await turn_with_one_call(answer)).seen

    @pytest.mark.parametrize("answer", [Deny(reason="blocked"), {"deny": "blocked"}])
    async def test_deny(self, answer: object) -> None:
        """A-40: a denied call does not run, and the model reads the reason."""
        w = await turn_with_one_call(answer)
        assert 'result c1 err "blocked"' in w.seen
        assert w.prompt(2)[-1] == 'result c1 err "blocked"'

    @pytest.mark.parametrize(
        "answer", [Override(args={"command": "echo other"}), {"args": {"command": "echo other"}}]
    )
    async def test_override(self, answer: object) -> None:
        """A-40, A-45: the overriding arguments run; the history keeps the model's."""
        w = await turn_with_one_call(answer)
        assert 'result c1 ok "other\n"' in w.seen
        assert w.session.messages[1].tool_calls[0].args == {"command": "echo hi"}

    async def test_denial_takes_precedence_over_arguments(self) -> None:
        """A-42: an answer with both a denial and arguments denies."""
        assert (
            'result c1 err "D"'
            in (await turn_with_one_call({"deny": "D", "args": {"command": "echo x"}})).seen
        )

    async def test_empty_reason(self) -> None:
        """A-43: an empty reason also denies."""
        assert 'result c1 err ""' in (await turn_with_one_call({"deny": ""})).seen

    @pytest.mark.parametrize("answer", [True, False, "yes", {}, {"allow": True}, 1, ["x"], {"args": "x"}])
    async def test_value_that_is_no_decision_denies(self, answer: object) -> None:
        """A-44: a value that is not a decision denies."""
        [result] = [
            e for e in (await turn_with_one_call(answer)).events if isinstance(e, ToolResultEvent)
        ]
        assert result.is_error
        assert "tool_call listener" in result.result

    @pytest.mark.parametrize("args", [{}, {"command": 1}, {"command": "echo x", "extra": 1}])
    async def test_invalid_override_is_refused(self, args: dict[str, object]) -> None:
        """A-46: overriding arguments are validated like the model's."""
        [result] = [
            e for e in (await turn_with_one_call({"args": args})).events if isinstance(e, ToolResultEvent)
        ]
        assert result.is_error
        assert result.result.startswith("Invalid arguments for bash:")


class TestSeveralListeners:
    async def test_first_answer_decides(self) -> None:
        """A-41: listeners are called in order until one decides; the rest are not called."""
        w = await watched(C(c1=("bash", {"command": "echo hi"})), T("ok"))
        asked: list[int] = []
        w.session.on("tool_call", lambda e: asked.append(1))
        w.session.on("tool_call", lambda e: [asked.append(2), {"deny": "second"}][1])
        w.session.on("tool_call", lambda e: asked.append(3))
        assert 'result c1 err "second"' in await w.say("go")
        assert asked == [1, 2]

    async def test_changes_to_arguments_have_no_effect(self) -> None:
        """A-47: changing the arguments of the event has no effect."""
        w = await watched(C(c1=("bash", {"command": "echo hi"})), T("ok"))

        def change(event: ToolCallEvent) -> None:
            event.args["command"] = "echo changed"
            event.batch[0].args["command"] = "echo changed"

        w.session.on("tool_call", change)
        assert 'result c1 ok "hi\n"' in await w.say("go")


class TestBatch:
    async def test_each_call_is_decided_separately(self) -> None:
        """A-48, A-49: unknown, denied and overridden calls of one step; no event for the unknown one."""
        w = await watched(
            C(c1=("nope", {}), c2=("bash", {"command": "echo x"}), c3=("bash", {"command": "echo y"})),
            T("ok"),
        )

        def decide(event: ToolCallEvent) -> object:
            return {"deny": "no"} if event.call_id == "c2" else {"args": {"command": "echo OVERRIDE"}}

        w.session.on("tool_call", decide)
        assert (await w.say("go"))[3:8] == [
            "tool_call c2",
            "tool_call c3",
            'result c1 err "Tool not found: nope"',
            'result c2 err "no"',
            'result c3 ok "OVERRIDE\n"',
        ]

    async def test_each_call_has_all_calls_of_the_step(self) -> None:
        """A-51: each call comes after the decision on the previous one, with all calls of the step."""
        w = await watched(C(c1=("note", {}), c2=("note", {})), T("ok"), tools=[noted([])])
        order: list[str] = []

        async def decide(event: ToolCallEvent) -> None:
            order.append(f"{event.index} of {[c.call_id for c in event.batch]}")
            await asyncio.sleep(0.01)
            order.append("decided")

        w.session.on("tool_call", decide)
        await w.say("go")
        assert order == ["0 of ['c1', 'c2']", "decided", "1 of ['c1', 'c2']", "decided"]


class TestRawLoop:
    def events(self) -> object:
        """Return a loop with one call."""
        model = ScriptedModel([T("x") + C(c1=("bash", {"command": "echo hi"})), T("ok")])
        config = LoopConfig(model=model, runtime=LocalRuntime(), tools={"bash": BashTool})
        return loop([UserMessage(text="go")], config)

    async def test_iterating_approves(self) -> None:
        """A-52: plain iteration runs every call."""
        results = [e async for e in self.events() if isinstance(e, ToolResultEvent)]
        assert [r.result for r in results] == ["hi\n"]

    async def test_sending_decides(self) -> None:
        """A-52: a decision applies right after a call, and nowhere else."""
        events = self.events()
        results = []
        answer = None
        while True:
            try:
                event = await events.asend(answer)
            except StopAsyncIteration:
                break
            answer = None
            if isinstance(event, TextDelta):
                answer = Deny(reason="too early")
            if isinstance(event, ToolCallEvent):
                answer = Deny(reason="no")
            if isinstance(event, ToolResultEvent):
                results.append(event.result)
        assert results == ["no"]

    async def test_sending_an_invalid_value_denies(self) -> None:
        """A-44: a sent value that is not a decision denies."""
        events = self.events()
        event = await anext(events)
        while not isinstance(event, ToolCallEvent):
            event = await anext(events)
        event = await events.asend(True)
        assert isinstance(event, ToolResultEvent)
        assert event.is_error


class TestCallsThatCannotRun:
    @pytest.mark.parametrize(
        "raw",
        ['{"command": ', "[1]", '"x"', "null", "NaN", '{"command": NaN}', '{"command": "\\ud800"}'],
    )
    async def test_malformed_arguments(self, raw: str) -> None:
        """Arguments that are not a JSON object give an error result, without a decision."""
        w = await watched(C(c1=("bash", raw)), T("ok"))
        asked: list[object] = []
        w.session.on("tool_call", asked.append)
        await w.say("go")
        assert w.prompt(2)[-1].startswith('result c1 err "Invalid arguments for bash: expected a JSON')
        assert asked == []

    @pytest.mark.parametrize("depth", [300, 100_000])
    async def test_deeply_nested_arguments(self, depth: int) -> None:
        """Arguments nested hundreds of levels deep give an error result, not a crash."""
        raw = '{"a":' * depth + "1" + "}" * depth
        w = await watched(C(c1=("bash", raw)), T("ok"))
        assert (await w.say("go"))[-1] == 'turn_end("ok")'
        assert w.prompt(2)[-1].startswith('result c1 err "Invalid arguments for bash')

    async def test_arguments_that_do_not_fit(self) -> None:
        """A-128: the model reads all invalid arguments; the tool does not run."""
        w = await watched(C(c1=("bash", {"cmd": "x"})), T("ok"))
        await w.say("go")
        assert w.prompt(2)[-1] == (
            'result c1 err "Invalid arguments for bash: command: Field required; '
            'cmd: Extra inputs are not permitted"'
        )

    async def test_no_arguments(self) -> None:
        """An empty text means no arguments."""
        ran: list[str] = []
        w = await watched(C(c1=("note", "")), T("ok"), tools=[noted(ran)])
        await w.say("go")
        assert ran == [""]


class TestHint:
    async def test_hint_is_passed_to_listeners(self) -> None:
        """A tool's own hint is passed to listeners; a failing hint counts as yes."""

        @tool(needs_approval=lambda args: args["path"] == "/etc")
        async def remove(path: str) -> str:
            """Remove a path."""
            return "removed"

        @tool(needs_approval=lambda args: args["nothing"] == 1)
        async def broken() -> str:
            """A tool with a broken hint."""
            return "ran"

        w = await watched(
            C(c1=("remove", {"path": "/etc"}), c2=("remove", {"path": "/tmp"}), c3=("broken", {})),
            T("ok"),
            tools=[remove, broken],
        )
        await w.say("go")
        hints = [e.needs_approval for e in w.events if isinstance(e, ToolCallEvent)]
        assert hints == [True, False, True]
