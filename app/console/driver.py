"""Driver that ends a console in order, as on quitting, when its terminal goes away or a signal comes.

A terminal that was closed is not an empty one: reading gives nothing at once and for ever, writing fails.
Textual's driver reads on, and its app would wait for a writer that is dead. SIGHUP and SIGTERM would end
the process before an agent is ended and its session's last events are in the journal.
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

if TYPE_CHECKING:
    from .base import TerminalApp

HUNG_UP = 128 + signal.SIGHUP
"""The exit code of a console without a terminal, also where no signal said so."""
CHECK_INTERVAL = 0.25
"""Seconds between looks whether the terminal is still there."""


@contextmanager
def on_signals(end: Callable[[int], None]) -> Generator[None]:
    """Have SIGHUP and SIGTERM call `end` with the exit code that shells give them, each time they come.

    One that is ignored, as under `nohup`, stays so. To be used inside a running event loop.
    """
    loop = asyncio.get_running_loop()
    signals = [s for s in (signal.SIGHUP, signal.SIGTERM) if signal.getsignal(s) is not signal.SIG_IGN]
    for each in signals:
        loop.add_signal_handler(each, end, 128 + each)
    try:
        yield
    finally:
        for each in signals:
            loop.remove_signal_handler(each)


async def run_until_ended(app: TerminalApp) -> int:
    """Run an app that hosts nothing. Returns the exit code."""
    with on_signals(app.end):
        await app.run_async()
    return app.return_code or 0


class HangupDriver(LinuxDriver):
    """Textual's driver, which says when its terminal is gone, and neither waits for it nor reads on."""

    def __init__(
        self,
        app: TerminalApp,
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        # Textual leaves open what an app returns.
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
        """Tell whether another program has the terminal."""
        return self._lent

    def write(self, data: str) -> None:
        """Paint. While another program has the terminal, the app's painting is dropped: the thread that
        would write it has ended, and the app would wait for it once enough had gathered."""
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
        """Give the terminal's descriptor; afterwards restore its settings and drop what was typed.

        For the time of its suspension, in which another program may change them.
        """
        try:
            yield self.fileno
        finally:
            with suppress(termios.error):
                if self.attrs_before is not None:
                    termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
                termios.tcflush(self.fileno, termios.TCIFLUSH)

    def run_input_thread(self) -> None:
        """Read until the console ends. A terminal that cannot be read is gone: nothing to panic about."""
        try:
            super().run_input_thread()
        except OSError:
            self._end_console()

    def _check_terminal(self) -> None:
        """Check by its settings that the terminal is open: reading from a closed one gives nothing."""
        try:
            termios.tcgetattr(self.fileno)
        except termios.error:
            self._end_console()
        else:
            self._pulse = self._loop.call_later(CHECK_INTERVAL, self._check_terminal)

    def _end_console(self) -> None:
        """From any thread."""
        if self._gone:
            return
        self._gone = True
        self.exit_event.set()  # The thread that reads would read nothing as fast as it can.
        _discard_output()
        with suppress(RuntimeError):  # The loop has ended, and the app before it.
            self._loop.call_soon_threadsafe(self._console.end, HUNG_UP)


class _Output(Protocol):
    def write(self, text: str, /) -> object: ...

    def flush(self) -> None: ...

    def fileno(self) -> int: ...


class _SafeOutput:
    """Output of the driver. It never fails, so that the writing thread keeps taking text."""

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
    """Discard what is still in buffers: else the interpreter fails at its end to write it."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            os.dup2(devnull, stream.fileno())
    os.close(devnull)
