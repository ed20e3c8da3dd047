"""Form in which an operator edits a call's input before approving it.

It decides nothing. It leads to a review of the changes, where a deliberate key approves. Escape returns
to the request, which keeps what was typed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from pydantic import JsonValue
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from .....engine.history.model.state import ApprovalState
from ....format.text import clip, name_shown, shown_lines
from ....terminal.bindings import key_binding
from ....viewmodels.input_draft import FieldError, InputDraft, changes
from ....widgets.base.greyed_keys import Parameters
from ....widgets.inputs.field_editor import FieldEditor
from ....widgets.inputs.form_body import FormBody
from ...common.panel import Panel
from .review_edit import ReviewEdit


class InputForm(Panel[dict[str, JsonValue]]):
    """Dismissed with the edited input if it was approved, else with `None`.

    `draft` is updated with every edit.
    """

    DEFAULT_CSS = """
    InputForm > .frame { border: round $warning; border-title-color: $text-warning; }
    InputForm #edit-problem { height: auto; max-height: 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding(
            "ctrl+s,f5", "review", "review", "edit.review", "Review the changes before you approve"
        ),
    ]

    def __init__(
        self, request: ApprovalState, draft: InputDraft, monotonic: Callable[[], float], quiet: float
    ) -> None:
        super().__init__()
        self.request = request
        self.draft = draft
        self._monotonic = monotonic
        self._quiet = quiet
        self._over: str | None = None

    def compose(self) -> ComposeResult:
        title = f"Edit input of {clip(name_shown(self.request.called), 40)}"
        with self.panel_frame(title, ("edit.review", "review changes"), ("panel.close", "go back")):
            with FormBody():
                for each in self.draft.fields:
                    yield FieldEditor(each, self.draft.text_of(each))
            yield Static("", id="edit-problem")

    def on_mount(self) -> None:
        self.query_one("#edit-problem").display = False
        editors = list(self.query(FieldEditor))
        if editors:
            editors[0].take_focus()

    @on(FieldEditor.Edited)
    def edited(self, event: FieldEditor.Edited) -> None:
        event.stop()
        self.draft.texts[event.name] = event.text
        if self._over is None:
            self.query_one("#edit-problem").display = False
            self.call_after_refresh(self.query_one(FormBody).refit)

    def action_review(self) -> None:
        """Open the review of the changes.

        If the input is invalid, report the problem and focus its field.
        """
        try:
            edited = self.draft.edited()
        except FieldError as error:
            next(each for each in self.query(FieldEditor) if each.problem is not None).take_focus()
            self._say(f"Not yet. {error}")
            return
        found = changes(self.draft.original, edited)
        if not found:
            self._say("Nothing is changed yet")
            return

        def answered(yes: bool | None) -> None:
            if yes and self._over is None and self.is_current:
                self.dismiss(edited)

        self.app.push_screen(ReviewEdit(self.request, found, self._monotonic, self._quiet), answered)

    def request_over(self, text: str) -> None:
        """Disable the review, since the request can no longer be approved.

        The typed text can still be copied.
        """
        self._over = text
        self._say(text)
        self.refresh_bindings()

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Return why changes cannot be reviewed: the request is no longer open."""
        return self._over if action == "review" else None

    def show_obstacle(self, reason: str) -> None:
        """Show the reason below the fields."""
        self._say(reason)

    def _say(self, text: str) -> None:
        self.show_text("#edit-problem", "\n".join(shown_lines(text)), "bold $text-error")
        self.call_after_refresh(self.query_one(FormBody).refit)
