"""A request in its dialog: the operator's decision, drafts of its forms, and news from the hub."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import JsonValue

from ...engine.approvals.passkeys import KeyAnswer
from ...engine.core.json_values import same_json
from ...engine.core.people import same_person
from ...engine.gate.types import GrantTerms
from ...engine.history.fold.approvals import end_of, own_end
from ...engine.history.model.events import (
    ApprovalClaimed,
    ApprovalCommented,
    ApprovalDecided,
    ApprovalEscalated,
    ApprovalExtended,
    ApprovalFused,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalRevealed,
    ApprovalTakenBack,
    ApprovalUnclaimed,
    CallLate,
    CallRepeated,
    JournalEvent,
)
from ...engine.history.model.state import ApprovalState
from ...engine.hub.hub import DisconnectedCalls, HubEvent, RequestReaders


@dataclass(frozen=True, slots=True)
class OperatorDecision:
    """Decision on a request. `edited` is the input to run instead, `grant` the terms of a grant.

    `passkey` is a browser's answer to the challenge for its key.
    """

    approved: bool
    reason: str | None = None
    edited: dict[str, JsonValue] | None = None
    grant: GrantTerms | None = None
    stop: bool = False
    passkey: KeyAnswer | None = None


def effects_of(request: ApprovalState) -> tuple[str, ...]:
    """Return the call's effects other than its tool's name, most specific first; if none, that name."""
    return tuple(name for name in request.names if name != request.called) or (request.called,)


# Inputs too long to be read on a screen


MOST_FIELDS = 2_000
"""Maximum fields of an input on a screen; each takes at least one line."""
MOST_VALUES = 20_000
"""Maximum values and lines of an input on a screen; laying out more would block the console."""
EXCERPT_FIELDS, EXCERPT_TEXT = 20, 200
"""Fields at each end, and characters of a text, in the excerpt of a longer input."""


def unreadable_reason(request: ApprovalState) -> str | None:
    """Return why a request's input cannot be shown completely, and so not approved, on a screen.

    It can be denied there. To approve it, the operator prints it with a command.
    """
    if len(request.input) > MOST_FIELDS:
        found = f"{len(request.input):,} fields"
    elif _has_more_values(request.input, MOST_VALUES):
        found = f"more than {MOST_VALUES:,} values and lines"
    else:
        return None
    return (
        f"its input has {found}, too long to be shown here: deny it, or read and approve it with "
        f"interlock approvals show {request.id}"
    )


def shown_in_detail(
    values: Mapping[str, JsonValue], session: str
) -> tuple[Mapping[str, JsonValue], str | None]:
    """Return a recorded input for a panel: complete, or an excerpt with a note on where all of it is.

    Long texts are always complete, since only their visible part is laid out.
    """
    if len(values) > MOST_FIELDS:
        found = f"{len(values):,} fields"
    elif _has_more_values(dict(values), MOST_VALUES, lines=False):
        found = f"more than {MOST_VALUES:,} values"
    else:
        return values, None
    command = f"interlock history export {session} -o FILE"
    return excerpt(values), f"Only an excerpt: it has {found}. All of it: {command}"


def _has_more_values(value: JsonValue, most: int, *, lines: bool = True) -> bool:
    """Return whether a value contains more than `most` values; with `lines`, lines of texts count too.

    Stops at that number.
    """
    waiting: list[JsonValue] = [value]
    found = 0
    while waiting and found <= most:
        each = waiting.pop()
        found += 1
        match each:
            case str():
                found += each.count("\n") if lines else 0
            case dict() | list():
                if len(each) > most:
                    return True
                waiting += each.values() if isinstance(each, dict) else each
            case _:
                pass
    return found > most


def excerpt(values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the beginning and the end of an input, with the beginnings of its texts. Always short."""
    names, between = list(values), dict[str, JsonValue]()
    first, last = names[:EXCERPT_FIELDS], names[EXCERPT_FIELDS:]
    if len(last) > EXCERPT_FIELDS:
        between["…"] = f"{len(last) - EXCERPT_FIELDS:,} fields"
        last = last[-EXCERPT_FIELDS:]
    beginnings = {name: _beginning(values[name]) for name in first}
    return {**beginnings, **between, **{name: _beginning(values[name]) for name in last}}


def _beginning(value: JsonValue) -> JsonValue:
    match value:
        case str() if len(value) > EXCERPT_TEXT:
            return f"{value[:EXCERPT_TEXT]}…"
        case dict() | list() if value:
            return f"… {len(value):,} {'fields' if isinstance(value, dict) else 'entries'}"
        case _:
            return value


@dataclass(slots=True)
class ClaimWarning:
    """Warns of other people's claims, once for each claim."""

    operator: str
    _told: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def take(self, requests: Iterable[ApprovalState]) -> str | None:
        """Return a warning about claims not yet warned of; `None` if `requests` may be decided."""
        chosen = list(requests)
        claims = {(each.id, each.claim.by) for each in chosen if each.claim is not None}
        news = {each for each in claims - self._told if not same_person(each[1], self.operator)}
        self._told |= news
        if not news:
            return None
        names = " and ".join(sorted({name for _, name in news}))
        verb = "has" if len({name for _, name in news}) == 1 else "have"
        if len(chosen) == 1:
            return f"{names} {verb} this: press it again to decide it anyway"
        return f"{names} {verb} {len(news)} of these: press it again to decide anyway"


# Drafts of forms for requests that have not been decided.


MOST = 20

FormDraft = TypeVar("FormDraft")


class FormDrafts(Generic[FormDraft]):
    """Drafts by call, so that a repeated request finds its draft. Another original starts a new one.

    `original` returns the part of a request that the form is about, `begin` the draft of an untouched
    form.
    """

    def __init__(
        self,
        original: Callable[[ApprovalState], JsonValue],
        begin: Callable[[ApprovalState], FormDraft],
    ) -> None:
        self._original = original
        self._begin = begin
        self._drafts: dict[tuple[str, str], tuple[JsonValue, FormDraft | None]] = {}

    def draft_of(self, request: ApprovalState) -> FormDraft:
        """Return the draft of a request's form, as it was left. Only the newest drafts are kept."""
        key, original = (request.session, request.call_id), self._original(request)
        before, draft = self._drafts.pop(key, (None, None))
        if draft is None or not same_json(before, original):
            draft = self._begin(request)
        self._drafts[key] = original, draft
        while len(self._drafts) > MOST:
            del self._drafts[next(iter(self._drafts))]
        return draft

    def forget(self, request: ApprovalState) -> None:
        """Discard the draft of a decided request."""
        self._drafts.pop((request.session, request.call_id), None)


# Changes to the request that a dialog shows, from hub events.


@dataclass(slots=True)
class News:
    """Changes to a request.

    `ended` says how it ended; `again` is the id of the request that replaces it. `meanwhile` says who
    decided it while a decision from here is being sent, possibly this operator. `changed` means that it
    is still open and has changed, `queue` that other requests have arrived or ended.
    """

    ended: str | None = None
    meanwhile: str | None = None
    again: str | None = None
    changed: bool = False
    queue: bool = False

    @property
    def changes_view(self) -> bool:
        """Return whether the hub's queue has to be read again."""
        return self.changed or self.queue


def news_of(
    events: Sequence[HubEvent],
    request: ApprovalState,
    *,
    over: bool,
    deciding: bool,
    operator: str = "",
) -> News:
    """Return the changes to `request` in `events`.

    `over` means that it had ended before, `deciding` that a decision is being sent. The `operator`'s own
    answer is reported as theirs, not as somebody else's.
    """
    news = News()
    for event in events:
        if isinstance(event, DisconnectedCalls):
            news.changed |= event.session == request.session
        if isinstance(event, RequestReaders):
            news.changed |= event.approval_id == request.id
        if not isinstance(event, JournalEvent):
            continue
        end = end_of(event.body)
        news.queue |= end is not None
        if end is not None and end[0] == request.id:
            reason = end[1]
            if isinstance(event.body, ApprovalDecided) and operator and event.body.by == operator.strip():
                reason = own_end(event.body)
            if deciding and isinstance(event.body, ApprovalDecided):
                news.meanwhile = reason
            else:
                news.ended = reason
        match event.body:
            case (
                ApprovalGiven(approval_id=i)
                | ApprovalExtended(approval_id=i)
                | ApprovalRevealed(approval_id=i)
                | ApprovalEscalated(approval_id=i)
                | ApprovalFused(approval_id=i)
                | ApprovalTakenBack(approval_id=i)
                | ApprovalClaimed(approval_id=i)
                | ApprovalUnclaimed(approval_id=i)
                | ApprovalCommented(approval_id=i)
            ) if i == request.id:
                news.changed = True
            case CallLate(call_id=call) | CallRepeated(call_id=call):
                news.changed |= (event.session, call) == (request.session, request.call_id)
            case ApprovalRequested(approval_id=i, call_id=call):
                news.queue = True
                same_call = (event.session, call) == (request.session, request.call_id)
                if same_call and (over or news.ended is not None):
                    news.again = i
            case _:
                pass
    return news
