"""A console on a hub whose disk refuses writes for a while, as read by an operator."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from interlock.engine.agents import C, T
from interlock.engine.history.errors import JournalError
from interlock.engine.history.model.events import CallResult, JournalEvent
from interlock.engine.hub.hub import Hub

from ..app.console.test_console_hub import Console, console
from . import disk


def _read(on: Console) -> str:
    """Return the words on the screen, without frames and line ends."""
    return re.sub(r"[\s│─╭╮╰╯▌▇]+", " ", on.painted())


def refused_approval(reporting: int, folder: str, error: int, kinds: int) -> dict[str, object]:
    """Approve a request while nothing can be recorded, and again when the disk works."""
    here = Path(folder).resolve()
    disk.arm(here / "console.db")

    async def main() -> dict[str, object]:
        async with console(here, C(test={}), C(deploy={"env": "prod"}), T("Done.")) as on:
            await on.dialog()
            disk.refuse(error, kinds)
            await on.press("a")
            await on.until(lambda: "Not decided" in on.painted())
            refused, ran = _read(on), list(on.ran)
            disk.recover()
            await on.press("a")
            await on.settled()
            await on.until(lambda: "Done." in on.painted())
            return {"refused": refused, "ran": ran, "approved": _read(on), "ran_then": list(on.ran)}

    return asyncio.run(main())


def refused_run(reporting: int, folder: str, error: int, kinds: int) -> dict[str, object]:
    """Refuse all writes in the middle of a run; then the operator resumes it."""
    here = Path(folder).resolve()
    disk.arm(here / "console.db")

    async def main() -> dict[str, object]:
        async with console(here, C(test={}), T("Half way."), T("Done.")) as on:

            async def refuse() -> None:
                async for event in on.hub.subscribe():
                    if isinstance(event, JournalEvent) and isinstance(event.body, CallResult):
                        return disk.refuse(error, kinds)

            refusing = asyncio.create_task(refuse())
            await on.until(lambda: "JournalError" in on.painted())
            await refusing
            refused = _read(on)
            disk.recover()
            await _say(on.hub, "Go on.")
            await on.settled()
            await on.until(lambda: "Go on." in on.painted() and "failed" not in on.painted())
            return {"refused": refused, "recovered": _read(on), "ran": list(on.ran)}

    return asyncio.run(main())


async def _say(hub: Hub, text: str) -> None:
    """Send a message, again if the refusal of the earlier one is still being reported."""
    for _ in range(100):
        try:
            return await hub.send("one", text, by="maria")
        except JournalError:
            await asyncio.sleep(0.01)
    raise AssertionError("the journal goes on refusing after the disk has recovered")
