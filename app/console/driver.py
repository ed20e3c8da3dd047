"""Driver that ends a console in order, as on quitting, when its terminal closes or a signal arrives.

On a closed terminal every read returns nothing at once, and writes fail. Textual's driver continues to
read, and its app would wait for a dead writer thread. SIGHUP and SIGTERM would end the process before
agents are ended and the last events of their sessions are in the journal.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from textual.drivers.linux_driver import LinuxDriver

from ..terminal.signals import on_signals

if TYPE_CHECKING:
    from .base import TerminalApp

HUNG_UP = 128 + signal.SIGHUP
"""Exit code of a console that has lost its terminal, with or without a signal."""
CHECK_INTERVAL = 0.25
"""Seconds between checks whether the terminal is still open."""


async def run_until_ended(app: TerminalApp) -> int:
    """Run an app that hosts no sessions, and return its exit code."""
    with on_signals(app.end):
        await app.run_async()
    return app.return_code or 0


class HangupDriver(LinuxDriver):
    """Textual's driver, extended to detect a lost terminal and not to wait for it or read from it."""

    def __init__(
        self,
        app: TerminalApp,
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        # Textual leaves an app's return type open.
        super().__init__(app, debug=debug, mouse=mouse, size=size)  # pyright: ignore[reportUnknownMemberType]
        self._console = app
        self._loop = asyncio.get_running_loop()
        self._pulse: asyncio.TimerHandle | None = None
        self._gone = False
        self._lent = False
        self._file = _SafeOutput(self._file, self._end_console)

    def start_application_mode(self) -> None:
        super().start_application_mode()
        if self.input_tty and self._pulse is None:
            self._check_terminal()

    def close(self) -> None:
        if self._pulse is not None:
            self._pulse.cancel()
            self._pulse = None
        super().close()

    @property
    def is_lent(self) -> bool:
        """Return whether another program has the terminal."""
        return self._lent

    def write(self, data: str) -> None:
        """Write to the terminal, or drop the text while another program has the terminal.

        The writer thread has ended by then, and the app would block once the writer's queue is full.
        """
        if not self._lent:
            super().write(data)

    def suspend_application_mode(self) -> None:
        super().suspend_application_mode()
        self._lent = True

    def resume_application_mode(self) -> None:
        self._lent = False
        super().resume_application_mode()

    @contextmanager
    def preserved_settings(self) -> Generator[int]:
        """Yield the terminal's file descriptor, then restore the terminal's settings and discard typed
        input.

        Used while the app is suspended and another program may change the settings.
        """
        try:
            yield self.fileno
        finally:
            with suppress(termios.error):
                if self.attrs_before is not None:
                    termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
                termios.tcflush(self.fileno, termios.TCIFLUSH)

    def run_input_thread(self) -> None:
        """Read until the console ends. A terminal that cannot be read is gone, which is not an error."""
        try:
            super().run_input_thread()
        except OSError:
            self._end_console()

    def _check_terminal(self) -> None:
        """Check that the terminal is open by its settings; reads from a closed one return nothing."""
        try:
            termios.tcgetattr(self.fileno)
        except termios.error:
            self._end_console()
        else:
            self._pulse = self._loop.call_later(CHECK_INTERVAL, self._check_terminal)

    def _end_console(self) -> None:
        """End the console; callable from any thread."""
        if self._gone:
            return
        self._gone = True
        self.exit_event.set()  # Otherwise the input thread would spin on empty reads.
        _discard_output()
        with suppress(RuntimeError):  # The loop has ended, and the app before it.
            self._loop.call_soon_threadsafe(self._console.end, HUNG_UP)


class _Output(Protocol):
    def write(self, text: str, /) -> object: ...

    def flush(self) -> None: ...

    def fileno(self) -> int: ...


class _SafeOutput:
    """Output of the driver that never raises, so that the writer thread keeps consuming text."""

    def __init__(self, file: _Output, on_failure: Callable[[], None]) -> None:
        self._file = file
        self._on_failure = on_failure

    def write(self, text: str) -> None:
        try:
            self._file.write(text)
        except OSError:
            self._on_failure()

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError:
            self._on_failure()

    def fileno(self) -> int:
        return self._file.fileno()


def _discard_output() -> None:
    """Discard buffered output; otherwise the interpreter fails on exit when it flushes."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            os.dup2(devnull, stream.fileno())
    os.close(devnull)
