"""Agents: sessions, the loop between model and tools, events, runtimes and models.

Names are imported on first use, so a server of external agents loads no tool, runtime or model. Importing
this package never imports litellm; a `LitellmModel` imports it on first use.
"""

from typing import TYPE_CHECKING

from ..core.lazy_names import lazy
from .tool import tool as tool  # imported now, because the module has the same name

if TYPE_CHECKING:
    from .agent import Agent as Agent
    from .agent import AgentSettings as AgentSettings
    from .agent import SessionOverrides as SessionOverrides
    from .decisions import Allow as Allow
    from .decisions import Decision as Decision
    from .decisions import Deny as Deny
    from .decisions import Override as Override
    from .errors import AgentError as AgentError
    from .errors import AgentRuntimeError as AgentRuntimeError
    from .errors import CompactionError as CompactionError
    from .errors import CostLimitError as CostLimitError
    from .errors import DuplicateToolError as DuplicateToolError
    from .errors import EntryNotFoundError as EntryNotFoundError
    from .errors import InvalidModelUrlError as InvalidModelUrlError
    from .errors import ModelError as ModelError
    from .errors import RuntimeAbortError as RuntimeAbortError
    from .errors import RuntimeFileNotFoundError as RuntimeFileNotFoundError
    from .errors import RuntimeTimeoutError as RuntimeTimeoutError
    from .errors import SessionBusyError as SessionBusyError
    from .errors import SessionClosedError as SessionClosedError
    from .errors import SessionExistsError as SessionExistsError
    from .errors import SessionIdError as SessionIdError
    from .errors import SessionNotFoundError as SessionNotFoundError
    from .errors import ToolError as ToolError
    from .errors import ToolInputError as ToolInputError
    from .events import CompactedEvent as CompactedEvent
    from .events import CompactionFailed as CompactionFailed
    from .events import CompactionStart as CompactionStart
    from .events import ErrorEvent as ErrorEvent
    from .events import Event as Event
    from .events import EventName as EventName
    from .events import FinishReason as FinishReason
    from .events import LoopEvent as LoopEvent
    from .events import MessageEvent as MessageEvent
    from .events import ReasoningDelta as ReasoningDelta
    from .events import Status as Status
    from .events import StatusEvent as StatusEvent
    from .events import StepEvent as StepEvent
    from .events import StepStart as StepStart
    from .events import StopReason as StopReason
    from .events import TextDelta as TextDelta
    from .events import ToolCallEvent as ToolCallEvent
    from .events import ToolInputDelta as ToolInputDelta
    from .events import ToolProgress as ToolProgress
    from .events import ToolResultEvent as ToolResultEvent
    from .events import TurnEnd as TurnEnd
    from .events import TurnStart as TurnStart
    from .events import Usage as Usage
    from .hooks import FinishedCall as FinishedCall
    from .hooks import Hooks as Hooks
    from .hooks import ModelCall as ModelCall
    from .messages import AssistantMessage as AssistantMessage
    from .messages import Message as Message
    from .messages import ProposedCall as ProposedCall
    from .messages import SummaryMessage as SummaryMessage
    from .messages import ToolMessage as ToolMessage
    from .messages import UserMessage as UserMessage
    from .models.base import CallChunk as CallChunk
    from .models.base import Chunk as Chunk
    from .models.base import Finish as Finish
    from .models.base import InputChunk as InputChunk
    from .models.base import Model as Model
    from .models.base import ModelRequest as ModelRequest
    from .models.base import PricedModel as PricedModel
    from .models.base import Purpose as Purpose
    from .models.base import ReasoningChunk as ReasoningChunk
    from .models.base import TextChunk as TextChunk
    from .models.base import ToolSpec as ToolSpec
    from .models.litellm_model import LitellmModel as LitellmModel
    from .models.scripted import ERR as ERR
    from .models.scripted import C as C
    from .models.scripted import Reply as Reply
    from .models.scripted import ScriptedCall as ScriptedCall
    from .models.scripted import ScriptedModel as ScriptedModel
    from .models.scripted import T as T
    from .runtime.base import ExecResult as ExecResult
    from .runtime.base import Runtime as Runtime
    from .runtime.fake import FakeCall as FakeCall
    from .runtime.fake import FakeRuntime as FakeRuntime
    from .runtime.just_bash import JustBashRuntime as JustBashRuntime
    from .runtime.local.runtime import LocalRuntime as LocalRuntime
    from .runtime.sandbox import SandboxRuntime as SandboxRuntime
    from .runtime.vercel import VercelSandboxRuntime as VercelSandboxRuntime
    from .session.inbox import FollowUp as FollowUp
    from .session.inbox import Inbox as Inbox
    from .session.inbox import SendMode as SendMode
    from .session.listeners import EventStream as EventStream
    from .session.session import Session as Session
    from .session.subagents import SubagentSessions as SubagentSessions
    from .session.subagents import task_tool as task_tool
    from .stores.base import BranchingStore as BranchingStore
    from .stores.base import InMemorySessionStore as InMemorySessionStore
    from .stores.base import SessionStore as SessionStore
    from .stores.jsonl import JsonlSessionStore as JsonlSessionStore
    from .stores.jsonl import StoredEntry as StoredEntry
    from .tool import ModelTool as ModelTool
    from .tool import Tool as Tool
    from .tool import ToolContext as ToolContext
    from .tool import ToolOutput as ToolOutput
    from .tool import define_tool as define_tool
    from .tools.bash import BashTool as BashTool
    from .tools.bash import create_bash_tool as create_bash_tool
    from .tools.diff import Previews as Previews
    from .tools.diff import preview_of as preview_of
    from .tools.edit import EditTool as EditTool
    from .tools.glob import GlobTool as GlobTool
    from .tools.grep import GrepTool as GrepTool
    from .tools.read import ReadTool as ReadTool
    from .tools.web.fetch import WebFetchTool as WebFetchTool
    from .tools.web.fetch import create_web_fetch_tool as create_web_fetch_tool
    from .tools.write import WriteTool as WriteTool
    from .turn.abort import AbortSignal as AbortSignal
    from .turn.compaction import KEEP_LAST as KEEP_LAST
    from .turn.compaction import prompt_of as prompt_of
    from .turn.loop import SKIPPED as SKIPPED
    from .turn.loop import loop as loop
    from .turn.loop_config import LoopConfig as LoopConfig

_HOMES = {
    "AbortSignal": "turn.abort",
    "Agent": "agent",
    "AgentError": "errors",
    "AgentRuntimeError": "errors",
    "AgentSettings": "agent",
    "Allow": "decisions",
    "AssistantMessage": "messages",
    "BashTool": "tools.bash",
    "BranchingStore": "stores.base",
    "C": "models.scripted",
    "CallChunk": "models.base",
    "Chunk": "models.base",
    "CompactedEvent": "events",
    "CompactionError": "errors",
    "CompactionFailed": "events",
    "CompactionStart": "events",
    "CostLimitError": "errors",
    "Decision": "decisions",
    "Deny": "decisions",
    "DuplicateToolError": "errors",
    "ERR": "models.scripted",
    "EditTool": "tools.edit",
    "EntryNotFoundError": "errors",
    "ErrorEvent": "events",
    "Event": "events",
    "EventName": "events",
    "EventStream": "session.listeners",
    "ExecResult": "runtime.base",
    "FakeCall": "runtime.fake",
    "FakeRuntime": "runtime.fake",
    "Finish": "models.base",
    "FinishReason": "events",
    "FinishedCall": "hooks",
    "FollowUp": "session.inbox",
    "GlobTool": "tools.glob",
    "GrepTool": "tools.grep",
    "Hooks": "hooks",
    "InMemorySessionStore": "stores.base",
    "Inbox": "session.inbox",
    "InputChunk": "models.base",
    "InvalidModelUrlError": "errors",
    "JsonlSessionStore": "stores.jsonl",
    "JustBashRuntime": "runtime.just_bash",
    "KEEP_LAST": "turn.compaction",
    "LitellmModel": "models.litellm_model",
    "LocalRuntime": "runtime.local.runtime",
    "LoopConfig": "turn.loop_config",
    "LoopEvent": "events",
    "Message": "messages",
    "MessageEvent": "events",
    "Model": "models.base",
    "ModelCall": "hooks",
    "ModelError": "errors",
    "ModelRequest": "models.base",
    "ModelTool": "tool",
    "Override": "decisions",
    "Previews": "tools.diff",
    "PricedModel": "models.base",
    "ProposedCall": "messages",
    "Purpose": "models.base",
    "ReadTool": "tools.read",
    "ReasoningChunk": "models.base",
    "ReasoningDelta": "events",
    "Reply": "models.scripted",
    "Runtime": "runtime.base",
    "RuntimeAbortError": "errors",
    "RuntimeFileNotFoundError": "errors",
    "RuntimeTimeoutError": "errors",
    "SKIPPED": "turn.loop",
    "SandboxRuntime": "runtime.sandbox",
    "ScriptedCall": "models.scripted",
    "ScriptedModel": "models.scripted",
    "SendMode": "session.inbox",
    "Session": "session.session",
    "SessionBusyError": "errors",
    "SessionClosedError": "errors",
    "SessionExistsError": "errors",
    "SessionIdError": "errors",
    "SessionNotFoundError": "errors",
    "SessionOverrides": "agent",
    "SessionStore": "stores.base",
    "Status": "events",
    "StatusEvent": "events",
    "StepEvent": "events",
    "StepStart": "events",
    "StopReason": "events",
    "StoredEntry": "stores.jsonl",
    "SubagentSessions": "session.subagents",
    "SummaryMessage": "messages",
    "T": "models.scripted",
    "TextChunk": "models.base",
    "TextDelta": "events",
    "Tool": "tool",
    "ToolCallEvent": "events",
    "ToolContext": "tool",
    "ToolError": "errors",
    "ToolInputDelta": "events",
    "ToolInputError": "errors",
    "ToolMessage": "messages",
    "ToolOutput": "tool",
    "ToolProgress": "events",
    "ToolResultEvent": "events",
    "ToolSpec": "models.base",
    "TurnEnd": "events",
    "TurnStart": "events",
    "Usage": "events",
    "UserMessage": "messages",
    "VercelSandboxRuntime": "runtime.vercel",
    "WebFetchTool": "tools.web.fetch",
    "WriteTool": "tools.write",
    "create_bash_tool": "tools.bash",
    "create_web_fetch_tool": "tools.web.fetch",
    "define_tool": "tool",
    "loop": "turn.loop",
    "preview_of": "tools.diff",
    "prompt_of": "turn.compaction",
    "task_tool": "session.subagents",
}

__getattr__, __dir__ = lazy(__name__, _HOMES, "tool")
