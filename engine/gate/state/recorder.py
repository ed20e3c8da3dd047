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
    """Decision of a gate that counts once `recorded` is done without an error."""

    decision: GateDecision
    recorded: Awaitable[None]


class Recorder:
    """Records every decision; `broken` says why nothing may be decided any more."""

    def __init__(self, record: RecordDecision) -> None:
        self._record = record
        self._restored = 0
        self.broken: str | None = None

    def restored(self) -> None:
        """Let calls be decided again: the gate is where the record is.

        A decision from before this that turns out to be lost is no longer part of the gate's state.
        """
        self._restored += 1
        self.broken = None

    def hand_over(self, call: ToolCall, decision: GateDecision) -> Awaitable[None]:
        """Start to record a decision; the caller waits for it and sees to what happens if it fails."""
        return self._record(call, decision)

    async def record(self, call: ToolCall, decision: GateDecision) -> GateDecision:
        """The decision once it is recorded, or a block when it could not be.

        The nets have moved by now, so a record under way is waited for even when the caller is
        cancelled, and the decision is given out all the same: it is durable, and the caller must see to
        it that the call runs or is settled.
        """
        if self.broken is not None:
            return _unrecorded(decision, self.broken)
        # Imported here: a gate without a record never needs an event loop of its own.
        import asyncio

        restored = self._restored
        task = asyncio.ensure_future(self._record(call, decision))
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        problem = "cancelled" if task.cancelled() else task.exception()
        if problem is not None:
            reason = reasons.unrecorded(problem)
            log.error("Call '%s' to '%s': %s", call.tool_call_id, call.tool_name, reason)
            if restored == self._restored:
                self.broken = reason
            return _unrecorded(decision, reason)
        return decision if self.broken is None else _unrecorded(decision, self.broken)


def _unrecorded(decision: GateDecision, reason: str) -> GateDecision:
    """A block that holds in shadow mode too: nothing runs that the record does not know."""
    return replace(
        decision, outcome="block", mode="enforce", reason=reason, net=None, rule=None, steps=()
    )
