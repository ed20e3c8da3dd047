"""Pictures of the queue as a table, with fixed requests and a fixed clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.app import App
from textual.pilot import Pilot

from interlock.app.console.app import InterlockConsole
from interlock.engine.history.decisions.precedents import NewWord, PastCall, Precedents
from tests.support.fake_hub import FakeHub

from ...support.scenes import NOW, before
from ...support.triage_scenes import every_kind

Compare = Callable[..., bool]


def past() -> Precedents:
    """Fourteen approvals, a denial, and the nearest approved call."""
    last = PastCall(
        session="release-bot-04",
        call_id="c3",
        at=before(7200),
        input={"env": "staging", "commit": "9f31c02", "region": "eu-west-1"},
        verdict="approved",
        by="ben",
        result="done",
    )
    new = (NewWord(kind="host", text="example.org"),)
    return Precedents(
        approved=14, people=3, denied=1, reason="not on Friday", nearest=last, last=last, new=new
    )


def console() -> App[None]:
    """Eleven requests of every kind."""
    hub = FakeHub(*every_kind(), now=NOW)
    hub.past["q11"] = past()
    return InterlockConsole(hub, operator="maria", clock=lambda: NOW, monotonic=lambda: 0.0)


def keys(*pressed: str) -> Callable[[Pilot[None]], object]:
    """Press keys and wait until the screen has settled."""

    async def run(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await pilot.press("Q", *pressed)
        await pilot.pause(0.6)
        await pilot.pause()

    return run


class TestLooks:
    @pytest.mark.variants
    @pytest.mark.parametrize(
        "size", [(200, 50), (120, 40), (80, 24), (60, 24)], ids="{0[0]}x{0[1]}".format
    )
    def test_table(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Requests of one rule and agent under their heading, three of them marked, and a preview."""
        pressed = keys("j", "j", "j", "asterisk")
        assert snap_compare(console(), terminal_size=size, run_before=pressed)

    @pytest.mark.slow
    def test_filter(self, snap_compare: Compare) -> None:
        """The matching requests, and the line with their number."""
        pressed = keys("slash", *"risk:medium", "enter")
        assert snap_compare(console(), terminal_size=(120, 40), run_before=pressed)

    @pytest.mark.slow
    def test_reason(self, snap_compare: Compare) -> None:
        """The line for a denial's reason."""
        assert snap_compare(console(), terminal_size=(80, 24), run_before=keys("d"))
