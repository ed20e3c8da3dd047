"""A journal that cannot be written: every screen shows it, with the consequences, until it ends."""

from __future__ import annotations

from datetime import UTC, timedelta

import pytest
from textual.screen import ModalScreen

from interlock.app.console.app import InterlockConsole
from interlock.app.console.freeze_line import FreezeLine
from interlock.app.console.outage_line import OutageLine
from interlock.app.terminal.key_rights import Permission
from interlock.engine.history.model.records import FreezeRecord, JournalOutage
from tests.support.fake_hub import FakeHub

from ..support.scenes import NOW
from ..support.stage import everyone

AWAY = JournalOutage(since=NOW - timedelta(seconds=47), kind="unreachable", reason="[b]refused\x1b[2J")


def stage(hub: FakeHub, permission: Permission | None = None) -> InterlockConsole:
    app = InterlockConsole(hub, operator="ben", clock=lambda: NOW, permission=permission)
    app._outage._zone = UTC
    return app


def lines(app: InterlockConsole) -> str:
    """Return the outage lines of the top screen, or an empty string."""
    found = app.screen.query(OutageLine)
    return found.first().render().plain if found else ""


class TestLines:
    @pytest.mark.parametrize("width", [60, 80, 120])
    async def test_lines_fit_at_every_width(self, width: int) -> None:
        """The fault, its start and its consequences fit at every width, without a truncated word."""
        hub = FakeHub(*everyone(), now=NOW)
        hub.outage = AWAY
        app = stage(hub)
        async with app.run_test(size=(width, 24)) as pilot:
            await pilot.pause()
            upper, lower = lines(app).split("\n")
            assert f"THE DATABASE CANNOT BE REACHED since {AWAY.since:%H:%M:%S} (0:47)" in upper
            assert "Nothing is decided" in lower
            assert "may not be recorded." in lower
            assert "\x1b" not in upper
            assert all(len(each) <= width - 2 for each in (upper, lower))

    @pytest.mark.parametrize(
        ("reason", "cause"),
        [
            (
                'connection failed: connection to server at "db", port 1 failed: Connection refused',
                "Connection refused",
            ),
            (
                'could not extend file "base/1/2": No space left on device. HINT: Check free disk space',
                "No space left on device",
            ),
        ],
    )
    async def test_long_error_keeps_its_cause(self, reason: str, cause: str) -> None:
        """The line shows the end of a long error, which names the cause, not the address or the file."""
        hub = FakeHub(*everyone(), now=NOW)
        hub.outage = JournalOutage(since=AWAY.since, kind="unwritable", reason=reason)
        app = stage(hub)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            assert lines(app).split("\n")[0].endswith(f"(0:47): {cause}")

    @pytest.mark.timeout(60)
    async def test_lines_appear_and_disappear_with_the_outage(self) -> None:
        """The lines appear at the event, over a dialog and above a freeze, and disappear at its end."""
        hub = FakeHub(*everyone(), now=NOW)
        hub.show_freeze(FreezeRecord(by="ada", at=NOW))
        app = stage(hub)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            assert lines(app) == ""
            hub.show_outage(AWAY)
            await pilot.pause()
            await pilot.press("question_mark")
            await app._outage.look()
            await app._freeze.look()
            await pilot.pause()
            assert isinstance(app.screen, ModalScreen)
            for screen in app.screen_stack:
                [outage], [freeze] = screen.query(OutageLine), screen.query(FreezeLine)
                assert outage.region.y == 0
                while freeze.region.y != outage.region.bottom:  # the freeze moves at the next layout
                    await pilot.pause(0.01)
            hub.show_outage(None)
            await pilot.pause()
            assert not any(screen.query(OutageLine) for screen in app.screen_stack)

    async def test_read_only_operator_sees_no_approval_consequence(self) -> None:
        """For an operator who cannot approve, the lines do not mention approvals."""
        hub = FakeHub(*everyone(), now=NOW)
        hub.outage = AWAY
        app = stage(hub, Permission("look"))
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            assert "approve" not in lines(app)
            assert "Nothing is decided" in lines(app)
