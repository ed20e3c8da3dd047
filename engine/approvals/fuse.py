"""Fuse: the time between an approval and its call's release, in which it can be taken back."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from ..core.durations import format_duration
from ..history.errors import JournalError
from ..history.model.events import ApprovalFused, ApprovalTakenBack
from ..history.model.records import KeyProof
from ..history.model.state import ApprovalState
from ..recording.ledger import note_refusal
from .answer_checks import AnswerChecks
from .deadlines import Deadlines
from .decisions import Decisions
from .open_request import Fuse, OpenRequest, OperatorAnswer, Reply, RequestTable
from .policy import Credential
from .withdrawals import RETRY

PAUSED = 0.5
"""Seconds by which the end of a fuse is late if the process was paused."""
CATCH_UP = 1.0
"""Seconds more of the fuse then: the approval may have been taken back, also at another server."""

log = logging.getLogger(__name__)


class Fuses:
    """Approvals of one session's requests that do not release their calls yet."""

    def __init__(
        self, table: RequestTable, checks: AnswerChecks, deadlines: Deadlines, decisions: Decisions
    ) -> None:
        self._table = table
        self._checks = checks
        self._deadlines = deadlines
        self._decisions = decisions

    def seconds_of(self, approval: ApprovalState) -> float:
        """Return the seconds for which an approval of a request can be taken back."""
        return self._table.policy.fuse if approval.risk == "high" else 0.0

    async def light(
        self,
        open_request: OpenRequest,
        approval: ApprovalState,
        answer: OperatorAnswer,
        proof: KeyProof | None,
    ) -> Reply:
        """Record an approval that can be taken back, and release the call when its fuse ends.

        The approval of a late request is also held until its agent makes the call again.
        """
        seconds, credential = self.seconds_of(approval), answer.credential
        person = self._table.tokens.operator(answer.by, credential)
        fused = ApprovalFused(
            approval_id=open_request.approval_id,
            call_id=approval.call_id,
            by=answer.by,
            until=self._table.clock() + timedelta(seconds=seconds),
            reason=answer.reason,
            input=answer.edited,
            digest=open_request.digest,
            token=None if credential is None else credential.token,
            groups=person.groups,
            login=person.login,
            held=approval.late,
            proof=proof,
        )
        fuse = open_request.fuse = Fuse(answer, proof)
        try:
            await self._table.note(fused)
        except JournalError:
            open_request.fuse = None
            raise
        finally:
            # The fuse also starts if the caller was cancelled, because the approval is recorded.
            if open_request.fuse is fuse:
                self.release_in(seconds, open_request, fuse)
        return Reply(
            True, f"{approval.tool} approved by {answer.by}: {self._release_words(approval, seconds)}"
        )

    def _release_words(self, approval: ApprovalState, seconds: float) -> str:
        """Return when an approved call runs, as text; `seconds` are those of its fuse."""
        if approval.late is None:
            return f"it runs in {format_duration(seconds)} unless taken back"
        left = format_duration(max(1.0, (approval.late - self._table.clock()).total_seconds()))
        return f"its client has gone, so it runs once the agent makes the call again, within {left}"

    def release_in(self, seconds: float, open_request: OpenRequest, fuse: Fuse) -> None:
        """Release the call after `seconds`, or a little later if the process was paused."""
        # The loop's clock is monotonic: a change of the machine's time does not shorten the fuse.
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds

        def release() -> None:
            self._table.tasks.start(self.release(open_request, fuse))

        def end() -> None:
            if loop.time() - due > PAUSED:
                fuse.timer = loop.call_later(CATCH_UP, release)
            else:
                release()

        fuse.timer = loop.call_later(seconds, end)

    async def release(self, open_request: OpenRequest, fuse: Fuse) -> None:
        """Release a call whose fuse has ended, if everything is still as it was at the approval.

        While agents are frozen it is not released, and can be taken back.
        """
        host, released = self._table.host, False
        while not released:
            await host.wait_for_freeze_end()
            async with open_request.turn:
                released = await self._release(open_request, fuse)

    async def _release(self, open_request: OpenRequest, fuse: Fuse) -> bool:
        """Release the call, for the holder of the turn; return false if agents were frozen."""
        table, answer = self._table, fuse.answer
        if open_request.fuse is not fuse:
            return True
        current = table.host.state.approvals.get(open_request.approval_id)
        if current is not None and current.late is not None:
            fuse.timer = None
            return True
        try:
            approval = await self._decisions.check_open(open_request, approved=True)
            if table.host.is_frozen:
                return False
            if isinstance(approval, ApprovalState):
                void = f"taken back by {fuse.taken_back}" if fuse.taken_back else None
                void = void or self._checks.expired_approval(approval, answer, fuse.proof)
                if void is not None:
                    await table.void(open_request, void)
                else:
                    await self._decisions.conclude(open_request, approval, answer, fuse.proof)
        except JournalError:
            said = "Request '%s' was approved, and the journal refused it"
            if note_refusal(log, said, open_request.approval_id):
                self.release_in(RETRY, open_request, fuse)
        return True

    async def take_back(
        self, approval_id: str, by: str, credential: Credential | None = None
    ) -> Reply | None:
        """Take an approval back before its call is released: all approvals are requested again.

        Return `None` if the request is over. Raises `JournalError` if this could not be recorded; the
        call is then not released either, but its approval is requested again.
        """
        by, table = by.strip(), self._table
        async with table.turn(approval_id) as found:
            if found is None:
                return None
            open_request, approval = found
            if not by:
                return Reply(False, "Nobody takes it back: this needs the name of an operator")
            overstepped = table.tokens.overstepped(by, credential, "decide")
            if overstepped is not None:
                return Reply(False, overstepped)
            fuse = open_request.fuse
            if fuse is None:
                return Reply(False, "Nothing can be taken back: no approval of this request waits")
            fuse.taken_back = by
            taken = ApprovalTakenBack(approval_id=approval_id, call_id=approval.call_id, by=by)
            try:
                await table.note(taken)
            finally:
                current = table.host.state.approvals.get(approval_id)
                if current is not None and current.fuse is None:
                    if fuse.timer is not None:
                        fuse.timer.cancel()
                    open_request.fuse = None
                    self._deadlines.arm(open_request)
        return Reply(True, f"{approval.tool}: {by} took back the approval of {fuse.answer.by}")
