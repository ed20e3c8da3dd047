"""A program for a real terminal: the console on an attacked stage, or on an attacked journal.

Run as `python -m tests.app.spoofing.staged live|flow|recorded FOLDER`. Whenever there is a file `asked`
in it, the program writes the intended screen to `meant.json`, for a test to compare with the terminal.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC
from pathlib import Path

from textual.app import App
from textual.pilot import Pilot

from interlock.app.console.app import InterlockConsole
from interlock.app.console.history_app import HistoryConsole
from interlock.app.sources.recorded_file import RecordedFile

from ...support import decisions
from ...support.fake_hub import FakeHub
from ..screens.flows.hostile import attacked
from ..support.scenes import NOW, deploy_request, entry, release_bot
from .attacks import EVERYTHING, FORGED, GROUPS, group
from .harmless import strips
from .hostile import explanation, session
from .recorded import write

ASKED, MEANT = "asked", "meant.json"


def write_meant(app: App[object], path: Path) -> None:
    """Write the painted lines and the places of the frames."""
    rows = [strip.text for strip in strips(app)]
    framed = [each for each in app.screen.query("*") if each.styles.border_top[0] == "round"]
    frames = [[*each.region] for each in framed if each.region.area]
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"rows": rows, "frames": frames, "screen": type(app.screen).__name__}))
    part.replace(path)


async def tell(pilot: Pilot[object], folder: Path) -> None:
    """Write the intended screen whenever a test requests it."""
    asked = folder / ASKED
    while True:
        await asyncio.sleep(0.02)
        if asked.exists():
            asked.unlink()
            write_meant(pilot.app, folder / MEANT)


def live() -> App[None]:
    """Sessions and requests of every group of attacks; the last one is normal, with a forged dialog."""
    made = [session(number, text)[0] for number, text in enumerate([*map(group, GROUPS), EVERYTHING])]
    usual = release_bot(waiting=False)
    forged = "\n".join(("ls", "", *FORGED))
    usual.transcript.append(entry("assistant", forged, 1))
    usual.approvals["last"] = deploy_request(id="last", since=NOW, input={"command": forged})
    hub = FakeHub(*made, usual, now=NOW)
    hub.explanation = explanation(EVERYTHING)
    return InterlockConsole(hub, operator="maria", clock=lambda: NOW, quiet=0.0)


def flow() -> App[None]:
    """A run of a flow that is attacked everywhere; its question imitates a dialog."""
    hub = FakeHub(attacked("\n".join((EVERYTHING, *FORGED))), now=NOW)
    return InterlockConsole(hub, operator="maria", clock=lambda: NOW, quiet=0.0)


def recorded(folder: Path) -> App[None]:
    """A journal with a session for every group of attacks."""
    database = folder / "journal.db"
    write(database, [group(name) for name in GROUPS])
    return HistoryConsole(RecordedFile(database), zone=UTC, clock=lambda: decisions.NOW)


if __name__ == "__main__":
    where = Path(sys.argv[2])
    stages = {"live": live, "flow": flow}
    console = stages[sys.argv[1]]() if sys.argv[1] in stages else recorded(where)
    console.run(auto_pilot=lambda pilot: tell(pilot, where))
