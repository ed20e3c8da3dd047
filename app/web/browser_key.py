"""Key of a browser's login; without it the login's cookie gives no access.

Browsers send a cookie to every port of its host, so any server on another port receives it. The key is
generated in the page that logs in, and only this server's pages can use it: another port is another
origin. It signs a challenge for one connection to one origin. So a program that listens at this address
while the server is down does not receive anything with which it could log in, either.
"""

from __future__ import annotations

import base64
import secrets
from typing import Literal, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

_NUMBER = 32
"""Bytes of each of the two numbers of a signature."""


def new_challenge() -> str:
    """Return a random challenge that one connection has to sign."""
    return secrets.token_urlsafe(32)


def check_key(key: str) -> None:
    """Check that a public key is an uncompressed point on P-256, in base64. Raises `ValueError`."""
    _point(key)


Use: TypeAlias = Literal["terminal", "phone"]
"""Kind of connection that a signature is for; it is not valid for the other kind."""


def is_signed(key: str, origin: str, challenge: str, signature: str, *, use: Use = "terminal") -> bool:
    """Verify the `signature`, two numbers in base64, of `challenge` by `key` in a page of `origin`."""
    try:
        numbers = base64.b64decode(signature, validate=True)
        if len(numbers) != 2 * _NUMBER:
            return False
        r, s = (int.from_bytes(each, "big") for each in (numbers[:_NUMBER], numbers[_NUMBER:]))
        _point(key).verify(
            encode_dss_signature(r, s), signed_text(origin, challenge, use), ECDSA(SHA256())
        )
    except (ValueError, InvalidSignature):
        return False
    return True


def signed_text(origin: str, challenge: str, use: Use = "terminal") -> bytes:
    """Return the text that a page of `origin` signs."""
    return f"interlock {use} {origin} {challenge}".encode()


def _point(key: str) -> EllipticCurvePublicKey:
    return EllipticCurvePublicKey.from_encoded_point(SECP256R1(), base64.b64decode(key, validate=True))
