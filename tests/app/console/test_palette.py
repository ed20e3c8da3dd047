"""The command palette lists every action, and the help lists every key with its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.app import App

from interlock.app.console.base import binding_commands
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.common.guarded_keys import ASLEEP
from interlock.app.screens.common.help import Help, help_for
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.terminal.keymap import bindings_of
from interlock.app.widgets.base.blocks import BlockList

from ..support.scenes import deploy_request, docs_writer, release_bot
from ..support.stage import stage
from ..support.views import BY_NAME, Shown, showing

HIDDEN = {
    # The key that opens the palette itself.
    "app.command_palette",
}


def check_palette(on: Shown) -> None:
    """Assert that each usable binding of the screen and the app is a command with its key."""
    screen = on.app.screen
    commands = {c.title.lower(): c.help for c in binding_commands(on.app, screen)}
    usable = [a for a in screen.active_bindings.values() if a.enabled]
    # A key may have another name if it does something else for the current content.
    active = {a.binding.action: a.binding.description.lower() for a in usable}
    missing = [
        binding.id
        for binding in bindings_of(type(screen))
        if binding.action not in HIDDEN
        and binding.action in active
        and active[binding.action] not in commands
    ]
    assert missing == []
    for active_binding in usable:
        binding = active_binding.binding
        if binding.action in HIDDEN or binding.system or not binding.id:
            continue
        told = commands[binding.description.lower()]
        assert on.app.get_key_display(binding) in told.replace("\\", "").split(" · ")[0]
        assert active_binding.tooltip or binding.tooltip in told


class TestEveryAction:
    async def test_app_actions_are_listed(self) -> None:
        """The palette has the app's own actions on the first screen."""
        async with stage() as on:
            titles = {c.title.lower() for c in on.app.get_system_commands(on.app.screen)}
            own = {b.description for b in bindings_of(type(on.app)) if not b.system and b.id}
            assert own - {"commands"} <= titles
            assert "theme" in titles


class TestDeciding:
    async def choose(self, app: App[None], title: str) -> None:
        """Run a command as the palette does after it closes."""
        command = next(c for c in binding_commands(app, app.screen) if c.title == title)
        app.call_later(command.callback)

    @pytest.mark.slow
    async def test_decision_waits_until_keys_are_unlocked(self) -> None:
        """A decision from the palette takes effect only once the dialog has been in view long enough."""
        async with stage() as on:
            dialog = await on.open_dialog(awake=False)
            assert dialog.sleeps_for() > 0
            await self.choose(on.app, "Approve once")
            await on.settle()
            assert on.decisions() == []
            on.seconds += ASLEEP
            for _ in range(100):
                await on.pilot.pause(0.02)
                if on.decisions():
                    break
            assert on.decisions() == [("decide", "ap1", True, "maria", None)]

    @pytest.mark.slow
    async def test_decision_applies_only_to_the_chosen_request(self) -> None:
        """A decision from the palette does not apply to a request that replaces the chosen one."""
        async with stage(release_bot(), docs_writer()) as on:
            dialog = await on.open_dialog(awake=False)
            await self.choose(on.app, "Approve once")
            await on.settle()
            dialog.request = deploy_request(id="ap2")
            on.seconds += 2 * ASLEEP
            await on.pilot.pause(ASLEEP + 0.3)
            assert on.decisions() == []

    @pytest.mark.slow
    async def test_closing_the_dialog_cancels_the_decision(self) -> None:
        """Closing the dialog cancels a decision from the palette."""
        async with stage() as on:
            await on.open_dialog(awake=False)
            await self.choose(on.app, "Approve once")
            await on.press("escape")
            await on.settle()
            on.seconds += 2 * ASLEEP
            await on.pilot.pause(ASLEEP + 0.3)
            assert isinstance(on.app.screen, LiveScreen)
            assert on.decisions() == []


class TestHelp:
    async def test_help_lists_keys_names_and_ids(self) -> None:
        """`?` lists each binding's keys, name and id, so that an operator can write a keymap."""
        async with stage() as on:
            rows = "\n".join(line.plain for b in help_for(on.app.screen)._blocks for line in b.lines(110))
            for active in on.app.screen.active_bindings.values():
                binding = active.binding
                if binding.id and not binding.system:
                    line = next(row for row in rows.split("\n") if f" {binding.id} " in f"{row} ")
                    assert on.app.get_key_display(binding) in line
                    assert binding.description[:16] in line

    @pytest.mark.slow
    async def test_help_scrolls_at_80_columns(self, tmp_path: Path) -> None:
        """At 80 columns the help scrolls to its end."""
        async with showing(BY_NAME["help"], tmp_path, (80, 24)) as on:
            assert "EVERYWHERE" not in on.painted()
            await on.pilot.press("end")
            await on.pilot.pause(0.05)
            assert "app.quit-anywhere" in on.painted()
            assert "Other keys: in interlock.toml, the table [keys]" in on.painted()

    @pytest.mark.slow
    async def test_help_is_not_opened_twice(self) -> None:
        """`?` in the help opens no second help."""
        async with stage() as on:
            await on.press("question_mark")
            await on.settle()
            await on.press("question_mark")
            await on.settle()
            assert sum(isinstance(screen, Help) for screen in on.app.screen_stack) == 1
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_focused_part_is_listed_first(self) -> None:
        """The help lists the focused part, then the screen, then everything else."""
        async with stage() as on:
            assert isinstance(on.app.focused, BlockList)
            assert [b.key for b in help_for(on.app.screen)._blocks[:3]] == [
                "Here",
                "This screen",
                "Everywhere",
            ]
            dialog = await on.open_dialog()
            assert isinstance(dialog, ApprovalScreen)
            assert "Everywhere" in [b.key for b in help_for(dialog)._blocks]
