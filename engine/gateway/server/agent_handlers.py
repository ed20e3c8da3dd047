"""Request handlers of an agent's connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from ...hub.request_api import PREFIX
from ...sessions.call_answer import CallAnswer
from ..protocol.agent_methods import (
    CALL,
    CLOSE,
    END_TURN,
    EXPLAIN,
    GIVE_UP,
    NOTE_HINTS,
    OPEN,
    PROMPT,
    REPORT_MESSAGE,
    RESULT,
    RESUME,
    WITHDRAW,
    CallTool,
    OpenSession,
    SessionOpen,
    ToolClaims,
)
from ..protocol.framing import Code, Nothing, WireError
from ..protocol.method import Method, ParamsT, ResultT
from ..protocol.tokens import Identity
from .agent_sessions import AgentSessions, Listener
from .connection import RequestHandler, handler

_NamedHandler = tuple[str, RequestHandler]


class AgentHandlers:
    """One agent's connection, with access to the sessions of its token.

    There are many connections, and most use few methods, so each handler is created on first use.
    `claimed` are the sessions and tools for which this connection reported hints.
    """

    claimed: frozenset[tuple[str, str]] = frozenset()

    def __init__(self, sessions: AgentSessions, identity: Identity, listener: Listener) -> None:
        self.sessions = sessions
        self.identity = identity
        self.listener = listener
        self._handlers: dict[str, RequestHandler] = {}

    def handler(self, method: str) -> RequestHandler | None:
        """See `RequestHandlers.handler`."""
        request_handler = self._handlers.get(method)
        if request_handler is None and (make := _MAKERS.get(method)) is not None:
            request_handler = self._handlers[method] = make(self)[1]
        return request_handler

    async def close(self) -> None:
        """Detach from the sessions, which stay open for the next connection."""
        self.sessions.detach(self.listener)


def _open(agent: AgentHandlers) -> _NamedHandler:
    async def answer(params: OpenSession) -> SessionOpen:
        # Ids of the server's own agents follow from their names, so an external agent could take one
        # first.
        if params.session is not None and params.session.startswith(PREFIX):
            raise WireError(Code.PARAMS, f"session: ids that begin with '{PREFIX}' are the server's own")
        return await agent.sessions.open(agent.identity, params, agent.listener)

    return handler(OPEN, answer)


def _resume(agent: AgentHandlers) -> _NamedHandler:
    return handler(RESUME, lambda params: agent.sessions.resume(agent.identity, params, agent.listener))


def _call(agent: AgentHandlers) -> _NamedHandler:
    def answer(params: CallTool) -> Awaitable[CallAnswer]:
        has_claims = (params.session, params.tool) in agent.claimed
        return agent.sessions.call(agent.identity, params, claimed=has_claims)

    return handler(CALL, answer, waits=True)


def _note_hints(agent: AgentHandlers) -> _NamedHandler:
    async def answer(params: ToolClaims) -> Nothing:
        result = await agent.sessions.note_hints(agent.identity, params)
        if params.hints:
            agent.claimed |= {(params.session, params.tool)}
        return result

    return handler(NOTE_HINTS, answer)


def _plain(
    method: Method[ParamsT, ResultT],
    answer: Callable[[AgentSessions, Identity, ParamsT], Awaitable[ResultT]],
) -> tuple[str, Callable[[AgentHandlers], _NamedHandler]]:
    """Return a method's name and a factory of its handler, which needs only the agent's identity."""
    return method.name, lambda agent: handler(method, partial(answer, agent.sessions, agent.identity))


_MAKERS: Final[Mapping[str, Callable[[AgentHandlers], _NamedHandler]]] = dict(
    [
        (OPEN.name, _open),
        (RESUME.name, _resume),
        (CALL.name, _call),
        _plain(END_TURN, AgentSessions.end_turn),
        _plain(CLOSE, AgentSessions.close),
        _plain(REPORT_MESSAGE, AgentSessions.report_message),
        (NOTE_HINTS.name, _note_hints),
        _plain(PROMPT, AgentSessions.prompt),
        _plain(WITHDRAW, AgentSessions.withdraw),
        _plain(GIVE_UP, AgentSessions.give_up),
        _plain(RESULT, AgentSessions.result),
        _plain(EXPLAIN, AgentSessions.explain),
    ]
)
