"""Screen that is painted once its layout has settled, not after each intermediate layout.

Textual lays a new screen out before its size classes are set, again with them, and again for each pane
that then needs more lines, and paints every one of these layouts at once. Here a layout is painted like a
change of a widget: together with other changes, once no message is left to handle.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias, TypeVar

from textual.screen import Screen

from ...widgets.base.greyed_keys import GreyedKeys

Answer = TypeVar("Answer")
Breakpoints: TypeAlias = list[tuple[int, str]]


class SettledScreen(GreyedKeys, Screen[Answer]):
    """Screen that paints its layouts like changes of widgets, once no message is left to handle."""

    # Textual declares these as class variables in a way that pyright takes for instance variables.
    HORIZONTAL_BREAKPOINTS: ClassVar[Breakpoints | None] = None  # pyright: ignore[reportIncompatibleVariableOverride]
    VERTICAL_BREAKPOINTS: ClassVar[Breakpoints | None] = None  # pyright: ignore[reportIncompatibleVariableOverride]

    _painting = False

    def on_compose(self) -> None:
        """Set the size classes before the first layout."""
        width, height = self.app.size
        for length, breakpoints in (
            (width, self.HORIZONTAL_BREAKPOINTS),
            (height, self.VERTICAL_BREAKPOINTS),
        ):
            self.add_class(*self._get_breakpoint_classes(length, breakpoints or []), update=False)

    def action_leave(self) -> None:
        """Return to the previous screen."""
        if self.is_current:
            self.dismiss()

    def _on_timer_update(self) -> None:
        self._painting = True
        try:
            super()._on_timer_update()
        finally:
            self._painting = False

    def _compositor_refresh(self) -> None:
        """Paint at once inside Textual's update, in a batch, or behind another screen; else schedule."""
        batches = self.app._batch_count  # pyright: ignore[reportPrivateUsage] - not public
        if self._painting or batches or self.app.screen is not self:
            super()._compositor_refresh()
        else:
            self._dirty_widgets.add(self)
            self.check_idle()
