"""Backtests and other long jobs for one console, delivered part by part."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TypeAlias

from ...backtest.answers import Backtested, Judged, Narrowed, Statistics, Suggested
from ..protocol.console_methods import Job, JobPart, JobStarted
from ..protocol.framing import Code, Nothing, WireError
from .limits import TokenLoad

MOST_JOBS = 4
"""Maximum number of jobs of one connection; starting another one ends the oldest."""

Parts: TypeAlias = (
    AsyncGenerator[Backtested, None]
    | AsyncGenerator[Judged, None]
    | AsyncGenerator[Statistics, None]
    | AsyncGenerator[Suggested, None]
    | AsyncGenerator[Narrowed, None]
)


class Jobs:
    """Long jobs; `most` limits the jobs counted in `usage`: those of a token on all connections."""

    def __init__(self, usage: TokenLoad, most: int) -> None:
        self._usage = usage
        self._limit = most
        self._jobs: dict[int, Parts] = {}
        self._awaited: set[int] = set()
        self._number = 0

    async def close(self) -> None:
        """End all jobs: the console has disconnected."""
        for number in list(self._jobs):
            await self._drop(number)

    async def start(self, parts: Parts) -> JobStarted:
        """Add a job; its work starts with the request for its first part."""
        while len(self._jobs) >= MOST_JOBS:
            await self._drop(next(iter(self._jobs)))
        if self._usage.jobs >= self._limit:
            raise WireError(
                Code.LIMIT,
                f"{self._limit} backtests, replays and counts are running for this token on all its "
                "connections, which is the limit: wait until one ends, or close the console that "
                "started it",
                {"limit": self._limit},
            )
        self._usage.jobs += 1
        self._number += 1
        self._jobs[self._number] = parts
        return JobStarted(job=self._number)

    async def next(self, params: Job) -> JobPart:
        """Wait for the next part of a job."""
        parts = self._jobs.get(params.job)
        if parts is None:
            raise WireError(Code.UNKNOWN, f"job {params.job} is no longer running here")
        if params.job in self._awaited:
            raise WireError(Code.REFUSED, f"the next part of job {params.job} is already requested")
        self._awaited.add(params.job)
        try:
            part = await anext(parts, None)
        except Exception:
            self._pop(params.job)
            raise
        finally:
            self._awaited.discard(params.job)
        if part is None:
            self._pop(params.job)
        return JobPart.of(part)

    async def end(self, params: Job) -> Nothing:
        """End a job, finished or not."""
        await self._drop(params.job)
        return Nothing()

    async def _drop(self, number: int) -> None:
        parts = self._pop(number)
        if parts is not None:
            with suppress(RuntimeError):  # a request waits in it, and is cancelled with the connection
                await parts.aclose()

    def _pop(self, number: int) -> Parts | None:
        parts = self._jobs.pop(number, None)
        self._usage.jobs -= parts is not None
        return parts
