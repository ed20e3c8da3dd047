"""Codes of the wire for errors of the hub."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from pydantic import JsonValue

from ...agents import AgentError
from ...history.errors import FoldError, JournalError
from ...history.journal.reader import SessionNotFound
from ...hub.hub import BranchError, CallIdUsed, CallRefused, ResumeError, UnknownSessionError
from ...net.net import NetError
from .framing import Code, WireError


@contextmanager
def as_wire_errors() -> Generator[None, None, None]:
    """Raise `WireError` for known errors of the hub; unexpected ones pass, and are sent to no client."""
    try:
        yield
    except SessionNotFound as error:
        data: dict[str, JsonValue] = {
            "wanted": error.wanted,
            "candidates": list(error.candidates),
        }
        raise WireError(Code.NOT_FOUND, str(error), data) from error
    except UnknownSessionError as error:
        raise WireError(Code.UNKNOWN, str(error)) from error
    except CallIdUsed as error:
        raise WireError(Code.CALL_ID_USED, str(error)) from error
    except JournalError as error:
        raise WireError(Code.UNRECORDED, str(error)) from error
    except ResumeError as error:
        said: dict[str, JsonValue] = {
            "why": "branch" if isinstance(error, BranchError) else "resume",
            "missing": list(error.missing),
            "changed": list(error.changed),
            "forgetful": list(error.forgetful),
            "nearest": list(error.nearest) if isinstance(error, BranchError) else [],
        }
        raise WireError(Code.REFUSED, str(error), said) from error
    except AgentError as error:
        raise WireError(Code.REFUSED, str(error), {"why": "agent"}) from error
    except (CallRefused, FoldError) as error:
        raise WireError(Code.REFUSED, str(error)) from error
    except NetError as error:
        raise WireError(Code.PARAMS, str(error)) from error
    except LookupError as error:
        raise WireError(Code.UNKNOWN, str(error)) from error
    except ValueError as error:
        raise WireError(Code.PARAMS, str(error)) from error
