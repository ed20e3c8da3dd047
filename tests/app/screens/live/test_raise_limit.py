"""Raising the cost limit of a session from the console."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.app.console.app import InterlockConsole
from interlock.app.screens.live.cost_limit import RaiseLimit, has_limit, higher
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.sources.read_only import read_only
from interlock.app.terminal.key_rights import READ_ONLY
from interlock.engine.agents import Agent, C, ScriptedModel, T, Usage, tool
from interlock.engine.history.model.state import SessionState
from interlock.engine.sessions.config import SessionConfig
from tests.support.fake_hub import FakeHub

from ...support.real_console import real_console
from ...support.scenes import NOW, docs_writer, release_bot
from ...support.stage import Stage, stage


@tool
async def note() -> str:
    """Note."""
    return "noted"


def limited(**more: object) -> SessionState:
    """A session that has reached its cost limit."""
    return docs_writer().model_copy(
        update={"max_cost": 1.0, "cost": 1.25, "input_tokens": 12_000, "output_tokens": 800, **more}
    )


def shown(*states: SessionState) -> AbstractAsyncContextManager[Stage]:
    return stage(*(states or (limited(),)))


def sent_limits(on: Stage) -> list[tuple[object, ...]]:
    return [asked for asked in on.hub.asked if asked[0] == "limit"]


class TestAmount:
    @pytest.mark.parametrize("typed", ["2.5", " $2.50 ", "2.5e0"])
    def test_higher_amount_is_accepted_in_dollars(self, typed: str) -> None:
        """Limits: an amount is in dollars, with or without the sign."""
        assert higher(typed, limited()) == 2.5

    @pytest.mark.parametrize(
        ("typed", "why"),
        [
            ("", "an amount in US dollars, more than 0, not ''"),
            ("-3", "an amount in US dollars, more than 0, not '-3'"),
            ("nan", "an amount in US dollars"),
            ("inf", "an amount in US dollars"),
            ("1", "more than $1.00, which is the limit already"),
            ("1.25", "more than $1.25, which has been spent already"),
        ],
    )
    def test_too_low_amount_is_refused(self, typed: str, why: str) -> None:
        """Limits: an amount with which the session could not continue is refused with the reason."""
        with pytest.raises(ValueError, match=re.escape(why)):
            higher(typed, limited())


class TestOffered:
    @pytest.mark.parametrize("changes", [{"max_cost": None}, {"kind": "outside"}])
    def test_only_for_local_session_with_limit(self, changes: Mapping[str, object]) -> None:
        """Limits: only a session that has a limit and runs here can get a higher one."""
        hub = FakeHub(now=NOW)
        assert has_limit(limited(), hub)
        assert not has_limit(limited(**changes), hub)
        assert not has_limit(None, hub)
        assert not has_limit(limited(), object())

    async def test_key_is_shown_beside_the_cost(self) -> None:
        """Limits: the key is shown beside the cost, and does nothing for a session without a limit."""
        async with shown(limited(), release_bot()) as on:
            await on.until("$1.25 of $1.00, $ raises it · 12k")
            assert "$ raise the limit" in on.painted()
            await on.press("alt+1", "down")
            await on.settle()
            assert "raise the limit" not in on.painted()
            await on.press("dollar_sign")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_read_only(self) -> None:
        """Limits: a read-only console shows the limit and refuses to raise it."""
        hub = FakeHub(limited(), now=NOW)
        app = InterlockConsole(read_only(hub), operator="maria", clock=lambda: NOW)
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            on = Stage(app, hub, pilot)
            await on.until("$1.25 of $1.00 ·")
            await on.press("dollar_sign")
            await on.until(READ_ONLY.split(":")[0])
            assert isinstance(app.screen, LiveScreen)
        assert hub.asked == []


class TestRaising:
    @pytest.mark.slow
    async def test_only_higher_amount_is_sent(self) -> None:
        """Limits: an amount that is not higher is rejected. Only a higher one is sent to the hub."""
        async with shown() as on:
            await on.press("dollar_sign")
            await on.until("Spent $1.25 of $1.00.")
            await on.press("1", "enter")
            await on.until("✗ Expected more than $1.00, which is the limit already")
            assert sent_limits(on) == []
            await on.press("5", "enter", "enter")
            await on.until("Type a reason")
            assert sent_limits(on) == []
            await on.press("o", "k", "enter")
            await on.until("may now cost $15.00")
            assert sent_limits(on) == [("limit", "docs-writer-77c0", 15.0, "maria", "ok")]
            assert isinstance(on.app.screen, LiveScreen)
            await on.until("$1.25 of $15.00")

    @pytest.mark.slow
    async def test_escape_changes_nothing(self) -> None:
        """Limits: escape changes nothing, whatever was typed."""
        async with shown() as on:
            await on.press("dollar_sign", "9", "escape")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)
            assert sent_limits(on) == []

    async def test_hub_refusal_is_shown(self) -> None:
        """Limits: a refusal by the hub is shown with its reason."""
        async with shown() as on:
            on.hub.refuse = "Not raised, the journal refused it: the disk is full"
            await on.until("raises it")
            await on.press("dollar_sign", "9", "enter")
            await on.settle()
            await on.press("x", "enter")
            await on.until("Not raised")

    @pytest.mark.slow
    async def test_stopped_session_continues(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Limits: a session that stopped at its limit continues with the next message."""
        monkeypatch.chdir(tmp_path)
        model = ScriptedModel(
            [replace(C(note={}), usage=Usage(input=10, output=5, cost=1.5)), T("I go on")]
        )
        async with real_console() as on:
            hub = on.app.hub
            agent = Agent(model, name="bot", tools=[note], max_cost=1.0)
            session = await hub.open_session(agent, SessionConfig({}))
            await hub.send(session, "go", by="maria")
            await on.until("$1.50 of $1.00")
            await on.pilot.press("dollar_sign")
            assert isinstance(on.app.screen, RaiseLimit)
            await on.pilot.press("4", "enter", "x", "enter")
            await on.until("$1.50 of $4.00")
            await hub.send(session, "go on", by="maria")
            await on.until("I go on")
