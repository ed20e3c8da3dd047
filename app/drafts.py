"""What was typed into forms for requests that are not decided yet."""

from __future__ import annotations

from ..engine.history.state import ApprovalState
from ..engine.same_json import same_json
from .input_draft import Draft

MOST = 20


class Drafts:
    """By call, so that a request that is asked again finds it too; with another input it starts anew."""

    def __init__(self) -> None:
        self._drafts: dict[tuple[str, str], Draft] = {}

    def of(self, request: ApprovalState) -> Draft:
        """The draft of a request's input, as it was left."""
        key = (request.session, request.call_id)
        draft = self._drafts.pop(key, None)
        if draft is None or not same_json(dict(draft.original), request.input):
            draft = Draft(request.input)
        self._drafts[key] = draft
        while len(self._drafts) > MOST:
            del self._drafts[next(iter(self._drafts))]
        return draft

    def forget(self, request: ApprovalState) -> None:
        """The request is decided."""
        self._drafts.pop((request.session, request.call_id), None)
