"""Review of an edit's changes before it is approved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import ActiveBinding, BindingType
from textual.content import Content
from textual.widgets import Static

from .....engine.history.model.state import ApprovalState
from ....format.text import clip, name_shown
from ....terminal.bindings import key_binding
from ....viewmodels.input_draft import Change, edit_effects, edit_words
from ....widgets.approval.change_rows import change_rows
from ....widgets.approval.reviewed_list import ReviewedList
from ....widgets.base.blocks import Block
from ..keys import edit_keys, page_keys
from ..panel import RequestPanel


class ReviewEdit(RequestPanel[bool]):
    """Shows old and new values field by field. One key approves; escape returns to the form."""

    DEFAULT_CSS = """
    ReviewEdit > .frame { border: round $warning; border-title-color: $text-warning; }
    ReviewEdit #told { height: auto; margin-top: 1; color: $text-muted; }
    ReviewEdit #said { height: auto; max-height: 3; }
    """
    DECIDES = ("approve_edited", "approval.edited", "approve with these changes")
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding(
            "a", "approve_edited", "approve edited", "approval.edited", "Let the call run as it is now"
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
        self._body = ReviewedList(id="changes")
        self._body.guard.begin(request.id)

    def compose(self) -> ComposeResult:
        with self.panel_frame(f"Changed in {clip(name_shown(self.request.called), 40)}"):
            yield self._body
            yield Static(" ".join(edit_effects(self.request)), id="told")
            yield Static("", id="said")

    def on_mount(self) -> None:
        self.query_one("#said").display = False
        self._body.show([Block("changes", 0, self._rows)])
        self._body.focus()
        self.tick()

    def _rows(self, width: int) -> Sequence[Content]:
        """Return the lines, and register them as lines that must be seen."""
        rows = change_rows(self._changes, width)
        self._body.guard.arrange(width, [row.plain for row in rows])
        return rows

    def tick(self) -> None:
        """Update the hints, and record lines that are on screen now."""
        super().tick()
        if self.is_mounted:
            self._body.look_again()

    @property
    def decides(self) -> tuple[str, str, str]:
        """Return the deciding action. Until everything was seen, its key shows the next page."""
        if self._body.guard.complete:
            return (*self.DECIDES[:2], edit_words(self.request))
        return (*self.DECIDES[:2], f"show the next page · {self._body.unseen_note}")

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        found = super().active_bindings
        if not self._body.guard.complete:
            return page_keys(found, self.DECIDES[1])
        return edit_keys(found, self.request)

    def action_approve_edited(self) -> None:
        """Show the next unseen page. Once all was seen, approve the call with its changes."""
        if self._body.guard.complete:
            self.deliberately(self._approve)
        else:
            self.show_more(self._body.show_next_page)

    def _approve(self) -> None:
        if self.is_current and not self.over:
            self.dismiss(True)
