"""Agents: sessions, the loop between model and tools, events, runtimes and models.

Importing this never imports litellm; a `LitellmModel` does, when it is first used.
"""

from .abort import AbortSignal
from .agent import Agent
from .decisions import Allow, Decision, Deny, Override
from .errors import (
    AgentError,
    AgentRuntimeError,
    DuplicateToolError,
    InvalidModelUrlError,
    ModelError,
    RuntimeAbortError,
    RuntimeTimeoutError,
    SessionClosedError,
    SessionExistsError,
    SessionNotFoundError,
    ToolError,
    ToolInputError,
)
from .events import (
    ErrorEvent,
    Event,
    EventName,
    FinishReason,
    LoopEvent,
    MessageEvent,
    StepEvent,
    StopReason,
    TextDelta,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
    TurnEnd,
    Usage,
)
from .inbox import FollowUp, Inbox, SendMode
from .listeners import EventStream
from .litellm_model import LitellmModel
from .loop import SKIPPED, LoopConfig, loop
from .messages import AssistantMessage, Message, ProposedCall, ToolMessage, UserMessage
from .model import CallChunk, Chunk, Finish, Model, ModelRequest, TextChunk, ToolSpec
from .runtime import ExecResult, LocalRuntime, Runtime
from .scripted import ERR, C, Reply, ScriptedCall, ScriptedModel, T
from .session import Session
from .store import InMemorySessionStore, SessionStore
from .tool import ModelTool, Tool, ToolContext, ToolOutput, define_tool, tool
from .tools import BashTool, WebFetchTool, create_web_fetch_tool

__all__ = [
    "ERR",
    "SKIPPED",
    "AbortSignal",
    "Agent",
    "AgentError",
    "AgentRuntimeError",
    "Allow",
    "AssistantMessage",
    "BashTool",
    "C",
    "CallChunk",
    "Chunk",
    "Decision",
    "Deny",
    "DuplicateToolError",
    "ErrorEvent",
    "Event",
    "EventName",
    "EventStream",
    "ExecResult",
    "Finish",
    "FinishReason",
    "FollowUp",
    "InMemorySessionStore",
    "Inbox",
    "InvalidModelUrlError",
    "LitellmModel",
    "LocalRuntime",
    "LoopConfig",
    "LoopEvent",
    "Message",
    "MessageEvent",
    "Model",
    "ModelError",
    "ModelRequest",
    "ModelTool",
    "Override",
    "ProposedCall",
    "Reply",
    "Runtime",
    "RuntimeAbortError",
    "RuntimeTimeoutError",
    "ScriptedCall",
    "ScriptedModel",
    "SendMode",
    "Session",
    "SessionClosedError",
    "SessionExistsError",
    "SessionNotFoundError",
    "SessionStore",
    "StepEvent",
    "StopReason",
    "T",
    "TextChunk",
    "TextDelta",
    "Tool",
    "ToolCallEvent",
    "ToolContext",
    "ToolError",
    "ToolInputError",
    "ToolMessage",
    "ToolOutput",
    "ToolProgress",
    "ToolResultEvent",
    "ToolSpec",
    "TurnEnd",
    "Usage",
    "UserMessage",
    "WebFetchTool",
    "create_web_fetch_tool",
    "define_tool",
    "loop",
    "tool",
]
