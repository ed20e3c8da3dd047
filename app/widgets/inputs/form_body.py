"""Fields of a form: as high as their content, up to what the panel permits, then scrolled."""

from __future__ import annotations

from textual import events
from textual.containers import VerticalScroll
from textual.widget import Widget

from ..base.typed_app import TypedApp

SHARE = 0.94
"""Maximum height of a panel as a fraction of the screen's."""
FRAME = 2
LEAST = 3


class FormBody(TypedApp, VerticalScroll, can_focus=False):
    """Scrollable fields that leave space for the other parts of the panel's frame."""

    DEFAULT_CSS = "FormBody { height: auto; scrollbar-size-vertical: 1; }"

    def on_mount(self) -> None:
        self.refit()

    def on_resize(self, _: events.Resize) -> None:
        self.refit()

    def refit(self) -> None:
        """Set the maximum height from the space available."""
        siblings = [each for each in _siblings(self) if each.display]
        used = sum(each.outer_size.height + each.styles.margin.height for each in siblings)
        room = max(LEAST, int(self.app.size.height * SHARE) - FRAME - used)
        if self.styles.max_height is None or self.styles.max_height.value != room:
            self.styles.max_height = room
            self.call_after_refresh(self._show_focused)

    def _show_focused(self) -> None:
        """Keep the focused field and its name in view."""
        focused = self.screen.focused
        part = focused
        while part is not None and part.parent is not self:
            part = part.parent if isinstance(part.parent, Widget) else None
        if part is not None:
            part.scroll_visible(animate=False)


def _siblings(widget: Widget) -> list[Widget]:
    parent = widget.parent
    children = parent.children if isinstance(parent, Widget) else ()
    return [each for each in children if each is not widget]
