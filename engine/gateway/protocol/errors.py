"""Error codes of the wire for errors of the hub."""

from __future__ import annotations

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError

from ...agents import AgentError
from ...history.errors import FoldError, JournalError, SessionDiverged
from ...history.journal.reader import SessionNotFound
from ...hub.hub import BranchError, CallIdUsed, CallRefused, ResumeError
from .framing import Code, WireError


def wire_error(error: BaseException) -> WireError | None:
    """Wire error for a known error of the hub; `None` for others, which are not sent to clients."""
    match error:
        case WireError():
            return error
        case SessionNotFound():
            matches: dict[str, JsonValue] = {
                "wanted": error.wanted,
                "candidates": list(error.candidates),
            }
            return WireError(Code.NOT_FOUND, str(error), matches)
        case CallIdUsed():
            return WireError(Code.CALL_ID_USED, str(error))
        case SessionDiverged():
            # Nothing helps but an operator's acceptance: other sessions of the client go on.
            return WireError(Code.REFUSED, str(error))
        case JournalError():
            return WireError(Code.UNRECORDED, str(error))
        case ResumeError():
            data: dict[str, JsonValue] = {
                "why": "branch" if isinstance(error, BranchError) else "resume",
                "missing": list(error.missing),
                "changed": list(error.changed),
                "forgetful": list(error.forgetful),
                "nearest": list(error.nearest) if isinstance(error, BranchError) else [],
            }
            return WireError(Code.REFUSED, str(error), data)
        case AgentError():
            return WireError(Code.REFUSED, str(error), {"why": "agent"})
        case CallRefused() | FoldError():
            return WireError(Code.REFUSED, str(error))
        case PydanticSerializationError():
            return None
        case LookupError():
            return WireError(Code.UNKNOWN, str(error))
        case ValueError():
            return WireError(Code.PARAMS, str(error))
        case _:
            return None
