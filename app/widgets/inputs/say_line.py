"""Line for a message to an agent, sent at once or queued for the end of its turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from ...format.text import MUTED, clip, shown
from ...terminal.bindings import key_binding
from ...terminal.charset import pointer
from ...terminal.keymap import key_of
from ..base.typed_app import TypedApp


class SayLine(TypedApp, Horizontal):
    """Line that names its session. The session stays the same even if the selection moves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("escape", "cancel", "cancel", "say.cancel", "Close the line, send nothing"),
        key_binding(
            "tab",
            "turn",
            "send after its turn",
            "say.turn",
            "Interrupt the agent, or have it read this after its turn",
            priority=True,
        ),
    ]

    DEFAULT_CSS = """
    SayLine {
        display: none;
        height: 1;
        padding: 0 1;
        background: $boost;
        & Static { width: auto; }
        & Input, & Input:focus { width: 1fr; height: 1; border: none; padding: 0; background: $boost; }
    }
    """

    @dataclass
    class Said(Message):
        """Message for the agent of a session."""

        session: str
        text: str
        mode: Literal["steer", "queue"]

    class Closed(Message):
        """The line was closed, with or without a message."""

    def __init__(self) -> None:
        super().__init__()
        self._session: str | None = None
        self._name = ""
        self._drafts: dict[str, str] = {}
        self._mode: Literal["steer", "queue"] = "steer"

    def compose(self) -> ComposeResult:
        yield Static("", id="say-to")
        yield Input(id="say")
        yield Static("", id="say-keys")

    @property
    def is_open(self) -> bool:
        return self._session is not None

    @property
    def input(self) -> Input:
        """Return the input line in which the message is typed."""
        return self.query_one(Input)

    def open(self, session: str, name: str) -> None:
        """Open the line for a message to `session`, shown as `name`, with the draft that was left there.

        The line is focused as soon as it is shown, so that typed text never reaches the screen's keys.
        """
        self._session, self._name, self._mode = session, name, "steer"
        self._label()
        self.query_one("#say-keys").display = self.app.size.width >= 80
        self.input.value = self._drafts.pop(session, "")
        self.input.cursor_position = len(self.input.value)
        self.display = True
        self.screen.set_focus(self.input)
        if self.screen.focused is not self.input:
            self.action_cancel()

    def close_with_draft(self) -> None:
        """Close the line, and keep what was typed as a draft for the session."""
        if self._session is not None:
            self._drafts[self._session] = self.input.value
            self.action_cancel()

    def _label(self) -> None:
        who = clip(shown(self._name), max(6, self.app.size.width // 3))
        at_once = self._mode == "steer"
        when = "To " if at_once else "After its turn, to "
        label = Content.assemble((when, MUTED), (who, "bold $text-warning"), f" {pointer()} ")
        self.query_one("#say-to", Static).update(label)
        self.input.placeholder = "Message (interrupts the agent)" if at_once else "Message"
        turn, cancel = key_of(SayLine, "say.turn"), key_of(SayLine, "say.cancel")
        other = "send after its turn" if at_once else "interrupt instead"
        keys = Content.styled(f" {turn} {other} · {cancel} cancel", MUTED)
        self.query_one("#say-keys", Static).update(keys)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the tab key to the screen while the line is closed."""
        return self.is_open if action == "turn" else True

    def action_turn(self) -> None:
        """Switch between sending at once and queueing for the end of the turn."""
        self._mode = "queue" if self._mode == "steer" else "steer"
        self._label()

    @on(Input.Submitted)
    def submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value.strip()
        if self._session is not None and text:
            self.post_message(self.Said(self._session, text, self._mode))
        self.action_cancel()

    def action_cancel(self) -> None:
        """Close the line and discard what was typed."""
        self._session = None
        self.input.value = ""
        self.display = False
        self.post_message(self.Closed())
