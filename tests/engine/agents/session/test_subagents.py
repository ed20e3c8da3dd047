"""Subagents: work delegated to another agent, whose calls all pass the same gate."""

from __future__ import annotations

import asyncio

from interlock.engine import (
    Agent,
    FakeRuntime,
    ScriptedModel,
    ToolContext,
    create_gate,
    create_gate_manager,
    tool,
)
from interlock.engine.agents import ERR, C, T, task_tool
from interlock.engine.agents.events import ToolProgress, ToolResultEvent
from interlock.rules import compile_rules


class Shop:
    """Tools that record their runs, and agents that use them."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def tools(self) -> list[object]:
        @tool(name="test")
        async def run_tests(ctx: ToolContext) -> str:
            """Run the tests."""
            self.ran.append("test")
            return "ok"

        @tool
        async def deploy(ctx: ToolContext) -> str:
            """Deploy."""
            self.ran.append("deploy")
            return "deployed"

        return [run_tests, deploy]

    def agent(self, *replies: object, name: str = "helper") -> Agent:
        return Agent(ScriptedModel(list(replies)), name=name, tools=self.tools())

    def boss(self, *replies: object, helper: Agent, **options: object) -> Agent:
        tools = [*self.tools(), task_tool(helper)]
        return Agent(ScriptedModel(list(replies)), name="boss", tools=tools, **options)


RULES = "require test before deploy\nlimit deploy to 1 per session\n"


class TestTask:
    async def test_subagents_last_text_is_the_result(self) -> None:
        """§9 ☆: `task_<name>` gives another agent its own conversation; its last text is the result."""
        shop = Shop()
        helper = shop.agent(C(test={}), T("All ", "green."))
        boss = shop.boss(C(task_helper={"prompt": "Test it"}), T("Fine."), helper=helper)
        session = await boss.create_session()
        results: list[ToolResultEvent] = []
        said: list[str] = []
        session.on("tool_result", results.append)
        session.on("tool_progress", lambda e: said.append(e.text))
        assert await session.prompt("go") == "Fine."
        assert [(r.name, r.result, r.is_error) for r in results] == [("task_helper", "All green.", False)]
        assert "".join(said) == "All green."
        assert [m.role for m in helper.model.requests[0].messages] == ["user"]
        assert shop.ran == ["test"]

    async def test_failing_subagent_is_a_failed_call(self) -> None:
        """A-57: a failing subagent is a failed call, and the parent continues."""
        shop = Shop()
        helper = shop.agent(ERR("no model today"))
        boss = shop.boss(C(task_helper={"prompt": "x"}), T("I see."), helper=helper)
        session = await boss.create_session()
        results: list[ToolResultEvent] = []
        session.on("tool_result", results.append)
        assert await session.prompt("go") == "I see."
        assert (results[0].result, results[0].is_error) == ("no model today", True)

    async def test_result_says_that_the_step_limit_was_reached(self) -> None:
        """The result of a subagent that reaches its step limit says so."""
        shop = Shop()
        helper = Agent(
            ScriptedModel(lambda _: C(test={})), name="helper", tools=shop.tools(), max_steps=3
        )
        boss = shop.boss(C(task_helper={"prompt": "x"}), T("ok"), helper=helper)
        session = await boss.create_session()
        results: list[ToolResultEvent] = []
        session.on("tool_result", results.append)
        await session.prompt("go")
        assert results[0].result == "[helper stopped after 3 steps]"
        assert shop.ran == ["test"] * 3

    async def test_recursive_delegation_is_limited(self) -> None:
        """Agents that delegate recursively are stopped after eight levels."""
        model = ScriptedModel(
            lambda messages: C(task_echo={"prompt": "deeper"}) if len(messages) < 2 else T("up")
        )
        echo = Agent(model, name="echo")
        echo = Agent(model, name="echo", tools=[task_tool(echo)])
        chain = echo
        for _ in range(12):
            chain = Agent(model, name="echo", tools=[task_tool(chain)])
        session = await chain.create_session()
        assert await session.prompt("go") == "up"
        deepest = [r for r in model.requests if "is the limit" in str(r.messages[-1])]
        assert len(deepest) == 1

    async def test_tools_stay_in_the_parents_runtime(self) -> None:
        """Delegation does not leave the parent's sandbox."""
        seen: list[object] = []

        @tool
        async def look(ctx: ToolContext) -> str:
            """Look."""
            seen.append(ctx.runtime)
            return "ok"

        helper = Agent(ScriptedModel([C(look={}), T("done")]), name="helper", tools=[look])
        runtime = FakeRuntime()
        boss = Agent(
            ScriptedModel([C(task_helper={"prompt": "x"}), T("ok")]),
            tools=[task_tool(helper)],
            runtime=runtime,
        )
        await (await boss.create_session()).prompt("go")
        assert seen == [runtime]


class TestGate:
    async def test_every_call_passes_the_parents_gate(self) -> None:
        """The subagent's test unlocks the parent's deploy, and its deploy uses the parent's budget."""
        shop = Shop()
        helper = shop.agent(C(deploy={}), C(test={}), C(deploy={}), T("done"))
        boss = shop.boss(
            C(task_helper={"prompt": "x"}), C(test={}), C(deploy={}), T("done"), helper=helper
        )
        manager = create_gate_manager(compile_rules(RULES).nets)
        session = await boss.create_session(gate=manager)
        await session.prompt("go")
        assert shop.ran == ["test", "deploy", "test"]
        told = [str(r.messages[-1]) for r in helper.model.requests]
        assert "requires a successful call to test first" in told[1]
        assert "has reached its limit of 1 calls" in str(boss.model.requests[-1].messages[-1])

    async def test_task_call_can_be_gated(self) -> None:
        """`block task_helper` prevents the subagent from being started."""
        shop = Shop()
        helper = shop.agent()
        boss = shop.boss(C(task_helper={"prompt": "x"}), T("ok"), helper=helper)
        gate = create_gate(compile_rules("block task_helper").nets)
        await (await boss.create_session(gate=gate)).prompt("go")
        assert helper.model.requests == []

    async def test_parent_and_child_can_use_same_call_ids(self) -> None:
        """G-53: parent and children can use the same call ids."""
        shop = Shop()
        helpers = [shop.agent(C(c1=("test", {})), T("done"), name=f"h{n}") for n in (1, 2)]
        calls = C(c1=("task_h1", {"prompt": "x"}), c2=("task_h2", {"prompt": "x"}))
        boss = Agent(ScriptedModel([calls, T("ok")]), name="boss", tools=[task_tool(h) for h in helpers])
        manager = create_gate_manager(compile_rules("require test before deploy").nets)
        session = await boss.create_session(gate=manager)
        await session.prompt("go")
        assert shop.ran == ["test", "test"]
        assert all(not state.pending for state in manager.states.values())

    async def test_childs_own_gate_is_ignored(self) -> None:
        """The child's own gate is ignored."""
        shop = Shop()
        helper = Agent(
            ScriptedModel([C(deploy={}), T("ok")]),
            name="helper",
            tools=shop.tools(),
            gate=create_gate_manager([]),
        )
        boss = shop.boss(C(task_helper={"prompt": "x"}), T("ok"), helper=helper)
        await (await boss.create_session(gate=create_gate(compile_rules("block deploy").nets))).prompt(
            "go"
        )
        assert shop.ran == []


class TestAbort:
    async def test_aborting_the_parent_stops_the_child(self) -> None:
        """A-94: no tool of a subagent outlives its parent session."""
        started, stopped = asyncio.Event(), asyncio.Event()

        @tool
        async def wait(ctx: ToolContext) -> str:
            """Wait."""
            started.set()
            try:
                await asyncio.sleep(60)
            finally:
                stopped.set()
            return "late"

        helper = Agent(ScriptedModel([C(wait={}), T("late")]), name="helper", tools=[wait])
        boss = Agent(
            ScriptedModel([C(task_helper={"prompt": "x"}), T("late")]), tools=[task_tool(helper)]
        )
        session = await boss.create_session()
        session.send("go")
        await started.wait()
        session.abort("enough")
        await session.wait_for_idle()
        assert stopped.is_set()
        assert len(helper.model.requests) == 1
        assert len(boss.model.requests) == 1

    async def test_progress_is_reported_while_it_works(self) -> None:
        """A subagent's output is reported while it works."""
        helper = Agent(ScriptedModel([T("one ", "two")], delay=0.01), name="helper")
        boss = Agent(ScriptedModel([C(task_helper={"prompt": "x"}), T("ok")]), tools=[task_tool(helper)])
        session = await boss.create_session()
        seen: list[type] = []
        session.on_any(lambda e: seen.append(type(e)))
        await session.prompt("go")
        assert seen.index(ToolProgress) < seen.index(ToolResultEvent)
