"""What the hub refuses, as the wire says it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ..agents import AgentError
from ..history.errors import FoldError, JournalError
from ..history.queries import SessionNotFound
from ..hub import (
    BranchError,
    CallIdUsed,
    CallRefused,
    DrivenElsewhereError,
    ResumeError,
    UnknownSessionError,
)
from ..net import NetError
from .wire import Code, WireError


@contextmanager
def told_in_codes() -> Generator[None, None, None]:
    """Raises `WireError` for what a hub raises; what nobody expected passes, and is told to nobody."""
    try:
        yield
    except (UnknownSessionError, SessionNotFound) as error:
        raise WireError(Code.UNKNOWN, str(error)) from error
    except CallIdUsed as error:
        raise WireError(Code.CALL_ID_USED, str(error)) from error
    except JournalError as error:
        raise WireError(Code.UNRECORDED, str(error)) from error
    except (CallRefused, ResumeError, BranchError, DrivenElsewhereError, AgentError, FoldError) as error:
        raise WireError(Code.REFUSED, str(error)) from error
    except NetError as error:
        raise WireError(Code.PARAMS, str(error)) from error
    except LookupError as error:
        raise WireError(Code.UNKNOWN, str(error)) from error
    except ValueError as error:
        raise WireError(Code.PARAMS, str(error)) from error
