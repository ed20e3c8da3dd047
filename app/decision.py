"""An operator's decision on its way to the hub, bound to the request as it was shown."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from ..engine.gate.types import GrantTerms
from ..engine.history.state import ApprovalState
from ..engine.hub import Outcome, Revealed
from .door import Door


@dataclass(frozen=True, slots=True)
class Decision:
    """What is decided. `edited` is the input that shall run instead, `grant` what passes from now on."""

    approved: bool
    reason: str | None = None
    edited: dict[str, JsonValue] | None = None
    grant: GrantTerms | None = None
    stop: bool = False


async def send(hub: Door, request: ApprovalState, decision: Decision, by: str) -> Outcome:
    """What became of it. Raises nothing: what fails has decided nothing, and says so."""
    try:
        return await hub.decide(
            request.id,
            approved=decision.approved,
            by=by,
            reason=decision.reason,
            input=decision.edited,
            digest=request.digest,
            grant=decision.grant,
            stop=decision.stop,
        )
    except Exception as error:
        return Outcome(ok=False, message=f"Not decided: {error}")


async def still_open(hub: Door, request: ApprovalState) -> bool:
    """Whether a request waits, also when the hub does not say. Raises nothing."""
    try:
        return any(waiting.id == request.id for waiting in await hub.approvals())
    except Exception:
        return True


async def ask_for_time(hub: Door, request: ApprovalState, seconds: float, by: str) -> Outcome:
    """Have a request wait so long from now on. Raises nothing."""
    try:
        return await hub.extend(request.id, seconds=seconds, by=by)
    except Exception as error:
        return Outcome(ok=False, message=f"Not extended: {error}")


async def ask_to_reveal(hub: Door, request: ApprovalState, by: str) -> Revealed:
    """The masked parts of a request that may be more than a secret. Raises nothing."""
    try:
        return await hub.reveal(request.id, by=by)
    except Exception as error:
        return Revealed(ok=False, message=f"Not shown: {error}")
