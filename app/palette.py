"""The command palette: every binding that does something where the operator is, by name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from textual.app import App, SystemCommand
from textual.screen import Screen


def binding_commands(app: App[None], screen: Screen[object]) -> Iterable[SystemCommand]:
    """A command for each usable binding of `screen`, its focused widget and `app`."""
    seen: set[str] = set()
    for node, binding, usable, tooltip in screen.active_bindings.values():
        if not binding.description or not usable or binding.action in seen or binding.system:
            continue
        seen.add(binding.action)
        title = binding.description[:1].upper() + binding.description[1:]
        yield SystemCommand(
            title, tooltip or binding.tooltip, partial(app.run_action, binding.action, node)
        )
    yield SystemCommand("Theme", "Change the colours", app.action_change_theme)
