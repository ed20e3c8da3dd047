"""Rules files in a folder, and sessions that were started with them."""

from __future__ import annotations

from pathlib import Path

from interlock.engine.history.model.state import SessionState

from ...support.stage import Stage, everyone

DEPLOY = """\
# What ships, and who says so.
map bash.command ./deploy as deploy
map bash.command /^\\.\\/test(\\s|$)/ as test   # a call of bash that runs ./test

require test before deploy               # a successful test unlocks one deploy
require 2 human-approvals before deploy within 30m risk high no grants when input.env = "prod"
limit deploy to 1 per session
limit deploy to 3 per session
limit push to 3 per 1h
block rm
"""
CIRCLE = "require fetch before build\nrequire build before fetch\n"
FAULTY = "require lint after test\nblock\n\nlimit a to x per session\nblock rm\n"


def write(folder: Path) -> None:
    """Write `deploy.rules`, `circle.rules` with one error, `faulty.rules` with several, and scenarios."""
    for name, text in (("deploy", DEPLOY), ("circle", CIRCLE), ("faulty", FAULTY)):
        (folder / f"{name}.rules").write_text(text)
    (folder / "deploy_test.rules").write_text("scenario nothing\n")


def sessions(folder: Path, *files: str) -> list[SessionState]:
    """The usual sessions, the first one started with `files` of the folder."""
    states = everyone()
    states[0].source = {"rules": [str(folder / file) for file in files]}
    return states


async def opened(on: Stage, text: str = "") -> None:
    """Open the rules screen with its key and wait until the check has ended."""
    await on.press("R")
    await on.until(text or "rules")
    for _ in range(500):
        if "checking…" not in on.painted() and "─ Files" in on.painted():
            return
        await on.pilot.pause(0.02)
    raise AssertionError(on.painted())
