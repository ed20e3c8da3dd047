"""Editor for one field of an input or an answer: text, number, choice, or JSON."""

from __future__ import annotations

from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from ....engine.history.redaction.spans import holds_mask
from ...format.text import MUTED, clip, count, shown, shown_lines, wrap_all
from ...viewmodels.answer_schema import AnswerField
from ...viewmodels.input_draft import FieldError, InputField
from .choice import Choice, Numbered
from .safe_input import TypedLine, TypedText

DESCRIPTION = 3
"""Maximum lines of a field's description."""
BOOLEAN = (("true", "true"), ("false", "false"))


class FieldEditor(Vertical):
    """Name and type of a field, its editor, and below it the problem with the text.

    A field of an answer also shows its description and suggestions.
    """

    DEFAULT_CSS = """
    FieldEditor { height: auto; margin-bottom: 1; }
    FieldEditor > .problem { height: auto; color: $text-error; }
    """

    @dataclass
    class Edited(Message):
        """Something was typed or chosen."""

        name: str
        text: str

    def __init__(self, field: InputField | AnswerField, text: str) -> None:
        super().__init__()
        self.field = field
        self.text = text
        self.refused: str | None = None
        self._name = Static("")
        self._problem = Static("", classes="problem")
        self._editor = self._make_editor()

    def _make_editor(self) -> Widget:
        match self.field.kind:
            case "number" | "integer":
                return TypedLine(self.text)
            case "choice":
                assert isinstance(self.field, AnswerField)
                return Numbered(self.field.options, self.text, id="value")
            case "boolean":
                choice = Choice(BOOLEAN, id="value")
                choice.set_reactive(Choice.chosen, self.text)
                return choice
            case "kept":
                size = count(len(self.field.text), "character")
                return Static(
                    Content.styled(f"{size}: too long to be edited here; it stays as it is", MUTED)
                )
            case _:
                return TypedText(self.text)

    def compose(self) -> ComposeResult:
        yield self._name
        asked = self.field if isinstance(self.field, AnswerField) else None
        if asked is not None and asked.description:
            said = wrap_all(shown_lines(asked.description), 100)[:DESCRIPTION]
            yield Static(Content.styled("\n".join(said), MUTED), classes="about")
        yield self._editor
        if asked is not None and asked.suggestions:
            yield Numbered(asked.suggestions, self.text, id="suggested")
        yield self._problem

    def on_mount(self) -> None:
        self._show()

    def take_focus(self) -> None:
        """Focus the editor."""
        self._editor.focus(scroll_visible=False)

    def on_descendant_focus(self) -> None:
        """Scroll the field's name into view with the editor."""
        self.call_after_refresh(self.scroll_visible, animate=False)

    def refuse(self, reason: str | None) -> None:
        """Show why a check rejected the text, until the text is changed."""
        self.refused = reason
        self._show()

    @property
    def problem(self) -> str | None:
        """Return why the typed text is not accepted; `None` if it is."""
        if self.refused is not None:
            return self.refused
        try:
            self.field.read(self.text)
        except FieldError as error:
            return str(error)
        return None

    def _show(self) -> None:
        problem = self.problem
        # A field that has not been filled in yet is not an error.
        waits = not self.text and self.refused is None and isinstance(self.field, AnswerField)
        self._name.update(_title(self.field, self.text))
        self._problem.update(Content(f"✗ {shown(problem)}" if problem else ""))
        self._problem.display = problem is not None and not waits

    @on(Input.Changed)
    def line_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._take(event.value)

    @on(TextArea.Changed)
    def text_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._take(event.text_area.text)

    @on(Choice.Changed)
    def choice_changed(self, event: Choice.Changed) -> None:
        event.stop()
        if event.choice is self._editor:
            self._take(event.chosen)
        elif event.chosen and event.chosen != self.text:
            self._type(event.chosen)

    def _type(self, text: str) -> None:
        """Enter a suggestion as if it had been typed."""
        match self._editor:
            case TypedLine() as line:
                line.value = text
            case TypedText() as area:
                area.text = text
            case _:
                pass

    def _take(self, text: str) -> None:
        if text == self.text:
            return
        self.text = text
        self.refused = None
        for suggested in self.query("#suggested").results(Choice):
            suggested.chosen = text
        self._show()
        self.post_message(self.Edited(self.field.name, text))


def _title(field: InputField | AnswerField, text: str) -> Content:
    """Return the heading of a field: its name, its type, and notes on its text."""
    name = clip(shown(field.name) or "the whole input", 60)
    begun = Content.assemble((name, "bold $text-accent"), (f"  {shown(field.type_name)}", MUTED))
    if isinstance(field, AnswerField):
        if field.lacking:
            return Content.assemble(begun, ("  required", MUTED if text else "bold $text-warning"))
        return begun if field.required else Content.assemble(begun, ("  optional", MUTED))
    hidden = holds_mask(field.text) or (isinstance(field.value, str) and holds_mask(field.value))
    return Content.assemble(
        begun,
        ("  changed", "bold $text-warning") if text != field.text else "",
        ("  [masked: …] keeps the hidden text" if hidden else "", MUTED),
    )
