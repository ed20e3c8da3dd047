"""One connection: reads requests and answers them concurrently, so that none delays another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError
from websockets.exceptions import ConnectionClosed

from ...core.approvers import Operator, Operators
from ...core.people import same_person
from ...core.rights import Needs, Rights, may, read_only_refusal, refusal
from ...history.errors import JournalError, ServerEnded
from ..protocol.errors import wire_error
from ..protocol.framing import (
    Code,
    Id,
    Payload,
    Request,
    WireError,
    error_frame,
    problems,
    read_request,
    result_frame,
)
from ..protocol.method import Method, ParamsT, ResultT
from ..protocol.tokens import Identity, TokenError, TokenFile
from .limits import Limits, TokenLoad, weight
from .socket import Peer

REVOKED = 1008, "the token is no longer valid"
ELSEWHERE = 1012, "another server owns the sessions; reconnect"
CHANGED = 1012, "the token was changed; reconnect"
"""Close code and reason after a token was changed; on reconnecting the client gets its current rights."""
CLOSING = 5.0
"""Seconds for a peer to complete the closing handshake; then the connection is cut."""
FINISHING = 10.0
"""Seconds to finish the requests that a peer made before its connection was lost."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RequestHandler:
    """Handler of a method; if it `waits` for operators, it does not count as a request in progress.

    A future returned by `answer` is awaited without a task.
    """

    needs: Needs
    params: type[Payload]
    answer: Callable[[Payload], Awaitable[BaseModel]]
    waits: bool = False


class RequestHandlers(Protocol):
    """Handlers of a connection's requests."""

    def handler(self, method: str) -> RequestHandler | None:
        """Return the handler of a method; `None` for a method that this peer may not call."""
        ...

    async def close(self) -> None:
        """Clean up after the connection."""
        ...


def handler(
    method: Method[ParamsT, ResultT],
    answer: Callable[[ParamsT], Awaitable[ResultT]],
    *,
    waits: bool = False,
) -> tuple[str, RequestHandler]:
    """Return a method's name and its handler."""

    def call(params: Payload) -> Awaitable[BaseModel]:
        assert isinstance(params, method.params)
        return answer(params)

    return method.name, RequestHandler(method.needs, method.params, call, waits)


class InForce:
    """Valid tokens; their file is checked at most once in each iteration of the event loop.

    A message sent after a token was revoked or changed is read in a later iteration than the last one
    that saw the old file. `operators` returns the current operators of the configuration, whose roles
    limit what tokens may do.
    """

    def __init__(self, tokens: TokenFile, operators: Callable[[], Operators] = Operators) -> None:
        self._tokens = tokens
        self._operators = operators
        self._identities: dict[str, Identity | None] = {}

    def identity(self, token: str) -> Identity | None:
        """Return the current identity of a token id; `None` if invalid or if the file is unreadable."""
        if token in self._identities:
            return self._identities[token]
        try:
            identity = self._tokens.current(token)
        except TokenError:
            log.exception("The tokens cannot be read: none is valid")
            return None
        if not self._identities:
            asyncio.get_running_loop().call_soon(self._identities.clear)
        identity = None if identity is None else identity.with_role(self._operators())
        self._identities[token] = identity
        return identity

    def person(self, name: str) -> Operator | None:
        """Return the operator of this name by their latest valid login at a provider, if there is one."""
        try:
            tokens = self._tokens.tokens()
        except TokenError:
            log.exception("The tokens cannot be read: nobody is logged in")
            return None
        logins = [each for each in tokens if each.login is not None and same_person(each.name, name)]
        identity = self.identity(logins[-1].id) if logins else None
        return None if identity is None else identity.operator

    def given_up(self, name: str) -> datetime | None:
        """Time at which a holder last gave up an operator's name. Raises `TokenError`."""
        return self._tokens.given_up(name)

    def counts(self, token: str, needed: Rights) -> bool:
        """Return whether an operator's token, given by its id, has the rights `needed`."""
        identity = self.identity(token)
        return identity is not None and may(identity.rights, needed)


class Lease(Protocol):
    """The server's right to act on what it has recorded; see `Journal.is_held`."""

    @property
    def is_held(self) -> bool: ...

    async def until_held(self) -> None: ...


class Connection:
    """One client's connection. `others` are methods of the other kind of client, refused by name.

    Calls are answered only while the server has its `lease`.
    """

    def __init__(
        self,
        socket: Peer,
        identity: Identity,
        limits: Limits,
        tokens: InForce,
        usage: TokenLoad,
        lease: Lease,
        others: frozenset[str] = frozenset(),
    ) -> None:
        self.identity = identity
        self.read_only = False
        self._socket = socket
        self._limits = limits
        self._tokens = tokens
        self.usage = usage
        self._lease = lease
        self._others = others
        self._answering: set[Id] = set()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._calls = 0
        self._working: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(limits.at_work)
        self._ending: asyncio.Task[None] | None = None
        self._unread = 0
        self._stuck_since: float | None = None

    async def serve(self, handlers: RequestHandlers) -> None:
        """Answer until the connection ends; then cancel waiting calls and finish other requests."""
        try:
            async for frame in self._socket:
                if pause := self.usage.bucket.take(weight(frame)):
                    await asyncio.sleep(pause)
                if self._ending is not None:
                    break
                await self._take(frame, handlers)
                del frame  # it may be large, and the next one may come much later
        except ConnectionClosed:
            pass
        finally:
            for task in self._waiting:
                task.cancel()
            await handlers.close()
            if self._working:
                await asyncio.wait(self._working, timeout=FINISHING)
            for task in self._working:
                task.cancel()

    def end(self, code: int, reason: str) -> None:
        """End the connection, even if its peer does not read; further input is ignored."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end(code, reason))

    async def _end(self, code: int, reason: str) -> None:
        try:
            async with asyncio.timeout(CLOSING):
                await self._socket.close(code, reason)
        except (TimeoutError, ConnectionClosed):
            pass
        finally:
            self._socket.transport.abort()

    def cut_if_stuck(self, now: float) -> None:
        """Cut the connection if its peer has read none of the pending output for too long."""
        unread = self._socket.transport.get_write_buffer_size()
        if not unread:
            self._stuck_since = None
        elif self._stuck_since is None or unread < self._unread:
            self._stuck_since = now
        elif now - self._stuck_since > self._limits.stalled:
            log.info("'%s' does not read its messages: connection cut", self.identity.name)
            self._socket.transport.abort()
        self._unread = unread

    def may_stay(self) -> bool:
        """Check that the token's identity is unchanged since this connection opened; otherwise end it."""
        now = self._tokens.identity(self.identity.token)
        if now == self.identity:
            return True
        self.end(*(REVOKED if now is None else CHANGED))
        return False

    def in_force(self, token: str, needed: Rights) -> bool:
        """Return whether an operator's token, given by its id, has the rights `needed`."""
        return self._tokens.counts(token, needed)

    @property
    def rights(self) -> Rights | None:
        """Rights of a console on this connection; `None` for an agent."""
        rights = self.identity.rights
        return "look" if rights is not None and self.read_only else rights

    def check_rights(self, action: str, needed: Needs) -> None:
        """Raise `WireError` if `action` needs another token than this connection's."""
        if may(self.rights, needed):
            return
        identity = self.identity
        message = refusal(action, needed, self.rights, identity.name, identity.role)
        raise WireError(Code.NOT_ALLOWED, read_only_refusal(action) if self.read_only else message)

    async def tell(self, frame: bytes) -> None:
        """Send a frame; wait while the peer does not read. Raises `ConnectionClosed`."""
        if not self._socket.say(frame):
            await self._socket.send(frame, text=True)

    async def _take(self, frame: str | bytes, handlers: RequestHandlers) -> None:
        if not self.may_stay():
            return
        try:
            request = read_request(frame)
        except WireError as error:
            await self._send(error_frame(error.request_id, error))
            return
        problem = self._refusal(request, handlers)
        if problem is not None:
            await self._send(error_frame(request.id, problem))
            return
        assert request.id is not None
        request_handler = handlers.handler(request.method)
        assert request_handler is not None
        try:
            params = request_handler.params.model_validate(request.params)
        except ValidationError as error:
            wrong = WireError(Code.PARAMS, f"{request.method}: {problems(error)}")
            await self._send(error_frame(request.id, wrong))
            return
        self._answering.add(request.id)
        if request_handler.waits:
            self._answer_later(request.id, request.method, params, request_handler)
            return
        # A peer that reads no answers or sends too many requests is left waiting in its own socket.
        await self._places.acquire()
        await self.usage.places.acquire()
        if self._ending is None and self.may_stay():
            task = self._begin(
                self._answer(request.id, request.method, params, request_handler), self._working
            )
            task.add_done_callback(self._give_back)
        else:
            self._give_back()

    def _give_back(self, _: object = None) -> None:
        """Release the slot of a request."""
        self.usage.places.release()
        self._places.release()

    def _wait(self, work: asyncio.Future[Any]) -> None:
        """Count a task as a waiting call until it is done."""
        self._count(1)
        self._waiting.add(work)
        work.add_done_callback(self._stop_waiting)

    def _stop_waiting(self, work: asyncio.Future[Any]) -> None:
        self._waiting.discard(work)
        self._count(-1)

    def _count(self, calls: int) -> None:
        self._calls += calls
        self.usage.calls += calls

    def _begin(
        self, work: Coroutine[None, None, None], tasks: set[asyncio.Task[None]]
    ) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    def _answer_later(
        self, request_id: Id, method: str, params: Payload, request_handler: RequestHandler
    ) -> None:
        """Send the answer of a handler that waits, as soon as it is available."""
        try:
            answer = asyncio.ensure_future(request_handler.answer(params))
        except Exception as error:
            self._refuse(request_id, method, error)
            return
        self._count(1)
        self._waiting.add(answer)
        answer.add_done_callback(partial(self._say_answer, request_id, method))

    def _say_answer(self, request_id: Id, method: str, answer: asyncio.Future[BaseModel]) -> None:
        self._stop_waiting(answer)
        if answer.cancelled():
            self._answering.discard(request_id)
        elif (failure := answer.exception()) is not None:
            self._refuse(request_id, method, failure)
        elif self._lease.is_held:
            self._say(request_id, result_frame(request_id, answer.result()))
        else:
            self._wait(
                asyncio.get_running_loop().create_task(
                    self._say_once_held(request_id, method, answer.result())
                )
            )

    async def _say_once_held(self, request_id: Id, method: str, answer: BaseModel) -> None:
        """Send an answer that came while other servers may have taken over, if they have not."""
        try:
            await self._lease.until_held()
        except JournalError as error:
            self._refuse(request_id, method, error)
        else:
            self._say(request_id, result_frame(request_id, answer))

    def _refuse(self, request_id: Id, method: str, error: BaseException) -> None:
        """Send the error. If another server has the answer, close, so that the client asks there."""
        if isinstance(error, ServerEnded):
            self._answering.discard(request_id)
            self.end(*ELSEWHERE)
        else:
            self._say(request_id, _failed(request_id, method, error))

    def _say(self, request_id: Id, frame: bytes) -> None:
        """Send an answer without a task; if the peer is slow, in a task that counts as waiting."""
        # From here on the client may have the answer and reuse the id.
        self._answering.discard(request_id)
        if not self._socket.say(frame):
            self._wait(asyncio.get_running_loop().create_task(self._send(frame)))

    def _refusal(self, request: Request, handlers: RequestHandlers) -> WireError | None:
        """Return the refusal of a request before its handler runs; `None` if it may run."""
        if request.id is None:
            return WireError(Code.REQUEST, "a request needs an id")
        if request.id in self._answering:
            return WireError(Code.REQUEST, f"request {request.id!r} is still being answered")
        request_handler = handlers.handler(request.method)
        if request_handler is None:
            return self._no_method(request.method)
        try:
            self.check_rights(request.method, request_handler.needs)
        except WireError as error:
            return error
        return self._no_room() if request_handler.waits else None

    def _no_room(self) -> WireError | None:
        """Return the refusal of a further waiting call; `None` below the limits."""
        connection_limit, token_limit = self._limits.calls_per_connection, self._limits.calls_per_token
        if self._calls >= connection_limit:
            whose, limit = "this connection has", connection_limit
        elif self.usage.calls >= token_limit:
            whose, limit = "this token has on all its connections", token_limit
        else:
            return None
        return WireError(
            Code.LIMIT,
            f"{whose} {limit} calls that wait for an answer, which is the limit: ask again when some "
            "are answered, or withdraw some",
            {"limit": limit},
        )

    def _no_method(self, name: str) -> WireError:
        if name in self._others:
            return WireError(Code.NOT_ALLOWED, f"'{name}' is not for {self.identity.kind}s' tokens")
        return WireError(Code.METHOD, f"there is no method '{name}'")

    async def _answer(
        self, request_id: Id, method: str, params: Payload, request_handler: RequestHandler
    ) -> None:
        try:
            try:
                frame = result_frame(request_id, await request_handler.answer(params))
            except ServerEnded:
                self.end(*ELSEWHERE)
                return
            except Exception as error:
                frame = _failed(request_id, method, error)
            # From here on the client may have the answer and reuse the id.
            self._answering.discard(request_id)
            await self._send(frame)
        finally:
            self._answering.discard(request_id)

    async def _send(self, frame: bytes) -> None:
        try:
            await self.tell(frame)
        except ConnectionClosed:
            log.debug("An answer to '%s' came too late: its connection has ended", self.identity.name)


def _failed(request_id: Id, method: str, error: BaseException) -> bytes:
    """Return the error frame for a failed request."""
    if (known_error := wire_error(error)) is not None:
        return error_frame(request_id, known_error)
    # Internal errors are not sent to clients; they allow nothing.
    log.error("The answer to '%s' failed", method, exc_info=error)
    return error_frame(
        request_id, WireError(Code.INTERNAL, f"{method} failed in the server; see its log")
    )
