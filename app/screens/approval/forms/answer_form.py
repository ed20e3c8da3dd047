"""Form in which an operator fills in the answer that a request wants.

The form is at the foot of the screen, so that the request stays readable above it. It stays open until
the answer is accepted. Problems are shown at the fields, and nothing typed is lost. Only one key sends;
`enter` and pasted text go into the focused field. Escape returns to the request and keeps what was typed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, cast

from pydantic import JsonValue
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from .....engine.history.model.state import ApprovalState
from .....engine.hub.hub import Outcome
from ....format.text import MUTED, clip, name_shown, shown, shown_lines
from ....terminal.bindings import key_binding
from ....terminal.keymap import key_of
from ....viewmodels.answer_schema import AnswerDraft, AnswerField
from ....viewmodels.input_draft import FieldError
from ....widgets.approval.request import question_lines
from ....widgets.inputs.choice import MOST, Numbered
from ....widgets.inputs.field_editor import FieldEditor
from ....widgets.inputs.form_body import FormBody
from ....widgets.inputs.safe_input import TypedText
from ..panel import RequestPanel

QUESTION = 4
"""Maximum lines of the question above the fields; the request shows all of it."""


class AnswerForm(RequestPanel[None]):
    """Form that passes a complete answer to `send`, which returns whether it is being sent.

    The dialog reports the outcome by `answered`. `draft` is updated with every edit.
    """

    DEFAULT_CSS = """
    AnswerForm { align: center bottom; background: $background 35%; }
    AnswerForm > .frame {
        margin-bottom: 1;
        max-height: 100%;
        border: round $warning;
        border-title-color: $text-warning;
    }
    AnswerForm #question { height: auto; margin-bottom: 1; }
    AnswerForm #said { height: auto; max-height: 4; }
    AnswerForm .about { height: auto; }
    AnswerForm FieldEditor { border-left: blank; padding-left: 1; }
    AnswerForm FieldEditor:focus-within { border-left: outer $primary; }
    """
    AUTO_FOCUS = ""
    DECIDES = ("send_answer", "approval.answer", "send the answer")
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding(
            "ctrl+s,f5",
            "send_answer",
            "send",
            "approval.answer",
            "Send the answer as filled in",
        ),
    ]

    def __init__(
        self,
        request: ApprovalState,
        draft: AnswerDraft,
        send: Callable[[dict[str, JsonValue]], bool],
        monotonic: Callable[[], float],
        quiet: float,
    ) -> None:
        super().__init__(request, monotonic, quiet)
        self.draft = draft
        self._send = send
        self._sending = False
        self._typed_at: float | None = None

    def compose(self) -> ComposeResult:
        with self.panel_frame(self._title()):
            yield Static("", id="question")
            with FormBody():
                for each in self.draft.fields:
                    yield FieldEditor(each, self.draft.text_of(each))
            yield Static("", id="said")

    def _title(self) -> str:
        """Return the title: that of the request, and its agent."""
        who = clip(name_shown(self.request.agent or self.request.session), 30)
        return f"{clip(shown(self.request.title), 40)} — {who}"

    def on_mount(self) -> None:
        self.query_one("#said").display = False
        for area in self.query(TypedText):
            area.move_cursor(area.document.end)  # Continue at the end of the draft.
        self._ask()
        self._first_to_fill_in().take_focus()
        self.tick()

    def on_resize(self) -> None:
        self._ask()

    def _ask(self) -> None:
        """Show the question above the fields."""
        rows = question_lines(self.request, max(20, min(118, self.app.size.width * 9 // 10) - 4))
        if len(rows) > QUESTION:
            rows = [*rows[: QUESTION - 1], Content.styled("│ … the request shows all of it", MUTED)]
        self.query_one("#question", Static).update(Content("\n").join(rows))
        self._refit()

    def _refit(self) -> None:
        """Fit the fields to the space left by the messages."""
        self.call_after_refresh(self.query_one(FormBody).refit)

    def _show_focused(self) -> None:
        """Scroll the focused field into view, including the problem of the last edit."""
        editor = self.focused and self.focused.parent
        if isinstance(editor, FieldEditor):
            editor.scroll_visible(animate=False)

    def _first_to_fill_in(self) -> FieldEditor:
        editors = list(self.query(FieldEditor))
        return next((each for each in editors if each.problem is not None), editors[0])

    def tick(self) -> None:
        """Show what the keys do, that they are inert, or that the answer is being sent."""
        super().tick()
        if self._sending and self.is_mounted:
            self.query_one(".frame").border_subtitle = Content("sending…")

    def how(self) -> Content:
        """Return hints for filling in the focused field and moving to the next."""
        if self.app.size.width < 80:
            return Content("")
        ways = [f"1-{number} choose"] if (number := self._numbers()) > 1 else []
        if len(self.draft.fields) > 1:
            ways.append(f"{key_of(AnswerForm, 'focus.next')} next")
        return Content("".join(f"{each} · " for each in ways))

    def _numbers(self) -> int:
        """Return how many number keys select something in the focused field."""
        editor = self.focused and self.focused.parent
        if not isinstance(self.focused, Numbered) or not isinstance(editor, FieldEditor):
            return 0
        asked = cast("AnswerField", editor.field)
        return min(MOST, len(asked.options if self.focused.id == "value" else asked.suggestions))

    @on(FieldEditor.Edited)
    def edited(self, event: FieldEditor.Edited) -> None:
        event.stop()
        self.draft.texts[event.name] = event.text
        self._typed_at = self.monotonic()
        self.call_after_refresh(self._show_focused)
        if self._coming is not None:
            self.interrupted()
        elif not self.over and not self._sending:
            self.query_one("#said").display = False
            self._refit()

    def action_send_answer(self) -> None:
        """Send the answer. If it is incomplete, report the first problem and focus its field."""
        if self._sending or self.over:
            return
        try:
            answer = self.draft.answer()
        except FieldError as error:
            self._first_to_fill_in().take_focus()
            self.say(f"Not yet. {error}")
            return
        if self._typed_at is not None and self.monotonic() - self._typed_at < self.quiet:
            # This key may be the end of text that a terminal pasted key by key.
            self.fall_asleep()
            self.say("Keys pressed too fast; nothing was sent", bad=False)
            return
        self.deliberately(lambda: self._give(answer))

    def _give(self, answer: dict[str, JsonValue]) -> None:
        if self.over or self._sending:
            return
        self._sending = self._send(answer)
        self.tick()

    def answered(self, outcome: Outcome) -> None:
        """Close if the answer was accepted, else show the problems at their fields."""
        self._sending = False
        if outcome.ok:
            if self.is_current:
                self.dismiss(None)
            return
        if self.over:
            return
        complaints = self.draft.complained(outcome.message)
        refused = [each for each in self.query(FieldEditor) if each.field.name in complaints]
        for each in refused:
            each.refuse(complaints[each.field.name])
        if refused:
            refused[0].take_focus()
        self.fall_asleep()
        self.say(outcome.message)

    def action_close(self) -> None:
        """Return to the request, which keeps what was typed. Sends nothing."""
        if not self._sending:
            super().action_close()

    def say(self, text: str, *, bad: bool = True) -> None:
        style = "bold $text-error" if bad else "bold $text-warning"
        self.show_text("#said", "\n".join(shown_lines(text)), style)
        self._refit()
