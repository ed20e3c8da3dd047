"""Keys that cannot act now are greyed, and a press on them shows why."""

from __future__ import annotations

import asyncio

import pytest

from interlock.app.console.app import InterlockConsole
from interlock.app.screens.common.guarded_keys import SENDING
from interlock.app.screens.history.screen import NO_SESSIONS
from interlock.app.screens.live.screen import OF_SESSION, LiveScreen
from interlock.app.widgets.base.bars import KeyBar
from interlock.app.widgets.lists.sessions import NOTHING_WAITS

from ....support.fake_hub import FakeHub
from ...support.scenes import NOW, deploy_request, docs_writer, release_bot
from ...support.stage import Stage, stage


def usable(on: Stage) -> dict[str, bool]:
    """The actions of the bar's keys, each with whether it is enabled."""
    return {each.binding.action: each.enabled for each in on.app.screen.active_bindings.values()}


class TestGreyed:
    async def test_without_a_request(self) -> None:
        """Without a request the keys that decide are greyed but keep their place. Help shows why."""
        async with stage(docs_writer()) as on:
            found = usable(on)
            assert not found["decide('approve')"]
            assert not found["decide('deny')"]
            assert found["interrupt"]
            assert on.painted().split("\n")[-1].startswith(" ✓ a approve  ✗ d deny  i interrupt")
            await on.press("question_mark")
            await on.until("Not now: Nothing to approve.")

    @pytest.mark.slow
    async def test_request_enables_keys(self) -> None:
        """A request enables them."""
        async with stage() as on:
            assert usable(on)["decide('approve')"]

    @pytest.mark.slow
    async def test_without_a_session(self) -> None:
        """Without a session on screen the keys for sessions are greyed."""
        hub = FakeHub(now=NOW)
        app = InterlockConsole(hub, operator="maria", clock=lambda: NOW, monotonic=lambda: 0.0)
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause()
            screen = app.screen
            assert isinstance(screen, LiveScreen)
            assert {screen.check_action(action, ()) for action in OF_SESSION} == {None}

    @pytest.mark.slow
    async def test_greyed_key_shows_its_reason(self) -> None:
        """A greyed key, or a click on it, shows the reason, once while the key is held."""
        async with stage(docs_writer()) as on:
            await on.press(*"ddd")
            await on.until("Nothing to approve.")
            assert [each.message for each in on.app._notifications] == [NOTHING_WAITS]
            on.app.clear_notifications()
            await on.pilot.click(KeyBar, offset=(2, 0))
            await on.settle()
            assert [each.message for each in on.app._notifications] == [NOTHING_WAITS]


class TestDialog:
    async def test_deciding_keys_are_greyed_until_hub_answers(self) -> None:
        """Deciding keys are greyed until the hub has answered, and the dialog shows why."""
        async with stage() as on:
            dialog = await on.open_dialog()
            on.hub.held = asyncio.Event()
            await on.press("a")
            assert {dialog.check_action(action, ()) for action in ("approve", "deny", "stop")} == {None}
            await on.press("d")
            await on.until(SENDING)
            assert dialog.open_line is None
            on.hub.held.set()
            await on.settle()
            assert [asked[0] for asked in on.hub.asked] == ["decide"]

    @pytest.mark.slow
    async def test_grant_key_is_greyed_when_rule_allows_none(self) -> None:
        """If the rule allows no grants, the key is greyed and shows why."""
        state = release_bot()
        state.approvals["ap1"] = deploy_request(may_grant=False)
        async with stage(state) as on:
            dialog = await on.open_dialog()
            assert dialog.check_action("grant", ()) is None
            await on.press("g")
            await on.until("No grants: the rule allows none")
            assert on.app.screen is dialog


class TestRecorded:
    async def test_keys_are_greyed_in_empty_history(self) -> None:
        """In a history without sessions the keys to filter, open and continue are greyed."""
        async with stage() as on:
            await on.press("h")
            await on.until("No sessions are recorded yet.")
            assert not any(usable(on)[action] for action in ("filter", "continue", "open"))
            await on.press("c")
            await on.settle()
            assert [each.message for each in on.app._notifications] == [NO_SESSIONS]
