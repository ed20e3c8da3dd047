"""Textual driver of a tab's console: paints for textual-serve, and ends when the server is gone."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING

from textual.drivers.web_driver import WebDriver

if TYPE_CHECKING:
    from ..console.base import TerminalApp

GONE = 1
"""Exit code of a console whose server is gone."""


class TabDriver(WebDriver):
    """Textual's driver for browsers; ends the console when the server that holds its pipes has ended."""

    def __init__(self, app: TerminalApp, **options: object) -> None:
        super().__init__(app, **options)  # type: ignore[arg-type]
        self._console = app
        self._loop = asyncio.get_running_loop()
        self._started = Event()

    def start_application_mode(self) -> None:
        super().start_application_mode()
        self._started.set()

    def run_input_thread(self) -> None:
        """Read input until the console ends; input sent before it started waits.

        Textual starts without focus, so a focus message read earlier would be lost.
        """
        self._started.wait()
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._end_console()

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        """Handle the message after those that Textual's own start has queued."""
        self._app.call_later(super().on_meta, packet_type, payload)

    def stop_application_mode(self) -> None:
        with suppress(OSError):
            super().stop_application_mode()

    def write(self, data: str) -> None:
        try:
            super().write(data)
        except OSError:
            self._end_console()

    def _end_console(self) -> None:
        """End the console because its server is gone. May be called from any thread."""
        self.exit_event.set()
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, self.fileno)
        os.close(devnull)
        with suppress(RuntimeError):  # The event loop, and so the app, has already ended.
            self._loop.call_soon_threadsafe(self._console.end, GONE)
