"""A request in its dialog: the decision taken, drafts of its forms, and news of it from the hub."""

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

    `passkey` is what a browser says to the challenge of its key.
    """

    approved: bool
    reason: str | None = None
    edited: dict[str, JsonValue] | None = None
    grant: GrantTerms | None = None
    stop: bool = False
    passkey: KeyAnswer | None = None


def effects_of(request: ApprovalState) -> tuple[str, ...]:
    """The call's effects other than its tool's name, the most specific first; if none, that name."""
    return tuple(name for name in request.names if name != request.called) or (request.called,)


# Inputs that nobody reads on a screen


MOST_FIELDS = 2_000
"""Fields of an input that are shown, each on a line of its own at least."""
MOST_VALUES = 20_000
"""Values and lines of an input that are shown; to lay out more would hold up the console."""
EXCERPT_FIELDS, EXCERPT_TEXT = 20, 200
"""Fields at each end, and characters of a text, that are shown of a longer input."""


def unreadable_reason(request: ApprovalState) -> str | None:
    """Reason why a request's input is not shown whole, and so not approved, on a screen.

    It is denied there, and read and approved where it is printed.
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
    """A recorded input as a panel shows it: whole, or an excerpt and the words on where all of it is.

    Long texts are whole in any case: of those only what is in view is laid out.
    """
    if len(values) > MOST_FIELDS:
        found = f"{len(values):,} fields"
    elif _has_more_values(dict(values), MOST_VALUES, lines=False):
        found = f"more than {MOST_VALUES:,} values"
    else:
        return values, None
    whole = f"interlock history export {session} -o FILE"
    return excerpt(values), f"Only an excerpt: it has {found}. All of it: {whole}"


def _has_more_values(value: JsonValue, most: int, *, lines: bool = True) -> bool:
    """Tell whether there are more values in a value, with `lines` and lines of texts.

    Looks at no more than that.
    """
    left: list[JsonValue] = [value]
    found = 0
    while left and found <= most:
        each = left.pop()
        found += 1
        match each:
            case str():
                found += each.count("\n") if lines else 0
            case dict() | list():
                if len(each) > most:
                    return True
                left += each.values() if isinstance(each, dict) else each
            case _:
                pass
    return found > most


def excerpt(values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The beginning and the end of an input, with the beginnings of its texts: few lines, always."""
    names, between = list(values), dict[str, JsonValue]()
    first, last = names[:EXCERPT_FIELDS], names[EXCERPT_FIELDS:]
    if len(last) > EXCERPT_FIELDS:
        between["…"] = f"{len(last) - EXCERPT_FIELDS:,} fields"
        last = last[-EXCERPT_FIELDS:]
    begun = {name: _beginning(values[name]) for name in first}
    return {**begun, **between, **{name: _beginning(values[name]) for name in last}}


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
    """Warning of the claims of other people than `operator`, once for each of them."""

    operator: str
    _told: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def take(self, requests: Iterable[ApprovalState]) -> str | None:
        """Words on the claims that were not told yet; `None` where `requests` may be decided."""
        chosen = list(requests)
        taken = {(each.id, each.claim.by) for each in chosen if each.claim is not None}
        news = {each for each in taken - self._told if not same_person(each[1], self.operator)}
        self._told |= news
        if not news:
            return None
        names = " and ".join(sorted({name for _, name in news}))
        verb = "has" if len({name for _, name in news}) == 1 else "have"
        if len(chosen) == 1:
            return f"{names} {verb} this: press it again to decide it anyway"
        return f"{names} {verb} {len(news)} of these: press it again to decide anyway"


# Drafts of forms for requests that are not decided yet.


MOST = 20

FormDraft = TypeVar("FormDraft")


class FormDrafts(Generic[FormDraft]):
    """Drafts by call, so that a repeated request finds its draft; another original begins a new one.

    `original` gives what of a request its form is about, `begin` the draft of an untouched form.
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
        """The draft of a request's form, as it was left; the newest ones are kept."""
        key, original = (request.session, request.call_id), self._original(request)
        before, draft = self._drafts.pop(key, (None, None))
        if draft is None or not same_json(before, original):
            draft = self._begin(request)
        self._drafts[key] = original, draft
        while len(self._drafts) > MOST:
            del self._drafts[next(iter(self._drafts))]
        return draft

    def forget(self, request: ApprovalState) -> None:
        """The request is decided."""
        self._drafts.pop((request.session, request.call_id), None)


# News of the one request that a dialog shows, from events of the hub.


@dataclass(slots=True)
class News:
    """`ended` says how the request ended, `again` is the id of the one that is asked in its place.

    `meanwhile` says who decided it while a decision from here is under way, be it that one or another.
    `changed` says that it stays open and is not what it was, `queue` that others have come or ended.
    """

    ended: str | None = None
    meanwhile: str | None = None
    again: str | None = None
    changed: bool = False
    queue: bool = False

    @property
    def changes_view(self) -> bool:
        """Tell whether the hub's queue has to be read again."""
        return self.changed or self.queue


def news_of(
    events: Sequence[HubEvent],
    request: ApprovalState,
    *,
    over: bool,
    deciding: bool,
    operator: str = "",
) -> News:
    """News of `request` in `events`; `over` if it had ended before, `deciding` while a decision is sent.

    An answer of the `operator` here is shown as theirs: they need not look for who was faster.
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
