"""Messages of a tab about a request, and the decisions that they make.

A form identifies its fields by number, because the field names of an input are chosen by an agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool

from ....engine.approvals.passkeys import KeyAnswer
from ....engine.core.sanitize import visible
from ....engine.history.model.state import ApprovalState
from ...screens.approval.grant import OF_SUBAGENT
from ...viewmodels.answer_schema import AnswerDraft
from ...viewmodels.grant_terms import (
    Bound,
    TermsError,
    exact_only_reason,
    limits,
    of_subagent,
    sentence,
    terms,
)
from ...viewmodels.input_draft import FieldError, InputDraft, changes, edit_effects, edit_words
from ...viewmodels.request import OperatorDecision
from .request_view import Difference, change_texts

Texts = dict[Annotated[str, Field(max_length=4)], Annotated[str, Field(max_length=20_000)]]


class _Sent(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str


class Answer(_Sent):
    """A decision: `texts` fill in a form, `review` is the token of the changes or grant shown before."""

    approved: StrictBool
    reason: Annotated[str, Field(max_length=2000)] = ""
    stop: StrictBool = False
    texts: Texts | None = None
    review: str | None = None
    passkey: KeyAnswer | None = None


class Reveal(_Sent):
    """Request to show masked text."""


class Extend(_Sent):
    """Request for more time."""


class TakeBack(_Sent):
    """Request to take back an approval whose call has not been released."""


class Claim(_Sent):
    """Request to claim an approval request or give it up.

    `own` says whether the page shows it as theirs.
    """

    own: StrictBool


class Comment(_Sent):
    """A comment on a request; a text that begins with `@name` asks that person to look at it."""

    text: Annotated[str, Field(max_length=2000)]


class Freeze(BaseModel):
    """Request to freeze all agents, or to end the freeze whose stamp is in `lift`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: Annotated[str, Field(max_length=2000)] = ""
    lift: str | None = None


class Edit(_Sent):
    """Changes of an input, to be reviewed."""

    kind: Literal["edit"]
    texts: Texts


class Grant(_Sent):
    """A grant, to be reviewed."""

    kind: Literal["grant"]
    scope: Literal["names", "input"]
    bound: Bound
    typed: Annotated[str, Field(max_length=20)] = ""
    subagents: StrictBool = False
    reason: Annotated[str, Field(max_length=2000)] = ""


@dataclass(frozen=True, slots=True)
class ReviewText:
    """Text to read before the decision is sent, and the label of its button."""

    title: str
    lines: tuple[str, ...]
    differences: tuple[Difference, ...]
    button: str


@dataclass
class NotYetError(ValueError):
    """An answer that cannot be accepted yet; `fields` maps form fields to their problems."""

    message: str
    fields: dict[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        return self.message


def reviewed_edit(request: ApprovalState, edit: Edit) -> tuple[OperatorDecision, ReviewText]:
    """Return the decision with an edited input, and its review. Raises `NotYetError`."""
    draft = InputDraft(request.input)
    for at, each in enumerate(draft.fields):
        if (text := edit.texts.get(str(at))) is not None:
            draft.texts[each.name] = text
    _check(draft)
    edited = draft.edited()
    found = changes(draft.original, edited)
    if not found:
        raise NotYetError("Nothing is changed yet")
    button = edit_words(request).capitalize()
    text = ReviewText("Changed", edit_effects(request), change_texts(found), button)
    return OperatorDecision(True, edited=edited), text


def _check(draft: InputDraft | AnswerDraft) -> None:
    problems: dict[str, str] = {}
    for at, each in enumerate(draft.fields):
        typed = draft.texts.get(each.name, each.text)
        try:
            each.read(typed)
        except FieldError as error:
            problems[str(at)] = visible(str(error))
    if problems:
        raise NotYetError("Not yet: a field is not valid as it is", problems)


def reviewed_grant(request: ApprovalState, grant: Grant) -> tuple[OperatorDecision, ReviewText]:
    """Return the decision with a grant, and its review. Raises `NotYetError`."""
    if exact_only_reason(request) is not None and grant.scope != "input":
        raise NotYetError("Only exactly this input can be granted")
    if of_subagent(request) and not grant.subagents:
        raise NotYetError(OF_SUBAGENT, {"subagents": OF_SUBAGENT})
    try:
        chosen = terms(grant.scope, grant.bound, grant.typed, subagents=grant.subagents)
    except TermsError as error:
        raise NotYetError(str(error), {"typed": str(error)}) from error
    reason = grant.reason.strip()
    if not reason:
        why = "Type a reason: it is recorded with the grant"
        raise NotYetError(why, {"reason": why})
    lines = (
        sentence(request, chosen),
        limits(request, chosen.scope),
        "It can be revoked in the console.",
    )
    return (
        OperatorDecision(True, reason, grant=chosen),
        ReviewText("Approve and grant", lines, (), "Approve and grant"),
    )


def filled_in(request: ApprovalState, texts: Mapping[str, str]) -> dict[str, JsonValue]:
    """Return the filled-in answer that a request wants. Raises `NotYetError`."""
    draft = _draft(request, texts)
    _check(draft)
    return draft.answer()


def complaints(request: ApprovalState, texts: Mapping[str, str], problem: str) -> dict[str, str]:
    """Return the problems found in an answer, by form field."""
    draft = _draft(request, texts)
    found = draft.complained(problem)
    return {str(at): found[e.name] for at, e in enumerate(draft.fields) if e.name in found}


def _draft(request: ApprovalState, texts: Mapping[str, str]) -> AnswerDraft:
    draft = AnswerDraft.of(request)
    for at, each in enumerate(draft.fields):
        if (text := texts.get(str(at))) is not None:
            draft.texts[each.name] = text
    return draft
