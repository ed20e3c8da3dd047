"""Snapshots of a connected console: the server in the title, a lost connection, the start form."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from interlock.app.console.app import InterlockConsole
from interlock.engine.gateway.client.console import LOST, NOT_IN
from interlock.engine.hub.api import AgentStarter, Outcome, RunningRules

from ...support.fake_hub import FakeHub
from ..console.test_snapshots import Compare, keys
from ..support.scenes import NOW
from ..support.stage import everyone

SIZES = [(120, 40), (80, 24)]
NAMES = ["120x40", "80x24"]
SERVER = "127.0.0.1:8737"


class ServersHub(FakeHub, AgentStarter):
    """A hub that presents itself as a server's."""

    @property
    def server(self) -> str:
        return SERVER

    @property
    def location(self) -> str:
        return SERVER

    async def running_rules(self) -> RunningRules:
        raise NotImplementedError

    async def apply_rules(self, files: object, **_: object) -> Outcome:
        raise NotImplementedError

    async def drop_rules(self, **_: object) -> Outcome:
        raise NotImplementedError

    async def start(self, spec: object, **_: object) -> str:
        raise NotImplementedError

    async def resume(self, session_id: str, **_: object) -> str:
        raise NotImplementedError


def console() -> InterlockConsole:
    hub = ServersHub(*everyone(), now=NOW)
    return InterlockConsole(hub, operator="maria", clock=lambda: NOW, monotonic=lambda: 0.0)


@pytest.mark.parametrize("size", SIZES, ids=NAMES)
class TestLooks:
    @pytest.mark.variants
    def test_live(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The title names the server of the sessions."""
        assert snap_compare(console(), terminal_size=size, run_before=keys())

    @pytest.mark.slow
    @pytest.mark.parametrize("trouble", [LOST, NOT_IN], ids=["lost", "refused"])
    def test_lost(self, snap_compare: Compare, size: tuple[int, int], trouble: str) -> None:
        """A line above the dialog reports the lost or refused connection."""
        app = console()

        async def run(pilot: Pilot[None]) -> None:
            await pilot.press("a")
            app.post_message(app.ConnectionMoved(trouble))
            await pilot.pause(0.3)

        assert snap_compare(app, terminal_size=size, run_before=run)

    @pytest.mark.slow
    def test_form(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The start form says on which server the session will run."""
        assert snap_compare(console(), terminal_size=size, run_before=keys("s"))
