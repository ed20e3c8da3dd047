"""Tokens of agents and operators. The file stores digests, so reading it reveals no token.

A token belongs to an agent or an operator. Operators decide with theirs, within its `rights`; the token's
name is the name in the record, whatever a client says. An agent's token names its owner, an operator: the
owner does not count as another person if a rule requires several (G-77).

A login at a provider gives an operator a temporary token. The file keeps which person at the provider has
which name here, so that no other person at the provider gets that name.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Annotated, Literal, TextIO, TypeAlias
from uuid import uuid4

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from ...core.approvers import Operator, Operators
from ...core.clock import Clock, utc_now
from ...core.labels import checked_labels
from ...core.people import is_among, name_shape, same_person
from ...core.rights import FULL, Rights, lesser
from .server_proof import digest_of, name_of, proof_of

Kind: TypeAlias = Literal["agent", "operator"]

PREFIXES: dict[Kind, str] = {"agent": "ilk_agent_", "operator": "ilk_operator_"}
LONGEST_NAME = 64
_SECRET = re.compile(r"[A-Za-z0-9._~+/=-]{8,200}")


class TokenError(ValueError):
    """A token file that cannot be trusted, or an invalid change to it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Holder of a token; `owner` is the operator who owns an agent, `rights` are those of an operator.

    `labels` are put on the sessions that an agent opens or resumes with the token. `groups` are the
    operator's, from the server's configuration and from the login. `role` is the configured role if it
    allows less than the token. `login` identifies the person at the provider if the token comes from a
    login.
    """

    kind: Kind
    name: str
    token: str
    owner: str | None = None
    rights: Rights | None = None
    labels: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    role: Rights | None = None
    login: str | None = None

    @property
    def operator(self) -> Operator | None:
        """The operator who holds the token; `None` for an agent's token."""
        return None if self.rights is None else Operator(self.name, self.rights, self.groups, self.login)

    def with_role(self, operators: Operators) -> Identity | None:
        """Return this identity with its operator's configured role and groups; an agent's is unchanged.

        Returns `None` for a login at another provider than the configured one. The same holds for a login
        under the name of a configured operator to whom the configuration does not assign that login.
        """
        if self.rights is None:
            return self
        if self.login is not None and self.login.partition(" ")[0] != operators.issuer:
            return None
        if not operators.configured:
            return self
        operator = operators.find(self.name)
        if self.login is not None and operators.lists(self.name) and operator.login != self.login:
            return None
        rights = lesser(self.rights, operator.rights)
        role = None if rights == self.rights else rights
        groups = tuple(dict.fromkeys((*self.groups, *operator.groups)))
        return replace(self, rights=rights, groups=groups, role=role)


class TokenEntry(BaseModel):
    """A token without its secret; `digest` is its SHA-256, `owner` the operator who owns the agent.

    An operator's token without `rights` was made before rights existed and has all; an agent's has none.
    `labels` are put on the sessions of an agent's token; `None`, which is not written, means none.
    `login` identifies the person at a provider if the token comes from a login, which also gave the
    `groups`. Such a token `ends` before `latest` unless role and groups are read again from the provider.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    kind: Kind
    name: str
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    created: AwareDatetime
    ends: AwareDatetime | None = None
    owner: str | None = None
    rights: Rights | None = None
    labels: Annotated[tuple[str, ...], AfterValidator(checked_labels)] | None = None
    login: str | None = None
    groups: tuple[str, ...] | None = None
    latest: AwareDatetime | None = None

    @property
    def effective_rights(self) -> Rights | None:
        """The rights of an operator's token; `None` for an agent's token."""
        return (self.rights or FULL) if self.kind == "operator" else None

    @property
    def identity(self) -> Identity:
        """Identity of a client with this token."""
        return Identity(
            kind=self.kind,
            name=self.name,
            token=self.id,
            owner=self.owner,
            rights=self.effective_rights,
            labels=self.labels or (),
            groups=self.groups or (),
            login=self.login,
        )


class Person(BaseModel):
    """A person at a provider, who has had this name here since the first login."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    login: str
    since: AwareDatetime


class GivenUpName(BaseModel):
    """A name that its holder gave up; passkeys enrolled under it before then no longer count."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    at: AwareDatetime


class TokenContent(BaseModel):
    """Content of a token file; `people` have logged in, `None` if nobody has.

    `given_up` are names that operators gave up, each with the last time; `None` if there are none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    tokens: tuple[TokenEntry, ...] = ()
    people: tuple[Person, ...] | None = None
    given_up: tuple[GivenUpName, ...] | None = None

    def without_holder(self, name: str, at: datetime) -> TokenContent:
        """Return the content after an operator has given up a name at this time."""
        others = [each for each in self.given_up or () if not same_person(each.name, name)]
        return self.model_copy(update={"given_up": (*others, GivenUpName(name=name, at=at))})


class TokenFile:
    """The tokens in the file at `path`, which only its owner may read or write.

    Every use checks whether the file has changed, so that a revocation takes effect at once.
    """

    def __init__(self, path: Path, clock: Clock = utc_now) -> None:
        self.path = path
        self._file = os.fspath(path)
        self._clock = clock
        self._file_state: tuple[int, ...] | None = None
        self._content = TokenContent()

    def tokens(self) -> tuple[TokenEntry, ...]:
        """Tokens in force, oldest first. Raises `TokenError` for a file that cannot be trusted."""
        now = self._clock()
        return tuple(each for each in self._read().tokens if each.ends is None or each.ends > now)

    def people(self) -> tuple[Person, ...]:
        """People who have logged in at a provider, oldest first. Raises `TokenError`."""
        return self._read().people or ()

    def given_up(self, name: str) -> datetime | None:
        """Time at which a holder last gave this name up; `None` if nobody did. Raises `TokenError`."""
        entries = (each for each in self._read().given_up or () if same_person(each.name, name))
        return next((each.at for each in entries), None)

    def replace(self, change: Callable[[TokenContent], TokenContent]) -> None:
        """Replace the valid tokens and the people by the result of `change`, as the only writer.

        Raises `TokenError`, or any exception of `change`; then nothing is written.
        """
        with alone(self.path):
            now = self._read().model_copy(update={"tokens": self.tokens()})
            new = change(now)
            if new != now:
                self._write(new)

    def find(self, secret: str) -> Identity | None:
        """Return the identity for a secret, `None` if unknown. Compares all tokens in constant time."""
        digest = digest_of(secret)
        match: TokenEntry | None = None
        for each in self.tokens():
            if hmac.compare_digest(each.digest, digest):
                match = each
        return None if match is None else match.identity

    def prove(self, name: str, nonce: str, host: str) -> str | None:
        """Return the proof that this token is known here, see `server_proof`; `None` if it is unknown."""
        proof = None
        for each in self.tokens():
            if hmac.compare_digest(name_of(each.digest).encode(), name.encode("utf-8", "replace")):
                proof = proof_of(each.digest, nonce, host)
        return proof

    def holds(self, identity: Identity) -> bool:
        """Return whether the token of an identity is still valid."""
        return self.in_force(identity.token)

    def in_force(self, token: str) -> bool:
        """Return whether the token of this id is valid now. Raises `TokenError` as `tokens` does."""
        return self.current(token) is not None

    def current(self, token: str) -> Identity | None:
        """Return the current identity of the token of this id; `None` if it is not valid.

        Raises `TokenError` as `tokens` does.
        """
        return next((each.identity for each in self.tokens() if each.id == token), None)

    def issue(
        self,
        kind: Kind,
        name: str,
        owner: str | None = None,
        *,
        rights: Rights | None = None,
        labels: Iterable[str] = (),
    ) -> str:
        """Create a token and return it, never shown again; `owner` is the operator who owns the agent.

        An operator's token has all rights unless `rights` are given; `labels` are put on an agent's
        sessions. Raises `TokenError` for a name that is taken, for a name or owner that is easily
        confused with another, for an owner or labels of an operator's token, and for rights of an agent's
        token.
        """
        name = _name(name)
        with alone(self.path):
            tokens = self.tokens()
            owner = _owner(kind, owner, tokens)
            _check_distinct(kind, name, tokens, self.people())
            token_labels = _labels(kind, labels)
            secret, entry = self._new(kind, name, owner, _rights(kind, rights), token_labels)
            self._write_tokens((*tokens, entry))
        return secret

    def rotate(
        self,
        name: str,
        *,
        overlap: float = 0.0,
        owner: str | None = None,
        rights: Rights | None = None,
        labels: Iterable[str] | None = None,
    ) -> str:
        """Create a new secret for a name; the old one stays valid for at most `overlap` seconds.

        Owner, rights and labels are kept unless others are given.
        """
        with alone(self.path):
            tokens = self.tokens()
            old = [each for each in tokens if each.name == name and each.login is None]
            if not old and any(each.name == name for each in self.people()):
                raise TokenError(
                    f"'{name}' logs in at a provider and has no lasting token to rotate; to end the "
                    "logins run: "
                    f"interlock token revoke {quote(name)}"
                )
            if not old:
                raise self._unknown(name)
            ends = self._clock() + timedelta(seconds=overlap)
            remaining = [
                each.model_copy(update={"ends": ends})
                if each in old and (each.ends is None or each.ends > ends)
                else each
                for each in tokens
                if overlap > 0 or each not in old
            ]
            kind, last = old[-1].kind, old[-1]
            new_rights = _rights(kind, rights or last.effective_rights)
            owner = _owner(kind, owner, tokens) or last.owner
            new_labels = last.labels if labels is None else _labels(kind, labels)
            secret, entry = self._new(kind, name, owner, new_rights, new_labels)
            self._write_tokens((*remaining, entry))
        return secret

    def set_owner(self, name: str, owner: str) -> None:
        """Set the operator who owns an agent's token. Raises `TokenError` for an operator's token."""
        with alone(self.path):
            tokens = self.tokens()
            if not any(each.name == name for each in tokens):
                raise self._unknown(name)
            self._write_tokens(
                tuple(
                    each.model_copy(update={"owner": _owner(each.kind, owner, tokens)})
                    if each.name == name
                    else each
                    for each in tokens
                )
            )

    def revoke(self, name: str) -> bool:
        """End every token and login of a name at once; at the next login another person may get the name.

        Passkeys that were enrolled until now under the name of an operator no longer count. Returns
        whether the name was an operator's.
        """

        def without(now: TokenContent) -> TokenContent:
            tokens = tuple(each for each in now.tokens if each.name != name)
            people = tuple(each for each in now.people or () if each.name != name)
            if len(tokens) == len(now.tokens) and len(people) == len(now.people or ()):
                raise self._unknown(name)
            remaining = now.model_copy(update={"tokens": tokens, "people": people or None})
            agents = all(each.kind == "agent" for each in now.tokens if each.name == name)
            had_login = len(people) < len(now.people or ())
            return (
                remaining if agents and not had_login else remaining.without_holder(name, self._clock())
            )

        self.replace(without)
        return self.given_up(name) is not None

    def _unknown(self, name: str) -> TokenError:
        quoted_names = {f"'{each.name}'" for each in (*self.tokens(), *self.people())}
        names = ", ".join(sorted(quoted_names)) or "none"
        return TokenError(f"no token is named '{name}'; there are: {names}")

    def _new(
        self,
        kind: Kind,
        name: str,
        owner: str | None,
        rights: Rights | None,
        labels: tuple[str, ...] | None,
    ) -> tuple[str, TokenEntry]:
        secret = PREFIXES[kind] + secrets.token_urlsafe(32)
        return secret, TokenEntry(
            id=uuid4().hex[:12],
            kind=kind,
            name=name,
            digest=digest_of(secret),
            created=self._clock(),
            owner=owner,
            rights=rights,
            labels=labels,
        )

    # The file

    def _read(self) -> TokenContent:
        try:
            # Checked for each message: `Path.stat` takes several times as long.
            if self._file_state is not None and _look_of(os.stat(self._file)) == self._file_state:
                return self._content
            with _open_private(self.path) as file:
                file_state = _look_of(os.fstat(file.fileno()))
                if file_state != self._file_state:
                    self._content, self._file_state = _parse(self.path, file.read()), file_state
        except FileNotFoundError:
            self._file_state, self._content = None, TokenContent()
        except (OSError, UnicodeDecodeError) as error:
            raise TokenError(f"{self.path}: cannot be read: {error}") from error
        return self._content

    def _write_tokens(self, tokens: tuple[TokenEntry, ...]) -> None:
        """Replace the tokens in the file."""
        self._write(self._read().model_copy(update={"tokens": tokens}))

    def _write(self, content: TokenContent) -> None:
        """Replace the file by a complete new one."""
        text = content.model_dump_json(indent=2, exclude_none=True)
        write_private(self.path, text + "\n")
        self._file_state = None


@contextmanager
def alone(file: Path) -> Generator[None, None, None]:
    """Lock a file against other writers, so that none of them restores a revoked token.

    Raises `TokenError`.
    """
    path = file.with_name(f".{file.name}.lock")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise TokenError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _look_of(status: os.stat_result) -> tuple[int, ...]:
    """Fields of a file's status of which at least one changes with its content, owner or mode."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_mode,
        status.st_uid,
    )


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read; concurrent readers see the old or the new content.

    Raises `TokenError`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Created with mode 0600.
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise TokenError(f"{path}: cannot be written: {error.strerror}") from error


def read_secret(path: Path) -> str:
    """Read the token from a file of its owner, for clients on this machine. Raises `TokenError`."""
    try:
        secret = read_private(path).strip()
    except FileNotFoundError as error:
        raise TokenError(f"{path}: there is no token; `interlock serve` makes one") from error
    check_secret(secret, str(path))
    return secret


def read_private(path: Path) -> str:
    """Read a file that only its owner may read. Raises `TokenError` and `FileNotFoundError`."""
    try:
        with _open_private(path) as file:
            return file.read()
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise TokenError(f"{path}: cannot be read: {error}") from error


def _open_private(path: Path) -> TextIO:
    """Open a file that only its owner may read or write. Raises `TokenError` and `OSError`."""
    # Non-blocking, in case the file is a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        check_private(path, os.fstat(descriptor))
        return os.fdopen(descriptor, encoding="utf-8")
    except BaseException:
        os.close(descriptor)
        raise


def check_secret(secret: str, where: str) -> None:
    """Check that a token is one word that fits in a header. Raises `TokenError` that omits the token."""
    if not _SECRET.fullmatch(secret):
        raise TokenError(
            f"{where}: it does not contain a token; expected one like ilk_agent_…, on one line"
        )


def check_private(path: Path, status: os.stat_result) -> None:
    """Check that only the owner may read or write this file. Raises `TokenError`."""
    if not stat.S_ISREG(status.st_mode):
        raise TokenError(f"{path}: is not a file")
    if status.st_uid not in (os.geteuid(), 0):
        raise TokenError(f"{path}: belongs to another user")
    wide = stat.S_IMODE(status.st_mode)
    if wide & 0o077:
        raise TokenError(
            f"{path}: others may read or write it (mode {wide:04o}); run: chmod 600 '{path}', and rotate "
            "the tokens if somebody has read them"
        )


def _parse(path: Path, text: str) -> TokenContent:
    try:
        return TokenContent.model_validate(json.loads(text))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise TokenError(f"{path}: {where}: {first['msg']}") from error
    except ValueError as error:
        raise TokenError(f"{path}: is not JSON: {error}") from error


def _name(text: str) -> str:
    name = text.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise TokenError(f"a token's name is one line of 1 to {LONGEST_NAME} characters, found {text!r}")
    return name


def _rights(kind: Kind, rights: Rights | None) -> Rights | None:
    """Return the rights of a new token of this kind. Raises `TokenError`."""
    if kind == "operator":
        return rights or FULL
    if rights is not None:
        raise TokenError("an agent's token has no kind: only an operator's token has one")
    return None


def _labels(kind: Kind, labels: Iterable[str]) -> tuple[str, ...] | None:
    """Return the labels of a new token of this kind, `None` for none. Raises `TokenError`."""
    try:
        token_labels = checked_labels(labels)
    except ValueError as error:
        raise TokenError(str(error)) from error
    if token_labels and kind != "agent":
        raise TokenError(
            "an operator's token has no labels: an agent's gives them to its sessions, and those that an "
            "operator starts get them from interlock run --label"
        )
    return token_labels or None


def _owner(kind: Kind, owner: str | None, tokens: tuple[TokenEntry, ...]) -> str | None:
    """Return the owner of a token of this kind. Raises `TokenError`.

    An owner whose name people confuse with an operator's would let that operator count as another person
    (G-77).
    """
    if owner is None:
        return None
    if kind != "agent":
        raise TokenError("an operator's token is the operator's own: only an agent's has an owner")
    owner, shape = _name(owner), name_shape(owner)
    operators = [each.name for each in tokens if each.kind == "operator"]
    alike = next((each for each in operators if name_shape(each) == shape), None)
    if alike is not None and not is_among(owner, operators):
        raise TokenError(
            f"the owner '{owner}' is easily taken for the operator '{alike}': give that name as it is"
        )
    return owner


def _check_distinct(
    kind: Kind, name: str, tokens: tuple[TokenEntry, ...], people: tuple[Person, ...]
) -> None:
    """Raise `TokenError` for a name of another token, or one that people confuse with it (G-77).

    An operator's name must also be distinct from the owners of agents' tokens and from people who log in
    at a provider.
    """
    if (
        person := next((each for each in people if name_shape(each.name) == name_shape(name)), None)
    ) is not None:
        raise TokenError(
            f"'{name}' is easily taken for '{person.name}', who logs in as {person.login}: choose "
            "another "
            f"name, or have that one given up: interlock token revoke {quote(person.name)}"
        )
    if any(each.name == name for each in tokens):
        raise TokenError(f"there is a token named '{name}': rotate it, or choose another name")
    shape = name_shape(name)
    for token in tokens:
        if name_shape(token.name) == shape:
            raise TokenError(
                f"'{name}' is easily taken for '{token.name}', for whom there is a token: choose a name "
                "that differs in more than case, accents, script or digits"
            )
        owner = token.owner if kind == "operator" else None
        if owner is not None and name_shape(owner) == shape and not same_person(owner, name):
            raise TokenError(
                f"'{name}' is easily taken for '{owner}', who owns the token of '{token.name}': choose a "
                "name that differs in more than accents, script or digits"
            )
