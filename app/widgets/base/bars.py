"""One-line bars: the tabs of a narrow screen, and the keys at the bottom.

Each shows what fits, and an ellipsis if something does not. The key for help is never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from textual import events
from textual.binding import ActiveBinding
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from ...format.text import MUTED
from ...terminal.charset import ascii_only
from ...terminal.key_rights import permission_of, rights_for
from ...terminal.keymap import bindings_of, is_typed, name_of
from .typed_app import TypedApp

MORE = "app.command_palette"
"""Action of a click on the ellipsis of the key bar: the palette lists every action."""
OFF = "$foreground 60% strike"
"""Style of a key that has no effect now."""
DECIDING = {
    "approve": ("✓", "$text-success"),
    "deny": ("✗", "$text-error"),
    "next page": ("↓", "$text-accent"),
    "show masked": ("↓", "$text-accent"),
}
"""Signs and colours of deciding keys, by the first word of their labels.

While not everything has been seen, an approving key shows the next page, with another label at the same
position.
"""
PLAIN_SIGNS = {"✓": "(+)", "✗": "(-)", "↓": "..."}
"""Replacements of the signs on ASCII terminals."""
OTHER_DENIALS = frozenset({"deny and stop"})

Key: TypeAlias = tuple[str, str, str, bool]
"""Key, label, action, and whether the action is possible now."""


class PaneTabs(TypedApp, Widget):
    """Tabs for the panes of a narrow screen with their keys; a click selects a pane."""

    DEFAULT_CSS = """
    PaneTabs { height: 1; padding: 0 1; background: $surface; }
    """

    current: reactive[str] = reactive("")
    counts: reactive[dict[str, int]] = reactive(dict)

    @dataclass
    class Chosen(Message):
        """A tab was clicked."""

        pane: str

    def __init__(self, panes: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._panes = panes
        self._edges: list[int] = []

    def render(self) -> Content:
        width = self.content_size.width
        for short in (None, 4, 1):
            tabs = [self._tab(pane, title, short) for pane, title in self._panes]
            gap = 2 if short is None else 1
            if sum(t.cell_length for t in tabs) + gap * (len(tabs) - 1) <= width:
                break
        self._edges = [0]
        for tab in tabs:
            self._edges.append(self._edges[-1] + tab.cell_length + gap)
        line, keys = Content(" " * gap).join(tabs), Content.styled(self._keys(), MUTED)
        space = width - line.cell_length - keys.cell_length
        return Content.assemble(line, " " * space, keys) if space >= 2 * gap else line

    def _keys(self) -> str:
        """Return the keys of the first and the last tab."""
        keys = {each.action: name_of(each) for each in bindings_of(type(self.screen))}
        found = [keys.get(f"pane('{pane}')") for pane, _ in self._panes]
        return f"{found[0]} … {found[-1]}" if found[0] and found[-1] else ""

    def _tab(self, pane: str, title: str, short: int | None) -> Content:
        here = pane == self.current
        count = self.counts.get(pane, 0)
        label = (title if here else title[:short]) + (f" {count}" if count else "")
        style = (
            "bold $primary reverse"
            if here
            else ("bold $text-warning" if count and pane == "waiting" else MUTED)
        )
        return Content.styled(f" {label} " if here else label, style)

    def on_click(self, event: events.Click) -> None:
        at = event.x - 1
        for (start, end), (pane, _) in zip(pairwise(self._edges), self._panes, strict=False):
            if start <= at < end:
                self.post_message(self.Chosen(pane))


class KeyBar(TypedApp, Widget):
    """Keys that are usable here. Keys that do not fit are listed in the help, which is always offered.

    The signs of approve and deny are never dropped.
    """

    DEFAULT_CSS = """
    KeyBar { height: 1; padding: 0 1; background: $panel; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._edges: list[tuple[int, int, str]] = []
        self._places: dict[str | None, int] = {}

    def on_mount(self) -> None:
        listed = [binding.id for binding in bindings_of(type(self.screen))]
        self._places = {name: listed.index(name) for name in listed}
        # Textual leaves a screen's return type open.
        self.screen.bindings_updated_signal.subscribe(self, self._changed)  # pyright: ignore[reportUnknownMemberType]

    def _changed(self, _screen: object) -> None:
        self.refresh()

    def render(self) -> Content:
        width = self.content_size.width
        keys: list[Key] = []
        last: Key | None = None
        active, focused = self.screen.active_bindings.values(), self.screen.focused
        for node, binding, usable, _ in sorted(active, key=self._rank):
            if not binding.show or any(binding.action == k[2] for k in keys):
                continue
            if focused is not None and node is not focused and is_typed(focused, binding.key):
                continue
            item = (self.app.get_key_display(binding), binding.description, binding.action, usable)
            if binding.action.endswith("show_help"):
                last = last or item
            else:
                keys.append(item)
        return self._fit(keys, last, width)

    def _rank(self, active: ActiveBinding) -> tuple[bool, bool, bool, int]:
        """Return a sort key that puts the keys first that the operator may use, since not all may fit.

        The screen's own keys come in their declared order, with its closing key last. Greyed keys keep
        their positions.
        """
        own = active.node is self.screen
        place = self._places.get(active.binding.id, 0) if own else 0
        refused = permission_of(self.app).refusal(rights_for(active.binding.id or "")) is not None
        return refused, not own, active.binding.action == "close", place

    def _fit(self, keys: list[Key], last: Key | None, width: int) -> Content:
        """Return the keys in one line. If not all fit, deciding keys are closer to their signs."""
        whole, line = self._laid_out(keys, last, width, tight=False)
        return line if whole else self._laid_out(keys, last, width, tight=True)[1]

    def _laid_out(
        self, keys: list[Key], last: Key | None, width: int, *, tight: bool
    ) -> tuple[bool, Content]:
        """Return whether all keys fit, and the line of those that do."""
        self._edges = []
        parts: list[Content] = []
        used = 0
        reserve = len(last[0]) + len(last[1]) + 5 if last else 0
        whole = True
        for index, (key, name, action, usable) in enumerate(keys):
            drawn = _key(key, name, tight=tight)
            drawn = drawn if usable else Content.styled(drawn.plain, OFF)
            size = drawn.cell_length
            more = index < len(keys) - 1
            if used + size + (3 if more else 0) + reserve > width:
                parts.append(Content.styled("…", MUTED))
                self._edges.append((used, used + 1, MORE))
                used += 3
                whole = False
                break
            parts.append(drawn)
            self._edges.append((used, used + size, action))
            used += size + 2
        if last:
            parts.append(_key(last[0], last[1]))
            self._edges.append((used, used + len(last[0]) + 1 + len(last[1]), last[2]))
        return whole, Content("  ").join(parts).truncate(width)

    async def on_click(self, event: events.Click) -> None:
        for start, end, action in self._edges:
            if start <= event.x - 1 < end:
                for node, binding, _, _ in list(self.screen.active_bindings.values()):
                    if binding.action == action:
                        await self.app.run_action(action, default_namespace=node)
                        return
                if action == MORE:
                    await self.app.run_action(action)


def _key(key: str, name: str, *, tight: bool = False) -> Content:
    sign, colour = DECIDING.get(name) or DECIDING.get(name.partition(" ")[0], ("", ""))
    if sign:
        # The ASCII replacements are letters, which would look like keys.
        sign = PLAIN_SIGNS.get(sign, sign) if ascii_only() else sign
        if tight:
            # Leave out words that the sign makes clear, and a sign that another denial already has.
            drawn = f"{'' if name in OTHER_DENIALS else sign}{key} {name.removesuffix(' once')}"
        else:
            drawn = f"{sign} {key} {name}"
        return Content.styled(drawn, f"bold {colour}")
    return Content.assemble((key, "bold $text-accent"), " ", (name, "$foreground"))
