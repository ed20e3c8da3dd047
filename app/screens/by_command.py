"""What to type to go on with a session that only the command it was started with can go on with."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from ...engine.hub import Outcome
from ..acp_going_on import going_on, journal_here
from ..door import Door
from ..keymap import hints
from ..messages import ActionDone
from ..text import shown
from .panel import Panel


class ByCommand(Panel[None]):
    """Shows `command`, to be copied; `first` is what has to end before it can run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "copy", "copy", id="command.copy", tooltip="Copy the command"),
    ]

    DEFAULT_CSS = """
    ByCommand > .frame { padding: 1 2; }
    ByCommand Static { width: 1fr; }
    ByCommand #command { margin: 1 0; }
    """

    def __init__(self, session_id: str, command: str, first: str) -> None:
        super().__init__()
        self._session_id = session_id
        self._command = command
        self._first = first

    def compose(self) -> ComposeResult:
        with Vertical(classes="frame") as frame:
            frame.border_title = "Continue"
            frame.border_subtitle = hints(self, ("command.copy", "copy"), ("panel.close", "close"))
            yield Static(
                Content(
                    f"{shown(self._session_id)} is a session of an agent that speaks ACP. What goes on "
                    "with it is the command that started it; nothing is run from a journal."
                )
            )
            yield Static(Content.styled(shown(self._command), "bold"), id="command")
            yield Static(
                Content(f"FILES are its rules, COMMAND is the agent's own command. {shown(self._first)}")
            )

    def action_copy(self) -> None:
        """Put the command where it can be pasted from."""
        self.app.copy_to_clipboard(self._command)
        self.notify("Copied", markup=False)


async def tell_command(app: App[None], hub: Door, session_id: str) -> None:
    """Show what goes on with a recorded session, or why that cannot be told."""
    try:
        events = await hub.recorded(session_id)
    except Exception as error:
        app.post_message(ActionDone(Outcome(ok=False, message=f"Cannot continue {session_id}: {error}")))
        return
    ends = f"the server at {hub.elsewhere} has" if hub.elsewhere else "this console has"
    where = f"Run it on that machine, once {ends}" if hub.elsewhere else f"Run it once {ends}"
    first = f"{where} ended: a journal has one writer."
    app.push_screen(ByCommand(session_id, going_on(session_id, events, journal_here(hub)), first))
