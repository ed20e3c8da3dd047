"""Screen that is painted when its layout has settled, not at every step on the way there.

Textual lays a new screen out before it has the classes of its size, again with them, and again for each
pane that then asks for more lines, and paints each of these layouts at once. Here a layout is painted as
a change of a widget is: with whatever else has changed, as soon as nothing more waits to be handled.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias, TypeVar

from textual.screen import Screen

from ...widgets.base.greyed_keys import GreyedKeys

Answer = TypeVar("Answer")
Breakpoints: TypeAlias = list[tuple[int, str]]


class SettledScreen(GreyedKeys, Screen[Answer]):
    """Screen that paints its layouts like changes of widgets: once no message is left to handle."""

    # Textual declares these for the class, and so that pyright takes them for an instance's.
    HORIZONTAL_BREAKPOINTS: ClassVar[Breakpoints | None] = None  # pyright: ignore[reportIncompatibleVariableOverride]
    VERTICAL_BREAKPOINTS: ClassVar[Breakpoints | None] = None  # pyright: ignore[reportIncompatibleVariableOverride]

    _painting = False

    def on_compose(self) -> None:
        """Set the classes of the size before anything is laid out."""
        width, height = self.app.size
        for length, breakpoints in (
            (width, self.HORIZONTAL_BREAKPOINTS),
            (height, self.VERTICAL_BREAKPOINTS),
        ):
            self.add_class(*self._get_breakpoint_classes(length, breakpoints or []), update=False)

    def action_leave(self) -> None:
        """Back to where it was opened from."""
        if self.is_current:
            self.dismiss()

    def _on_timer_update(self) -> None:
        self._painting = True
        try:
            super()._on_timer_update()
        finally:
            self._painting = False

    def _compositor_refresh(self) -> None:
        """Paint, or see that it is done; Textual does it in a batch, and for what lies behind."""
        batches = self.app._batch_count  # pyright: ignore[reportPrivateUsage] - not public
        if self._painting or batches or self.app.screen is not self:
            super()._compositor_refresh()
        else:
            self._dirty_widgets.add(self)
            self.check_idle()
