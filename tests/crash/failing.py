"""A host whose disk refuses writes for a while: what runs, what people are told, how it recovers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from interlock.engine.agents import Agent, C, Event, Reply, ScriptedModel, T, ToolCallEvent
from interlock.engine.history.errors import JournalError
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig

from ..engine.support.shop import check
from . import disk
from .agents import NETS, MarkingTool
from .busy import database_in
from .marks import Marks

LOOKS = [C(look={"env": "staging"}), C(look={"env": "staging"}), C(look={"env": "staging"}), T("done")]
REMOVES = [C(remove={"env": "staging"}), T("done")]


def _once(number: int, then: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls `then` at its call of this number, and otherwise does nothing."""
    calls = 0

    def called() -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            then()

    return called


class Refused:
    """A session whose second call meets a disk that refuses writes, and the messages that people get."""

    def __init__(
        self, folder: Path, moment: str, refuse: Callable[[], None], script: list[Reply]
    ) -> None:
        self.hub = Hub.open(database_in(folder))
        self.moment = moment
        self.refuse = _once(2, refuse)
        self.script = list(script)
        marks = Marks(folder)
        tools = [MarkingTool(name, marks) for name in ("look", "remove")]
        self.agent = Agent(ScriptedModel(self._reply), name="bot", tools=tools)

    def _reply(self, _: object) -> Reply:
        if self.moment == "proposal":
            self.refuse()
        return self.script.pop(0)

    async def _listen(self, event: Event) -> None:
        if self.moment == "decision" and isinstance(event, ToolCallEvent):
            self.refuse()

    async def open(self, mode: Literal["enforce", "shadow"] = "enforce") -> None:
        await self.hub.open_session(self.agent, SessionConfig(NETS, mode=mode), session_id="one")
        self.hub._live.get("one")[1].on_any(self._listen)

    async def work(self, text: str) -> str:
        """Send a message and wait; return the error, if any."""
        try:
            await self.hub.send("one", text, by="maria")
            async with asyncio.timeout(20):
                await self.hub.wait("one")
        except JournalError as error:
            return str(error)
        return ""


def refused(reporting: int, folder: str, error: int, kinds: int, moment: str) -> dict[str, object]:
    """Make the disk refuse writes at this `moment` of the session's second call, then recover."""
    disk.arm(database_in(Path(folder)))

    async def main() -> dict[str, object]:
        on = Refused(Path(folder), moment, lambda: disk.refuse(error, kinds), LOOKS)
        await on.open()
        said: dict[str, object] = {"run": await on.work("go")}
        said["shown"] = (await on.hub.session("one")).error
        said["again"] = await on.work("go on")
        try:
            await on.hub.open_session(on.agent, SessionConfig(NETS), session_id="two")
        except JournalError as refusal:
            said["opened"] = str(refusal)
        disk.recover()
        said["recovered"] = await on.work("go on")
        state = await on.hub.session("one")
        said["status"] = state.status
        await check(on.hub, "one")
        await on.hub.open_session(on.agent, SessionConfig(NETS), session_id="two")
        await on.hub.close()
        return said

    return asyncio.run(main())


def switched(reporting: int, folder: str, error: int, kinds: int) -> dict[str, object]:
    """Switch a session to enforce mode: first while the disk refuses to record it, then again after."""
    disk.arm(database_in(Path(folder)))

    async def main() -> dict[str, object]:
        on = Refused(Path(folder), "never", disk.recover, REMOVES)
        await on.open("shadow")
        disk.refuse(error, kinds)
        first = await on.hub.set_mode("one", "enforce", by="maria")
        net = await on.hub.toggle_net("one", "block-remove", False, by="maria", reason="a test")
        disk.recover()
        second = await on.hub.set_mode("one", "enforce", by="maria")
        failed = await on.work("go")
        state = await on.hub.session("one")
        await on.hub.close()
        told = [first.message, net.message]
        mode, active = state.mode, state.active
        return {"told": told, "second": second.ok, "failed": failed, "mode": mode, "active": active}

    return asyncio.run(main())
