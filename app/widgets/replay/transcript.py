"""Transcript at one moment of a replay."""

from __future__ import annotations

from textual.content import Content

from ....engine.history.fold.outline import WINDOW
from ....engine.history.model.events import JournalEvent
from ....engine.history.model.state import SessionState
from ...format.calls import call_of
from ...viewmodels.stream import LiveStream
from ..base.blocks import Block, line_block
from ..lists.transcript import Transcript, column_of, entry_block, tail_blocks

LONGEST = WINDOW
"""Maximum entries shown before a moment, so that a jump does not depend on the session's length."""


class MomentTranscript(Transcript):
    """Everything said and done up to an event, with the cursor on the event's entry."""

    def show_moment(self, state: SessionState, event: JournalEvent, earlier: int = 0) -> None:
        """Show the transcript of `state`, the session after `event`.

        Its first `earlier` entries are missing. The keys of the blocks are entry numbers.
        """
        still = LiveStream()
        first = max(0, len(state.transcript) - LONGEST)
        blocks = [_omission_block(earlier + first)] if earlier + first else []
        column = column_of(state)
        blocks += [
            entry_block(str(at), entry, state.agent, still, event.at, state.labels, column)
            for at, entry in enumerate(state.transcript[first:], earlier + first)
        ]
        tail = tail_blocks(state, still, event.at)
        self.show([*blocks, *tail])
        if tail:
            self.select(tail[-1].key)
        elif blocks:
            self.select(str(earlier + entry_of(state, event)))
        # A list that has just become longer than its pane can scroll only after layout.
        self.call_after_refresh(self._reveal)


def _omission_block(count: int) -> Block:
    text = f"… {count:,} earlier entries; go back to an earlier event to read them"
    line = Content.styled(text, "italic $text-muted")
    return line_block("left out", count, line, selectable=False)


def entry_of(state: SessionState, event: JournalEvent) -> int:
    """Return the index of an event's transcript entry: its call's latest entry, else the last one."""
    last = len(state.transcript) - 1
    call_id = call_of(event)
    if call_id is None:
        return last
    entries = range(last, -1, -1)
    return next((i for i in entries if (c := state.transcript[i].call) and c.call_id == call_id), last)
