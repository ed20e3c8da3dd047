"""The adapter for AutoGen, with AutoGen's replaying model client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "autogen_agentchat",
    reason="an older protobuf: make adapters ADAPTERS=autogen",
)
pytest.importorskip("autogen_ext", reason="pip install autogen-ext, which has the fake model")

from autogen_agentchat.agents import AssistantAgent, BaseChatAgent, CodeExecutorAgent
from autogen_agentchat.base import Response
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.messages import TextMessage, ToolCallExecutionEvent
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_agentchat.tools import AgentTool
from autogen_core import CancellationToken, FunctionCall
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
from autogen_core.models import AssistantMessage, CreateResult, ModelInfo, RequestUsage
from autogen_core.tools import FunctionTool, StaticWorkbench
from autogen_ext.models.replay import ReplayChatCompletionClient

from interlock.adapters.autogen import check_coverage, gate_agent, gate_workbench
from interlock.adapters.backends import Gates
from interlock.adapters.coverage import Coverage, CoverageError, UnseenToolError
from interlock.engine import create_gate
from interlock.engine.gate import ApprovalAnswer
from interlock.rules import compile_rules

from .contract import (
    RULED,
    RULES,
    AdapterContract,
    Call,
    Driver,
    Run,
    Setup,
    Tools,
    approving,
    page_program,
)

INFO = ModelInfo(
    vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False
)


def client_of(*answers: Sequence[Call] | str) -> ReplayChatCompletionClient:
    """Return a client that answers with calls or a text, one answer after the other."""
    made: list[Any] = [
        each
        if isinstance(each, str)
        else CreateResult(
            finish_reason="function_calls",
            content=[FunctionCall(id=c.id, name=c.tool, arguments=c.arguments) for c in each],
            usage=RequestUsage(prompt_tokens=0, completion_tokens=0),
            cached=False,
        )
        for each in answers
    ]
    return ReplayChatCompletionClient([*made, "done", "done"], model_info=INFO)


def agent_of(tools: Tools, *answers: Sequence[Call] | str, **how: Any) -> AssistantAgent:
    made = how.pop("made", None) or tools.functions()
    given = {"max_tool_iterations": 5, "tools": made, **how}
    return AssistantAgent(given.pop("name", "bot"), client_of(*answers), **given)


async def outputs_of(runner: Any) -> dict[str, str]:
    result = await runner.run(task="go")
    return {
        each.call_id: str(each.content)
        for message in result.messages
        if isinstance(message, ToolCallExecutionEvent)
        for each in message.content
    }


class AutoGenDriver(Driver):
    """An assistant agent; it cannot pause."""

    async def run(self, setup: Setup) -> Run:
        return Run(
            await outputs_of(
                gate_agent(agent_of(setup.tools, setup.calls), setup.gate, thread=setup.thread)
            )
        )

    async def coverage(self, tools: Tools, gate: Gates) -> Coverage:
        return await check_coverage(gate_agent(agent_of(tools), gate))


class TestContract(AdapterContract):
    driver = AutoGenDriver()


RM = [Call("c1", "rm", {"path": "/"})]


class TestCalls:
    async def test_each_agent_is_a_session(self) -> None:
        """Later runs of an agent continue with its nets, and another agent has its own."""
        tools = Tools()
        publish = [Call("c1", "publish")]
        agent = gate_agent(agent_of(tools, publish, "done", publish), RULED)
        await outputs_of(agent)
        await outputs_of(agent)
        assert tools.names() == ["publish"]
        await outputs_of(gate_agent(agent_of(tools, publish), RULED))
        assert tools.names() == ["publish", "publish"]

    async def test_arguments_changed_during_the_decision_have_no_effect(self) -> None:
        """A call runs with the approved arguments although the caller changes them in between."""
        tools, given = Tools(), {"env": "test"}

        def confirm(_: object) -> ApprovalAnswer:
            given["env"] = "prod"
            return ApprovalAnswer(True)

        made = [FunctionTool(tools.functions()[2], description="Deploy")]
        gate = create_gate(compile_rules(RULES).registry, confirm=confirm)
        await gate_workbench(StaticWorkbench(made), gate).call_tool("deploy", given)
        assert tools.ran == [("deploy", {"env": "test"})]

    async def test_gate_judges_the_converted_arguments(self) -> None:
        """The gate judges the values with which the tool runs."""
        ran, asked = [], []

        def scale(count: int = 3) -> str:
            """Scale."""
            ran.append(count)
            return "scaled"

        def confirm(request: Any) -> ApprovalAnswer:
            asked.append(dict(request.call.input))
            return ApprovalAnswer(True)

        gate = create_gate(compile_rules("require human-approval before scale").registry, confirm=confirm)
        calls = [Call("c1", "scale", {"count": "5", "more": 1}), Call("c2", "scale")]
        await outputs_of(gate_agent(agent_of(Tools(), calls, made=[scale]), gate))
        assert sorted(ran) == [3, 5]
        assert sorted(asked, key=str) == [{"count": 3}, {"count": 5}]

    async def test_unsuitable_arguments_are_refused(self) -> None:
        """A call with arguments that do not fit is refused without a request."""
        tools = Tools()
        found = await outputs_of(gate_agent(agent_of(tools, [Call("c1", "deploy")]), RULED))
        assert tools.ran == []
        assert "its arguments do not fit" in found["c1"]

    async def test_unsuitable_edit_does_not_run(self) -> None:
        """A tool does not run with an edited input that does not fit, and the model reads the reason."""
        tools = Tools()
        gate = approving(RULES, env=["a"])
        found = await outputs_of(gate_agent(agent_of(tools, [Call("c1", "deploy", {"env": "b"})]), gate))
        assert tools.ran == []
        assert "valid string" in found["c1"]

    async def test_cancelled_run_withdraws_its_call(self) -> None:
        """A waiting call is withdrawn with its cancelled run, and does not run."""
        asked, withdrawn, tools, token = asyncio.Event(), asyncio.Event(), Tools(), CancellationToken()

        async def confirm(_: Any) -> ApprovalAnswer:
            asked.set()
            try:
                return await asyncio.Future()
            finally:
                withdrawn.set()

        agent = agent_of(tools, [Call("c1", "deploy", {"env": "a"})])
        gate_agent(agent, create_gate(compile_rules(RULES).registry, confirm=confirm))
        run = asyncio.ensure_future(agent.run(task="go", cancellation_token=token))
        await asked.wait()
        token.cancel()
        await withdrawn.wait()
        await asyncio.wait({run})
        assert tools.ran == []

    async def test_cancelled_call_has_an_unknown_outcome(self) -> None:
        """A cancelled call has an unknown outcome, which unlocks nothing."""
        begun, gates, tools, token = asyncio.Event(), Gates(RULED), Tools(), CancellationToken()

        async def test() -> str:
            """Test."""
            begun.set()
            return await asyncio.Future()

        made = agent_of(tools, made=[test])._workbench[0]
        gated = gate_workbench(made, gates, thread="t")
        call = asyncio.ensure_future(gated.call_tool("test", {}, token))
        await begun.wait()
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        release = gate_agent(agent_of(tools, [Call("c2", "release")]), gates, thread="t")
        assert "blocked" in (await outputs_of(release))["c2"]

    async def test_workbench_without_an_agent_is_gated(self) -> None:
        """A workbench without an agent is gated, also without a call id."""
        tools = Tools()
        made = agent_of(tools)._workbench[0]
        assert isinstance(made, StaticWorkbench)
        gated = gate_workbench(made, RULED)
        assert not (await gated.call_tool("lookup", {"text": "a"})).is_error
        found = await gated.call_tool("rm", {"path": "/"}, CancellationToken())
        assert "Tool 'rm' blocked" in found.to_text()
        assert tools.names() == ["lookup"]


class TestTeams:
    async def test_team_is_one_session(self) -> None:
        """All agents of a team belong to one session, including agents that are tools."""
        tools = Tools(fails=False)
        below = agent_of(tools, [Call("b1", "test")], name="below")
        above = agent_of(
            tools, [Call("a1", "below", {"task": "test"})], name="above", made=[AgentTool(below)]
        )
        last = agent_of(tools, [Call("l1", "release"), Call("l2", "rm", {"path": "/"})], name="last")
        team = RoundRobinGroupChat([above, last], max_turns=2)
        found = await outputs_of(gate_agent(team, RULED))
        assert tools.names() == ["release", "test"]
        assert "Tool 'rm' blocked" in found["l2"]
        coverage = await check_coverage(team)
        assert {"below", "rm"} <= set(coverage.gated)

    async def test_agent_as_a_tool_can_be_blocked(self) -> None:
        """A rule about the call blocks an agent that is a tool."""
        tools = Tools()
        below = agent_of(tools, [Call("b1", "lookup", {"text": "a"})], name="below")
        above = agent_of(tools, [Call("a1", "below", {"task": "x"})], made=[AgentTool(below)])
        await outputs_of(gate_agent(above, approving("block below")))
        assert tools.ran == []

    async def run_handoff(self, gate: Any, *calls: Call) -> dict[str, str]:
        """Run a team whose first agent hands over to the second, and return the results of its calls."""
        tools = Tools()
        first = agent_of(tools, calls, name="first", handoffs=["second"])
        second = agent_of(tools, [Call("s1", "lookup", {"text": "a"})], name="second")
        ends = TextMentionTermination("done") | MaxMessageTermination(12)
        team = gate_agent(Swarm([first, second], termination_condition=ends), gate)
        assert "transfer_to_second" in (await check_coverage(team)).gated
        return await outputs_of(team)

    async def test_handoff_is_a_call(self) -> None:
        """A handoff is a call, and the second agent runs in the session of the team."""
        asked: list[str] = []
        registry = compile_rules("require human-approval before transfer_to_second").registry
        gate = create_gate(registry, confirm=lambda r: asked.append(r.tool) or ApprovalAnswer(True))
        found = await self.run_handoff(gate, Call("h1", "transfer_to_second"))
        assert asked == ["transfer_to_second"]
        assert "found a" in found["s1"]

    async def test_blocked_handoff_does_not_run(self) -> None:
        """After a blocked handoff the second agent does not run, and the first one reads the reason."""
        ruled = approving("block transfer_to_second")
        found = await self.run_handoff(ruled, Call("h1", "transfer_to_second"))
        assert list(found) == ["h1"]
        assert "Tool 'transfer_to_second' blocked" in found["h1"]

    async def test_duplicate_handoff_with_other_calls(self) -> None:
        """Of two equal handoffs one is made, and other calls beside them run."""
        ruled = approving("limit transfer_to_second to 1 per session")
        calls = [Call(name, "transfer_to_second") for name in ("h1", "h2")]
        found = await self.run_handoff(ruled, *calls, Call("c1", "lookup", {"text": "b"}))
        assert "found b" in found["c1"]
        assert "found a" in found["s1"]
        assert sorted("blocked" in found[name] for name in ("h1", "h2")) == [False, True]

    async def test_agent_with_its_own_code_is_refused(self) -> None:
        """An agent that acts through its own code is refused by name, also in a team."""

        class Own(BaseChatAgent):
            produced_message_types = (TextMessage,)

            async def on_messages(self, messages: Any, cancellation_token: Any) -> Response:
                return Response(chat_message=TextMessage(content="x", source=self.name))

            async def on_reset(self, cancellation_token: Any) -> None:
                pass

        team = RoundRobinGroupChat([agent_of(Tools()), Own("own", "Own")])
        with pytest.raises(UnseenToolError, match="'own': it acts through its own code"):
            gate_agent(team, RULED)
        found = await check_coverage(gate_agent(team, RULED, passthrough=("own",)))
        assert list(found.unseen) == ["own"]

    async def test_second_gate_is_refused(self) -> None:
        """A second gate for an agent is refused."""
        agent = gate_agent(agent_of(Tools()), RULED)
        with pytest.raises(ValueError, match="'bot' has a gate already"):
            gate_agent(agent, RULED)
        bare = gate_agent(AssistantAgent("bot", client_of(), workbench=[], handoffs=["other"]), RULED)
        with pytest.raises(ValueError, match="'bot' has a gate already"):
            gate_agent(bare, RULED)

    async def test_team_with_a_gated_agent_gets_no_gate(self) -> None:
        """If a team contains a gated agent, none of the others gets a gate."""
        other = agent_of(Tools(), name="other")
        team = RoundRobinGroupChat([other, gate_agent(agent_of(Tools()), RULED)])
        with pytest.raises(ValueError, match="'bot' has a gate already"):
            gate_agent(team, RULED)
        gate_agent(other, RULED)

    async def test_probe_without_a_gate_raises(self) -> None:
        """The probe raises an error without a gate."""
        with pytest.raises(TypeError, match="has no gate"):
            await check_coverage(agent_of(Tools()))
        team = RoundRobinGroupChat([agent_of(Tools())])
        gate_agent(team, RULED)
        team._participants[0]._workbench = agent_of(Tools())._workbench  # type: ignore[union-attr]
        with pytest.raises((TypeError, CoverageError)):
            await check_coverage(team)


class TestPauses:
    async def test_saved_run_does_not_make_its_open_calls(self) -> None:
        """AutoGen cannot pause: no run makes the calls of a saved agent that have no results.

        If this fails, the adapter may learn to pause.
        """
        tools, stopped = Tools(), agent_of(Tools())
        calls = [FunctionCall(id="c1", name="lookup", arguments='{"text": "a"}')]
        await stopped.model_context.add_message(AssistantMessage(content=calls, source="bot"))
        agent = agent_of(tools)
        await agent.load_state(await stopped.save_state())
        result = await agent.run()
        assert tools.ran == []
        assert result.messages[-1].to_text() == "done"


class Executor(CodeExecutor):
    """An executor that records the code that it runs."""

    def __init__(self, exit_code: int = 0) -> None:
        self.ran: list[tuple[str, str]] = []
        self.exit_code = exit_code

    async def execute_code_blocks(self, code_blocks: list[CodeBlock], _: Any) -> CodeResult:
        self.ran += [(block.language, block.code.strip()) for block in code_blocks]
        return CodeResult(exit_code=self.exit_code, output="ran")

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def restart(self) -> None: ...


class TestCode:
    async def run(self, executor: Executor, gate: Any) -> str:
        agent = gate_agent(CodeExecutorAgent("coder", executor), gate)
        task = TextMessage(content="```python\n1\n```\n```sh\nls\n```", source="user")
        return (await agent.run(task=task)).messages[-1].to_text()

    async def test_each_block_is_a_call(self) -> None:
        """If one block of code is blocked, none runs."""
        executor = Executor()
        assert "ran" in await self.run(executor, RULED)
        assert executor.ran == [("python", "1"), ("sh", "ls")]
        limited = Executor()
        assert "Tool 'execute_code' blocked" in await self.run(
            limited, approving("limit execute_code to 1 per session")
        )
        assert limited.ran == []

    async def test_edited_block_runs_as_approved(self) -> None:
        """An edited block runs as approved, and the result mentions the edit."""
        executor = Executor()
        gate = approving("require human-approval before execute_code", language="sh", code="pwd")
        assert "A person changed" in await self.run(executor, gate)
        assert executor.ran == [("sh", "pwd"), ("sh", "pwd")]

    async def test_edit_without_code_does_not_run(self) -> None:
        """A block with an edited input that is no code does not run."""
        executor = Executor()
        gate = approving("require human-approval before execute_code", code=3)
        assert "its edited input is not code" in await self.run(executor, gate)
        assert executor.ran == []

    async def test_coverage(self) -> None:
        """The report of the probe lists the code."""
        agent = gate_agent(CodeExecutorAgent("coder", Executor()), RULED)
        assert (await check_coverage(agent)).gated == ("execute_code",)


class TestPage:
    async def test_its_programs_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The page's program gates its agent."""
        model = client_of([Call("c1", "deploy", {"env": "prod"})])
        names = await asyncio.to_thread(page_program, "autogen", tmp_path, monkeypatch, model)
        assert "blocked" in str(names["result"].messages)
        assert "as it should be" in capsys.readouterr().out
