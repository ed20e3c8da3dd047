"""Messages that wait for the agent are at the end of the transcript."""

from __future__ import annotations

import pytest

from interlock.app.widgets.lists.transcript import queued_blocks
from interlock.engine.history.model.events import SessionStatus
from interlock.engine.history.model.state import QueuedState, SessionState

from ...support.scenes import NOW, docs_writer
from ...support.stage import stage


def queued(name: str, mode: str, text: str) -> QueuedState:
    return QueuedState.model_validate(
        {"id": name, "since": NOW, "mode": mode, "text": text, "by": "maria"}
    )


def lines(state: SessionState, width: int) -> list[str]:
    found = [line for block in queued_blocks(state) for line in block.lines(width)]
    assert all(line.cell_length <= width for line in found)
    return [line.plain.rstrip() for line in found]


class TestQueued:
    def test_steering_messages_come_first(self) -> None:
        """A-83: steering messages come before queued ones. Each shows its sender and its turn."""
        first, second = queued("a", "queue", "And then this."), queued("b", "steer", "Not that.")
        assert lines(SessionState(id="s1", queued=[first, second]), 80) == [
            "",
            "maria    Not that.",
            "– queued: waits for the next step",
            "",
            "maria    And then this.",
            "– queued: waits for the turn's end",
        ]

    @pytest.mark.parametrize("width", [12, 38, 60, 120])
    def test_long_message_shows_its_beginning(self, width: int) -> None:
        """A long waiting message shows only its beginning, at every width."""
        state = SessionState(id="s1", queued=[queued("a", "steer", "word\n" * 500)])
        assert 4 <= len(lines(state, width)) <= 8

    def test_control_characters_are_visible(self) -> None:
        """A message's control characters are shown, not sent to the terminal."""
        state = SessionState(id="s1", queued=[queued("a", "steer", "x\x1b[31m\u202ey")])
        assert not {"\x1b", "\u202e"} & set("".join(lines(state, 60)))

    async def test_live_screen_shows_messages_until_taken(self) -> None:
        """Waiting messages are below the transcript and disappear when the agent takes them."""
        state = docs_writer()
        state.queued = [queued("a", "queue", "And the index.")]
        async with stage(state) as on:
            await on.until("And the index.")
            assert "queued: waits for the turn's end" in on.painted()
            state.queued = []
            on.hub.publish(state.id, SessionStatus(status="running"))
            for _ in range(100):
                await on.pilot.pause(0.02)
                if "And the index." not in on.painted():
                    break
            assert "And the index." not in on.painted()
