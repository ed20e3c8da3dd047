"""Base of panels and panes that decide: keys are inert after anything new appears, and only a single
keystroke counts.

A key that is held down, or text pasted into a terminal without bracketed paste, arrives as several keys
in quick succession. Neither is a decision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

from textual import events
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget

from ...terminal.key_order import HasKeyOrder
from ...widgets.approval.reviewed_list import LinesShown
from ...widgets.base.typed_app import TypedApp
from .panel import Panel

ASLEEP = 0.4
"""Seconds for which deciding keys are inert after something new is shown."""
QUIET = 0.1
"""Seconds without another key that confirm a deciding key. A held key repeats faster."""
FLASH = 0.6
AT_ONCE = "Keys pressed too fast; nothing was decided"
SENDING = "The decision is on its way"
NOTHING_LEFT = "Nothing is left to decide"

Answer = TypeVar("Answer")


@runtime_checkable
class FallsAsleep(Protocol):
    """A screen whose deciding keys are inert until its content can have been read."""

    def fall_asleep(self) -> None:
        """Make the deciding keys inert again."""


@runtime_checkable
class FollowsRequest(Protocol):
    """A panel over a dialog, about the same request."""

    def request_over(self, text: str) -> None:
        """React to the request having changed or ended, as `text` explains."""


class GuardsKeys(TypedApp):
    """Mixin before the base of a screen or pane: deciding keys are inert after anything new appears.

    `monotonic` returns seconds. With `quiet` 0 a key decides at once.
    """

    def __init__(self, monotonic: Callable[[], float], quiet: float = QUIET) -> None:
        super().__init__()
        self.monotonic = monotonic
        self.quiet = quiet
        self._shown_at: float | None = None
        self._flash_until = 0.0
        self._moved_at: float | None = None
        self._coming: Timer | None = None

    def say(self, text: str, *, bad: bool = True) -> None:
        """Show a message to the operator."""
        raise NotImplementedError

    def tick(self) -> None:
        """Update what changes with time."""
        raise NotImplementedError

    @property
    def in_front(self) -> bool:
        """Return whether the screen is on top and receives keys."""
        return self.screen.is_current

    def on_mount(self) -> None:
        self.set_interval(0.1, self.tick)

    # Textual finds decorated handlers only in widget classes; this one is found by its name.
    def on_lines_shown(self, event: LinesShown) -> None:
        """Update the note on unseen lines. Once everything was seen, activate the deciding keys."""
        self.tick()
        if event.complete:
            self.refresh_bindings()

    def show_more(self, show: Callable[[], None]) -> None:
        """Show unseen content, for a key that decides once everything was seen."""
        if self.reads_on():
            show()
            self.fall_asleep()
            self.call_after_refresh(self.tick)

    def fall_asleep(self) -> None:
        """Make keys inert because something new is shown.

        A key just pressed was meant for something else.
        """
        self._stop_coming()
        self._shown_at = None
        self.call_after_refresh(self._mark_shown)

    def _mark_shown(self) -> None:
        self._shown_at = self.monotonic()
        self.tick()

    def sleeps_for(self) -> float:
        """Return the seconds until deciding keys are active; 0 if they are."""
        if self._shown_at is None:
            return ASLEEP
        return max(0.0, ASLEEP - (self.monotonic() - self._shown_at))

    @property
    def flashes(self) -> bool:
        """Return whether a key was pressed too early a moment ago."""
        return self.monotonic() < self._flash_until

    def sleep_note(self) -> Content | None:
        """Return `keys unlock in 0.3 s` while keys are inert, else `None`."""
        left = self.sleeps_for()
        style = "bold $text-error reverse" if self.flashes else "bold $text-warning"
        return Content.styled(f" keys unlock in {left:.1f} s ", style) if left > 0 else None

    def accepts_key(self) -> bool:
        """Return whether a key decides now.

        A key that comes too early restarts the wait, so that a key that is held down never decides.
        """
        if self.sleeps_for() <= 0:
            return True
        if self._shown_at is not None:
            self._shown_at = self.monotonic()
        self._flash_until = self.monotonic() + FLASH
        self.tick()
        return False

    def reads_on(self) -> bool:
        """Return whether a key shows more content now.

        Unlike a deciding key, a key that comes too early does not restart the wait.
        """
        if self.sleeps_for() <= 0:
            return True
        self._flash_until = self.monotonic() + FLASH
        self.tick()
        return False

    def deliberately(self, decide: Callable[[], None]) -> None:
        """Run an action if keys are active and no other key follows within `quiet` seconds."""
        if not self.accepts_key() or self._coming is not None:
            return
        if self._moved_at is not None and self.monotonic() - self._moved_at < self.quiet:
            self.fall_asleep()
            self.say(AT_ONCE, bad=False)
            return
        if self.quiet <= 0:
            decide()
            return
        keys = self.app.keys if isinstance(self.app, HasKeyOrder) else None
        handled = 0 if keys is None else keys.handled

        def alone() -> None:
            # If the event loop was blocked, this timer may run before keys that were typed in the
            # meantime.
            if keys is not None and keys.arrived > handled:
                self.interrupted()
                return
            self._coming = None
            if self.in_front:
                decide()

        self._coming = self.set_timer(self.quiet, alone)

    def interrupted(self) -> None:
        """Cancel a pending decision because another key followed."""
        if self._coming is not None:
            self.fall_asleep()
            self.say(AT_ONCE, bad=False)

    def _stop_coming(self) -> None:
        if self._coming is not None:
            self._coming.stop()
            self._coming = None

    def on_key(self) -> None:
        """Called before the key's binding runs."""
        self.interrupted()

    def on_paste(self, event: events.Paste) -> None:
        """Ignore pasted text: it is not a decision."""
        event.stop()
        self._stop_coming()
        self.say("Pasted text decides nothing", bad=False)


class GuardedKeys(GuardsKeys, Panel[Answer]):
    """Panel with deciding keys."""

    def show_obstacle(self, reason: str) -> None:
        """Show the reason in the panel, since a notice would cover what is to be read."""
        self.say(reason, bad=False)

    def on_screen_resume(self) -> None:
        """Make keys inert again whenever the panel becomes visible."""
        self.fall_asleep()

    def focus_next(self, selector: str | type[Widget] = "*") -> Widget | None:
        self._moves()
        return super().focus_next(selector)

    def focus_previous(self, selector: str | type[Widget] = "*") -> Widget | None:
        self._moves()
        return super().focus_previous(selector)

    def _moves(self) -> None:
        """Note a key that moved the focus.

        Such keys are seen only here, and before the keys just before them.
        """
        self._moved_at = self.monotonic()
        self.interrupted()
