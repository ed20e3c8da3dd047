"""A client's connection: requests and answers, and reconnecting after a loss."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import ssl
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import PydanticSerializationError
from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from ...core.sanitize import visible
from ..protocol.address import addressed, each_url
from ..protocol.agent_methods import HELLO, Hello, Welcome
from ..protocol.framing import Code, Notice, Response, WireError, problems, read_incoming, request_frame
from ..protocol.log import socket_log
from ..protocol.method import Method, ParamsT, ResultT
from ..protocol.server_proof import LONGEST, ProofError, ProofRequest
from ..protocol.silence import break_when_silent
from ..protocol.tokens import TokenError, check_secret
from ..server.admission import SUBPROTOCOL

VERSIONS = (1,)
"""Protocol versions that this client supports, best first."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Minimum and maximum seconds between two attempts to connect."""
FRAME = 64 << 20
"""Size of the largest answer that is read, in bytes: a server is trusted more than its clients."""
GREETING = 15.0
"""Seconds to wait for a server's greeting."""
NEXT_SERVER = 1.0
"""Seconds without an answer from one of several servers after which the next one is tried in parallel."""
CLOSED = "it closed the connection; wss:// needs a server with --certificate, ws:// one without"
CLOSING = 5.0
"""Seconds for a server to complete the closing handshake."""
_PASSING = (Code.INTERNAL, Code.UNRECORDED, Code.LIMIT)
"""Codes of temporary refusals, which do not mean that the client is not admitted."""

log = logging.getLogger(__name__)
_socket_log = socket_log(__name__)


class GatewayError(Exception):
    """An error of the connection or the server; nothing may run because of it.

    `unanswered` is true if the request was sent and a connection was lost before its answer, so that it
    may have been carried out.
    """

    unanswered = False


class UnreachableError(GatewayError):
    """There is no connection, or it was lost before the answer arrived."""

    def __init__(self, message: str, *, unanswered: bool = False) -> None:
        super().__init__(message)
        self.unanswered = unanswered


class NotAdmittedError(GatewayError):
    """The server does not admit this client: another token or version is needed."""


class RequestFailedError(GatewayError):
    """The server refused a request; `code` is one of `protocol.framing.Code`."""

    def __init__(self, code: int, message: str, data: Mapping[str, JsonValue] | None = None) -> None:
        # Not by `super`: a subclass may also derive from an error that a hub raises.
        Exception.__init__(self, message)
        self.code = code
        self.data = data or {}


@contextmanager
def checked(method: Method[Any, Any]) -> Generator[None, None, None]:
    """Raise `RequestFailedError` for invalid parameters of a request, which is then not sent."""
    try:
        yield
    except ValidationError as error:
        raise _unsendable(method.name, problems(error)) from error


def _unsendable(method: str, problem: str) -> RequestFailedError:
    message = f"{method} was not sent: {problem}. Correct it and try again; see docs/protocol.md"
    return RequestFailedError(Code.PARAMS, message)


def _frame(method: str, params: BaseModel, number: int) -> bytes:
    """Encode a request. Raises `RequestFailedError` for texts that are not Unicode."""
    try:
        frame = request_frame(method, params, number)
    except PydanticSerializationError as error:
        where = lone_surrogate(params.model_dump(exclude_unset=True, by_alias=True)) or str(error)
        raise _unsendable(method, where) from error
    # In names of objects a lone surrogate would be replaced, and another name would be approved.
    if _REPLACED in frame:
        where = lone_surrogate(params.model_dump(exclude_unset=True, by_alias=True))
        if where is not None:
            raise _unsendable(method, where)
    return frame


_REPLACED = "\N{REPLACEMENT CHARACTER}".encode()


def lone_surrogate(value: object, place: str = "") -> str | None:
    """Describe the first text within a value that has a lone surrogate; `None` if there is none."""
    match value:
        case str() if not _is_unicode(value):
            return f"{place or 'the text'} has a lone surrogate, which is not valid Unicode"
        case Mapping():
            for name, element in cast("Mapping[str, object]", value).items():
                inside = f"{place}.{visible(name)}" if place else visible(name)
                if not _is_unicode(name):
                    return f"the name {inside} has a lone surrogate, which is not valid Unicode"
                if (problem := lone_surrogate(element, inside)) is not None:
                    return problem
        case list() | tuple():
            for number, element in enumerate(cast("Sequence[object]", value)):
                if (problem := lone_surrogate(element, f"{place}.{number}")) is not None:
                    return problem
        case _:
            pass
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Link:
    """One client's connection to a server at `url`; see `address.server_url` for its forms.

    With several URLs, of servers that share a database, the next one is tried if one is unreachable, does
    not answer soon, or answers that it does not own a session at the moment.

    `on_notice` is called with the server's notices. A lost connection is reopened by the next request;
    `on_connected` then sends, with `ask`, what must precede other requests. A request that was in
    progress when the connection was lost raises `UnreachableError`, or is repeated if it `may_repeat`.
    `read_token` reads a token that may have been rotated again for each connection.

    Raises `TokenError` for an invalid token.
    """

    def __init__(
        self,
        url: str,
        token: str,
        path: Literal["/agent", "/console"],
        *,
        name: str = "",
        tls: ssl.SSLContext | None = None,
        on_notice: Callable[[Notice], None] | None = None,
        on_connected: Callable[[], Awaitable[None]] | None = None,
        on_lost: Callable[[], None] | None = None,
        read_token: Callable[[], str] | None = None,
        read_only: bool = False,
    ) -> None:
        check_secret(token, "the token")
        self._urls = [addressed(each) for each in each_url(url)]
        self.welcome: Welcome | None = None
        self._token = token
        self._read_token = read_token
        self._read_only = read_only
        self._path = path
        self._name = name
        secure = any(each.startswith("wss:") for each in self._urls)
        self._tls = (tls or ssl.create_default_context()) if secure else None
        self._on_notice = on_notice
        self._on_connected = on_connected
        self._on_lost = on_lost
        self._socket: ClientConnection | None = None
        self._greeted: ClientConnection | None = None
        self._reading: asyncio.Task[None] | None = None
        self._requests: dict[int, asyncio.Future[Response]] = {}
        self._number = 0
        self._connecting = asyncio.Lock()
        self._closed = False

    @property
    def url(self) -> str:
        """The URL that is connected to, or is tried next."""
        return self._urls[0]

    @property
    def has_others(self) -> bool:
        """True if there are several URLs."""
        return len(self._urls) > 1

    async def open(self, patience: float = 0.0) -> Welcome:
        """Connect, retrying for `patience` seconds. Raises the errors of `request`."""
        async with self._connecting:
            if self._socket is None:
                await self._connect_patiently(patience)
        assert self.welcome is not None
        return self.welcome

    async def close(self) -> None:
        """Close the connection; unanswered requests raise `UnreachableError`."""
        self._closed = True
        if self._socket is not None:
            await self._drop(self._socket)
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)

    async def request(
        self,
        method: Method[ParamsT, ResultT],
        params: ParamsT,
        *,
        may_repeat: bool = False,
        patience: float = 0.0,
    ) -> ResultT:
        """Send a request and return the answer.

        Raises `RequestFailedError`, also for a request that cannot be sent, `UnreachableError` and
        `NotAdmittedError`.
        """
        pause, unanswered = 0.0, False
        while True:
            is_open = False
            try:
                await self.open(patience)
                is_open = True
                return await self.ask(method, params)
            except GatewayError as error:
                unanswered = error.unanswered = unanswered or error.unanswered
                is_lost = is_open and isinstance(error, UnreachableError)
                if not is_lost or not may_repeat or self._closed:
                    raise
            # The first retry is immediate; later ones spare a server that accepts and drops connections.
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, pause * 2))

    async def ask(self, method: Method[ParamsT, ResultT], params: ParamsT) -> ResultT:
        """Send a request on the open connection. Raises `RequestFailedError` and `UnreachableError`."""
        response = await self._exchange(method.name, params)
        try:
            return method.result.model_validate(response.result)
        except ValidationError as error:
            raise GatewayError(f"{method.name}: an invalid answer: {problems(error)}") from error

    async def _exchange(self, method: str, params: BaseModel) -> Response:
        socket = self._socket
        if socket is None:
            raise UnreachableError(f"There is no connection to {self.url}")
        self._number += 1
        number = self._number
        frame = _frame(method, params, number)
        if self.welcome is not None and len(frame) > self.welcome.frame:
            raise RequestFailedError(
                Code.LIMIT,
                f"{method}: {len(frame)} bytes, and the server accepts {self.welcome.frame} at most",
            )
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        waiting = self._requests
        waiting[number] = answer
        try:
            try:
                await socket.send(frame, text=True)
            except ConnectionClosed as error:
                lost = f"The connection to {self.url} was lost"
                raise UnreachableError(lost, unanswered=True) from error
            response = await answer
        finally:
            waiting.pop(number, None)
            if not answer.cancel() and not answer.cancelled():
                answer.exception()  # a connection lost while the request was sent has already raised
        if response.error is not None:
            raise RequestFailedError(response.error.code, response.error.message, response.error.data)
        return response

    # Connecting

    async def _connect_patiently(self, patience: float) -> None:
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + patience, FIRST_PAUSE
        tried_urls: set[str] = set()
        while True:
            try:
                return await self._connect(tried_urls)
            except UnreachableError:
                if not self._closed and not tried_urls.issuperset(self._urls):
                    continue
                tried_urls.clear()
                if self._closed or loop.time() + pause > until:
                    raise
            except NotAdmittedError:
                # It may be admitted later, if it was before: another program may be listening there now.
                pause = LONGEST_PAUSE
                if self.welcome is None or self._closed or loop.time() + pause > until:
                    raise
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(LONGEST_PAUSE, pause * 2)

    async def _connect(self, tried: set[str]) -> None:
        """Connect to one of the servers that are not in `tried`, and add those that were tried."""
        if self._closed:
            raise UnreachableError(f"The connection to {self.url} was closed")
        socket = await self._dial_first(tried)
        self._socket, self._requests = socket, {}
        self._reading = asyncio.get_running_loop().create_task(self._read(socket, self._requests))
        try:
            hello = Hello(versions=VERSIONS, client=self._name)
            if self._read_only:
                hello = Hello(versions=VERSIONS, client=self._name, read_only=True)
            async with asyncio.timeout(GREETING):
                response = await self._exchange(HELLO, hello)
            self.welcome = Welcome.model_validate(response.result)
            if self._on_connected is not None:
                await self._on_connected()
            if self._closed or self._socket is not socket:
                raise UnreachableError(f"The connection to {self.url} was closed")
            self._greeted = socket
        except TimeoutError as error:
            await self._drop(socket)
            raise UnreachableError(f"{self.url} accepts connections but sends no greeting") from error
        except (RequestFailedError, ValidationError) as error:
            await self._drop(socket)
            passing = isinstance(error, RequestFailedError) and error.code in _PASSING
            kind = UnreachableError if passing else NotAdmittedError
            raise kind(f"{self.url}: {error}") from error
        except BaseException:
            await self._drop(socket)
            raise

    async def _dial_first(self, tried: set[str]) -> ClientConnection:
        """Return the connection of the first server that accepts it, and make its URL the first one.

        Each server gets `NEXT_SERVER` seconds before the next one is tried in parallel, because a machine
        that is down never answers. If a server does not admit this client, no further one is tried.
        """
        if self._read_token is not None:
            with suppress(TokenError):
                self._token = self._read_token()
        untried_urls = [each for each in self._urls if each not in tried]
        dialing: dict[asyncio.Task[ClientConnection], str] = {}
        failure: GatewayError = UnreachableError(f"No Interlock server answers at {self.url}")
        try:
            while untried_urls or dialing:
                if untried_urls:
                    url = untried_urls.pop(0)
                    dialing[asyncio.ensure_future(self._dial(url))] = url
                pause = NEXT_SERVER if untried_urls else None
                done, _ = await asyncio.wait(dialing, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                for task in [each for each in dialing if each in done]:
                    url = dialing[task]
                    tried.add(url)
                    try:
                        connection = task.result()
                    except UnreachableError as error:
                        failure = failure if isinstance(failure, NotAdmittedError) else error
                        continue
                    except NotAdmittedError as error:
                        failure = error
                        untried_urls.clear()
                        continue
                    finally:
                        del dialing[task]
                    first = self._urls.index(url)
                    self._urls = [*self._urls[first:], *self._urls[:first]]
                    return connection
        finally:
            for task in dialing:
                task.cancel()
            for other in await asyncio.gather(*dialing, return_exceptions=True):
                if not isinstance(other, BaseException):
                    other.transport.abort()
        raise failure

    async def _dial(self, url: str) -> ClientConnection:
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            if url.startswith("ws:"):
                await ask_for_proof(url, self._token)
            if url.startswith("unix:"):
                check_owner(Path(url[5:]))
                return await unix_connect(
                    url[5:],
                    uri=f"ws://localhost{self._path}",
                    additional_headers=headers,
                    subprotocols=[SUBPROTOCOL],
                    compression=None,
                    max_size=FRAME,
                    user_agent_header=None,
                    logger=_socket_log,
                )
            connection = await connect(
                url + self._path,
                ssl=self._tls if url.startswith("wss:") else None,
                additional_headers=headers,
                subprotocols=[SUBPROTOCOL],
                compression=None,
                max_size=FRAME,
                user_agent_header=None,
                proxy=None,
                logger=_socket_log,
            )
        except InvalidStatus as error:
            why = (error.response.body or b"").decode("utf-8", "replace").strip()
            message = f"{url}: {why or error}"
            if error.response.status_code in (429, 503):
                raise UnreachableError(message) from error
            raise NotAdmittedError(message) from error
        except ssl.SSLCertVerificationError as error:
            raise NotAdmittedError(
                f"{url}: its certificate is not trusted ({error.verify_message}); name the one that "
                "vouches for it in INTERLOCK_CA"
            ) from error
        except (OSError, TimeoutError, InvalidHandshake) as error:
            silent = "it does not answer in time"
            cause = str(error) or (silent if isinstance(error, TimeoutError) else CLOSED)
            raise UnreachableError(f"No Interlock server answers at {url}: {cause}") from error
        break_when_silent(connection.transport.get_extra_info("socket"))
        return connection

    async def _drop(self, socket: ClientConnection) -> None:
        try:
            with suppress(Exception):
                async with asyncio.timeout(CLOSING):
                    await socket.close()
        finally:
            socket.transport.abort()

    async def _read(self, socket: ClientConnection, waiting: dict[int, asyncio.Future[Response]]) -> None:
        """Dispatch incoming frames until the connection ends."""
        try:
            async for frame in socket:
                self._take(read_incoming(frame), waiting)
        except (ConnectionClosed, WireError) as error:
            log.debug("the connection to %s ended: %s", self.url, error)
        finally:
            if self._socket is socket:
                self._socket = None
            lost = f"The connection to {self.url} was lost"
            for answer in waiting.values():
                if not answer.done():
                    answer.set_exception(UnreachableError(lost, unanswered=True))
            await self._drop(socket)
            if self._greeted is socket:
                self._greeted = None
                if self._on_lost is not None:
                    self._on_lost()

    def _take(self, message: Response | Notice, waiting: dict[int, asyncio.Future[Response]]) -> None:
        if isinstance(message, Notice):
            if self._on_notice is not None:
                try:
                    self._on_notice(message)
                except ValidationError:
                    log.exception("The server sent an invalid notice")
            return
        if message.id is None and message.error is not None:
            # The server could not read a request and cannot say which one, so all of them fail.
            answers = [*waiting.values()]
        else:
            answer = waiting.get(message.id) if isinstance(message.id, int) else None
            answers = [] if answer is None else [answer]
        for pending in answers:
            if not pending.done():
                pending.set_result(message)


async def ask_for_proof(url: str, token: str) -> None:
    """Make the server at a URL prove that it knows the token, before the token is sent unencrypted.

    Raises `OSError`, `UnreachableError` and `NotAdmittedError`.
    """
    parts = urlsplit(url)
    request = ProofRequest(token, parts.netloc)
    async with asyncio.timeout(GREETING):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        try:
            writer.write(request.text)
            answer = b""
            while len(answer) < LONGEST and (part := await reader.read(LONGEST)):
                answer += part
        finally:
            writer.transport.abort()
    try:
        request.check(answer)
    except ProofError as error:
        kind = UnreachableError if error.later else NotAdmittedError
        raise kind(f"{url}: {error}") from error


def check_owner(path: Path) -> None:
    """Check that a socket belongs to this user: another user would receive the token.

    Raises `OSError` and `NotAdmittedError`.
    """
    owner = path.stat().st_uid
    if owner not in (os.geteuid(), 0):
        raise NotAdmittedError(
            f"unix:{path}: the socket belongs to another user, who would learn the token. Let the "
            "server listen in a directory of your own"
        )
