"""Receiver of an agent's notifications in the Agent Approval Protocol, as configured."""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, field_validator

KEY_BYTES = 32
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_SECRET = f"expected whsec_ and {KEY_BYTES} bytes in base64"


class WebhookReceiver(BaseModel):
    """URL for an agent's notifications, the secret that signs them, and their registration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    secret: str = Field(repr=False)
    registration: str

    @property
    def key(self) -> bytes:
        """Key of the signatures."""
        return signing_key(self.secret)

    @field_validator("url")
    @classmethod
    def _private(cls, url: str) -> str:
        return private_url(url)

    @field_validator("secret")
    @classmethod
    def _signs(cls, secret: str) -> str:
        signing_key(secret)
        return secret

    @field_validator("registration")
    @classmethod
    def _check_registration(cls, registration: str) -> str:
        return str(UUID(registration))


def private_url(url: str) -> str:
    """Check that a URL is safe for confidential notifications, and return it. Raises `ValueError`."""
    parts = urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if not parts.hostname or not (local or parts.scheme == "https"):
        raise ValueError("expected https://…, or http:// on this machine")
    if parts.username or parts.password or parts.fragment:
        raise ValueError("expected a URL without a user name, password or fragment")
    _ = parts.port
    return url


def signing_key(secret: str) -> bytes:
    """Return the key in a secret of Standard Webhooks. Raises `ValueError`."""
    prefix, _, key_text = secret.partition("_")
    try:
        key = base64.b64decode(key_text, validate=True)
    except ValueError as error:
        raise ValueError(_SECRET) from error
    if prefix != "whsec" or len(key) != KEY_BYTES:
        raise ValueError(_SECRET)
    return key


def signature_headers(key: bytes, message_id: str, at: int, body: bytes) -> dict[str, str]:
    """Headers of Standard Webhooks for a body; `at` is the time of sending in seconds since 1970."""
    digest = hmac.new(key, f"{message_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
