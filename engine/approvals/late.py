"""Late requests: their client has gone, and an answer waits until the agent makes the call again."""

from __future__ import annotations

from datetime import datetime, timedelta

from ..history.model.events import CallLate, CallRepeated
from .fuse import Fuses
from .open_request import RequestTable


class LateRequests:
    """Requests of one session that no client waits for (G-102)."""

    def __init__(self, table: RequestTable, fuses: Fuses) -> None:
        self._table = table
        self._fuses = fuses

    async def leave(self, call_id: str, subagent: str = "") -> datetime | None:
        """Record that nobody waits for the answer about a call; return until when its request stays open.

        Return `None` if no request about the call is open, or none stays open without a client. A request
        that is late already is not extended. Raises `JournalError`.
        """
        table = self._table
        open_request = table.of_call(call_id)
        if open_request is None or table.policy.late <= 0:
            return None
        async with open_request.turn:
            approval = table.approval_of(open_request)
            if approval is None or open_request.requested_input is not None:
                return None
            if approval.late is not None:
                return approval.late if approval.late > table.clock() else None
            until = table.clock() + timedelta(seconds=table.policy.late)
            await table.note(CallLate(call_id=call_id, until=until, subagent=subagent))
        return until

    async def rejoin(self, call_id: str, made_as: str) -> None:
        """Record that an agent has made a late call again, and release the call if it is approved.

        Raises `JournalError`; its approval is then held as before.
        """
        again = CallRepeated(call_id=call_id, made_as=made_as)
        open_request = self._table.of_call(call_id)
        if open_request is None:
            await self._table.host.record(again)
            return
        async with open_request.turn:
            await self._table.note(again)
            fuse = open_request.fuse
            if fuse is not None and fuse.timer is None:
                self._fuses.release_in(0.0, open_request, fuse)
