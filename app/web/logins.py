"""Logins to the console in a browser, and the one-time links that create them.

Only digests and public keys are stored, in memory and in the file with which logins outlast a restart of
their server; neither gives access. The time of a lookup by digest reveals nothing about the secret. The
operator's token of a login through a provider is in memory, and in the file encrypted with the cookie,
which only the browser has.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ...engine.core.sanitize import visible
from ...engine.gateway.protocol.address import Address
from ...engine.gateway.protocol.token_paths import config_directory
from ...engine.gateway.protocol.tokens import TokenError, alone, check_private, write_private
from .oidc.seal import seal, unseal

LINK_LIFETIME = 600.0
"""Seconds within which a link has to be used."""
LOGIN_LIFETIME = 12 * 3600.0
"""Seconds after the latest renewal of a login when the browser has to log in again."""
LONGEST_LOGIN = 30 * 24 * 3600.0
"""Maximum duration of a login in seconds, whatever its renewals."""
RENEWED_AFTER = 3600.0
"""Seconds after which a login that has proved its key gets another cookie, and more time."""
MAX_LOGINS = 32
"""Maximum number of logins; a further one ends the oldest login of the operator with the most."""

SECRET = 32
"""Random bytes in a link."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Login:
    """Login of one browser until the time `ends`; `id` and the public `key` are not secret.

    `browser` is the browser's description, `begun` the time of the login, `renewed` that of its latest
    cookie. A login through a provider also has the name of the `operator`, the token `sealed` with the
    cookie, and its latest end `last`.
    """

    id: str
    ends: float
    key: str
    browser: str = ""
    begun: float = 0.0
    renewed: float = 0.0
    operator: str = ""
    sealed: str = ""
    last: float | None = None


class _Content(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    served: str
    logins: dict[str, Login]


class LoginFile:
    """The logins in the file at `path`, by the digest of their cookie.

    They are valid only for what `served` identifies: a server that shows another queue, or decides under
    another name, starts without them.
    """

    def __init__(self, path: Path, served: str) -> None:
        self.path = path
        self._served = served
        self._seen: tuple[int, ...] | None = None

    def read(self) -> dict[str, Login]:
        """Return the stored logins; none if the file cannot be trusted."""
        self._seen = self._look()
        try:
            content = _read(self.path)
        except FileNotFoundError:
            return {}
        except (OSError, TokenError, UnicodeDecodeError, ValidationError) as error:
            log.warning("%s: everybody has to log in again: %s", self.path, error)
            return {}
        return content.logins if content.served == self._served else {}

    def write(self, logins: Mapping[str, Login]) -> None:
        """Store exactly these logins. If that fails, none is stored: an ended login must not return."""
        try:
            write_private(self.path, _Content(served=self._served, logins=dict(logins)).model_dump_json())
        except TokenError as error:
            log.warning("everybody has to log in again after a restart: %s", error)
            with suppress(FileNotFoundError):
                self.path.unlink()
        self._seen = self._look()

    @property
    def changed(self) -> bool:
        """True if somebody else has written the file since, as `revoke_login` does."""
        return self._look() != self._seen

    def _look(self) -> tuple[int, ...] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read(path: Path) -> _Content:
    with path.open(encoding="utf-8") as file:
        check_private(path, os.fstat(file.fileno()))
        return _Content.model_validate_json(file.read())


# Login files of all servers, for the commands that list and end logins.


def kept_logins() -> dict[Path, tuple[Login, ...]]:
    """Return the logins that may be valid, each once, by their servers' files. Raises `TokenError`."""
    now = time.time()
    found: dict[Path, tuple[Login, ...]] = {}
    for path in sorted(config_directory().glob("web-*.json")):
        every = {login.id: login for login in _trusted(path).logins.values() if login.ends > now}
        found[path] = tuple(every.values())
    return found


def revoke_login(beginning: str) -> Login:
    """End the one login whose id begins with this text; its server notices within a second.

    Raises `TokenError`, also if no login or several have such an id.
    """
    fitting = {
        login.id: (path, login)
        for path, logins in kept_logins().items()
        for login in logins
        if beginning and login.id.startswith(beginning)
    }
    if len(fitting) != 1:
        which = "no login has" if not fitting else f"{len(fitting)} logins have"
        raise TokenError(
            f"{which} an id that begins with '{visible(beginning)}'; `interlock web logins` lists them"
        )
    [(path, login)] = fitting.values()
    with alone(path):
        content = _trusted(path)
        remaining = {digest: each for digest, each in content.logins.items() if each.id != login.id}
        write_private(path, content.model_copy(update={"logins": remaining}).model_dump_json())
    return login


def _trusted(path: Path) -> _Content:
    try:
        return _read(path)
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise TokenError(f"{path}: is not a readable file of logins: {error}") from error


_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("SamsungBrowser", "Samsung Internet"),
    ("FxiOS", "Firefox"),
    ("Firefox", "Firefox"),
    ("CriOS", "Chrome"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def browser_name(agent: str) -> str:
    """Return the browser and the system in a `User-Agent`, in known words only: `Chrome on Android`."""
    browser = next((name for sign, name in _BROWSERS if sign in agent), "another program")
    system = next((name for sign, name in _SYSTEMS if sign in agent), "")
    return f"{browser} on {system}" if system else browser


def is_secret(text: str) -> bool:
    """Return whether a text has the form of a link's secret, valid or not."""
    return re.fullmatch(rf"[\w-]{{{-(-SECRET * 4 // 3)}}}", text, re.ASCII) is not None


def login_file(listen: Address) -> Path:
    """Return the file in which a server at this address stores its logins, next to the tokens."""
    return config_directory() / f"web-{listen.host.replace('/', '_')}-{listen.port}.json"


class Logins:
    """Links and logins of a server. At most one link is valid: a new one ends the previous one.

    With a `file` logins outlast a restart; links do not.
    """

    def __init__(self, clock: Callable[[], float] = time.time, file: LoginFile | None = None) -> None:
        self._clock = clock
        self._file = file
        self._link: tuple[str, float] | None = None
        self._tokens: dict[str, str] = {}
        # Setting the clock back must not extend a login.
        latest = clock() + LOGIN_LIFETIME
        self._logins: dict[str, Login] = {
            digest: replace(login, ends=min(login.ends, latest))
            for digest, login in (file.read() if file is not None else {}).items()
        }

    def link(self) -> str:
        """Create the secret of a new link."""
        secret = secrets.token_urlsafe(SECRET)
        self._link = (_digest(secret), self._clock() + LINK_LIFETIME)
        return secret

    def redeem(self, secret: str, key: str, browser: str = "") -> str | None:
        """Return a cookie for the secret of the valid link, which is used up by this.

        `key` is the public key generated by the browser; see `browser_key`.
        """
        if self._link is None or self._link[0] != _digest(secret):
            return None
        _, ends = self._link
        self._link = None
        now = self._clock()
        if ends <= now:
            return None
        return self._begin(Login(secrets.token_hex(8), now + LOGIN_LIFETIME, key, browser, now, now))

    def admit(self, key: str, browser: str, operator: str, token: str, last: float) -> str:
        """Return a cookie for an operator who logged in by a provider; their token ends at `last`."""
        now = self._clock()
        ends = min(now + LOGIN_LIFETIME, last)
        login = Login(secrets.token_hex(8), ends, key, browser, now, now, operator, last=last)
        self._tokens[login.id] = token
        return self._begin(login)

    def token_of(self, login: Login) -> str | None:
        """Return the token of an operator who logged in through a provider.

        `None` for a login by link.
        """
        return self._tokens.get(login.id)

    def token_by_id(self, login_id: str) -> str | None:
        """Return the token of a login by its id; see `token_of`."""
        return self._tokens.get(login_id)

    def tokens(self) -> Mapping[str, str]:
        """Tokens of the operators who are logged in, by login id."""
        remaining = {each.id for each in self._logins.values()}
        return {each: token for each, token in self._tokens.items() if each in remaining}

    def take_tokens(self) -> Mapping[str, str]:
        """Remove and return the tokens of logins that have ended, by login id."""
        self._look_again()
        remaining = {each.id for each in self._logins.values()}
        return {each: self._tokens.pop(each) for each in list(self._tokens) if each not in remaining}

    def _begin(self, login: Login) -> str:
        with self._kept():
            self._drop_expired()
            while len(every := {each.id: each for each in self._logins.values()}) >= MAX_LOGINS:
                # The oldest login of the operator with the most: repeated logins cannot end those of
                # others.
                most = Counter(each.operator for each in every.values()).most_common(1)[0][0]
                self._drop(next(each.id for each in every.values() if each.operator == most))
            return self._add(login)

    def renew(self, cookie: str) -> str | None:
        """Extend a login that has proved its key, and return its new cookie; `None` if it is too early.

        The previous cookie stays valid until a browser sends the new one, because the response may be
        lost.
        """
        now, before = self._clock(), self.find(cookie)
        if before is None or not before.renewed + RENEWED_AFTER <= now:
            return None
        longest = before.begun + LONGEST_LOGIN if before.last is None else before.last
        ends = max(before.ends, min(now + LOGIN_LIFETIME, longest))
        login = replace(before, ends=ends, renewed=now)
        with self._kept():
            if _digest(cookie) not in self._logins:
                return None
            self._drop(before.id)
            self._logins[_digest(cookie)] = login
            return self._add(login)

    def find(self, cookie: str) -> Login | None:
        """Return the login of a cookie, if there is one; the login's earlier cookies become invalid."""
        self._look_again()
        digest = _digest(cookie)
        login = self._logins.get(digest)
        if login is None:
            return None
        if login.operator and login.id not in self._tokens and not self._unseal(login, cookie):
            return None
        own = [each for each, other in self._logins.items() if other.id == login.id]
        if older := own[: own.index(digest)]:
            with self._kept():
                for each in older:
                    self._logins.pop(each, None)
        return login

    def holds(self, login: Login) -> bool:
        """Return whether a login has neither been ended nor expired."""
        self._look_again()
        return any(each.id == login.id for each in self._logins.values())

    def end(self, cookie: str) -> None:
        """End the login of a cookie."""
        login = self._logins.get(_digest(cookie))
        if login is not None:
            self.end_login(login.id)

    def end_login(self, login_id: str) -> None:
        """End the login with this id."""
        with self._kept():
            self._drop(login_id)

    def _unseal(self, login: Login, cookie: str) -> bool:
        """Decrypt the token of a login after a restart.

        Returns `False` if it is damaged, which ends the login.
        """
        token = unseal(login.sealed, cookie, login.id)
        if token is None:
            self.end_login(login.id)
            return False
        self._tokens[login.id] = token
        return True

    def _add(self, login: Login) -> str:
        cookie = secrets.token_urlsafe(32)
        if (token := self._tokens.get(login.id)) is not None:
            login = replace(login, sealed=seal(token, cookie, login.id))
        self._logins[_digest(cookie)] = login
        return cookie

    def _drop(self, login_id: str) -> None:
        for digest, each in list(self._logins.items()):
            if each.id == login_id:
                del self._logins[digest]

    @contextmanager
    def _kept(self) -> Generator[None, None, None]:
        """Store the changes made in the context; logins ended by a command in the meantime stay ended."""
        if self._file is None:
            yield
            return
        with ExitStack() as stack:
            try:
                stack.enter_context(alone(self._file.path))
            except TokenError as error:
                log.warning("logins are kept without a lock: %s", error)
            self._look_again()
            yield
            self._file.write(self._logins)

    def _look_again(self) -> None:
        """Drop logins that have expired, and those no longer in the file."""
        if self._file is not None and self._file.changed:
            content = self._file.read()
            self._logins = {digest: each for digest, each in self._logins.items() if digest in content}
        self._drop_expired()

    def _drop_expired(self) -> None:
        now = self._clock()
        for digest, login in list(self._logins.items()):
            if login.ends <= now:
                del self._logins[digest]


def _digest(secret: str) -> str:
    # Input from strangers may contain lone surrogates.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
