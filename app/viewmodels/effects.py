"""Effects of a call and the commands it runs, as far as they could be found out."""

from __future__ import annotations

from ...engine.history.model.state import ApprovalState


def effects_of(request: ApprovalState) -> tuple[str, ...]:
    """The names the call goes by beside its tool's, the most specific first; without any the tool's."""
    return tuple(name for name in request.names if name != request.called) or (request.called,)


def commands_of(request: ApprovalState) -> tuple[str, ...]:
    """The simple commands of a shell command (G-51), as whoever has the call found them; see `runs`."""
    return request.runs


def marked_first(request: ApprovalState) -> int:
    """Number of first commands that a rule names, or that are not known; all where that is unknown."""
    if not request.commands:
        return 0
    return len(request.marked if len(request.runs) == request.commands else request.runs)
