"""The app around the screens: start, routing, help, palette and quitting."""

from __future__ import annotations

import asyncio

import pytest

from interlock.app.screens.common.confirm import Confirm
from interlock.app.screens.common.detail import Detail
from interlock.app.screens.history.screen import HistoryScreen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.engine.history.model.events import SessionOpened
from interlock.engine.hub.hub import Hub

from ..support.scenes import cleanup, docs_writer, release_bot
from ..support.stage import stage


class TestStart:
    async def test_start_error_is_shown_and_console_stays(self) -> None:
        """An error while sessions open remains on screen and does not end the console."""

        async def start(_hub: Hub) -> None:
            raise ValueError("deploy.rules:3:9: expected 'before', found 'after'")

        async with stage(docs_writer(), start=start) as on:
            await on.until("Could not start: ValueError: deploy.rules:3:9")
            await on.press("alt+1")
            await on.settle()
            assert "Could not start: ValueError: deploy.rules:3:9" in on.painted()

    @pytest.mark.slow
    async def test_agents_run_in_workers_of_the_app(self) -> None:
        """A session runs in a worker; its crash does not affect the console."""
        ran = asyncio.Event()

        async def crash() -> None:
            ran.set()
            raise RuntimeError("an agent's bug")

        async with stage(docs_writer()) as on:
            on.hub.spawn(crash(), "docs-writer")
            await asyncio.wait_for(ran.wait(), 5)
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)
            assert "docs-writer" in on.painted()

    async def test_started_coroutine_can_be_spawned(self) -> None:
        """The hub may spawn a coroutine that has already started."""
        done = asyncio.Event()

        async def begun() -> None:
            await asyncio.sleep(0)
            done.set()

        async with stage(docs_writer()) as on:
            coroutine = begun()
            coroutine.send(None)
            on.hub.spawn(coroutine, "begun")
            await asyncio.wait_for(done.wait(), 5)


class TestHelp:
    @pytest.mark.slow
    async def test_help_is_made_from_the_bindings(self) -> None:
        """`?` and F1 list the keys that work here with an explanation, the focused part first."""
        async with stage() as on:
            await on.press("f1")
            await on.settle()
            assert isinstance(on.app.screen, Detail)
            await on.press("escape", "question_mark")
            await on.settle()
            shown = on.painted()
            await on.press("end")
            await on.settle()
            shown += on.painted()
        for part in ("HERE", "THIS SCREEN", "EVERYWHERE", "Interrupt the agent with a message", "^x"):
            assert part in shown

    @pytest.mark.slow
    async def test_help_works_over_a_dialog(self) -> None:
        """Help over a dialog explains the dialog's own keys."""
        async with stage() as on:
            await on.open_dialog()
            await on.press("question_mark")
            await on.settle()
            assert "Let this one call run" in on.painted()

    @pytest.mark.slow
    async def test_every_binding_is_named_and_explained(self) -> None:
        """Each binding has an id, a tooltip and a command in the palette."""
        async with stage() as on:
            active = on.app.screen.active_bindings.values()
            ours = [a.binding for a in active if type(a.node).__module__.startswith("interlock.")]
            palette = [c.title.lower() for c in on.app.get_system_commands(on.app.screen)]
            assert len(ours) > 20
            for binding in ours:
                if binding.action == "app.command_palette":
                    continue
                assert binding.id
                assert binding.tooltip
                assert binding.description.lower() in palette

    @pytest.mark.slow
    async def test_palette_command_equals_its_key(self) -> None:
        """A palette command has the same effect as its key."""
        async with stage() as on:
            await on.press("ctrl+p")
            await on.settle()
            await on.pilot.press(*"interr")
            await on.pilot.pause(0.3)
            await on.pilot.press("enter")
            await on.pilot.pause(0.3)
            assert "To release-bot ▸" in on.painted()

    @pytest.mark.slow
    async def test_keys_in_the_bar_can_be_clicked(self) -> None:
        """A click on a key in the bar has the same effect as the key."""
        async with stage() as on:
            at = on.painted().splitlines()[-1].index("i interrupt")
            await on.pilot.click("KeyBar", offset=(at, 0))
            await on.settle()
            assert "To release-bot ▸" in on.painted()


class TestRouting:
    @pytest.mark.slow
    async def test_history_opens_and_escape_returns(self) -> None:
        """`h` or a click on its name opens the history; escape returns to the live screen."""
        async with stage() as on:
            await on.press("h")
            await on.settle()
            assert isinstance(on.app.screen, HistoryScreen)
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)
            title = on.painted().split("\n")[0]
            await on.pilot.click("TitleBar", offset=(title.index("history") + 1, 0))
            await on.settle()
            assert isinstance(on.app.screen, HistoryScreen)

    @pytest.mark.slow
    async def test_r_opens_replay_of_the_selected_session(self) -> None:
        """`r` opens the replay of the selected session's journal."""
        async with stage() as on:
            on.hub.publish(
                "release-bot-1f3a", SessionOpened(agent="release-bot", model="scripted", mode="enforce")
            )
            await on.press("r")
            await on.settle()
            assert isinstance(on.app.screen, ReplayScreen)

    @pytest.mark.slow
    async def test_unreadable_replay_is_reported(self) -> None:
        """An error of the hub while it reads a session appears as a notice."""
        async with stage() as on:

            async def broken(_session: str) -> list[object]:
                raise OSError("disk read error")

            on.hub.recorded = broken
            await on.press("r")
            await on.settle()
            assert "disk read error" in on.painted()


class TestQuit:
    @pytest.mark.slow
    async def test_it_asks_while_something_runs_or_waits(self) -> None:
        """The question counts running sessions and waiting requests; escape cancels, `y` quits."""
        async with stage() as on:
            await on.press("q")
            await on.settle()
            assert isinstance(on.app.screen, Confirm)
            assert "3 sessions are running, 1 request waits. Quit?" in on.painted()
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)
            await on.press("ctrl+q", "y")
            await on.settle()
            assert not on.app._exit, "the key came before the question could be read"
            await on.wake()
            await on.press("y")
            await on.settle()
            assert on.app._exit

    async def test_it_leaves_at_once_when_nothing_runs(self) -> None:
        """The console quits without a question if no session runs."""
        async with stage(cleanup()) as on:
            await on.press("q")
            await on.settle()
            assert on.app._exit

    @pytest.mark.slow
    async def test_ctrl_q_works_over_a_dialog(self) -> None:
        """`ctrl+q` quits from a dialog without a decision."""
        async with stage(release_bot()) as on:
            await on.open_dialog()
            await on.press("ctrl+q")
            await on.settle()
            assert isinstance(on.app.screen, Confirm)
            await on.wake()
            await on.press("y")
            await on.settle()
            assert on.decisions() == []
