"""`interlock run` with an agent file, and with an agent of a Python module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.app.agents.spec import AgentSpec
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import CallDecided, SessionOpened
from tests.bench.terminal import Terminal
from tests.engine.agents.runtime.kinds import skip_without_sandbox
from tests.support.openai_server import Answer, OpenAIServer, begins_call, ends, says

from .test_run import run

TOOLS_OF_MINE = """
from interlock.engine.agents import tool

@tool
def deploy(env: str) -> str:
    "Deploy to an environment."
    return f"deployed to {env}"
"""

AGENT_FILE = """
model = "openai://test-model"
api_base = "{base}"
system_prompt = "You ship."
tools = ["tools_of_mine:deploy", "bash"]
rules = ["deploy.rules"]
task = "Ship it"
"""

DEPLOYS = [begins_call(0, "call_1", "deploy", '{"env": "staging"}'), *ends("tool_calls")]


class TestAgentFile:
    def agent(self, directory: Path, server: OpenAIServer, more: str = "") -> Path:
        """Write an agent file with its rules and tool to a directory other than the working directory."""
        home = directory / "home"
        home.mkdir()
        (home / "tools_of_mine.py").write_text(TOOLS_OF_MINE)
        (home / "deploy.rules").write_text("block deploy\nlimit deploy to 9 per session\n")
        path = home / "agent.toml"
        path.write_text(AGENT_FILE.format(base=server.base_url) + more)
        return path

    def outcomes(self, directory: Path) -> list[str]:
        reader = open_reader(directory / "run.db")
        [summary] = reader.sessions()
        return [e.body.outcome for e in reader.events(summary.id) if isinstance(e.body, CallDecided)]

    def test_is_hosted(self, tmp_path: Path) -> None:
        """An agent file outside the working directory provides prompt, tools, rules and task."""
        with OpenAIServer([DEPLOYS, says("No.")]) as server:
            self.agent(tmp_path, server)
            done = run(tmp_path, "home/agent.toml")
        assert done.returncode == 0, done.stderr
        sent = server.requests[0].body
        assert server.requests[0].conversation == ["You ship.", "Ship it"]
        assert [t["function"]["name"] for t in sent["tools"]] == ["deploy", "bash"]
        assert self.outcomes(tmp_path) == ["block"]
        assert "block deploy" in (tmp_path / "home/deploy.rules").read_text()

    def test_active_nets(self, tmp_path: Path) -> None:
        """Nets outside the file's `active` do not decide, and the file's tool runs."""
        with OpenAIServer([DEPLOYS, says("Done.")]) as server:
            self.agent(tmp_path, server, "active = ['limit-deploy-9']")
            done = run(tmp_path, "home/agent.toml", "Ship it to staging")
        assert done.returncode == 0, done.stderr
        assert server.requests[0].body["messages"][-1]["content"] == "Ship it to staging"
        assert server.requests[1].conversation[-1] == "deployed to staging"
        assert self.outcomes(tmp_path) == ["allow"]

    @pytest.mark.variants
    @pytest.mark.parametrize(("line", "told"), [([], "deployed to staging"), (["--mode", "enforce"], "")])
    def test_command_line_overrides_shadow_mode(self, tmp_path: Path, line: list[str], told: str) -> None:
        """The file's shadow mode blocks nothing; an option on the command line overrides the file."""
        with OpenAIServer([DEPLOYS, says("Done.")]) as server:
            self.agent(tmp_path, server, "mode = 'shadow'")
            done = run(tmp_path, "home/agent.toml", *line)
        assert done.returncode == 0, done.stderr
        said = server.requests[1].body["messages"][-1]["content"]
        assert said == told if told else "blocked" in said

    @pytest.mark.slow
    def test_max_steps_ends_an_endless_run(self, tmp_path: Path) -> None:
        """`max_steps` ends an endless run."""
        with OpenAIServer([DEPLOYS] * 5) as server:
            self.agent(tmp_path, server, "mode = 'shadow'\nlimits = {max_steps = 2}")
            run(tmp_path, "home/agent.toml")
        assert len(server.requests) == 2

    @pytest.mark.slow
    def test_sandbox_shows_only_the_agents_directory(self, tmp_path: Path) -> None:
        """With the sandbox runtime, commands see the agent's directory but not the one beside it."""
        skip_without_sandbox()
        (tmp_path / "secret").write_text("1234")
        command = begins_call(0, "call_1", "bash", '{"command": "ls; cat ../secret"}')
        with OpenAIServer([[command, *ends("tool_calls")], says("Hm.")]) as server:
            self.agent(tmp_path, server, "runtime = {kind = 'sandbox', workdir = '.'}")
            done = run(tmp_path, "home/agent.toml", env={"PATH": os.environ["PATH"]})
        assert done.returncode == 0, done.stderr
        told = server.requests[1].body["messages"][-1]["content"]
        assert "agent.toml" in told
        assert "1234" not in told

    @pytest.mark.slow
    def test_journal_has_its_source_without_keys(self, tmp_path: Path) -> None:
        """The journal has the agent's source, to start the session again, but no key."""
        with OpenAIServer([says("Done.")]) as server:
            path = self.agent(tmp_path, server)
            done = run(tmp_path, "home/agent.toml", env={"OPENAI_API_KEY": "sk-secret"})
        assert done.returncode == 0, done.stderr
        reader = open_reader(tmp_path / "run.db")
        opened = next(iter(reader.events(reader.sessions()[0].id))).body
        assert isinstance(opened, SessionOpened)
        spec = AgentSpec.model_validate(opened.source)
        assert (spec.name, spec.rules) == ("agent", (path.parent / "deploy.rules",))
        assert spec.import_from == (path.parent,)
        assert b"sk-secret" not in (tmp_path / "run.db").read_bytes()

    def test_directory_modules_do_not_shadow_imports(self, tmp_path: Path) -> None:
        """Python files in the working directory do not shadow modules that the agent's modules import."""
        taken = tmp_path / "taken"
        (tmp_path / "colorsys.py").write_text(f"open({str(taken)!r}, 'w').close()\n")
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "mine.py").write_text("import colorsys\ntool = colorsys.__name__\n")
        (tmp_path / "home" / "agent.toml").write_text("model = 'openai/m'\ntools = ['mine:tool']\n")
        done = run(tmp_path, "home/agent.toml", "hi")
        assert done.returncode == 2
        assert "mine:tool" in done.stderr
        assert not taken.exists()

    def test_problems_are_shown_with_their_place(self, tmp_path: Path) -> None:
        """Every problem of an agent file is shown with its place, and nothing starts."""
        (tmp_path / "agent.toml").write_text("modle = 'x'\nmode = 'strict'\n")
        done = run(tmp_path, "agent.toml", "hi")
        assert done.returncode == 2
        assert "agent.toml:1:1: unknown key 'modle'" in done.stderr
        assert "agent.toml:2:1: mode: expected 'enforce' or 'shadow', found 'strict'" in done.stderr
        assert not (tmp_path / "run.db").exists()

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (["no.toml"], "no.toml: no such file, expected an agent file"),
            (["agent.toml"], "what should the agent do?"),
            (["agent.toml", "x", "--network"], "--network: not an option of this runtime"),
            (["agent.toml", "x", "--max-steps", "0"], "a number from 1, not '0'"),
            (["agent.toml", "x", "--runtime", "moon"], "'sandbox'"),
            (["agent.toml", "x", "--runtime", "sandbox", "--workdir", "no"], "no is not a directory"),
            (
                ["agnets:mine"],
                "'agnets:mine' was taken as the task, because no module 'agnets' was found",
            ),
        ],
    )
    def test_wrong_input_is_refused(self, tmp_path: Path, line: list[str], message: str) -> None:
        """Wrong input is reported with its remedy before anything starts."""
        (tmp_path / "a.rules").write_text("block rm")
        (tmp_path / "agent.toml").write_text("model = 'openai/m'\nrules = ['a.rules']\n")
        done = run(tmp_path, *line, env={"PATH": os.environ["PATH"]})
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "run.db").exists()

    @pytest.mark.thorough
    def test_opens_the_console_without_headless(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without `--headless` the same file opens the console with its agent running."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        with OpenAIServer([DEPLOYS, says("It is blocked.")]) as server:
            self.agent(tmp_path, server)
            command = [
                sys.executable,
                "-m",
                "interlock.app.cli",
                "run",
                "home/agent.toml",
                "--db",
                "run.db",
            ]
            with Terminal(command) as terminal:
                terminal.wait_for("It is blocked.", seconds=60)
                terminal.wait_until_shown("idle", seconds=20)
                terminal.send("q")
                assert terminal.wait_for_end() == 0
        assert self.outcomes(tmp_path) == ["block"]


SUBAGENT = """
model = "openai://test-model"
api_base = "{base}"
rules = ["a.rules"]
tools = ["read"]
[subagents.reviewer]
description = "Reads a diff and says what is wrong with it."
system_prompt = "You review."
tools = ["bash"]
"""
DELEGATES = [
    begins_call(0, "call_1", "task_reviewer", '{"prompt": "Review it."}'),
    *ends("tool_calls"),
]
REMOVES = [begins_call(0, "call_1", "bash", '{"command": "rm kept"}'), *ends("tool_calls")]


class TestSubagents:
    """A-44, G-53: an agent file's subagent works behind the gate of its agent's session."""

    def run(
        self, directory: Path, server: OpenAIServer, more: str = "", rules: str = "block rm"
    ) -> subprocess.CompletedProcess[str]:
        """Run an agent file with a subagent, in a directory with a file named `kept`."""
        (directory / "kept").touch()
        (directory / "a.rules").write_text(f"map bash.command rm as rm\n{rules}\n")
        (directory / "agent.toml").write_text(SUBAGENT.format(base=server.base_url) + more)
        done = run(directory, "agent.toml", "Ship it")
        assert done.returncode == 0, done.stderr
        return done

    def test_blocked_call_of_a_subagent(self, tmp_path: Path) -> None:
        """The rules block the subagent's call, and the agent reads the subagent's last message."""
        answers: list[Answer] = [DELEGATES, REMOVES, says("I may not ", "remove it."), says("Done.")]
        with OpenAIServer(answers) as server:
            self.run(tmp_path, server)
        first, asked, told, after = [request.body for request in server.requests]
        tools = [[t["function"]["name"] for t in body["tools"]] for body in (first, asked)]
        assert tools == [["read", "task_reviewer"], ["bash"]]
        described = first["tools"][1]["function"]["description"]
        assert described == "Reads a diff and says what is wrong with it."
        assert server.requests[1].conversation == ["You review.", "Review it."]
        assert asked["model"] == first["model"] == "test-model"
        assert "blocked" in told["messages"][-1]["content"]
        assert after["messages"][-1]["content"] == "I may not remove it."
        assert (tmp_path / "kept").exists()

    @pytest.mark.slow
    def test_allowed_call_of_a_subagent_runs(self, tmp_path: Path) -> None:
        """Without a rule against it the same call runs, in the agent's working directory."""
        with OpenAIServer([DELEGATES, REMOVES, says("Removed."), says("Done.")]) as server:
            self.run(tmp_path, server, rules="limit rm to 1 per session")
        assert not (tmp_path / "kept").exists()

    @pytest.mark.slow
    def test_rules_can_block_the_delegation(self, tmp_path: Path) -> None:
        """Rules can block the delegation itself; then no subagent starts."""
        with OpenAIServer([DELEGATES, says("Then not.")]) as server:
            self.run(tmp_path, server, rules="block task_reviewer")
        assert "blocked" in server.requests[1].body["messages"][-1]["content"]

    @pytest.mark.slow
    def test_subagent_uses_its_own_model_and_limit(self, tmp_path: Path) -> None:
        """A subagent with its own model calls that model's address, up to its own step limit."""
        with OpenAIServer([REMOVES, REMOVES]) as own, OpenAIServer([DELEGATES, says("Done.")]) as server:
            model = f"model = 'openai://small'\napi_base = '{own.base_url}'\nlimits = {{max_steps = 2}}"
            self.run(tmp_path, server, model)
        assert [request.body["model"] for request in own.requests] == ["small", "small"]
        assert "stopped after 2 steps" in server.requests[1].body["messages"][-1]["content"]

    @pytest.mark.slow
    def test_subagent_uses_its_agents_runtime(self, tmp_path: Path) -> None:
        """The subagent uses its agent's runtime: files in memory, including those of the agent file."""
        reads = [begins_call(0, "call_1", "bash", '{"command": "cat notes.txt"}'), *ends("tool_calls")]
        runtime = "[runtime]\nkind = 'just-bash'\nfiles = {'notes.txt' = 'by hand'}"
        with OpenAIServer([DELEGATES, reads, says("Read."), says("Done.")]) as server:
            self.run(tmp_path, server, runtime)
        assert "by hand" in server.requests[2].body["messages"][-1]["content"]

    @pytest.mark.slow
    def test_agent_file_adds_subagents_to_imported_agent(self, tmp_path: Path) -> None:
        """An agent file can add subagents to an agent of a module."""
        code = (
            "from interlock.engine.agents import Agent, C, ScriptedModel, T\n"
            "agent = Agent(ScriptedModel([C(task_helper={'prompt': 'Help.'}), T('done')]))\n"
        )
        (tmp_path / "led_agents.py").write_text(code)
        (tmp_path / "a.rules").write_text("block rm")
        with OpenAIServer([says("Helped.")]) as server:
            (tmp_path / "agent.toml").write_text(
                "agent = 'led_agents:agent'\nrules = ['a.rules']\n"
                "[subagents.helper]\ndescription = 'Helps.'\n"
                f"model = 'openai://m'\napi_base = '{server.base_url}'\n"
            )
            done = run(tmp_path, "agent.toml", "go")
        assert done.returncode == 0, done.stderr
        assert server.requests[0].conversation == ["Help."]


MY_AGENT = """
import sys
from interlock.engine.agents import Agent, BashTool, C, ScriptedModel, T

agent = Agent(ScriptedModel([C(bash={"command": "rm x"}), T("done")]), name="mine", tools=[BashTool])

async def later():
    return agent

async def never():
    raise OSError("no disk")

def broken():
    return {}["key"]
"""


class TestImportedAgent:
    @pytest.mark.parametrize("name", ["agent", "later"])
    def test_is_hosted(self, tmp_path: Path, name: str) -> None:
        """A module's agent in the working directory runs under the rules of the command line."""
        (tmp_path / "my_agents.py").write_text(MY_AGENT)
        (tmp_path / "a.rules").write_text("map bash.command rm as rm\nblock rm")
        done = run(tmp_path, f"my_agents:{name}", "go", "--rules", "a.rules")
        assert done.returncode == 0, done.stderr
        reader = open_reader(tmp_path / "run.db")
        [summary] = reader.sessions()
        assert summary.id.startswith("mine-")
        decided = [e.body for e in reader.events(summary.id) if isinstance(e.body, CallDecided)]
        assert [d.outcome for d in decided] == ["block"]

    @pytest.mark.parametrize(
        ("name", "message"),
        [("broken", "my_agents.py:14: KeyError: 'key'"), ("never", "my_agents.py:11: OSError: no disk")],
    )
    def test_exception_is_one_line_with_its_place(self, tmp_path: Path, name: str, message: str) -> None:
        """A module's exception is one line with its place; `INTERLOCK_DEBUG` adds the traceback."""
        (tmp_path / "my_agents.py").write_text(MY_AGENT)
        (tmp_path / "a.rules").write_text("block rm")
        line = (f"my_agents:{name}", "go", "--rules", "a.rules")
        done = run(tmp_path, *line)
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert "Traceback" in run(tmp_path, *line, env={"INTERLOCK_DEBUG": "1"}).stderr

    def test_module_agent_provides_no_rules(self, tmp_path: Path) -> None:
        """A module's agent does not provide rules."""
        (tmp_path / "my_agents.py").write_text(MY_AGENT + "\nrules = ['a.rules']")
        done = run(tmp_path, "my_agents:agent", "go")
        assert done.returncode == 2
        assert "no rules were given" in done.stderr

    def test_rules_from_the_directory_are_reported(self, tmp_path: Path) -> None:
        """Rules may come from interlock.toml, which is reported; its model does not apply here."""
        (tmp_path / "my_agents.py").write_text(MY_AGENT)
        (tmp_path / "a.rules").write_text("block bash")
        (tmp_path / "interlock.toml").write_text("rules = ['a.rules']\nmodel = 'anthropic/claude'")
        done = run(tmp_path, "my_agents:agent", "go")
        assert done.returncode == 0, done.stderr
        told = f"interlock run: rules a.rules from {tmp_path}/interlock.toml: a working directory may"
        assert told in done.stderr
