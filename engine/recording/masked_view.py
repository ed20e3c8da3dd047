"""Session state as shown to operators, secrets masked, streamed text included."""

from __future__ import annotations

from ..history.fold.fold import apply, snapshot
from ..history.model.events import JournalEvent
from ..history.model.state import CallState, SessionState
from ..history.redaction.redaction import Redaction

HELD_BACK = 4096
"""Characters of streamed text that wait at most for more."""

CONTEXT = 256
"""Characters before a word that decide whether it is a secret."""

SAMPLE = "dXNlcjpwYXNzd29yZA"
"""Nothing by itself, a password after anything that announces one."""


class MaskedSessionState:
    """A session's state, and the same as it is shown; one object until there is something to hide."""

    def __init__(self, state: SessionState, redaction: Redaction) -> None:
        self.state = state
        self._redaction = redaction
        shown = shown_state(state, redaction)
        self._shown = None if shown is state else shown

    @property
    def shown(self) -> SessionState:
        return self.state if self._shown is None else self._shown

    def apply(self, event: JournalEvent) -> JournalEvent:
        """Move on by an event, which is returned as it is shown. Raises as `fold.apply`."""
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
    """`state` with its secrets masked; the same object where there are none."""
    calls = {key: redaction.model(call) for key, call in state.calls.items()}
    masked: dict[int, CallState] = {
        id(call): calls[key] for key, call in state.calls.items() if calls[key] is not call
    }

    def entry_call(call: CallState) -> CallState:
        # A repeated id has several calls, of which `calls` knows the last.
        return masked.get(id(call)) or redaction.model(call)

    transcript = [
        redaction.model(entry)
        if entry.call is None or (call := entry_call(entry.call)) is entry.call
        else entry.model_copy(update={"call": call})
        for entry in state.transcript
    ]
    approvals = {key: redaction.request(asked) for key, asked in state.approvals.items()}
    grants = {key: redaction.model(grant) for key, grant in state.grants.items()}
    queued = [redaction.model(each) for each in state.queued]
    error = None if state.error is None else redaction.text(state.error)
    same = (
        not masked
        and all(a is b for a, b in zip(transcript, state.transcript, strict=True))
        and all(approvals[key] is asked for key, asked in state.approvals.items())
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
    """Text that comes in pieces, masked: what may become a secret is held back until it is whole."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._held: dict[tuple[str, str | None], str] = {}

    def take(self, session: str, call_id: str | None, text: str) -> str:
        """Text that may be shown now, after another piece of a tool's output or of the agent's words."""
        held = self._held.pop((session, call_id), "") + text
        cut = _last_word(held, len(held))
        while cut > 0 and self._hides_next(held[max(0, cut - CONTEXT) : cut]):
            cut = _last_word(held, cut - 1)
        if cut == 0 and len(held) > HELD_BACK:
            cut = len(held)
        if held[cut:]:
            self._held[session, call_id] = held[cut:]
        return self._redaction.text(held[:cut])

    def forget(self, session: str, call_id: str | None) -> None:
        """Forget what was held back: the whole is now in the record."""
        self._held.pop((session, call_id), None)

    def _hides_next(self, text: str) -> bool:
        """True if a word after `text` would be masked because of what precedes it."""
        return SAMPLE not in self._redaction.text(text + SAMPLE)


def _last_word(text: str, end: int) -> int:
    """Index at which the last word of `text[:end]` begins: after its last white space."""
    return max(text.rfind(space, 0, end) for space in (" ", "\n", "\t")) + 1
