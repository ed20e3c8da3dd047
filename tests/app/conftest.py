"""Consoles under test are typed into once they can be seen, as by a person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from interlock.app.console.base import TerminalApp

Typing = Callable[[Pilot[None]], Awaitable[object] | object]


@pytest.fixture(autouse=True)
def painted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand out a console's pilot after its first paint: keys from before it are dropped."""
    run = TerminalApp.run_test

    @asynccontextmanager
    async def run_test(app: TerminalApp, **options: Any) -> AsyncIterator[Pilot[None]]:
        async with run(app, **options) as pilot:
            await _paint(app)
            yield pilot

    monkeypatch.setattr(TerminalApp, "run_test", run_test)


@pytest.fixture
def snap_compare(
    snap_compare: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., bool]:
    """Compare a picture; what is typed before it is taken is typed after the first paint.

    No cursor blinks in it, as a slow machine takes it at any moment.
    """

    for widget in (Input, TextArea):
        monkeypatch.setattr(widget.cursor_blink, "_default", False)

    def compare(app: object, *, run_before: Typing | None = None, **options: Any) -> bool:
        async def type_when_painted(pilot: Pilot[None]) -> None:
            if isinstance(pilot.app, TerminalApp):
                await _paint(pilot.app)
            if run_before is not None and isawaitable(typing := run_before(pilot)):
                await typing

        return snap_compare(app, run_before=type_when_painted, **options)

    return compare


async def _paint(app: TerminalApp) -> None:
    """Wait for an app's first paint."""
    for _ in range(2_000):
        if app.was_painted:
            return
        await asyncio.sleep(0.005)
    raise AssertionError("nothing was painted")
