"""Live trace of a run, for display and measurement (section 12).

It contains names, times and numbers, but no value of a state. An observer that raises cannot stop the
run.
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
    """The node that takes the states `node` started."""

    node: str
    kind: str


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step ended: `live` are the live states now, `waits` is the suspension to answer next, if any."""

    node: str
    live: tuple[str, ...]
    waits: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class StepFailed:
    """A step failed, and left everything unchanged."""

    node: str
    error: BaseException
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """A model answered `agent` in its conversation `session`; without `usage` it failed."""

    agent: str
    session: str
    usage: Usage | None
    seconds: float


@dataclass(frozen=True, slots=True)
class ToolRan:
    """A tool of `agent` ran; `asks` is true if it waits for an answer."""

    agent: str
    tool: str
    call_id: str
    is_error: bool
    asks: bool
    seconds: float


Traced: TypeAlias = StepBegan | StepEnded | StepFailed | ModelCalled | ToolRan
Trace: TypeAlias = Callable[[Traced], None]


def tell(trace: Trace | None, event: Traced) -> None:
    """Send an event to the trace, if there is one. An error that it raises is logged."""
    if trace is None:
        return
    try:
        trace(event)
    except Exception:
        log.exception("The trace of the run failed at %s", type(event).__name__)


@contextmanager
def step(trace: Trace, node: str, kind: str) -> Generator[Callable[[], float]]:
    """Report a step's start, and its failure if it fails; yield a function for the elapsed seconds."""
    started_at = time.perf_counter()
    tell(trace, StepBegan(node, kind))
    try:
        yield lambda: time.perf_counter() - started_at
    except BaseException as error:
        tell(trace, StepFailed(node, error, time.perf_counter() - started_at))
        raise
