"""The operator's editor in the console's terminal, for one file.

Agents continue in the meantime. The editor has its own foreground process group, like a job of a shell,
so only the editor receives the signals of keys (Ctrl-C, Ctrl-Z). Without a shell that could resume it, a
stopped editor is continued at once.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import termios
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout, suppress
from shutil import which
from typing import Literal, Protocol, TypeAlias, runtime_checkable

VARIABLES = ("VISUAL", "EDITOR")
CHECK_INTERVAL = 0.05
"""Seconds between checks whether the editor has ended."""


BringToFront: TypeAlias = Callable[[int], None]
"""Brings a process group to the foreground of a terminal."""


class EditorError(RuntimeError):
    """There is no editor, or it failed; the message says why in one sentence."""


@runtime_checkable
class SuspendableTerminal(Protocol):
    """A driver whose terminal another program can use while the driver is suspended."""

    def preserved_settings(self) -> AbstractContextManager[int]:
        """Yield the terminal's descriptor, and restore the terminal's current settings afterwards."""
        ...

    @property
    def is_lent(self) -> bool:
        """Return whether another program has the terminal, so that nothing is painted."""
        ...


def has_editor(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the environment names an editor."""
    return any(environ.get(name, "").strip() for name in VARIABLES)


def command(path: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command line that edits the file at `path`. Raises `EditorError`."""
    name = next((name for name in VARIABLES if environ.get(name, "").strip()), None)
    if name is None:
        raise EditorError("there is no editor: set VISUAL or EDITOR")
    try:
        words = shlex.split(environ[name])
    except ValueError as error:
        raise EditorError(f"{name} is '{environ[name]}', not a valid command: {error}") from error
    program = words[0] if words else ""
    if which(program, path=environ.get("PATH")) is None:
        raise EditorError(f"'{program}' was not found: set {name} to an installed editor")
    # Not every editor supports `--`. An absolute path does not look like an option, a command or an
    # address.
    return [*words, os.path.abspath(path)]


async def edit(
    path: str, suspended: Callable[[], AbstractContextManager[None]], terminal: SuspendableTerminal
) -> None:
    """Edit the file at `path` while the console is `suspended`. Raises `EditorError`."""
    words = command(path)
    problem: EditorError | None = None
    with suspended(), terminal.preserved_settings() as descriptor:
        try:
            await run_in_front(words, descriptor)
        except EditorError as error:
            problem = error  # raised later, because it would leave the console suspended
    if problem is not None:
        raise problem


async def run_in_front(words: Sequence[str], terminal: int) -> None:
    """Run a program in the foreground of `terminal`, a descriptor, until it ends. On cancellation, hang
    it up.

    Raises `EditorError` if the program cannot be started or does not exit with 0.
    """
    with (
        _without_suspend_key(terminal),
        _without_interrupts(),
        _discarded_output(),
        _foreground(terminal) as bring,
    ):
        process = _start(words)
        try:
            bring(process.pid)
            process.returncode = await _wait_for_end(process.pid, bring)
        except asyncio.CancelledError:
            for each in (signal.SIGHUP, signal.SIGCONT):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, each)
            raise
    if process.returncode > 0:
        raise EditorError(f"'{words[0]}' ended with exit code {process.returncode}")
    if process.returncode < 0:
        raise EditorError(f"'{words[0]}' was ended by {signal.Signals(-process.returncode).name}")


def _start(words: Sequence[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(words, process_group=0)
    except OSError as error:
        raise EditorError(f"'{words[0]}' cannot be started: {error.strerror}") from error


async def _wait_for_end(process: int, bring: BringToFront) -> int:
    """Return the process's exit code, or the negative number of the signal that ended it."""
    while True:
        found = _poll(process)
        if found == "stopped":
            bring(process)
            os.killpg(process, signal.SIGCONT)
        elif found is not None:
            return found
        await asyncio.sleep(CHECK_INTERVAL)


def _poll(process: int) -> int | Literal["stopped"] | None:
    """Return the exit code of a process, `"stopped"` if it is stopped, or `None` while it runs."""
    try:
        found, status = os.waitpid(process, os.WNOHANG | os.WUNTRACED)
    except ChildProcessError:  # If child processes are not to be waited for, the exit code is unknown.
        return 0
    if not found:
        return None
    return "stopped" if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)


@contextmanager
def _foreground(terminal: int) -> Generator[BringToFront]:
    """Yield a function that brings a process group to `terminal`'s foreground, until the exit."""
    try:
        before = os.tcgetpgrp(terminal)
    except OSError:  # It is not our controlling terminal, so its keys send no signals.
        yield lambda _: None
        return

    def bring(group: int) -> None:
        # From the background this would raise a signal that stops the process, so the signal is blocked.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            with suppress(OSError):
                os.tcsetpgrp(terminal, group)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    try:
        yield bring
    finally:
        bring(before)


@contextmanager
def _without_suspend_key(terminal: int) -> Generator[None]:
    """Disable the key of `terminal` that stops programs: a stop during a start would go unnoticed."""
    try:
        before = termios.tcgetattr(terminal)
    except termios.error:  # It is not a terminal and has no such key.
        yield
        return
    changed = [*before[:6], list(before[6])]
    changed[6][termios.VSUSP] = b"\0"
    termios.tcsetattr(terminal, termios.TCSANOW, changed)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSANOW, before)


@contextmanager
def _without_interrupts() -> Generator[None]:
    """Keep interrupt and stop keys from the console before the editor is in the foreground, and
    afterwards.

    The signals are handled and not ignored, because started programs inherit ignored signals.
    """
    keys = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
    kept = {each: signal.signal(each, lambda _number, _frame: None) for each in keys}
    try:
        yield
    finally:
        for each, handler in kept.items():
            signal.signal(each, signal.SIG_DFL if handler is None else handler)


@contextmanager
def _discarded_output() -> Generator[None]:
    """Discard what libraries print while another program has the terminal."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield
