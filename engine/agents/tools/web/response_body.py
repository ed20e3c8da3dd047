"""The beginning of a response's body, decoded only as far as needed.

A few kilobytes can decode to gigabytes, and httpx decodes each received piece as a whole.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Protocol

from ...errors import ToolError

if TYPE_CHECKING:
    import httpx


class Decoder(Protocol):
    """A body's decoder. `eof` is true once no more output follows, whatever is sent."""

    @property
    def eof(self) -> bool: ...

    def decompress(self, piece: bytes, size: int, /) -> bytes:
        """Decode at most `size` bytes from the next piece; the rest is lost."""
        ...


_GZIP = 16 + zlib.MAX_WBITS


async def body_start(response: httpx.Response, size: int) -> bytes:
    """Return the first `size` bytes of a body, or all of a shorter one.

    Raises `ToolError` for encodings other than gzip and deflate, for several encodings, and for broken
    ones.
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
    """Decodes deflate; some servers send its data without the zlib header that belongs around it."""

    def __init__(self) -> None:
        self._decoder: Decoder | None = None

    @property
    def eof(self) -> bool:
        return self._decoder is not None and self._decoder.eof

    def decompress(self, piece: bytes, size: int, /) -> bytes:
        """Decode the next piece; the first one shows whether there is a header."""
        if self._decoder is not None:
            return self._decoder.decompress(piece, size)
        self._decoder = zlib.decompressobj()
        try:
            return self._decoder.decompress(piece, size)
        except zlib.error:
            self._decoder = zlib.decompressobj(-zlib.MAX_WBITS)
            return self._decoder.decompress(piece, size)
