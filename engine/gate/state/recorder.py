"""Records a decision durably before it takes effect."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace

from ...net.net import ToolCall
from .. import reasons
from ..types import GateDecision, RecordDecision

log = logging.getLogger(__name__)


class Recorder:
    """Awaits the record of every decision; `broken` says why nothing may be decided any more."""

    def __init__(self, record: RecordDecision) -> None:
        self._record = record
        self.broken: str | None = None

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

        task = asyncio.ensure_future(self._record(call, decision))
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        problem = "cancelled" if task.cancelled() else task.exception()
        if problem is not None:
            self.broken = reasons.unrecorded(problem)
            log.error("Call '%s' to '%s': %s", call.tool_call_id, call.tool_name, self.broken)
        return decision if self.broken is None else _unrecorded(decision, self.broken)


def _unrecorded(decision: GateDecision, reason: str) -> GateDecision:
    """A block that holds in shadow mode too: nothing runs that the record does not know."""
    return replace(
        decision, outcome="block", mode="enforce", reason=reason, net=None, rule=None, steps=()
    )
