"""Panel with a flow's graph and the values from the record of its last step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from textual import on
from textual.message import Message

from ....engine.history.model.events import JournalEvent
from ....engine.history.model.records import FlowStepped
from ....engine.history.model.state import SessionState
from ...format.text import MUTED
from ...widgets.base.blocks import BlockList
from ...widgets.nets.flow_graph import flow_picture
from ...widgets.nets.flow_lines import flow_title
from ...widgets.replay.event_details import fields
from ..common.detail import Detail, section, text_blocks

ReadEvents: TypeAlias = Callable[[], Awaitable[Sequence[JournalEvent]]]
WHERE = ("step", "node", "live", "waits", "done", "waits for")
"""Fields that the picture already shows."""


class FlowPanel(Detail):
    """Graph of a session's flow. `read` returns the events that record the values of its states."""

    @dataclass
    class Read(Message):
        """The last recorded step, or the reason why it is not known."""

        step: FlowStepped | None
        problem: str = ""

    def __init__(self, state: SessionState, read: ReadEvents | None = None) -> None:
        assert state.flow is not None
        super().__init__(flow_title(state.flow), flow_picture(state))
        self._read = read

    def on_mount(self) -> None:
        if self._read is not None:
            self.run_worker(self._look(self._read), exit_on_error=False)

    async def _look(self, read: ReadEvents) -> None:
        try:
            events = await read()
            steps = (e.body for e in reversed(events) if isinstance(e.body, FlowStepped))
            self.post_message(self.Read(next(steps, None)))
        except Exception as error:
            self.post_message(self.Read(None, str(error) or type(error).__name__))

    @on(Read)
    def show_step(self, message: Read) -> None:
        """Show the flow's values below its graph."""
        blocks = [*self._blocks]
        if message.step is None:
            text = f"cannot be read: {message.problem}" if message.problem else "nothing is recorded"
            blocks += [section("it holds"), *text_blocks("nothing", text, style=MUTED)]
        else:
            for name, lines in fields(message.step):
                if name not in WHERE:
                    blocks += text_blocks(f"{name} label", f"\n{name}", style="bold $text-primary")
                    blocks += text_blocks(name, "\n".join(lines))
        self.query_one(BlockList).show(blocks)
