"""Records a decision durably before it takes effect."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, replace

from ...net.net import ToolCall
from .. import reasons
from ..types import GateDecision, RecordDecision

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """Decision of a gate that is valid once `recorded` is done without an error."""

    decision: GateDecision
    recorded: Awaitable[None]


class Recorder:
    """Records every decision; `broken` is the reason why nothing more may be decided."""

    def __init__(self, record: RecordDecision) -> None:
        self._record = record
        self._restored = 0
        self._is_failing = False
        self.broken: str | None = None

    def restored(self) -> None:
        """Allow decisions again: the gate's state equals the record.

        A decision from before this point that turns out to be lost is no longer part of the gate's state.
        """
        self._restored += 1
        self.broken = None

    def hand_over(self, call: ToolCall, decision: GateDecision) -> Awaitable[None]:
        """Start recording a decision; the caller waits for the record and handles its failure."""
        return self._record(call, decision)

    async def record(self, call: ToolCall, decision: GateDecision) -> GateDecision:
        """The decision once it is recorded, or a block if it could not be recorded.

        The nets have already moved, so a record in progress is awaited even if the caller is cancelled.
        The decision is returned all the same: it is durable, and the caller must ensure that the call
        runs or is settled.
        """
        if self.broken is not None:
            return _unrecorded(decision, self.broken)
        # Imported here: a gate without a record needs no event loop.
        import asyncio

        restored = self._restored
        task = asyncio.ensure_future(self._record(call, decision))
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        problem = "cancelled" if task.cancelled() else task.exception()
        if problem is not None:
            reason = reasons.unrecorded(problem)
            # Once until one is recorded again: an agent may go on asking for hours.
            level = logging.DEBUG if self._is_failing else logging.ERROR
            self._is_failing = True
            log.log(level, "Call '%s' to '%s': %s", call.tool_call_id, call.tool_name, reason)
            if restored == self._restored:
                self.broken = reason
            return _unrecorded(decision, reason)
        self._is_failing = False
        return decision if self.broken is None else _unrecorded(decision, self.broken)


def _unrecorded(decision: GateDecision, reason: str) -> GateDecision:
    """Block that also holds in shadow mode: nothing runs that is not in the record."""
    return replace(
        decision, outcome="block", mode="enforce", reason=reason, net=None, rule=None, steps=()
    )
