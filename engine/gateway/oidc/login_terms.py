"""Terms of logins: which claims of a person give which name, rights and groups here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from ...core.approvers import login_id
from ...core.people import checked_name
from ...core.rights import KINDS, Rights
from ...core.sanitize import visible
from .provider import IdToken

SESSION = 8 * 3600.0
"""Default duration of a login, in seconds."""
_FEW = 10
"""Maximum number of a person's groups that an error lists."""


class LoginRefusedError(Exception):
    """A person known to the provider who may not log in here; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class LoginTerms:
    """Terms on which a person may log in, and the name, rights and groups that result.

    `roles` and `groups` map values of the claim `groups_claim` to a role or a group; the highest role
    counts. A person without a role gets `default_role`; if there is none, the login is refused.
    `audiences` are the clients whose ID tokens are accepted. `session` is the duration of a login in
    seconds. `recheck` is the time in seconds after which role and groups must be read again; `None` means
    never during the session.
    """

    issuer: str
    audiences: tuple[str, ...]
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"
    roles: Mapping[Rights, tuple[str, ...]] = field(default_factory=dict[Rights, tuple[str, ...]])
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    default_role: Rights | None = None
    session: float = SESSION
    recheck: float | None = None


@dataclass(frozen=True, slots=True)
class Claimant:
    """A person as described by an ID token; `name` is the name that they request here."""

    login: str
    name: str
    rights: Rights
    groups: tuple[str, ...]

    @property
    def subject(self) -> str:
        """The person's subject at the provider."""
        return self.login.partition(" ")[2]


def claimant_of(claims: IdToken, terms: LoginTerms) -> Claimant:
    """Return the person described by verified claims. Raises `LoginRefusedError`."""
    values = _values(claims, terms.groups_claim)
    name = _name(claims, terms.name_claim)
    fitting: list[Rights] = [each for each in KINDS if {*terms.roles.get(each, ())} & {*values}]
    rights = fitting[-1] if fitting else terms.default_role
    if rights is None:
        raise LoginRefusedError(
            f"'{visible(name)}' has no role here: {_groups_text(terms.groups_claim, values)}; whoever "
            "runs the "
            "server can give one of them a role in [oidc.roles], or everybody one with [oidc] "
            "default_role"
        )
    groups = tuple(
        each for each, provider_groups in terms.groups.items() if {*provider_groups} & {*values}
    )
    return Claimant(login_id(claims.iss, claims.sub), name, rights, groups)


def _name(claims: IdToken, claim: str) -> str:
    value = claims.claim(claim)
    if not isinstance(value, str):
        raise LoginRefusedError(
            f"the ID token has no claim '{claim}', which should contain the operator's name: have the "
            "provider add it (often by a scope such as profile or email), or name another one in [oidc] "
            "name_claim"
        )
    if claim == "email" and claims.claim("email_verified") is not True:
        raise LoginRefusedError(
            f"the provider has not verified the e-mail address '{visible(value)}', so it may be somebody "
            "else's: have it verified there, or name another claim in [oidc] name_claim"
        )
    try:
        return checked_name(value)
    except ValueError as error:
        raise LoginRefusedError(f"the claim '{claim}': {error}") from error


def _values(claims: IdToken, claim: str) -> tuple[str, ...]:
    """Return the values of the claim with a person's groups, none if there is no such claim."""
    value = claims.claim(claim)
    elsewhere = claims.claim("_claim_names")
    if value is None and isinstance(elsewhere, dict) and claim in elsewhere:
        raise LoginRefusedError(
            f"the provider left out the claim '{claim}', since the person is in too many groups: have it "
            "send only those that matter here"
        )
    return tuple(_texts(value))


def _texts(value: JsonValue) -> Iterable[str]:
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _groups_text(claim: str, values: tuple[str, ...]) -> str:
    if not values:
        return f"the ID token has no groups (claim '{claim}')"
    more = f" and {len(values) - _FEW} more" if len(values) > _FEW else ""
    return f"the groups are {', '.join(map(visible, values[:_FEW]))}{more} (claim '{claim}')"
