"""Building an agent from its spec: tools, runtimes, rules, and agents of Python modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.app.agents.agent_file import load_agent_file
from interlock.app.agents.builder import prepare
from interlock.app.agents.spec import AgentSpec, AgentSpecError
from interlock.app.agents.tools import prepare_subagents, ready_made_tools
from interlock.engine.agents import (
    JustBashRuntime,
    LocalRuntime,
    SandboxRuntime,
    ToolError,
    VercelSandboxRuntime,
)
from interlock.engine.agents.session.subagents import TaskTool

from ...engine.agents.tools.test_web_fetch_in_agents import Site, fetch


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.server.shutdown()
    site.server.server_close()


class TestPrepared:
    def spec(self, here: Path, **more: object) -> AgentSpec:
        """Return a valid spec with changes."""
        (here / "a.rules").write_text("block rm\nlimit deploy to 1 per session")
        data = {"model": "openai/m", "rules": [here / "a.rules"], "import_from": [here]}
        return AgentSpec.model_validate({**data, **more})

    def refused(self, spec: AgentSpec) -> str:
        with pytest.raises(AgentSpecError) as caught:
            prepare(spec)
        return str(caught.value)

    async def test_parts(self, here: Path) -> None:
        """Model, tools, limits and name are passed to the agent; a plain function becomes a tool."""
        code = "def count(word: str) -> int:\n    'Letters.'\n    return len(word)\n"
        (here / "parts_tools.py").write_text(code)
        tools = ["bash", "parts_tools:count"]
        spec = self.spec(
            here, name="bot", tools=tools, limits={"max_steps": 4}, system_prompt="Hi", send_mode="queue"
        )
        agent = await prepare(spec).agent()
        assert [tool.name for tool in agent.tools] == ["bash", "count"]
        assert (agent.name, agent.max_steps, agent.system_prompt) == ("bot", 4, "Hi")
        assert (agent.model.name, agent.send_mode) == ("openai/m", "queue")

    async def test_tell_rules_gives_the_models_the_rules(self, here: Path) -> None:
        """G-73: the agent's and the subagents' models get the rules unless `tell_rules` is false."""
        helper = {"description": "Helps."}
        for extra, tells in (({}, True), ({"tell_rules": False}, False), ({"tell_rules": True}, True)):
            agent = await prepare(self.spec(here, subagents={"helper": helper}, **extra)).agent()
            [below] = [tool.agent for tool in agent.tools if isinstance(tool, TaskTool)]
            assert below is not None
            assert (agent.tell_rules, below.tell_rules) == (tells, tells)

    def test_every_provided_tool_has_its_own_name(self) -> None:
        """The table has tools under their own names."""
        table = ready_made_tools()
        assert {"bash", "web_fetch"} <= table.keys()
        assert all(name == tool.name for name, tool in table.items())

    @pytest.mark.variants
    @pytest.mark.parametrize("web_fetch", ["", "web_fetch = { private = true }\n"])
    async def test_private_addresses(self, here: Path, site: Site, web_fetch: str) -> None:
        """A-127: an agent and its subagents may fetch private addresses only if their file allows it."""
        (here / "a.rules").write_text("block rm")
        (here / "a.toml").write_text(
            f"model = 'openai/m'\nrules = ['a.rules']\ntools = ['web_fetch']\n{web_fetch}"
            "[subagents.reader]\ndescription = 'Reads.'\ntools = ['web_fetch']\n"
        )
        spec = load_agent_file(here / "a.toml")
        [subagent] = prepare_subagents(spec)
        agent = await prepare(spec).agent()
        url = site.page("/", b"here")
        for tool in (agent.tools[0], subagent.tools[0]):
            if web_fetch:
                assert (await fetch(url, tool)).endswith("\n\nhere")
            else:
                with pytest.raises(ToolError, match="not on the public internet"):
                    await fetch(url, tool)

    @pytest.mark.parametrize(
        "env", ["", ", env = ['INTERLOCK_TOKEN', 'OPENAI_API_KEY', 'HOUSE', 'SHED']"]
    )
    async def test_environment(self, here: Path, monkeypatch: pytest.MonkeyPatch, env: str) -> None:
        """A local agent's commands get tokens and keys only if the file passes them on."""
        names = ("INTERLOCK_TOKEN", "OPENAI_API_KEY", "HOUSE", "SHED")
        for name in names:
            monkeypatch.setenv(name, "sesame")
        (here / "a.rules").write_text("block rm")
        (here / "a.toml").write_text(
            "model = 'openai://m?api_key_env=HOUSE'\nrules = ['a.rules']\n"
            f"runtime = {{ kind = 'local'{env} }}\n"
            "[subagents.a]\ndescription = 'd'\nmodel = 'openai://m?api_key_env=SHED'\n"
        )
        agent = await prepare(load_agent_file(here / "a.toml")).agent()
        said = (await agent.runtime.exec("env")).stdout
        assert said.count("=sesame\n") == (len(names) if env else 0)

    def test_all_problems_at_once(self, here: Path) -> None:
        """Errors of nets, tools, the key and the directory are reported together."""
        spec = self.spec(
            here,
            model="anthropic/claude",
            active=["blok-rm"],
            tools=["ssh", "absent_tools:x"],
            runtime={"kind": "local", "workdir": "nope"},
        )
        said = self.refused(spec).split("\n")
        assert "active: unknown net blok-rm; known: block-rm, limit-deploy-1" in said[0]
        assert "ANTHROPIC_API_KEY" in said[1]
        assert said[2].startswith("tools: unknown ssh; known: bash, ")
        assert said[3].startswith("tools: absent_tools:x: no module 'absent_tools' was found")
        assert said[4] == f"workdir: {here}/nope is not a directory"
        assert len(said) == 5

    def test_tool_with_a_reserved_name(self, here: Path) -> None:
        """G-64: a function with a reserved name is refused as a tool."""
        (here / "named_so.py").write_text('def unclear() -> str:\n    """Do nothing."""\n    return ""\n')
        said = self.refused(self.spec(here, tools=["bash", "named_so:unclear"]))
        assert "tools: Tool 'unclear': 'unclear' is a reserved name" in said
        assert "give the tool another name" in said

    @pytest.mark.slow
    async def test_a_limit_on_costs(self, here: Path) -> None:
        """Limits: a model with a price is accepted; one without is named, with remedies."""
        limits = {"max_cost": 2}
        agent = await prepare(self.spec(here, model="openai/gpt-4o", limits=limits)).agent()
        assert agent.max_cost == 2.0
        said = self.refused(self.spec(here, limits=limits))
        assert said == (
            "max_cost cannot be kept: litellm's list has no price for openai/m. Choose a model with a "
            "known price, or leave max_cost out; max_steps bounds a run without it."
        )

    def test_tool_twice(self, here: Path) -> None:
        """A-61: two tools with the same name are refused."""
        assert 'Duplicate tool name: "bash"' in self.refused(self.spec(here, tools=["bash", "bash"]))

    @pytest.mark.parametrize(
        ("code", "message"),
        [
            ("deploy = 3", "expected a function or a tool made with @tool, found int"),
            ("deplyo = 3", "has no 'deploy'; did you mean 'deplyo'?"),
            ("def deploy(*names): pass", "cannot be given by name"),
            ("x = 1\nraise ValueError('not today')", "faulty_{n}.py:2: ValueError: not today"),
            ("import sys\nsys.exit(3)", "faulty_{n}.py:2: SystemExit: 3"),
            ("def deploy(:", "faulty_{n}.py:1: SyntaxError: "),
            (
                "import absent_thing",
                "faulty_{n}.py:1: ModuleNotFoundError: No module named 'absent_thing'",
            ),
        ],
        ids=range(7),
    )
    def test_faulty_tools(
        self, here: Path, code: str, message: str, request: pytest.FixtureRequest
    ) -> None:
        """An error in a user's module is reported in one line with its place."""
        number = request.node.callspec.id
        (here / f"faulty_{number}.py").write_text(code)
        said = self.refused(self.spec(here, tools=[f"faulty_{number}:deploy"]))
        assert message.format(n=number) in said
        assert "\n" not in said

    @pytest.mark.parametrize(
        ("runtime", "kind"),
        [
            ("local", LocalRuntime),
            ("sandbox", SandboxRuntime),
            ("just-bash", JustBashRuntime),
            ("vercel", VercelSandboxRuntime),
        ],
    )
    async def test_runtimes(self, here: Path, runtime: str, kind: type) -> None:
        """Each runtime name selects its runtime."""
        agent = await prepare(self.spec(here, runtime=runtime)).agent()
        assert isinstance(agent.runtime, kind)

    def test_runtime_without_its_program(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The error for a missing bubblewrap says how to install it."""
        monkeypatch.setenv("PATH", str(here))
        assert "bubblewrap is not installed" in self.refused(self.spec(here, runtime="sandbox"))

    def test_runtime_without_its_package(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The errors for missing just-bash and vercel packages say what to install."""
        for package, kind in (("just_bash", "just-bash"), ("vercel", "vercel")):
            monkeypatch.setitem(sys.modules, package, None)
            said = self.refused(self.spec(here, runtime=kind))
            assert f"{kind} is not installed: pip install" in said

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"read_only": ["absent"]}, "the sandbox cannot let in {here}/absent: it does not exist"),
            ({"env": ["ABSENT_ONE", "HOME"]}, "runtime.env: not set in the environment: ABSENT_ONE"),
            ({"workdir": "/"}, "whole file system"),
        ],
    )
    def test_sandbox_options(self, here: Path, options: dict[str, object], message: str) -> None:
        """Invalid sandbox options are named."""
        said = self.refused(self.spec(here, runtime={"kind": "sandbox", "workdir": here, **options}))
        assert message.format(here=here) in said

    async def test_files_in_memory(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A-108: just-bash starts with the spec's files and the environment variables that it names."""
        monkeypatch.setenv("RELEASE", "v1.2")
        files = {"notes.txt": "by hand\n", "/etc/motd": "hello\n"}
        runtime = {"kind": "just-bash", "workdir": "/w", "files": files, "env": ["RELEASE"]}
        agent = await prepare(self.spec(here, runtime=runtime)).agent()
        done = await agent.runtime.exec("cat notes.txt /w/notes.txt /etc/motd; echo $RELEASE")
        assert done.stdout == "by hand\nby hand\nhello\nv1.2\n"

    @pytest.mark.parametrize("kind", ["sandbox", "just-bash"])
    def test_spec_has_no_environment_values(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        """The spec has only the names of passed variables, no values, because the journal keeps it."""
        monkeypatch.setenv("RELEASE_TOKEN", "s3cret")
        spec = prepare(self.spec(here, runtime={"kind": kind, "env": ["RELEASE_TOKEN"]})).spec
        assert "s3cret" not in spec.model_dump_json()
        assert "RELEASE_TOKEN" in spec.model_dump_json()


AGENTS = """
from interlock.engine import create_gate
from interlock.engine.agents import (
    Agent, BashTool, C, Deny, FakeRuntime, Hooks, LitellmModel, ScriptedModel, T
)

plain = Agent(ScriptedModel([T("hi")]), name="plain", system_prompt="Mine", tools=[BashTool], max_steps=5)
gated = Agent(ScriptedModel([T("hi")]), gate=create_gate([]))
boxed = Agent(ScriptedModel([T("hi")]), runtime=FakeRuntime())
keyless = Agent("anthropic://claude")

def made():
    return plain

async def made_later():
    return plain

def broken():
    raise RuntimeError("no weather today")

async def broken_later():
    return 1 / 0

def other():
    return 42

async def other_later():
    return 42

async def gated_later():
    return gated

def needy(what):
    return plain

class Homemade:
    name = "homemade"

    def stream(self, request):
        raise NotImplementedError

unpriced = Agent(Homemade(), max_cost=2.0)
unbounded = Agent(Homemade())
bounded = Agent(ScriptedModel([T("hi")]), max_cost=2.0)

async def unpriced_later():
    return unpriced

careful = Agent(
    ScriptedModel([C(bash={"command": "echo ran"}), T("hi")]),
    tools=[BashTool],
    hooks=Hooks(before_tool_call=lambda event: Deny(reason="hooked")),
)
"""


class TestImportedAgent:
    @pytest.fixture(autouse=True)
    def module(self, here: Path) -> None:
        (here / "my_agents.py").write_text(AGENTS)
        (here / "a.rules").write_text("block rm")
        sys.modules.pop("my_agents", None)

    def spec(self, here: Path, name: str, **more: object) -> AgentSpec:
        data = {"agent": f"my_agents:{name}", "rules": [here / "a.rules"], "import_from": [here]}
        return AgentSpec.model_validate({**data, **more})

    def refused(self, spec: AgentSpec) -> str:
        with pytest.raises(AgentSpecError) as caught:
            prepare(spec)
        return str(caught.value)

    @pytest.mark.parametrize("name", ["plain", "made", "made_later"])
    async def test_kinds(self, here: Path, name: str) -> None:
        """An agent, or a function or async function that returns one, is hosted unchanged."""
        agent = await prepare(self.spec(here, name)).agent()
        assert agent is sys.modules["my_agents"].plain

    async def test_spec_replaces_the_agents_settings(self, here: Path) -> None:
        """The spec's settings replace the agent's; all others stay."""
        spec = self.spec(here, "plain", system_prompt="Ours", limits={"max_steps": 2})
        agent = await prepare(spec).agent()
        assert (agent.name, agent.system_prompt, agent.max_steps) == ("plain", "Ours", 2)
        assert [tool.name for tool in agent.tools] == ["bash"]
        assert agent.model.name == sys.modules["my_agents"].plain.model.name

    async def test_own_cost_limit_is_the_default(self, here: Path) -> None:
        """Limits: the agent's own cost limit applies unless the spec has one."""
        assert (await prepare(self.spec(here, "bounded", system_prompt="Hi")).agent()).max_cost == 2.0
        changed = self.spec(here, "bounded", limits={"max_cost": 9})
        assert (await prepare(changed).agent()).max_cost == 9.0
        compacted = self.spec(here, "bounded", limits={"compact_at": 900})
        assert (await prepare(compacted).agent()).compact_at == 900
        replaced = self.spec(here, "unpriced", model="openai/gpt-4o")
        assert (await prepare(replaced).agent()).max_cost == 2.0

    @pytest.mark.parametrize("name", ["unpriced", "unpriced_later"])
    async def test_cost_limit_without_a_price_is_refused(self, here: Path, name: str) -> None:
        """Limits: a cost limit with a model without a known price is refused, with a remedy."""
        with pytest.raises(AgentSpecError) as caught:
            await prepare(self.spec(here, name)).agent()
        said = str(caught.value)
        assert said.startswith("max_cost cannot be kept: homemade does not say")
        assert "leave max_cost out" in said
        assert "homemade" in self.refused(self.spec(here, "unbounded", limits={"max_cost": 1}))
        assert (await prepare(self.spec(here, "unbounded")).agent()).max_cost is None

    async def test_hooks_are_kept(self, here: Path) -> None:
        """A-44: the agent's hooks stay when the spec changes the agent."""
        agent = await prepare(self.spec(here, "careful", system_prompt="Ours")).agent()
        async with await agent.create_session() as session:
            results: list[str] = []
            session.on("tool_result", lambda event: results.append(event.result))
            await session.prompt("go")
        assert results == ["hooked"]

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("other", "expected an Agent, or a function that returns one, found int"),
            ("needy", "expected a function that needs no arguments: missing a required argument: 'what'"),
            ("broken", "my_agents.py:19: RuntimeError: no weather today"),
            ("absent", "has no 'absent'"),
            ("keyless", "ANTHROPIC_API_KEY"),
        ],
    )
    def test_object_that_is_not_an_agent(self, here: Path, name: str, message: str) -> None:
        """An object that is not an agent, or fails, is reported with its place."""
        assert message in self.refused(self.spec(here, name))

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("other_later", "expected an Agent, or a function that returns one, found int"),
            ("broken_later", "my_agents.py:22: ZeroDivisionError: division by zero"),
        ],
    )
    async def test_async_function_that_fails(self, here: Path, name: str, message: str) -> None:
        """An async function is called in its agent's loop; its errors are reported in the same way."""
        with pytest.raises(AgentSpecError) as caught:
            await prepare(self.spec(here, name)).agent()
        assert message in str(caught.value)

    def test_own_gate_without_rules(self, here: Path) -> None:
        """An agent with its own gate needs rules, because its gate would be replaced."""
        said = self.refused(self.spec(here, "gated", rules=[]))
        assert "has a gate of its own" in said
        assert "--rules" in said
        assert "no rules were given" in self.refused(self.spec(here, "gated_later", rules=[]))

    def test_own_gate_with_rules(self, here: Path) -> None:
        """With rules the agent's own gate is replaced by these rules."""
        assert prepare(self.spec(here, "gated")).rules.registry.keys() == {"block-rm"}

    def test_workdir_does_not_replace_the_runtime(self, here: Path) -> None:
        """A working directory alone does not replace the runtime that an agent brings."""
        runtime = {"kind": "local", "workdir": here}
        assert "has a FakeRuntime" in self.refused(self.spec(here, "boxed", runtime=runtime))

    def test_address_without_a_model_is_refused(self, here: Path) -> None:
        """An address without a model is refused, because it would redirect the agent's own model."""
        assert "--api-base: my_agents:plain has its own model" in self.refused(
            self.spec(here, "plain", api_base="http://127.0.0.1:1")
        )
