"""Errors of flows (section 11 of the specification).

Their names are the specification's, so not all of them end with `Error`. Each names the id it concerns
(P-160) and keeps its cause.
"""
# ruff: noqa: N818

from __future__ import annotations

from collections.abc import Sequence


class FlowError(Exception):
    """Base of all errors that flows raise."""

    @property
    def cause(self) -> BaseException | None:
        """The exception that this one was raised from."""
        return self.__cause__


class NotFound(FlowError, KeyError):
    """A graph has no such node or state."""

    def __init__(self, name: str, where: str) -> None:
        super().__init__(f"{where} has no node or state '{name}'")
        self.name = name

    def __str__(self) -> str:
        return str(self.args[0])


class BuildError(FlowError):
    """A node cannot be built: a type is not a model, or a function lacks required annotations."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.problems: tuple[str, ...] = (text,)


class Invalid(BuildError):
    """An invalid graph; `problems` lists all faults, in registration order."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(("Flow graph is invalid:", *(f"  {problem}" for problem in problems))))
        self.problems = tuple(problems)


class SerializeError(FlowError, ValueError):
    """`node` returned a value that JSON cannot represent."""

    def __init__(self, text: str, node: str) -> None:
        super().__init__(text)
        self.node = node


class DeserializeError(FlowError, ValueError):
    """A value does not fit the type that `node` takes or returns."""

    def __init__(self, text: str, node: str) -> None:
        super().__init__(text)
        self.node = node


class SnapLoadError(FlowError):
    """A snapshot does not fit the flow, or the history it was restored with."""


class SnapStoreError(FlowError):
    """A snapshot could not be stored; raised by stores of snapshots."""


class AgentError(FlowError):
    """An agent's model failed, or its replies led to no result."""

    def __init__(self, text: str, agent: str) -> None:
        super().__init__(text)
        self.agent = agent


class Deadlock(FlowError):
    """Nothing can run and not all `states` are terminal; the waiting ones are named (P-63)."""

    def __init__(self, states: Sequence[str]) -> None:
        waiting = ", ".join(states)
        super().__init__(f"Flow deadlock: states [{waiting}] are waiting but no join is ready")
        self.states = tuple(states)


class StateConflict(FlowError):
    """A node would overwrite the state `key`, and its value, which no node took, would be lost (P-58)."""

    def __init__(self, key: str, node: str) -> None:
        super().__init__(f"{node} would overwrite state '{key}', whose value nothing has taken yet")
        self.key = key


class LimitExceeded(FlowError):
    """`run` stopped at a limit, between two steps; call it again to continue."""

    def __init__(self, limit: str, most: float) -> None:
        super().__init__(f"The run has reached its limit: {limit} is {most:g}")
        self.limit = limit
        self.most = most


class ResumeError(FlowError):
    """Base of errors for calls of `next` and `resume` at the wrong time."""


class ResumeRequired(ResumeError):
    """`next` was called while the flow is suspended (P-73)."""

    def __init__(self, tool_id: str) -> None:
        super().__init__(
            f"Flow is suspended at '{tool_id}' — call resume() with a resumption payload, not next()"
        )
        self.tool_id = tool_id


class UnexpectedResumption(ResumeError):
    """`resume` was called while the flow is not suspended (P-74)."""

    def __init__(self, tool_id: str) -> None:
        super().__init__(f"Flow is not suspended — resume('{tool_id}') was not expected, call next()")
        self.tool_id = tool_id


class ResumeMismatchError(ResumeError):
    """`resume` named another suspension than the current one (P-75)."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"Flow is suspended at '{expected}', not at '{got}'")
        self.expected = expected
        self.got = got
