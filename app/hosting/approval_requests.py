"""Agent Approval Protocol over HTTP: admission of clients, requests and answers.

Clients are agents with their tokens. Every refusal is an error of the protocol, which no client can
mistake for an approval.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import Final
from uuid import UUID, uuid4

from aiohttp import web
from pydantic import JsonValue

from ...engine.core.durations import parse_time
from ...engine.gateway.aap.provider import (
    ApprovalProvider,
    ProviderUnavailableError,
    RequestConflictError,
    RequestNotFoundError,
)
from ...engine.gateway.aap.wire import CreateRequest, InvalidMessageError, Outcome, read, shown
from ...engine.gateway.protocol.address import Address
from ...engine.gateway.protocol.framing import Code, WireError
from ...engine.gateway.protocol.tokens import Identity, TokenFile
from ...engine.gateway.server.admission import Guard, Refused
from ...engine.gateway.server.limits import Bucket, Failures, Limits, weight
from ...engine.history.errors import JournalError
from ...engine.hub.hub import CallRefused, Hub, UnknownSessionError
from .http_connections import admit

WAITS_PER_TOKEN: Final = 256
"""Maximum number of pending requests of one token that wait for the end of an approval request."""
LONGEST_KEY: Final = 200
TYPES: Final = {
    HTTPStatus.BAD_REQUEST: "invalid_request",
    HTTPStatus.UNAUTHORIZED: "authentication",
    HTTPStatus.FORBIDDEN: "authorization",
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.REQUEST_TIMEOUT: "invalid_request",
    HTTPStatus.CONFLICT: "conflict",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "invalid_request",
    HTTPStatus.MISDIRECTED_REQUEST: "authorization",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit",
    HTTPStatus.SERVICE_UNAVAILABLE: "dependency",
}
_DURATION = re.compile(r"[1-9][0-9]{0,7}[smh]", re.ASCII)
_STATUS_OF = {
    Code.LIMIT: HTTPStatus.TOO_MANY_REQUESTS,
    Code.UNKNOWN: HTTPStatus.NOT_FOUND,
    Code.PARAMS: HTTPStatus.BAD_REQUEST,
    Code.CALL_ID_USED: HTTPStatus.CONFLICT,
}

log = logging.getLogger(__name__)


class _HttpError(Exception):
    def __init__(self, status: HTTPStatus, code: str, text: str, wait: float = 0.0) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.wait = wait


class ApprovalRequests:
    """The paths of a provider; see `HttpPart`."""

    title = "approval requests"
    path = ""

    def __init__(
        self,
        provider: ApprovalProvider,
        hub: Hub,
        tokens: TokenFile,
        limits: Limits,
        hosts: Iterable[str] = (),
    ) -> None:
        self._provider = provider
        self._lease = hub.lease
        self._limits = limits
        self._hosts = frozenset(host.lower() for host in hosts)
        self._guard = Guard(
            tokens, Failures(limits.failures), self._hosts, operators=lambda: hub.operators
        )
        self._buckets: dict[str, Bucket] = {}
        self._waits: Counter[str] = Counter()

    def listens_at(self, address: Address) -> None:
        """See `HttpPart`. The address determines the host names under which requests are accepted."""
        names = {str(address), f"localhost:{address.port}"} if address.is_local else {str(address)}
        everywhere = address.host in ("0.0.0.0", "::")
        self._guard = replace(self._guard, hosts=self._hosts | names, any_address=everywhere)

    def routes(self) -> list[web.RouteDef]:
        """See `HttpPart`."""
        one = "/v1/requests/{id}"
        return [
            web.post("/v1/requests", self._answering(self._create)),
            web.get(one, self._answering(self._show), allow_head=False),
            web.delete(one, self._answering(self._cancel)),
            web.post(f"{one}/consume", self._answering(self._consume)),
            web.post(f"{one}/outcome", self._answering(self._report)),
            *(
                web.route("*", path, self._answering(_no_instances))
                for path in ("/v1/instances", "/v1/instances/{id}")
            ),
        ]

    # Operations

    async def _create(self, request: web.Request, identity: Identity) -> web.Response:
        message = read(CreateRequest, await self._body(request, identity))
        created, is_new = await self._provider.create(identity, _key(request), message)
        return _answer(HTTPStatus.CREATED if is_new else HTTPStatus.OK, shown(created))

    async def _show(self, request: web.Request, identity: Identity) -> web.Response:
        wait = _wait(request)
        if self._waits[identity.token] >= WAITS_PER_TOKEN:
            raise _HttpError(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too_many_waits",
                "Too many requests are waiting already",
                1.0,
            )
        self._waits[identity.token] += 1
        try:
            found = await self._provider.get(identity, _id(request), wait)
        finally:
            self._waits[identity.token] -= 1
        return _answer(HTTPStatus.OK, shown(found))

    async def _cancel(self, request: web.Request, identity: Identity) -> web.Response:
        return _answer(HTTPStatus.OK, shown(await self._provider.cancel(identity, _id(request))))

    async def _consume(self, request: web.Request, identity: Identity) -> web.Response:
        used = await self._provider.consume(identity, _id(request), _key(request))
        return _answer(HTTPStatus.OK, shown(used))

    async def _report(self, request: web.Request, identity: Identity) -> web.Response:
        outcome = read(Outcome, await self._body(request, identity))
        found = await self._provider.report(identity, _id(request), outcome)
        return _answer(HTTPStatus.OK, shown(found))

    # Admission and errors

    def _answering(
        self, handler: Callable[[web.Request, Identity], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        """Wrap a handler: admit known clients only, and turn errors into responses."""

        async def answer(request: web.Request) -> web.Response:
            try:
                response = await handler(request, self._admitted(request))
                await self._lease.until_held()
            except _HttpError as error:
                response = _error(error.status, error.code, str(error), error.wait)
            except InvalidMessageError as error:
                response = _error(HTTPStatus.BAD_REQUEST, "invalid_request", str(error))
            except RequestNotFoundError as error:
                response = _error(HTTPStatus.NOT_FOUND, "not_found", str(error))
            except RequestConflictError as error:
                response = _error(HTTPStatus.CONFLICT, error.code, str(error))
            except WireError as error:
                status = _STATUS_OF.get(Code(error.code), HTTPStatus.SERVICE_UNAVAILABLE)
                response = _error(status, Code(error.code).name.lower(), str(error), 1.0)
            except CallRefused as error:
                response = _error(HTTPStatus.CONFLICT, "refused", str(error))
            except (ProviderUnavailableError, JournalError, UnknownSessionError) as error:
                log.warning("a request could not be served: %s", error)
                response = _error(
                    HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", "This cannot be done now", 1.0
                )
            except web.HTTPRequestEntityTooLarge:
                response = _error(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    "too_large",
                    f"At most {self._limits.frame} bytes are read",
                )
            except (web.HTTPException, asyncio.CancelledError):
                raise
            except Exception:
                # A client must get an error, never a response that could be mistaken for an answer.
                log.exception("a request failed")
                response = _error(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "The server failed")
            return response

        return answer

    def _admitted(self, request: web.Request) -> Identity:
        authorization = request.headers.getall("Authorization", [])
        scheme, _, secret = (authorization[0] if len(authorization) == 1 else "").partition(" ")
        found = self._guard.identify(
            "agent",
            "requests",
            host=request.headers.get("Host"),
            origin=request.headers.get("Origin"),
            secret=secret.strip() if scheme.lower() == "bearer" else None,
            address=request.remote or "",
        )
        if isinstance(found, Refused):
            raise _HttpError(found.status, "refused", found.why)
        admit(request)
        self._charge(found, 1.0)
        return found

    def _charge(self, identity: Identity, amount: float) -> None:
        bucket = self._buckets.setdefault(identity.token, Bucket(self._limits.rate))
        if (wait := bucket.take(amount)) > 1.0:
            raise _HttpError(HTTPStatus.TOO_MANY_REQUESTS, "too_fast", "Too much at once", wait)

    async def _body(self, request: web.Request, identity: Identity) -> bytes:
        try:
            async with asyncio.timeout(self._limits.body):
                body = await request.read()
        except TimeoutError as error:
            raise _HttpError(
                HTTPStatus.REQUEST_TIMEOUT,
                "too_slow",
                f"The body did not arrive within {self._limits.body:g} s",
            ) from error
        self._charge(identity, weight(body.decode("latin-1")))
        return body


async def _no_instances(_request: web.Request, _identity: Identity) -> web.Response:
    return _error(
        HTTPStatus.FORBIDDEN,
        "provisioned_elsewhere",
        "Instances are tokens here: interlock token new agent NAME, and [gateway.webhooks.NAME]",
    )


def _id(request: web.Request) -> str:
    try:
        return str(UUID(request.match_info["id"]))
    except ValueError as error:
        raise RequestNotFoundError from error


def _key(request: web.Request) -> str:
    keys = request.headers.getall("Idempotency-Key", [])
    # Non-ASCII bytes decode to surrogates, which cannot be hashed.
    if len(keys) != 1 or not 0 < len(keys[0]) <= LONGEST_KEY or not keys[0].isascii():
        raise _HttpError(
            HTTPStatus.BAD_REQUEST,
            "missing_idempotency_key",
            f"Expected one Idempotency-Key of at most {LONGEST_KEY} ASCII characters",
        )
    return keys[0]


def _wait(request: web.Request) -> float:
    text = request.query.get("wait")
    if text is None:
        return 0.0
    seconds = parse_time(text) if _DURATION.fullmatch(text) else None
    if seconds is None:
        raise _HttpError(HTTPStatus.BAD_REQUEST, "invalid_wait", "Expected a wait such as 30s")
    return float(seconds)


def _answer(status: HTTPStatus, content: dict[str, JsonValue]) -> web.Response:
    headers = {"X-Request-ID": str(uuid4()), "Cache-Control": "no-store"}
    return web.json_response(content, status=status, headers=headers)


def _error(status: HTTPStatus, code: str, text: str, wait: float = 0.0) -> web.Response:
    exchange = str(uuid4())
    error: dict[str, JsonValue] = {
        "type": TYPES.get(status, "internal"),
        "code": code,
        "message": text,
        "request_id": exchange,
    }
    response = web.json_response({"error": error}, status=status)
    response.headers.update({"X-Request-ID": exchange, "Cache-Control": "no-store"})
    if wait and status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        response.headers["Retry-After"] = str(math.ceil(wait))
    return response
