"""Proof by a server that it knows a client's token, required before the token is sent.

While a server is down, another user of the machine can listen on its port. So before a client sends its
token over TCP without TLS, it sends a name of the token, which reveals nothing, and a nonce. The server
answers with a value that only a server with that token can compute. The value depends on the host name as
the client knows it, and servers answer only for their own names, so no other program can relay the
request.

Hooks load this module, so it uses only the standard library.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

PATH = "/proof"
TOKEN_HEADER, NONCE_HEADER = "Interlock-Token", "Interlock-Nonce"
LONGEST = 1 << 14
"""Maximum number of bytes read of an answer."""
_NONCE = 64
_HTTP = b"HTTP/"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*(?:\r\n|\Z)", re.IGNORECASE)


def digest_of(secret: str) -> str:
    """Return the digest of a token, as servers store it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def name_of(digest: str) -> str:
    """Return the name by which servers that know a token recognize it."""
    return _hmac(digest, "name")[:32]


def proof_of(digest: str, nonce: str, host: str) -> str:
    """Return the proof of a server named `host` that it knows a token."""
    return _hmac(digest, f"proof {host.lower()} {nonce}")


def is_nonce(text: str) -> bool:
    """Return whether a text has the form of a client's nonce."""
    return len(text) == _NONCE and all(each in "0123456789abcdef" for each in text)


def _hmac(digest: str, subject: str) -> str:
    return hmac.new(bytes.fromhex(digest), f"interlock {subject}".encode(), hashlib.sha256).hexdigest()


class ProofError(Exception):
    """The server gave no valid proof, so no token was sent; `later` if another attempt may succeed."""

    def __init__(self, message: str, *, later: bool = False) -> None:
        super().__init__(message)
        self.later = later


class ProofRequest:
    """A client's request for proof to the server at `host`, a name with its port; used once."""

    def __init__(self, secret: str, host: str) -> None:
        self._digest = digest_of(secret)
        self._host = host
        self._nonce = secrets.token_hex(_NONCE // 2)

    @property
    def text(self) -> bytes:
        """Text of the HTTP request."""
        lines = (
            f"GET {PATH} HTTP/1.1",
            f"Host: {self._host}",
            f"{TOKEN_HEADER}: {name_of(self._digest)}",
            f"{NONCE_HEADER}: {self._nonce}",
            "Connection: close",
        )
        return "".join(f"{line}\r\n" for line in (*lines, "")).encode()

    def check(self, answer: bytes) -> None:
        """Check the server's answer. Raises `ProofError` unless the token may be sent to that server."""
        if _is_cut(answer):
            raise ProofError("the connection was lost before there was an answer", later=True)
        head, _, body = answer.partition(b"\r\n\r\n")
        text = body.decode("utf-8", "replace").strip()
        status = head.split(b"\r\n")[0].split(b" ")[1:2]
        if status == [b"200"] and hmac.compare_digest(
            text.encode(), proof_of(self._digest, self._nonce, self._host).encode()
        ):
            return
        if status in ([b"429"], [b"503"]):
            raise ProofError(text[:200] or "it accepts no connections now", later=True)
        if status == [b"401"]:
            raise ProofError("it does not know this token, which was not sent")
        raise ProofError(
            "the program that listens there does not know this token, which was not sent. Is it your "
            "server, and of this version?"
        )


def _is_cut(answer: bytes) -> bool:
    """Return whether an answer is incomplete, so that it proves nothing either way."""
    if not answer.startswith(_HTTP):
        return _HTTP.startswith(answer)
    head, separator, body = answer.partition(b"\r\n\r\n")
    if len(answer) >= LONGEST:
        return False
    length = _LENGTH.search(head)
    return not separator or (length is not None and len(body) < int(length[1]))
