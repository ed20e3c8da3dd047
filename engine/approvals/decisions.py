"""Decisions about requests: whether one is still what was shown, and the answer that ends it."""

from __future__ import annotations

from collections.abc import Iterable

from ..gate.types import ApprovalAnswer
from ..history.model.events import ApprovalDecided
from ..history.model.records import KeyProof
from ..history.model.state import ApprovalState
from .deadlines import Deadlines
from .open_request import JUDGED, OpenRequest, OperatorAnswer, Reply, RequestTable

CHANGED = "the request has changed"
FILE_CHANGED = "the file has changed since it was shown"


class Decisions:
    """Decisions about one session's requests, for the holder of a request's turn."""

    def __init__(self, table: RequestTable, deadlines: Deadlines) -> None:
        self._table = table
        self._deadlines = deadlines

    async def check_open(self, waits: OpenRequest, *, approved: bool) -> ApprovalState | Reply | None:
        """State of a request that is as it was shown; else the reply to who answers, and it is void.

        `None` when nothing counts for it any more.
        """
        table = self._table
        # First, for both take a while: nothing comes between the looks below and what is recorded.
        # Timers stop while the machine sleeps: who counts by now can answer at once.
        await self._deadlines.escalated(waits)
        same_file = not approved or waits.files_unchanged is None or await waits.files_unchanged()
        shown = table.shown(waits)
        if shown is None:
            return None
        if not same_file:
            await table.void(waits, FILE_CHANGED)
            return Reply(False, "The file has changed since it was shown: it is asked again")
        if not table.is_current(waits):
            await table.void(waits, CHANGED)
            return Reply(False, "The request has changed since it was shown and is asked again")
        blocked = table.blocked(waits)
        if blocked is not None:
            await table.void(waits, blocked, outcome=JUDGED)
            return Reply(False, f"Not decided: {blocked}")
        return shown

    async def conclude(
        self,
        waits: OpenRequest,
        shown: ApprovalState,
        answer: OperatorAnswer,
        proof: KeyProof | None,
    ) -> bool:
        """Record an answer that decides, then release the call. False when that has gone."""
        ran = answer.edited if waits.requested_input is None else None
        person = self._table.tokens.operator(answer.by, answer.credential)
        own = person.groups if waits.fuse is None else self._left(answer.by, person.groups)
        given = {n: self._left(n, g) for n, g in zip(shown.given, shown.given_groups, strict=False)}
        outcome = ApprovalAnswer(
            answer.approved,
            answer.reason,
            ran,
            answer.by,
            shown.given,
            answer.grant,
            groups={**given, answer.by: own},
            escalated=shown.escalated is not None,
            keys=(
                *(name for name, key in zip(shown.given, shown.given_keys, strict=False) if key),
                *([answer.by] if proof is not None else []),
            ),
        )
        body = ApprovalDecided(
            approval_id=shown.id,
            call_id=shown.call_id,
            approved=answer.approved,
            by=answer.by,
            reason=answer.reason,
            input=answer.edited,
            others=shown.given if answer.approved else (),
            digest=waits.digest,
            groups=own,
            login=person.login,
            proof=proof,
        )
        return await self._table.end(waits, body, outcome)

    def _left(self, name: str, groups: Iterable[str]) -> tuple[str, ...]:
        """Those of a person's groups, when they approved, in which they are by now.

        What a plan answers goes by them (G-109), and not by groups that they have left since.
        """
        now = self._table.tokens.operator(name)
        return tuple(group for group in groups if now.is_in(group))
