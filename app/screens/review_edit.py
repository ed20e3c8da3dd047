"""What an edit changes, before it is approved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from ...engine.history.state import ApprovalState
from ..input_draft import Change
from ..text import clip, shown
from ..widgets.blocks import Block, BlockList
from ..widgets.change_rows import change_rows
from .about_request import AboutRequest

TOLD = (
    "The edited call is judged from the start: a rule may block it, or ask again. "
    "The agent is told what was changed."
)


class ReviewEdit(AboutRequest[bool]):
    """Before and after, field by field; one key approves, escape goes back to the form."""

    DEFAULT_CSS = """
    ReviewEdit > .frame { border: round $warning; border-title-color: $text-warning; }
    ReviewEdit #told { height: auto; margin-top: 1; color: $text-muted; }
    ReviewEdit #said { height: auto; max-height: 3; }
    """
    DECIDES = ("approve_edited", "approval.edited", "approves it like this")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "a",
            "approve_edited",
            "approve edited",
            id="approval.edited",
            tooltip="Let the call run as it is now",
        ),
    ]

    def __init__(
        self,
        request: ApprovalState,
        changes: Sequence[Change],
        monotonic: Callable[[], float],
        quiet: float,
    ) -> None:
        super().__init__(request, monotonic, quiet)
        self._changes = changes

    def compose(self) -> ComposeResult:
        with Vertical(classes="frame") as frame:
            frame.border_title = Content(f"Changed in {clip(shown(self.request.called), 40)}")
            yield BlockList(id="changes", cursor=False)
            yield Static(TOLD, id="told")
            yield Static("", id="said")

    def on_mount(self) -> None:
        self.query_one("#said").display = False
        body = self.query_one(BlockList)
        body.show([Block("changes", 0, lambda width: change_rows(self._changes, width))])
        body.focus()
        self.tick()

    def action_approve_edited(self) -> None:
        """Approve the call as it is now."""
        self.deliberately(self._approve)

    def _approve(self) -> None:
        if self.is_current and not self.over:
            self.dismiss(True)
