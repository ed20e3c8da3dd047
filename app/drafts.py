"""What was typed into forms for requests that are not decided yet."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

from pydantic import JsonValue

from ..engine.history.state import ApprovalState
from ..engine.same_json import same_json
from .answer_draft import AnswerDraft
from .input_draft import Draft

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
