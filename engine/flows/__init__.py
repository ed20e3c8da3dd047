"""Flows: typed graphs of work, choices, forks, joins and people, run one step at a time."""

from .agents.client import Client, ClientFactory, ClientOptions, ClientReply, ModelClient, ModelClients
from .agents.gate import Approve, FlowGate, Question, as_flow_gate
from .agents.node import AgentConfig, AgentNode
from .agents.tool_errors import (
    ForbiddenCommand,
    MissingDependency,
    PathEscape,
    SuspendSignal,
    ToolDeserializeError,
    ToolError,
    ToolFailure,
    ToolFatal,
    ToolHttpError,
    ToolIoError,
    ToolSerializeError,
    UnknownTool,
)
from .build.builder import FlowBuilder
from .build.graph import FlowGraph, Graph
from .build.model_check import Finding
from .build.naming import node_id
from .context import Context
from .errors import (
    AgentError,
    BuildError,
    Deadlock,
    DeserializeError,
    FlowError,
    Invalid,
    LimitExceeded,
    NotFound,
    ResumeError,
    ResumeMismatchError,
    ResumeRequired,
    SerializeError,
    SnapLoadError,
    SnapStoreError,
    StateConflict,
    UnexpectedResumption,
)
from .flow import Flow
from .run.human import HumanAnswer, HumanInput
from .run.runtime import FlowRuntime, RunLimits
from .run.scheduler import Continue, Done, RunOut, Suspend, Suspended
from .run.snapshot import FlowSnapshot, History, HistoryEntry
from .trace import ModelCalled, StepBegan, StepEnded, StepFailed, ToolRan, Trace, Traced

__all__ = [
    "AgentConfig",
    "AgentError",
    "AgentNode",
    "Approve",
    "BuildError",
    "Client",
    "ClientFactory",
    "ClientOptions",
    "ClientReply",
    "Context",
    "Continue",
    "Deadlock",
    "DeserializeError",
    "Done",
    "Finding",
    "Flow",
    "FlowBuilder",
    "FlowError",
    "FlowGate",
    "FlowGraph",
    "FlowRuntime",
    "FlowSnapshot",
    "ForbiddenCommand",
    "Graph",
    "History",
    "HistoryEntry",
    "HumanAnswer",
    "HumanInput",
    "Invalid",
    "LimitExceeded",
    "MissingDependency",
    "ModelCalled",
    "ModelClient",
    "ModelClients",
    "NotFound",
    "PathEscape",
    "Question",
    "ResumeError",
    "ResumeMismatchError",
    "ResumeRequired",
    "RunLimits",
    "RunOut",
    "SerializeError",
    "SnapLoadError",
    "SnapStoreError",
    "StateConflict",
    "StepBegan",
    "StepEnded",
    "StepFailed",
    "Suspend",
    "SuspendSignal",
    "Suspended",
    "ToolDeserializeError",
    "ToolError",
    "ToolFailure",
    "ToolFatal",
    "ToolHttpError",
    "ToolIoError",
    "ToolRan",
    "ToolSerializeError",
    "Trace",
    "Traced",
    "UnexpectedResumption",
    "UnknownTool",
    "as_flow_gate",
    "node_id",
]
