"""Settings of a session, and changes to them while it is live."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self, overload

from ..events import EventName
from ..models.base import Model
from ..models.litellm_model import as_model
from ..tool import Tool, tool_table
from ..turn.run import Run
from .compactor import Compaction
from .config import SessionConfig
from .conversation import Conversation
from .listeners import EventStream, Listener, Listeners

# Registration of listeners


class ListenerRegistration:
    """The part of a session that registers listeners."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners

    @overload
    def on(self, event: EventName, fn: Listener) -> Self: ...
    @overload
    def on(self, event: EventName) -> Callable[[Listener], Listener]: ...
    def on(self, event: EventName, fn: Listener | None = None) -> Self | Callable[[Listener], Listener]:
        """Call `fn`, also if async, with each event of this kind; without `fn`, return a decorator.

        A `tool_call` listener may return `Deny` or `Override`. A listener that raises ends the run with
        that error (A-32); `KeyboardInterrupt` and `SystemExit` are raised in the event loop after the run
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
        """Stream of all events from now on; never blocks the run, and ends when the session closes."""
        return self._listeners.stream()


class SessionSettings(ListenerRegistration):
    """The part of a session with its settings; each applies from the next model call on."""

    def __init__(self, conversation: Conversation, config: SessionConfig) -> None:
        super().__init__(conversation.listeners)
        self._conversation = conversation
        self._config = config
        self._run: Run | Compaction | None = None

    @property
    def id(self) -> str:
        return self._conversation.id

    @property
    def model(self) -> Model:
        """The model; a name can be assigned, too."""
        return self._config.model

    @model.setter
    def model(self, model: str | Model) -> None:
        self._change(replace(self._config, model=as_model(model)))

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools. Assigning raises `DuplicateToolError` (A-61), or `TypeError` for an invalid tool."""
        return tuple(self._config.tools.values())

    @tools.setter
    def tools(self, tools: Sequence[Tool]) -> None:
        self._change(replace(self._config, tools=tool_table(tools)))

    @property
    def system_prompt(self) -> str | None:
        return self._config.system_prompt

    @system_prompt.setter
    def system_prompt(self, text: str | None) -> None:
        self._change(replace(self._config, system_prompt=text))

    @property
    def max_cost(self) -> float | None:
        """Cost limit in US dollars, `None` without one; `raise_limit` changes it."""
        return None if self._config.spending is None else self._config.spending.limit

    def raise_limit(self, max_cost: float) -> None:
        """Raise the cost limit from the next model call on; a session at its limit may then continue.

        The limit of the parent session still applies. Raises the errors of `check_raise`.
        """
        self.check_raise(max_cost)
        if self._config.spending is not None:
            self._config.spending.limit = max_cost

    def check_raise(self, max_cost: float) -> None:
        """Raise `ValueError` for a limit that is not higher or too low for the session to continue."""
        if self._config.spending is None or self._config.spending.limit is None:
            raise ValueError(f"Session '{self.id}' has no cost limit to raise")
        self._config.spending.check_raise(max_cost)

    def _change(self, config: SessionConfig) -> None:
        self._config = config
        if isinstance(self._run, Run):
            running = self._run.config
            running.model, running.tools = config.model, config.tools
            running.system_prompt = config.system_prompt
