"""Errors of agents."""

from __future__ import annotations


class AgentError(Exception):
    """Base of all errors that agents raise."""


class DuplicateToolError(AgentError, ValueError):
    """Two tools of one agent have the same name (A-61)."""


class SessionExistsError(AgentError):
    """The store already has a conversation with this id (A-4)."""


class SessionNotFoundError(AgentError, LookupError):
    """The store has no conversation with this id (A-5)."""


class SessionIdError(AgentError, ValueError):
    """A store cannot use such a session id; the message says why."""


class EntryNotFoundError(AgentError, LookupError):
    """A stored session has no such entry to continue after."""


class SessionClosedError(AgentError):
    """The session is closed; open a new one to continue."""


class SessionBusyError(AgentError):
    """The session is busy; the request must wait until it is idle."""


class CompactionError(AgentError):
    """A conversation was not compacted and is unchanged; the message says why."""


class ModelError(AgentError):
    """A model cannot be called, or its reply is invalid."""


class CostLimitError(AgentError):
    """A session may call no further model: its cost limit is reached, or could not be enforced."""


class InvalidModelUrlError(ModelError, ValueError):
    """A model's name or URL is invalid; the message says why."""


class ToolError(AgentError):
    """A tool cannot do what the call requests; the message goes to the model."""


class ToolInputError(ToolError, ValueError):
    """A call's arguments do not fit the tool's parameters (A-128)."""


class AgentRuntimeError(AgentError):
    """A runtime could not run a command."""


class RuntimeTimeoutError(AgentRuntimeError, TimeoutError):
    """A command exceeded its timeout (A-104)."""

    def __init__(self, timeout_secs: float) -> None:
        super().__init__(f"Command timed out after {timeout_secs:g}s")
        self.timeout_secs = timeout_secs


class RuntimeAbortError(AgentRuntimeError):
    """A command was stopped because its run was aborted (A-105)."""

    def __init__(self) -> None:
        super().__init__(OPERATION_ABORTED)


class RuntimeFileNotFoundError(AgentRuntimeError, FileNotFoundError):
    """A runtime other than this machine has no such file (A-106, A-108)."""

    def __init__(self, path: str) -> None:
        super().__init__(f"File not found: {path}")


OPERATION_ABORTED = "The operation was aborted"


def describe(error: BaseException) -> str:
    """Describe an exception: by its own text, or by its class if it has none."""
    return str(error) or type(error).__name__
