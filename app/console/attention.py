"""Signals for an operator who is not looking: terminal title, bell and desktop notification.

The title always shows the number of open requests. Bell and notification are sent only while the terminal
does not have the focus, and are rate-limited. They name only the call's tool, its agent and the rule's
risk, since anybody passing by can read a desktop. A terminal that does not report its focus counts as
focused.
"""

from __future__ import annotations

import asyncio
import html
import os
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

from textual.app import App

from ...engine.core.sanitize import visible
from ...engine.history.model.events import ApprovalRequested, JournalEvent
from ...engine.history.model.state import ApprovalState
from ...engine.hub.hub import HubEvent
from ..config.notifications import AttentionSettings
from ..format.text import clip
from ..terminal.editor import SuspendableTerminal

Kind: TypeAlias = Literal["osc9", "osc99", "osc777", "notify-send"]

NAME = 40
"""Maximum width of a name, in cells."""
BELL = "\a"
SAVE_TITLE, RESTORE_TITLE = "\x1b[22;0t", "\x1b]0;\x1b\\\x1b[23;0t"
"""Escape sequences that save and restore the title.

A terminal that cannot save titles gets an empty one, which makes it show its default.
"""
PROGRAM_TIMEOUT = 5.0
"""Maximum run time of `notify-send`, in seconds."""


def notifier_of(environ: Mapping[str, str]) -> Kind | None:
    """Return the kind of notification that the terminal described by `environ` can show; `None` if
    unknown.

    A multiplexer swallows the sequences of the outer terminal. Over ssh the desktop is on another
    machine.
    """
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if not term.startswith(("screen", "tmux")) and "TMUX" not in environ:
        if term == "xterm-kitty" or "KITTY_WINDOW_ID" in environ:
            return "osc99"
        if program in ("iTerm.app", "WezTerm", "ghostty") or term == "xterm-ghostty":
            return "osc9"
        if term.startswith(("foot", "rxvt-unicode")):
            return "osc777"
    if environ.get("SSH_CONNECTION") or not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return None
    return "notify-send" if shutil.which("notify-send", path=environ.get("PATH")) else None


@dataclass(frozen=True, slots=True)
class Terminal:
    """Operations of a terminal that `Attention` needs.

    `write` sends a sequence, `run` starts a program with the given arguments, `focused` returns whether
    the terminal has the focus, `later` calls a function after a number of seconds, and `monotonic` is the
    clock. While the terminal `is_lent` to another program, nothing that is written reaches it.
    """

    write: Callable[[str], None]
    run: Callable[[list[str]], None]
    focused: Callable[[], bool]
    later: Callable[[float, Callable[[], None]], object]
    monotonic: Callable[[], float]
    kind: Kind | None = None
    is_lent: Callable[[], bool] = lambda: False


class Attention:
    """Signals open requests on one terminal. Sends nothing before `begin` or after `end`."""

    def __init__(self, terminal: Terminal, settings: AttentionSettings | None = None) -> None:
        self._terminal = terminal
        self._settings = settings or AttentionSettings()
        self._waiting: int | None = None
        self._last: float | None = None
        self._is_due = False
        self._missed_while_lent = False
        self._on = False

    def begin(self) -> None:
        """Save the terminal's title and set the console's."""
        self._on = True
        self._terminal.write(SAVE_TITLE)
        self.count(0)

    def end(self) -> None:
        """Restore the saved title."""
        if self._on:
            self._on = False
            self._terminal.write(RESTORE_TITLE)

    def count(self, waiting: int) -> None:
        """Show the number of waiting requests in the title."""
        if self._on and waiting != self._waiting:
            self._waiting = waiting
            self._write_title()

    def _write_title(self) -> None:
        title = f"Interlock ({self._waiting} waiting)" if self._waiting else "Interlock"
        self._terminal.write(f"\x1b]0;{title}\x1b\\")

    def resume(self) -> None:
        """Set the title again once the lent terminal is back, and signal requests that arrived in the
        meantime.

        While the operator was in an editor, the terminal had the focus but did not show these requests.
        """
        if self._on:
            self._write_title()
            missed, self._missed_while_lent = self._missed_while_lent, False
            if missed and self._waiting:
                self._send(_waiting_text(self._waiting))

    def follow(
        self, events: Sequence[HubEvent], waiting: Sequence[ApprovalState], unread: int = 0
    ) -> None:
        """Process new events and the requests open now.

        `unread` is the number of open requests not listed.
        """
        self.count(len(waiting) + unread)
        open_now = {request.id: request for request in waiting}
        for event in events:
            if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested):
                request = open_now.get(event.body.approval_id)
                if request is not None:
                    self.signal(request)

    def signal(self, request: ApprovalState) -> None:
        """Signal a new request if the operator is not looking. Soon after another signal, defer it."""
        if not self._on or not self._needs_signal():
            return
        remaining = self._seconds_left()
        if remaining <= 0:
            self._send(summary(request))
        elif not self._is_due:
            self._is_due = True
            self._terminal.later(remaining, self._signal_later)

    def _seconds_left(self) -> float:
        """Return the seconds until the next signal is permitted; 0 or less means now."""
        if self._last is None:
            return 0.0
        return self._last + self._settings.every.total_seconds() - self._terminal.monotonic()

    def _signal_later(self) -> None:
        """Send the deferred signal if requests are still waiting."""
        self._is_due = False
        if self._on and self._waiting and self._needs_signal():
            self._send(_waiting_text(self._waiting))

    def _needs_signal(self) -> bool:
        """Return whether the operator is not looking.

        If the terminal is lent, note the miss for `resume`.
        """
        lent = self._terminal.is_lent()
        self._missed_while_lent |= lent
        return not lent and not self._terminal.focused()

    def _send(self, text: str) -> None:
        self._last = self._terminal.monotonic()
        if self._settings.bell:
            self._terminal.write(BELL)
        if not self._settings.notify or self._terminal.kind is None:
            return
        if self._terminal.kind == "notify-send":
            # Desktops may interpret the body as markup.
            body = html.escape(text)
            self._terminal.run(["notify-send", "--app-name=Interlock", "--", "Interlock", body])
        else:
            self._terminal.write(_SEQUENCES[self._terminal.kind].format(text))


def _waiting_text(waiting: int) -> str:
    return "1 request waits" if waiting == 1 else f"{waiting} requests wait"


_SEQUENCES: Mapping[Kind, str] = {
    "osc9": "\x1b]9;Interlock: {}\x1b\\",
    "osc99": "\x1b]99;;Interlock: {}\x1b\\",
    "osc777": "\x1b]777;notify;Interlock;{}\x1b\\",
}


def summary(request: ApprovalState) -> str:
    """Return `deploy of release-bot needs approval (risk high)`, without the call's input."""
    risk = f" (risk {request.risk})" if request.risk else ""
    return f"{_name(request.tool)} of {_name(request.agent or request.session)} needs approval{risk}"


def _name(text: str) -> str:
    """Make a name safe in a terminal sequence: replace control characters and delimiters."""
    return clip(re.sub(r"[;{}\\]", "_", visible(text[: 4 * NAME])), NAME)


def run_quietly(tasks: set[asyncio.Task[None]]) -> Callable[[list[str]], None]:
    """Return a function that starts a program in the background, without a shell.

    `tasks` keeps those running.
    """

    def run(words: list[str]) -> None:
        task = asyncio.get_running_loop().create_task(_run(words))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    return run


async def _run(words: list[str]) -> None:
    quiet = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(*words, stdin=quiet, stdout=quiet, stderr=quiet)
    except OSError:
        return  # The program was found when the console started and has been removed since.
    waiting: Awaitable[int] = process.wait()
    try:
        await asyncio.wait_for(waiting, PROGRAM_TIMEOUT)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def terminal_of(app: App[None], programs: set[asyncio.Task[None]]) -> Terminal | None:
    """Return the terminal that `app` runs in; a browser has only the title.

    `programs` keeps started programs.
    """
    driver = app._driver  # pyright: ignore[reportPrivateUsage] - Textual has no public API for it
    if driver is None or app.is_headless:
        return None
    return Terminal(
        write=driver.write,
        run=run_quietly(programs),
        focused=lambda: app.app_focus,
        later=app.set_timer,
        monotonic=time.monotonic,
        kind=None if app.is_web else notifier_of(os.environ),
        is_lent=lambda: isinstance(driver, SuspendableTerminal) and driver.is_lent,
    )
