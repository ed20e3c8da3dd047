"""`[oidc]`: logins of operators through an OpenID Connect provider."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ...engine.core.approvers import GROUP
from ...engine.core.rights import KINDS, Rights
from ...engine.gateway.oidc.login_terms import SESSION, LoginTerms
from ...engine.gateway.oidc.provider import checked_issuer
from ...engine.gateway.protocol.login_exchange import LoginOffer
from .loader import Key
from .quantities import age, one_or_more
from .tables import SettingsTable, secret_file, secret_in

SECRET = "INTERLOCK_OIDC_SECRET"
LONGEST_SESSION = 30 * 24 * 3600.0
"""Maximum duration of a login in seconds."""
LEAST_RECHECK = 600.0
"""Shortest allowed `recheck`: seconds without a check at the provider after which a login may end.

Checks take place every five minutes.
"""


def _session(value: object) -> float:
    seconds = age(str(value)).total_seconds()
    if not 60 <= seconds <= LONGEST_SESSION:
        raise ValueError(f"expected a time from 1m to 30d, found {value!r}")
    return seconds


def _recheck(value: object) -> float:
    seconds = age(str(value)).total_seconds()
    if not LEAST_RECHECK <= seconds <= LONGEST_SESSION:
        raise ValueError(f"expected a time from 10m to 30d, found {value!r}")
    return seconds


def _scopes(scopes: tuple[str, ...]) -> tuple[str, ...]:
    if "openid" not in scopes or any(each.split() != [each] for each in scopes):
        raise ValueError('expected a list of scopes, "openid" among them, such as ["openid", "profile"]')
    return scopes


def _groups(groups: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    for each in groups:
        if not GROUP.fullmatch(each):
            raise ValueError(f"a group is one word of letters, digits, '-' and '_', found {each!r}")
    return groups


Text = Annotated[str, Field(pattern=r"\S")]
Values = Annotated[tuple[Text, ...], BeforeValidator(one_or_more)]


class OidcRoles(BaseModel):
    """`[oidc.roles]`: for each role the values of the groups claim that grant it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    look: Values = ()
    decide: Values = ()
    administer: Values = ()


class OidcSettings(SettingsTable):
    """Settings of logins through a provider. A working directory's file may not set them."""

    table: ClassVar = "oidc"

    issuer: Annotated[
        str,
        AfterValidator(checked_issuer),
        Key("the provider's URL, exactly as its discovery document has it: `https://id.example.com`"),
    ]
    client_id: Annotated[Text, Key("the client that you registered there for `interlock web`")]
    client_secret_file: Annotated[
        Text | None,
        AfterValidator(secret_file),
        Key(
            f"a file with the client's secret, which only you may read (else `{SECRET}`); none for a "
            "public client"
        ),
    ] = None
    device_client_id: Annotated[
        Text | None,
        Key("a public client for consoles, by the device flow; `client_id` if that has no secret"),
    ] = None
    scopes: Annotated[
        tuple[Text, ...],
        AfterValidator(_scopes),
        Key('the scopes that are asked for; `["openid", "profile"]` by default'),
    ] = ("openid", "profile")
    name_claim: Annotated[
        Text, Key("the claim with the operator's name; `preferred_username` by default")
    ] = "preferred_username"
    groups_claim: Annotated[Text, Key("the claim with a person's groups; `groups` by default")] = "groups"
    roles: Annotated[
        OidcRoles,
        Key('a table of roles, each with the groups at the provider that give it: `decide = ["dev"]`'),
    ] = OidcRoles()
    groups: Annotated[
        Mapping[str, Values],
        AfterValidator(_groups),
        Key(
            "a table of groups for rules (`of security`), each with the groups at the provider whose "
            'members are in it: `security = ["sec-team"]`'
        ),
    ] = {}
    default_role: Annotated[
        Rights | None, Key("the role of people without one; by default they do not get in")
    ] = None
    session: Annotated[
        float, BeforeValidator(_session), Key('how long a login lasts; `"8h"` by default')
    ] = SESSION
    recheck: Annotated[
        float | None,
        BeforeValidator(_recheck),
        Key(
            "how long a login lasts until role and groups are read again at the provider, "
            '`"1h"`; by default as long as `session`'
        ),
    ] = None

    @property
    def device_client(self) -> str | None:
        """Id of the client for the device flow.

        `None` if there is none: consoles cannot keep a secret.
        """
        is_public = self.client_secret_file is None and SECRET not in os.environ
        return self.device_client_id or (self.client_id if is_public else None)

    @property
    def terms(self) -> LoginTerms:
        """Terms of logins at this server."""
        device = self.device_client
        return LoginTerms(
            issuer=self.issuer,
            audiences=tuple(dict.fromkeys([self.client_id, *([] if device is None else [device])])),
            name_claim=self.name_claim,
            groups_claim=self.groups_claim,
            roles={role: getattr(self.roles, role) for role in KINDS},
            groups=self.groups,
            default_role=self.default_role,
            session=self.session,
            recheck=self.recheck,
        )

    @property
    def offer(self) -> LoginOffer:
        """Data about the provider that consoles need."""
        return LoginOffer(issuer=self.issuer, client_id=self.device_client, scopes=self.scopes)

    def secret(self, environ: Mapping[str, str] | None = None) -> str | None:
        """Return the client's secret; `None` for a public client. Raises `SettingsError`."""
        environ = os.environ if environ is None else environ
        if self.client_secret_file is None:
            return environ.get(SECRET) or None
        return secret_in(self.client_secret_file, "[oidc]: client_secret_file", "the client's secret")


def oidc_settings(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> OidcSettings | None:
    """Return `[oidc]` of the user's file, or of the file named instead, if any.

    Raises `SettingsError`.
    """
    return OidcSettings.read(environ, directory)[1]
