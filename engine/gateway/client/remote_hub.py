"""The operations of the hub's API, called on a server as they are declared.

The server identifies operators by their token: `by` is for local hubs.
"""

from __future__ import annotations

from abc import abstractmethod, update_abstractmethods
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import cast

from pydantic import BaseModel, RootModel

from ...history.model.events import JournalEvent
from ...hub.api import AgentStarter, HubApi, Outcome
from ...hub.operations import Operation
from ..protocol.console_methods import (
    END_JOB,
    EVENTS,
    NEXT_PART,
    OPERATIONS,
    EventPage,
    Job,
    JobStarted,
    method_of,
    params_of,
)
from ..protocol.framing import Nothing, Payload
from ..protocol.method import Method, ParamsT, ResultT
from .connection import GatewayError, Link, RequestFailedError
from .errors import as_hub_error

PATIENCE = 3.0
"""Seconds for which an operator's request waits for a lost server before it is reported as failed."""


class RemoteHub(HubApi, AgentStarter):
    """Hub on a server. Declared operations are added below; a subclass has those of its mirror."""

    link: Link
    trouble: str | None
    """Fault of the connection while it is lost."""

    @abstractmethod
    async def _list(self) -> None:
        """Update the list of live sessions."""

    @abstractmethod
    def _start(self, work: Coroutine[None, None, None]) -> object:
        """Start a task that ends with the connection."""

    async def _ask(
        self, method: Method[ParamsT, ResultT], params: ParamsT, *, may_repeat: bool = True
    ) -> ResultT:
        """Send a request; raise the errors of a local hub, and `GatewayError` for the connection."""
        try:
            return await self.link.request(method, params, may_repeat=may_repeat, patience=PATIENCE)
        except RequestFailedError as error:
            refusal = as_hub_error(error)
            refusal.unanswered = error.unanswered
            raise refusal from error

    async def _call(self, operation: Operation, params: Payload) -> BaseModel:
        """Call an operation; after a change, update the mirror, so that any later read shows it."""
        result = await self._ask(method_of(operation), params, may_repeat=operation.may_repeat)
        if operation.changes:
            await self._list()
        return result

    async def _act(
        self, operation: Operation, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> BaseModel:
        """Call an operation with an outcome; a failed connection is reported as an outcome, too."""
        done, result = operation.done, method_of(operation).result
        assert issubclass(result, Outcome)
        try:
            return await self._call(operation, params_of(operation, *args, **kwargs))
        except (GatewayError, ValueError) as error:
            if isinstance(error, GatewayError) and error.unanswered:
                message = f"Perhaps not {done}: {error}. Look before you try again"
                return result(ok=False, message=message)
            return result(ok=False, message=f"Not {done}: {error}")

    async def _parts(
        self, operation: Operation, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> AsyncGenerator[object, None]:
        """Start a job and request its parts one after the other; no part is requested twice."""
        job_start = await self._call(operation, params_of(operation, *args, **kwargs))
        assert isinstance(job_start, JobStarted)
        job, part = Job(job=job_start.job), None
        is_finished = False
        try:
            while not is_finished:
                part = (await self._ask(NEXT_PART, job, may_repeat=False)).part
                is_finished = part is None
                if part is not None:
                    yield part
        finally:
            if not is_finished:
                # A reader that stops early does not wait for the server.
                self._start(self._end_job(job))

    async def _end_job(self, job: Job) -> None:
        with suppress(GatewayError, LookupError):
            await self._ask(END_JOB, job, may_repeat=False)

    # Written by hand: recorded events arrive in pages

    async def recorded(self, session_id: str) -> Sequence[JournalEvent]:
        return [event async for page in self._pages(session_id) for event in page]

    async def _pages(self, session_id: str) -> AsyncIterator[tuple[JournalEvent, ...]]:
        after, more = 0, True
        while more:
            page = await self._ask(EVENTS, EventPage(session=session_id, after=after))
            session_id, more = page.session, page.more
            yield page.events
            if page.events:
                after = page.events[-1].seq


def _remote(operation: Operation) -> Callable[..., object]:
    """Method that calls an operation on the server."""

    def run(self: RemoteHub, *args: object, **kwargs: object) -> AsyncGenerator[object, None]:
        return self._parts(operation, args, kwargs)  # pyright: ignore[reportPrivateUsage]

    async def call(self: RemoteHub, *args: object, **kwargs: object) -> object:
        if operation.done:
            return await self._act(operation, args, kwargs)  # pyright: ignore[reportPrivateUsage]
        result = await self._call(  # pyright: ignore[reportPrivateUsage]
            operation, params_of(operation, *args, **kwargs)
        )
        if isinstance(result, Nothing):
            return None
        return cast("RootModel[object]", result).root if isinstance(result, RootModel) else result

    method = run if operation.is_job else call
    # Without the function's attributes, which would make the method abstract.
    return wraps(operation.function, updated=())(method)


for _operation in OPERATIONS.values():
    setattr(RemoteHub, _operation.name, _remote(_operation))
update_abstractmethods(RemoteHub)
