"""Claims and comments: who handles a request, and what operators say about it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

from ..core.durations import format_duration
from ..core.people import same_person
from ..history.errors import JournalError
from ..history.model.events import ApprovalClaimed, ApprovalCommented, ApprovalUnclaimed
from ..history.model.records import ClaimRecord
from ..history.model.state import ApprovalState
from ..recording.ledger import note_refusal
from .open_request import Claim, OpenRequest, Reply, RequestTable

CLAIM = 600.0
"""Duration of a claim, in seconds."""
TIME_OVER = "its time is over"
"""Reason for a claim's automatic end."""
CONSOLE_GONE = "their console is gone"
"""Reason for the end of a claim with the console that it came from."""
MOST_COMMENTS = 50
"""Maximum number of comments on one request."""

log = logging.getLogger(__name__)


class Claims:
    """Claims and comments on one session's open requests."""

    def __init__(self, table: RequestTable) -> None:
        self._table = table

    async def claim(self, approval_id: str, by: str, console: str | None = None) -> Reply | None:
        """Claim a request for an operator, for a limited time and while their `console` is connected.

        Others may still decide it. Return `None` if the request is over.
        """
        by, table = by.strip(), self._table
        async with table.turn(approval_id) as found:
            if found is None:
                return None
            open_request, approval = found
            if not by:
                return Reply(False, "Not claimed: a claim needs the name of an operator")
            if approval.claim is not None:
                if table.clock() < approval.claim.until:
                    return Reply(False, f"{approval.claim.by} has this already")
                # Timers stop while the machine sleeps.
                await self._record_end(open_request, approval, approval.claim, TIME_OVER)
            until = table.clock() + timedelta(seconds=CLAIM)
            await self._set(open_request, approval, Claim(by, until, console))
        return Reply(True, f"{by} has {approval.tool}, for {format_duration(CLAIM)}")

    async def _set(self, open_request: OpenRequest, approval: ApprovalState, claim: Claim) -> None:
        """Record a claim and schedule its end; the caller holds the turn."""
        open_request.console = claim.console
        await self._table.note(
            ApprovalClaimed(
                approval_id=open_request.approval_id,
                call_id=approval.call_id,
                by=claim.by,
                until=claim.until,
            )
        )
        if open_request.claim_timer is not None:
            open_request.claim_timer.cancel()

        def is_over(found: ClaimRecord) -> bool:
            return (found.by, found.until) == (claim.by, claim.until)

        left = max(0.0, (claim.until - self._table.clock()).total_seconds())
        open_request.claim_timer = asyncio.get_running_loop().call_later(
            left, lambda: self._table.tasks.start(self._end(open_request, TIME_OVER, is_over))
        )

    async def renew(self, open_request: OpenRequest) -> None:
        """Renew the claim on a request that is asked anew, if the claim's console is still connected."""
        async with open_request.turn:
            approval = self._table.approval_of(open_request)
            # The claim stays in the table until now, so that the end of its console removes it.
            claim = None if approval is None else self._table.claims.pop(open_request.about, None)
            if approval is None or claim is None or approval.claim is not None:
                return
            if claim.until <= self._table.clock():
                return
            try:
                await self._set(open_request, approval, claim)
            except JournalError:
                said = "The claim of %s on request '%s' is not recorded"
                note_refusal(log, said, claim.by, open_request.approval_id)

    async def unclaim(self, approval_id: str, by: str) -> Reply | None:
        """Give a claim up. Return `None` if the request is over."""
        async with self._table.turn(approval_id) as found:
            if found is None:
                return None
            open_request, approval = found
            claim = approval.claim
            if claim is None or not same_person(claim.by, by):
                return Reply(False, f"{by.strip()} does not have this")
            await self._record_end(open_request, approval, claim, "given up")
        return Reply(True, f"{claim.by} no longer has {approval.tool}")

    async def end_claims(self, console: str) -> None:
        """End the claims of a console that was disconnected."""
        kept = {key: each for key, each in self._table.claims.items() if each.console != console}
        self._table.claims = kept
        for open_request in list(self._table.open.values()):
            end = self._end(
                open_request,
                CONSOLE_GONE,
                lambda _, open_request=open_request: open_request.console == console,
            )
            if open_request.turn.locked():
                # Its claim may wait for the turn, which another task may hold for a while.
                self._table.tasks.start(end)
            elif open_request.console == console:
                await end
            else:
                end.close()

    async def _end(
        self, open_request: OpenRequest, reason: str, is_meant: Callable[[ClaimRecord], bool]
    ) -> None:
        """End a claim if `is_meant` returns true for it; a newer claim stays."""
        async with open_request.turn:
            approval = self._table.approval_of(open_request)
            if approval is None or approval.claim is None or not is_meant(approval.claim):
                return
            try:
                await self._record_end(open_request, approval, approval.claim, reason)
            except JournalError:
                # A claim does not restrict who decides: the next claim only finds the request claimed.
                said = "The end of the claim on request '%s' is not recorded"
                note_refusal(log, said, open_request.approval_id)

    async def _record_end(
        self, open_request: OpenRequest, approval: ApprovalState, claim: ClaimRecord, reason: str
    ) -> None:
        """Record the end of a claim; the caller holds the turn. Raises `JournalError`."""
        await self._table.note(
            ApprovalUnclaimed(
                approval_id=approval.id, call_id=approval.call_id, by=claim.by, reason=reason
            )
        )
        if open_request.claim_timer is not None:
            open_request.claim_timer.cancel()
        open_request.console = None

    async def comment(self, approval_id: str, by: str, text: str, to: str | None = None) -> Reply | None:
        """Record an operator's comment on a request, perhaps `to` another; `None` if it is over."""
        by, text, to = by.strip(), text.strip(), (to or "").strip().removeprefix("@") or None
        async with self._table.turn(approval_id) as found:
            if found is None:
                return None
            _, approval = found
            if not by or not (text or to):
                return Reply(False, "Not recorded: a comment needs a text, and the name of an operator")
            if len(approval.comments) >= MOST_COMMENTS:
                return Reply(False, f"A request has {MOST_COMMENTS} comments at most")
            await self._table.note(
                ApprovalCommented(
                    approval_id=approval_id, call_id=approval.call_id, by=by, text=text, to=to
                )
            )
        if to is None:
            return Reply(True, f"Comment on {approval.tool} recorded")
        unknown = "" if self._table.tokens.knows(to) else ", though [operators] lists nobody of that name"
        return Reply(True, f"{to} is asked to look at this{unknown}")
