"""Encryption of an operator's token by the cookie of a login, for a file that has no secret in it.

The cookie is random and known to the browser only, so a key that is derived from it is as strong as it.
A login that has begun is encrypted likewise, by a secret of the process, for its browser to keep.
"""

from __future__ import annotations

import base64
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE = 12
_PURPOSE = b"interlock web login"


def seal(token: str, cookie: str, login: str) -> str:
    """The token of a login, by its id, readable only with the cookie."""
    nonce = secrets.token_bytes(_NONCE)
    sealed = _cipher(cookie).encrypt(nonce, token.encode(), login.encode())
    return base64.b64encode(nonce + sealed).decode()


def unseal(sealed: str, cookie: str, login: str) -> str | None:
    """The token; `None` where it was sealed by another cookie, for another login, or changed since."""
    try:
        content = base64.b64decode(sealed, validate=True)
        token = _cipher(cookie).decrypt(content[:_NONCE], content[_NONCE:], login.encode())
        return token.decode()
    except (ValueError, InvalidTag):
        return None


def _cipher(cookie: str) -> AESGCM:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE)
    return AESGCM(derived.derive(cookie.encode("utf-8", "surrogatepass")))
