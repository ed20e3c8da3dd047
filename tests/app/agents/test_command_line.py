"""From the command line `interlock run [AGENT] [OPTIONS] [TASK]` to an agent's spec."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from pathlib import Path

import pytest

from interlock.app.agents.command_line import WordsError, assign_words, from_command_line
from interlock.app.agents.spec import AgentSpec, AgentSpecError, SandboxOptions
from interlock.app.cli.main import parser


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory without other settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("INTERLOCK_")]:
        monkeypatch.delenv(name)
    return tmp_path


def parsed(*line: str) -> Namespace:
    """Return the command line, parsed as `main` does."""
    args, extra = parser().parse_known_args(["run", *line])
    args.typed = frozenset(name for name, value in vars(args).items() if value is not None)
    assign_words(args, extra, ["run", *line])
    return args


class TestWords:
    @pytest.mark.parametrize(
        ("line", "target", "task"),
        [
            (["Ship it"], None, "Ship it"),
            (["agent.toml"], "agent.toml", None),
            (["agent.toml", "Ship it"], "agent.toml", "Ship it"),
            (["agent.toml", "--mode", "shadow", "Ship it"], "agent.toml", "Ship it"),
            (["--mode", "shadow", "agent.toml", "Ship it"], "agent.toml", "Ship it"),
            (["agent.toml", "--rules", "a.rules", "--mode", "shadow"], "agent.toml", None),
            (["agent.toml", "--mode", "shadow", "--", "-x"], "agent.toml", "-x"),
            (["agent.toml", "--", "- item"], "agent.toml", "- item"),
            (["mine:agent"], "mine:agent", None),
            (["mine:agent", "Ship it"], "mine:agent", "Ship it"),
            (["absent.place:agent", "Ship it"], "absent.place:agent", "Ship it"),
            # Words that look like an agent, but are not one.
            (["absent:agent"], None, "absent:agent"),
            (["--model", "x", "fix: the bug"], None, "fix: the bug"),
            (["mine: agent"], None, "mine: agent"),
            (["mine:agent!"], None, "mine:agent!"),
            (["http://localhost"], None, "http://localhost"),
            (["repair pyproject.toml"], None, "repair pyproject.toml"),
            (["my agent.toml"], "my agent.toml", None),
            # A list of names takes the words that follow it.
            (["--rules", "a.rules", "Ship it"], None, "Ship it"),
            (["--rules", "a.rules", "b.rules", "deploy"], None, "deploy"),
            (["--rules", "a.rules", "agent.toml"], "agent.toml", None),
            (["--rules", "a.rules", "agent.toml", "Ship it"], "agent.toml", "Ship it"),
            (["--rules", "a.rules", "mine:agent"], "mine:agent", None),
            (["--active", "a", "b", "Ship it"], None, "Ship it"),
            (["agent.toml", "--rules", "a.rules", "Ship it"], "agent.toml", "Ship it"),
            (["agent.toml", "--rules", "a.rules", "deploy"], "agent.toml", "deploy"),
            (["agent.toml", "--rules", "a.rules", "b.rules", "re-deploy"], "agent.toml", "re-deploy"),
            (["mine:agent", "--rules", "a.rules", "deploy"], "mine:agent", "deploy"),
            (["agent.toml", "--active", "a", "b"], "agent.toml", None),
            (["agent.toml", "Ship it", "--active", "a", "b"], "agent.toml", "Ship it"),
        ],
    )
    def test_agents_and_tasks_are_distinguished(
        self, here: Path, line: list[str], target: str | None, task: str | None
    ) -> None:
        """An agent is a .toml file or a module's name; any other word is the task."""
        for name in ("a.rules", "b.rules", "agent.toml", "my agent.toml", "mine.py"):
            (here / name).touch()
        args = parsed(*line)
        assert (args.target, args.task) == (target, task)

    def test_last_net_is_not_taken_for_the_task(self, here: Path) -> None:
        """With an agent given, the last of several nets is not mistaken for the task."""
        (here / "agent.toml").touch()
        args = parsed("agent.toml", "--active", "approve-before-deploy", "block-rm")
        assert args.active == ["approve-before-deploy", "block-rm"]

    def test_missing_rules_file_is_not_taken_for_the_task(self) -> None:
        """A missing rules file is not mistaken for the task."""
        with pytest.raises(WordsError, match="what should the agent do"):
            parsed("--rules", "a.rules", "deplyo.rules")

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (["Ship", "it"], "found 'Ship' and 'it'; expected a task in quotes"),
            (["a.toml", "Ship", "it"], "found 'Ship' and 'it'; expected a task in quotes"),
            (["Ship", "--nonsense"], "unrecognized arguments: --nonsense"),
            ([], "what should the agent do"),
        ],
    )
    def test_invalid_words_are_errors(self, line: list[str], message: str) -> None:
        """Too many words, an unknown option and missing words are errors."""
        with pytest.raises(WordsError, match=re.escape(message)):
            parsed(*line)

    def test_nothing_is_imported(self, here: Path) -> None:
        """Recognising a module's name does not import the module."""
        (here / "explosive.py").write_text("raise SystemExit('ran')")
        assert parsed("explosive:agent").target == "explosive:agent"


FILE = """
model = "openai://from-file"
api_base = "http://127.0.0.1:1/v1"
rules = ["file.rules"]
active = ["of-file"]
tools = ["bash"]
mode = "shadow"
task = "of the file"
[runtime]
kind = "sandbox"
workdir = "/tmp"
network = true
[limits]
max_steps = 3
"""


class TestOptions:
    def spec(self, here: Path, *line: str, text: str = FILE, **settings: object) -> AgentSpec:
        """Return the spec of a line, by default `run agent.toml`, with values of a settings file."""
        (here / "agent.toml").write_text(text)
        args = parsed(*(line or ("agent.toml",)))
        for name, value in settings.items():
            setattr(args, name, value)
        return from_command_line(args, environ={})

    def test_file_alone(self, here: Path) -> None:
        """Without options the file applies, and modules are imported only from its directory."""
        (here / "sub").mkdir()
        (here / "sub/agent.toml").write_text(FILE)
        spec = self.spec(here, "sub/agent.toml")
        assert spec.model == "openai://from-file"
        assert spec.import_from == (here / "sub",)

    def test_tools_from_the_command_line(self, here: Path) -> None:
        """Modules named on the command line may also be in the working directory."""
        (here / "sub").mkdir()
        (here / "sub/agent.toml").write_text(FILE)
        spec = self.spec(here, "sub/agent.toml", "--tools", "mine:tool")
        assert spec.import_from == (here / "sub", here)

    def test_options_override_the_file(self, here: Path) -> None:
        """Options override the file."""
        spec = self.spec(
            here,
            *("agent.toml", "--mode", "enforce", "--tools", "read,mine:x", "--max-steps", "9"),
            *("--runtime", "local", "--explain-blocks", "--system-prompt", "Hi", "of the line"),
        )
        assert (spec.mode, spec.tools, spec.limits.max_steps) == ("enforce", ("read", "mine:x"), 9)
        assert (spec.explain_blocks, spec.system_prompt, spec.task) == (True, "Hi", "of the line")
        assert spec.runtime is not None
        assert spec.runtime.model_dump(mode="json") == {"kind": "local", "workdir": "/tmp", "env": []}

    def test_option_replaces_only_its_limit(self, here: Path) -> None:
        """Limits: an option replaces only the limit that it names."""
        text = FILE + "max_cost = 2\n"
        steps = self.spec(here, "agent.toml", "--max-steps", "9", text=text).limits
        assert (steps.max_steps, steps.max_cost) == (9, 2)
        cost = self.spec(here, "agent.toml", "--max-cost", "0.5", text=text).limits
        assert (cost.max_steps, cost.max_cost) == (3, 0.5)
        filled = self.spec(here, max_steps=1, max_cost=4.0).limits
        assert (filled.max_steps, filled.max_cost) == (3, 4.0)
        assert self.spec(here, text=text, max_cost=4.0).limits.max_cost == 2

    def test_limit_of_an_imported_agent(self, here: Path) -> None:
        """Limits: a module's agent keeps its own limit unless the command line sets one."""
        (here / "mine.py").write_text("")
        line = ("mine:agent", "--rules", "a.rules")
        assert self.spec(here, *line, "x", max_cost=4.0).limits.max_cost is None
        assert self.spec(here, *line, "--max-cost", "3", "x").limits.max_cost == 3

    @pytest.mark.parametrize("amount", ["0", "-1", "five", "nan", "inf"])
    def test_invalid_amount_is_refused(
        self, here: Path, amount: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Limits: an invalid amount is refused before anything starts."""
        for line in (["run", f"--max-cost={amount}"], ["resume", "s", f"--max-cost={amount}"]):
            with pytest.raises(SystemExit):
                parser().parse_args(line)
            said = capsys.readouterr().err
            assert f"an amount in US dollars, more than 0, not '{amount}'" in said

    def test_other_model_does_not_use_the_address(self, here: Path) -> None:
        """Another model does not use the address of the file's model."""
        spec = self.spec(here, "agent.toml", "--model", "anthropic://claude")
        assert (spec.model, spec.api_base) == ("anthropic://claude", None)

    def test_other_rules_disable_active(self, here: Path) -> None:
        """With other rules the file's `active` does not apply."""
        spec = self.spec(here, "agent.toml", "--rules", "other.rules")
        assert (spec.rules, spec.active) == ((here / "other.rules",), None)

    def test_other_workdir_keeps_the_sandbox_options(self, here: Path) -> None:
        """Another working directory keeps the sandbox's other options."""
        spec = self.spec(here, "agent.toml", "--workdir", "w")
        assert spec.runtime == SandboxOptions(workdir=here / "w", network=True)

    def test_environment_overrides_the_file(self, here: Path) -> None:
        """An environment variable overrides the file."""
        (here / "agent.toml").write_text(FILE)
        args = parsed("agent.toml")
        args.mode = "enforce"
        assert from_command_line(args, environ={"INTERLOCK_MODE": "enforce"}).mode == "enforce"

    def test_settings_file_fills_gaps(self, here: Path) -> None:
        """A settings file only fills gaps and never changes the agent file."""
        settings = {
            "model": "openai/other",
            "api_base": "http://127.0.0.1:9/v1",
            "rules": ["other.rules"],
            "active": ["other"],
            "mode": "enforce",
            "tools": "read",
            "runtime": "local",
            "max_steps": 1,
        }
        assert self.spec(here, **settings) == self.spec(here)
        filled = self.spec(here, text="task = 'x'", **settings)
        assert (filled.model, filled.mode, filled.active) == ("openai/other", "enforce", ("other",))

    def test_settings_file_gives_an_imported_agent_only_rules(self, here: Path) -> None:
        """For a module's agent a settings file provides rules, but no model, tools or runtime."""
        (here / "mine.py").write_text("")
        spec = self.spec(
            here,
            "mine:agent",
            "x",
            model="openai/other",
            tools="bash",
            runtime="local",
            rules=["a.rules"],
        )
        assert spec == AgentSpec(agent="mine:agent", rules=["a.rules"], task="x", import_from=[here])  # type: ignore[arg-type]

    def test_without_a_file(self, here: Path) -> None:
        """Options alone are a spec; its working directory is the current one."""
        spec = self.spec(here, "--model", "openai/m", "--rules", "a.rules", "--", "x")
        assert spec.runtime is not None
        assert spec.runtime.workdir == here
        assert spec.rules == (here / "a.rules",)

    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (["--network", "x"], "--network: not an option of this runtime; it belongs in the table"),
            (["--model", "gpt", "x"], "--model: 'gpt': missing scheme"),
            (["--api-base", "me", "x"], "--api-base: expected a URL"),
            (
                ["--runtime", "vercel", "--workdir", "w", "x"],
                "--workdir: expected a path that starts with /",
            ),
        ],
    )
    def test_bad_options(self, here: Path, line: list[str], message: str) -> None:
        """An invalid option is named as it was typed."""
        with pytest.raises(AgentSpecError, match=re.escape(message)):
            self.spec(here, *line)

    def test_option_can_disable_the_network(self, here: Path) -> None:
        """An option can disable the network that the file enables."""
        assert self.spec(here, "agent.toml", "--no-network").runtime == SandboxOptions(
            workdir=Path("/tmp"), network=False
        )
