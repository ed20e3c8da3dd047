"""The commands in a shell command as a tree: a command within another runs because of the other.

The shell parser reports each command as written, including nested ones: for `sh -c "a && b"` the whole,
then `a` and `b`. A command written within another becomes its child.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...engine.history.model.state import ApprovalState


@dataclass(frozen=True, slots=True)
class CommandNode:
    """A command with its depth. `marked` means that a rule names it, or that not all of it is known."""

    text: str
    depth: int
    marked: bool


@dataclass(slots=True)
class _OuterCommand:
    text: str
    end: int = 0
    """Offset after the last nested command that was found."""


def command_tree(request: ApprovalState) -> list[CommandNode]:
    """Return the commands of a request in written order; empty if no command is nested."""
    commands = request.runs
    number = len(request.marked)
    if number and len(commands) == request.commands:
        others = iter(commands[number:])
        first = dict(zip(request.marked, commands[:number], strict=False))
        commands = tuple(first[at] if at in first else next(others) for at in range(len(commands)))
    marked = set(request.marked) if len(commands) == request.commands else set[int]()
    depths = _depths(commands)
    if not any(depths):
        return []
    return [
        CommandNode(text, depth, at in marked)
        for at, (text, depth) in enumerate(zip(commands, depths, strict=True))
    ]


def _depths(commands: Sequence[str]) -> list[int]:
    """Return for each command the number of commands that contain it."""
    above: list[_OuterCommand] = []
    depths: list[int] = []
    for command in commands:
        while above:
            at = above[-1].text.find(command, above[-1].end)
            if at >= 0 and len(command) < len(above[-1].text):
                above[-1].end = at + len(command)
                break
            above.pop()
        depths.append(len(above))
        above.append(_OuterCommand(command))
    return depths
