"""List that reports painted lines to a review guard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from ..base.blocks import BlockList
from ..base.cursor_list import GUTTER
from ..base.typed_app import TypedApp
from .review_guard import ReviewGuard


@dataclass
class LinesShown(Message):
    """New lines of a reviewed list were painted; `complete` once all were."""

    complete: bool


def has_notices(widget: TypedApp) -> bool:
    """Return whether notices are on screen, which may cover something."""
    # Textual has no public API for it.
    return len(widget.app._notifications) > 0  # pyright: ignore[reportPrivateUsage]


def in_plain_view(widget: TypedApp) -> bool:
    """Return whether a widget is visible: its screen is on top, and no notice may cover it."""
    return widget.app.screen is widget.screen and not has_notices(widget)


class ReviewedList(BlockList):
    """Blocks under a review guard. A line counts as seen once it was painted completely and visibly.

    Nothing counts while another screen is on top or a notice may cover a line. The lines of what will run
    have a background of their own.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"reviewed--call"}
    DEFAULT_CSS = """
    ReviewedList > .reviewed--call { background: $primary 8%; }
    """

    call: reactive[range] = reactive(range(0))
    """Range of the lines of what will run."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id, cursor=False)
        self.guard = ReviewGuard()
        self._telling = False
        self._moving = False

    def hold(self) -> None:
        """Record nothing until the next page is in view, since intermediate paints are not seen."""
        self._moving = True

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines for the screen, and record all those in the region as painted."""
        strips = super().render_lines(crop)
        if not self.guard.complete and not self._moving and in_plain_view(self):
            self._note(self._rows_of(crop))
        return strips

    def render_line(self, y: int) -> Strip:
        """Return one line, with a background if it belongs to what will run."""
        strip = super().render_line(y)
        if self.scroll_offset.y + y not in self.call:
            return strip
        tint = self.get_visual_style("reviewed--call").rich_style.background_style
        gutter, text = strip.crop(0, GUTTER), strip.crop(GUTTER)
        return Strip([*gutter, *Segment.apply_style(text, post_style=tint)], strip.cell_length)

    def _note(self, rows: range) -> None:
        width, news = self.scrollable_content_region.width - GUTTER, False
        for row in rows:
            line = self._line_at(row)
            news |= line is not None and line.cell_length <= width and self.guard.paint(row)
        if news:
            self._tell()

    def _tell(self) -> None:
        if not self._telling:
            self._telling = True
            self.call_later(self._post_shown)

    def _post_shown(self) -> None:
        self._telling = False
        self.post_message(LinesShown(self.guard.complete))

    def look_again(self) -> None:
        """Repaint the visible lines if the guard misses some of them."""
        if self.guard.complete:
            return
        row, top = self.guard.next_row, self.scroll_offset.y
        if row is None:
            self.refresh()
        elif row < top + self.scrollable_content_region.height:
            self.refresh_line(row)

    @property
    def is_longer(self) -> bool:
        """Return whether unseen content is out of view: folded, above or below."""
        row, top = self.guard.next_row, self.scroll_offset.y
        if self.guard.folded or row is None:
            return self.guard.folded
        return not top <= row < top + self.scrollable_content_region.height

    @property
    def page_height(self) -> int:
        """Return the lines by which a page advances; consecutive pages share a line if there is space."""
        height = self.scrollable_content_region.height
        return height - 1 if height > 2 else max(1, height)

    def show_next_page(self) -> None:
        """Scroll to the first unseen line, with one line above it."""
        self.app.clear_notifications()
        row = self.guard.next_row
        if row is not None:
            overlap = self.scrollable_content_region.height - self.page_height
            self.scroll_to(y=max(0, row - max(0, overlap)), animate=False, immediate=True)
        self._moving = False
        self.refresh()

    @property
    def unseen_note(self) -> str:
        """Return the page that is shown next, as text such as `3 of 5`."""
        total, left = self.guard.pages(self.page_height)
        return f"{total - left + 1} of {total}"
