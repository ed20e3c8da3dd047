"""Receiver of an agent's notifications in the Agent Approval Protocol, as settings name it."""

from __future__ import annotations

import base64
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, field_validator

KEY_BYTES = 32
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_SECRET = f"expected whsec_ and {KEY_BYTES} bytes in base64"


class WebhookReceiver(BaseModel):
    """Address of an agent's notifications, the secret that signs them, and their registration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    secret: str = Field(repr=False)
    registration: str

    @property
    def key(self) -> bytes:
        """Key of the signatures."""
        return _key(self.secret)

    @field_validator("url")
    @classmethod
    def _private(cls, url: str) -> str:
        parts = urlsplit(url)
        local = parts.scheme == "http" and parts.hostname in _LOOPBACK
        if not parts.hostname or not (local or parts.scheme == "https"):
            raise ValueError("expected https://…, or http:// on this machine")
        if parts.username or parts.password or parts.fragment:
            raise ValueError("expected a URL without a name, a password and a fragment")
        return url

    @field_validator("secret")
    @classmethod
    def _signs(cls, secret: str) -> str:
        _key(secret)
        return secret

    @field_validator("registration")
    @classmethod
    def _named(cls, registration: str) -> str:
        return str(UUID(registration))


def _key(secret: str) -> bytes:
    prefix, _, encoded = secret.partition("_")
    try:
        key = base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise ValueError(_SECRET) from error
    if prefix != "whsec" or len(key) != KEY_BYTES:
        raise ValueError(_SECRET)
    return key
