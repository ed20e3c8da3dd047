"""A stream to a syslog receiver: messages of RFC 5424 over UDP, TCP, TLS or a local socket.

Over TCP and TLS each message is preceded by its length (RFC 6587, RFC 5425). Syslog has no
acknowledgements: lines count as sent once the receiver's operating system has them, and lines sent
shortly before a connection broke are sent again. UDP and local sockets may lose messages; the receiver
detects this by `after`.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import ssl
import struct
import sys
import termios
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from ....engine.core.sanitize import visible
from ....engine.history.audit.hash_chain import time_text
from ....engine.history.audit.ocsf import LOW, MEDIUM
from ....engine.history.audit.stream import StreamLine
from .settings import StreamAddress
from .target import PATIENCE, TargetError

AUDIT = 13
"""The facility *log audit*."""
SEVERITY = {LOW: 5, MEDIUM: 4}
"""Syslog severities by OCSF severity: notice and warning. All others are informational."""
INFORMATIONAL = 6
AGAIN_SECONDS = 10.0
"""Seconds before a broken connection from which everything is sent again."""
AGAIN_BYTES = 4 << 20
"""Maximum bytes kept for sending again."""
POLL = 0.02


def message(line: StreamLine, host: str, process: int) -> bytes:
    """Return a line as a message of RFC 5424."""
    event = line.source.event
    priority = AUDIT * 8 + SEVERITY.get(line.severity, INFORMATIONAL)
    try:
        at = time_text(event.place.at)
    except (TypeError, OverflowError, ValueError):  # columns may hold values of any type
        at = "-"
    kind = _word(str(event.kind), 32)
    return f"<{priority}>1 {at} {_word(host, 255)} interlock {process} {kind} - ".encode() + line.data


def _word(text: str, most: int) -> str:
    """Return a header field: printable ASCII without spaces, `-` if empty."""
    return "".join(each for each in text if "!" <= each <= "~")[:most] or "-"


class _SyslogTarget:
    """Common base of the transports."""

    most = 1 << 18

    def __init__(self, address: StreamAddress, largest: int) -> None:
        self._address = address
        self._host = socket.gethostname()
        heading = len(f"<111>1 2026-01-01T00:00:00.000Z {self._host} interlock {os.getpid()}  - ") + 32
        self.largest: int | None = max(1, largest - heading)

    def check(self) -> None:
        """See `Target`."""

    def _message(self, line: StreamLine) -> bytes:
        return message(line, self._host, os.getpid())

    def _error(self, error: Exception) -> TargetError:
        reason = "no answer" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        strerror = error.strerror if isinstance(error, OSError) else None
        return TargetError(f"{self._address.text} cannot be reached: {visible(strerror or reason)}")


class DatagramTarget(_SyslogTarget):
    """A receiver of datagrams, one message each."""

    def __init__(self, address: StreamAddress, largest: int) -> None:
        super().__init__(address, largest)
        self._socket: socket.socket | None = None

    async def send(self, lines: Sequence[StreamLine]) -> None:
        """See `Target`."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(PATIENCE):
                if self._socket is None:
                    self._socket = await self._connected()
                for each in lines:
                    await loop.sock_sendall(self._socket, self._message(each))
        except (OSError, UnicodeError) as error:  # the host name may be invalid
            await self.close()
            raise self._error(error) from error

    async def _connected(self) -> socket.socket:
        if self._address.transport == "unix":
            family, address = socket.AF_UNIX, str(self._address.path)
        else:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(self._address.host, self._address.port, type=socket.SOCK_DGRAM)
            family, _, _, _, address = found[0]
        connection = socket.socket(family, socket.SOCK_DGRAM)
        connection.setblocking(False)
        try:
            connection.connect(address)
        except OSError:
            connection.close()
            raise
        return connection

    async def close(self) -> None:
        """See `Target`."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class ConnectionTarget(_SyslogTarget):
    """A receiver over TCP, or over TLS if a context is given."""

    def __init__(
        self,
        address: StreamAddress,
        largest: int,
        tls: ssl.SSLContext | None = None,
        again: float = AGAIN_SECONDS,
    ) -> None:
        super().__init__(address, largest)
        self._tls = tls
        self._again = again
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._recent: deque[tuple[float, bytes]] = deque()
        self._recent_bytes = 0

    async def send(self, lines: Sequence[StreamLine]) -> None:
        """See `Target`."""
        messages = [self._message(each) for each in lines]
        frames = b"".join(b"%d %b" % (len(each), each) for each in messages)
        try:
            async with asyncio.timeout(PATIENCE):
                if self._reader is not None and self._reader.at_eof():
                    await self.close()
                if self._writer is None:
                    await self._connect()
                await self._write(frames)
        except (OSError, UnicodeError) as error:
            await self.close()
            raise self._error(error) from error
        except asyncio.CancelledError:
            await self.close()  # a message may have been sent in part
            raise
        self._keep(frames)

    async def _connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(
            self._address.host,
            self._address.port,
            ssl=self._tls,
            server_hostname=self._address.host if self._tls is not None else None,
        )
        if self._recent:
            await self._write(b"".join(frames for _, frames in self._recent))

    async def _write(self, frames: bytes) -> None:
        writer = self._writer
        assert writer is not None
        writer.write(frames)
        await writer.drain()
        # Linux reports when the receiver's system has acknowledged all data.
        while writer.transport.get_write_buffer_size() or _unacknowledged(writer):
            if writer.is_closing():
                raise ConnectionResetError("the connection was closed")
            await asyncio.sleep(POLL)

    def _keep(self, frames: bytes) -> None:
        now = time.monotonic()
        self._recent.append((now, frames))
        self._recent_bytes += len(frames)
        while self._recent and (
            self._recent[0][0] < now - self._again or self._recent_bytes > AGAIN_BYTES
        ):
            self._recent_bytes -= len(self._recent.popleft()[1])

    async def close(self) -> None:
        """See `Target`."""
        writer, self._writer, self._reader = self._writer, None, None
        if writer is not None:
            writer.close()
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    await writer.wait_closed()


def _unacknowledged(writer: asyncio.StreamWriter) -> int:
    """Return the bytes that the peer has not acknowledged; 0 where the system does not report them."""
    if sys.platform != "linux":
        return 0
    found: socket.socket = writer.get_extra_info("socket")
    try:
        answer = fcntl.ioctl(found.fileno(), termios.TIOCOUTQ, bytes(4))
    except OSError:
        return 0
    return int(struct.unpack("i", answer)[0])
