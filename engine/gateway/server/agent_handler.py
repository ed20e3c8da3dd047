"""Request handlers of an agent's connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ..protocol.agent_methods import (
    CALL,
    CLOSE,
    EXPLAIN,
    OPEN,
    PROMPT,
    REST,
    RESULT,
    RESUME,
    SAID,
    WITHDRAW,
)
from ..protocol.tokens import Identity
from .agent_sessions import AgentSessions, Listener
from .connection import Handler, handler

_Made = tuple[str, Handler]


class AgentDesk:
    """One agent's connection, with access to the sessions of its token.

    Connections are many, and most use few methods: a method's handler is made when it is needed.
    """

    def __init__(self, sessions: AgentSessions, identity: Identity, listener: Listener) -> None:
        self.sessions = sessions
        self.identity = identity
        self.listener = listener
        self._handlers: dict[str, Handler] = {}

    def handler(self, method: str) -> Handler | None:
        """See `RequestHandlers.handler`."""
        found = self._handlers.get(method)
        if found is None and (make := _MAKERS.get(method)) is not None:
            found = self._handlers[method] = make(self)[1]
        return found

    async def close(self) -> None:
        """Detach from the sessions, which stay for the next connection."""
        self.sessions.leave(self.listener)


def _open(desk: AgentDesk) -> _Made:
    return handler(OPEN, lambda asked: desk.sessions.open(desk.identity, asked, desk.listener))


def _resume(desk: AgentDesk) -> _Made:
    return handler(RESUME, lambda asked: desk.sessions.resume(desk.identity, asked, desk.listener))


_MAKERS: Final[Mapping[str, Callable[[AgentDesk], _Made]]] = {
    OPEN.name: _open,
    RESUME.name: _resume,
    CALL.name: lambda desk: handler(CALL, lambda a: desk.sessions.call(desk.identity, a), waits=True),
    REST.name: lambda desk: handler(REST, lambda a: desk.sessions.rest(desk.identity, a)),
    CLOSE.name: lambda desk: handler(CLOSE, lambda a: desk.sessions.close(desk.identity, a)),
    SAID.name: lambda desk: handler(SAID, lambda a: desk.sessions.said(desk.identity, a)),
    PROMPT.name: lambda desk: handler(PROMPT, lambda a: desk.sessions.prompt(desk.identity, a)),
    WITHDRAW.name: lambda desk: handler(WITHDRAW, lambda a: desk.sessions.withdraw(desk.identity, a)),
    RESULT.name: lambda desk: handler(RESULT, lambda a: desk.sessions.result(desk.identity, a)),
    EXPLAIN.name: lambda desk: handler(EXPLAIN, lambda a: desk.sessions.explain(desk.identity, a)),
}
