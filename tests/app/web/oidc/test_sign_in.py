"""Logins at a provider from the login page: the code flow from end to end, and refused logins."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from interlock.app.web.logins import LoginFile, Logins
from interlock.app.web.oidc.seal import seal, unseal
from tests.engine.gateway.served import until as met
from tests.support.oidc_provider import person

from ..fronts import KEY, fronted, opened, shown, signature, until
from .signing import Front, front_of, signing


@pytest_asyncio.fixture
async def front(tmp_path: Path) -> AsyncGenerator[Front, None]:
    async with signing(tmp_path) as running:
        yield running


def changed(url: str, **query: str | None) -> str:
    """Return the address with other parameters; `None` removes a parameter."""
    parts = urlsplit(url)
    every = {name: values[0] for name, values in parse_qs(parts.query).items()} | query
    left = {name: value for name, value in every.items() if value is not None}
    return urlunsplit(parts._replace(query=urlencode(left)))


class TestFlow:
    @pytest.mark.slow
    async def test_login_has_its_own_token(self, front: Front) -> None:
        """Tabs get the token of the logged-in operator, with its role; no answer contains the token."""
        front.provider.person = person("maria", "dev", "sec-team")
        async with front.program() as session:
            answer = await front.log_in(session)
            assert answer.status == 200
            assert await front.is_in(session)
            async with opened(session, front.url) as socket:
                await socket.receive()
            [token] = front.tokens
            identity = front.server.tokens.find(token)
            assert identity is not None
            assert (identity.name, identity.rights, identity.groups) == ("maria", "decide", ("security",))
            assert token not in await answer.text()
            assert token not in str(answer.headers)

    async def test_request_has_pkce_state_and_nonce(self, front: Front) -> None:
        """The request has PKCE, a state and a nonce, and names exactly the server's callback address."""
        async with front.program() as session:
            query = parse_qs(urlsplit(await front.start(session)).query)
        assert query["response_type"] == ["code"]
        assert query["code_challenge_method"] == ["S256"]
        assert query["redirect_uri"] == [f"{front.url}/oidc/callback"]
        assert query["client_id"] == ["interlock"]
        assert query["scope"] == ["openid profile"]
        assert all(len(query[name][0]) >= 43 for name in ("state", "nonce", "code_challenge"))

    @pytest.mark.slow
    async def test_cookies_of_flow_and_login(self, front: Front) -> None:
        """The flow's cookie has its own path and is deleted at the end; the login's cookie is strict."""
        async with front.program() as session:
            url = await front.start(session)
            flow = next(each for each in session.cookie_jar if "oidc" in each.key)
            assert (flow["samesite"], flow["httponly"], flow["path"]) == ("Lax", True, "/oidc/")
            answer = await front.follow(session, await front.answer(session, url))
            login = next(each for each in session.cookie_jar if "oidc" not in each.key)
            assert (login["samesite"], login["httponly"]) == ("Strict", True)
            assert not [each for each in session.cookie_jar if "oidc" in each.key]
            assert "no-store" in answer.headers["Cache-Control"]
            assert "no-referrer" in answer.headers["Referrer-Policy"]
            assert "form-action 'none'" in answer.headers["Content-Security-Policy"]

    @pytest.mark.slow
    async def test_confidential_client_needs_its_secret(self, tmp_path: Path) -> None:
        """A confidential client logs in with its secret; a client without the secret is refused."""
        async with signing(tmp_path) as public, public.program() as session:
            public.provider.secret = "s3cret-of-the-client"
            async with front_of(public.server, public.provider) as front:
                assert (await front.log_in(session)).status == 200
            assert (await public.log_in(session)).status == 403  # This client has no secret.

    async def test_login_page_names_the_provider(self, front: Front) -> None:
        """The login page names the provider; a page without a provider does not offer such a login."""
        async with front.program() as session:
            async with session.get(f"{front.url}/login") as answer:
                assert f"Log in with {front.sign_in.issuer}" in await answer.text()
            async with fronted() as plain, session.get(f"{plain.url}/login") as answer:
                assert "Log in with" not in await answer.text()

    @pytest.mark.slow
    async def test_cookie_without_the_key_gets_no_console(self, front: Front) -> None:
        """A program that has the login's cookie but not its key gets no console."""
        async with front.program() as session:
            await front.log_in(session)
            async with session.ws_connect(f"{front.url}/ws/", headers={"Origin": front.url}) as socket:
                _, challenge = await socket.receive_json()
                await socket.send_json(["proof", signature(KEY, "http://elsewhere", challenge)])
                await socket.receive()
                assert socket.close_code == 1008
        assert not front.tokens


class TestAttacks:
    async def refused(self, front: Front, location: str) -> str:
        async with front.program() as session:
            return await self.refused_in(front, session, location)

    async def refused_in(self, front: Front, session: object, location: str) -> str:
        answer = await front.follow(session, location)  # type: ignore[arg-type]
        assert answer.status in (403, 429, 502)
        assert not await front.is_in(session)  # type: ignore[arg-type]
        return await answer.text()

    async def test_unknown_state_is_no_login(self, front: Front) -> None:
        """An answer with an unknown state or without a state is not a login."""
        async with front.program() as session:
            location = await front.answer(session, await front.start(session))
            for state in ("x" * 43, "", None):
                said = await self.refused_in(front, session, changed(location, state=state))
                assert "belongs to no login of this browser" in said

    @pytest.mark.slow
    async def test_answer_of_another_browser_is_no_login(self, front: Front) -> None:
        """Another browser's answer logs no one in, and stays usable for its own browser."""
        async with front.program() as attacker:
            location = await front.answer(attacker, await front.start(attacker))
            assert "belongs to no login of this browser" in await self.refused(front, location)
            async with front.program() as victim:
                await front.start(victim)
                await self.refused_in(front, victim, location)
            assert (await front.follow(attacker, location)).status == 200

    @pytest.mark.slow
    async def test_used_answer_is_refused(self, front: Front) -> None:
        """A code and a state are accepted only once, even in the same browser."""
        async with front.program() as session:
            url = await front.start(session)
            jar = [(each.key, each.value) for each in session.cookie_jar]
            location = await front.answer(session, url)
            assert (await front.follow(session, location)).status == 200
        async with front.program() as session:
            session.cookie_jar.update_cookies(dict(jar))
            await self.refused_in(front, session, location)

    @pytest.mark.slow
    async def test_many_started_logins_end_no_earlier_one(self, front: Front) -> None:
        """Hundreds of started logins from the same address do not end a login that began earlier."""
        async with front.program() as patient, front.program() as flood:
            location = await front.answer(patient, await front.start(patient))
            for _ in range(300):
                await front.start(flood)
            assert (await front.follow(patient, location)).status == 200
            assert await front.is_in(patient)

    async def test_foreign_or_changed_cookie_has_no_login(self, front: Front) -> None:
        """A cookie that was changed or belongs to another process belongs to no login."""
        async with front.program() as session:
            location = await front.answer(session, await front.start(session))
            flow = next(each for each in session.cookie_jar if "oidc" in each.key)
            front.sign_in._secret = "that of another process"
            said = await self.refused_in(front, session, location)
            assert "belongs to no login of this browser" in said
        async with front.program() as session:
            location = await front.answer(session, await front.start(session))
            for value in (flow.value, "x" * 40, "%", ""):
                session.cookie_jar.clear()
                session.cookie_jar.update_cookies({flow.key: value})
                assert "belongs to no login" in await self.refused_in(front, session, location)

    async def test_code_of_another_login_is_refused(self, front: Front) -> None:
        """A stolen code is refused in another login, because that login has another verifier."""
        async with front.program() as victim, front.program() as thief:
            stolen = parse_qs(urlsplit(await front.answer(victim, await front.start(victim))).query)
            own = await front.answer(thief, await front.start(thief))
            said = await self.refused_in(front, thief, changed(own, code=stolen["code"][0]))
            assert "used before" in said

    @pytest.mark.slow
    async def test_id_token_of_another_login_is_refused(self, front: Front) -> None:
        """A token with another nonce or without a nonce is refused."""
        for nonce in ("another", None):
            front.provider.claims = {"nonce": nonce}
            async with front.program() as session:
                location = await front.answer(session, await front.start(session))
                assert "another login" in await self.refused_in(front, session, location)

    @pytest.mark.slow
    async def test_answer_of_another_provider_is_refused(self, front: Front) -> None:
        """An answer that names another issuer, or no issuer where the provider sends one, is refused."""
        async with front.program() as session:
            location = await front.answer(session, await front.start(session))
            said = await self.refused_in(front, session, changed(location, iss="https://evil.example"))
            assert "another provider" in said
            location = await front.answer(session, await front.start(session))
            said = await self.refused_in(front, session, changed(location, iss=None))
            assert "does not name its provider" in said

    async def test_denial_shows_the_providers_message(self, front: Front) -> None:
        """If the provider denies the login, the page shows the provider's message as plain text."""
        front.provider.person = None
        async with front.program() as session:
            location = await front.answer(session, await front.start(session))
            location = changed(location, error_description="<script>alert(1)</script>")
            said = await self.refused_in(front, session, location)
            assert "&lt;script&gt;" in said
            assert "<script>alert" not in said

    async def test_foreign_page_begins_no_login(self, front: Front) -> None:
        """Only the server's own page begins a login; a request cannot choose the address to return to."""
        async with front.program() as session:
            for headers in ({"Origin": "https://evil.example"}, {}):
                async with session.post(
                    f"{front.url}/oidc/start", json={"key": shown(KEY)}, headers=headers
                ) as answer:
                    assert answer.status == 403
            more = {"key": shown(KEY), "next": "https://evil.example"}
            async with session.post(
                f"{front.url}/oidc/start", json=more, headers={"Origin": front.url}
            ) as answer:
                assert answer.status == 400
            async with session.get(f"{front.url}/oidc/start") as answer:
                assert answer.status == 401

    @pytest.mark.slow
    async def test_user_without_a_role_is_refused(self, front: Front) -> None:
        """A user without a role is not logged in; the page gives the reason."""
        front.provider.person = person("eve", "sales")
        async with front.program() as session:
            location = await front.answer(session, await front.start(session))
            said = await self.refused_in(front, session, location)
            assert "has no role here: the groups are sales" in said

    @pytest.mark.slow
    async def test_name_of_the_fronts_token_is_refused(self, front: Front) -> None:
        """A login whose name is that of the front's own token is refused."""
        front.provider.person = person("ada", "sre", sub="sub-eve")
        async with front.program() as session:
            location = await front.answer(session, await front.start(session))
            said = await self.refused_in(front, session, location)
            assert "is the name of a token here" in said

    @pytest.mark.slow
    async def test_unavailable_provider_keeps_existing_logins(self, front: Front) -> None:
        """While the provider is down, new logins fail and existing logins stay."""
        front.provider.person = person("maria", "dev")
        async with front.program() as inside, front.program() as outside:
            await front.log_in(inside)
            location = await front.answer(outside, await front.start(outside))
            front.provider.down = True
            said = await self.refused_in(front, outside, location)
            assert "does not answer" in said
            assert await front.is_in(inside)
            async with opened(inside, front.url) as socket:
                await socket.receive()


class TestDuration:
    @pytest.mark.slow
    async def test_logging_out_ends_the_token(self, front: Front) -> None:
        """Logging out revokes the login's token at the server."""
        front.provider.person = person("maria", "dev")
        async with front.program() as session:
            await front.log_in(session)
            [entry] = [each for each in front.server.tokens.tokens() if each.login is not None]
            async with session.post(f"{front.url}/logout", headers={"Origin": front.url}) as answer:
                assert answer.status == 204
            await until(lambda: not front.server.tokens.in_force(entry.id), "the token's end")

    @pytest.mark.slow
    async def test_roles_are_read_again(self, front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
        """With a refresh token the current role and groups apply; a login without a role ends."""
        monkeypatch.setattr("interlock.app.web.oidc.sign_in.READ_AGAIN", 0.0)
        front.provider.person = person("maria", "sre")
        async with front.program() as session:
            await front.log_in(session)

            def rights() -> str | None:
                found = [each for each in front.server.tokens.tokens() if each.login is not None]
                return found[0].rights if found else None

            assert rights() == "administer"
            front.provider.person = person("maria", "dev")
            await until(lambda: rights() == "decide", "the other role")
            front.provider.down = True
            await front.sign_in.look()
            assert await front.is_in(session)
            front.provider.down = False
            front.provider.person = person("maria")
            await until(lambda: rights() is None, "the login's end")
            assert not await front.is_in(session)

    @pytest.mark.slow
    async def test_refused_refresh_token_ends_the_login(
        self, front: Front, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A refresh token that is refused ends the login."""
        monkeypatch.setattr("interlock.app.web.oidc.sign_in.READ_AGAIN", 0.0)
        front.provider.person = person("maria", "sre")
        async with front.program() as session:
            await front.log_in(session)
            front.provider.refresh_tokens.clear()
            await front.sign_in.look()
            assert not await front.is_in(session)

    @pytest.mark.slow
    async def test_token_revoke_ends_the_login(
        self, front: Front, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`token revoke` ends the login, and its open page gets no more data; other logins stay."""
        monkeypatch.setattr("interlock.app.web.oidc.sign_in.CHECK_AGAIN", 0.0)
        front.provider.refreshes = False
        async with front.program() as session, front.program() as other:
            await front.log_in(session)
            secret = await tab_of(front, session)
            part, headers = f"{front.url}/m/part?view=/m/", {"X-Interlock-Tab": secret}
            async with session.get(part, headers=headers) as answer:
                assert answer.status == 200
            front.provider.person = person("ben-k", "dev")
            await front.log_in(other)
            front.server.tokens.revoke("maria")

            async def refused() -> bool:
                async with session.get(part, headers=headers) as answer:
                    return answer.status != 200

            assert await met(refused)
            assert not await front.is_in(session)
            assert await front.is_in(other)

    @pytest.mark.slow
    async def test_unresponsive_provider_does_not_delay_a_logout(
        self, front: Front, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Logging out ends the token even while the provider does not answer for another login."""
        monkeypatch.setattr("interlock.app.web.oidc.sign_in.READ_AGAIN", 0.0)
        monkeypatch.setattr("interlock.engine.gateway.oidc.answers.TIMEOUT", 60.0)
        async with front.program() as session, front.program() as other:
            await front.log_in(session)
            front.provider.person = person("ben-k", "dev")
            await front.log_in(other)
            front.provider.drips = True
            asked = len(front.provider.asked)
            await until(lambda: len(front.provider.asked) > asked, "a reading of roles")
            async with session.post(f"{front.url}/logout", headers={"Origin": front.url}):
                pass

            def names() -> set[str]:
                return {each.name for each in front.server.tokens.tokens() if each.login is not None}

            await until(lambda: names() == {"ben-k"}, "the end of the token")

    @pytest.mark.slow
    async def test_a_login_survives_a_restart(self, tmp_path: Path) -> None:
        """After a restart the browser keeps its token; the file holds it only sealed with the cookie."""
        file = tmp_path / "web.json"
        async with signing(tmp_path, file=file) as front, front.program() as session:
            front.provider.person = person("maria", "dev")
            await front.log_in(session)
            [entry] = [each for each in front.server.tokens.tokens() if each.login is not None]
            port = urlsplit(front.url).port or 0
            await front.front.close()
            async with front_of(front.server, front.provider, file=file, port=port) as again:
                assert await again.is_in(session)
                async with opened(session, again.url) as socket:
                    await socket.receive()
                [token] = again.tokens
                identity = front.server.tokens.find(token)
                assert identity is not None
                assert identity.token == entry.id
                assert token not in file.read_text()
            # Without a provider the login has no token and must not count as the front operator's.
            kept = Logins(file=LoginFile(file, "served"))
            async with (
                fronted(logins=kept, port=port) as plain,
                session.get(f"{plain.url}/login/state") as answer,
            ):
                assert answer.status == 401

    def test_sealed_token_is_bound_to_its_login(self) -> None:
        """A sealed token is readable only with its cookie, for its login, and if it is unchanged."""
        sealed = seal("secret", "cookie", "login")
        assert unseal(sealed, "cookie", "login") == "secret"
        assert unseal(sealed, "other", "login") is None
        assert unseal(sealed, "cookie", "other") is None
        assert unseal(sealed[:-4] + "AAA=", "cookie", "login") is None
        assert unseal("", "cookie", "login") is None
        assert seal("secret", "cookie", "login") != sealed


async def tab_of(front: Front, session: ClientSession) -> str:
    """Return the tab secret of a phone page that has proved its login's key."""
    async with session.post(f"{front.url}/m/challenge", headers={"Origin": front.url}) as answer:
        challenge = (await answer.json())["challenge"]
    proof = {"challenge": challenge, "signature": signature(KEY, front.url, challenge, "phone")}
    async with session.post(f"{front.url}/m/tab", json=proof, headers={"Origin": front.url}) as answer:
        return answer.headers["X-Interlock-Tab"]


class TestPhone:
    @pytest.mark.slow
    async def test_phone_page_shows_the_logged_in_operator(self, front: Front) -> None:
        """The phone page shows the name of the operator who logged in, not the front's own."""
        front.provider.person = person("maria", "staff")
        async with front.program() as session:
            await front.log_in(session)
            async with session.post(f"{front.url}/m/challenge", headers={"Origin": front.url}) as answer:
                challenge = (await answer.json())["challenge"]
            proof = {
                "challenge": challenge,
                "signature": signature(KEY, front.url, challenge, "phone"),
                "view": "/m/",
            }
            async with session.post(
                f"{front.url}/m/tab", json=proof, headers={"Origin": front.url}
            ) as answer:
                assert answer.status == 200
                text = await answer.text()
            assert "maria" in text
            assert "ada" not in text
