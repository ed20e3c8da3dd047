"""Two operators, each at their own console, with the same request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from textual import events
from textual.pilot import Pilot

from interlock.app.console.app import InterlockConsole
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.engine.agents import Agent, C, ScriptedModel, T, ToolContext, tool
from interlock.engine.history.model.events import ApprovalDecided, ApprovalGiven, CallDecided
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules
from tests.support.laws import examples

RACES = 4
ROUNDS = max(RACES, examples(20, usual=6))
SESSION = "one"


class Seat:
    """An operator at a console."""

    def __init__(self, hub: Hub, operator: str) -> None:
        self.operator = operator
        self.seconds = 0.0
        self.app = InterlockConsole(hub, operator=operator, quiet=0, monotonic=lambda: self.seconds)
        self.pilot: Pilot[None]

    @property
    def dialog(self) -> ApprovalScreen | None:
        return self.app.screen if isinstance(self.app.screen, ApprovalScreen) else None

    async def until(self, holds: Callable[[], object], look: float = 0.005) -> None:
        """Wait until `holds` is true, with a check every `look` seconds."""
        for _ in range(round(15 / look)):
            if holds():
                return
            await asyncio.sleep(look)
        raise AssertionError(f"it did not happen for {self.operator}:\n{self.painted()}")

    async def shows(self, text: str) -> None:
        # To paint a whole screen costs time that the other console needs.
        await self.until(lambda: text in self.painted(), 0.03)

    async def wait_for_request(self, request: str) -> None:
        """Wait until the dialog shows this request and its keys are unlocked."""
        await self.until(lambda: self.dialog is not None and self.dialog.request.id == request)
        await self.until(lambda: self.dialog is not None and self.dialog._shown_at is not None)
        self.seconds += 1.0
        assert self.dialog is not None
        assert self.dialog.sleeps_for() == 0

    async def press(self, key: str, after: float = 0.0) -> None:
        await asyncio.sleep(after)
        self.app.post_message(events.Key(key, key if len(key) == 1 else None))

    async def close_dialog(self) -> None:
        """Close the dialog, if it is still open, once it has no decision in progress."""
        await self.pilot.pause()
        while self.dialog is not None:
            await self.until(lambda: self.dialog is None or not self.dialog.deciding)
            await self.press("escape")
            await self.pilot.pause()

    def painted(self) -> str:
        return "\n".join(strip.text.rstrip() for strip in self.app.screen._compositor.render_strips())


class Shop:
    """An agent that deploys once per message, and the list of calls that ran."""

    def __init__(self, hub: Hub, rules: str) -> None:
        self.hub = hub
        self.rules = rules
        self.ran: list[str] = []

    async def open(self) -> None:
        ran = self.ran

        @tool
        async def deploy(ctx: ToolContext, number: int) -> str:
            """Deploy."""
            ran.append(f"deploy {number}")
            return "deployed"

        replies = [reply for n in range(ROUNDS) for reply in (C(deploy={"number": n}), T("done"))]
        agent = Agent(ScriptedModel(replies), name="release-bot", tools=[deploy])
        registry = compile_rules(self.rules).registry
        await self.hub.open_session(agent, SessionConfig(registry, by="mia"), session_id=SESSION)

    async def ask(self) -> str:
        """Make the agent deploy, and return the id of its request."""
        await self.hub.send(SESSION, "go", by="mia")
        async with asyncio.timeout(20):
            while not (waiting := await self.hub.approvals()):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        return waiting[0].id

    async def recorded(self, kind: type) -> list:
        return [e.body for e in await self.hub.recorded(SESSION) if isinstance(e.body, kind)]


@asynccontextmanager
async def two_consoles(tmp_path: Path, rules: str) -> AsyncIterator[tuple[Shop, list[Seat]]]:
    hub = Hub.open(tmp_path / "consoles.db")
    seats = [Seat(hub, "ada"), Seat(hub, "ben")]
    ada, ben = seats
    shop = Shop(hub, rules)
    try:
        async with ada.app.run_test(size=(100, 30)) as one, ben.app.run_test(size=(100, 30)) as other:
            ada.pilot, ben.pilot = one, other
            await shop.open()
            yield shop, seats
    finally:
        await hub.close()


@pytest.mark.slow
class TestRace:
    async def test_simultaneous_approvals_decide_once(self, tmp_path: Path) -> None:
        """Both press approve at once: the journal has one decision, and one call runs. The other console
        names who decided, and its key has no further effect."""
        random = Random(6)
        async with two_consoles(tmp_path, "require human-approval before deploy") as (shop, seats):
            won: list[str] = []
            for number in range(ROUNDS):
                request = await shop.ask()
                for seat in seats:
                    await seat.wait_for_request(request)
                delays = [random.choice((0.0, 0.0, 0.001, 0.004)) for _ in seats]
                await asyncio.gather(
                    *(seat.press("a", delay) for seat, delay in zip(seats, delays, strict=True))
                )
                async with asyncio.timeout(20):
                    await shop.hub.wait(SESSION)
                decisions = await shop.recorded(ApprovalDecided)
                assert len(decisions) == number + 1
                by = decisions[-1].by
                winner, loser = seats if by == "ada" else seats[::-1]
                await winner.until(lambda winner=winner: winner.dialog is None)
                said = f"Already approved by {by}"
                await loser.shows(said)
                await loser.press("a")
                await loser.close_dialog()
                won.append(by)
            assert len(await shop.recorded(ApprovalDecided)) == ROUNDS
            assert [d.approved_by for d in await shop.recorded(CallDecided)] == [(by,) for by in won]
        assert shop.ran == [f"deploy {number}" for number in range(ROUNDS)]

    async def test_first_of_approve_and_deny_counts(self, tmp_path: Path) -> None:
        """With one approval and one denial at once, only the first decision counts."""
        async with two_consoles(tmp_path, "require human-approval before deploy") as (shop, seats):
            ada, ben = seats
            for number in range(RACES):
                request = await shop.ask()
                for seat in seats:
                    await seat.wait_for_request(request)
                await ben.press("d")
                await ben.until(lambda: ben.dialog is not None and ben.dialog._frame.reason.is_open)
                await ben.until(lambda: ben.dialog is not None and ben.dialog._shown_at is not None)
                ben.seconds += 1.0
                keys = ((ada, "a"), (ben, "enter"))
                for seat, key in keys if number % 2 else keys[::-1]:
                    await seat.press(key)
                async with asyncio.timeout(20):
                    await shop.hub.wait(SESSION)
                decided = (await shop.recorded(ApprovalDecided))[number:]
                assert len(decided) == 1
                word = "approved" if decided[0].approved else "denied"
                assert decided[0].by == ("ada" if decided[0].approved else "ben")
                loser = ben if decided[0].approved else ada
                said = f"Already {word} by {decided[0].by}"
                await loser.shows(said)
                await loser.close_dialog()
                await ada.until(lambda: ada.dialog is None)
                await ben.until(lambda: ben.dialog is None)
            approved = sum(d.approved for d in await shop.recorded(ApprovalDecided))
        assert len(shop.ran) == approved

    async def test_simultaneous_approvals_of_two_approvers_both_count(self, tmp_path: Path) -> None:
        """If a call requires two approvers, two who press at once both count, each once."""
        async with two_consoles(tmp_path, "require 2 human-approvals before deploy") as (shop, seats):
            for number in range(RACES):
                request = await shop.ask()
                for seat in seats:
                    await seat.wait_for_request(request)
                await asyncio.gather(*(seat.press("a") for seat in seats))
                async with asyncio.timeout(20):
                    await shop.hub.wait(SESSION)
                assert len(await shop.recorded(ApprovalGiven)) == number + 1
                assert set((await shop.recorded(CallDecided))[-1].approved_by) == {"ada", "ben"}
                for seat in seats:
                    await seat.close_dialog()
        assert len(shop.ran) == RACES
