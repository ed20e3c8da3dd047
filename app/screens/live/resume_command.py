"""Command lines for resuming a session that this console cannot resume itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from ....engine.history.model.state import Origin
from ....engine.hub.api import HubApi
from ....engine.hub.hub import Outcome
from ...format.text import shown
from ...sessions import imported_session
from ...sessions.acp_resume import acp_command, local_journal
from ...sessions.imported_session import is_resumable, record_lines, refusal
from ...sources.messages import ActionDone
from ...terminal.bindings import key_binding
from ..common.panel import Panel


class ByCommand(Panel[None]):
    """Panel with `command` to copy, the reasons why a command is needed, and its usage."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("c", "copy", "copy", "command.copy", "Copy the command"),
    ]

    DEFAULT_CSS = """
    ByCommand > .frame { padding: 1 2; }
    ByCommand Static { width: 1fr; }
    ByCommand #command { margin: 1 0; }
    """

    def __init__(self, reasons: Sequence[str], command: str, usage: str) -> None:
        super().__init__()
        self._reasons = reasons
        self._command = command
        self._usage = usage

    def compose(self) -> ComposeResult:
        with self.panel_frame("Continue", ("command.copy", "copy"), ("panel.close", "close")):
            for line in self._reasons:
                yield Static(Content(shown(line)))
            yield Static(Content.styled(shown(self._command), "bold"), id="command")
            yield Static(Content(shown(self._usage)))

    def action_copy(self) -> None:
        """Copy the command to the clipboard."""
        self.app.copy_to_clipboard(self._command)
        self.notify("Copied", markup=False)


async def tell_command(app: App[None], hub: HubApi, session_id: str) -> None:
    """Show the command that resumes a recorded session, or the reason why there is none."""
    try:
        events = await hub.recorded(session_id)
    except Exception as error:
        app.post_message(ActionDone(Outcome(ok=False, message=f"Cannot continue {session_id}: {error}")))
        return
    reason = (
        f"{session_id} is a session of an agent that speaks ACP. Resume it with the command "
        "that started it; nothing is run from a journal."
    )
    command = acp_command(session_id, events, local_journal(hub))
    usage = f"FILES are its rules, COMMAND is the agent's own command. {_when(hub)}"
    app.push_screen(ByCommand([reason], command, usage))


def tell_imported(app: App[None], hub: HubApi, origin: Origin, at: int | None) -> None:
    """Show the recorded source of an imported session, and the command that resumes it."""
    if not is_resumable(origin):
        problem = "\n".join(refusal(origin, at, None))
        app.post_message(ActionDone(Outcome(ok=False, message=problem)))
        return
    command = imported_session.resume_command(origin, at, local_journal(hub))
    usage = f"FILE is its agent (or give --model MODEL), FILES are its rules. {_when(hub)}"
    app.push_screen(ByCommand(record_lines(origin), command, usage))


def _when(hub: HubApi) -> str:
    """Return where to run a command that writes the journal, and what has to end before."""
    ends = f"the server at {hub.server} has" if hub.server else "this console has"
    where = f"Run it on that machine, once {ends}" if hub.server else f"Run it once {ends}"
    return f"{where} ended: a journal can have only one writer."
