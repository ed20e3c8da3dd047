"""Panel over the approval dialog in which a comment is typed."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input, Static

from ....engine.history.model.state import ApprovalState
from ...format.text import MUTED, clip, name_shown
from ...widgets.inputs.safe_input import TypedLine
from ..common.panel import Panel


class CommentPanel(Panel[str | None]):
    """Panel for a comment: enter sends it, escape cancels. Decides nothing about the request."""

    BINDINGS: ClassVar[list[BindingType]] = []

    DEFAULT_CSS = """
    CommentPanel > .frame { width: 84; max-width: 95%; }
    CommentPanel Static { height: auto; }
    CommentPanel TypedLine { margin: 1 0 0 0; }
    """

    def __init__(self, request: ApprovalState) -> None:
        super().__init__()
        self._request = request

    def compose(self) -> ComposeResult:
        title = f"Comment on {clip(name_shown(self._request.tool), 40)}"
        with self.panel_frame(title, "enter send", ("panel.close", "cancel")):
            yield Static(
                Content.styled("Everybody sees it, and it is recorded. It decides nothing.", MUTED)
            )
            yield TypedLine(
                placeholder="a comment, or @name and a note for that person",
                id="comment",
                max_length=2000,
            )

    def on_mount(self) -> None:
        self.query_one("#comment", TypedLine).focus()

    @on(Input.Submitted)
    def answer(self, message: Input.Submitted) -> None:
        """Close with the typed text unless it is empty."""
        message.stop()
        line = self.query_one("#comment", TypedLine).value.strip()
        if line and self.is_current:
            self.dismiss(line)
