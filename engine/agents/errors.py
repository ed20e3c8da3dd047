"""Errors of agents, each with a class of its own."""

from __future__ import annotations


class AgentError(Exception):
    """Base of everything the agents raise."""


class DuplicateToolError(AgentError, ValueError):
    """Two tools of one agent have the same name (A-61)."""


class SessionExistsError(AgentError):
    """The store already holds a conversation under this id (A-4)."""


class SessionNotFoundError(AgentError, LookupError):
    """The store holds no conversation under this id (A-5)."""


class SessionIdError(AgentError, ValueError):
    """A store keeps no session under such an id; the message says why."""


class EntryNotFoundError(AgentError, LookupError):
    """A stored session has no such entry to continue after."""


class SessionClosedError(AgentError):
    """The session was closed; open a new one to continue."""


class SessionBusyError(AgentError):
    """The session works; what was asked of it has to wait until it rests."""


class CompactionError(AgentError):
    """A conversation was not compacted: it is as it was, and the message says why."""


class ModelError(AgentError):
    """A model cannot be called, or its reply makes no sense."""


class CostLimitError(AgentError):
    """A session may call no model any more: it has cost what it may, or its limit could not be kept."""


class InvalidModelUrlError(ModelError, ValueError):
    """A model's name or URL cannot be read; the message says what is wrong with it."""


class ToolError(AgentError):
    """A tool cannot do what it was asked; the message goes to the model."""


class ToolInputError(ToolError, ValueError):
    """A call's arguments do not fit the tool's parameters (A-128)."""


class AgentRuntimeError(AgentError):
    """A runtime could not run a command."""


class RuntimeTimeoutError(AgentRuntimeError, TimeoutError):
    """A command took longer than it was given (A-104)."""

    def __init__(self, timeout_secs: float) -> None:
        super().__init__(f"Command timed out after {timeout_secs:g}s")
        self.timeout_secs = timeout_secs


class RuntimeAbortError(AgentRuntimeError):
    """A command was stopped because its run was aborted (A-105)."""

    def __init__(self) -> None:
        super().__init__(OPERATION_ABORTED)


class RuntimeFileNotFoundError(AgentRuntimeError, FileNotFoundError):
    """A runtime that is not this machine holds no such file (A-106, A-108)."""

    def __init__(self, path: str) -> None:
        super().__init__(f"File not found: {path}")


OPERATION_ABORTED = "The operation was aborted"


def describe(error: BaseException) -> str:
    """An exception as a sentence: its own text, or its class when it has none."""
    return str(error) or type(error).__name__
