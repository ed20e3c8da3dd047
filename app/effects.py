"""What a call really does, as far as it could be found out: its effects, and the commands it runs."""

from __future__ import annotations

from ..engine.history.state import ApprovalState

LONGEST = 4_000
"""Characters of a shell command that is taken apart here; the whole of it is shown in any case."""
SHELL_FIELDS = ("command", "cmd", "script")


def effects_of(request: ApprovalState) -> tuple[str, ...]:
    """The names the call goes by beside its tool's, the most specific first; without any the tool's."""
    return tuple(name for name in request.names if name != request.called) or (request.called,)


def commands_of(request: ApprovalState) -> tuple[str, ...]:
    """The simple commands of a shell command (G-51), each as it is written.

    None where that says no more than the input: no rule looks into it, or it is a single command.
    """
    if len(request.names) < 2 and request.uninspectable is None:
        return ()
    for field in SHELL_FIELDS:
        value = request.input.get(field)
        if isinstance(value, str) and len(value) <= LONGEST:
            # The gate has read it just now, and the reader remembers.
            from ..rules.shell import read

            found = tuple(command.source for command in read(value).commands)
            return () if [each.strip() for each in found] == [value.strip()] else found
    return ()
