"""Pictures of a flow's form and graph, with a fixed session and a fixed clock."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from textual.app import App

from interlock.app.console.app import InterlockConsole
from tests.support.fake_hub import FakeHub

from ...console.test_snapshots import keys
from ...support.scenes import NOW
from ...support.stage import everyone
from .flows import release

Compare = Callable[..., bool]
SIZES = [(120, 40), (80, 24)]
NAMES = ["120x40", "80x24"]


def console() -> App[None]:
    hub = FakeHub(release(), *everyone()[1:], now=NOW)
    passing = itertools.count()
    return InterlockConsole(
        hub, operator="maria", clock=lambda: NOW, monotonic=lambda: float(next(passing))
    )


@pytest.mark.parametrize("size", SIZES, ids=NAMES)
class TestLooks:
    @pytest.mark.slow
    def test_form(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The answer form: types of fields, choices, required fields."""
        assert snap_compare(console(), terminal_size=size, run_before=keys("a", "a"))

    @pytest.mark.variants
    def test_graph(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The graph with its live states, the node that worked last and the next node."""
        assert snap_compare(console(), terminal_size=size, run_before=keys("alt+3", "g", "enter"))
