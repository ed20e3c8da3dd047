"""One field of an input with what edits it: a text, a number, a choice, or JSON."""

from __future__ import annotations

from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from ...engine.history.redaction import MASK
from ..input_draft import Field, FieldError
from ..text import clip, shown
from ..words import count
from .choice import Choice
from .typed import TypedLine, TypedText

MUTED = "$foreground 60%"
BOOLEAN = (("true", "true"), ("false", "false"))


class FieldEditor(Vertical):
    """Its name and type, what is typed, and below what is wrong with that."""

    DEFAULT_CSS = """
    FieldEditor { height: auto; margin-bottom: 1; }
    FieldEditor > .problem { height: auto; color: $text-error; }
    """

    @dataclass
    class Edited(Message):
        """Something was typed or chosen."""

        name: str
        text: str

    def __init__(self, field: Field, text: str) -> None:
        super().__init__()
        self.field = field
        self.text = text
        self._name = Static("")
        self._problem = Static("", classes="problem")
        self._editor = self._made()

    def _made(self) -> Widget:
        match self.field.kind:
            case "number":
                return TypedLine(self.text)
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
        yield self._editor
        yield self._problem

    def on_mount(self) -> None:
        self._show()

    def take_focus(self) -> None:
        """Type here next."""
        self._editor.focus()

    def on_descendant_focus(self) -> None:
        """Its name comes into view with what is typed."""
        self.call_after_refresh(self.scroll_visible, animate=False)

    @property
    def problem(self) -> str | None:
        """Why what was typed cannot be taken."""
        try:
            self.field.read(self.text)
        except FieldError as error:
            return str(error)
        return None

    def _show(self) -> None:
        field, problem = self.field, self.problem
        changed = self.text != field.text
        hidden = (isinstance(field.value, str) and MASK in field.value) or MASK in field.text
        name = clip(shown(field.name) or "the whole input", 60)
        self._name.update(
            Content.assemble(
                (name, "bold $text-accent"),
                (f"  {field.type_name}", MUTED),
                ("  changed", "bold $text-warning") if changed else "",
                (f"  {MASK} stays what it hides" if hidden else "", MUTED),
            )
        )
        self._problem.update(Content(f"✗ {shown(problem)}" if problem else ""))
        self._problem.display = problem is not None

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
        self._take(event.chosen)

    def _take(self, text: str) -> None:
        if text != self.text:
            self.text = text
            self._show()
            self.post_message(self.Edited(self.field.name, text))
