"""Proof by a server that it knows a client's token, before that is sent: anybody may listen on a port.

While a server is down another user of the machine can listen in its place. So before a client sends its
token over TCP without TLS, it sends a name of the token that reveals nothing, with a nonce, and the
server answers with a value that only a server with that token can compute. The name of the host, as the
client knows it, is part of that, and servers answer to their own names only: no other program can pass
the question on.

A hook's command loads this: it needs nothing but the standard library.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

PATH = "/proof"
TOKEN_HEADER, NONCE_HEADER = "Interlock-Token", "Interlock-Nonce"
LONGEST = 1 << 14
"""Bytes of an answer that are read."""
_NONCE = 64
_HTTP = b"HTTP/"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*(?:\r\n|\Z)", re.IGNORECASE)


def digest_of(secret: str) -> str:
    """Digest of a token, as servers keep it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def name_of(digest: str) -> str:
    """Name of a token, for servers that know it."""
    return _hmac(digest, "name")[:32]


def proof_of(digest: str, nonce: str, host: str) -> str:
    """Proof of a server named `host` that it knows a token."""
    return _hmac(digest, f"proof {host.lower()} {nonce}")


def is_nonce(text: str) -> bool:
    """Tell whether a text has the form of a client's nonce."""
    return len(text) == _NONCE and all(each in "0123456789abcdef" for each in text)


def _hmac(digest: str, subject: str) -> str:
    return hmac.new(bytes.fromhex(digest), f"interlock {subject}".encode(), hashlib.sha256).hexdigest()


class ProofError(Exception):
    """A token was not sent; `later` if another attempt may succeed."""

    def __init__(self, message: str, *, later: bool = False) -> None:
        super().__init__(message)
        self.later = later


class ProofRequest:
    """ProofRequest of a client to the server at `host`, a name with its port; used once."""

    def __init__(self, secret: str, host: str) -> None:
        self._digest = digest_of(secret)
        self._host = host
        self._nonce = secrets.token_hex(_NONCE // 2)

    @property
    def text(self) -> bytes:
        """The question as an HTTP request."""
        lines = (
            f"GET {PATH} HTTP/1.1",
            f"Host: {self._host}",
            f"{TOKEN_HEADER}: {name_of(self._digest)}",
            f"{NONCE_HEADER}: {self._nonce}",
            "Connection: close",
        )
        return "".join(f"{line}\r\n" for line in (*lines, "")).encode()

    def check(self, answer: bytes) -> None:
        """Check that the token may be sent to the server that gave this answer. Raises `ProofError`."""
        if _is_cut(answer):
            raise ProofError("the connection was lost before there was an answer", later=True)
        head, _, body = answer.partition(b"\r\n\r\n")
        said = body.decode("utf-8", "replace").strip()
        status = head.split(b"\r\n")[0].split(b" ")[1:2]
        if status == [b"200"] and hmac.compare_digest(
            said.encode(), proof_of(self._digest, self._nonce, self._host).encode()
        ):
            return
        if status in ([b"429"], [b"503"]):
            raise ProofError(said[:200] or "it takes nobody now", later=True)
        if status == [b"401"]:
            raise ProofError("it does not know this token, which was not sent")
        raise ProofError(
            "what listens there does not know this token, which was not sent. Is it your server, and of "
            "this version?"
        )


def _is_cut(answer: bytes) -> bool:
    """Tell whether an answer is incomplete: its end was lost, and so it is neither right nor wrong."""
    if not answer.startswith(_HTTP):
        return _HTTP.startswith(answer)
    head, ended, body = answer.partition(b"\r\n\r\n")
    if len(answer) >= LONGEST:
        return False
    length = _LENGTH.search(head)
    return not ended or (length is not None and len(body) < int(length[1]))
