"""Login of an operator at a server, stored next to the tokens for this user's consoles and commands."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from ..protocol.login_exchange import LoginOffer
from ..protocol.server_proof import digest_of
from ..protocol.token_paths import config_directory
from ..protocol.tokens import TokenError, read_private, write_private


class KeptLogin(BaseModel):
    """A login at the server at `url`: the operator's `token` until `ends`, and how to read roles again.

    `read` is the time of the last request to the provider for the roles, in seconds since 1970.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    url: str
    name: str
    token: str
    ends: AwareDatetime
    offer: LoginOffer
    refresh_token: str | None = None
    read: float = 0.0

    @property
    def is_over(self) -> bool:
        """Return whether the login has expired."""
        return self.ends.timestamp() <= time.time()


def login_path(url: str) -> Path:
    """Path of the file with the login at a server, which only its owner may read."""
    return config_directory() / f"login-{digest_of(url)[:16]}.json"


def read_login(url: str) -> KeptLogin | None:
    """Return the login at a server; `None` if there is none. Raises `TokenError` for an invalid file."""
    path = login_path(url)
    try:
        login = KeptLogin.model_validate_json(read_private(path))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise TokenError(f"{path}: is not a valid login; log in again: interlock login") from error
    return login if login.url == url else None


def keep_login(login: KeptLogin) -> None:
    """Store a login. Raises `TokenError`."""
    write_private(login_path(login.url), login.model_dump_json(exclude_none=True) + "\n")


def forget_login(url: str) -> None:
    """Delete the stored login at a server. Raises `TokenError`."""
    path = login_path(url)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise TokenError(f"{path}: cannot be removed: {error.strerror}") from error
