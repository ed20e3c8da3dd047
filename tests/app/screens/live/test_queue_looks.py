"""Pictures of the queue, a batch and a grant, with fixed sessions and a fixed clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.app import App
from textual.pilot import Pilot

from interlock.app.console.app import InterlockConsole
from tests.support.fake_hub import FakeHub

from ...support.queue_scenes import grant, several, sliding, two_people
from ...support.scenes import NOW, docs_writer

Compare = Callable[..., bool]
SIZES = [(120, 40), (80, 24)]


def console() -> App[None]:
    """Three requests, a grant, and nets of every new kind."""
    state = several()
    for net in (two_people(), sliding(1, 2880, 100)):
        state.nets[net.key] = net
    state.grants["grant-1"] = grant()
    state.calls["c6"].granted = ("grant-1",)
    state.calls["c5"].approved_by, state.calls["c5"].edited = ("maria",), True
    hub = FakeHub(state, docs_writer(), now=NOW)
    return InterlockConsole(hub, operator="maria", clock=lambda: NOW, monotonic=lambda: 0.0)


def keys(*pressed: str) -> Callable[[Pilot[None]], object]:
    """Press keys and wait until the screen has settled."""

    async def run(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await pilot.press(*pressed)
        await pilot.pause(0.3)
        await pilot.pause()

    return run


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=["120x40", "80x24"])
class TestLooks:
    def test_queue(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Risk, time left, approvals and doubts in the queue, with one request marked."""
        assert snap_compare(console(), terminal_size=size, run_before=keys("alt+5", "j", "space"))

    def test_nets(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """A two-person rule with its progress, a sliding limit, and a grant among the nets."""
        assert snap_compare(console(), terminal_size=size, run_before=keys("alt+3", "G"))

    def test_batch(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Three requests as a table of their differences, with sleeping keys."""
        pressed = keys("alt+5", "space", "j", "space", "j", "space", "B")
        assert snap_compare(console(), terminal_size=size, run_before=pressed)

    def test_grant(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """A grant's panel: its terms, and its net."""
        assert snap_compare(console(), terminal_size=size, run_before=keys("alt+3", "G", "enter"))
