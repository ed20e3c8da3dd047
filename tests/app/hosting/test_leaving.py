"""Closing a hub while its tools run, after the screen has closed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from interlock.app.hosting.farewell import close_aloud
from interlock.engine.hub.hub import Hub


class Waiting(Hub):
    """A hub that waits for a tool before it closes."""

    def __init__(self, hub: Hub) -> None:
        self.__dict__ = hub.__dict__
        self.left = asyncio.Event()

    def leave_now(self) -> None:
        self.left.set()

    async def close(self) -> None:
        self.say_wait("waiting up to 30 s for build\x1b[2J of bot-1")
        await self.left.wait()
        await super().close()


class TestWait:
    async def test_reason_is_shown_and_a_key_ends_it(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The terminal shows the reason of the wait. Ctrl+C ends the wait, not the program."""
        before = signal.getsignal(signal.SIGINT)
        closing = asyncio.create_task(close_aloud(Waiting(Hub.open(tmp_path / "j.db"))))
        try:
            async with asyncio.timeout(20):
                while not (said := capsys.readouterr().err):  # noqa: ASYNC110 - no other signal
                    await asyncio.sleep(0.01)
                assert said.startswith("interlock: waiting up to 30 s for build")
                assert said.endswith("of bot-1; press Ctrl+C to leave now\n")
                assert "\x1b" not in said
                os.kill(os.getpid(), signal.SIGINT)
                await closing
        finally:
            signal.signal(signal.SIGINT, before)
