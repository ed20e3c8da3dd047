"""Subagents of a spec: their tables in an agent file, and the resulting tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import pytest

from interlock.app.agents.agent_file import load_agent_file
from interlock.app.agents.builder import prepare
from interlock.app.agents.spec import AgentSpec, AgentSpecError
from interlock.engine.agents import AbortSignal, Agent, ToolContext

from .files import problems, write


class TestTables:
    def test_every_key_is_read(self, here: Path) -> None:
        """Every key of a subagent is read; its prompt file is relative to the agent file."""
        write(here / "a/prompt.txt", "Be strict.")
        path = write(
            here / "a/agent.toml",
            """
            [subagents.reviewer]
            description = "Reads a diff."
            model = "openai://gpt-4o-mini"
            api_base = "http://127.0.0.1:1/v1"
            system_prompt_file = "prompt.txt"
            tools = ["read", "mine:search"]
            limits = { max_steps = 20 }
            [subagents.2nd_one-]
            description = "Reads it again."
            """,
        )
        spec = load_agent_file(path)
        assert {name: s.model_dump(exclude_unset=True) for name, s in spec.subagents.items()} == {
            "reviewer": {
                "description": "Reads a diff.",
                "model": "openai://gpt-4o-mini",
                "api_base": "http://127.0.0.1:1/v1",
                "system_prompt": "Be strict.",
                "tools": ("read", "mine:search"),
                "limits": {"max_steps": 20},
            },
            "2nd_one-": {"description": "Reads it again."},
        }

    def test_maximum_length_of_a_name(self, here: Path) -> None:
        """A name has at most 59 letters, because `task_` is added for the tool's name."""
        table = "[subagents.{}]\ndescription = 'd'"
        assert load_agent_file(write(here / "a.toml", table.format("x" * 59))).subagents
        said = problems(write(here / "a.toml", table.format("x" * 60)))
        assert "a.toml:1:2: subagents: expected names of up to 59 letters" in said

    @pytest.mark.parametrize("name", ["'a b'", "'a.b'", "''", "-a", '"a\\n"', "'ä'"])
    def test_names(self, here: Path, name: str) -> None:
        """A subagent's name must be valid in a tool's name; a caret points at an invalid one."""
        said = problems(write(here / "a.toml", f"[subagents.{name}]\ndescription = 'd'"))
        assert "a.toml:1:2: subagents: expected names of up to 59 letters, digits, '_' and '-'" in said

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("tols = []", "a.toml:3:1: unknown key 'subagents.r.tols'|did you mean 'tools'?"),
            (
                "systemprompt_file = 'x'",
                "unknown key 'subagents.r.systemprompt_file'|did you mean 'system_p",
            ),
            ("tools = 'read'", "a.toml:3:1: subagents.r.tools: expected a list, in [ ], found 'read'"),
            ("max_steps = 2", "unknown key 'subagents.r.max_steps'|in the table [subagents.r.limits]"),
            (
                "limits = {max_step = 2}",
                "unknown key 'subagents.r.limits.max_step'|did you mean 'max_steps'",
            ),
            (
                "limits = {max_steps = 0}",
                "subagents.r.limits.max_steps: expected a number from 1, found 0",
            ),
            ("model = 'gpt-4o'", "subagents.r.model: 'gpt-4o': missing scheme"),
            (
                "api_base = 'http://h/v1'",
                "subagents.r.api_base: an address belongs to a model; name the model",
            ),
            ("api_key = 'x'", "unknown key 'subagents.r.api_key'|put it into the environment"),
            (
                "runtime = 'sandbox'",
                "r.runtime: a subagent has no 'runtime'|works in the agent's runtime",
            ),
            ("workdir = '.'", "r.workdir: a subagent has no 'workdir'|works in the agent's runtime"),
            ("rules = ['a']", "r.rules: a subagent has no 'rules'|under the session's rules"),
            ("web_fetch = {}", "r.web_fetch: a subagent has no 'web_fetch'|the agent's applies"),
            ("mode = 'shadow'", "r.mode: a subagent has no 'mode'|in its mode"),
            ("gate = 'x'", "r.gate: a subagent has no 'gate'|under the session's rules"),
            ("task = 'x'", "r.task: a subagent has no 'task'|it gets its tasks from the agent"),
            (
                "[subagents.r.subagents.x]",
                "a.toml:3:2: subagents.r.subagents: a subagent has no|task_tool",
            ),
            (
                "system_prompt_file = 'y'",
                "a.toml:3:1: subagents.r.system_prompt_file: {here}/y: no such file",
            ),
            (
                "system_prompt_file = 'y'\nsystem_prompt = ''",
                "a.toml:3:1: subagents.r.system_prompt_file: there is a system_prompt too",
            ),
        ],
    )
    def test_invalid_key_is_reported(self, here: Path, line: str, message: str) -> None:
        """An invalid key of a subagent is reported with its place, the reason and the remedy."""
        said = problems(write(here / "a.toml", f"[subagents.r]\ndescription = 'd'\n{line}\n"))
        for part in message.format(here=here).split("|"):
            assert part in said

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("subagents = 3", "subagents: expected a table, found 3"),
            ("[[subagents]]\nname = 'r'", "subagents: expected a table, found a list"),
            ("subagents.r = 'x'", "subagents.r: expected a table, found 'x'"),
            ("[subagents.r]", "a.toml:1:2: subagents.r.description: there is none"),
            ("[subagents.r.limits]", "a.toml:1:2: subagents.r.description: there is none"),
            (
                "[subagents.r]\ndescription = ' '",
                "a.toml:2:1: subagents.r.description: expected some text",
            ),
            ("[subagent.r]\ndescription = 'd'", "did you mean 'subagents' or 'agent'?"),
        ],
    )
    def test_invalid_table_is_reported(self, here: Path, text: str, message: str) -> None:
        """A subagent must be a table with a description."""
        assert message in problems(write(here / "a.toml", text))

    def test_all_unreadable_prompts_at_once(self, here: Path) -> None:
        """All unreadable prompt files are reported together."""
        text = "system_prompt_file = 'x'\n[subagents.r]\ndescription = 'd'\nsystem_prompt_file = 'y'"
        said = problems(write(here / "a.toml", text))
        assert f"{here}/x: no such file" in said
        assert f"{here}/y: no such file" in said


class CaughtError(Exception):
    """Ends a task as soon as its agent is known."""


async def prepared_with_children(spec: AgentSpec) -> tuple[Agent, list[Agent]]:
    """Return a spec's agent and the agents that its task tools would start."""
    agent = await prepare(spec).agent()
    caught: list[Agent] = []

    class Watched:
        def open(self, agent: Agent, call_id: str) -> NoReturn:
            caught.append(agent)
            raise CaughtError

    for tool in agent.tools:
        if tool.name.startswith("task_"):
            context = ToolContext(agent.runtime, AbortSignal(), subagents=Watched())
            with pytest.raises(CaughtError):
                await tool.execute({"prompt": "go"}, context)
    return agent, caught


class TestTools:
    """A subagent becomes a tool of its agent."""

    def spec(self, here: Path, subagents: dict[str, dict[str, object]], **more: object) -> AgentSpec:
        """Return the spec of an agent with subagents, each with a description."""
        (here / "a.rules").write_text("block rm")
        described = {name: {"description": "Reads it.", **said} for name, said in subagents.items()}
        data = {"rules": [here / "a.rules"], "import_from": [here], "subagents": described}
        return AgentSpec.model_validate({"model": "openai/m", **data, **more})

    def refused(self, spec: AgentSpec) -> list[str]:
        with pytest.raises(AgentSpecError) as caught:
            prepare(spec)
        return list(caught.value.problems)

    async def test_subagents_are_tools(self, here: Path) -> None:
        """Subagents are tools after the agent's own, with their descriptions."""
        agent = await prepare(self.spec(here, {"reviewer": {}, "x": {"tools": ["read"]}})).agent()
        assert [tool.name for tool in agent.tools] == ["bash", "task_reviewer", "task_x"]
        assert agent.tools[1].description == "Reads it."

    async def test_subagent_has_its_own_settings(self, here: Path) -> None:
        """A subagent has its own prompt, tools and limits, and optionally its own model."""
        (here / "sub_tools.py").write_text("def count(word: str) -> int:\n    return len(word)\n")
        said: dict[str, object] = {
            "model": "openai/other",
            "system_prompt": "Be strict.",
            "tools": ["read", "sub_tools:count"],
            "limits": {"max_steps": 3},
        }
        spec = self.spec(here, {"own": said, "plain": {}}, runtime="just-bash")
        agent, [own, plain] = await prepared_with_children(spec)
        assert (own.name, own.model.name, own.system_prompt) == ("own", "openai/other", "Be strict.")
        assert ([tool.name for tool in own.tools], own.max_steps) == (["read", "count"], 3)
        assert (plain.model, plain.tools, plain.system_prompt) == (agent.model, (), None)
        assert plain.max_steps == 50
        assert own.runtime is plain.runtime is agent.runtime

    async def test_limits_on_costs(self, here: Path) -> None:
        """Limits: each subagent has its own; a model below a cost limit needs a known price."""
        priced = {"model": "openai/gpt-4o", "limits": {"max_cost": 0.5}}
        agent, [own] = await prepared_with_children(self.spec(here, {"own": priced}))
        assert (agent.max_cost, own.max_cost) == (None, 0.5)
        start = "subagents.own: max_cost cannot be kept: litellm's list has no price for openai/"
        [said] = self.refused(self.spec(here, {"own": {"limits": {"max_cost": 1}}, "other": {}}))
        assert said.startswith(start)
        limited = self.spec(
            here,
            {"own": {"model": "openai/other"}, "shares": {}},
            model="openai/gpt-4o",
            limits={"max_cost": 1},
        )
        [said] = self.refused(limited)
        assert said.startswith(f"{start}other.")

    def test_all_problems_at_once(self, here: Path) -> None:
        """Missing keys and unknown or duplicate tools are reported together, with their subagents."""
        said = self.refused(
            self.spec(
                here,
                {
                    "one": {"tools": ["ssh"], "model": "anthropic/claude"},
                    "two": {"tools": ["read", "read"]},
                    "three": {"tools": ["task_one", "absent_tools:x"]},
                },
            )
        )
        assert said[0].startswith("subagents.one.model: ")
        assert "ANTHROPIC_API_KEY" in said[0]
        assert said[1].startswith("subagents.one.tools: unknown ssh; known: bash, ")
        assert said[2] == 'subagents.two.tools: Duplicate tool name: "read"'
        assert said[3].startswith("subagents.three.tools: unknown task_one; known: ")
        assert said[4].startswith("subagents.three.tools: absent_tools:x: no module 'absent_tools'")
        assert len(said) == 5

    @pytest.mark.parametrize("tool", ["task_one", "clash_tools:task_one"])
    def test_clash(self, here: Path, tool: str) -> None:
        """A-61: a named or imported tool with the name of a subagent's tool is refused."""
        (here / "clash_tools.py").write_text("def task_one() -> str:\n    return ''\n")
        [said] = self.refused(self.spec(here, {"one": {}}, tools=["read", tool]))
        assert said.startswith("subagents.one: the agent has a tool task_one already; take it out")


LED_AGENTS = """
from interlock.engine.agents import Agent, BashTool, FakeRuntime, ScriptedModel, T, task_tool

boxed = Agent(ScriptedModel([T("hi")]), runtime=FakeRuntime())
led = Agent(ScriptedModel([T("hi")]), tools=[BashTool, task_tool(Agent(ScriptedModel([]), name="own"))])

async def led_later():
    return led
"""


class TestImportedAgent:
    @pytest.fixture(autouse=True)
    def module(self, here: Path) -> None:
        (here / "led_agents.py").write_text(LED_AGENTS)
        (here / "a.rules").write_text("block rm")
        sys.modules.pop("led_agents", None)

    def spec(self, here: Path, name: str, subagent: str, **more: object) -> AgentSpec:
        data = {"agent": f"led_agents:{name}", "rules": [here / "a.rules"], "import_from": [here]}
        return AgentSpec.model_validate({**data, "subagents": {subagent: {"description": "d"}}, **more})

    async def test_subagents(self, here: Path) -> None:
        """An imported agent gets subagents with its model and in its runtime."""
        spec = self.spec(here, "boxed", "one")
        agent, [child] = await prepared_with_children(spec)
        boxed = sys.modules["led_agents"].boxed
        assert (child.model, child.runtime) == (boxed.model, boxed.runtime)
        assert [tool.name for tool in boxed.tools] == []
        assert [tool.name for tool in agent.tools] == ["task_one"]

    async def test_subagents_that_clash(self, here: Path) -> None:
        """A-61: a subagent cannot replace a tool of the imported agent."""
        message = "subagents.own: the agent has a tool task_own already"
        with pytest.raises(AgentSpecError, match=message):
            prepare(self.spec(here, "led", "own"))
        with pytest.raises(AgentSpecError, match=message):
            await prepare(self.spec(here, "led_later", "own")).agent()
        changed = prepare(self.spec(here, "led", "own", tools=["read"]))
        assert [tool.name for tool in (await changed.agent()).tools] == ["read", "task_own"]
