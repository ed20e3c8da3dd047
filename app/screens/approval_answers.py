"""What the approval dialog sends to the hub, and the messages by which it hears of it.

In the app's workers, not the dialog's: closing the screen must not cut a decision in half.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message
from textual.screen import Screen

from ...engine.history.state import ApprovalState
from ...engine.hub import Outcome
from ..decision import Decision, ask_for_time, send, still_open
from ..door import Door


@dataclass
class Answered(Message):
    """The hub's answer to the decision taken here, and whether the request is still open after it."""

    request: str
    outcome: Outcome
    still_open: bool


@dataclass
class Extended(Message):
    """The hub's answer to a wish for more time."""

    request: str
    outcome: Outcome


def decide(
    screen: Screen[Outcome | None], hub: Door, request: ApprovalState, decision: Decision, by: str
) -> None:
    """Send a decision; `Answered` brings the answer."""

    async def decided() -> None:
        outcome = await send(hub, request, decision, by)
        left = not outcome.ok and await still_open(hub, request)
        screen.post_message(Answered(request.id, outcome, left))

    screen.app.run_worker(decided(), group="decisions", exit_on_error=False)


def extend(
    screen: Screen[Outcome | None], hub: Door, request: ApprovalState, seconds: float, by: str
) -> None:
    """Have a request wait so long from now on; `Extended` brings the answer."""

    async def extended() -> None:
        screen.post_message(Extended(request.id, await ask_for_time(hub, request, seconds, by)))

    screen.app.run_worker(extended(), group="decisions", exit_on_error=False)
