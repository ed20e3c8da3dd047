"""Session state as shown to operators, secrets masked, streamed text included."""

from __future__ import annotations

from ..history.fold.fold import apply, snapshot
from ..history.model.events import JournalEvent
from ..history.model.state import CallState, SessionState
from ..history.redaction.redaction import Redaction

HELD_BACK = 4096
"""Most characters of streamed text that are held back."""

CONTEXT = 256
"""Characters before a word that decide whether it is a secret."""

SAMPLE = "dXNlcjpwYXNzd29yZA"
"""A word that is not a secret by itself, but a password after text that announces one."""


class MaskedSessionState:
    """A session's state with its masked view; both are the same object while nothing needs masking."""

    def __init__(self, state: SessionState, redaction: Redaction) -> None:
        self.state = state
        self._redaction = redaction
        shown = shown_state(state, redaction)
        self._shown = None if shown is state else shown

    @property
    def shown(self) -> SessionState:
        return self.state if self._shown is None else self._shown

    def apply(self, event: JournalEvent) -> JournalEvent:
        """Apply an event, and return its masked form. Raises as `fold.apply`."""
        masked = self._redaction.event(event)
        if masked is not event and self._shown is None:
            self._shown = snapshot(self.state)
        apply(self.state, event)
        if self._shown is not None:
            apply(self._shown, masked)
        return masked

    def fail(self, error: str) -> None:
        """Show a failure that no event could record."""
        for state in (self.state, self.shown):
            state.status = "failed"
            state.error = self._redaction.text(error)


def shown_state(state: SessionState, redaction: Redaction) -> SessionState:
    """`state` with its secrets masked; the same object if there are none."""
    calls = {key: redaction.model(call) for key, call in state.calls.items()}
    masked: dict[int, CallState] = {
        id(call): calls[key] for key, call in state.calls.items() if calls[key] is not call
    }

    def entry_call(call: CallState) -> CallState:
        # A repeated id has several calls, and `calls` has only the last one.
        return masked.get(id(call)) or redaction.model(call)

    transcript = [
        redaction.model(entry)
        if entry.call is None or (call := entry_call(entry.call)) is entry.call
        else entry.model_copy(update={"call": call})
        for entry in state.transcript
    ]
    approvals = {key: redaction.request(approval) for key, approval in state.approvals.items()}
    grants = {key: redaction.model(grant) for key, grant in state.grants.items()}
    queued = [redaction.model(each) for each in state.queued]
    error = None if state.error is None else redaction.text(state.error)
    same = (
        not masked
        and all(a is b for a, b in zip(transcript, state.transcript, strict=True))
        and all(approvals[key] is approval for key, approval in state.approvals.items())
        and all(grants[key] is grant for key, grant in state.grants.items())
        and all(a is b for a, b in zip(queued, state.queued, strict=True))
        and error is state.error
    )
    if same:
        return state
    shown = snapshot(state)
    shown.calls, shown.transcript, shown.approvals = calls, transcript, approvals
    shown.queued, shown.error, shown.grants = queued, error, grants
    return shown


class Streams:
    """Masks text that arrives in pieces: possible beginnings of secrets are held back until complete."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._held: dict[tuple[str, str | None], str] = {}

    def take(self, session: str, call_id: str | None, text: str) -> str:
        """Text that may be shown now, after another piece of a tool's output or of the agent's text."""
        text_so_far = self._held.pop((session, call_id), "") + text
        cut = _last_word(text_so_far, len(text_so_far))
        while cut > 0 and self._hides_next(text_so_far[max(0, cut - CONTEXT) : cut]):
            cut = _last_word(text_so_far, cut - 1)
        if cut == 0 and len(text_so_far) > HELD_BACK:
            cut = len(text_so_far)
        if text_so_far[cut:]:
            self._held[session, call_id] = text_so_far[cut:]
        return self._redaction.text(text_so_far[:cut])

    def forget(self, session: str, call_id: str | None) -> None:
        """Drop the held-back text: the complete text is now in the record."""
        self._held.pop((session, call_id), None)

    def _hides_next(self, text: str) -> bool:
        """True if a word after `text` would be masked because of the text before it."""
        return SAMPLE not in self._redaction.text(text + SAMPLE)


def _last_word(text: str, end: int) -> int:
    """Index at which the last word of `text[:end]` begins: after its last white space."""
    return max(text.rfind(space, 0, end) for space in (" ", "\n", "\t")) + 1
