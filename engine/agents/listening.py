"""How others hear what a session reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, overload

from .events import EventName
from .listeners import EventStream, Listener, Listeners


class Listening:
    """The part of a session that listeners are registered with."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners

    @overload
    def on(self, event: EventName, fn: Listener) -> Self: ...
    @overload
    def on(self, event: EventName) -> Callable[[Listener], Listener]: ...
    def on(self, event: EventName, fn: Listener | None = None) -> Self | Callable[[Listener], Listener]:
        """Call `fn` with each event of this kind; without `fn`, a decorator. Async functions are awaited.

        A `tool_call` listener may return `Deny` or `Override`. A listener that raises ends the run with
        that error (A-32); `KeyboardInterrupt` and `SystemExit` are raised in the event loop once the run
        has ended. Raises `ValueError` for an unknown event.
        """
        if fn is not None:
            self._listeners.add(event, fn)
            return self

        def decorate(fn: Listener) -> Listener:
            self._listeners.add(event, fn)
            return fn

        return decorate

    def off(self, event: EventName, fn: Listener) -> Self:
        """Stop calling `fn` (A-29)."""
        self._listeners.remove(event, fn)
        return self

    def on_any(self, fn: Listener) -> Self:
        """Call `fn` with every event, in order, before the listeners of its kind."""
        self._listeners.observe(fn)
        return self

    def off_any(self, fn: Listener) -> Self:
        """Stop calling `fn` with every event."""
        self._listeners.stop_observing(fn)
        return self

    def events(self) -> EventStream:
        """All events from now on, for UIs; never holds up the run, and ends when the session closes."""
        return self._listeners.stream()
