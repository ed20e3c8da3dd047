"""Backtests and other long jobs for one console, delivered part by part."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress

from ...backtest.source import Backtested, Counted, Judged
from ...hub.hub import Hub
from ..protocol.console_methods import (
    APPROVALS,
    BACKTEST,
    NEXT,
    STOP,
    WHAT_IF,
    Backtest,
    Begun,
    CountApprovals,
    JobPart,
    OfJob,
    WhatIf,
)
from ..protocol.errors import told_in_codes
from ..protocol.framing import Code, Nothing, WireError
from .connection import Handler, handler
from .limits import Usage

MOST_JOBS = 4
"""At work for one connection; with another the one that was begun first ends."""

Job = AsyncGenerator[Backtested, None] | AsyncGenerator[Judged, None] | AsyncGenerator[Counted, None]


class JudgingDesk:
    """Handlers of long jobs; `most` limits the jobs in `usage`, those of a token on all connections."""

    def __init__(self, hub: Hub, usage: Usage, most: int) -> None:
        self._hub = hub
        self._usage = usage
        self._most = most
        self._jobs: dict[int, Job] = {}
        self._asked: set[int] = set()
        self._number = 0
        self.handlers: Mapping[str, Handler] = dict(
            [
                handler(BACKTEST, self._backtest),
                handler(WHAT_IF, self._what_if),
                handler(APPROVALS, self._approvals),
                handler(NEXT, self._next, waits=True),
                handler(STOP, self._end),
            ]
        )

    async def leave(self) -> None:
        """End all jobs: the console is gone."""
        for job in list(self._jobs):
            await self._drop(job)

    async def _backtest(self, asked: Backtest) -> Begun:
        return await self._begin(
            self._hub.backtest(asked.rules, session=asked.session, since=asked.since)
        )

    async def _what_if(self, asked: WhatIf) -> Begun:
        return await self._begin(
            self._hub.judge(
                asked.session, asked.at, until=asked.until, active=asked.active, rules=asked.rules
            )
        )

    async def _approvals(self, asked: CountApprovals) -> Begun:
        return await self._begin(self._hub.fatigue(asked.since))

    async def _begin(self, job: Job) -> Begun:
        while len(self._jobs) >= MOST_JOBS:
            await self._drop(next(iter(self._jobs)))
        if self._usage.jobs >= self._most:
            raise WireError(
                Code.LIMIT,
                f"{self._most} backtests, replays and counts are at work for this token on all its "
                "connections, the most that may: wait until one ends, or close the console that began it",
                {"limit": self._most},
            )
        self._usage.jobs += 1
        self._number += 1
        self._jobs[self._number] = job
        return Begun(job=self._number)

    async def _next(self, asked: OfJob) -> JobPart:
        job = self._jobs.get(asked.job)
        if job is None:
            raise WireError(Code.UNKNOWN, f"nothing with number {asked.job} is at work here any more")
        if asked.job in self._asked:
            raise WireError(Code.REFUSED, f"the next part of {asked.job} is being waited for already")
        self._asked.add(asked.job)
        try:
            with told_in_codes():
                part = await anext(job, None)
        except Exception:
            self._taken(asked.job)
            raise
        finally:
            self._asked.discard(asked.job)
        match part:
            case Backtested():
                return JobPart(backtested=part)
            case Judged():
                return JobPart(judged=part)
            case Counted():
                return JobPart(counted=part)
            case None:
                self._taken(asked.job)
                return JobPart()

    async def _end(self, asked: OfJob) -> Nothing:
        await self._drop(asked.job)
        return Nothing()

    async def _drop(self, number: int) -> None:
        job = self._taken(number)
        if job is not None:
            with suppress(RuntimeError):  # somebody waits in it, and is cancelled with the connection
                await job.aclose()

    def _taken(self, number: int) -> Job | None:
        """Remove and return a job, if it is still known."""
        job = self._jobs.pop(number, None)
        self._usage.jobs -= job is not None
        return job
