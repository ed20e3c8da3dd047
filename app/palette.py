"""The command palette: every binding that does something where the operator is, by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Protocol, runtime_checkable

from textual.app import App, SystemCommand
from textual.binding import ActiveBinding
from textual.dom import DOMNode
from textual.markup import escape
from textual.screen import Screen

from ..engine.history.state import ApprovalState
from .keymap import decides

OPENS = "command_palette"
A_MOMENT = 0.05
"""Seconds after a dialog's keys wake until what was chosen for it is done."""


@runtime_checkable
class Sleeper(Protocol):
    """A dialog of a request whose keys sleep for a while after it comes into view."""

    request: ApprovalState

    def sleeps_for(self) -> float: ...


def binding_commands(app: App[None], screen: Screen[object]) -> Iterable[SystemCommand]:
    """A command for each usable action of `screen`, its focused widget and `app`, with its keys."""
    found: dict[str, tuple[list[str], ActiveBinding]] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        if not binding.description or not active.enabled or binding.system:
            continue
        action = binding.action.removeprefix("app.")
        if action != OPENS:
            keys, _ = found.setdefault(action, ([], active))
            keys.append(app.get_key_display(binding))
    for keys, active in found.values():
        binding = active.binding
        title = binding.description[:1].upper() + binding.description[1:]
        told = f"{' '.join(dict.fromkeys(keys))} · {active.tooltip or binding.tooltip}"
        yield SystemCommand(title, escape(told), _command(app, active))
    yield SystemCommand("Theme", "Change the colours", app.action_change_theme)


def _command(app: App[None], active: ActiveBinding) -> Callable[[], Awaitable[bool] | None]:
    node, action = active.node, active.binding.action
    if isinstance(node, Sleeper) and decides(active.binding.id or ""):
        return partial(_decide, app, node, action, node.request.id)
    return partial(app.run_action, action, node)


def _decide(app: App[None], dialog: DOMNode, action: str, request: str) -> None:
    """Do what was chosen once the dialog is awake, if it still shows the `request` it was chosen for."""
    if app.screen is not dialog or not isinstance(dialog, Sleeper) or dialog.request.id != request:
        return
    left = dialog.sleeps_for()
    if left > 0:
        app.set_timer(left + A_MOMENT, partial(_decide, app, dialog, action, request))
    else:
        app.call_later(app.run_action, action, dialog)
