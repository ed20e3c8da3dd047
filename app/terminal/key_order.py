"""Key order: each key is handled once the effects of the previous key are complete.

A key may move the focus by messages that pass through several queues. If the next key were forwarded
before these messages have arrived, it would go to the widget that had the focus, or to none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, runtime_checkable

from textual import events
from textual.app import App
from textual.message_pump import MessagePump
from textual.timer import Timer
from textual.widgets import Input, TextArea

ROUNDS = 2
"""Number of passes through the queues of the focused widget, its ancestors, the screen and the app."""
PATIENCE = 0.25
"""Seconds after which a non-text key is handled even if the previous key's effects are not complete."""
TEXT_PATIENCE = 5.0
"""Seconds after which text is handled; it may be meant for a line that the previous key is to open."""

KeyEvent = events.Key | events.Paste


@runtime_checkable
class HasKeyOrder(Protocol):
    """An app whose keys are handled in order."""

    keys: KeyOrder


class KeyOrder:
    """Typed events of an `app`, passed to `take` one after the other.

    `arrived` counts all events, `handled` those passed to `take`.
    """

    def __init__(self, app: App[None], take: Callable[[KeyEvent], Awaitable[None]]) -> None:
        self._app = app
        self._take = take
        self._waiting: deque[KeyEvent] = deque()
        self._under_way = 0
        self._count = 0
        self.arrived = self.handled = 0
        self._overdue = False
        self._limits: tuple[Timer, ...] = ()

    @property
    def busy(self) -> bool:
        """Return whether keys are waiting, or effects of a key are incomplete, in a running app."""
        return self._app.is_running and bool(self._under_way or self._waiting)

    async def add(self, event: KeyEvent) -> None:
        """Handle `event` now, or once the effects of earlier events are complete."""
        self.arrived += 1
        next_one = self._overdue and not self._waiting and not _is_text(event)
        if self.busy and not next_one:
            self._waiting.append(event)
        else:
            await self._handle(event)

    async def _handle(self, event: KeyEvent) -> None:
        self.handled += 1
        stays = self._stays_in_line(event)
        await self._take(event)
        if not stays:
            self._count += 1
            self._under_way = self._count
            self._end_limits()
            self._limits = (
                self._app.set_timer(PATIENCE, partial(self._hurry, self._count)),
                self._app.set_timer(TEXT_PATIENCE, partial(self._done, self._count)),
            )
            self._pass(self._count, ROUNDS)

    def _stays_in_line(self, event: KeyEvent) -> bool:
        """Return whether a key only adds to the focused text; many such keys may be handled at once."""
        return _is_text(event) and isinstance(self._app.focused, Input | TextArea)

    def _pass(self, key: int, rounds: int) -> None:
        """Send a call through the queues, after the messages in them."""
        if rounds == 0 or not self._app.screen_stack:
            self._app.call_next(self._done, key)
            return
        start = self._app.focused or self._app.screen
        self._step(key, rounds, [*start.ancestors_with_self])

    def _step(self, key: int, rounds: int, pumps: list[MessagePump]) -> None:
        for index, pump in enumerate(pumps):
            # A widget that is being removed handles no more messages.
            if pump.call_later(self._step, key, rounds, pumps[index + 1 :]):
                return
        if key == self._under_way:
            self._pass(key, rounds - 1)

    async def _hurry(self, key: int) -> None:
        """Let the next key be handled unless it is text."""
        if key == self._under_way:
            self._overdue = True
            if self._waiting and not _is_text(self._waiting[0]):
                await self._done(key)

    def _end_limits(self) -> None:
        for limit in self._limits:
            limit.stop()
        self._limits, self._overdue = (), False

    async def _done(self, key: int) -> None:
        """Handle waiting keys, up to the next one that has to be waited for."""
        if key != self._under_way:
            return
        self._under_way = 0
        if not self._app.screen_stack:
            self._waiting.clear()  # the app has ended
        self._end_limits()
        while self._waiting and not self._under_way:
            await self._handle(self._waiting.popleft())


def _is_text(event: KeyEvent) -> bool:
    return isinstance(event, events.Paste) or event.is_printable
