"""What every command that hosts an agent shares: the journal, then a console or a headless run."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from ..engine.history.journal import JournalError
from ..engine.history.redaction import Redaction
from ..engine.hub import Hub
from .commands import BAD_INPUT, redaction


def host(
    args: argparse.Namespace,
    database: Path,
    operator: str,
    start: Callable[[Hub], Awaitable[str]],
    *,
    headless: bool,
) -> int:
    """Host the session that `start` opens. Returns the exit code.

    A journal that cannot be written stops everything before an agent starts.
    """

    hidden = redaction(args)

    async def without_screen() -> int:
        from .headless import follow

        hub = Hub.open(database, redaction=hidden)
        return await follow(hub, start, answer=args.answer or "approve", out=sys.stdout)

    try:
        if headless:
            return asyncio.run(without_screen())
        return show(database, operator, start, hidden)
    except JournalError as error:
        print(f"interlock: {error}", file=sys.stderr)
        return BAD_INPUT


def show(
    database: Path,
    operator: str,
    start: Callable[[Hub], Awaitable[str]] | None,
    redaction: Redaction,
) -> int:
    """The console on a hub of its own. Raises `JournalError` before or after it was shown."""
    from .console import InterlockConsole

    async def session() -> int:
        hub = Hub.open(database, redaction=redaction)
        try:
            app = InterlockConsole(hub, operator=operator, start=start)
            await app.run_async()
        finally:
            await hub.close()
        return app.return_code or 0

    return asyncio.run(session())
