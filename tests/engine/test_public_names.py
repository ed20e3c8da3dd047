"""The names that authors of agents import, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys

import interlock.engine
import interlock.rules

PUBLIC = """
SkillNet Transition define_skill_net NetError auto_advance fire is_enabled format_marking GateState
create_gate_state handle_tool_call handle_tool_result classify_nets resolve_tool enabled_tool_transitions
create_gate_manager GateManager ToolCall ToolResult GateContext GateDecision ApprovalRequest ReplayEntry
create_gate GateSession ToolCallBlockedError tool_approval_net Agent tool Hub
"""


class TestNames:
    def test_engine(self) -> None:
        """Every public name of the engine is there and listed."""
        for name in PUBLIC.split():
            assert hasattr(interlock.engine, name), name
            assert name in interlock.engine.__all__

    def test_rules(self) -> None:
        """The rules package gives what compiles, what loads and what is raised."""
        assert issubclass(interlock.rules.RuleError, Exception)
        assert callable(interlock.rules.compile_rules)
        assert callable(interlock.rules.load_rules)

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
