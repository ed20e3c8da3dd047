"""The key of a browser's login, without which its cookie opens nothing.

Browsers send a cookie to every port of its host, so any server of a page on another port has it. The key
is made in the page that logs in and stays with the pages of this server: another port is another origin.
It signs a challenge for one connection to one origin, so a program that listens at this address while the
server is down receives nothing that logs it in either.
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
    """Random challenge that one connection has to sign."""
    return secrets.token_urlsafe(32)


def check_key(key: str) -> None:
    """A public key is an uncompressed point on P-256, in base64. Raises `ValueError`."""
    _point(key)


Use: TypeAlias = Literal["terminal", "phone"]
"""The kind of connection that is signed for: a signature for one opens none of the other."""


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
    """Text that a page of `origin` signs."""
    return f"interlock {use} {origin} {challenge}".encode()


def _point(key: str) -> EllipticCurvePublicKey:
    return EllipticCurvePublicKey.from_encoded_point(SECP256R1(), base64.b64decode(key, validate=True))
