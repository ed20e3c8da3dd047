"""What enforce mode would have stopped, session by session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from ...engine.history.decision_counts import RuleShare, ShadowSession, ShadowSummary
from ..decision_text import MUTED, shadow_words, share_lines
from ..keymap import hints, key_of
from ..text import name_shown
from ..widgets.blocks import Block, BlockList
from ..words import count
from .panel import Panel


@dataclass(frozen=True, slots=True)
class ShadowChoice:
    """A session, to `switch` to enforce or else to have its decisions listed that would have differed."""

    session: str
    switch: bool = False


class ShadowPanel(Panel[ShadowChoice]):
    """The shadow sessions; `e` and `enter` answer with the chosen one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "enforce", "enforce", id="shadow.enforce", tooltip="Switch this session to enforce"),
    ]

    def __init__(self, summary: ShadowSummary, *, switches: bool) -> None:
        super().__init__()
        self._summary = summary
        self._switches = switches

    def compose(self) -> ComposeResult:
        with Vertical(classes="frame") as frame:
            frame.border_title = "Shadow mode: what enforce would have done"
            switches = [("shadow.enforce", "enforce this session")] if self._switches else []
            lists = (f"{key_of(BlockList, 'list.open')} lists them", *switches)
            frame.border_subtitle = hints(self, *lists, ("panel.close", "close"))
            yield Static(shadow_words(self._summary))
            yield BlockList()

    def on_mount(self) -> None:
        sessions = self.query_one(BlockList)
        sessions.show([_block(session) for session in self._summary.sessions])
        sessions.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only where sessions run can one be switched."""
        return self._switches if action == "enforce" else True

    def action_enforce(self) -> None:
        """Close with the chosen session."""
        chosen = self.query_one(BlockList).current
        if chosen is not None and self.is_current:
            self.dismiss(ShadowChoice(chosen, switch=True))

    @on(BlockList.Opened)
    def list_decisions(self, message: BlockList.Opened) -> None:
        """Close, to list what enforce would have blocked and asked in the chosen session."""
        message.stop()
        if self.is_current:
            self.dismiss(ShadowChoice(message.key))


def _block(session: ShadowSession) -> Block:
    rows: list[tuple[str, RuleShare]] = [
        *(("■ would block", share) for share in session.blocked),
        *(("◐ would ask", share) for share in session.asked),
    ]

    def lines(width: int) -> list[Content]:
        calls = count(session.calls, "call")
        made = [
            Content(""),
            Content.assemble(
                (name_shown(session.session), "bold"), (f"  {name_shown(session.agent)} · {calls}", MUTED)
            ),
        ]
        if rows:
            made += share_lines(rows, width)
        else:
            made.append(Content.styled("  nothing would have been blocked or asked", MUTED))
        return [row.truncate(width, ellipsis=True) for row in made]

    return Block(session.session, tuple(session), lines, height=lambda _: 2 + max(1, len(rows)))
