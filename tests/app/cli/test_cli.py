"""The command line: light imports and clear errors for bad input."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import command as run_command
from tests.support.forked import COMMANDS, python_with

HEAVY = ("textual", "litellm", "sqlalchemy", "sqlmodel", "pydantic", "lark", "rich", "pygls")

PROBE = """
import sys
from interlock.app.cli.main import main
try:
    code = main({line!r})
except SystemExit as end:
    code = end.code or 0
print("HEAVY", sorted(set({heavy!r}) & set(sys.modules)), "CODE", code)
"""


def interlock(
    *line: str, cwd: Path, env: dict[str, str] | None = None, real: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run the command without a terminal, without this machine's configuration.

    It runs as a fork, or with `real` as a process that users would start.
    """
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "INTERLOCK_CONFIG_DIR": str(cwd), **(env or {})}
    return subprocess.run(
        [*([sys.executable] if real else python_with(*COMMANDS)), "-m", "interlock.app.cli", *line],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


LIGHT = """
import sys
import interlock.app.cli.agent.mcp
import interlock.engine.gateway.client.agent, interlock.engine.gateway.mcp.child
import interlock.engine.gateway.mcp.http, interlock.engine.gateway.mcp.proxy
parts = ("agents", "flows", "gate.manager", "history.events", "hub", "verify")
heavy = {"anyio", "httpx2", "litellm", "mcp", "sqlalchemy", "textual"}
print(sorted((heavy | {f"interlock.engine.{each}" for each in parts}) & set(sys.modules)))
import interlock.app.sessions.start, interlock.engine.gateway.acp.agent
import interlock.app.hosting.host, interlock.app.hosting.server
print(sorted({"interlock.engine.flows", "litellm", "mcp", "textual"} & set(sys.modules)))
"""


class TestLightness:
    @pytest.mark.slow
    def test_client_and_host_import_only_what_they_use(self, tmp_path: Path) -> None:
        """A client of a server, as for each MCP server of an agent, imports neither gate nor journal.

        A host imports both, but no flows before one is opened.
        """
        line = [sys.executable, "-c", LIGHT]
        done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, check=True)
        assert done.stdout == "[]\n[]\n"


class TestHelp:
    @pytest.mark.variants
    @pytest.mark.parametrize("line", [["--help"], ["run", "--help"], ["--version"], []])
    def test_imports_nothing_heavy(self, line: list[str], tmp_path: Path) -> None:
        """Help and version import no screen, model or database library."""
        done = subprocess.run(
            [sys.executable, "-c", PROBE.format(line=line, heavy=HEAVY)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=True,
        )
        assert done.stdout.endswith("HEAVY [] CODE 0\n")

    @pytest.mark.slow
    def test_names_every_command(self, tmp_path: Path) -> None:
        """The help lists the commands."""
        shown = interlock("--help", cwd=tmp_path, real=True).stdout
        for command in ("demo", "run", "console", "check", "history", "replay"):
            assert f"\n    {command} " in shown


class TestNoTerminal:
    @pytest.mark.variants
    @pytest.mark.parametrize(
        "line", [["console"], ["replay", "x"], ["run", "--model", "openai/x", "--rules", "r", "task"]]
    )
    def test_console_commands_fail(self, line: list[str], tmp_path: Path) -> None:
        """A console without a terminal is an error."""
        done = interlock(*line, cwd=tmp_path)
        assert done.returncode == 2
        assert "not a terminal" in done.stderr
        assert done.stdout == ""


class TestBadInput:
    def test_bad_setting(self, tmp_path: Path) -> None:
        """A wrong value in a configuration file stops the command and is named."""
        (tmp_path / "interlock.toml").write_text("limit = 'many'")
        done = interlock("history", cwd=tmp_path)
        assert done.returncode == 2
        assert "limit: a number from 1, not 'many'" in done.stderr

    @pytest.mark.parametrize("words", [["--task", "go on"], ["--task=go on"]])
    def test_resume_refuses_task_option(self, words: list[str], tmp_path: Path) -> None:
        """`resume --task` is refused, and the error says where to write the task."""
        done = interlock("resume", "abc", *words, cwd=tmp_path)
        assert done.returncode == 2
        assert "error: resume: the task is written behind the session, without --task" in done.stderr

    @pytest.mark.parametrize(("key", "code"), [("listen", 0), ("listn", 2)])
    def test_setting_of_another_command_is_accepted(self, tmp_path: Path, key: str, code: int) -> None:
        """A settings file may set options of any command; an unknown key is an error."""
        (tmp_path / "a.rules").write_text("block rm\n")
        (tmp_path / "interlock").mkdir()
        (tmp_path / "interlock" / "interlock.toml").write_text(f'{key} = "127.0.0.1:7433"\n')
        done = run_command(tmp_path, "check", "a.rules", env={"XDG_CONFIG_HOME": str(tmp_path)})
        assert done.returncode == code, done.stderr
        assert (key in done.stderr) == (code == 2)

    def test_unknown_option(self, tmp_path: Path) -> None:
        """The error is one line, which names the command whose options are meant."""
        done = run_command(tmp_path, "approvals", "list", "--reason", "x", env={})
        assert done.returncode == 2
        assert done.stderr == (
            "interlock approvals list: error: unrecognized arguments: --reason x. "
            "Its options: interlock approvals list --help\n"
        )

    def test_unknown_command(self, tmp_path: Path) -> None:
        """The error for a misspelt command lists the commands."""
        done = interlock("dmeo", cwd=tmp_path, real=True)
        assert done.returncode == 2
        assert "demo" in done.stderr


class TestRuleTools:
    RULES = "require test before deploy\n"

    @pytest.mark.slow
    def test_scenarios_run(self, tmp_path: Path) -> None:
        """`interlock test` runs the scenarios below the working directory and reports the results."""
        (tmp_path / "a.rules").write_text(self.RULES)
        scenario = 'use a.rules\nscenario "early"\n  call deploy\n  expect block\n'
        (tmp_path / "a_test.rules").write_text(scenario)
        done = interlock("test", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "early" in done.stdout
        (tmp_path / "a_test.rules").write_text(scenario.replace("block", "allow"))
        assert interlock("test", cwd=tmp_path).returncode == 1

    @pytest.mark.slow
    def test_nets_are_drawn(self, tmp_path: Path) -> None:
        """`interlock draw` prints Mermaid, or writes a file in the format of its ending."""
        (tmp_path / "a.rules").write_text(self.RULES)
        assert interlock("draw", "a.rules", cwd=tmp_path).stdout.startswith("flowchart LR")
        assert interlock("draw", "a.rules", "-o", "a.svg", cwd=tmp_path).returncode == 0
        assert (tmp_path / "a.svg").read_text().startswith("<svg")
