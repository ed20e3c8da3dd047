"""Logins: the name, role and groups of an operator, and attempts to get another operator's name."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from interlock.engine.core.approvers import Operator, Operators, login_id
from interlock.engine.gateway.oidc.login_terms import LoginRefusedError, LoginTerms
from interlock.engine.gateway.oidc.logins import MAX_LOGINS, OperatorLogins
from interlock.engine.gateway.oidc.provider import InvalidIdTokenError, ProviderError
from interlock.engine.gateway.protocol.tokens import TokenError, TokenFile
from tests.support.oidc_provider import CLIENT, DEVICE_CLIENT, Claims, OidcProvider, person, provided


class Place:
    """A provider, and the logins of a server that uses it."""

    def __init__(self, provider: OidcProvider, directory: Path) -> None:
        self.provider = provider
        self.now = datetime.now(UTC)
        self.tokens = TokenFile(directory / "tokens.json", lambda: self.now)
        self.operators = Operators()
        terms = LoginTerms(
            provider.issuer,
            (CLIENT, DEVICE_CLIENT),
            roles={"administer": ("sre",), "decide": ("dev",)},
            groups={"security": ("sec-team",), "oncall": ("sre",)},
        )
        self.logins = self.on(terms)

    def on(self, terms: LoginTerms) -> OperatorLogins:
        return OperatorLogins(terms, self.tokens, lambda: self.operators, clock=lambda: self.now)

    async def enter(self, claims: Claims) -> str:
        """Log in and return the operator's name."""
        return (await self.logins.open(self.provider.id_token(claims))).name

    async def refused(self, claims: Claims) -> str:
        with pytest.raises(LoginRefusedError) as caught:
            await self.enter(claims)
        return str(caught.value)


def mirrored(token: str) -> str:
    """Return the token with its other valid signature: on P-256, `n - s` instead of `s`."""
    order = 0xFFFFFFFF_00000000_FFFFFFFF_FFFFFFFF_BCE6FAAD_A7179E84_F3B9CAC2_FC632551
    said, _, signature = token.rpartition(".")
    numbers = base64.urlsafe_b64decode(f"{signature}==")
    other = numbers[:32] + (order - int.from_bytes(numbers[32:])).to_bytes(32)
    return f"{said}.{base64.urlsafe_b64encode(other).rstrip(b'=').decode()}"


@pytest_asyncio.fixture
async def place(tmp_path: Path) -> AsyncGenerator[Place, None]:
    async with provided() as provider:
        yield Place(provider, tmp_path)


class TestRoles:
    async def test_provider_groups_give_role_and_groups(self, place: Place) -> None:
        """The highest role counts; the token has the role and the groups and ends with the session."""
        opened = await place.logins.open(place.provider.id_token(person("ada", "dev", "sre", "sec-team")))
        assert (opened.name, opened.rights) == ("ada", "administer")
        assert opened.groups == ("security", "oncall")
        found = place.tokens.find(opened.token or "")
        assert found is not None
        assert found.operator == Operator(
            "ada", "administer", ("security", "oncall"), login_id(place.provider.issuer, "sub-ada")
        )
        place.now += timedelta(hours=8, seconds=1)
        assert place.tokens.find(opened.token or "") is None

    async def test_user_without_a_role_is_refused(self, place: Place) -> None:
        """The error contains the groups and the remedy, and nothing is stored."""
        said = await place.refused(person("eve", "sales"))
        assert "'eve' has no role here: the groups are sales (claim 'groups')" in said
        assert "[oidc.roles]" in said
        assert "no groups" in await place.refused(person("eve"))
        assert not place.tokens.path.exists()

    async def test_a_default_role(self, place: Place) -> None:
        """A user without another role gets the default role."""
        place.logins = place.on(replace(place.logins.terms, default_role="look"))
        opened = await place.logins.open(place.provider.id_token(person("eve")))
        assert opened.rights == "look"

    async def test_omitted_groups_are_refused(self, place: Place) -> None:
        """A user whose groups the provider omitted is refused, instead of counting as without groups."""
        claims = {**person("ada"), "groups": None, "_claim_names": {"groups": "src1"}}
        assert "too many groups" in await place.refused(claims)

    async def test_single_group_as_text_counts(self, place: Place) -> None:
        """A text counts as a list of one group; a number is no group."""
        assert await place.enter({**person("ada"), "groups": "sre"}) == "ada"
        assert "no role" in await place.refused({**person("eve"), "groups": [1, {"a": "sre"}]})


class TestNames:
    async def test_renamed_user_keeps_the_first_name(self, place: Place) -> None:
        """A user whom the provider renames keeps the first name and counts as one operator."""
        assert await place.enter(person("mallory", "dev")) == "mallory"
        assert await place.enter(person("ada", "dev", sub="sub-mallory")) == "mallory"

    async def test_name_like_another_users_is_refused(self, place: Place) -> None:
        """A name like another user's is refused until that name is revoked, also after a logout."""
        opened = await place.logins.open(place.provider.id_token(person("ada", "dev")))
        place.logins.end(opened.token or "")
        for name in ("ada", "Ada", "áda"):
            said = await place.refused(person(name, "sre", sub="sub-eve"))
            assert "another person who has logged in here" in said
        place.tokens.revoke("ada")
        assert await place.enter(person("ada", "dev", sub="sub-other")) == "ada"

    @pytest.mark.slow
    async def test_name_like_a_tokens_is_refused(self, place: Place) -> None:
        """A name like that of a token is refused, and so is one that resembles a token's owner."""
        place.tokens.issue("operator", "ben")
        place.tokens.issue("agent", "bot", "carol")
        said = await place.refused(person("ben", "dev"))
        assert 'writes subject = "sub-ben" under [operators."ben"]' in said
        assert "'bot'" in await place.refused(person("Bot", "dev"))
        assert "owns the token of 'bot'" in await place.refused(person("çarol", "dev"))
        assert await place.enter(person("carol", "dev")) == "carol"

    @pytest.mark.slow
    async def test_configured_name_requires_configured_subject(self, place: Place) -> None:
        """Only the user with the configured subject gets a configured operator's name."""
        place.operators = Operators((Operator("ada", "administer", ("dba",)),))
        assert '[operators."ada"]' in await place.refused(person("ada", "dev"))
        theirs = login_id(place.provider.issuer, "sub-ada")
        place.operators = Operators((Operator("ada", "administer", ("dba",), theirs),))
        assert await place.enter({**person("lovelace", "dev"), "sub": "sub-ada"}) == "ada"
        assert '[operators."ada"]' in await place.refused(person("ada", "dev", sub="sub-eve"))

    @pytest.mark.slow
    async def test_configured_subject_may_share_a_tokens_name(self, place: Place) -> None:
        """With the configured subject, an operator can have a token and logins under one name."""
        place.tokens.issue("operator", "ada")
        theirs = login_id(place.provider.issuer, "sub-ada")
        place.operators = Operators((Operator("ada", login=theirs),))
        assert await place.enter(person("ada", "dev")) == "ada"

    @pytest.mark.slow
    async def test_new_name_ends_earlier_logins(self, place: Place) -> None:
        """A new name ends the operator's logins under the old one."""
        opened = await place.logins.open(place.provider.id_token(person("ada2", "dev")))
        theirs = login_id(place.provider.issuer, "sub-ada2")
        place.operators = Operators((Operator("ada", login=theirs),))
        assert await place.enter(person("ada2", "dev")) == "ada"
        assert place.tokens.find(opened.token or "") is None
        assert [each.name for each in place.tokens.people()] == ["ada"]

    @pytest.mark.slow
    async def test_invalid_name_is_refused(self, place: Place) -> None:
        """A name with control characters, line breaks or only blanks, or a long one, is refused."""
        for name in ("a\u202eda", "ada\nben", " ", "a" * 65):
            assert "an operator's name is one line" in await place.refused(person(name, "dev"))
        assert "no claim 'preferred_username'" in await place.refused({"sub": "x", "groups": "dev"})

    @pytest.mark.slow
    async def test_unverified_email_is_no_name(self, place: Place) -> None:
        """An e-mail address is a name only if the provider has verified it."""
        place.logins = place.on(replace(place.logins.terms, name_claim="email"))
        claims = {**person("ada", "dev"), "email": "ada@example.com"}
        for verified in (None, False, "true", 1):
            said = await place.refused({**claims, "email_verified": verified})
            assert "has not verified" in said
        assert await place.enter({**claims, "email_verified": True}) == "ada@example.com"

    async def test_subject_can_be_the_name(self, place: Place) -> None:
        """The subject can be the name."""
        place.logins = place.on(replace(place.logins.terms, name_claim="sub"))
        assert await place.enter(person("ada", "dev")) == "sub-ada"

    @pytest.mark.slow
    async def test_token_with_an_operators_name_is_refused(self, place: Place) -> None:
        """A token gets no name like an operator's, and a login's token cannot be rotated."""
        await place.enter(person("ada", "dev"))
        for name in ("ada", "ADA"):
            with pytest.raises(TokenError, match="who logs in as"):
                place.tokens.issue("operator", name)
        with pytest.raises(TokenError, match="'ada' logs in at a provider"):
            place.tokens.rotate("ada")


class TestUse:
    async def test_an_id_token_opens_one_login(self, place: Place) -> None:
        """An ID token opens one login only."""
        token = place.provider.id_token(person("ada", "dev"))
        await place.logins.open(token)
        with pytest.raises(InvalidIdTokenError, match="used before"):
            await place.logins.open(token)

    @pytest.mark.slow
    async def test_id_token_from_before_a_restart_is_refused(self, place: Place) -> None:
        """A server refuses ID tokens from before its start, because it does not know the used ones."""
        token = place.provider.id_token(person("ada", "dev"))
        await place.logins.open(token)
        place.now += timedelta(seconds=2)
        again = place.on(place.logins.terms)
        with pytest.raises(InvalidIdTokenError, match="made before this server began"):
            await again.open(token)

    async def test_id_token_with_other_valid_signature_counts_as_used(self, place: Place) -> None:
        """An ID token under its other valid elliptic-curve signature counts as used."""
        place.provider.rotate()
        token = place.provider.id_token(person("ada", "dev"))
        await place.logins.open(token)
        with pytest.raises(InvalidIdTokenError, match="used before"):
            await place.logins.open(mirrored(token))

    async def test_logins_of_one_user_are_bounded(self, place: Place) -> None:
        """A login beyond the limit ends the oldest one."""
        first = await place.logins.open(place.provider.id_token(person("ada", "dev")))
        for _ in range(MAX_LOGINS):
            await place.enter(person("ada", "dev"))
        assert place.tokens.find(first.token or "") is None
        assert len(place.tokens.tokens()) == MAX_LOGINS

    async def test_renewal_updates_role_and_groups(self, place: Place) -> None:
        """A renewal keeps the token and its end; role and groups are those of the new ID token."""
        opened = await place.logins.open(place.provider.id_token(person("ada", "sre")))
        place.now += timedelta(minutes=5)
        new = place.provider.id_token(person("ada", "dev", "sec-team"))
        renewed = await place.logins.renew(opened.token or "", new)
        assert (renewed.rights, renewed.groups, renewed.ends) == ("decide", ("security",), opened.ends)
        found = place.tokens.find(opened.token or "")
        assert found is not None
        assert (found.rights, found.groups) == ("decide", ("security",))

    async def test_login_ends_without_recheck_renewal(self, place: Place) -> None:
        """With `recheck` a login ends after that time without a renewal."""
        place.logins = place.on(replace(place.logins.terms, session=300.0, recheck=120.0))
        opened = await place.logins.open(place.provider.id_token(person("ada", "dev")))
        token, begun = opened.token or "", place.now
        assert opened.ends == begun + timedelta(seconds=300)
        place.now = begun + timedelta(seconds=100)
        renewed = await place.logins.renew(token, place.provider.id_token(person("ada", "dev")))
        assert renewed.ends == opened.ends
        place.now = begun + timedelta(seconds=200)
        assert place.tokens.find(token) is not None
        place.now = begun + timedelta(seconds=221)
        assert place.tokens.find(token) is None
        with pytest.raises(LoginRefusedError):
            place.logins.check(token)

    async def test_renewal_does_not_extend_the_session(self, place: Place) -> None:
        """A renewal does not extend the session."""
        place.logins = place.on(replace(place.logins.terms, session=150.0, recheck=120.0))
        opened = await place.logins.open(place.provider.id_token(person("ada", "dev")))
        place.now += timedelta(seconds=100)
        await place.logins.renew(opened.token or "", place.provider.id_token(person("ada", "dev")))
        place.now += timedelta(seconds=51)
        assert place.tokens.find(opened.token or "") is None

    async def test_renewal_without_a_role_ends_login(self, place: Place) -> None:
        """A renewal without any role ends the login."""
        opened = await place.logins.open(place.provider.id_token(person("ada", "sre")))
        with pytest.raises(LoginRefusedError, match="no role"):
            await place.logins.renew(opened.token or "", place.provider.id_token(person("ada")))
        assert place.tokens.find(opened.token or "") is None

    async def test_id_token_of_another_user_renews_no_login(self, place: Place) -> None:
        """An ID token of another user renews no login, and a lasting token cannot be renewed."""
        opened = await place.logins.open(place.provider.id_token(person("ada", "dev")))
        with pytest.raises(LoginRefusedError, match="of another person"):
            await place.logins.renew(opened.token or "", place.provider.id_token(person("ben", "sre")))
        lasting = place.tokens.issue("operator", "cy", rights="look")
        with pytest.raises(LoginRefusedError, match="never was one"):
            await place.logins.renew(lasting, place.provider.id_token(person("cy", "sre")))
        with pytest.raises(LoginRefusedError, match="never was one"):
            place.logins.end(lasting)

    async def test_unavailable_provider_blocks_new_logins_only(self, place: Place) -> None:
        """If the provider is down, existing logins continue and a new one fails."""
        opened = await place.logins.open(place.provider.id_token(person("ada", "dev")))
        place.logins = place.on(place.logins.terms)
        place.provider.down = True
        with pytest.raises(ProviderError):
            await place.enter(person("ben", "dev"))
        assert place.tokens.find(opened.token or "") is not None


class TestConfiguration:
    async def test_a_configured_role_bounds_a_login(self, place: Place) -> None:
        """[operators] never gives more rights than the provider; its groups add to the login's."""
        theirs = login_id(place.provider.issuer, "sub-ada")
        place.operators = Operators((Operator("ada", "look", ("dba",), theirs),))
        opened = await place.logins.open(place.provider.id_token(person("ada", "sre")))
        found = place.tokens.find(opened.token or "")
        assert found is not None
        known = found.with_role(replace(place.operators, issuer=place.provider.issuer))
        assert known is not None
        assert (known.rights, known.role, known.groups) == ("look", "look", ("oncall", "dba"))
        issuer = place.provider.issuer
        other = Operator("ada", "administer", ("dba",), login_id(issuer, "x"))
        assert found.with_role(Operators((other,), issuer=issuer)) is None
        assert found.with_role(place.operators) is None
        assert found.with_role(Operators(issuer="https://id.example.com")) is None
        unlisted = found.with_role(Operators((Operator("ben"),), issuer=issuer))
        assert unlisted is not None
        assert (unlisted.rights, unlisted.groups) == ("administer", ("oncall",))
