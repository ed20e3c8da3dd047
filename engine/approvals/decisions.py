"""Decisions about requests: whether a request is still as shown, and the answer that ends it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from ..gate.types import ApprovalAnswer
from ..history.model.events import ApprovalDecided
from ..history.model.records import KeyProof
from ..history.model.state import ApprovalState
from .deadlines import Deadlines
from .open_request import JUDGED, OpenRequest, OperatorAnswer, Reply, RequestTable

CHANGED = "the request has changed"
FILE_CHANGED = "the file has changed since it was shown"


class Decisions:
    """Decisions about one session's requests; callers hold the request's turn."""

    def __init__(self, table: RequestTable, deadlines: Deadlines) -> None:
        self._table = table
        self._deadlines = deadlines

    async def check_open(
        self, open_request: OpenRequest, *, approved: bool
    ) -> ApprovalState | Reply | None:
        """Return the state of a request that is still as shown; otherwise void it and return the reply.

        Return `None` if the request is over.
        """
        table = self._table
        # First, because both take a while: nothing may come between the checks below and the record.
        # Timers stop while the machine sleeps: operators of an escalation that is due can answer at once.
        await self._deadlines.escalated(open_request)
        same_file = (
            not approved or open_request.files_unchanged is None or await open_request.files_unchanged()
        )
        approval = table.approval_of(open_request)
        if approval is None:
            return None
        if not same_file:
            await table.void(open_request, FILE_CHANGED)
            return Reply(False, "The file has changed since it was shown: it is asked again")
        if not table.is_current(open_request):
            await table.void(open_request, CHANGED)
            return Reply(False, "The request has changed since it was shown and is asked again")
        blocked = table.blocked(open_request)
        if blocked is not None:
            await table.void(open_request, blocked, outcome=JUDGED)
            return Reply(False, f"Not decided: {blocked}")
        return approval

    async def conclude(
        self,
        open_request: OpenRequest,
        approval: ApprovalState,
        answer: OperatorAnswer,
        proof: KeyProof | None,
    ) -> bool:
        """Record an answer that decides, then release the call. Return false if the call has gone."""
        ran = answer.edited if open_request.requested_input is None else None
        person = self._table.tokens.operator(answer.by, answer.credential)
        token = None if answer.credential is None else answer.credential.token
        own = person.groups if open_request.fuse is None else self._left(answer.by, token, person.groups)
        before = zip_longest(approval.given, approval.tokens, approval.given_groups)
        given = {name: self._left(name, token, groups or ()) for name, token, groups in before}
        outcome = ApprovalAnswer(
            answer.approved,
            answer.reason,
            ran,
            answer.by,
            approval.given,
            answer.grant,
            groups={**given, answer.by: own},
            escalated=approval.escalated is not None,
            keys=(
                *(name for name, key in zip(approval.given, approval.given_keys, strict=False) if key),
                *([answer.by] if proof is not None else []),
            ),
        )
        body = ApprovalDecided(
            approval_id=approval.id,
            call_id=approval.call_id,
            approved=answer.approved,
            by=answer.by,
            reason=answer.reason,
            input=answer.edited,
            others=approval.given if answer.approved else (),
            digest=open_request.digest,
            groups=own,
            login=person.login,
            proof=proof,
        )
        return await self._table.end(open_request, body, outcome)

    def _left(self, name: str, token: str | None, groups: Iterable[str]) -> tuple[str, ...]:
        """Return those of an operator's groups at the approval in which they still are.

        Plans are answered by these groups (G-109), not by groups that the operator has left since.
        """
        now = self._table.tokens.operator_now(name, token)
        return tuple(group for group in groups if now.is_in(group))
