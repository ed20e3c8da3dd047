"""Logins to the console in a browser, and the links that work once, from which they are made.

Only digests and public keys are kept, so that what is in memory opens nothing. The time to look one up
by its digest reveals nothing of the secret.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import replace

from .login_file import Login, LoginFile

LINK_LIFETIME = 600.0
"""Seconds in which a link has to be used."""
LOGIN_LIFETIME = 12 * 3600.0
"""Seconds after which a browser logs in again."""
MAX_LOGINS = 32
"""Logins at a time; one more ends the oldest."""


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
        secret = secrets.token_urlsafe(32)
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
