"""Errors of a hub about sessions and the calls of external agents."""

from __future__ import annotations

from ..agents import AgentError
from ..core.sanitize import visible


class UnknownSessionError(LookupError):
    """No live session has this id."""


class ExternalSessionError(AgentError):
    """A request to the loop of a session whose loop runs in another program."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"Session '{visible(session_id)}' cannot receive this: it is an external agent's. Here "
            "its calls are decided, its rules switched, and waiting requests can be denied. Send it "
            "messages where it runs."
        )


class CallRefused(Exception):  # noqa: N818 - says what happened, as `SessionNotFound` does
    """A request about one call of an external agent is rejected; the call must not run because of it."""


class CallIdUsed(CallRefused):
    """A call came under the id of another call: an id permanently names one tool and one input."""

    def __init__(self, session_id: str, call_id: str) -> None:
        super().__init__(
            f"Session '{visible(session_id)}' has made another call '{visible(call_id)}', with another "
            "tool or input. Give this call its own id."
        )


class CallWithdrawn(CallRefused):
    """A call was withdrawn before it was decided; if it is made again, it is decided then."""

    def __init__(self, session_id: str, call_id: str, reason: str) -> None:
        super().__init__(
            f"Call '{visible(call_id)}' of session '{visible(session_id)}' was not decided and must not "
            f"run: {visible(reason)}."
        )


class UnknownCallError(CallRefused, LookupError):
    """The session has made no call with this id."""

    def __init__(self, session_id: str, call_id: str) -> None:
        super().__init__(f"Session '{visible(session_id)}' has made no call '{visible(call_id)}'")


class ResultRefusedError(CallRefused):
    """A result for a call that was not allowed, or that has a different result."""

    def __init__(self, session_id: str, call_id: str, reason: str) -> None:
        super().__init__(
            f"Result of call '{visible(call_id)}' of session '{visible(session_id)}' refused: {reason}."
        )
