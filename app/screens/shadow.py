"""What enforce mode would have stopped, session by session."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from ...engine.history.decision_counts import RuleShare, ShadowSession, ShadowSummary
from ..decision_text import MUTED, shadow_words
from ..keymap import hints
from ..text import pad, shown
from ..widgets.blocks import Block, BlockList
from ..words import count
from .panel import Panel


class ShadowPanel(Panel[str]):
    """The shadow sessions; `e` answers with the chosen one, to be switched to enforce."""

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
            frame.border_subtitle = hints(self, *switches, ("panel.close", "close"))
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
            self.dismiss(chosen)


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
                (shown(session.session), "bold"), (f"  {shown(session.agent)} · {calls}", MUTED)
            ),
        ]
        for verdict, share in rows:
            ended = share.ended
            made.append(
                Content.assemble(
                    (f"  {verdict:<14}", "$text-secondary"),
                    (f"{ended.calls:>7,}  ", "bold"),
                    (pad(shown(share.net or "no rule"), min(34, max(10, width - 60))), ""),
                    (f"  ✓ {ended.done:,} done", "$text-success" if ended.done else MUTED),
                    (f"  ✗ {ended.failed:,} failed", "$text-error" if ended.failed else MUTED),
                )
            )
        if not rows:
            made.append(Content.styled("  nothing would have been blocked or asked", MUTED))
        return [row.truncate(width, ellipsis=True) for row in made]

    return Block(session.session, session, lines, height=lambda _: 2 + max(1, len(rows)))
