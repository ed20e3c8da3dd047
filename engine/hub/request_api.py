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
"""Beginning of the ids of sessions whose calls are requests of this protocol."""


class RequestAct(BaseModel):
    """Act of a client on a request, at another server than the one that has its session.

    `agent` is the name of its token, `key` the idempotency key, or its hash, and `body` its message.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: Literal["create", "cancel", "consume", "report"]
    agent: str
    request: str = ""
    key: str = ""
    body: JsonValue = None


class RequestActAnswer(BaseModel):
    """Answer to a `RequestAct`: nothing but `is_new`, or the `failure` with its `code` and `text`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    is_new: bool = False
    failure: Literal["conflict", "absent", "unavailable", "refused", "wire"] | None = None
    code: str = ""
    text: str = ""


RequestActor: TypeAlias = Callable[[RequestAct], Awaitable[RequestActAnswer]]


class RequestApi:
    """Part of a hub for requests: kept in the record of their session, live or not."""

    _live: SessionRegistry
    request_actor: RequestActor | None = None
    """Does what clients at other servers want of requests here; `None` where nobody takes requests."""

    async def has_elsewhere(self, session_id: str) -> bool:
        """Tell whether a living server other than this one has a session. Raises `JournalError`."""
        return False

    async def act_elsewhere(self, session_id: str, act: RequestAct) -> RequestActAnswer | None:
        """Have the server that has a session do something; `None` where there is none but this one.

        Raises `JournalError` where it does not answer, or cannot do it.
        """
        return None

    def follow_requests(self, session_id: str, listener: Callable[[str], object]) -> None:
        """Have `listener` hear of a live session's requests, by their ids; no input is edited there.

        Raises `UnknownSessionError`.
        """
        hosted = self._requesting(session_id)
        hosted.runs_edits = False
        hosted.requests.listeners.add(listener)

    def live_request(self, session_id: str, request_id: str) -> ProtocolRequest | None:
        """A request of a live session, whose input is not masked. Raises `UnknownSessionError`."""
        return self._requesting(session_id).requests.found.get(request_id)

    async def recorded_requests(self, session_id: str) -> Mapping[str, ProtocolRequest]:
        """The requests in a session's record, by id, not masked.

        Raises `SessionNotFound`, and `JournalError` for a record that cannot be read.
        """
        _, events = await self._live.recorded(session_id, whole=True)
        requests = ProtocolRequests()
        for event in events:
            requests.take(event)
        return requests.found

    async def requesting_sessions(self, agent: str, since: datetime) -> list[str]:
        """The sessions of an agent that had requests, and were changed after a time."""
        found = await asyncio.to_thread(self._live.recorded_sessions, agent)
        return [each.id for each in found if each.id.startswith(PREFIX) and each.updated > since]

    async def session_of_request(self, request_id: str, sessions: Sequence[str]) -> str | None:
        """The one of these sessions in whose record a request is made, if any.

        Raises `JournalError` where they cannot be read.
        """
        return await asyncio.to_thread(self._live.session_with_request, request_id, sessions)

    async def note_request(self, session_id: str, event: RequestMade | RequestStep) -> None:
        """Record that a request is made, or goes on; it is durable when this returns.

        Raises `UnknownSessionError`, and `JournalError` when it could not be recorded.
        """
        await self._requesting(session_id).record(event)

    async def settle_unknown(self, session_id: str, call_id: str, why: str) -> None:
        """Record of an allowed call without a result that nobody knows whether it ran.

        Raises `UnknownSessionError`, and `JournalError` when it could not be recorded.
        """
        await self._requesting(session_id).calls.settle_unknown(call_id, why)

    def _requesting(self, session_id: str) -> ExternalSession:
        hosted = self._live.hosted(session_id)
        if not isinstance(hosted, ExternalSession):
            raise UnknownSessionError(f"Session '{session_id}' takes no requests")
        return hosted
