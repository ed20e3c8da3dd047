"""Trace of a run while it happens, for display and measurement (section 12).

Names, times and numbers, and no value of any state. An observer that raises cannot stop the run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from ..agents.events import Usage

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StepBegan:
    """The node that takes the states `node` is at work."""

    node: str
    kind: str


@dataclass(frozen=True, slots=True)
class StepEnded:
    """The step is done: `live` are the states there are now, `waits` is what has to be answered next."""

    node: str
    live: tuple[str, ...]
    waits: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class StepFailed:
    """The step came to nothing, and everything is as it was before."""

    node: str
    error: BaseException
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """A model has answered `agent` in its conversation `session`; without `usage` it has failed."""

    agent: str
    session: str
    usage: Usage | None
    seconds: float


@dataclass(frozen=True, slots=True)
class ToolRan:
    """A tool of `agent` has run; `asks` says that it waits for an answer."""

    agent: str
    tool: str
    call_id: str
    is_error: bool
    asks: bool
    seconds: float


Traced: TypeAlias = StepBegan | StepEnded | StepFailed | ModelCalled | ToolRan
Trace: TypeAlias = Callable[[Traced], None]


def tell(trace: Trace | None, event: Traced) -> None:
    """Pass an event to the trace, if there is one. An error that it raises is logged."""
    if trace is None:
        return
    try:
        trace(event)
    except Exception:
        log.exception("Whoever traces the run failed at %s", type(event).__name__)


@contextmanager
def step(trace: Trace, node: str, kind: str) -> Generator[Callable[[], float]]:
    """Report that a step begins, and that it failed where it does; gives the seconds since."""
    began = time.perf_counter()
    tell(trace, StepBegan(node, kind))
    try:
        yield lambda: time.perf_counter() - began
    except BaseException as error:
        tell(trace, StepFailed(node, error, time.perf_counter() - began))
        raise
