"""The tools of an agent that a gate sees, and the probe that shows that the gate is in place."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib import metadata

from ..engine.gateway.protocol.probe import PROBE
from .gate import PROBE_BLOCK


@dataclass(frozen=True, slots=True)
class Coverage:
    """Tools that pass the gate, by name, and tools that do not, with the reason.

    `unseen` also names other ways to act than the agent's tools. This object exists only if the probe was
    blocked.
    """

    framework: str
    version: str
    gated: tuple[str, ...]
    unseen: Mapping[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        lines = [f"{self.framework} {self.version}: the probe was blocked as it should be"]
        lines.append(f"  gated: {', '.join(self.gated) or 'no tools'}")
        lines += [f"  not seen: {name}: {why}" for name, why in self.unseen.items()]
        return "\n".join(lines)


class UnseenToolError(Exception):
    """Tools that would run without passing the gate; raised before anything runs."""

    def __init__(self, framework: str, unseen: Mapping[str, str]) -> None:
        names = "; ".join(f"'{name}': {why}" for name, why in unseen.items())
        super().__init__(
            f"{framework}: no gate can see these tools: {names}. Remove them, or name them in "
            f"passthrough= to run them without a gate"
        )
        self.unseen = dict(unseen)


class CoverageError(Exception):
    """The probe was not blocked by the gate: calls may run without one."""


def refuse_unseen(framework: str, unseen: Mapping[str, str], passthrough: Collection[str]) -> None:
    """Raise `UnseenToolError` for tools in `unseen` that `passthrough` does not name."""
    if isinstance(passthrough, str):
        raise TypeError(f"passthrough is a collection of names, such as ('{passthrough}',)")
    if refused := {name: why for name, why in unseen.items() if name not in passthrough}:
        raise UnseenToolError(framework, refused)


class Probe:
    """A harmless tool that counts its runs, and the check that it did not run."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self) -> str:
        """Run in place of the framework's tool."""
        self.runs += 1
        return "The probe ran"

    def check(self, answer: str) -> None:
        """Raise `CoverageError` unless the gate blocked the probe with this answer."""
        if self.runs:
            raise CoverageError(f"The tool '{PROBE}' ran, though the gate blocks it: no call is gated")
        if PROBE_BLOCK.reason not in answer:
            raise CoverageError(f"The tool '{PROBE}' did not run, but not because of the gate: {answer}")


def version_of(distribution: str) -> str:
    """Return the installed version of a framework."""
    return metadata.version(distribution)
