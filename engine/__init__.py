"""Interlock's engine, under the names an author of agents uses.

Everything is imported when its name is first used, so that `import interlock.engine` costs nothing and
nets never load a database, a model client or a schema library.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agents import (
        Agent,
        Allow,
        BashTool,
        CostLimitError,
        Deny,
        EditTool,
        FakeRuntime,
        FinishedCall,
        GlobTool,
        GrepTool,
        Hooks,
        JustBashRuntime,
        LitellmModel,
        LocalRuntime,
        ModelCall,
        ModelRequest,
        Override,
        ReadTool,
        SandboxRuntime,
        ScriptedModel,
        Session,
        Tool,
        ToolCallEvent,
        ToolContext,
        ToolOutput,
        VercelSandboxRuntime,
        WebFetchTool,
        WriteTool,
        create_bash_tool,
        create_web_fetch_tool,
        define_tool,
        preview_of,
        private_addresses_refused,
        task_tool,
        tool,
    )
    from .gate import (
        ApprovalAnswer,
        ApprovalRequest,
        Explanation,
        Gate,
        GateContext,
        GateDecision,
        GateManager,
        GateSession,
        GrantTerms,
        NetExplanation,
        ReplayEntry,
        ResultRecord,
        SyncToolError,
        ToggleResult,
        ToolCallBlockedError,
        ToolResult,
        classify_nets,
        create_gate,
        create_gate_manager,
        handle_tool_call,
        handle_tool_result,
        replay_entries,
        resolve_tool,
        tool_approval_net,
    )
    from .hub import ApprovalPolicy, BranchError, Hub, ResumeError
    from .journal_store import JournalStore
    from .net import (
        GateState,
        NetError,
        Rejection,
        SkillNet,
        ToolCall,
        Transition,
        auto_advance,
        create_gate_state,
        define_skill_net,
        enabled_tool_transitions,
        fire,
        format_marking,
        is_enabled,
    )
    from .rule import ApprovalRule, BlockRule, LimitRule, RuleSource, SequenceRule

# Where a name is looked for, lightest first; a name is searched no further than where it is found.
_HOMES = (".net", ".rule", ".gate", ".agents", ".hub", ".journal_store")

__all__ = [
    "Agent",
    "Allow",
    "ApprovalAnswer",
    "ApprovalPolicy",
    "ApprovalRequest",
    "ApprovalRule",
    "BashTool",
    "BlockRule",
    "BranchError",
    "CostLimitError",
    "Deny",
    "EditTool",
    "Explanation",
    "FakeRuntime",
    "FinishedCall",
    "Gate",
    "GateContext",
    "GateDecision",
    "GateManager",
    "GateSession",
    "GateState",
    "GlobTool",
    "GrantTerms",
    "GrepTool",
    "Hooks",
    "Hub",
    "JournalStore",
    "JustBashRuntime",
    "LimitRule",
    "LitellmModel",
    "LocalRuntime",
    "ModelCall",
    "ModelRequest",
    "NetError",
    "NetExplanation",
    "Override",
    "ReadTool",
    "Rejection",
    "ReplayEntry",
    "ResultRecord",
    "ResumeError",
    "RuleSource",
    "SandboxRuntime",
    "ScriptedModel",
    "SequenceRule",
    "Session",
    "SkillNet",
    "SyncToolError",
    "ToggleResult",
    "Tool",
    "ToolCall",
    "ToolCallBlockedError",
    "ToolCallEvent",
    "ToolContext",
    "ToolOutput",
    "ToolResult",
    "Transition",
    "VercelSandboxRuntime",
    "WebFetchTool",
    "WriteTool",
    "auto_advance",
    "classify_nets",
    "create_bash_tool",
    "create_gate",
    "create_gate_manager",
    "create_gate_state",
    "create_web_fetch_tool",
    "define_skill_net",
    "define_tool",
    "enabled_tool_transitions",
    "fire",
    "format_marking",
    "handle_tool_call",
    "handle_tool_result",
    "is_enabled",
    "preview_of",
    "private_addresses_refused",
    "replay_entries",
    "resolve_tool",
    "task_tool",
    "tool",
    "tool_approval_net",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        for home in _HOMES:
            module = import_module(home, __name__)
            if hasattr(module, name):
                value: object = getattr(module, name)
                globals()[name] = value
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
