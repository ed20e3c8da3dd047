"""Listeners of a session's events: observers of all events, listeners of one kind, streams for UIs."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections import deque
from collections.abc import Callable
from typing import TypeAlias, get_args

from ..decisions import Decision, Deny, as_decision
from ..errors import AgentError
from ..events import (
    Event,
    EventName,
    MessageEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallEvent,
    ToolInputDelta,
    ToolProgress,
    ToolResultEvent,
    TurnEnd,
)

Listener: TypeAlias = Callable[..., object]

BACKLOG_BEFORE_JOINING = 256


class EventStream:
    """All events from now on, as an async iterator that never blocks the session.

    For a slow reader, adjacent text fragments are joined. Ends when the session is closed.
    """

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._arrived = asyncio.Event()
        self._closed = False

    def put(self, event: Event) -> None:
        """Add an event."""
        if len(self._events) < BACKLOG_BEFORE_JOINING:
            self._events.append(event)
        else:
            self._events.extend(_join(self._events.pop(), event))
        self._arrived.set()

    def close(self) -> None:
        """End the stream; unread events can still be read."""
        self._closed = True
        self._arrived.set()

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._events.popleft()


def _join(last: Event, event: Event) -> list[Event]:
    match last, event:
        case TextDelta(), TextDelta():
            return [TextDelta(delta=last.delta + event.delta)]
        case ReasoningDelta(), ReasoningDelta():
            return [ReasoningDelta(delta=last.delta + event.delta)]
        case ToolInputDelta(), ToolInputDelta() if (last.index, last.name) == (event.index, event.name):
            return [event.model_copy(update={"delta": last.delta + event.delta})]
        case ToolProgress(), ToolProgress() if last.call_id == event.call_id:
            return [ToolProgress(call_id=event.call_id, text=last.text + event.text)]
        case _:
            return [last, event]


class Listeners:
    """Calls listeners in the order of registration, each awaited before the next (A-30).

    Each listener gets its own copy of an event that could be changed, so its changes do not reach the
    conversation (A-47). An error in a listener ends the run (A-32). `KeyboardInterrupt`, `SystemExit` and
    the like first end the run, too, and are then raised: see `raise_stop`.
    """

    def __init__(self) -> None:
        self._observers: dict[Listener, None] = {}
        self._by_event: dict[str, dict[Listener, None]] = {name: {} for name in get_args(EventName)}
        self._streams: weakref.WeakSet[EventStream] = weakref.WeakSet()
        self._closed = False
        self._leaving: BaseException | None = None

    def add(self, event: EventName, fn: Listener) -> None:
        """Register a listener; registering it again for the same event has no effect (A-29).

        Raises `ValueError` for an unknown event.
        """
        if event not in self._by_event:
            raise ValueError(f"unknown event '{event}'; events are {', '.join(self._by_event)}")
        self._by_event[event][fn] = None

    def remove(self, event: EventName, fn: Listener) -> None:
        """Unregister a listener; do nothing if it is not registered (A-29)."""
        self._by_event.get(event, {}).pop(fn, None)

    def observe(self, fn: Listener) -> None:
        """Register for every event, before the listeners of one kind."""
        self._observers[fn] = None

    def stop_observing(self, fn: Listener) -> None:
        self._observers.pop(fn, None)

    def stream(self) -> EventStream:
        """Return a stream of the events from now on."""
        stream = EventStream()
        self._streams.add(stream)
        if self._closed:
            stream.close()
        return stream

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for stream in list(self._streams):
            stream.close()

    async def emit(self, event: Event) -> None:
        """Call all listeners; for a `tool_call` only streams and observers: `decide` asks the others.

        Raises the error of a listener; later ones are then not called.
        """
        for stream in list(self._streams):
            stream.put(_copy_for_listener(event))
        for fn in list(self._observers):
            await self._call(fn, event)
        if not isinstance(event, ToolCallEvent):
            for fn in list(self._by_event[event.type]):
                await self._call(fn, event)

    async def decide(self, event: ToolCallEvent) -> Decision:
        """Ask the `tool_call` listeners; the first that answers decides (A-41).

        An invalid answer denies (A-44). Raises the error of a listener.
        """
        for fn in list(self._by_event["tool_call"]):
            answer = await self._call(fn, event)
            if answer is None:
                continue
            try:
                return as_decision(answer)
            except TypeError as error:
                return Deny(reason=str(error))
        return None

    async def _call(self, fn: Listener, event: Event) -> object:
        """Return the answer of `fn`. Any exception becomes an ordinary error, to end the run in order."""
        try:
            result = fn(_copy_for_listener(event))
            return await result if inspect.isawaitable(result) else result
        except Exception:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise AgentError(f"A listener of {event.type} was cancelled from within") from error
        except BaseException as error:
            self._leaving = self._leaving or error
            raise AgentError(f"A listener of {event.type} raised {error!r}") from error

    def raise_stop(self) -> None:
        """Raise a listener's exception that must leave the session, such as `SystemExit`."""
        leaving, self._leaving = self._leaving, None
        if leaving is not None:
            raise leaving


def _copy_for_listener(event: Event) -> Event:
    match event:
        case ToolCallEvent() | ToolResultEvent() | MessageEvent() | TurnEnd():
            return event.model_copy(deep=True)
        case _:
            return event
