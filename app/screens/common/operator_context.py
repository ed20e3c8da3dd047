"""Context in which an operator decides: the hub, the operator's name, and clocks."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from ....engine.approvals.policy import ApprovalPolicy
from ....engine.core.clock import Clock, utc_now
from ....engine.core.people import same_person
from ....engine.history.decisions.precedents import Precedents
from ....engine.history.model.state import ApprovalState
from ....engine.hub.api import HubApi
from ....engine.hub.hub import Outcome, Revealed
from ...viewmodels.request import OperatorDecision
from ...widgets.approval.progress import Viewer
from .guarded_keys import QUIET


async def outcome_of(action: Callable[[], Awaitable[Outcome]], failure: str = "") -> Outcome:
    """Return the outcome of an operator's action.

    An exception becomes an outcome prefixed with `failure`.
    """
    try:
        return await action()
    except Exception as error:
        return Outcome(ok=False, message=f"{failure}{str(error) or type(error).__name__}")


def split_address(line: str) -> tuple[str | None, str]:
    """Split a comment into the person it begins with, as in `@maria`, and the rest."""
    if not line.startswith("@"):
        return None, line
    name, _, text = line[1:].partition(" ")
    return name or None, text.strip()


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """Hub, operator and clocks, passed to every screen that decides.

    `clock` gives the time from which ages are computed; `monotonic` measures the seconds in which keys
    are inert. See `GuardedKeys` for `quiet`.
    """

    hub: HubApi
    operator: str
    clock: Clock = utc_now
    monotonic: Callable[[], float] = time.monotonic
    quiet: float = QUIET

    @property
    def viewer(self) -> Viewer:
        """Return the operator as viewer of requests: groups, and whether own sessions may be approved."""
        policy: object = getattr(self.hub, "policy", None)
        own_approvals = isinstance(policy, ApprovalPolicy) and policy.own_approvals
        groups = self.hub.groups_of(self.operator)
        return Viewer(self.operator, own_approvals, groups, self.hub.key_link)

    # Actions of this operator. They do not raise: a failure decides nothing, and its outcome says so.

    async def decide(self, request: ApprovalState, decision: OperatorDecision) -> Outcome:
        """Send a decision, bound to the request as it was shown."""
        return await outcome_of(
            lambda: self.hub.decide(
                request.id,
                approved=decision.approved,
                by=self.operator,
                reason=decision.reason,
                input=decision.edited,
                digest=request.digest,
                grant=decision.grant,
                stop=decision.stop,
                passkey=decision.passkey,
            ),
            "Not decided: ",
        )

    async def extend(self, request: ApprovalState, seconds: float) -> Outcome:
        """Set the deadline of a request to `seconds` from now."""
        extending = partial(self.hub.extend, request.id, seconds=seconds, by=self.operator)
        return await outcome_of(extending, "Not extended: ")

    async def take_back(self, request: ApprovalState) -> Outcome:
        """Take back an approval whose call does not run yet."""
        return await outcome_of(
            lambda: self.hub.take_back(request.id, by=self.operator), "Not taken back: "
        )

    async def claim(self, request: ApprovalState) -> Outcome:
        """Claim a request, or give up the operator's own claim."""
        own = request.claim is not None and same_person(request.claim.by, self.operator)
        act = self.hub.unclaim if own else self.hub.claim
        return await outcome_of(lambda: act(request.id, by=self.operator))

    async def comment(self, request: ApprovalState, line: str) -> Outcome:
        """Comment on a request. A line that begins with `@name` asks that person to look at it."""
        to, text = split_address(line)
        return await outcome_of(
            lambda: self.hub.comment(request.id, text, by=self.operator, to=to), "Not said: "
        )

    async def note_reading(self, request: str, *, reading: bool) -> None:
        """Show to others that the operator has a request on screen. Best effort; errors are ignored."""
        with suppress(Exception):
            await self.hub.note_reading(request, reading, by=self.operator)

    async def reveal(self, request: ApprovalState) -> Revealed:
        """Return the masked parts of a request that may be more than a secret."""
        try:
            return await self.hub.reveal(request.id, by=self.operator)
        except Exception as error:
            return Revealed(ok=False, message=f"Not shown: {error}")

    async def precedents(self, request: ApprovalState) -> Precedents | None:
        """Return a request's precedents, or `None` if the hub cannot provide them."""
        try:
            return await self.hub.precedents(request.id)
        except Exception:
            return None

    async def is_open(self, request: ApprovalState) -> bool:
        """Return whether a request is open. If the hub does not answer, it counts as open."""
        try:
            return any(waiting.id == request.id for waiting in await self.hub.approvals())
        except Exception:
            return True
