"""Help panel: the keys that are usable here, derived from the bindings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.actions import parse
from textual.app import App
from textual.binding import ActiveBinding
from textual.content import Content
from textual.screen import ModalScreen, Screen

from ...format.text import MUTED, pad, styled_rows, wrap_all
from ...terminal.bindings import SCREENS
from ...terminal.charset import visible
from ...terminal.key_rights import READ_ONLY, permission_of, rights_for
from ...widgets.base.blocks import Block
from ...widgets.base.greyed_keys import GreyedKeys
from .detail import Detail

KEYS, NAME, ID = 12, 18, 27
"""Widths of the columns in cells. The tooltip is in the same row, or below if there is little space."""
BESIDE = 36
COMMON = ("focus.", "screen.", "list.", "panel.")


class Help(Detail):
    """Every key that is usable where help was opened."""


@dataclass(frozen=True, slots=True)
class _Row:
    keys: str
    name: str
    binding: str
    tooltip: str


def help_for(screen: Screen[object]) -> Help:
    """Return the help for `screen` in its current state.

    Order: the focused widget, the screen, keys that work everywhere. In a dialog the dialog's own keys
    come first.
    """
    app = _app_of(screen)
    groups: dict[str, list[ActiveBinding]] = {"Here": [], "This screen": [], "Everywhere": []}
    for active in screen.active_bindings.values():
        binding = active.binding
        if binding.system or not binding.description:
            continue
        if active.node is app or (binding.id or "").startswith("app."):
            groups["Everywhere"].append(active)
        elif active.node is screen:
            groups["This screen"].append(active)
        else:
            groups["Here"].append(active)
    if isinstance(screen, ModalScreen):
        # A dialog's decisions matter more than scrolling its text.
        groups = {"This screen": groups.pop("This screen"), **groups}
    blocks = [_group(title, _rows(app, found)) for title, found in groups.items() if found]
    return Help("Keys", [*blocks, Block("how", 0, _how_in_browser if app.is_web else _how)])


def _app_of(screen: Screen[object]) -> App[None]:
    return screen.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - see SettledScreen


def _rows(app: App[None], found: Sequence[ActiveBinding]) -> list[_Row]:
    """Return a row for each binding, with all of its keys."""
    rows: dict[str, tuple[list[str], ActiveBinding]] = {}
    for active in found:
        keys, _ = rows.setdefault(active.binding.id or active.binding.action, ([], active))
        keys.append(app.get_key_display(active.binding))
    return [
        _Row(
            " ".join(dict.fromkeys(keys)),
            active.binding.description,
            active.binding.id or "",
            active.tooltip or active.binding.tooltip if active.enabled else _refusal(app, active),
        )
        for keys, active in sorted(rows.values(), key=lambda row: _place(row[1]))
    ]


def _refusal(app: App[None], active: ActiveBinding) -> str:
    """Return the reason why a key has no effect now."""
    refused = permission_of(app).refusal(rights_for(active.binding.id or ""))
    if refused is not None:
        return f"{refused}."
    obstacle = None
    if isinstance(active.node, GreyedKeys):
        action, parameters = parse(active.binding.action)[1:]
        obstacle = active.node.obstacle(action, parameters)
    return f"{active.tooltip or active.binding.tooltip}. Not now: {visible(obstacle or READ_ONLY)}"


def _place(active: ActiveBinding) -> tuple[bool, int]:
    """Return a sort key: specific bindings first, then common ones; screens in their own order."""
    name = active.binding.id or ""
    screen = name.removeprefix("app.")
    return name.startswith(COMMON), SCREENS.index(screen) if screen in SCREENS else len(SCREENS)


def _group(title: str, rows: Sequence[_Row]) -> Block:
    def lines(width: int) -> list[Content]:
        made = [Content.styled(title.upper(), "bold $text-primary")]
        for row in rows:
            made += _lines(row, width)
        return [*made, Content("")]

    return Block(title, len(rows), lines)


def _lines(row: _Row, width: int) -> list[Content]:
    keys, name = (pad(row.keys, KEYS), "bold $text-accent"), (pad(row.name, NAME), "bold")
    room = width - KEYS - NAME - ID - 3
    if room >= BESIDE:
        head = Content.assemble(keys, " ", name, " ", (pad(row.binding, ID), MUTED), " ")
        first, *rest = wrap_all([row.tooltip], room)
        return [
            head + Content.styled(first, MUTED),
            *(Content.styled(" " * (width - room) + line, MUTED) for line in rest),
        ]
    left = width - KEYS - NAME - 2
    beside = row.binding if len(row.binding) <= left else ""
    below = [row.tooltip] if beside or not row.binding else [row.tooltip, row.binding]
    short = (pad(row.name, min(NAME, width - KEYS - 1)), "bold")
    return [
        Content.assemble(keys, " ", short, " ", (beside, MUTED)),
        *(Content.styled(f"  {line}", MUTED) for line in wrap_all(below, width - 2)),
    ]


def _how_in_browser(width: int) -> list[Content]:
    text = (
        "Ctrl+w, ctrl+t and ctrl+n belong to the browser, on some systems also alt with a digit; all "
        "other keys belong to the console."
    )
    return styled_rows([text], width, MUTED) + _how(width)


def _how(width: int) -> list[Content]:
    text = 'Other keys: in interlock.toml, the table [keys], a line like "live.interrupt" = "ctrl+t".'
    return styled_rows([text], width, MUTED)
