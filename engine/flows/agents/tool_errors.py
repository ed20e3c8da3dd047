"""Errors that a tool of a flow may raise. The model reads all but one as the call's result (P-137).

They derive from the agents' own `ToolError`, so that the same tools can be used in sessions.
"""
# ruff: noqa: N818 - the names are the specification's

from __future__ import annotations

from pydantic import JsonValue

from ...agents.errors import ToolError as AgentsToolError
from ...agents.errors import ToolInputError
from ..run.values import own_json


class ToolError(AgentsToolError):
    """Base of tools' errors; `kind` is its name in the record."""

    kind = "failed"

    @staticmethod
    def suspend(value: object) -> SuspendSignal | ToolSerializeError:
        """Return the signal to raise in order to wait: `raise ToolError.suspend({"reason": …})` (P-80).

        `value` is shown to the operator who answers; the answer becomes the tool's result. Returns a
        `ToolSerializeError` for a value that JSON cannot represent.
        """
        try:
            return SuspendSignal(own_json(value))
        except ValueError as error:
            problem = ToolSerializeError(f"the value to suspend with is not JSON: {error}")
            problem.__cause__ = error
            return problem


class SuspendSignal(Exception):
    """A tool must wait. Not a `ToolError`, so that `except ToolError` in a tool does not swallow it.

    `except Exception` does swallow it: re-raise it there. It never leaves `next` or `resume`.
    """

    def __init__(self, value: JsonValue) -> None:
        super().__init__("only tools of agent nodes can wait for an answer")
        self.value = value


class ToolIoError(ToolError, OSError):
    """A file or a device failed."""

    kind = "io"


class ToolSerializeError(ToolError):
    """A value of a tool that JSON cannot represent."""

    kind = "serialize"


class ToolDeserializeError(ToolError, ToolInputError):
    """A call's arguments do not fit the tool."""

    kind = "arguments"


class UnknownTool(ToolError):
    """The agent has no such tool."""

    kind = "unknown_tool"


class PathEscape(ToolError):
    """A path leads out of the working directory (P-151)."""

    kind = "path_escape"

    def __init__(self, path: str) -> None:
        super().__init__(f"path '{path}' escapes the working directory")
        self.path = path


class ForbiddenCommand(ToolError):
    """A command is not in the allowed list (P-158)."""

    kind = "forbidden_command"

    def __init__(self, command: str) -> None:
        super().__init__(f"command '{command}' is not in the allowed list")
        self.command = command


class ToolHttpError(ToolError):
    """An HTTP request failed."""

    kind = "http"


class MissingDependency(ToolError):
    """The context has no dependency of that type (P-159)."""

    kind = "missing_dependency"

    def __init__(self, dependency: type) -> None:
        super().__init__(
            f"the context has no {dependency.__name__}; "
            "give it in the flow's deps(), or with Context(deps=…)"
        )
        self.dependency = dependency


class ToolFailure(ToolError):
    """Any other failure; see its cause."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.__cause__ = cause


class ToolFatal(ToolError):
    """A failure that ends the step with an `AgentError` instead of going to the model."""

    kind = "fatal"
