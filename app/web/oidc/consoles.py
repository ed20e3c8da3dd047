"""Consoles of operators who logged in through a provider, in tabs and on phones.

Each operator's consoles have the operator's own token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import web
from aiohttp.web_routedef import AbstractRouteDef, RouteDef

from ....engine.gateway.client.console import ConsoleClient
from ...sources.deep_link import DeepLink
from ..logins import Login
from ..phone.pages import PhonePages
from ..policy import LOGIN
from ..tabs import Console

MOST_OPEN = 64
"""Maximum number of operators' page sets; a further one closes the least recently used."""


@dataclass(frozen=True, slots=True)
class OperatorConsoles:
    """Consoles for an operator's token: a tab's process, and a client for the page for phones."""

    process: Callable[[DeepLink, str], Console]
    client: Callable[[str], ConsoleClient]


Pages: TypeAlias = Callable[[Callable[[], ConsoleClient]], PhonePages]
_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PhonesOfLogins:
    """Pages for phones that `make` creates on a console: the front's `own`, and one set per operator.

    `connect` returns a console for an operator's token, `token` that of a login.
    """

    def __init__(
        self,
        make: Pages,
        own: Callable[[], ConsoleClient],
        connect: Callable[[str], ConsoleClient],
        token: Callable[[Login], str | None],
    ) -> None:
        self._make = make
        self._connect = connect
        self._token = token
        self._own = make(own)
        self._of_tokens: dict[str, PhonePages] = {}
        self._over: set[asyncio.Task[None]] = set()

    def routes(self) -> list[AbstractRouteDef]:
        """Return the routes; each leads to the pages of the request's login."""
        found: list[AbstractRouteDef] = []
        for route in self._own.routes():
            assert isinstance(route, RouteDef)
            found.append(
                web.route(route.method, route.path, self._led(route.handler.__name__), **route.kwargs)
            )
        return found

    def proves(self, request: web.Request) -> bool:
        """Return whether a request is from a tab that has proved its login's key."""
        return self._pages(request).proves(request)

    def forget(self, token: str) -> None:
        """Close the pages of a token whose login has ended."""
        pages = self._of_tokens.pop(token, None)
        if pages is not None:
            self._end(pages)

    async def end_streams(self) -> None:
        """End the event streams."""
        await asyncio.gather(*(each.end_streams() for each in self._every))

    async def close(self) -> None:
        """End the connections to the hub."""
        await asyncio.gather(*(each.close() for each in self._every), *self._over)

    @property
    def _every(self) -> list[PhonePages]:
        return [self._own, *self._of_tokens.values()]

    def _led(self, name: str) -> _Handler:
        async def handler(request: web.Request) -> web.StreamResponse:
            answer: Coroutine[None, None, web.StreamResponse] = getattr(self._pages(request), name)(
                request
            )
            return await answer

        return handler

    def _pages(self, request: web.Request) -> PhonePages:
        login = request.get(LOGIN)
        if login is None or not login.operator:
            return self._own
        token = self._token(login)
        if token is None:  # Fail instead of falling back to the front's own rights.
            raise web.HTTPUnauthorized(text="This login has ended: log in again\n")
        pages = self._of_tokens.pop(token, None) or self._make(lambda: self._connect(token))
        self._of_tokens[token] = pages
        while len(self._of_tokens) > MOST_OPEN:
            self._end(self._of_tokens.pop(next(iter(self._of_tokens))))
        return pages

    def _end(self, pages: PhonePages) -> None:
        async def end() -> None:
            await pages.end_streams()
            await pages.close()

        task = asyncio.get_running_loop().create_task(end())
        self._over.add(task)
        task.add_done_callback(self._over.discard)
