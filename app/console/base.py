"""Base of both consoles: themes, key bindings, character set, help and command palette."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import ClassVar, Protocol, cast, runtime_checkable

from rich.console import RenderableType
from textual import events, on
from textual._compositor import CompositorUpdate
from textual.actions import ActionParseResult
from textual.app import App, SystemCommand
from textual.binding import ActiveBinding, Binding, BindingType
from textual.dom import DOMNode
from textual.driver import Driver
from textual.filter import LineFilter
from textual.markup import escape
from textual.screen import Screen

from ...engine.core.rights import FULL
from ...engine.history.model.state import ApprovalState
from ..format.text import shown
from ..screens.common.guarded_keys import FallsAsleep
from ..screens.common.help import Help, help_for
from ..sources.messages import EditChosen
from ..terminal.appearance import Appearance
from ..terminal.ascii_filter import AsciiFilter
from ..terminal.bindings import COMMANDS_KEY, HELP_KEY, LEAVE_KEY
from ..terminal.charset import ascii_only, remove_marks, use_ascii
from ..terminal.editor import EditorError, SuspendableTerminal, edit, has_editor
from ..terminal.key_order import KeyOrder
from ..terminal.key_rights import Permission, needed_rights
from ..terminal.keymap import decides, display_key, is_typed
from ..terminal.theme import OWN_THEMES, SIGNAL_BOX
from ..terminal.written_cells import WrittenCells
from ..widgets.base.greyed_keys import GreyedKeys
from ..widgets.inputs.safe_input import TakesText

# Command palette: every binding that is usable where the operator is, by name.


PALETTE_ACTION = "command_palette"
AFTER_WAKING = 0.05
"""Seconds between a dialog's keys becoming active and the action chosen for them in the palette."""


@runtime_checkable
class Sleeper(Protocol):
    """Dialog of a request, or pane with one at its cursor, whose keys are inert for a moment."""

    request: ApprovalState

    def sleeps_for(self) -> float: ...


def binding_commands(app: App[None], screen: Screen[object]) -> Iterable[SystemCommand]:
    """Yield a command for each usable action of `screen`, its focused widget and `app`, with its keys."""
    found: dict[str, tuple[list[str], ActiveBinding]] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        if not binding.description or not active.enabled or binding.system:
            continue
        # A screen may have an action with the same name as one of the app's.
        action = (
            binding.action if active.node is not app else f"app.{binding.action.removeprefix('app.')}"
        )
        if action != f"app.{PALETTE_ACTION}":
            keys, _ = found.setdefault(action, ([], active))
            keys.append(app.get_key_display(binding))
    for keys, active in found.values():
        binding = active.binding
        title = binding.description[:1].upper() + binding.description[1:]
        description = f"{' '.join(dict.fromkeys(keys))} · {active.tooltip or binding.tooltip}"
        yield SystemCommand(title, escape(description), _command(app, active))
    yield SystemCommand("Theme", "Change the colours", app.action_change_theme)


def _command(app: App[None], active: ActiveBinding) -> Callable[[], Awaitable[bool] | None]:
    node, action = active.node, active.binding.action
    if isinstance(node, Sleeper) and decides(active.binding.id or ""):
        return partial(_decide, app, node, action, node.request.id)
    return partial(app.run_action, action, node)


def _decide(app: App[None], dialog: DOMNode, action: str, request: str) -> None:
    """Run the chosen action once the dialog's keys are active, if it still shows the same `request`."""
    if app.screen is not dialog.screen or not isinstance(dialog, Sleeper) or dialog.request.id != request:
        return
    remaining = dialog.sleeps_for()
    if remaining > 0:
        app.set_timer(remaining + AFTER_WAKING, partial(_decide, app, dialog, action, request))
    else:
        app.call_later(app.run_action, action, dialog)


class TerminalApp(App[None]):
    """Terminal app without content: the base of both consoles."""

    # The palette's magnifying glass is two cells wide and has no ASCII replacement. Placeholders and the
    # palette's selected line need enough contrast in every theme. Without colours the cursor of a text
    # field has to be more than a shade.
    CSS: ClassVar[str] = """
    .-ascii SearchIcon { visibility: hidden; }
    Input > .input--placeholder { color: $foreground 70%; }
    CommandList > .option-list--option-highlighted { background: $primary 12%; }
    Input:nocolor > .input--cursor { color: $foreground; background: $surface; text-style: reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [HELP_KEY, COMMANDS_KEY, LEAVE_KEY]

    def __init__(
        self, appearance: Appearance | None = None, *, permission: Permission | None = None
    ) -> None:
        appearance = appearance or Appearance()
        self.permission = permission or Permission()
        # Set before any widget creates its text.
        use_ascii(appearance.ascii_only)
        if os.environ.get("NO_COLOR") == "":
            # An empty value does not disable colours (no-color.org), but Textual accepts any value.
            del os.environ["NO_COLOR"]
        super().__init__()
        self._first_paint: float | None = None
        self.keys = KeyOrder(self, self._take_typed)
        self._ascii = AsciiFilter()
        self._cells = WrittenCells()
        self.set_class(appearance.ascii_only, "-ascii")
        for theme in OWN_THEMES:
            self.register_theme(theme)
        self.theme = appearance.theme or SIGNAL_BOX.name
        self.set_keymap(dict(appearance.keys))

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's driver class; on a terminal, one that detects when the terminal is gone."""
        chosen = super().get_driver_class()
        if chosen.__module__ == "textual.drivers.linux_driver":
            from .driver import HangupDriver

            return HangupDriver
        return chosen

    def on_mount(self) -> None:
        # Textual leaves an app's return type open.
        self.app_resume_signal.subscribe(self, self._take_terminal_back, immediate=True)  # pyright: ignore[reportUnknownMemberType]

    # Textual leaves a screen's return type open, and has no public hook for what is written.
    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:  # pyright: ignore[reportUnknownMemberType]
        """Paint, and write only the cells that have changed."""
        found: object = renderable
        if isinstance(found, CompositorUpdate):
            found = self._cells.changes(found)
        super()._display(screen, cast("RenderableType | None", found))  # pyright: ignore[reportUnknownMemberType]

    @property
    def was_painted(self) -> bool:
        """Return whether anything has been painted. Keys before that cannot refer to anything shown."""
        return self._first_paint is not None

    def post_display_hook(self) -> None:
        """Record the time of the first paint once the terminal has it, not when Textual is idle."""
        if self._first_paint is None:
            self._first_paint = monotonic()

    async def on_event(self, event: events.Event) -> None:
        """Drop keys typed before the first paint, and handle the other keys strictly in order."""
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            await super().on_event(event)
        elif self._first_paint is None or event.time < self._first_paint:
            event.stop()
        else:
            await self.keys.add(event)

    async def _take_typed(self, event: events.Key | events.Paste) -> None:
        """Handle a key. Typed text goes into the open text line, if there is one."""
        line = self.screen.open_line if isinstance(self.screen, TakesText) else None
        typed = isinstance(event, events.Paste) or event.is_printable
        if line is not None and typed and self.screen.focused is not line:
            self.screen.set_focus(line)
        await super().on_event(event)

    def _take_terminal_back(self, _: object) -> None:
        """Repaint everything, and make decision keys inert.

        The operator has not seen what arrived while another program had the terminal.
        """
        self._cells.forget()
        for screen in self.screen_stack:
            if isinstance(screen, FallsAsleep):
                screen.fall_asleep()

    @property
    def can_edit_files(self) -> bool:
        """Return whether the operator has an editor and a terminal for it."""
        return isinstance(self._driver, SuspendableTerminal) and not self.is_web and has_editor()

    @on(EditChosen)
    def edit_chosen(self, event: EditChosen) -> None:
        """Open a file in the operator's editor. Everything except painting continues."""
        self.run_worker(self._edit(event.path), group="edit", exit_on_error=False)

    async def _edit(self, path: str) -> None:
        driver = self._driver
        if not isinstance(driver, SuspendableTerminal):
            return
        try:
            await edit(path, self.suspend, driver)
        except (EditorError, OSError) as error:
            self.notify(shown(f"Not edited: {error}"), severity="error", markup=False)

    def end(self, code: int) -> None:
        """Exit with `code`, unconfirmed, since the operator is gone or a signal demands it."""
        if self.return_code is None:
            self.exit(return_code=code)

    def _check_action_state(self, action: str, default_namespace: DOMNode) -> bool | None:
        """Grey out an action that the operator's permission does not include.

        This is the only place that does so; each screen's own checks are independent of it.
        """
        state = super()._check_action_state(action, default_namespace)
        return None if state and self._refusal(default_namespace, action) is not None else state

    def _refusal(self, node: DOMNode, action: str) -> str | None:
        """Return the reason why the operator may not perform `action`, or `None`."""
        if self.permission.rights == FULL:
            return None
        return self.permission.refusal(needed_rights(node, action))

    async def _check_bindings(self, key: str, priority: bool = False) -> bool:
        """Let a key that is bound everywhere be typed in a text field."""
        typed_in = self.focused if priority else None
        if typed_in is not None and is_typed(typed_in, key):
            return False
        return await super()._check_bindings(key, priority)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run the action, or notify the operator why it is not possible."""
        if isinstance(action, str) and default_namespace is not None:
            refused = self._refusal(default_namespace, action)
            if refused is not None:
                self.notify(refused, severity="warning", markup=False)
                return True
            target, name, parameters = self._parse_action(action, default_namespace)
            if isinstance(target, GreyedKeys) and target.tell_obstacle(name, parameters):
                return True
        return await super().run_action(action, default_namespace, namespaces)

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = super().get_line_filters()
        return [*filters, self._ascii] if ascii_only() else filters

    def get_key_display(self, binding: Binding) -> str:
        """Return the name of a key as shown in footer, help and hints."""
        return display_key(binding.key, binding.key_display)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy the original text, without marks added for painting."""
        super().copy_to_clipboard(remove_marks(text))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Return every binding that is usable here, by name."""
        return binding_commands(self, screen)

    def action_show_help(self) -> None:
        """Show the keys that work where the operator is."""
        if not isinstance(self.screen, Help):
            self.push_screen(help_for(self.screen))
