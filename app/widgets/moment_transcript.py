"""The transcript as it stood at one moment of a replay."""

from __future__ import annotations

from ...engine.history.events import JournalEvent
from ...engine.history.state import SessionState
from ..flow import Flow
from .transcript import Transcript, entry_block, tail_blocks


class MomentTranscript(Transcript):
    """Everything said and done up to an event; the entry that the event belongs to has the cursor."""

    def show_moment(self, state: SessionState, event: JournalEvent) -> None:
        """Show the transcript of `state`, the session when `event` had happened."""
        still = Flow()
        entries = state.transcript
        blocks = [
            entry_block(str(at), entry, state.agent, still, event.at) for at, entry in enumerate(entries)
        ]
        tail = tail_blocks(state, still)
        self.show([*blocks, *tail])
        if tail:
            self.select(tail[-1].key)
        elif blocks:
            self.select(str(entry_of(state, event)))
        # A list that has just become longer than its pane can only scroll once it has been laid out.
        self.call_after_refresh(self._reveal)


def entry_of(state: SessionState, event: JournalEvent) -> int:
    """The place in the transcript that an event belongs to: its call's latest entry, else the last."""
    last = len(state.transcript) - 1
    call_id: str | None = getattr(event.body, "call_id", None)
    if call_id is None:
        return last
    entries = range(last, -1, -1)
    return next((i for i in entries if (c := state.transcript[i].call) and c.call_id == call_id), last)
