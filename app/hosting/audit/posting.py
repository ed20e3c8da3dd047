"""A stream to an HTTP endpoint: JSON lines sent in batches by POST, signed like webhooks."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from ....engine.core.sanitize import visible
from ....engine.gateway.aap.receiver import signature_headers
from ....engine.history.audit.stream import StreamLine
from .settings import LEAST_BYTES, StreamAddress
from .target import PATIENCE, TargetError, TooLargeError

if TYPE_CHECKING:
    import httpx

SPACE = UUID("3e0c2a53-5a0e-5b7d-9b0e-6a1f3a3f5c11")
"""Namespace of message ids: a batch that is sent again after a failure has the same id."""
MOST = 1 << 20
LONGEST_WAIT = 300.0
"""Longest pause in seconds that a receiver may request."""


class PostingTarget:
    """A receiver of POST requests. A status of 2xx acknowledges a batch; redirections are not followed.

    If the receiver says that a request is too large, later ones are smaller; in the end lines are sent
    without content.
    """

    def __init__(
        self,
        address: StreamAddress,
        *,
        key: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address = address
        self._key = key
        self._headers = dict(headers or {})
        self._tls = tls
        self._client: httpx.AsyncClient | None = None
        self.most = MOST
        self.largest: int | None = None

    def check(self) -> None:
        """See `Target`."""

    async def send(self, lines: Sequence[StreamLine]) -> None:
        """See `Target`."""
        import httpx  # importing it takes longer than starting a console

        body = b"".join(each.data + b"\n" for each in lines)
        message_id = str(uuid5(SPACE, hashlib.sha256(body).hexdigest()))
        headers = {
            "Content-Type": "application/x-ndjson",
            "User-Agent": "interlock",
            "Idempotency-Key": message_id,
            **self._headers,
        }
        if self._key is not None:
            headers |= signature_headers(self._key, message_id, int(time.time()), body)
        if self._client is None:
            self._client = httpx.AsyncClient(
                follow_redirects=False, timeout=PATIENCE, verify=self._tls or True
            )
        url = self._address.text
        try:
            async with (
                asyncio.timeout(PATIENCE),
                self._client.stream("POST", url, content=body, headers=headers) as answer,
            ):
                status, retry_after = answer.status_code, answer.headers.get("retry-after", "")
        except TimeoutError as error:
            raise TargetError(f"{self._address.name} did not answer within {PATIENCE:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            reason = visible(str(error) or type(error).__name__)
            raise TargetError(f"{self._address.name} cannot be reached: {reason:.200}") from error
        if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and self._shrink(len(lines), len(body)):
            raise TooLargeError(f"{self._address.name} does not take {len(body)} bytes at a time")
        if 200 <= status < 300:
            self.most, self.largest = MOST, None
            return
        raise TargetError(
            f"{self._address.name} answered {status}, expected 2xx", _wait(status, retry_after)
        )

    def _shrink(self, lines: int, size: int) -> bool:
        """Reduce the batch size, and the line size if one line alone is too large.

        Returns `False` at the minimum.
        """
        before = self.most, self.largest
        self.most = max(LEAST_BYTES, min(self.most, size // 2))
        self.largest = self.most if lines == 1 else self.largest
        return (self.most, self.largest) != before

    async def close(self) -> None:
        """See `Target`."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def _wait(status: int, retry_after: str) -> float:
    from ....engine.gateway.aap.webhooks import asked_pause

    return min(LONGEST_WAIT, asked_pause(status, retry_after))
