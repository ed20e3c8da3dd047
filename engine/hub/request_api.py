"""Hub API for requests of the Agent Approval Protocol, which are calls of external agents' sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue

from ..history.model.events import RequestMade, RequestStep
from ..recording.protocol_requests import ProtocolRequest, ProtocolRequests
from ..sessions.errors import UnknownSessionError
from ..sessions.external import ExternalSession
from ..sessions.registry import SessionRegistry

PREFIX = "aap."
"""Prefix of the ids of sessions whose calls are requests of this protocol."""


class RequestAct(BaseModel):
    """Action of a client on a request, at another server than the one that owns its session.

    `agent` is the name of its token, `key` the idempotency key, or its hash, and `body` its message.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: Literal["create", "cancel", "consume", "report"]
    agent: str
    request: str = ""
    key: str = ""
    body: JsonValue = None


class RequestActAnswer(BaseModel):
    """Answer to a `RequestAct`: only `is_new`, or the `failure` with its `code` and `text`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    is_new: bool = False
    failure: Literal["conflict", "absent", "unavailable", "refused", "wire"] | None = None
    code: str = ""
    text: str = ""


RequestActor: TypeAlias = Callable[[RequestAct], Awaitable[RequestActAnswer]]


class RequestApi:
    """Part of a hub for requests, which are in the record of their session, live or not."""

    _live: SessionRegistry
    request_actor: RequestActor | None = None
    """Executes actions of clients of other servers on requests here; `None` if it accepts none."""

    async def has_elsewhere(self, session_id: str) -> bool:
        """Return whether another living server owns a session. Raises `JournalError`."""
        return False

    async def act_elsewhere(self, session_id: str, act: RequestAct) -> RequestActAnswer | None:
        """Have the server that owns a session execute an action; `None` if no other server owns it.

        Raises `JournalError` if it does not answer, or cannot execute it.
        """
        return None

    def follow_requests(self, session_id: str, listener: Callable[[str], object]) -> None:
        """Call `listener` with the ids of a live session's changed requests; no input is edited there.

        Raises `UnknownSessionError`.
        """
        hosted = self._requesting(session_id)
        hosted.runs_edits = False
        hosted.requests.listeners.add(listener)

    def live_request(self, session_id: str, request_id: str) -> ProtocolRequest | None:
        """Return a request of a live session, with unmasked input. Raises `UnknownSessionError`."""
        return self._requesting(session_id).requests.found.get(request_id)

    async def recorded_requests(self, session_id: str) -> Mapping[str, ProtocolRequest]:
        """Return the requests in a session's record, by id, not masked.

        Raises `SessionNotFound`, and `JournalError` for a record that cannot be read.
        """
        _, events = await self._live.recorded(session_id, whole=True)
        requests = ProtocolRequests()
        for event in events:
            requests.take(event)
        return requests.found

    async def requesting_sessions(self, agent: str, since: datetime) -> list[str]:
        """Return the sessions of an agent that had requests, and were changed after a time."""
        found = await asyncio.to_thread(self._live.recorded_sessions, agent)
        return [each.id for each in found if each.id.startswith(PREFIX) and each.updated > since]

    async def session_of_request(self, request_id: str, sessions: Sequence[str]) -> str | None:
        """Return the one of `sessions` whose record has a request, if any.

        Raises `JournalError` if they cannot be read.
        """
        return await asyncio.to_thread(self._live.session_with_request, request_id, sessions)

    async def note_request(self, session_id: str, event: RequestMade | RequestStep) -> None:
        """Record a new request, or a change of one; it is durable when this returns.

        Raises `UnknownSessionError`, and `JournalError` if it could not be recorded.
        """
        await self._requesting(session_id).record(event)

    async def settle_unknown(self, session_id: str, call_id: str, why: str) -> None:
        """Record that the outcome of an allowed call without a result is unknown.

        Raises `UnknownSessionError`, and `JournalError` if it could not be recorded.
        """
        await self._requesting(session_id).calls.settle_unknown(call_id, why)

    def _requesting(self, session_id: str) -> ExternalSession:
        hosted = self._live.hosted(session_id)
        if not isinstance(hosted, ExternalSession):
            raise UnknownSessionError(f"Session '{session_id}' takes no requests")
        return hosted
