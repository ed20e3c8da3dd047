"""Logins of operators at a server: an ID token of the provider for a token of this server.

A person at the provider keeps the name under which they first logged in, whatever the provider calls them
later, and nobody else gets it: two people who must approve are told apart by their names (G-77). A name
that somebody has here by a configuration or a token is given to nobody by a claim.
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
"""Logins of one person at a time; one more ends the oldest."""

log = logging.getLogger(__name__)


class OperatorLogins:
    """Logins on these terms, with their tokens. `operators` gives those of the configuration."""

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
        # Nobody remembers which of those before were used.
        self._since = int(clock().timestamp())

    async def open(self, id_token: str, nonce: str | None = None) -> OpenLogin:
        """A token for the person of an ID token, which is used once.

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
        opened = next(each for each in self._tokens.tokens() if each.id == entry.id)
        log.info("'%s' has logged in as %s", visible(opened.name), visible(claimant.login))
        return _opened(opened, secret)

    async def renew(self, secret: str, id_token: str) -> OpenLogin:
        """Give a login the rights and groups that its person has by now. It ends when it did before.

        Who may not log in any more is logged out. Raises as `open`.
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
        return _opened(new)

    def _until(self, latest: datetime) -> datetime:
        """Time until which a login holds whose role and groups were read now, `latest` at the most."""
        if self.terms.recheck is None:
            return latest
        return min(latest, self._clock() + timedelta(seconds=self.terms.recheck))

    def check(self, secret: str) -> None:
        """Raises `LoginRefusedError` for a token that is no login's, or no more."""
        self._entry(secret)

    def end(self, secret: str) -> None:
        """Log out. Raises `LoginRefusedError` for a token that is no login's, and `TokenError`."""
        entry = self._entry(secret)

        def change(now: TokenContent) -> TokenContent:
            left = tuple(each for each in now.tokens if each.id != entry.id)
            return now.model_copy(update={"tokens": left})

        self._tokens.replace(change)

    def _entry(self, secret: str) -> TokenEntry:
        identity = self._tokens.find(secret)
        every = () if identity is None else self._tokens.tokens()
        for each in every:
            if identity is not None and each.id == identity.token and each.login is not None:
                return each
        raise LoginRefusedError("this login has ended, or never was one: log in again")

    def _use_once(self, id_token: str) -> None:
        """Raises `InvalidIdTokenError` for an ID token that was used; once forgotten it is too old."""
        now = self._clock().timestamp()
        self._used = {each: until for each, until in self._used.items() if until > now}
        # Of what is signed: a signature by an elliptic curve can be written as another that holds, too.
        signed = id_token.rpartition(".")[0]
        digest = hashlib.sha256(signed.encode("utf-8", "replace")).hexdigest()
        if digest in self._used:
            raise InvalidIdTokenError("it was used before: log in again")
        self._used[digest] = now + FRESH + 2 * LEEWAY

    # Names

    def _with_login(self, now: TokenContent, claimant: Claimant, entry: TokenEntry) -> TokenContent:
        """The content with one more login. Raises `LoginRefusedError` for a name that is another's."""
        people = now.people or ()
        known = next((each for each in people if each.login == claimant.login), None)
        listed = next(
            (each for each in self._operators().listed or () if each.login == claimant.login), None
        )
        if listed is not None:
            name = listed.name
        elif known is not None:
            name = known.name
        else:
            name = claimant.name
            _check_distinct_tokens(claimant, now)
        if listed is None:
            self._check_unlisted(name, claimant)
        _check_distinct_people(name, claimant, people)
        if known is None:
            people = (*people, Person(name=name, login=claimant.login, since=entry.created))
        elif known.name != name:
            # A configuration gives a person another name: no login of the name before goes on beside it.
            people = tuple(
                each.model_copy(update={"name": name}) if each is known else each for each in people
            )
        own = [each for each in now.tokens if each.login == claimant.login]
        over = {each.id for each in own if each.name != name}
        over |= {each.id for each in own[: max(0, len(own) + 1 - MAX_LOGINS)]}
        left = tuple(each for each in now.tokens if each.id not in over)
        new = entry.model_copy(update={"name": name})
        content = now.model_copy(update={"tokens": (*left, new), "people": people})
        if known is not None and known.name != name:
            content = content.without_holder(known.name, entry.created)
        return content

    def _check_unlisted(self, name: str, claimant: Claimant) -> None:
        for each in self._operators().listed or ():
            if name_shape(each.name) == name_shape(name):
                raise LoginRefusedError(
                    f"'{visible(name)}' is the name of the operator '{visible(each.name)}', and the "
                    "configuration does not say that this login is theirs. "
                    f"{_remedy(each.name, claimant)}"
                )


def _remedy(name: str, claimant: Claimant) -> str:
    """The setting by which a login and an operator of this name are one person."""
    subject = json.dumps(visible(claimant.subject), ensure_ascii=False)
    table = json.dumps(visible(name), ensure_ascii=False)
    return f"If it is, whoever runs the server writes subject = {subject} under [operators.{table}]"


def _check_distinct_tokens(claimant: Claimant, now: TokenContent) -> None:
    """Raises `LoginRefusedError` for a new name that a token has, or that is taken for one (G-77)."""
    name = claimant.name
    for each in now.tokens:
        if each.login != claimant.login and name_shape(each.name) == name_shape(name):
            raise LoginRefusedError(
                f"'{visible(name)}' is the name of a token here, '{visible(each.name)}', and nothing "
                "says that "
                f"it is of the person who logs in. {_remedy(each.name, claimant)}"
            )
        owner = each.owner
        if owner is not None and name_shape(owner) == name_shape(name) and not same_person(owner, name):
            raise LoginRefusedError(
                f"'{visible(name)}' is easily taken for '{visible(owner)}', who owns the token of "
                f"'{visible(each.name)}': the provider has to give another name"
            )


def _check_distinct_people(name: str, claimant: Claimant, people: tuple[Person, ...]) -> None:
    """Raises `LoginRefusedError` for a name that another person of the provider has here."""
    for each in people:
        if each.login != claimant.login and name_shape(each.name) == name_shape(name):
            alike = (
                "is the name of" if person_key(each.name) == person_key(name) else "is easily taken for"
            )
            raise LoginRefusedError(
                f"'{visible(name)}' {alike} another person who has logged in here "
                f"({visible(each.login)}). If "
                "they have left, whoever runs the server gives the name up: interlock token revoke NAME"
            )


def _opened(entry: TokenEntry, secret: str | None = None) -> OpenLogin:
    assert entry.ends is not None
    assert entry.rights is not None
    return OpenLogin(
        name=entry.name,
        ends=entry.latest or entry.ends,
        rights=entry.rights,
        groups=entry.groups or (),
        token=secret,
    )
