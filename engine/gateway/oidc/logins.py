"""Logins of operators at a server: an ID token of the provider is exchanged for a token of this server.

A person at the provider keeps the name under which they first logged in, even if the provider renames
them, and nobody else gets it: approvals by two people are told apart by name (G-77). A name that a
configuration or a token already uses is never given to another person because of a claim.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import uuid4

from ...core.approvers import Operators
from ...core.clock import Clock, utc_now
from ...core.people import name_shape, person_key, same_person
from ...core.sanitize import visible
from ..protocol.login_exchange import OpenLogin
from ..protocol.server_proof import digest_of
from ..protocol.tokens import PREFIXES, Person, TokenContent, TokenEntry, TokenFile
from .login_terms import Claimant, LoginRefusedError, LoginTerms, claimant_of
from .provider import FRESH, LEEWAY, InvalidIdTokenError, Provider

MAX_LOGINS = 16
"""Maximum number of concurrent logins of one person; a further one ends the oldest."""

log = logging.getLogger(__name__)


class OperatorLogins:
    """Logins under these terms, with their tokens. `operators` returns the configured operators."""

    def __init__(
        self,
        terms: LoginTerms,
        tokens: TokenFile,
        operators: Callable[[], Operators] = Operators,
        *,
        provider: Provider | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self.terms = terms
        self._tokens = tokens
        self._operators = operators
        self._clock = clock
        self._provider = provider or Provider(terms.issuer, lambda: clock().timestamp())
        self._used: dict[str, float] = {}
        # Which ID tokens were used before the start is not known.
        self._since = int(clock().timestamp())

    async def open(self, id_token: str, nonce: str | None = None) -> OpenLogin:
        """Exchange an ID token, which can be used once, for a token of its person.

        Raises `LoginRefusedError`, `InvalidIdTokenError`, `ProviderError` and `TokenError`.
        """
        claims = await self._provider.check(id_token, self.terms.audiences, nonce)
        if claims.iat < self._since:
            raise InvalidIdTokenError("it was made before this server began: log in again")
        self._use_once(id_token)
        claimant = claimant_of(claims, self.terms)
        latest = self._clock() + timedelta(seconds=self.terms.session)
        secret = PREFIXES["operator"] + secrets.token_urlsafe(32)
        entry = TokenEntry(
            id=uuid4().hex[:12],
            kind="operator",
            name=claimant.name,
            digest=digest_of(secret),
            created=self._clock(),
            ends=self._until(latest),
            latest=None if self.terms.recheck is None else latest,
            rights=claimant.rights,
            login=claimant.login,
            groups=claimant.groups,
        )
        self._tokens.replace(lambda now: self._with_login(now, claimant, entry))
        new_entry = next(each for each in self._tokens.tokens() if each.id == entry.id)
        log.info("'%s' has logged in as %s", visible(new_entry.name), visible(claimant.login))
        return _open_login(new_entry, secret)

    async def renew(self, secret: str, id_token: str) -> OpenLogin:
        """Give a login its person's current rights and groups. Its latest end stays the same.

        A person who may no longer log in is logged out. Raises the errors of `open`.
        """
        claims = await self._provider.check(id_token, self.terms.audiences)
        self._use_once(id_token)
        entry = self._entry(secret)
        try:
            claimant = claimant_of(claims, self.terms)
        except LoginRefusedError:
            self.end(secret)
            raise
        if claimant.login != entry.login:
            raise LoginRefusedError(f"this is the login of another person than '{visible(entry.name)}'")
        update: dict[str, object] = {"rights": claimant.rights, "groups": claimant.groups}
        if entry.latest is not None:
            update["ends"] = self._until(entry.latest)
        new = entry.model_copy(update=update)

        def change(now: TokenContent) -> TokenContent:
            tokens = tuple(new if each.id == entry.id else each for each in now.tokens)
            return now.model_copy(update={"tokens": tokens})

        self._tokens.replace(change)
        return _open_login(new)

    def _until(self, latest: datetime) -> datetime:
        """Time until which a login is valid if role and groups were read now, at most `latest`."""
        if self.terms.recheck is None:
            return latest
        return min(latest, self._clock() + timedelta(seconds=self.terms.recheck))

    def check(self, secret: str) -> None:
        """Raise `LoginRefusedError` for a token that is not, or no longer, that of a login."""
        self._entry(secret)

    def end(self, secret: str) -> None:
        """Log out. Raises `LoginRefusedError` for a token that is not a login's, and `TokenError`."""
        entry = self._entry(secret)

        def change(now: TokenContent) -> TokenContent:
            remaining = tuple(each for each in now.tokens if each.id != entry.id)
            return now.model_copy(update={"tokens": remaining})

        self._tokens.replace(change)

    def _entry(self, secret: str) -> TokenEntry:
        identity = self._tokens.find(secret)
        tokens = () if identity is None else self._tokens.tokens()
        for each in tokens:
            if identity is not None and each.id == identity.token and each.login is not None:
                return each
        raise LoginRefusedError("this login has ended, or never was one: log in again")

    def _use_once(self, id_token: str) -> None:
        """Raise `InvalidIdTokenError` for a used ID token; when it is forgotten, it has expired."""
        now = self._clock().timestamp()
        self._used = {each: until for each, until in self._used.items() if until > now}
        # Digest of the signed part only: an elliptic-curve signature can be rewritten and stay valid.
        signed_part = id_token.rpartition(".")[0]
        digest = hashlib.sha256(signed_part.encode("utf-8", "replace")).hexdigest()
        if digest in self._used:
            raise InvalidIdTokenError("it was used before: log in again")
        self._used[digest] = now + FRESH + 2 * LEEWAY

    # Names

    def _with_login(self, now: TokenContent, claimant: Claimant, entry: TokenEntry) -> TokenContent:
        """Return the content with one more login. Raises `LoginRefusedError` for another's name."""
        people = now.people or ()
        person = next((each for each in people if each.login == claimant.login), None)
        operator = next(
            (each for each in self._operators().listed or () if each.login == claimant.login), None
        )
        if operator is not None:
            name = operator.name
        elif person is not None:
            name = person.name
        else:
            name = claimant.name
            _check_distinct_tokens(claimant, now)
        if operator is None:
            self._check_unlisted(name, claimant)
        _check_distinct_people(name, claimant, people)
        if person is None:
            people = (*people, Person(name=name, login=claimant.login, since=entry.created))
        elif person.name != name:
            # The configuration gives the person another name: logins under the earlier name end.
            people = tuple(
                each.model_copy(update={"name": name}) if each is person else each for each in people
            )
        logins = [each for each in now.tokens if each.login == claimant.login]
        over = {each.id for each in logins if each.name != name}
        over |= {each.id for each in logins[: max(0, len(logins) + 1 - MAX_LOGINS)]}
        remaining = tuple(each for each in now.tokens if each.id not in over)
        new = entry.model_copy(update={"name": name})
        content = now.model_copy(update={"tokens": (*remaining, new), "people": people})
        if person is not None and person.name != name:
            content = content.without_holder(person.name, entry.created)
        return content

    def _check_unlisted(self, name: str, claimant: Claimant) -> None:
        for operator in self._operators().listed or ():
            if name_shape(operator.name) == name_shape(name):
                raise LoginRefusedError(
                    f"'{visible(name)}' is the name of the operator '{visible(operator.name)}', and the "
                    "configuration does not say that this login is theirs. "
                    f"{_remedy(operator.name, claimant)}"
                )


def _remedy(name: str, claimant: Claimant) -> str:
    """Setting that makes a login and an operator of this name one person."""
    subject = json.dumps(visible(claimant.subject), ensure_ascii=False)
    table = json.dumps(visible(name), ensure_ascii=False)
    return f"If it is, whoever runs the server writes subject = {subject} under [operators.{table}]"


def _check_distinct_tokens(claimant: Claimant, now: TokenContent) -> None:
    """Raise `LoginRefusedError` for a new name that a token has or is confused with (G-77)."""
    name = claimant.name
    for token in now.tokens:
        if token.login != claimant.login and name_shape(token.name) == name_shape(name):
            raise LoginRefusedError(
                f"'{visible(name)}' is the name of a token here, '{visible(token.name)}', and no "
                f"setting assigns it to the person who logs in. {_remedy(token.name, claimant)}"
            )
        owner = token.owner
        if owner is not None and name_shape(owner) == name_shape(name) and not same_person(owner, name):
            raise LoginRefusedError(
                f"'{visible(name)}' is easily taken for '{visible(owner)}', who owns the token of "
                f"'{visible(token.name)}': the provider has to give another name"
            )


def _check_distinct_people(name: str, claimant: Claimant, people: tuple[Person, ...]) -> None:
    """Raise `LoginRefusedError` for a name that another person of the provider has here."""
    for person in people:
        if person.login != claimant.login and name_shape(person.name) == name_shape(name):
            alike = (
                "is the name of" if person_key(person.name) == person_key(name) else "is easily taken for"
            )
            raise LoginRefusedError(
                f"'{visible(name)}' {alike} another person who has logged in here "
                f"({visible(person.login)}). If "
                "they have left, whoever runs the server gives the name up: interlock token revoke NAME"
            )


def _open_login(entry: TokenEntry, secret: str | None = None) -> OpenLogin:
    assert entry.ends is not None
    assert entry.rights is not None
    return OpenLogin(
        name=entry.name,
        ends=entry.latest or entry.ends,
        rights=entry.rights,
        groups=entry.groups or (),
        token=secret,
    )
