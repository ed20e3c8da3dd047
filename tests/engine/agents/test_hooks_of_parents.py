"""Hooks of an agent around its subagents' calls: after the gate, before the subagent's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.engine.agents import (
    Agent,
    Allow,
    C,
    Deny,
    FinishedCall,
    Hooks,
    InMemorySessionStore,
    ModelCall,
    ModelRequest,
    Override,
    ScriptedModel,
    Session,
    T,
    ToolCallEvent,
    ToolOutput,
    ToolResultEvent,
    UserMessage,
    task_tool,
)
from interlock.engine.agents.agent import InheritedLimits
from interlock.engine.agents.hooks import HookChain
from interlock.engine.agents.turn.spending import Spending

from .gates import Log, allow, block
from .script import noted

TASK = C(task_helper={"prompt": "Do it"})
INNER = C(c1=("note", {"text": "x"}))


class Family:
    """`boss` lets `helper` make one call of `note`; records the runs and the helper's result."""

    def __init__(self, boss: object = (), helper: object = (), gate: object = None) -> None:
        self.ran: list[str] = []
        self.gate = gate
        self.model = ScriptedModel([INNER, T("done")])
        self.helper = Agent(self.model, name="helper", tools=[noted(self.ran)], hooks=helper)
        self.boss = Agent(
            ScriptedModel([TASK, T("fine")]),
            name="boss",
            tools=[task_tool(self.helper)],
            hooks=boss,
        )
        self.results: list[ToolResultEvent] = []

    async def work(self) -> Session:
        session = await self.boss.create_session("s", gate=self.gate)
        session.on("tool_result", self.results.append)
        await session.prompt("go")
        return session

    @property
    def read(self) -> str:
        """Return the result that the helper's model read."""
        return self.model.requests[-1].messages[-1].text


def hook_for_tool(name: str, answer: object) -> Callable[[ToolCallEvent], object]:
    """Return a hook that answers only for calls of one tool."""
    return lambda event: answer if event.name == name else None


class TestBefore:
    async def test_order(self) -> None:
        """Section 9: the gate comes first, then the outer agent's hooks, then the subagent's own."""
        gate = Log()

        def log(who: str) -> Hooks:
            def before(event: ToolCallEvent) -> None:
                if event.name == "note":
                    gate.happened.append(f"{who} {event.call_id}")

            return Hooks(before_tool_call=before)

        family = Family([log("boss"), log("boss too")], log("helper"), gate)
        await family.work()
        inner = [line for line in gate.happened if "c1" in line]
        assert inner[0].startswith("decide s/helper-")
        assert inner[1:4] == ["boss c1", "boss too c1", "helper c1"]
        assert inner[4].startswith("settle s/helper-")

    @pytest.mark.parametrize("own", [(), Hooks(before_tool_call=lambda e: Allow())])
    async def test_outer_hook_can_deny(self, own: object) -> None:
        """Section 9: a call that the outer hook denies does not run, whatever the subagent's own says."""
        family = Family(Hooks(before_tool_call=hook_for_tool("note", Deny(reason="not here"))), own)
        await family.work()
        assert (family.ran, family.read) == ([], "not here")

    async def test_subagents_hook_can_deny_too(self) -> None:
        """Section 9: a call that the outer hook allows can still be denied by the subagent's own."""
        own = Hooks(before_tool_call=lambda e: Deny(reason="not with me"))
        family = Family(Hooks(before_tool_call=hook_for_tool("note", Allow())), own)
        await family.work()
        assert (family.ran, family.read) == ([], "not with me")

    async def test_inner_hook_gets_the_outer_hooks_arguments(self) -> None:
        """Section 9: the inner hook and the gate get the outer hook's arguments."""
        gate, seen = Log(), []
        outer = Hooks(before_tool_call=hook_for_tool("note", Override(args={"text": "y"})))
        own = Hooks(before_tool_call=lambda e: seen.append(e.args))
        family = Family(outer, own, gate)
        await family.work()
        assert (family.ran, seen) == (["y"], [{"text": "y"}])
        assert gate.inputs[1:] == [{"text": "x"}, {"text": "y"}]

    async def test_subagents_change_comes_last(self) -> None:
        """Section 9: the subagent's own change comes last, and the gate decides about it."""
        outer = Hooks(before_tool_call=hook_for_tool("note", Override(args={"text": "y"})))
        own = Hooks(before_tool_call=lambda e: Override(args={"text": e.args["text"] + "z"}))
        gate = Log(lambda call: block(call) if call.input == {"text": "yz"} else allow(call))
        family = Family(outer, own, gate)
        await family.work()
        assert (family.ran, family.read) == ([], "not now")

    async def test_invalid_arguments_deny_before_own_hook(self) -> None:
        """A-46: invalid arguments deny before the subagent's own hook is called."""
        seen: list[object] = []
        outer = Hooks(before_tool_call=hook_for_tool("note", Override(args={"wrong": 1})))
        family = Family(outer, Hooks(before_tool_call=seen.append), Log())
        await family.work()
        assert family.read.startswith("Invalid arguments for note: ")
        assert (family.ran, seen) == ([], [])

    async def test_value_that_is_no_decision_denies(self) -> None:
        """A-44: an outer hook's answer that is not a decision denies."""
        family = Family(Hooks(before_tool_call=hook_for_tool("note", True)))
        await family.work()
        assert family.ran == []
        assert "a before_tool_call hook must return None" in family.read

    async def test_raising_hook_ends_the_calling_run(self) -> None:
        """A-32: the hook's error ends the run that made the call; the parent's task fails."""

        def broken(event: ToolCallEvent) -> None:
            if event.name == "note":
                raise RuntimeError("guard broke")

        family = Family(Hooks(before_tool_call=broken))
        await family.work()
        assert family.ran == []
        [task] = family.results
        assert (task.is_error, task.result) == (True, "guard broke")

    async def test_hook_gets_the_calling_sessions_id(self) -> None:
        """Section 9: a hook gets the id of the session that makes the call."""
        seen: list[str] = []
        finished: list[FinishedCall] = []
        hooks = Hooks(
            before_tool_call=lambda e: seen.append(e.session_id), after_tool_call=finished.append
        )
        await Family(hooks).work()
        assert seen[0] == "s"
        assert seen[1].startswith("s/helper-")
        assert [call.session_id for call in finished] == [seen[1], "s"]

    async def test_hooks_apply_to_all_levels(self) -> None:
        """Section 9: hooks apply to all levels of subagents, the outermost first."""
        order: list[str] = []
        ran: list[str] = []

        def log(who: str) -> Hooks:
            def before(event: ToolCallEvent) -> None:
                if event.name == "note":
                    order.append(who)

            return Hooks(before_tool_call=before)

        low = Agent(ScriptedModel([INNER, T("l")]), name="low", tools=[noted(ran)], hooks=log("low"))
        mid = Agent(
            ScriptedModel([C(task_low={"prompt": "x"}), T("m")]),
            name="mid",
            tools=[task_tool(low)],
            hooks=log("mid"),
        )
        top = Agent(
            ScriptedModel([C(task_mid={"prompt": "x"}), T("t")]),
            name="top",
            tools=[task_tool(mid)],
            hooks=log("top"),
        )
        await (await top.create_session()).prompt("go")
        assert (order, ran) == (["top", "mid", "low"], ["x"])

    async def test_agent_run_on_its_own_has_only_its_hooks(self) -> None:
        """Section 9: run on its own, the same agent has only its own hooks."""
        family = Family(Hooks(before_tool_call=hook_for_tool("note", Deny(reason="no"))))
        await family.work()
        again = family.helper.replace(model=ScriptedModel([INNER, T("done")]))
        await (await again.create_session()).prompt("go")
        assert family.ran == ["x"]


class TestModelCalls:
    async def test_order(self) -> None:
        """Section 9: a subagent's request passes its own hooks first and the outermost agent's last."""
        seen: list[tuple[str, str]] = []

        def wrap(who: str) -> Hooks:
            def before(request: ModelRequest) -> ModelCall | None:
                if not request.session_id.startswith("s/"):
                    return None
                first, *rest = request.messages
                seen.append((who, first.text))
                changed = first.model_copy(update={"text": f"{who}({first.text})"})
                return ModelCall(messages=(changed, *rest))

            return Hooks(before_model_call=before)

        family = Family([wrap("boss"), wrap("boss too")], wrap("helper"))
        session = await family.work()
        assert seen[:3] == [
            ("helper", "Do it"),
            ("boss", "helper(Do it)"),
            ("boss too", "boss(helper(Do it))"),
        ]
        assert [r.messages[0].text for r in family.model.requests] == [
            "boss too(boss(helper(Do it)))",
            "boss too(boss(helper(Do it)))",
        ]
        [child] = [r.session_id for r in family.model.requests[:1]]
        assert (await family.boss.store.load(child))[0].text == "Do it"
        assert session.messages[0].text == "go"

    async def test_outer_prompt_and_tools_apply_to_own_agent_only(self) -> None:
        """Section 9: system prompt and tools of the outer hook apply only to its own agent."""
        hooks = Hooks(
            before_model_call=lambda r: ModelCall(system_prompt="Be the boss.", tools=["task_helper"])
        )
        family = Family(hooks)
        session = await family.work()
        assert family.ran == ["x"]
        assert [r.system_prompt for r in family.model.requests] == [None, None]
        assert [[t.name for t in r.tools] for r in family.model.requests] == [["note"], ["note"]]
        assert isinstance(session.model, ScriptedModel)
        assert {r.system_prompt for r in session.model.requests} == {"Be the boss."}

    @pytest.mark.parametrize("answer", [RuntimeError("guard broke"), "nonsense"])
    async def test_failing_outer_hook_sends_nothing(self, answer: object) -> None:
        """A-32: if an outer hook fails, the request is not sent."""

        def broken(request: ModelRequest) -> object:
            if request.session_id == "s":
                return None
            if isinstance(answer, Exception):
                raise answer
            return answer

        family = Family(Hooks(before_model_call=broken))
        await family.work()
        assert (family.model.requests, family.ran) == ([], [])
        [task] = family.results
        assert task.is_error
        assert "guard broke" in task.result or "must return None or a ModelCall" in task.result

    async def test_summary_request_passes_the_outer_hook(self) -> None:
        """Section 9: the request for a subagent's summary also passes the outer hook."""

        def mask(request: ModelRequest) -> ModelCall:
            said = [m.model_copy(update={"text": m.text.replace("x", "*")}) for m in request.messages]
            return ModelCall(messages=said)

        model = ScriptedModel([T("sum")])
        child = Agent(model, name="helper").as_subagent(
            InheritedLimits(HookChain(Hooks(before_model_call=mask)), Spending("b", None))
        )
        store = InMemorySessionStore()
        await store.append("c", UserMessage(text="xyz"))
        session = await child.resume_session("c", store=store)
        await session.compact(0)
        [request] = model.requests
        assert request.purpose == "summary"
        assert "*yz" in request.messages[0].text
        assert "xyz" not in request.messages[0].text

    async def test_hook_gets_requests_of_all_lower_levels(self) -> None:
        """Section 9: a hook gets the requests of all agents below its own, and of no others."""
        asked: list[tuple[str, int]] = []

        def log(who: str) -> Hooks:
            return Hooks(before_model_call=lambda r: asked.append((who, r.session_id.count("/"))))

        low = Agent(ScriptedModel([T("l")]), name="low", hooks=log("low"))
        mid = Agent(
            ScriptedModel([C(task_low={"prompt": "x"}), T("m")]),
            name="mid",
            tools=[task_tool(low)],
            hooks=log("mid"),
        )
        top = Agent(
            ScriptedModel([C(task_mid={"prompt": "x"}), T("t")]),
            name="top",
            tools=[task_tool(mid)],
            hooks=log("top"),
        )
        await (await top.create_session("s")).prompt("go")
        assert asked == [
            ("top", 0),
            *[("mid", 1), ("top", 1)],
            *[("low", 2), ("mid", 2), ("top", 2)],
            *[("mid", 1), ("top", 1)],
            ("top", 0),
        ]


class TestStops:
    async def test_before_stop_is_not_called_for_subagents(self) -> None:
        """Section 9: a parent's `before_stop` hook is not called for its subagent's turns."""
        asked: list[str] = []
        own: list[str] = []
        await Family(Hooks(before_stop=asked.append), Hooks(before_stop=own.append)).work()
        assert (asked, own) == (["fine"], ["done"])


class TestAfter:
    async def test_order(self) -> None:
        """Section 9: the outer agent's hook gets a result first and can hide it."""
        seen: list[str] = []

        def outer(call: FinishedCall) -> str | None:
            return "redacted" if call.name == "note" else None

        def inner(call: FinishedCall) -> str:
            seen.append(call.output.text)
            return f"{call.output.text}, read"

        gate = Log()
        family = Family(Hooks(after_tool_call=outer), Hooks(after_tool_call=inner), gate)
        await family.work()
        assert seen == ["redacted"]
        assert family.read == "redacted, read"
        assert ("noted x", False) in [(text, error) for _, error, text, _ in gate.settled]

    async def test_unchecked_result_is_not_passed_on(self) -> None:
        """A-32: a result that the outer hook could not check is not passed to the subagent."""

        def broken(call: FinishedCall) -> ToolOutput:
            raise RuntimeError("guard broke")

        family = Family(Hooks(after_tool_call=broken))
        session = await family.boss.create_session("s")
        session.send("go")
        with pytest.raises(RuntimeError, match="guard broke"):
            await session.wait_for_idle()
        assert len(family.model.requests) == 1
        assert family.ran == ["x"]
