"""Withdrawal of approval requests that no call waits for, retried until the journal accepts it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Coroutine
from typing import ClassVar, Protocol

from ..history.errors import JournalError
from ..history.model.events import ApprovalWithdrawn
from ..recording.ledger import EventRecorder, RepeatedRefusals

INTERRUPTED = "the agent was interrupted"
"""Reason for a withdrawal if nothing more specific is known."""
RETRY = 1.0
"""Seconds until an end of a request that could not be recorded is tried again."""

log = logging.getLogger(__name__)


class WithdrawalHost(EventRecorder, Protocol):
    """The session with the requests."""

    def end_reason(self, call_id: str) -> str: ...


class Tasks:
    """Background work that is not awaited, referenced until it is done."""

    __slots__ = ()
    _working: ClassVar[set[asyncio.Task[None]]] = set()

    def start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)


class Withdrawals:
    """Withdraws the requests of one session. `waited_for` are the ids of those that a call waits for."""

    def __init__(self, host: WithdrawalHost, tasks: Tasks, waited_for: Container[str]) -> None:
        self._host = host
        self._tasks = tasks
        self._waited_for = waited_for
        self._retries: dict[str, asyncio.TimerHandle] = {}
        self._refusals = RepeatedRefusals(
            log, "Nobody waits for request '%s', and the journal refused it"
        )

    async def withdraw(self, approval_id: str, call_id: str, reason: str) -> None:
        """Record a withdrawal with its reason; if that fails, retry until it succeeds.

        Another server that has taken the session requests approval of the call again by itself.
        """

        def note(written: bool) -> None:
            if written:
                self._refusals.forget(approval_id)
            else:
                self.retry(approval_id, call_id, reason)

        gone = ApprovalWithdrawn(approval_id=approval_id, call_id=call_id, reason=reason)
        try:
            await self._host.record(gone, on_written=note)
        except JournalError:
            if self._refusals.note(approval_id):
                self.retry(approval_id, call_id, reason)

    def retry(self, approval_id: str, call_id: str, reason: str) -> None:
        """Withdraw a request after a while, if it is still open then."""

        def again() -> None:
            self._retries.pop(approval_id, None)
            if approval_id in self._host.state.approvals:
                self._tasks.start(self.withdraw(approval_id, call_id, reason))

        if approval_id not in self._retries:
            loop = asyncio.get_running_loop()
            self._retries[approval_id] = loop.call_later(RETRY, again)

    async def pause(self) -> None:
        """Start no more withdrawals, as the session is being closed, and wait for pending writes."""
        for timer in self._retries.values():
            timer.cancel()
        self._retries.clear()
        await self._host.record()

    def resume(self) -> None:
        """Continue, because the session could not be closed."""
        for approval_id, approval in self._host.state.approvals.items():
            if approval_id not in self._waited_for:
                self.retry(approval_id, approval.call_id, self._host.end_reason(approval.call_id))
