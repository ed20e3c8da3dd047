"""The console on a real hub, with a real agent, rules and journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from interlock.app.console.app import InterlockConsole
from interlock.app.screens.approval.forms.edit_input import InputForm
from interlock.app.screens.approval.forms.review_edit import ReviewEdit
from interlock.app.screens.approval.grant import GrantScreen
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.live.loosen import Loosen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.app.widgets.inputs.safe_input import TypedText
from interlock.engine.agents import Agent, C, Reply, ScriptedModel, T, ToolContext, tool
from interlock.engine.history.model.events import ApprovalDecided, MessageAdded
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

RULES = """
require test before deploy
require human-approval before deploy
limit deploy to 2 per session
block rm
"""


class Console:
    """A console with a scripted agent and the list of calls that ran."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.ran: list[str] = []
        self.sent = asyncio.Event()
        self.seconds = 0.0
        self.app = InterlockConsole(
            hub, operator="maria", start=self._start, monotonic=lambda: self.seconds
        )
        self.pilot: Pilot[None]
        self.replies: list[Reply] = []

    async def _start(self, hub: Hub) -> None:
        ran = self.ran

        @tool(name="test")
        async def run_tests(ctx: ToolContext) -> str:
            """Run the tests."""
            ran.append("test")
            return "2 of 2 passed"

        @tool
        async def deploy(ctx: ToolContext, env: str) -> str:
            """Deploy."""
            ran.append(f"deploy {env}")
            return f"deployed to {env}"

        agent = Agent(ScriptedModel(self.replies), name="release-bot", tools=[run_tests, deploy])
        session = await hub.open_session(
            agent, SessionConfig(compile_rules(RULES).registry, by="maria"), session_id="one"
        )
        await hub.send(session, "Ship it.", by="maria")
        self.sent.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Run the agent and the screen until `holds` is true."""
        for _ in range(1500):
            if holds():
                return
            await self.pilot.pause(0.01)
        raise AssertionError(f"it did not happen:\n{self.painted()}")

    async def settled(self) -> None:
        """Wait until the session is idle and the screen shows it."""
        await asyncio.wait_for(self.sent.wait(), 15)
        await self.hub.wait("one")
        await self.until(lambda: "idle" in self.painted())

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause(0.01)

    async def dialog(self) -> ApprovalScreen:
        """Return the next request's dialog once its keys are unlocked."""
        await self.until(lambda: isinstance(self.app.screen, ApprovalScreen))
        screen = self.app.screen
        assert isinstance(screen, ApprovalScreen)
        await self.until(lambda: screen.sleeps_for() < 1 and screen._shown_at is not None)
        self.seconds += 1.0
        return screen

    def painted(self) -> str:
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())


@asynccontextmanager
async def console(tmp_path: Path, *replies: Reply) -> AsyncIterator[Console]:
    hub = Hub.open(tmp_path / "console.db")
    made = Console(hub)
    made.replies = list(replies)
    try:
        async with made.app.run_test(size=(120, 40), notifications=True) as pilot:
            made.pilot = pilot
            yield made
    finally:
        await hub.close()


class TestApproval:
    @pytest.mark.slow
    async def test_blocked_then_approved_then_replayed(self, tmp_path: Path) -> None:
        """The rules block an early call, the next one waits for `a`, and a replay of both opens."""
        script = (C(deploy={"env": "prod"}), C(test={}), C(deploy={"env": "prod"}), T("Done."))
        async with console(tmp_path, *script) as on:
            await on.dialog()
            assert on.ran == ["test"]
            await on.press("a")
            await on.settled()
            assert "deploy requires a successful call to test first." in on.painted()
            assert on.ran == ["test", "deploy prod"]
            assert "approved by maria" in on.painted()
            assert (await on.hub.session("one")).nets["limit-deploy-2"].marking["budget"] == 1
            await on.press("r")
            await on.until(lambda: isinstance(on.app.screen, ReplayScreen))
            await on.until(lambda: "event 1 of" in on.painted())

    @pytest.mark.slow
    async def test_denied_with_a_reason_that_reaches_the_model(self, tmp_path: Path) -> None:
        """The journal has the denial with its reason, and so has the message to the model."""
        script = (C(test={}), C(deploy={"env": "prod"}), T("I stop here."))
        async with console(tmp_path, *script) as on:
            await on.dialog()
            await on.press("d", *"not today")
            on.seconds += 1.0
            await on.press("enter")
            await on.settled()
            assert on.ran == ["test"]
            recorded = await on.hub.recorded("one")
        decided = [e.body for e in recorded if isinstance(e.body, ApprovalDecided)]
        assert [(d.approved, d.by, d.reason) for d in decided] == [(False, "maria", "not today")]
        told = [e.body.text or "" for e in recorded if isinstance(e.body, MessageAdded)]
        assert any("not today" in text for text in told)

    @pytest.mark.slow
    async def test_edited_and_then_approved(self, tmp_path: Path) -> None:
        """The call runs with the operator's edited input; a message tells the model of the change."""
        script = (C(test={}), C(deploy={"env": "prod"}), T("Done."))
        async with console(tmp_path, *script) as on:
            await on.dialog()
            await on.press("e")
            await on.until(lambda: isinstance(on.app.screen, InputForm))
            on.app.screen.query_one(TypedText).text = "staging"
            await on.until(lambda: "changed" in on.painted())
            await on.press("ctrl+s")
            await on.until(lambda: isinstance(on.app.screen, ReviewEdit))
            review = on.app.screen
            await on.until(lambda: review._shown_at is not None)
            on.seconds += 1.0
            await on.press("a")
            await on.settled()
            assert on.ran == ["test", "deploy staging"]
            said = [e.body.text or "" for e in await on.hub.recorded("one") if e.body.type == "message"]
        told = 'A person changed env from "prod" to "staging" before it ran.\ndeployed to staging'
        assert told in said

    @pytest.mark.slow
    async def test_granted_for_later_calls(self, tmp_path: Path) -> None:
        """A grant from the dialog allows the same call again without a second approval."""
        script = (
            C(test={}),
            C(deploy={"env": "prod"}),
            C(test={}),
            C(deploy={"env": "prod"}),
            T("Done."),
        )
        async with console(tmp_path, *script) as on:
            await on.dialog()
            await on.press("g")
            await on.until(lambda: isinstance(on.app.screen, GrantScreen))
            menu = on.app.screen
            menu.query_one("#reason").focus()
            await on.press(*"often")
            await on.until(lambda: menu._shown_at is not None)
            on.seconds += 1.0
            await on.press("ctrl+g")
            await on.settled()
            assert on.ran == ["test", "deploy prod", "test", "deploy prod"]
            assert list((await on.hub.session("one")).grants) == ["grant-1"]

    @pytest.mark.slow
    async def test_escape_and_type_ahead_decide_nothing(self, tmp_path: Path) -> None:
        """Keys before the dialog unlocks, and escape, leave the call waiting."""
        async with console(tmp_path, C(test={}), C(deploy={"env": "prod"}), T("Done.")) as on:
            await on.until(lambda: isinstance(on.app.screen, ApprovalScreen))
            await on.press("a", "a", "enter", "escape")
            await on.until(lambda: isinstance(on.app.screen, LiveScreen))
            assert len(await on.hub.approvals()) == 1
            assert on.ran == ["test"]

    @pytest.mark.slow
    async def test_next_request_opens_in_the_dialog(self, tmp_path: Path) -> None:
        """The dialog continues with the agent's next request, with its keys locked again."""
        script = (C(test={}), C(deploy={"env": "a"}), C(test={}), C(deploy={"env": "b"}), T("Done."))
        async with console(tmp_path, *script) as on:
            dialog = await on.dialog()
            assert dialog.request.input == {"env": "a"}
            await on.press("a")
            await on.until(lambda: dialog.request.input == {"env": "b"})
            await on.dialog()
            await on.press("a")
            await on.settled()
            assert on.ran == ["test", "deploy a", "test", "deploy b"]


class TestOperator:
    @pytest.mark.slow
    async def test_an_interrupt_withdraws_the_request(self, tmp_path: Path) -> None:
        """`i` withdraws the agent's waiting call and adds the message to the transcript."""
        script = (C(test={}), C(deploy={"env": "prod"}), T("I will wait."))
        async with console(tmp_path, *script) as on:
            await on.dialog()
            await on.press("escape", "i", *"wait please", "enter")
            await on.settled()
            assert await on.hub.approvals() == []
            assert "wait please" in on.painted()
            assert on.ran == ["test"]

    @pytest.mark.slow
    async def test_net_and_mode_are_switched(self, tmp_path: Path) -> None:
        """`n` and `m` change the session in the hub, and the screen shows it at once."""
        async with console(tmp_path, T("Hello.")) as on:
            await on.settled()
            await on.press("n")
            await on.until(lambda: "Rules of release-bot" in on.painted() and "space" in on.painted())
            await on.press("space")
            await on.until(lambda: isinstance(on.app.screen, Loosen))
            await on.press("o", "k", "enter")
            await on.until(lambda: "turned off require-test-before-deploy" in on.painted())
            await on.press("escape")
            await on.until(lambda: "off (state kept)" in on.painted())
            await on.press("m")
            await on.until(lambda: isinstance(on.app.screen, Loosen))
            await on.press("o", "k", "enter")
            await on.until(lambda: "now in shadow mode" in on.painted())
            state = await on.hub.session("one")
            assert state.mode == "shadow"
            assert "require-test-before-deploy" not in state.active

    async def test_an_agents_crash_is_its_sessions_error(self, tmp_path: Path) -> None:
        """A model that raises an error (here: an empty script) fails its session, not the console."""
        async with console(tmp_path) as on:
            await on.until(lambda: "failed" in on.painted())
            assert isinstance(on.app.screen, LiveScreen)
