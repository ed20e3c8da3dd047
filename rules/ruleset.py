"""Compiled rule set: its nets, the names of calls, and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..engine.net.net import CallNames, SkillNet, ToolCall
from .errors.problems import Problem
from .naming import CallNamer, Inspection

PREFIX = "lines:"
"""Prefix of the key of a text that contains values for a `let` instead of rules."""


def rules_files(sources: Iterable[str]) -> list[str]:
    """Keys of a set's texts that are rules files."""
    return [file for file in sources if not file.startswith(PREFIX)]


def paths_of(sources: Iterable[str]) -> list[str]:
    """Files of a set's texts, including those of values."""
    return [file.removeprefix(PREFIX) for file in sources]


@dataclass(frozen=True, slots=True)
class Verification:
    """Number of states that a net can reach."""

    name: str
    reachable_states: int


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Compiled rules: `nets` in file order, one `verification` each, and `warnings`.

    `call_names` is the function that all nets share, or `None` if every call has only its own name.
    `sources` has the texts by file as the caller named it; see `PREFIX` for those of values.
    """

    nets: tuple[SkillNet, ...]
    verification: tuple[Verification, ...]
    warnings: tuple[Problem, ...]
    sources: Mapping[str, str]
    call_names: CallNames | None = None

    def __iter__(self) -> Iterator[SkillNet]:
        return iter(self.nets)

    def __len__(self) -> int:
        return len(self.nets)

    @property
    def paths(self) -> list[str]:
        """Files of the set, including those of values."""
        return paths_of(self.sources)

    @property
    def registry(self) -> dict[str, SkillNet]:
        """Nets by key: the name, and for the second net of a name `name#2` (G-43).

        A rule cannot contain `#`, so no net has such a name itself.
        """
        times: dict[str, int] = {}
        registry: dict[str, SkillNet] = {}
        for net in self.nets:
            times[net.name] = count = times.get(net.name, 0) + 1
            registry[net.name if count == 1 else f"{net.name}#{count}"] = net
        return registry

    def resolve(self, call: ToolCall) -> tuple[str, ...]:
        """All names of `call`, the most specific first (G-50)."""
        return (call.tool_name,) if self.call_names is None else tuple(self.call_names(call))

    def inspect(self, call: ToolCall) -> Inspection:
        """Inspect `call`: its names, what gave it each of them, and whether a shell command in it is
        uninspectable (G-51).
        """
        if isinstance(self.call_names, CallNamer):
            return self.call_names.inspect(call)
        return Inspection(self.resolve(call))
