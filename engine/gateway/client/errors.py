"""A server's refusals as the errors that a local hub raises, so that screens handle both alike.

Each is also a `RequestFailedError`, for callers that handle only errors of the connection.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from ...agents import AgentError
from ...history.errors import JournalError
from ...history.journal.reader import SessionNotFound
from ...hub.hub import BranchError, ResumeError, UnknownSessionError
from ..protocol.framing import Code
from .connection import RequestFailedError


class _UnknownError(RequestFailedError, UnknownSessionError):
    pass


class _UnrecordedError(RequestFailedError, JournalError):
    pass


class _BadParamsError(RequestFailedError, ValueError):
    pass


class _AgentError(RequestFailedError, AgentError):
    pass


class _NotFoundError(RequestFailedError, SessionNotFound):
    def __init__(self, error: RequestFailedError) -> None:
        RequestFailedError.__init__(self, error.code, str(error), error.data)
        session_prefix = error.data.get("wanted")
        self.wanted = session_prefix if isinstance(session_prefix, str) else ""
        self.candidates = _texts(error.data, "candidates")


class _ResumeError(RequestFailedError, ResumeError):
    def __init__(self, error: RequestFailedError) -> None:
        RequestFailedError.__init__(self, error.code, str(error), error.data)
        self.missing = _texts(error.data, "missing")
        self.changed = _texts(error.data, "changed")
        self.forgetful = _texts(error.data, "forgetful")


class _BranchError(_ResumeError, BranchError):
    def __init__(self, error: RequestFailedError) -> None:
        _ResumeError.__init__(self, error)
        nearest = error.data.get("nearest")
        seqs = nearest if isinstance(nearest, list) else []
        self.nearest = tuple(each for each in seqs if isinstance(each, int))


def as_hub_error(error: RequestFailedError) -> RequestFailedError:
    """Convert a refusal to the error that a local hub would raise."""
    match error.code, error.data.get("why"):
        case Code.UNKNOWN, _:
            return _UnknownError(error.code, str(error))
        case Code.NOT_FOUND, _:
            return _NotFoundError(error)
        case Code.UNRECORDED, _:
            return _UnrecordedError(error.code, str(error))
        case Code.PARAMS, _:
            return _BadParamsError(error.code, str(error))
        case Code.REFUSED, "agent":
            return _AgentError(error.code, str(error))
        case Code.REFUSED, "branch":
            return _BranchError(error)
        case Code.REFUSED, "resume":
            return _ResumeError(error)
        case _:
            return error


def _texts(data: Mapping[str, JsonValue], name: str) -> tuple[str, ...]:
    texts = data.get(name)
    return tuple(each for each in texts if isinstance(each, str)) if isinstance(texts, list) else ()
