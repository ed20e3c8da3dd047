"""Keys that arrive at once: each acts after the keys before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

import pytest
from rich.console import RenderableType
from textual import events
from textual.command import CommandPalette
from textual.screen import Screen
from textual.widgets import Input

from interlock.app.console.app import InterlockConsole
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.common.help import Help
from interlock.app.screens.live.cost_limit import RaiseLimit
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.screens.rules.screen import RulesScreen

from ..support.scenes import deploy_request, docs_writer, release_bot
from ..support.stage import CHARACTERS, Stage, stage


def type_at_once(on: Stage, *keys: str) -> None:
    """Send keys at once, as from a paste or a fast typist on a busy machine."""
    for key in keys:
        character = CHARACTERS.get(key, key if len(key) == 1 else None)
        on.app.post_message(events.Key("space" if key == " " else key, character))


async def wait_for(on: Stage, holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    for _ in range(300):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"it did not come:\n{on.painted()}")


def value_of(on: Stage, selector: str) -> str:
    return on.app.screen.query_one(selector, Input).value


class TestNextField:
    async def test_keys_after_enter_go_into_the_next_line(self) -> None:
        """Keys after `enter` go into the line to which `enter` moves."""
        limited = docs_writer().model_copy(update={"max_cost": 1.0, "cost": 0.25})
        async with stage(limited) as on:
            await on.press("dollar_sign")
            await on.settle()
            assert isinstance(on.app.screen, RaiseLimit)
            type_at_once(on, "2", "enter", *"because it is late")
            await wait_for(on, lambda: len(value_of(on, "#reason")) == 18)
            assert (value_of(on, "#limit"), value_of(on, "#reason")) == ("2", "because it is late")

    async def test_form_typed_at_once(self) -> None:
        """A form that is typed at once is sent as typed, and no key reaches the screen below."""
        limited = docs_writer().model_copy(update={"max_cost": 1.0, "cost": 0.25})
        async with stage(limited) as on:
            type_at_once(on, "dollar_sign", "2", "enter", *"say so", "enter")
            await wait_for(on, lambda: any(asked[0] == "limit" for asked in on.hub.asked))
            assert on.hub.asked == [("limit", limited.id, 2.0, "maria", "say so")]


class TestOpenedLine:
    @pytest.mark.slow
    async def test_keys_after_the_opening_key_go_into_the_line(self) -> None:
        """Keys after the one that opens a line go into it, not into the list below."""
        async with stage() as on:
            await on.press("R")
            await on.settle()
            assert isinstance(on.app.screen, RulesScreen)
            type_at_once(on, "o", *"ops.rules")
            await wait_for(on, lambda: len(value_of(on, "#named")) >= 9)
            assert value_of(on, "#named") == "ops.rules"

    @pytest.mark.slow
    async def test_keys_in_their_order(self) -> None:
        """A line that is opened, closed and opened again takes each key in its turn."""
        async with stage() as on:
            await on.press("R")
            await on.settle()
            type_at_once(on, "o", *"ab", "escape", "o", *"cd")
            # A line that opens again has its text selected, so that typing replaces it.
            await wait_for(on, lambda: value_of(on, "#named") == "cd")


class TestHeldUp:
    async def test_palette_opens_over_a_busy_screen(self) -> None:
        """The palette opens even while the screen is still busy with an earlier key."""
        async with stage() as on:
            released = asyncio.Event()
            on.app.screen.call_later(released.wait)
            type_at_once(on, "down", "ctrl+p")
            try:
                await wait_for(on, lambda: isinstance(on.app.screen, CommandPalette))
            finally:
                released.set()

    @pytest.mark.slow
    @pytest.mark.parametrize("late", [False, True])
    async def test_text_waits_for_its_line(self, monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
        """Typed text waits for the line that the key before it opens, however late both are."""
        monkeypatch.setattr("interlock.app.terminal.key_order.PATIENCE", 0.01)
        state = release_bot()
        state.approvals["ap1"] = deploy_request()
        async with stage(state) as on:
            dialog = await on.open_dialog()
            released = asyncio.Event()
            dialog.call_later(released.wait)
            typed = (["d"], [*"no, xs"]) if late else (["d", *"no, xs"], [])
            for keys in typed:
                type_at_once(on, *keys)
                await asyncio.sleep(0.05)  # longer than the patience
            released.set()
            await wait_for(on, lambda: dialog.query_one(Input).value == "no, xs")

    @pytest.mark.slow
    async def test_two_keys_at_once_decide_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two keys at once decide nothing, even if the dialog is delayed between them."""
        monkeypatch.setattr("interlock.app.terminal.key_order.TEXT_PATIENCE", 0.2)
        state = release_bot()
        state.approvals["ap1"] = deploy_request()
        async with stage(state, quiet=0.05) as on:
            dialog = await on.open_dialog()
            released = asyncio.Event()

            def deliberately(decide: Callable[[], None]) -> None:
                ApprovalScreen.deliberately(dialog, decide)
                dialog.call_later(released.wait)

            monkeypatch.setattr(dialog, "deliberately", deliberately)
            both = on.app.keys.handled + 2
            type_at_once(on, "a", "b")
            # The second key is handled only after the first has timed out.
            await wait_for(on, lambda: on.app.keys.handled == both)
            released.set()
            await on.until("Keys pressed too fast")
            assert on.decisions() == []


class TestFirstPaint:
    async def test_key_right_after_it_is_handled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A key that arrives right after the first paint is handled."""
        display = InterlockConsole._display
        # Made here, because a widget does not forward keys of a widget that contains it.
        keys = [events.Key("question_mark", "?")]

        def display_and_type(
            app: InterlockConsole, screen: Screen[object], renderable: RenderableType | None
        ) -> None:
            display(app, screen, renderable)
            painted = renderable is not None and not app._batch_count
            if keys and painted and isinstance(screen, LiveScreen):
                keys[0].time = monotonic()
                app.post_message(keys.pop())

        monkeypatch.setattr(InterlockConsole, "_display", display_and_type)
        async with stage() as on:
            await wait_for(on, lambda: isinstance(on.app.screen, Help))
