"""Panels and panes that decide: keys are inert after anything new appears, and a single stroke counts.

A key that is held down, or text pasted into a terminal that does not say so, comes as several keys at
once. Neither is a decision.
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
"""Seconds that keys that decide do nothing after something new is shown."""
QUIET = 0.1
"""Seconds in which no other key may follow one that decides; a held key repeats sooner."""
FLASH = 0.6
AT_ONCE = "Keys pressed too fast; nothing was decided"
SENDING = "The decision is on its way"
NOTHING_LEFT = "Nothing is left to decide"

Answer = TypeVar("Answer")


@runtime_checkable
class FallsAsleep(Protocol):
    """A screen with keys that wait until it can have been read."""

    def fall_asleep(self) -> None:
        """Restart the wait of its keys."""


@runtime_checkable
class FollowsRequest(Protocol):
    """A panel over a dialog, about the same request."""

    def request_over(self, text: str) -> None:
        """The request is no longer what it was, or no longer open, as `text` says."""


class GuardsKeys(TypedApp):
    """Base before a screen's or a pane's own: keys that decide are inert after anything new appears.

    `monotonic` gives seconds; with `quiet` 0 a key decides at once.
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
        """Show a sentence to the operator."""
        raise NotImplementedError

    def tick(self) -> None:
        """Show what changes with time."""
        raise NotImplementedError

    @property
    def in_front(self) -> bool:
        """Tell whether the screen is on top, where keys reach it."""
        return self.screen.is_current

    def on_mount(self) -> None:
        self.set_interval(0.1, self.tick)

    # By its name: Textual finds decorated methods only in classes of widgets.
    def on_lines_shown(self, event: LinesShown) -> None:
        """Say how much is still to be seen; once all was, the keys do what they are there for."""
        self.tick()
        if event.complete:
            self.refresh_bindings()

    def show_more(self, show: Callable[[], None]) -> None:
        """Show what was not on screen yet, for a key that decides once all was."""
        if self.reads_on():
            show()
            self.fall_asleep()
            self.call_after_refresh(self.tick)

    def fall_asleep(self) -> None:
        """Make keys inert, as something new is shown; a key just pressed was about something else."""
        self._stop_coming()
        self._shown_at = None
        self.call_after_refresh(self._mark_shown)

    def _mark_shown(self) -> None:
        self._shown_at = self.monotonic()
        self.tick()

    def sleeps_for(self) -> float:
        """Seconds until deciding keys are active; 0 when they are."""
        if self._shown_at is None:
            return ASLEEP
        return max(0.0, ASLEEP - (self.monotonic() - self._shown_at))

    @property
    def flashes(self) -> bool:
        """Tell whether a key has just been pressed too early."""
        return self.monotonic() < self._flash_until

    def sleep_note(self) -> Content | None:
        """`keys unlock in 0.3 s`, while they are inert."""
        left = self.sleeps_for()
        style = "bold $text-error reverse" if self.flashes else "bold $text-warning"
        return Content.styled(f" keys unlock in {left:.1f} s ", style) if left > 0 else None

    def accepts_key(self) -> bool:
        """Tell whether a key decides now. One that comes too early restarts the wait, so that a key that
        is held down never decides."""
        if self.sleeps_for() <= 0:
            return True
        if self._shown_at is not None:
            self._shown_at = self.monotonic()
        self._flash_until = self.monotonic() + FLASH
        self.tick()
        return False

    def reads_on(self) -> bool:
        """Tell whether a key shows more now. One that comes too early does nothing, and delays nothing:
        the wait restarts only for keys that would decide."""
        if self.sleeps_for() <= 0:
            return True
        self._flash_until = self.monotonic() + FLASH
        self.tick()
        return False

    def deliberately(self, decide: Callable[[], None]) -> None:
        """Run an action if keys are active and no other key follows at once."""
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
            # Where the panel is held up, this comes before the keys do that were typed meanwhile.
            if keys is not None and keys.arrived > handled:
                self.interrupted()
                return
            self._coming = None
            if self.in_front:
                decide()

        self._coming = self.set_timer(self.quiet, alone)

    def interrupted(self) -> None:
        """Another key: what the one before would have decided is not decided."""
        if self._coming is not None:
            self.fall_asleep()
            self.say(AT_ONCE, bad=False)

    def _stop_coming(self) -> None:
        if self._coming is not None:
            self._coming.stop()
            self._coming = None

    def on_key(self) -> None:
        """Seen before what is bound to the key is done."""
        self.interrupted()

    def on_paste(self, event: events.Paste) -> None:
        """Refuse pasted text: it is no decision."""
        event.stop()
        self._stop_coming()
        self.say("Pasted text decides nothing", bad=False)


class GuardedKeys(GuardsKeys, Panel[Answer]):
    """Panel with keys that decide."""

    def show_obstacle(self, reason: str) -> None:
        """In the panel: a notice would cover what there is to read."""
        self.say(reason, bad=False)

    def on_screen_resume(self) -> None:
        """Restart the wait whenever the panel comes into view."""
        self.fall_asleep()

    def focus_next(self, selector: str | type[Widget] = "*") -> Widget | None:
        self._moves()
        return super().focus_next(selector)

    def focus_previous(self, selector: str | type[Widget] = "*") -> Widget | None:
        self._moves()
        return super().focus_previous(selector)

    def _moves(self) -> None:
        """A key that moves the focus is seen here only, and before those that came right before it."""
        self._moved_at = self.monotonic()
        self.interrupted()
