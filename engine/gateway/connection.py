"""One connection: reads requests, has them answered side by side, and never lets one hold up another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel, ValidationError
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from .limits import Bucket, Limits
from .method import Method, ParamsT, ResultT, Said
from .tokens import Identity, TokenError, TokenFile
from .wire import (
    Code,
    Id,
    Payload,
    Request,
    WireError,
    error_frame,
    notice_frame,
    problems,
    read_request,
    result_frame,
)

REVOKED = 1008, "the token is no longer valid"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Handler:
    """How a method is answered; one that `waits` for people takes no place from other requests."""

    params: type[Payload]
    answer: Callable[[Payload], Awaitable[BaseModel]]
    waits: bool = False


class Desk(Protocol):
    """Who answers the requests of a connection."""

    @property
    def handlers(self) -> Mapping[str, Handler]: ...

    async def leave(self) -> None:
        """The connection is gone."""
        ...


def handler(
    method: Method[ParamsT, ResultT],
    answer: Callable[[ParamsT], Awaitable[ResultT]],
    *,
    waits: bool = False,
) -> tuple[str, Handler]:
    """An entry of `Desk.handlers`."""

    async def call(params: Payload) -> BaseModel:
        assert isinstance(params, method.params)
        return await answer(params)

    return method.name, Handler(method.params, call, waits)


class Connection:
    """See the module. `others` are the methods of the other kind of client, which are refused by name."""

    def __init__(
        self,
        socket: ServerConnection,
        identity: Identity,
        limits: Limits,
        tokens: TokenFile,
        others: frozenset[str] = frozenset(),
    ) -> None:
        self.identity = identity
        self._socket = socket
        self._limits = limits
        self._tokens = tokens
        self._others = others
        self._answering: set[Id] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(limits.at_work)

    async def serve(self, desk: Desk) -> None:
        """Answer until the connection ends."""
        bucket = Bucket(self._limits.rate)
        try:
            async for frame in self._socket:
                if pause := bucket.take():
                    await asyncio.sleep(pause)
                await self._take(frame, desk)
        except ConnectionClosed:
            pass
        finally:
            for task in list(self._tasks):
                task.cancel()
            await desk.leave()

    def may_stay(self) -> bool:
        """Whether the token this connection came with is still good, as far as can be told."""
        try:
            return self._tokens.holds(self.identity)
        except TokenError:
            log.exception("The tokens cannot be read: nobody may stay")
            return False

    async def tell(self, what: Said, params: BaseModel) -> None:
        """Say something; waits while the peer does not read. Raises `ConnectionClosed`."""
        await self._socket.send(notice_frame(what.name, params), text=True)

    async def close(self, code: int, reason: str) -> None:
        """End the connection."""
        await self._socket.close(code, reason)

    async def _take(self, frame: str | bytes, desk: Desk) -> None:
        if not self.may_stay():
            await self.close(*REVOKED)
            return
        try:
            request = read_request(frame)
        except WireError as error:
            await self._send(error_frame(None, error))
            return
        if request.id is None:
            await self._send(error_frame(None, WireError(Code.REQUEST, "a request needs an id")))
            return
        if request.id in self._answering:
            busy = WireError(Code.REQUEST, f"request {request.id!r} is still being answered")
            await self._send(error_frame(request.id, busy))
            return
        found = desk.handlers.get(request.method)
        if found is None:
            await self._send(error_frame(request.id, self._no_method(request.method)))
            return
        # A peer that reads no answers, or asks for too much at once, waits in its own socket.
        while len(self._tasks) >= self._limits.at_work + self._limits.calls_per_session:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        if not found.waits:
            await self._places.acquire()
        self._answering.add(request.id)
        task = asyncio.get_running_loop().create_task(self._answer(request.id, request, found))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _no_method(self, name: str) -> WireError:
        if name in self._others:
            return WireError(Code.NOT_ALLOWED, f"'{name}' is not for {self.identity.kind}s' tokens")
        return WireError(Code.METHOD, f"there is no method '{name}'")

    async def _answer(self, request_id: Id, request: Request, found: Handler) -> None:
        try:
            frame = await self._result(request_id, request, found)
            # Whoever has the answer may use the id again.
            self._answering.discard(request_id)
            await self._send(frame)
        finally:
            self._answering.discard(request_id)
            if not found.waits:
                self._places.release()

    async def _result(self, request_id: Id, request: Request, found: Handler) -> bytes:
        try:
            params = found.params.model_validate(request.params)
        except ValidationError as error:
            wrong = WireError(Code.PARAMS, f"{request.method}: {problems(error)}")
            return error_frame(request_id, wrong)
        try:
            return result_frame(request_id, await found.answer(params))
        except WireError as error:
            return error_frame(request_id, error)
        except Exception:
            # What failed inside is not for strangers; nothing was allowed by it.
            log.exception("The answer to '%s' failed", request.method)
            broken = WireError(Code.INTERNAL, f"{request.method} failed in the server; see its log")
            return error_frame(request_id, broken)

    async def _send(self, frame: bytes) -> None:
        try:
            await self._socket.send(frame, text=True)
        except ConnectionClosed:
            log.debug("An answer to '%s' came too late: its connection is gone", self.identity.name)
