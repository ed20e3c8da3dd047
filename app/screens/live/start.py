"""Form that starts a session: an agent, its rules, a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Checkbox, Input, Static

from ...agents.spec import AgentSpecError
from ...format.text import MUTED, shown, shown_lines
from ...sessions.start import PreparedStart, SessionStarter, StartForm
from ...terminal.bindings import key_binding
from ..common.panel import Panel

FIELDS = (
    ("agent", "Agent", "agent.toml, package.module:agent, or a model: openai/gpt-4o"),
    ("rules", "Rules", "rules files; an agent file may name its own"),
    ("tools", "Tools", "bash, read, edit, … (default: bash)"),
    ("task", "Task", "what it should do"),
)


class Tick(Checkbox):
    """Checkbox that shows its state not only by colour. Textual's own shows a cross in both states."""

    BUTTON_LEFT = "["
    BUTTON_RIGHT = "]"

    def __init__(self, label: str, value: bool) -> None:
        self._mark(value)
        super().__init__(label, value)

    def watch_value(self) -> None:
        self._mark(self.value)
        super().watch_value()

    def _mark(self, value: bool) -> None:
        self.BUTTON_INNER = "x" if value else " "


class StartScreen(Panel[PreparedStart | None]):
    """Form for a new session. Dismissed with a prepared start, or with `None` on escape.

    Problems with the form are shown below it, and everything typed stays.
    """

    CSS_PATH = "start.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("ctrl+s", "start", "start", "start.start", "Start the session"),
    ]

    @dataclass
    class Checked(Message):
        """Result of checking the form: a prepared start, or every problem."""

        begin: PreparedStart | None
        problems: Sequence[str] = ()

    def __init__(self, form: StartForm, starts: SessionStarter) -> None:
        super().__init__()
        self._starts = starts
        self.last = form
        """The form as it was when the screen closed."""
        self._checking = False

    @property
    def form(self) -> StartForm:
        """Return the form as it is filled in now."""
        values = {name: self.query_one(f"#start-{name}", Input).value for name, _, _ in FIELDS}
        return StartForm(**values, shadow=self.query_one(Checkbox).value)

    def compose(self) -> ComposeResult:
        keys = "enter next", ("start.start", "start"), ("panel.close", "cancel")
        with self.panel_frame("Start a session", *keys):
            for name, label, hint in FIELDS:
                line = Input(getattr(self.last, name), placeholder=hint, id=f"start-{name}")
                yield Horizontal(Static(label, classes="label"), line, classes="field")
            if self._starts.server:
                place = shown(self._starts.server)
                yield Static(f"It runs on {place}: files and modules are those there.", id="where")
            yield Tick("Shadow mode: block nothing, record what would have been", self.last.shadow)
            yield Static("", id="start-problems")

    def on_mount(self) -> None:
        self.query_one("#start-problems").display = False
        self.query_one("#start-agent").focus()

    @on(Input.Submitted)
    def go_on(self, event: Input.Submitted) -> None:
        """Move to the next field on enter; in the last field, start."""
        event.stop()
        if event.input.id == "start-task":
            self.action_start()
        else:
            self.focus_next()

    def action_start(self) -> None:
        """Check the form in a worker, since importing and compiling take time."""
        if self._checking:
            return
        self._checking = True
        self._say(["starting…" if self._starts.server else "reading…"], MUTED)
        self.run_worker(self._check(self.form), exit_on_error=False)

    async def _check(self, form: StartForm) -> None:
        try:
            checked = self.Checked(await self._starts.check(form))
        except AgentSpecError as error:
            checked = self.Checked(None, error.problems)
        except Exception as error:
            checked = self.Checked(None, [f"{type(error).__name__}: {error}"])
        self.post_message(checked)

    @on(Checked)
    def show_checked(self, message: Checked) -> None:
        """Close if the session can be started; otherwise show the problems."""
        self._checking = False
        if message.begin is None:
            self._say(message.problems, "$text-error")
        elif self.is_current:
            self.last = self.form
            self.dismiss(message.begin)

    def action_close(self) -> None:
        """Close without starting; what was typed is kept for the next time."""
        self.last = self.form
        super().action_close()

    def _say(self, lines: Sequence[str], style: str) -> None:
        text = "\n".join(row for line in lines for row in shown_lines(line))
        self.show_text("#start-problems", text, style)
