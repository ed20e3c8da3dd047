"""An app for the tabs of tests: it shows its options and the keys, clicks and sizes that it receives."""

from __future__ import annotations

import asyncio
import os
import sys

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Button, Input, Static

from interlock.app.console.base import TerminalApp


class SmallApp(TerminalApp):
    BINDINGS = [Binding("f5", "said('F5 came')"), Binding("ctrl+o", "said('^o came')")]  # noqa: RUF012

    def compose(self) -> ComposeResult:
        yield Input()
        yield Button("press me")
        yield Static(f"options: {' '.join(sys.argv[1:])}", markup=False)
        yield Static("", id="said")
        yield Static("", id="size")

    def on_input_changed(self, event: Input.Changed) -> None:
        self.action_said(f"typed {event.value}")

    def on_button_pressed(self) -> None:
        self.action_said("clicked")

    def on_resize(self, event: events.Resize) -> None:
        self.query_one("#size", Static).update(f"size {event.size.width} by {event.size.height}")

    def action_said(self, text: str) -> None:
        self.query_one("#said", Static).update(text)


if __name__ == "__main__":
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    asyncio.run(SmallApp().run_async())
