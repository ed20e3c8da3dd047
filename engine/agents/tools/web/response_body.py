"""The beginning of a response's body, decoded no further than it is wanted.

A few kilobytes can decode to gigabytes; httpx decodes each piece that comes in whole.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Protocol

from ...errors import ToolError

if TYPE_CHECKING:
    import httpx


class Decoder(Protocol):
    """A body's decoder. `eof` says that nothing comes any more, whatever is sent."""

    @property
    def eof(self) -> bool: ...

    def decompress(self, piece: bytes, size: int, /) -> bytes:
        """From the next piece as many bytes at most; what is beyond them is lost."""
        ...


_GZIP = 16 + zlib.MAX_WBITS


async def body_start(response: httpx.Response, size: int) -> bytes:
    """The first `size` bytes of a body, or all of a shorter one.

    Raises `ToolError` for an encoding other than gzip and deflate, for several, and for broken ones.
    """
    decoder = _decoder(response.headers.get("content-encoding", "identity").strip().lower())
    body = bytearray()
    async for piece in response.aiter_raw():
        try:
            body += decoder.decompress(piece, size - len(body))
        except zlib.error as error:
            raise ToolError(f"The body is not encoded as its headers say: {error}") from error
        if len(body) >= size or decoder.eof:
            break
    return bytes(body)


def _decoder(encoding: str) -> Decoder:
    match encoding:
        case "" | "identity":
            return _Identity()
        case "gzip" | "x-gzip":
            return zlib.decompressobj(_GZIP)
        case "deflate":
            return _Deflate()
        case _:
            raise ToolError(
                f"The body is encoded as '{encoding}', which cannot be read; "
                "expected gzip, deflate or no encoding"
            )


class _Identity:
    eof = False

    def decompress(self, piece: bytes, size: int, /) -> bytes:
        return piece[:size]


class _Deflate:
    """Some servers send what deflate is named after without the header that belongs around it."""

    def __init__(self) -> None:
        self._decoder: Decoder | None = None

    @property
    def eof(self) -> bool:
        return self._decoder is not None and self._decoder.eof

    def decompress(self, piece: bytes, size: int, /) -> bytes:
        """The next piece, of either kind; the first one shows which."""
        if self._decoder is not None:
            return self._decoder.decompress(piece, size)
        self._decoder = zlib.decompressobj()
        try:
            return self._decoder.decompress(piece, size)
        except zlib.error:
            self._decoder = zlib.decompressobj(-zlib.MAX_WBITS)
            return self._decoder.decompress(piece, size)
