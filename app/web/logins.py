"""Logins to the console in a browser, and the links that work once, from which they are made.

Only digests and public keys are kept, in memory and in the file with which logins outlast a restart of
their server, so that neither opens anything. The time to look one up by its digest reveals nothing of the
secret.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ...engine.gateway.protocol.address import Address
from ...engine.gateway.protocol.token_paths import config_directory
from ...engine.gateway.protocol.tokens import TokenError, check_private, write_private

LINK_LIFETIME = 600.0
"""Seconds in which a link has to be used."""
LOGIN_LIFETIME = 12 * 3600.0
"""Seconds after which a browser logs in again."""
MAX_LOGINS = 32
"""Logins at a time; one more ends the oldest."""

SECRET = 32
"""Random bytes in a link."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Login:
    """One browser that came in, until the time `ends`; `id` and the public `key` are no secrets."""

    id: str
    ends: float
    key: str


class _Content(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    served: str
    logins: dict[str, Login]


class LoginFile:
    """The logins in the file at `path`, by the digest of their cookie.

    They are for what `served` names only: a server that shows another queue, or decides under another
    name, begins without them.
    """

    def __init__(self, path: Path, served: str) -> None:
        self.path = path
        self._served = served

    def read(self) -> dict[str, Login]:
        """The logins that were kept; none where the file cannot be trusted."""
        try:
            with self.path.open(encoding="utf-8") as file:
                check_private(self.path, os.fstat(file.fileno()))
                content = _Content.model_validate_json(file.read())
        except FileNotFoundError:
            return {}
        except (OSError, TokenError, UnicodeDecodeError, ValidationError) as error:
            log.warning("%s: everybody has to log in again: %s", self.path, error)
            return {}
        return content.logins if content.served == self._served else {}

    def write(self, logins: Mapping[str, Login]) -> None:
        """Keep these and no others. Where that fails none is kept: one that was ended must not return."""
        content = _Content(served=self._served, logins=dict(logins))
        try:
            write_private(self.path, content.model_dump_json())
        except TokenError as error:
            log.warning("everybody has to log in again after a restart: %s", error)
            with suppress(FileNotFoundError):
                self.path.unlink()


def is_secret(text: str) -> bool:
    """Tell whether a text has the form of a link's secret, in force or not."""
    return re.fullmatch(rf"[\w-]{{{-(-SECRET * 4 // 3)}}}", text, re.ASCII) is not None


def login_file(listen: Address) -> Path:
    """File in which a server at this address keeps its logins, next to the tokens."""
    return config_directory() / f"web-{listen.host.replace('/', '_')}-{listen.port}.json"


class Logins:
    """Links and logins of a server. At most one link is in force: a new one ends the one before it.

    With a `file` logins outlast a restart, which links do not.
    """

    def __init__(self, clock: Callable[[], float] = time.time, file: LoginFile | None = None) -> None:
        self._clock = clock
        self._file = file
        self._link: tuple[str, float] | None = None
        # None lasts longer because the clock was set back meanwhile.
        latest = clock() + LOGIN_LIFETIME
        self._logins: dict[str, Login] = {
            digest: replace(login, ends=min(login.ends, latest))
            for digest, login in (file.read() if file is not None else {}).items()
        }

    def link(self) -> str:
        """A new secret for a link."""
        secret = secrets.token_urlsafe(SECRET)
        self._link = (_digest(secret), self._clock() + LINK_LIFETIME)
        return secret

    def redeem(self, secret: str, key: str) -> str | None:
        """A cookie for the secret of the link in force, which is of no use afterwards.

        `key` is the public one that the browser made; see `browser_key`.
        """
        if self._link is None or self._link[0] != _digest(secret):
            return None
        _, ends = self._link
        self._link = None
        if ends <= self._clock():
            return None
        cookie = secrets.token_urlsafe(32)
        self._drop_expired()
        while len(self._logins) >= MAX_LOGINS:
            del self._logins[next(iter(self._logins))]
        self._logins[_digest(cookie)] = Login(secrets.token_hex(8), self._clock() + LOGIN_LIFETIME, key)
        self._save()
        return cookie

    def find(self, cookie: str) -> Login | None:
        """The login of a cookie, if there is one."""
        self._drop_expired()
        return self._logins.get(_digest(cookie))

    def holds(self, login: Login) -> bool:
        """Tell whether a login has neither been ended nor expired."""
        self._drop_expired()
        return login in self._logins.values()

    def end(self, cookie: str) -> None:
        """Log out."""
        if self._logins.pop(_digest(cookie), None) is not None:
            self._save()

    def _save(self) -> None:
        if self._file is not None:
            self._file.write(self._logins)

    def _drop_expired(self) -> None:
        now = self._clock()
        for digest, login in list(self._logins.items()):
            if login.ends <= now:
                del self._logins[digest]


def _digest(secret: str) -> str:
    # What strangers send may hold bytes that are no text.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
