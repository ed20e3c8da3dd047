"""Effects of a call and the commands it runs, as far as they could be found out."""

from __future__ import annotations

from ...engine.history.model.state import ApprovalState


def effects_of(request: ApprovalState) -> tuple[str, ...]:
    """The call's effects other than its tool's name, the most specific first; if none, that name."""
    return tuple(name for name in request.names if name != request.called) or (request.called,)


def commands_of(request: ApprovalState) -> tuple[str, ...]:
    """The simple commands of a shell command (G-51), as found by the call's hub; see `runs`."""
    return request.runs


def marked_first(request: ApprovalState) -> int:
    """Number of first commands that a rule names, or that are not known; all where that is unknown."""
    if not request.commands:
        return 0
    return len(request.marked if len(request.runs) == request.commands else request.runs)
