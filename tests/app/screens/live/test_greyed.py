"""Keys of the live screen that have nothing to act on."""

from __future__ import annotations

from interlock.app.console.app import InterlockConsole
from interlock.app.screens.live.screen import OF_SESSION, LiveScreen

from ....support.fake_hub import FakeHub
from ...support.scenes import NOW, docs_writer
from ...support.stage import Stage, stage


def usable(on: Stage) -> dict[str, bool]:
    """Labels of the bar's keys, each with whether it does something."""
    return {each.binding.action: each.enabled for each in on.app.screen.active_bindings.values()}


class TestGreyed:
    async def test_without_a_request(self) -> None:
        """With nothing waiting the keys that decide are greyed, in their place; help says why."""
        async with stage(docs_writer()) as on:
            found = usable(on)
            assert not found["decide('approve')"]
            assert not found["decide('deny')"]
            assert found["interrupt"]
            assert on.painted().split("\n")[-1].startswith(" a approve  d deny  i interrupt")
            await on.press("question_mark")
            await on.until("there is nothing to do it to now")

    async def test_with_a_request(self) -> None:
        """A request wakes them."""
        async with stage() as on:
            assert usable(on)["decide('approve')"]

    async def test_without_a_session(self) -> None:
        """Without a session shown there is none to stop, to replay or to speak to."""
        hub = FakeHub(now=NOW)
        app = InterlockConsole(hub, operator="maria", clock=lambda: NOW, monotonic=lambda: 0.0)
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause()
            screen = app.screen
            assert isinstance(screen, LiveScreen)
            assert {screen.check_action(action, ()) for action in OF_SESSION} == {None}
