"""What the approval dialog and the panels over it look like, wide and at 80 columns."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from interlock.app.console import InterlockConsole
from tests.app.scenes import NOW, before, deploy_request, release_bot
from tests.support.fake_hub import FakeHub

Compare = Callable[..., bool]
REASONS = ("wrong environment", "not now", "ask the release manager first")


def console(**more: object) -> App[None]:
    """A request with everything that a rule can say of it."""
    state = release_bot()
    state.opened_by = "maria"
    state.approvals["ap1"] = deploy_request(
        **{
            "input": {
                "command": "cd infra && ./deploy --env prod; git push --force origin main",
                "timeout": 30,
                "dry": False,
                "labels": {"team": "shop"},
            },
            "names": ("deploy", "push", "bash"),
            "risk": "high",
            "expires": NOW + timedelta(seconds=858),
            "note": "the call has no input.path",
            **more,
        }
    )
    passing = itertools.count()
    return InterlockConsole(
        FakeHub(state, now=NOW),
        operator="maria",
        deny_reasons=REASONS,
        clock=lambda: NOW,
        monotonic=lambda: float(next(passing)),
    )


def keys(*pressed: str) -> Callable[[Pilot[None]], object]:
    """Type, each key with its effect; no cursor blinks."""

    async def run(pilot: Pilot[None]) -> None:
        await pilot.pause()
        for key in pressed:
            await pilot.press(key)
            await pilot.pause(0.02)
            for each in pilot.app.screen.query("Input, TextArea").results(Input | TextArea):
                each.cursor_blink = False
        await pilot.pause(0.15)
        await pilot.pause()

    return run


@pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids=["120x40", "80x24"])
class TestLooks:
    def test_dialog(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Effects, risk, commands, the rule and why it applies, people, expiry."""
        app = console(people=2, given=("ada",), given_at=(before(120),))
        assert snap_compare(app, terminal_size=size, run_before=keys("a"))

    def test_deny_and_stop(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The line for the reason, the reasons by number, and what enter will do."""
        assert snap_compare(console(), terminal_size=size, run_before=keys("a", "s", "2"))


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 24)], ids=["120x40", "80x24", "60x24"])
class TestPanels:
    """Over the dialog, but for the last, which lies over the live screen."""

    def test_edit(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Each field as what it is, what was changed, what is wrong and where."""
        run = keys("a", "e", "x", "tab", "tab", "space", "tab", "x")
        assert snap_compare(console(), terminal_size=size, run_before=run)

    def test_review(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Before and after, and how to approve it."""
        run = keys("a", "e", "x", "tab", "tab", "space", "ctrl+s")
        assert snap_compare(console(), terminal_size=size, run_before=run)

    def test_grant(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """What and how long, and the sentence of what will pass."""
        run = keys("a", "g", "tab", "right")
        assert snap_compare(console(), terminal_size=size, run_before=run)

    def test_over(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Somebody else was faster: who, and that nothing is left to decide."""

        async def run(pilot: Pilot[None]) -> None:
            await keys("a")(pilot)
            hub = pilot.app.hub  # type: ignore[attr-defined]
            hub.decided_elsewhere("ap1", approved=False, by="jo")
            await keys()(pilot)

        assert snap_compare(console(), terminal_size=size, run_before=run)

    def test_limit(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Over the live screen: what a session has cost, and the line for what it may."""
        app = console()
        state = app.hub.states["release-bot-1f3a"]  # type: ignore[attr-defined]
        state.max_cost, state.cost, state.input_tokens = 1.0, 1.25, 12_000
        assert snap_compare(app, terminal_size=size, run_before=keys("dollar_sign", "2"))
