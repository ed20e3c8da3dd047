"""A read-only console shows everything and changes nothing."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from interlock.app.cli.main import main
from interlock.app.console.app import InterlockConsole
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.common.help import Help
from interlock.app.screens.decisions.screen import DecisionsScreen
from interlock.app.sources.read_only import ReadOnlyError, ReadOnlyHub, read_only
from interlock.app.terminal.key_rights import NEEDS
from interlock.app.terminal.keymap import bindings_of, decides
from interlock.app.terminal.keymap_check import classes_with_keys
from interlock.engine.history.decisions.counts import ShadowSession, ShadowSummary
from interlock.engine.hub.api import HubApi
from interlock.engine.hub.hub import Hub
from interlock.engine.hub.operations import operations

from ...support.fake_hub import FakeHub
from ..support.scenes import NOW
from ..support.stage import everyone

CHANGES = {
    "abort",
    "branch_session",
    "claim",
    "close",
    "close_session",
    "comment",
    "compact",
    "decide",
    "extend",
    "freeze",
    "lift_freeze",
    "note_reading",
    "open_session",
    "accept_loss",
    "raise_limit",
    "resume_session",
    "revoke_grant",
    "send",
    "set_mode",
    "take_back",
    "toggle_net",
    "unclaim",
}


class Looking:
    """A read-only console on a fake hub."""

    def __init__(self, app: InterlockConsole, hub: FakeHub, pilot: Pilot[None]) -> None:
        self.app, self.hub, self.pilot = app, hub, pilot

    def painted(self) -> str:
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    async def press(self, *keys: str) -> None:
        for key in keys:
            self.app.post_message(events.Key(key, key if len(key) == 1 else None))
            await self.pilot.pause(0.02)

    async def until(self, wanted: Callable[[], bool]) -> None:
        for _ in range(200):
            if wanted():
                return
            await self.pilot.pause(0.02)
        raise AssertionError(self.painted())


@asynccontextmanager
async def read_only_console(size: tuple[int, int] = (120, 40)) -> AsyncIterator[Looking]:
    hub = FakeHub(*everyone(), now=NOW)
    app = InterlockConsole(read_only(hub), operator="maria", clock=lambda: NOW)
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        yield Looking(app, hub, pilot)


class TestHub:
    @pytest.mark.parametrize("name", sorted(CHANGES))
    async def test_changing_methods_raise(self, name: str) -> None:
        """Every changing method of a hub raises, whatever its arguments."""
        hub = FakeHub(now=NOW)
        with pytest.raises(ReadOnlyError, match="read-only"):
            await getattr(read_only(hub), name)("ap1", approved=True, by="maria")
        assert hub.asked == []

    @pytest.mark.parametrize("name", ["set_fire_to", "journal", "publish"])
    def test_unknown_methods_are_refused(self, name: str) -> None:
        """Unknown methods are refused, so that future ones are, too."""
        with pytest.raises(ReadOnlyError):
            getattr(read_only(FakeHub(now=NOW)), name)()

    async def test_queries_are_answered(self) -> None:
        """Queries are passed to the hub."""
        hub = FakeHub(*everyone(), now=NOW)
        guarded = read_only(hub)
        assert await guarded.sessions() == await hub.sessions()
        assert await guarded.approvals() == await hub.approvals()
        assert guarded.location == hub.location

    def test_private_attributes_are_not_accessible(self) -> None:
        """Private attributes of the hub are not accessible."""
        with pytest.raises(AttributeError):
            _ = read_only(FakeHub(now=NOW))._live
        assert isinstance(read_only(FakeHub(now=NOW)), ReadOnlyHub)

    def test_every_method_is_known(self) -> None:
        """No declared query is known to change anything, and all changing methods exist."""
        public = {n for n, _ in inspect.getmembers(Hub, callable) if not n.startswith("_")} - {"open"}
        assert public >= CHANGES
        reading = {name for name, each in operations(HubApi).items() if not each.changes}
        assert not reading & CHANGES


class TestKeys:
    def test_disabled_actions_exist(self) -> None:
        """The disabled actions are actions of the console."""
        known = {b.id for owner in classes_with_keys() for b in bindings_of(owner)}
        assert known >= NEEDS.keys()

    async def test_changing_actions_are_disabled(self) -> None:
        """On the live screen changing actions are shown, but disabled."""
        async with read_only_console() as on:
            active = {b.binding.id: b.enabled for b in on.app.screen.active_bindings.values()}
            changing = {name for name in active if name in NEEDS}
            assert changing >= {"live.approve", "live.interrupt", "live.mode", "live.start", "live.stop"}
            assert not any(active[name] for name in changing)
            assert active["live.decisions"]
            assert active["live.replay"]
            keys = on.painted().splitlines()[-1]
            assert keys.index("r replay") < keys.index("a approve")

    @pytest.mark.slow
    async def test_disabled_key_and_help_give_the_reason(self) -> None:
        """A disabled key and the help say that the console is read-only."""
        async with read_only_console() as on:
            await on.press("m")
            await on.until(lambda: "console is read-only: it changes" in on.painted())
            await on.press("question_mark")
            await on.until(lambda: isinstance(on.app.screen, Help))
            await on.until(lambda: "This console is read-only" in on.painted())
            assert on.hub.asked == []

    @pytest.mark.slow
    async def test_requests_are_shown(self) -> None:
        """A request opens in full; its deciding keys are disabled."""
        async with read_only_console() as on:
            await on.press("alt+5", "enter")
            await on.until(lambda: isinstance(on.app.screen, ApprovalScreen))
            deciding = [b for b in on.app.screen.active_bindings.values() if decides(b.binding.id or "")]
            assert deciding
            assert not any(b.enabled for b in deciding)
            await on.press("a", "d")
            await on.until(lambda: "console is read-only: it changes" in on.painted())
            assert [asked for asked in on.hub.asked if asked[0] == "decide"] == []

    @pytest.mark.slow
    async def test_decisions_screen_cannot_switch_to_enforce_mode(self) -> None:
        """The decisions screen cannot switch a session to enforce mode."""
        async with read_only_console() as on:
            on.app.push_screen(DecisionsScreen(on.app.hub, hub=on.app.hub))
            await on.until(lambda: "decision" in on.painted() and bool(on.app.screen.query("#table")))
            assert isinstance(on.app.screen, DecisionsScreen)
            night = ShadowSession(session="night", agent="night", calls=1)
            on.app.screen._shadow = ShadowSummary(sessions=(night,), calls=1)
            active = {b.binding.id: b.enabled for b in on.app.screen.active_bindings.values()}
            assert active["decisions.enforce"] is False
            assert active["decisions.filter"]
            await on.press("s")
            await on.until(lambda: "enter lists them" in on.painted())
            assert "enforce this session" not in on.painted()

    @pytest.mark.slow
    async def test_quitting_needs_no_confirmation(self) -> None:
        """Quitting needs no confirmation, because nothing ends with the console."""
        async with read_only_console() as on:
            await on.press("q")
            await on.until(lambda: not on.app.is_running or on.app._exit)


@pytest.mark.variants
@pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids=["120x40", "80x24"])
async def test_title_contains_read_only(size: tuple[int, int]) -> None:
    """The title says read-only and, in a wide terminal, the operator's name."""
    async with read_only_console(size) as on:
        title = on.painted().splitlines()[0]
        assert "read-only" in title
        assert size[0] < 100 or "as maria" in title


@pytest.mark.parametrize("command", [["demo"], ["run", "--model", "x", "Ship it"], ["resume", "abc"]])
def test_commands_that_host_agents_refuse_it(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Commands that host an agent refuse read-only mode."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("INTERLOCK_READ_ONLY", "1")
    assert main(command) == 2
    assert f"interlock {command[0]}: --read-only changes nothing" in capsys.readouterr().err
