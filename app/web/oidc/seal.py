"""Encryption of an operator's token with a login's cookie, for a file without any secret in it.

The cookie is random and known only to the browser, so a key derived from it is equally strong. The state
of a login in progress is encrypted in the same way, with a secret of the process, and kept by its
browser.
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
    """Encrypt the token of a login with its id, so that it is readable only with the cookie."""
    nonce = secrets.token_bytes(_NONCE)
    sealed = _cipher(cookie).encrypt(nonce, token.encode(), login.encode())
    return base64.b64encode(nonce + sealed).decode()


def unseal(sealed: str, cookie: str, login: str) -> str | None:
    """Return the token.

    `None` if it was sealed with another cookie or for another login, or was changed.
    """
    try:
        content = base64.b64decode(sealed, validate=True)
        token = _cipher(cookie).decrypt(content[:_NONCE], content[_NONCE:], login.encode())
        return token.decode()
    except (ValueError, InvalidTag):
        return None


def _cipher(cookie: str) -> AESGCM:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE)
    return AESGCM(derived.derive(cookie.encode("utf-8", "surrogatepass")))
