"""Actions of operators at a server, which knows them by their token; `by` is for local hubs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from pydantic import JsonValue

from ...agents import KEEP_LAST
from ...gate.types import GrantTerms, Mode
from ...hub.hub import Nets, Outcome, Revealed
from ..protocol.agent_methods import OfSession
from ..protocol.console_methods import (
    ABORT,
    COMPACT,
    CONFIRM_CHANGE,
    DECIDE,
    DROP_CHANGE,
    END,
    EXTEND,
    GO_ON,
    MODE,
    RAISE_LIMIT,
    REVEAL,
    REVOKE,
    SEND,
    START,
    TOGGLE,
    Abort,
    Compact,
    Decide,
    Extend,
    GoOn,
    GrantAsked,
    OfChange,
    RaiseLimit,
    Reveal,
    Revoke,
    Send,
    SetMode,
    Start,
    Toggle,
)
from ..protocol.method import Method, ParamsT, ResultT
from .connection import GatewayError, Link, UnreachableError
from .history import PATIENCE


class ConsoleActing(ABC):
    """Actions of a `ConsoleClient`: for what each does see `Hub`."""

    link: Link
    trouble: str | None
    """Fault of the connection, while it is lost."""

    @abstractmethod
    async def _ask(
        self, method: Method[ParamsT, ResultT], asked: ParamsT, *, may_repeat: bool = True
    ) -> ResultT: ...

    @abstractmethod
    async def _list(self) -> None:
        """Update the live sessions to the present."""

    async def decide(
        self,
        approval_id: str,
        *,
        approved: bool,
        by: str = "",
        reason: str | None = None,
        input: dict[str, JsonValue] | None = None,  # noqa: A002 - the field's name on the wire
        digest: str | None = None,
        grant: GrantTerms | None = None,
        stop: bool = False,
    ) -> Outcome:
        """Answer the request of this `digest`; see `Hub.decide`.

        When the connection is lost before the answer comes, the request is sent again: a decision counts
        once, and the second answer repeats it.
        """
        if digest is None:
            return Outcome(ok=False, message="Not decided: an answer needs what was shown")
        terms = None
        if grant is not None:
            terms = GrantAsked(
                scope=grant.scope,
                uses=grant.uses,
                seconds=grant.seconds,
                subagents=grant.subagents,
            )
        asked = Decide(
            approval_id=approval_id,
            approved=approved,
            digest=digest,
            reason=reason,
            input=input,
            grant=terms,
            stop=stop,
        )
        return await self._act("decided", DECIDE, asked)

    async def reveal(self, approval_id: str, *, by: str = "") -> Revealed:
        """The masked parts of a request that may be more than a secret."""
        try:
            return await self._ask(REVEAL, Reveal(approval_id=approval_id))
        except GatewayError as error:
            return Revealed(ok=False, message=f"Not shown: {error}")

    async def extend(self, approval_id: str, *, seconds: float | None, by: str = "") -> Outcome:
        """Give a request `seconds` from now on before it is denied by itself."""
        return await self._act("extended", EXTEND, Extend(approval_id=approval_id, seconds=seconds))

    async def revoke_grant(self, session_id: str, key: str, *, by: str = "") -> Outcome:
        """End a grant."""
        return await self._act("revoked", REVOKE, Revoke(session=session_id, key=key))

    async def toggle_net(
        self,
        session_id: str,
        net: str,
        active: bool,
        *,
        by: str = "",
        reason: str | None = None,
        seconds: float | None = None,
    ) -> Outcome:
        """Turn a net of a session on, turn it off for a reason, or propose that."""
        asked = Toggle(session=session_id, net=net, active=active, reason=reason, seconds=seconds)
        return await self._act("switched", TOGGLE, asked)

    async def set_mode(
        self,
        session_id: str,
        mode: Mode,
        *,
        by: str = "",
        reason: str | None = None,
        seconds: float | None = None,
    ) -> Outcome:
        """Enforce or shadow, from the session's next call on, or propose shadow mode."""
        asked = SetMode(session=session_id, mode=mode, reason=reason, seconds=seconds)
        return await self._act("switched", MODE, asked)

    async def confirm_change(self, session_id: str, change_id: str, *, by: str = "") -> Outcome:
        """Confirm a change that another operator proposed."""
        asked = OfChange(session=session_id, change=change_id)
        return await self._act("confirmed", CONFIRM_CHANGE, asked)

    async def drop_change(self, session_id: str, change_id: str, *, by: str = "") -> Outcome:
        """Take a proposed change back."""
        asked = OfChange(session=session_id, change=change_id)
        return await self._act("taken back", DROP_CHANGE, asked)

    async def raise_limit(
        self, session_id: str, max_cost: float, *, by: str = "", reason: str | None = None
    ) -> Outcome:
        """Let a session cost more, in US dollars, from its next model call on."""
        asked = RaiseLimit(session=session_id, max_cost=max_cost, reason=reason)
        return await self._act("raised", RAISE_LIMIT, asked)

    async def compact(
        self,
        session_id: str,
        *,
        by: str = "",
        keep_last: int = KEEP_LAST,
        instructions: str | None = None,
    ) -> Outcome:
        """Have the agent's model sum up what was said before the last messages."""
        asked = Compact(session=session_id, keep_last=keep_last, instructions=instructions)
        return await self._act("compacted", COMPACT, asked)

    async def send(
        self,
        session_id: str,
        text: str,
        *,
        by: str | None = None,
        mode: Literal["steer", "queue"] = "steer",
    ) -> None:
        """Send a message to an agent. Raises `GatewayError` when it may not have been delivered."""
        await self._ask(SEND, Send(session=session_id, text=text, mode=mode), may_repeat=False)

    async def abort(self, session_id: str, reason: str = "", *, by: str | None = None) -> None:
        """Stop the agent's current work."""
        await self._ask(ABORT, Abort(session=session_id, reason=reason))

    async def close_session(self, session_id: str, by: str = "") -> None:
        """End one session."""
        await self._ask(END, OfSession(session=session_id))

    async def start(self, spec: dict[str, JsonValue]) -> str:
        """Start a session on the server, from the content of an agent file; return its id."""
        started = await self._ask(START, Start(spec=spec), may_repeat=False)
        await self._list()
        return started.session

    async def go_on(
        self,
        session_id: str,
        *,
        at: int | None = None,
        nets: Nets = "recorded",
        task: str | None = None,
        max_cost: float | None = None,
        reason: str | None = None,
    ) -> str:
        """Resume a recorded session on the server, or branch from an event; return the session's id."""
        asked = GoOn(session=session_id, at=at, nets=nets, task=task, max_cost=max_cost, reason=reason)
        started = await self._ask(GO_ON, asked, may_repeat=False)
        await self._list()
        return started.session

    async def _act(self, done: str, method: Method[ParamsT, Outcome], asked: ParamsT) -> Outcome:
        """Perform an operator's action; a failed connection is reported as an outcome too.

        Returns after the mirror is updated, so that any later read shows the effect.
        """
        heard = self.trouble is None
        try:
            outcome = await self.link.request(method, asked, may_repeat=True, patience=PATIENCE)
        except UnreachableError as error:
            if not heard:
                return Outcome(ok=False, message=f"Not {done}: {error}")
            return Outcome(ok=False, message=f"Perhaps not {done}: {error}. Look before you try again")
        except GatewayError as error:
            return Outcome(ok=False, message=f"Not {done}: {error}")
        await self._list()
        return outcome
