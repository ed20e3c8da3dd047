"""An operator's decision on its way to the hub, bound to the request as it was shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from pydantic import JsonValue

from ...engine.core.json_equality import same_json
from ...engine.gate.types import GrantTerms
from ...engine.history.fold.approvals import end_of, own_end
from ...engine.history.model.events import (
    ApprovalDecided,
    ApprovalExtended,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalRevealed,
    JournalEvent,
)
from ...engine.history.model.state import ApprovalState
from ...engine.hub.hub import HubEvent, Outcome, Revealed
from ..sources.api import HubApi
from .answer_schema import AnswerDraft
from .input_draft import Draft


@dataclass(frozen=True, slots=True)
class OperatorDecision:
    """What is decided. `edited` is the input that shall run instead, `grant` what passes from now on."""

    approved: bool
    reason: str | None = None
    edited: dict[str, JsonValue] | None = None
    grant: GrantTerms | None = None
    stop: bool = False


async def send(hub: HubApi, request: ApprovalState, decision: OperatorDecision, by: str) -> Outcome:
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


async def still_open(hub: HubApi, request: ApprovalState) -> bool:
    """Whether a request waits, also when the hub does not say. Raises nothing."""
    try:
        return any(waiting.id == request.id for waiting in await hub.approvals())
    except Exception:
        return True


async def ask_for_time(hub: HubApi, request: ApprovalState, seconds: float, by: str) -> Outcome:
    """Have a request wait so long from now on. Raises nothing."""
    try:
        return await hub.extend(request.id, seconds=seconds, by=by)
    except Exception as error:
        return Outcome(ok=False, message=f"Not extended: {error}")


async def ask_to_reveal(hub: HubApi, request: ApprovalState, by: str) -> Revealed:
    """The masked parts of a request that may be more than a secret. Raises nothing."""
    try:
        return await hub.reveal(request.id, by=by)
    except Exception as error:
        return Revealed(ok=False, message=f"Not shown: {error}")


# What was typed into forms for requests that are not decided yet.


MOST = 20

Wants: TypeAlias = dict[str, JsonValue] | None
Kept = TypeVar("Kept")


class Drafts:
    """By call, so that a request that is asked again finds it too; with another input it starts anew."""

    def __init__(self) -> None:
        self._drafts: dict[tuple[str, str], Draft] = {}
        self._answers: dict[tuple[str, str], tuple[Wants, AnswerDraft]] = {}

    def of(self, request: ApprovalState) -> Draft:
        """The draft of a request's input, as it was left."""
        key = (request.session, request.call_id)
        draft = self._drafts.pop(key, None)
        if draft is None or not same_json(dict(draft.original), request.input):
            draft = Draft(request.input)
        self._drafts[key] = draft
        _shorten(self._drafts)
        return draft

    def answer_of(self, request: ApprovalState) -> AnswerDraft:
        """The draft of the answer that a request wants, as it was left."""
        key = (request.session, request.call_id)
        wants, draft = self._answers.pop(key, (None, None))
        if draft is None or not same_json(wants, request.wants):
            draft = AnswerDraft.of(request)
        self._answers[key] = request.wants, draft
        _shorten(self._answers)
        return draft

    def forget(self, request: ApprovalState) -> None:
        """The request is decided."""
        self._drafts.pop((request.session, request.call_id), None)
        self._answers.pop((request.session, request.call_id), None)


def _shorten(drafts: dict[tuple[str, str], Kept]) -> None:
    """Keep the newest."""
    while len(drafts) > MOST:
        del drafts[next(iter(drafts))]


# What events of the hub mean for the one request that a dialog shows.


@dataclass(slots=True)
class News:
    """`ended` says how the request ended, `again` is the id of the one that is asked in its place.

    `meanwhile` says who decided it while a decision from here is under way, be it that one or another.
    `changed` says that it stays open and is not what it was, `queue` that others have come.
    """

    ended: str | None = None
    meanwhile: str | None = None
    again: str | None = None
    changed: bool = False
    queue: bool = False

    @property
    def worth_a_look(self) -> bool:
        """Whether the hub's queue has to be read."""
        return self.changed or self.queue


def news_of(
    events: Sequence[HubEvent],
    request: ApprovalState,
    *,
    over: bool,
    deciding: bool,
    operator: str = "",
) -> News:
    """What is new about `request`; `over` when it had ended before, `deciding` while one decides here.

    An answer of the `operator` here is told as theirs: they need not look for who was faster.
    """
    news = News()
    for event in events:
        if not isinstance(event, JournalEvent):
            continue
        end = end_of(event.body)
        if end is not None and end[0] == request.id:
            said = end[1]
            if isinstance(event.body, ApprovalDecided) and operator and event.body.by == operator.strip():
                said = own_end(event.body)
            if deciding and isinstance(event.body, ApprovalDecided):
                news.meanwhile = said
            else:
                news.ended = said
        match event.body:
            case (
                ApprovalGiven(approval_id=i)
                | ApprovalExtended(approval_id=i)
                | ApprovalRevealed(approval_id=i)
            ) if i == request.id:
                news.changed = True
            case ApprovalRequested(approval_id=i, call_id=call):
                news.queue = True
                same_call = (event.session, call) == (request.session, request.call_id)
                if same_call and (over or news.ended is not None):
                    news.again = i
            case _:
                pass
    return news
