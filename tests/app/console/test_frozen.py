"""A freeze of all agents by one key, shown on every screen and console, and lifted with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.console.app import InterlockConsole
from interlock.app.console.freeze_line import FreezeLine
from interlock.app.screens.live.loosen import Loosen
from interlock.app.terminal.key_rights import Permission
from interlock.engine.history.model.records import FreezeRecord
from tests.support.fake_hub import FakeHub

from ..support.scenes import NOW
from ..support.stage import everyone
from .test_two_consoles import two_consoles

LINE = "ALL AGENTS frozen by ada"


class TestKey:
    @pytest.mark.slow
    async def test_key_freezes_and_lifts(self, tmp_path: Path) -> None:
        """One key holds a call and both consoles show it; after a lift with a reason the call runs."""
        async with two_consoles(tmp_path, "block rm") as (shop, (ada, ben)):
            await ada.press("F")
            for seat in (ada, ben):
                await seat.shows(LINE)
            await shop.hub.send("one", "go", by="mia")
            await ben.press("v")
            await ben.shows("1 decision")
            await ben.shows(LINE)
            assert shop.ran == []
            await ada.press("F")
            await ada.until(lambda: isinstance(ada.app.screen, Loosen))
            await ada.press("enter")
            await ada.shows("Type a reason")
            assert shop.hub.current_freeze() is not None
            for key in "ok":
                await ada.press(key)
            await ada.press("enter")
            await ada.until(lambda: shop.hub.current_freeze() is None)
            await shop.hub.wait("one")
            assert shop.ran == ["deploy 0"]
            for seat in (ada, ben):
                await seat.until(lambda seat=seat: LINE not in seat.painted())

    async def test_freezing_requires_rights(self) -> None:
        """With 'look' the key freezes no agent; with 'decide' the console cannot lift a freeze."""
        for rights, freeze in (
            ("look", None),
            ("decide", FreezeRecord(by="ada", at=NOW, reason="")),
        ):
            hub = FakeHub(*everyone(), now=NOW)
            hub.freeze_in_force = freeze
            app = InterlockConsole(hub, operator="ben", permission=Permission(rights))
            async with app.run_test(size=(100, 30)) as pilot:
                await pilot.press("F")
                await pilot.pause()
                assert not isinstance(app.screen, Loosen)
                assert hub.asked == []
                for line in app.screen.query(FreezeLine):
                    assert "lifts it" not in line.render().plain

    @pytest.mark.slow
    async def test_reason_is_shown_as_text(self) -> None:
        """The line shows no control characters of a name or reason, and markup as plain text."""
        hub = FakeHub(*everyone(), now=NOW)
        hub.freeze_in_force = FreezeRecord(by="a\x1b[2J", at=NOW, reason="[b]x[/b]\u202e")
        app = InterlockConsole(hub, operator="ben")
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.pause()
            line = app.screen.query_one(FreezeLine).render().plain
            assert "\x1b" not in line
            assert "\u202e" not in line
            assert "[b]x[/b]" in line
