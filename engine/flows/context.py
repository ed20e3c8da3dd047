"""Context of a flow's functions and tools: a directory, the commands they may run, dependencies."""

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
    """The world of one run (P-150 … P-159).

    Paths stay inside `working_dir`, by default the current directory. `commands` may be run, by their
    exact names; without any, none may. `deps` are what `require` finds by type. `http_timeout` is in
    seconds. `runtime` is what the tools of agents reach the world through: by default this machine, in
    the working directory.
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
        """Absolute path of `raw`, with every link followed; it need not exist.

        `..` is taken off first, as text (P-155). A result that is not inside the working directory, or a
        link to outside, raises `PathEscape`. Code that opens it later should not follow links: between
        this answer and that moment one may appear.
        """
        root = str(self.working_dir)
        if "\0" in raw:
            raise PathEscape(raw)
        try:
            real_root = os.path.realpath(root)
            named = os.path.normpath(os.path.join(root, raw))
            base = next((base for base in (root, real_root) if _inside(named, base)), None)
            if base is None:
                raise PathEscape(raw)
            if not os.path.exists(root):
                return Path(named)
            real = os.path.realpath(os.path.join(real_root, os.path.relpath(named, base)))
        except (OSError, ValueError) as error:
            raise ToolIoError(f"path '{raw}' cannot be looked at: {error}") from error
        if not _inside(real, real_root):
            raise PathEscape(raw)
        return Path(real)

    def check_command(self, cmd: str) -> None:
        """Raises `ForbiddenCommand` unless exactly `cmd` is allowed (P-158)."""
        if cmd not in self.commands:
            raise ForbiddenCommand(cmd)

    def require(self, dependency: type[T]) -> T:
        """The dependency of that type. Raises `MissingDependency` (P-159)."""
        try:
            return cast("T", self.deps[dependency])
        except KeyError as error:
            raise MissingDependency(dependency) from error


def _inside(path: str, root: str) -> bool:
    """Tell whether `path` is `root` or below it, component by component (P-152)."""
    return Path(path).is_relative_to(root)
