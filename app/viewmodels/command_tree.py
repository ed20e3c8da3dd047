"""The commands in a shell command as a tree: what stands within another runs because of that.

The shell reading gives each command as it is written, those within others, too: of `sh -c "a && b"` the
whole, then `a` and `b`. A command that is written within another one is below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...engine.history.model.state import ApprovalState


@dataclass(frozen=True, slots=True)
class CommandNode:
    """A command with its depth; `marked` says that a rule names it, or that not all of it is known."""

    text: str
    depth: int
    marked: bool


@dataclass(slots=True)
class _OuterCommand:
    text: str
    end: int = 0
    """Position after the last command that was found within it."""


def command_tree(request: ApprovalState) -> list[CommandNode]:
    """The commands of a request in the order they are written in; empty where none is within another."""
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
    """For each command the number of others that it is written within."""
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
