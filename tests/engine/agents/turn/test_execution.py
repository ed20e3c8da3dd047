"""Running a step's tools: concurrently, results in call order, errors contained."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine.agents import (
    AbortSignal,
    Agent,
    C,
    DuplicateToolError,
    LocalRuntime,
    RuntimeTimeoutError,
    ScriptedModel,
    T,
    ToolContext,
    ToolOutput,
    ToolResultEvent,
    tool,
)

from ..script import Slow, noted, until, watched


class TestTogether:
    async def test_approved_tools_run_concurrently(self) -> None:
        """A-55: approved tools run concurrently: each waits here until the other has started."""
        met = asyncio.Barrier(2)

        @tool
        async def meet() -> str:
            """Wait for the other."""
            async with asyncio.timeout(5):
                await met.wait()
            return "met"

        w = await watched(C(c1=("meet", {}), c2=("meet", {})), T("ok"), tools=[meet])
        seen = await w.say("go")
        assert [s for s in seen if "result" in s] == ['result c1 ok "met"', 'result c2 ok "met"']

    async def test_results_in_call_order(self) -> None:
        """A-56: no result is reported before all tools have ended, and then all in call order."""
        slow = Slow()
        ran: list[str] = []
        w = await watched(C(c1=("slow", {}), c2=("note", {})), T("ok"), tools=[slow.tool, noted(ran)])
        w.session.send("go")
        await slow.started.wait()
        await until(lambda: bool(ran))
        assert not any(isinstance(e, ToolResultEvent) for e in w.events)
        slow.go_on.set()
        await w.session.wait_for_idle()
        assert [s for s in w.seen if "result" in s] == ['result c1 ok "done"', 'result c2 ok "noted "']

    async def test_plain_functions_run_in_threads(self) -> None:
        """A tool that is a plain function runs in a thread, beside others."""
        loop = asyncio.get_running_loop()
        started = asyncio.Event()

        @tool
        def blocking() -> str:
            """Wait for the other, blocking."""
            return asyncio.run_coroutine_threadsafe(started.wait(), loop).result(5) and "went on"

        @tool
        async def other() -> str:
            """Let the other go on."""
            started.set()
            return "set"

        w = await watched(C(c1=("blocking", {}), c2=("other", {})), T("ok"), tools=[blocking, other])
        assert 'result c1 ok "went on"' in await w.say("go")


class TestErrors:
    async def test_tool_that_raises(self) -> None:
        """A-57: an exception is an error result; other tools and the loop continue."""

        @tool
        async def kaboom() -> str:
            """Fail."""
            raise RuntimeError("kaboom")

        w = await watched(
            C(c1=("kaboom", {}), c2=("note", {"text": "x"})), T("ok"), tools=[kaboom, noted([])]
        )
        seen = await w.say("go")
        assert 'result c1 err "kaboom"' in seen
        assert 'result c2 ok "noted x"' in seen
        assert seen[-1] == 'turn_end("ok")'

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (KeyError(), "KeyError"),
            (SystemExit(3), "The tool tried to exit with 3"),
            (asyncio.CancelledError(), "The operation was aborted"),
        ],
    )
    async def test_odd_exceptions(self, error: BaseException, text: str) -> None:
        """A-57: exceptions without text, exits and stray cancellations are contained too."""

        @tool
        async def odd() -> str:
            """Fail in an odd way."""
            raise error

        w = await watched(C(c1=("odd", {})), T("ok"), tools=[odd])
        assert f'result c1 err "{text}"' in await w.say("go")

    async def test_refused_calls_keep_their_place(self) -> None:
        """A-58: denied and unknown calls have their results in call order, and never run."""
        ran: list[str] = []
        w = await watched(
            C(c1=("note", {"text": "1"}), c2=("nope", {}), c3=("note", {"text": "3"})),
            T("ok"),
            tools=[noted(ran)],
        )
        w.session.on("tool_call", lambda e: {"deny": "no"} if e.call_id == "c1" else None)
        assert [s for s in await w.say("go") if "result" in s] == [
            'result c1 err "no"',
            'result c2 err "Tool not found: nope"',
            'result c3 ok "noted 3"',
        ]
        assert ran == ["3"]


class TestOutput:
    async def test_every_kind_of_output(self) -> None:
        """Text stays text, other values become JSON, and a reported failure is an error result."""

        @tool
        async def give(kind: str) -> object:
            """Give something."""
            return {
                "none": None,
                "json": {"a": [1]},
                "failed": ToolOutput("bad", is_error=True),
                "metadata": ToolOutput("fine", metadata={"n": 1}),
            }[kind]

        w = await watched(
            C(
                c1=("give", {"kind": "none"}),
                c2=("give", {"kind": "json"}),
                c3=("give", {"kind": "failed"}),
                c4=("give", {"kind": "metadata"}),
            ),
            T("ok"),
            tools=[give],
        )
        await w.say("go")
        results = [e for e in w.events if isinstance(e, ToolResultEvent)]
        assert [(r.result, r.is_error, r.metadata) for r in results] == [
            ("", False, {}),
            ('{"a":[1]}', False, {}),
            ("bad", True, {}),
            ("fine", False, {"n": 1}),
        ]

    async def test_metadata_that_is_no_json(self) -> None:
        """Metadata that cannot be recorded is the tool's error, not the session's."""

        @tool
        async def odd() -> ToolOutput:
            """Give odd metadata."""
            return ToolOutput("x", metadata={"o": object()})

        w = await watched(C(c1=("odd", {})), T("ok"), tools=[odd])
        seen = await w.say("go")
        assert any(s.startswith("result c1 err") for s in seen)
        assert seen[-1] == 'turn_end("ok")'


class TestContext:
    async def test_tool_gets_runtime_signal_and_ids(self) -> None:
        """A-59: a tool gets the runtime, the run's signal, and the ids of session and call."""
        got: list[ToolContext] = []

        @tool
        async def look(ctx: ToolContext) -> str:
            """Look around."""
            got.append(ctx)
            ctx.progress("looking")
            return "ok"

        w = await watched(C(c1=("look", {})), T("ok"), tools=[look])
        await w.say("go")
        [ctx] = got
        assert ctx.runtime is w.agent.runtime
        assert (ctx.session_id, ctx.call_id, ctx.abort.aborted) == (w.session.id, "c1", False)
        assert [e.text for e in w.events if e.type == "tool_progress"] == ["looking"]

    async def test_signal_of_the_message(self) -> None:
        """A-59: a tool's signal is set together with the message's signal."""
        seen: list[bool] = []
        stop = AbortSignal()

        @tool
        async def look(ctx: ToolContext) -> str:
            """Look at the signal, before and after it is set."""
            seen.append(ctx.abort.aborted)
            stop.abort("enough")
            seen.append(ctx.abort.aborted)
            return "ok"

        w = await watched(C(c1=("look", {})), T("never"), tools=[look])
        w.session.send("go", abort=stop)
        await w.session.wait_for_idle()
        assert seen == [False, True]
        assert w.turn_end.reason == "enough"


class TestTime:
    @pytest.mark.parametrize("seconds", [None, 0])
    async def test_no_timeout(self, seconds: float | None) -> None:
        """A-60: neither `None` nor 0 is a timeout."""
        done = await LocalRuntime().exec("echo hi", timeout=seconds)
        assert (done.exit_code, done.stdout) == (0, "hi\n")

    async def test_times_are_in_seconds(self) -> None:
        """A-60: times are in seconds, including fractions."""
        with pytest.raises(RuntimeTimeoutError, match=r"^Command timed out after 0\.05s$") as raised:
            await LocalRuntime().exec("sleep 1000", timeout=0.05)
        assert raised.value.timeout_secs == 0.05

    async def test_calls_timeout_is_in_seconds(self) -> None:
        """A-60, A-120: a call's own timeout is also in seconds."""
        w = await watched(C(c1=("bash", {"command": "sleep 1000", "timeout": 0.05})), T("ok"))
        assert 'result c1 err "Command timed out after 0.05s"' in await w.say("go")


class TestLimits:
    async def test_duplicate_names(self) -> None:
        """A-61: two tools with the same name are an error when the agent is created."""
        with pytest.raises(DuplicateToolError, match='Duplicate tool name: "note"'):
            Agent(ScriptedModel([]), tools=[noted([]), noted([])])

    async def test_last_step_runs_its_tools(self) -> None:
        """A-62: the last allowed step still runs its tools, then the turn ends without an error."""
        ran: list[str] = []
        replies = [C(note={"text": str(n)}) for n in range(5)]
        w = await watched(*replies, tools=[noted(ran)], max_steps=2)
        seen = await w.say("go")
        assert sum(s.startswith("step") for s in seen) == 2
        assert ran == ["0", "1"]
        assert seen[-1] == 'turn_end("")'
        assert w.turn_end.stop_reason == "max_steps"

    async def test_message_at_the_step_limit_starts_a_run(self) -> None:
        """A-63: a message that waits when the steps are used up starts a new run."""
        slow = Slow()
        w = await watched(C(slow={}), T("heard you"), tools=[slow.tool], max_steps=1)
        w.session.send("go")
        await slow.started.wait()
        w.session.send("wait")
        slow.go_on.set()
        await w.session.wait_for_idle()
        assert [s for s in w.seen if s.startswith(("user", "turn_end"))] == [
            'user "go"',
            'turn_end("")',
            'user "wait"',
            'turn_end("heard you")',
        ]

    @pytest.mark.parametrize("steps", [0, -1])
    async def test_no_steps_at_all(self, steps: int) -> None:
        """An agent without any allowed step is an error."""
        with pytest.raises(ValueError, match="max_steps must be at least 1"):
            Agent(ScriptedModel([]), max_steps=steps)
