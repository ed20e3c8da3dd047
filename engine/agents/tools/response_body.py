"""The beginning of a response's body, decoded no further than it is wanted.

A few kilobytes can stand for gigabytes; httpx decodes each piece that comes in whole.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ..errors import ToolError

if TYPE_CHECKING:
    import httpx

Decode: TypeAlias = Callable[[bytes, int], bytes]
"""From the next piece and a number to as many bytes at most; what is beyond them is lost."""

_GZIP = 16 + zlib.MAX_WBITS


async def body_start(response: httpx.Response, size: int) -> bytes:
    """The first `size` bytes of a body, or all of a shorter one.

    Raises `ToolError` for an encoding other than gzip and deflate, for several, and for broken ones.
    """
    decode = _decoder(response.headers.get("content-encoding", "identity").strip().lower())
    body = bytearray()
    async for piece in response.aiter_raw():
        try:
            body += decode(piece, size - len(body))
        except zlib.error as error:
            raise ToolError(f"The body is not encoded as its headers say: {error}") from error
        if len(body) >= size:
            break
    return bytes(body)


def _decoder(encoding: str) -> Decode:
    match encoding:
        case "" | "identity":
            return lambda piece, size: piece[:size]
        case "gzip" | "x-gzip":
            return zlib.decompressobj(_GZIP).decompress
        case "deflate":
            return _Deflate().decode
        case _:
            raise ToolError(
                f"The body is encoded as '{encoding}', which cannot be read; "
                "expected gzip, deflate or no encoding"
            )


class _Deflate:
    """Some servers send what deflate is named after without the header that belongs around it."""

    def __init__(self) -> None:
        self._decode: Decode | None = None

    def decode(self, piece: bytes, size: int) -> bytes:
        """The next piece, of either kind; the first one shows which."""
        if self._decode is not None:
            return self._decode(piece, size)
        self._decode = zlib.decompressobj().decompress
        try:
            return self._decode(piece, size)
        except zlib.error:
            self._decode = zlib.decompressobj(-zlib.MAX_WBITS).decompress
            return self._decode(piece, size)
