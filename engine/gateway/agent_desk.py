"""What a server does for one agent's connection."""

from __future__ import annotations

from collections.abc import Mapping

from .agent_methods import CALL, CLOSE, EXPLAIN, OPEN, PROMPT, REST, RESULT, RESUME, SAID, WITHDRAW
from .agent_sessions import AgentSessions, Listener
from .connection import Handler, handler
from .tokens import Identity


class AgentDesk:
    """One agent's connection, at the sessions of its token."""

    def __init__(self, sessions: AgentSessions, identity: Identity, listener: Listener) -> None:
        self._sessions = sessions
        self._listener = listener
        self.handlers: Mapping[str, Handler] = dict(
            [
                handler(OPEN, lambda asked: sessions.open(identity, asked, listener)),
                handler(RESUME, lambda asked: sessions.resume(identity, asked, listener)),
                handler(REST, lambda asked: sessions.rest(identity, asked)),
                handler(CLOSE, lambda asked: sessions.close(identity, asked)),
                handler(SAID, lambda asked: sessions.said(identity, asked)),
                handler(PROMPT, lambda asked: sessions.prompt(identity, asked)),
                handler(
                    CALL,
                    lambda asked: sessions.call(identity, asked),
                    waits=True,
                    at_once=lambda asked, told: sessions.call_at_once(identity, asked, told),
                ),
                handler(WITHDRAW, lambda asked: sessions.withdraw(identity, asked)),
                handler(RESULT, lambda asked: sessions.result(identity, asked)),
                handler(EXPLAIN, lambda asked: sessions.explain(identity, asked)),
            ]
        )

    async def leave(self) -> None:
        """The connection is gone; its sessions stay for the next one."""
        self._sessions.leave(self._listener)
