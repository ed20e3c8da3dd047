"""Context of a flow's functions and tools: a directory, allowed commands, and dependencies."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from ..agents.runtime.base import Runtime
from .agents.tool_errors import ForbiddenCommand, MissingDependency, PathEscape, ToolIoError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Context:
    """Environment of one run (P-150 … P-159).

    Paths stay inside `working_dir`, by default the current directory. Only `commands` may be run, by
    their exact names; by default none. `deps` are the dependencies that `require` finds by type.
    `http_timeout` is in seconds. Agents' tools act through `runtime`: by default on this machine, in the
    working directory.
    """

    working_dir: Path = field(default_factory=Path.cwd)
    commands: Collection[str] = ()
    deps: Mapping[type, object] = field(default_factory=dict[type, object])
    http_timeout: float = 30
    runtime: Runtime | None = None

    def __post_init__(self) -> None:
        if isinstance(self.commands, str):
            raise TypeError(f"commands must be a list of names, found the text {self.commands!r}")
        object.__setattr__(self, "commands", frozenset(self.commands))
        object.__setattr__(self, "working_dir", Path(os.path.abspath(self.working_dir)))

    def resolve(self, raw: str) -> Path:
        """Return the absolute path of `raw`, with every link followed; the file need not exist.

        `..` is first removed textually (P-155). A result outside the working directory, or a link leading
        outside, raises `PathEscape`. Code that opens the path later should not follow links, because a
        link may be created in between.
        """
        root = str(self.working_dir)
        if "\0" in raw:
            raise PathEscape(raw)
        try:
            real_root = os.path.realpath(root)
            textual_path = os.path.normpath(os.path.join(root, raw))
            base = next((base for base in (root, real_root) if _inside(textual_path, base)), None)
            if base is None:
                raise PathEscape(raw)
            if not os.path.exists(root):
                return Path(textual_path)
            real = os.path.realpath(os.path.join(real_root, os.path.relpath(textual_path, base)))
        except (OSError, ValueError) as error:
            raise ToolIoError(f"path '{raw}' cannot be examined: {error}") from error
        if not _inside(real, real_root):
            raise PathEscape(raw)
        return Path(real)

    def check_command(self, cmd: str) -> None:
        """Raise `ForbiddenCommand` unless exactly `cmd` is allowed (P-158)."""
        if cmd not in self.commands:
            raise ForbiddenCommand(cmd)

    def require(self, dependency: type[T]) -> T:
        """Return the dependency of that type. Raises `MissingDependency` (P-159)."""
        try:
            return cast("T", self.deps[dependency])
        except KeyError as error:
            raise MissingDependency(dependency) from error


def _inside(path: str, root: str) -> bool:
    """Return whether `path` is `root` or below it, component by component (P-152)."""
    return Path(path).is_relative_to(root)
