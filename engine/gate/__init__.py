"""The gate: verdicts, the four phases, the manager of many nets. No I/O."""

from .classify import classify_nets, resolve_tool
from .explain import Explanation, NetExplanation
from .grants.net import Grant
from .grants.store import make_grant
from .manager import GateManager, create_gate_manager
from .types import (
    ActiveNet,
    Approval,
    ApprovalAnswer,
    ApprovalRequest,
    CallGate,
    ChosenEdit,
    GateContext,
    GateDecision,
    GrantTerms,
    Mode,
    NetVerdict,
    ReplayEntry,
    ResultRecord,
    Step,
    SyncToolError,
    ToggleResult,
    ToolCallBlockedError,
    ToolResult,
)
from .wrapping.messages import replay_entries
from .wrapping.single_net import handle_tool_call, handle_tool_result, tool_approval_net
from .wrapping.wrap import Gate, GateSession, create_gate

__all__ = [
    "ActiveNet",
    "Approval",
    "ApprovalAnswer",
    "ApprovalRequest",
    "CallGate",
    "ChosenEdit",
    "Explanation",
    "Gate",
    "GateContext",
    "GateDecision",
    "GateManager",
    "GateSession",
    "Grant",
    "GrantTerms",
    "Mode",
    "NetExplanation",
    "NetVerdict",
    "ReplayEntry",
    "ResultRecord",
    "Step",
    "SyncToolError",
    "ToggleResult",
    "ToolCallBlockedError",
    "ToolResult",
    "classify_nets",
    "create_gate",
    "create_gate_manager",
    "handle_tool_call",
    "handle_tool_result",
    "make_grant",
    "replay_entries",
    "resolve_tool",
    "tool_approval_net",
]
