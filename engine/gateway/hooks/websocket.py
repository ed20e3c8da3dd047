"""WebSocket client that needs only the standard library, for a command that runs once per tool call.

It supports only what our server needs: text, without extensions. Every operation has a deadline.
"""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import urlsplit

from ..protocol.address import trusting
from ..protocol.server_proof import LONGEST as PROOF
from ..protocol.server_proof import ProofError, ProofRequest
from ..protocol.silence import break_when_silent

_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_SUBPROTOCOL = "interlock.v1"
LONGEST = 64 << 20
"""Size of the longest message that is read, in bytes."""
PING_SECONDS = 5.0
"""Seconds of silence after which a watched server is pinged, and again as many before giving up."""
_LONGEST_HEAD = 1 << 16
_CONTINUED, _TEXT, _CLOSE, _PING, _PONG = 0, 1, 8, 9, 10


class HookError(Exception):
    """No answer came from a server; the message says why."""


class NoServerError(HookError):
    """No server listens at the address."""


class NotLetInError(HookError):
    """The server does not admit this client."""


class GoneError(HookError):
    """The connection has ended."""


class SilentError(GoneError):
    """The server accepts data but answers nothing, not even a ping: it is stopped, or far too busy."""


class LateError(HookError):
    """The server did not answer in time."""


class HookSocket:
    """A connection to `url`, in the form that `address.server_url` returns.

    `until` is the monotonic time by which it must be open. Raises `HookError`. While `watched` is true, a
    server that stops responding during a wait for an answer raises `SilentError`, however long the wait
    is.
    """

    def __init__(self, url: str, token: str, until: float) -> None:
        self.url = url
        self.watched = False
        self._buffer = b""
        self._until = until
        self._socket, host = _connect(url, self._time_left())
        try:
            self._upgrade(host, token)
        except BaseException:
            self._socket.close()
            raise

    def send(self, text: str, until: float) -> None:
        """Send a message."""
        self._until = until
        self._send(_TEXT, text.encode())

    def receive(self, until: float) -> str:
        """Wait for the next message."""
        self._until = until
        parts: list[bytes] = []
        while True:
            kind, last, data = self._frame()
            if kind == _PING:
                self._send(_PONG, data)
            elif kind == _CLOSE:
                reason = data[2:].decode("utf-8", "replace")
                raise GoneError(f"{self.url} ended the connection" + (f": {reason}" if reason else ""))
            elif kind == (_CONTINUED if parts else _TEXT):
                parts.append(data)
                if sum(map(len, parts)) > LONGEST:
                    raise HookError(f"{self.url} sent more than {LONGEST >> 20} MiB in a message")
                if last:
                    return _text(b"".join(parts))
            elif kind != _PONG:
                raise HookError(f"{self.url} sent something other than text")

    def close(self) -> None:
        """Close the connection without waiting for the peer."""
        try:
            self._until = time.monotonic() + 0.2
            self._send(_CLOSE, (1000).to_bytes(2, "big"))
        except HookError:
            pass
        self._socket.close()

    # Handshake

    def _upgrade(self, host: str, token: str) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        if not (token.isascii() and token.isprintable()):
            raise NotLetInError("the token has characters that are not allowed in tokens")
        lines = (
            "GET /agent HTTP/1.1",
            f"Host: {host}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Protocol: {_SUBPROTOCOL}",
            f"Authorization: Bearer {token}",
        )
        self._write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > _LONGEST_HEAD:
                raise HookError(f"{self.url} is not an Interlock server")
            self._read()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *header_lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (h.partition(":") for h in header_lines)
        }
        status = first.split(" ")[1:2]
        if status != ["101"]:
            self._raise_refusal(first, headers)
        accept = base64.b64encode(hashlib.sha1((key + _MAGIC).encode()).digest()).decode()
        if (
            headers.get("sec-websocket-accept") != accept
            or headers.get("sec-websocket-protocol") != _SUBPROTOCOL
        ):
            raise HookError(f"{self.url} is not an Interlock server")

    def _raise_refusal(self, first: str, headers: dict[str, str]) -> None:
        length = headers.get("content-length", "")
        size = min(int(length), 1000) if length.isascii() and length.isdecimal() else 0
        while len(self._buffer) < size:
            self._read()
        reason = self._buffer[:size].decode("utf-8", "replace").strip() or first
        raise NotLetInError(f"{self.url} does not admit this agent: {reason}")

    # Frames

    def _send(self, kind: int, data: bytes) -> None:
        size = len(data)
        if size < 126:
            head = bytes((0x80 | kind, 0x80 | size))
        elif size < 1 << 16:
            head = bytes((0x80 | kind, 0x80 | 126)) + size.to_bytes(2, "big")
        else:
            head = bytes((0x80 | kind, 0x80 | 127)) + size.to_bytes(8, "big")
        mask = os.urandom(4)
        long_mask = (mask * (size // 4 + 1))[:size]
        masked_data = (int.from_bytes(data, "big") ^ int.from_bytes(long_mask, "big")).to_bytes(
            size, "big"
        )
        self._write(head + mask + masked_data)

    def _frame(self) -> tuple[int, bool, bytes]:
        first, second = self._exactly(2)
        size = second & 0x7F
        if first & 0x70 or second & 0x80:
            raise HookError(f"{self.url} sent an invalid frame")
        if size == 126:
            size = int.from_bytes(self._exactly(2), "big")
        elif size == 127:
            size = int.from_bytes(self._exactly(8), "big")
        if size > LONGEST:
            raise HookError(f"{self.url} sent more than {LONGEST >> 20} MiB in a message")
        return first & 0x0F, bool(first & 0x80), self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._read()
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    # Bytes

    def _time_left(self) -> float:
        return _time_left(self._until)

    def _write(self, data: bytes) -> None:
        self._socket.settimeout(self._time_left())
        with _loss_errors(self.url):
            self._socket.sendall(data)

    def _read(self) -> None:
        data = self._receive()
        if not data:
            raise GoneError(f"the connection to {self.url} was lost")
        self._buffer += data

    def _receive(self) -> bytes:
        is_pinged = False
        while True:
            remaining = self._time_left()
            self._socket.settimeout(min(remaining, PING_SECONDS) if self.watched else remaining)
            try:
                with _loss_errors(self.url):
                    return self._socket.recv(1 << 18)
            except LateError:
                if not self.watched or remaining <= PING_SECONDS:
                    raise
                if is_pinged:
                    raise SilentError(f"{self.url} does not answer, not even a ping") from None
            self._send(_PING, b"")
            is_pinged = True


@contextmanager
def _loss_errors(url: str) -> Generator[None, None, None]:
    """Raise errors of a connection as `HookError`."""
    try:
        yield
    except TimeoutError as error:
        raise LateError(f"{url} does not answer") from error
    except OSError as error:
        raise GoneError(f"the connection to {url} was lost ({error.strerror or error})") from error


def prove(url: str, token: str, until: float) -> None:
    """Make the listening server prove that it knows the token, before the token is sent unencrypted.

    Not needed with TLS, or with a socket file that belongs to this user. Raises `HookError`.
    """
    if not url.startswith("ws:"):
        return
    probe, host = _connect(url, _time_left(until))
    request, answer = ProofRequest(token, host), b""
    try:
        with _loss_errors(url):
            probe.settimeout(_time_left(until))
            probe.sendall(request.text)
            while len(answer) < PROOF and (part := probe.recv(PROOF)):
                answer += part
                probe.settimeout(_time_left(until))
        request.check(answer)
    except ProofError as error:
        kind = GoneError if error.later else NotLetInError
        raise kind(f"{url}: {error}") from error
    finally:
        probe.close()


def _time_left(until: float) -> float:
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise LateError("there was no time left")
    return seconds


def _connect(url: str, timeout: float) -> tuple[socket.socket, str]:
    """Return a connected socket and the server's host name. Raises `HookError`."""
    try:
        return _dial(url, timeout)
    except TimeoutError as error:
        raise LateError(f"{url} does not answer") from error
    except ValueError as error:
        raise HookError(str(error)) from error
    except OSError as error:
        raise NoServerError(
            f"no Interlock server listens on {url} ({error.strerror or error})"
        ) from error


def _dial(url: str, timeout: float) -> tuple[socket.socket, str]:
    """Return a connected socket and the server's host name."""
    if url.startswith("unix:"):
        owner = os.stat(url[5:]).st_uid
        if owner not in (os.geteuid(), 0):
            raise ValueError(f"{url}: the socket belongs to another user, who would learn the token")
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(timeout)
            connection.connect(url[5:])
        except BaseException:
            connection.close()
            raise
        return connection, "localhost"
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "wss" else 80)
    connection = socket.create_connection((host, port), timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    break_when_silent(connection)
    if parts.scheme == "wss":
        import ssl

        try:
            tls_context = trusting(None) or ssl.create_default_context()
            connection = tls_context.wrap_socket(connection, server_hostname=host)
        except BaseException:
            connection.close()
            raise
    return connection, parts.netloc


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise HookError("the server sent something other than text") from error
