"""The names that authors of agents import, and what importing them costs."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import pytest

import interlock.engine
import interlock.engine.agents
import interlock.engine.agents.tools
import interlock.engine.backtest
import interlock.engine.backtest.suggestions
import interlock.engine.gate
import interlock.engine.gateway
import interlock.engine.verify
import interlock.rules
import interlock.rules.shell

LAZY = [
    interlock.engine.agents,
    interlock.engine.agents.tools,
    interlock.engine.backtest,
    interlock.engine.backtest.suggestions,
    interlock.engine.gate,
    interlock.engine.verify,
    interlock.rules.shell,
]
"""Packages whose names are imported when they are first used."""

PUBLIC = """
SkillNet Transition define_skill_net NetError auto_advance fire is_enabled format_marking GateState
create_gate_state handle_tool_call handle_tool_result classify_nets resolve_tool enabled_tool_transitions
create_gate_manager GateManager ToolCall ToolResult GateContext GateDecision ApprovalRequest ReplayEntry
create_gate GateSession ToolCallBlockedError tool_approval_net Agent tool Hub Hooks ModelCall
ModelRequest FinishedCall ToolCallEvent Allow Deny Override CostLimitError
Model Runtime SessionStore AgentClient SyncAgentClient ConsoleClient Blocked BlockedCallError
"""


class TestNames:
    def test_engine(self) -> None:
        """Every public name of the engine is there and listed."""
        for name in PUBLIC.split():
            assert hasattr(interlock.engine, name), name
            assert name in interlock.engine.__all__

    def test_every_listed_name_is_there(self) -> None:
        """What `__all__` promises can be imported, and type checkers see the same names."""
        for name in interlock.engine.__all__:
            assert getattr(interlock.engine, name) is not None
        assert sorted(interlock.engine.__all__, key=str) == sorted(set(interlock.engine.__all__))
        source = ast.parse(Path(interlock.engine.__file__).read_text())
        checked = next(node for node in source.body if isinstance(node, ast.If))
        imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
        seen = {alias.name for node in imports for alias in node.names}
        assert seen == set(interlock.engine.__all__)

    @pytest.mark.parametrize(
        "package", [interlock.engine, interlock.engine.gateway, interlock.engine.gate]
    )
    def test_dir_lists_public_names_only(self, package: ModuleType) -> None:
        """Completion offers the exported names, without those that the package itself imports."""
        names = [name for name in dir(package) if not name.startswith("__")]
        assert names == sorted(package.__all__)
        assert all(hasattr(package, name) for name in names)

    @pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
    def test_lazy_names(self, package: ModuleType) -> None:
        """Type checkers see the names that there are, and none of them is also that of a module.

        Such a name would be the module as soon as something imported that.
        """
        source = ast.parse(Path(str(package.__file__)).read_text())
        checked = next(node for node in source.body if isinstance(node, ast.If))
        imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
        lazy = {alias.name for node in imports for alias in node.names}
        modules = {each.name for each in iter_modules(package.__path__)}
        assert lazy
        assert lazy <= {
            name for name in dir(package) if not isinstance(getattr(package, name), ModuleType)
        }
        assert not lazy & modules

    def test_name_that_a_module_has_too(self) -> None:
        """`tool` is the decorator, also once its module was imported."""
        assert import_module("interlock.engine.agents.tool").tool is interlock.engine.agents.tool

    def test_version(self) -> None:
        """The version is that of pyproject.toml."""
        project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
        assert interlock.engine.__version__ == project["version"]

    @pytest.mark.slow
    def test_hooks_are_light(self) -> None:
        """A module that only writes hooks pays for no database, console or model client."""
        probe = (
            "import sys; from interlock.engine import Deny, Hooks, ModelCall; "
            "Hooks(before_tool_call=lambda event: Deny(reason='no')); "
            "print({'sqlalchemy', 'litellm', 'textual'} & set(sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
        assert done.stdout == "set()\n"

    def test_rules(self) -> None:
        """The rules package gives what compiles, what loads and what is raised."""
        assert issubclass(interlock.rules.RuleError, Exception)
        assert callable(interlock.rules.compile_rules)
        assert callable(interlock.rules.load_rules)

    @pytest.mark.slow
    def test_gate_needs_nothing_heavy(self) -> None:
        """A program that only gates its tools pays for no database, model or schema library."""
        probe = (
            "import sys; from interlock.engine import create_gate; "
            "from interlock.rules import compile_rules; "
            "create_gate(compile_rules('block rm').nets); "
            "print({'pydantic', 'sqlalchemy', 'litellm', 'textual'} & set(sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
        assert done.stdout == "set()\n"

    @pytest.mark.slow
    def test_server_loads_what_it_uses(self) -> None:
        """A server of external agents has no tool, runtime, backtest or login in memory."""
        probe = (
            "import sys; from interlock.rules import compile_rules; "
            "from interlock.engine.gateway.cluster.shared_hub import open_hub; "
            "from interlock.engine.gateway.server.server import Gateway; "
            "compile_rules('block rm'); "
            "print(*sorted(sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
        loaded = done.stdout.split()
        assert "interlock.engine.gateway.server.server" in loaded
        rare = (
            "interlock.engine.agents.agent",
            "interlock.engine.agents.runtime.local.runtime",
            "interlock.engine.agents.tools.bash",
            "interlock.engine.backtest.judge",
            "interlock.engine.backtest.suggestions.suggest",
            "interlock.engine.gateway.oidc",
            "interlock.engine.history.audit.stream",
            "interlock.engine.verify.ruleset",
            "interlock.rules.shell.command_reader",
        )
        assert not {*rare} & {*loaded}
