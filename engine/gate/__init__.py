"""The gate: verdicts, the four phases, the manager of many nets. No I/O.

Names are imported on first use, so that a client of a server can use the types of calls without loading
the gate.
"""

from typing import TYPE_CHECKING

from ..core.lazy_names import lazy

if TYPE_CHECKING:
    from .classify import classify_nets, resolve_tool
    from .explain import Explanation, NetExplanation
    from .grants.net import Grant
    from .grants.store import make_grant
    from .manager import GateManager, composed_tool_call, create_gate_manager
    from .shared_uses import SharedUses
    from .types import (
        ActiveNet,
        Approval,
        ApprovalAnswer,
        ApprovalRequest,
        Blocked,
        BlockedCallError,
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

_HOMES = {
    "ActiveNet": "types",
    "Approval": "types",
    "ApprovalAnswer": "types",
    "ApprovalRequest": "types",
    "Blocked": "types",
    "BlockedCallError": "types",
    "CallGate": "types",
    "ChosenEdit": "types",
    "Explanation": "explain",
    "Gate": "wrapping.wrap",
    "GateContext": "types",
    "GateDecision": "types",
    "GateManager": "manager",
    "GateSession": "wrapping.wrap",
    "Grant": "grants.net",
    "GrantTerms": "types",
    "Mode": "types",
    "NetExplanation": "explain",
    "NetVerdict": "types",
    "ReplayEntry": "types",
    "ResultRecord": "types",
    "SharedUses": "shared_uses",
    "Step": "types",
    "SyncToolError": "types",
    "ToggleResult": "types",
    "ToolCallBlockedError": "types",
    "ToolResult": "types",
    "classify_nets": "classify",
    "composed_tool_call": "manager",
    "create_gate": "wrapping.wrap",
    "create_gate_manager": "manager",
    "handle_tool_call": "wrapping.single_net",
    "handle_tool_result": "wrapping.single_net",
    "make_grant": "grants.store",
    "replay_entries": "wrapping.messages",
    "resolve_tool": "classify",
    "tool_approval_net": "wrapping.single_net",
}

__all__ = [
    "ActiveNet",
    "Approval",
    "ApprovalAnswer",
    "ApprovalRequest",
    "Blocked",
    "BlockedCallError",
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
    "SharedUses",
    "Step",
    "SyncToolError",
    "ToggleResult",
    "ToolCallBlockedError",
    "ToolResult",
    "classify_nets",
    "composed_tool_call",
    "create_gate",
    "create_gate_manager",
    "handle_tool_call",
    "handle_tool_result",
    "make_grant",
    "replay_entries",
    "resolve_tool",
    "tool_approval_net",
]


__getattr__, __dir__ = lazy(__name__, _HOMES)
