"""The contract's execution phase and its limits: each clause with a case that could break it."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine.agents import (
    AbortSignal,
    Agent,
    BashTool,
    C,
    DuplicateToolError,
    FakeRuntime,
    MessageEvent,
    ScriptedModel,
    StepEvent,
    T,
    ToolContext,
    TurnEnd,
    tool,
)

from ..script import SKIPPED, Slow, noted, watched


class TestResults:
    async def test_all_kinds_of_results_in_call_order(self) -> None:
        """A-58, A-48: approved, denied, unknown and skipped calls have their results in call order."""
        ran: list[str] = []
        w = await watched(
            C(
                c1=("note", {"text": "1"}),
                c2=("nope", {}),
                c3=("note", {"text": "3"}),
                c4=("note", {"text": "4"}),
                c5=("note", {"text": "5"}),
            ),
            T("ok"),
            tools=[noted(ran)],
        )

        def decide(event: object) -> object:
            if event.call_id == "c3":
                # It is received after this decision, because it arrives in the next turn of the event
                # loop.
                asyncio.get_running_loop().call_soon(w.session.send, "STEER")
                return {"deny": "no"}
            return None

        w.session.on("tool_call", decide)
        assert [s for s in await w.say("go") if s.startswith(("tool_call", "result"))] == [
            "tool_call c1",
            "tool_call c3",
            'result c1 ok "noted 1"',
            'result c2 err "Tool not found: nope"',
            'result c3 err "no"',
            f'result c4 err "{SKIPPED}"',
            f'result c5 err "{SKIPPED}"',
        ]
        assert ran == ["1"]

    async def test_results_wait_for_the_slowest_tool(self) -> None:
        """A-56, A-58: even results of refused calls wait for the slowest tool of the step."""
        slow = Slow()
        w = await watched(C(c1=("nope", {}), c2=("slow", {})), T("ok"), tools=[slow.tool])
        w.session.send("go")
        await slow.started.wait()
        for _ in range(30):
            await asyncio.sleep(0)
        assert not any(s.startswith("result") for s in w.seen)
        slow.go_on.set()
        await w.session.wait_for_idle()
        assert [s for s in w.seen if s.startswith("result")] == [
            'result c1 err "Tool not found: nope"',
            'result c2 ok "done"',
        ]

    async def test_failure_waits_for_the_others(self) -> None:
        """A-56, A-57: a tool that fails at once stops no slow one, and its result comes no earlier."""
        slow = Slow()

        @tool
        async def kaboom() -> str:
            """Fail."""
            raise ValueError("kaboom")

        w = await watched(C(c1=("kaboom", {}), c2=("slow", {})), T("ok"), tools=[kaboom, slow.tool])
        w.session.send("go")
        await slow.started.wait()
        for _ in range(30):
            await asyncio.sleep(0)
        assert not any(s.startswith("result") for s in w.seen)
        slow.go_on.set()
        await w.session.wait_for_idle()
        assert [s for s in w.seen if s.startswith("result")] == [
            'result c1 err "kaboom"',
            'result c2 ok "done"',
        ]

    async def test_tools_start_after_all_decisions(self) -> None:
        """A-50, A-55: an approved tool does not start while a later call is undecided."""
        ran: list[str] = []
        w = await watched(
            C(c1=("note", {"text": "1"}), c2=("note", {"text": "2"})), T("ok"), tools=[noted(ran)]
        )
        so_far: list[list[str]] = []

        async def decide(event: object) -> None:
            for _ in range(30):
                await asyncio.sleep(0)
            so_far.append(list(ran))

        w.session.on("tool_call", decide)
        await w.say("go")
        assert so_far == [[], []]
        assert sorted(ran) == ["1", "2"]


class TestContext:
    async def test_signal_of_a_later_message(self) -> None:
        """A-59: a tool's signal is that of the message that started the run, not of a later one."""
        first, second = AbortSignal(), AbortSignal()
        slow = Slow()
        signals: list[AbortSignal] = []

        @tool
        async def look(ctx: ToolContext) -> str:
            """Keep the signal."""
            signals.append(ctx.abort)
            return "ok"

        w = await watched(C(c1=("look", {}), c2=("slow", {})), T("never"), tools=[look, slow.tool])
        w.session.send("go", abort=first)
        await slow.started.wait()
        w.session.send("more", mode="queue", abort=second)
        second.abort("of no account")
        assert not signals[0].aborted
        first.abort("stop")
        assert (signals[0].aborted, signals[0].reason) == (True, "stop")
        await w.session.wait_for_idle()
        assert w.turn_end.undelivered == ("more",)

    async def test_runtime_of_the_session(self) -> None:
        """A-59: tools work in the session's runtime if it has one."""
        theirs, own = FakeRuntime({"where": "the agent's"}), FakeRuntime({"where": "the session's"})
        model = ScriptedModel([C(c1=("bash", {"command": "where"})), T("ok")])
        agent = Agent(model, tools=[BashTool], runtime=theirs)
        session = await agent.create_session(runtime=own)
        await session.prompt("go")
        assert session.messages[2].text == "the session's"
        assert (theirs.calls, own.calls) == ([], ["where"])


class TestLimits:
    async def test_names_that_differ_by_case(self) -> None:
        """A-61: only an identical name is a duplicate, at any position in the list."""
        agent = Agent(ScriptedModel([]), tools=[noted([], "note"), noted([], "Note")])
        assert [t.name for t in agent.tools] == ["note", "Note"]
        with pytest.raises(DuplicateToolError, match=r'^Duplicate tool name: "note"'):
            Agent(ScriptedModel([]), tools=[noted([], "note"), BashTool, noted([], "note")])

    async def test_order_of_exactly_two_steps(self) -> None:
        """A-62: the exact order of two steps without a third; there is no error, and waiting returns."""
        w = await watched(
            C(c1=("note", {})), C(c2=("note", {})), C(c3=("note", {})), tools=[noted([])], max_steps=2
        )
        assert await w.say("go") == [
            'user "go"',
            'assistant ""+c1',
            "step(tool-calls,10,5)",
            "tool_call c1",
            'result c1 ok "noted "',
            'assistant ""+c2',
            "step(tool-calls,10,5)",
            "tool_call c2",
            'result c2 ok "noted "',
            'turn_end("")',
        ]
        assert len(w.model.requests) == 2

    async def test_steps_count_over_all_messages_of_a_run(self) -> None:
        """A-62, A-63: steps count over all messages of a run; a message beyond them gets a new run."""
        w = await watched(T("A"), T("B"), T("C"), send_mode="queue", max_steps=2)
        for text in ("1", "2", "3"):
            w.session.send(text)
        await w.session.wait_for_idle()
        runs: list[int] = [0]
        for event in w.events:
            runs[-1] += isinstance(event, StepEvent)
            if isinstance(event, TurnEnd):
                runs.append(0)
        assert runs == [2, 1, 0]
        assert await w.stored() == [
            'user "1"',
            'assistant "A"',
            'user "2"',
            'assistant "B"',
            'user "3"',
            'assistant "C"',
        ]
        told = [e.message.role for e in w.events if isinstance(e, MessageEvent)]
        assert told == ["user", "assistant"] * 3

    @pytest.mark.parametrize("mode", ["steer", "queue"])
    async def test_waiting_message_starts_next_run_at_step_limit(self, mode: str) -> None:
        """A-63: the run ends with `max_steps`, and a waiting message of either mode starts the next."""
        slow = Slow()
        w = await watched(C(c1=("slow", {})), T("heard you"), tools=[slow.tool], max_steps=1)
        w.session.send("go")
        await slow.started.wait()
        w.session.send("waits", mode=mode)
        slow.go_on.set()
        await w.session.wait_for_idle()
        ends = [e for e in w.events if isinstance(e, TurnEnd)]
        assert [(e.stop_reason, e.undelivered) for e in ends] == [("max_steps", ()), ("completed", ())]
        assert w.prompt(2) == ['user "go"', 'assistant ""+c1', 'result c1 ok "done"', 'user "waits"']

    async def test_steering_in_last_reply_starts_next_run(self) -> None:
        """A-63: a steering message during the last allowed text reply gets its own run."""
        w = await watched(T("A"), T("B"), max_steps=1)
        w.session.on("text_delta", lambda e: w.session.steer("S") if e.delta == "A" else None)
        assert [s for s in await w.say("go") if s.startswith(("user", "turn_end"))] == [
            'user "go"',
            'turn_end("A")',
            'user "S"',
            'turn_end("B")',
        ]

    async def test_several_waiting_messages_with_one_step_per_run(self) -> None:
        """A-63: with one step per run, each waiting message still gets its turn, steering first."""
        slow = Slow()
        w = await watched(C(c1=("slow", {})), T("A"), T("B"), tools=[slow.tool], max_steps=1)
        w.session.send("go")
        await slow.started.wait()
        w.session.send("Q", mode="queue")
        w.session.send("S", mode="steer")
        slow.go_on.set()
        await w.session.wait_for_idle()
        assert (await w.stored())[3:] == ['user "S"', 'assistant "A"', 'user "Q"', 'assistant "B"']
