"""Calls of the approval dialog to the hub, and the messages that bring it their outcomes.

In the app's workers, not the dialog's: closing the screen must not cut a decision in half.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pydantic import JsonValue
from textual.app import App
from textual.message import Message

from ....engine.history.model.state import ApprovalState
from ....engine.hub.api import HubApi
from ....engine.hub.hub import Outcome, Revealed
from ...viewmodels.request import OperatorDecision, ask_for_time, ask_to_reveal, send, still_open
from ..common.deferred_paint import SettledScreen
from ..common.guarded_keys import FollowsRequest

if TYPE_CHECKING:
    from ...viewmodels.answer_schema import AnswerDraft
    from .screen import ApprovalScreen


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


@dataclass
class Unmasked(Message):
    """The hub's answer to a wish to see what is masked."""

    request: str
    revealed: Revealed


@runtime_checkable
class TakesAnswers(Protocol):
    """A form over the dialog from which an answer was sent."""

    def taken(self, outcome: Outcome) -> None:
        """Take note of the outcome of the answer."""


def tell_form(app: App[None], outcome: Outcome) -> None:
    """Tell the form over the dialog, if there is one, what became of its answer."""
    for screen in reversed(app.screen_stack):
        if isinstance(screen, TakesAnswers):
            screen.taken(outcome)


def tell_above(app: App[None], text: str) -> None:
    """Tell the panels about a request that lie over its dialog that it is over."""
    for screen in app.screen_stack:
        if isinstance(screen, FollowsRequest):
            screen.request_over(text)


def fill_in(
    dialog: ApprovalScreen, draft: AnswerDraft, send: Callable[[dict[str, JsonValue]], bool]
) -> None:
    """Open the form for the answer that a dialog's request wants, as it was left."""
    from .forms.answer_form import AnswerForm

    form = AnswerForm(dialog.request, draft, send, dialog.monotonic, dialog.quiet)
    dialog.app.push_screen(form)


def decide(
    screen: SettledScreen[Outcome | None],
    hub: HubApi,
    request: ApprovalState,
    decision: OperatorDecision,
    by: str,
) -> None:
    """Send a decision; `Answered` brings the answer."""

    async def decided() -> None:
        outcome = await send(hub, request, decision, by)
        left = not outcome.ok and await still_open(hub, request)
        screen.post_message(Answered(request.id, outcome, left))

    screen.app.run_worker(decided(), group="decisions", exit_on_error=False)


def extend(
    screen: SettledScreen[Outcome | None], hub: HubApi, request: ApprovalState, seconds: float, by: str
) -> None:
    """Have a request wait so long from now on; `Extended` brings the answer."""

    async def extended() -> None:
        screen.post_message(Extended(request.id, await ask_for_time(hub, request, seconds, by)))

    screen.app.run_worker(extended(), group="decisions", exit_on_error=False)


def reveal(screen: SettledScreen[Outcome | None], hub: HubApi, request: ApprovalState, by: str) -> None:
    """Ask for what is masked and may be more than a secret; `Unmasked` brings it."""

    async def revealed() -> None:
        screen.post_message(Unmasked(request.id, await ask_to_reveal(hub, request, by)))

    screen.app.run_worker(revealed(), group="decisions", exit_on_error=False)
