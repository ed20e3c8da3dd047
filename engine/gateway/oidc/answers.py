"""Limits on a provider's answers: the time they may take, and the bytes that are read.

A provider that is slow or sends too much delays only its own logins and does not exhaust memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import httpx2

TIMEOUT: Final = 4.0
"""Seconds for a whole answer of the provider; a login at a server is answered within ten seconds."""
MAX_ANSWER: Final = 1 << 20
"""Maximum size of an answer, in bytes."""
HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity"}


def bounding_hook() -> Callable[[httpx2.Response], Awaitable[None]]:
    """Return a hook for a client's responses that reads at most `MAX_ANSWER` bytes of each.

    A longer answer raises `httpx2.HTTPError`, and so does a compressed one, whose size is unknown
    beforehand.
    """
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, whole: httpx2.AsyncByteStream) -> None:
            self._whole = whole

        async def __aiter__(self) -> AsyncIterator[bytes]:
            remaining = MAX_ANSWER
            async for piece in self._whole:
                remaining -= len(piece)
                if remaining < 0:
                    raise httpx2.HTTPError(f"the answer has more than {MAX_ANSWER:,} bytes")
                yield piece

        async def aclose(self) -> None:
            await self._whole.aclose()

    async def bound(response: httpx2.Response) -> None:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise httpx2.HTTPError("the answer is compressed, which was not asked for")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = Bounded(response.stream)

    return bound


@asynccontextmanager
async def in_time() -> AsyncGenerator[None, None]:
    """Wait for one answer. Raises `httpx2.HTTPError` if it has not arrived completely in time."""
    import httpx2

    try:
        async with asyncio.timeout(TIMEOUT):
            yield
    except TimeoutError as error:
        raise httpx2.HTTPError(f"there was no complete answer within {TIMEOUT:.0f} seconds") from error
