"""Long-running queries of a console, requested from a server part by part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import datetime

from ...backtest.source import Backtested, Counted, Judged
from ..protocol.console_methods import (
    APPROVALS,
    BACKTEST,
    MOST_RULES,
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
from ..protocol.method import Method, ParamsT, ResultT
from .connection import GatewayError


class ConsoleJudging(ABC):
    """Backtests and statistics of a `ConsoleClient`; see `JudgedSource` for the methods."""

    @abstractmethod
    async def _ask(
        self, method: Method[ParamsT, ResultT], asked: ParamsT, *, may_repeat: bool = True
    ) -> ResultT: ...

    @abstractmethod
    def _start(self, work: Coroutine[None, None, None]) -> object: ...

    async def backtest(
        self, rules: Mapping[str, str], *, session: str | None = None, since: datetime | None = None
    ) -> AsyncGenerator[Backtested, None]:
        """Judge recorded sessions by other rules, which are sent to the server."""
        asked = Backtest(rules=_fitting(rules), session=session, since=since)
        async with aclosing(self._parts(BACKTEST, asked)) as parts:
            async for part in parts:
                if part.backtested is not None:
                    yield part.backtested

    async def judge(
        self,
        session: str,
        at: int,
        *,
        until: int,
        active: Sequence[str],
        rules: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Judged, None]:
        """Judge the calls of a session after its event `at`, for a what-if."""
        texts = None if rules is None else _fitting(rules)
        asked = WhatIf(session=session, at=at, until=until, active=tuple(active), rules=texts)
        async with aclosing(self._parts(WHAT_IF, asked)) as parts:
            async for part in parts:
                if part.judged is not None:
                    yield part.judged

    async def fatigue(self, since: datetime | None = None) -> AsyncGenerator[Counted, None]:
        """Cost of the approvals requested `since`, and changes that would have saved some."""
        async with aclosing(self._parts(APPROVALS, CountApprovals(since=since))) as parts:
            async for part in parts:
                if part.counted is not None:
                    yield part.counted

    async def _parts(
        self, method: Method[ParamsT, Begun], asked: ParamsT
    ) -> AsyncGenerator[JobPart, None]:
        """Begin a job, and request one part after the other; none is requested twice."""
        job = OfJob(job=(await self._ask(method, asked, may_repeat=False)).job)
        ended = False
        try:
            while not ended:
                part = await self._ask(NEXT, job, may_repeat=False)
                ended = part == JobPart()
                yield part
        finally:
            if not ended:
                # A reader that stops early does not wait for the server.
                self._start(self._end_job(job))

    async def _end_job(self, job: OfJob) -> None:
        with suppress(GatewayError, LookupError):
            await self._ask(STOP, job, may_repeat=False)


def _fitting(rules: Mapping[str, str]) -> dict[str, str]:
    size = sum(len(text.encode()) for text in rules.values())
    if size > MOST_RULES:
        raise ValueError(
            f"These rules are {size:,} bytes, and a server takes {MOST_RULES:,}; name fewer files"
        )
    return dict(rules)
