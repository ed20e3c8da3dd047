"""Requests that the front refuses at once: other host names, other pages, missing logins."""

from __future__ import annotations

import asyncio
import socket

import pytest
from aiohttp import WSMsgType, WSServerHandshakeError

from interlock.app.web.server import MAX_WRONG_LINKS, ConsoleServer

from .fronts import OBEYS, client, fronted, offer, program, secret_of, small_app, tab, until

EVERYWHERE = (
    "/",
    "/s/abc",
    "/a/abc",
    "/ws/",
    "/ws/s/abc",
    "/login/state",
    "/logout",
    "/terminal/js/textual.js",
)


async def send_raw(front: ConsoleServer, request: str) -> str:
    """Send a request byte by byte as given and return the answer."""
    port = int(front.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.replace("\n", "\r\n").encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return answer.decode()


class TestWithoutLogin:
    @pytest.mark.parametrize("path", EVERYWHERE)
    async def test_every_path_shows_the_login_page(self, path: str) -> None:
        """Without a login every path shows only the login page, even on loopback."""
        async with fronted() as front, client(front, logged_in=False) as session:
            async with session.get(front.url + path, headers={"Origin": front.url}) as answer:
                assert answer.status == 401
                text = await answer.text()
            assert "textual" not in text
            assert "data-session" not in text

    async def test_no_process_is_started(self) -> None:
        """A WebSocket without the cookie is refused, and no process is started."""
        async with fronted() as front, client(front, logged_in=False) as session:
            with pytest.raises(WSServerHandshakeError) as refusal:
                async with tab(session, front):
                    pass
            assert refusal.value.status == 401
            assert front.tabs == 0

    async def test_cookie_of_another_server_is_refused(self) -> None:
        """The cookie of one server does not log in at another server on the same machine."""
        async with fronted() as one, fronted() as other, client(one) as session:
            for cookie in list(session.cookie_jar):
                port = other.url.rpartition(":")[2]
                session.cookie_jar.update_cookies({f"interlock-{port}": cookie.value})
            async with session.get(one.url) as answer:
                assert answer.status == 200
            async with session.get(other.url) as answer:
                assert answer.status == 401

    async def test_cookie_is_http_only_and_same_site(self) -> None:
        """The cookie is HttpOnly, SameSite=Strict and has no domain."""
        async with fronted() as front, client(front, logged_in=False) as session:
            answer = await offer(session, front, secret_of(front.link()))
        said = answer.headers["Set-Cookie"].lower()
        assert "httponly" in said
        assert "samesite=strict" in said
        assert "domain" not in said

    async def test_a_used_link_is_refused(self) -> None:
        """A link is useless to a thief after its use."""
        async with fronted() as front, client(front, logged_in=False) as owner:
            secret = secret_of(front.link())
            assert (await offer(owner, front, secret)).status == 204
            async with client(front, logged_in=False) as thief:
                answer = await offer(thief, front, secret)
                assert answer.status == 403
                assert "or was replaced by a newer one" in await answer.text()
                assert "Set-Cookie" not in answer.headers
                async with thief.get(front.url) as page:
                    assert page.status == 401

    @pytest.mark.parametrize(
        "pasted", ["", "interlock web", "http://127.0.0.1:8738/", "x" * 42, "ü" * 43]
    )
    async def test_text_other_than_a_link_is_reported(self, pasted: str) -> None:
        """Text that is not a login link is reported as such, not as a used link."""
        async with fronted() as front, client(front, logged_in=False) as session:
            answer = await offer(session, front, pasted)
            assert answer.status == 403
            assert (await answer.text()).startswith("This is not a login link. Paste all of the link")

    async def test_wrong_links_are_limited_and_the_right_one_works(self) -> None:
        """After several wrong links further ones get 429; the right link still logs in."""
        async with fronted() as front, client(front, logged_in=False) as session:
            secret = secret_of(front.link())
            statuses = [
                (await offer(session, front, f"guess {n}")).status for n in range(MAX_WRONG_LINKS + 3)
            ]
            assert statuses == [403] * MAX_WRONG_LINKS + [429] * 3
            assert (await offer(session, front, secret)).status == 204

    async def test_overlong_login_body_is_refused(self) -> None:
        """A login body that is far too long is refused."""
        async with fronted() as front, client(front, logged_in=False) as session:
            assert (await offer(session, front, "x" * 100_000)).status == 413


class TestOtherNames:
    @pytest.mark.parametrize(
        "host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example"]
    )
    async def test_another_host_is_refused(self, host: str) -> None:
        """Requests under any other host name are refused, even for the login page."""
        async with fronted() as front, client(front) as session:
            for path in (*EVERYWHERE, "/login", "/static/login.js"):
                async with session.get(front.url + path, headers={"Host": host}) as answer:
                    assert answer.status == 421

    async def test_two_hosts_or_none_are_refused(self) -> None:
        """A request with two Host headers or none is refused."""
        async with fronted() as front:
            name = front.url.removeprefix("http://")
            both = await send_raw(front, f"GET / HTTP/1.1\nHost: {name}\nHost: evil.example\n\n")
            none = await send_raw(front, "GET / HTTP/1.1\n\n")
        assert both.split()[1] in ("400", "421")
        assert none.split()[1] in ("400", "421")

    async def test_other_names_of_this_machine_are_refused_with_the_address(self) -> None:
        """Other names of this machine are refused; the answer gives the server's address."""
        async with fronted() as front, client(front, logged_in=False) as session:
            port = front.url.rpartition(":")[2]
            for name in (f"localhost:{port}", f"[::1]:{port}"):
                async with session.get(front.url + "/login", headers={"Host": name}) as answer:
                    assert (answer.status, front.url in await answer.text()) == (421, True)

    async def test_localhost_has_both_addresses(self) -> None:
        """A server on `localhost` listens on both its addresses and is reached by that name only."""
        front = ConsoleServer(small_app)
        try:
            url = await front.start("localhost", 0)
            port = int(url.removeprefix("http://localhost:"))
            async with client(front, logged_in=False) as session:
                for address in ("127.0.0.1", "[::1]"):
                    async with session.get(
                        f"http://{address}:{port}/login", headers={"Host": f"localhost:{port}"}
                    ) as answer:
                        assert answer.status == 200
                async with session.get(f"http://127.0.0.1:{port}/login") as answer:
                    assert answer.status == 421
        finally:
            await front.close()

    async def test_partly_occupied_localhost_is_refused(self) -> None:
        """The server does not start on `localhost` if another program listens at one of its addresses."""
        with socket.socket(socket.AF_INET6) as other:
            other.bind(("::1", 0))
            other.listen()
            front = ConsoleServer(small_app)
            with pytest.raises(OSError, match="in use"):
                await front.start("localhost", other.getsockname()[1])
            await front.close()


class TestOtherPages:
    @pytest.mark.parametrize(
        "origin",
        [
            "http://evil.example",
            "null",
            "http://127.0.0.1",
            "http://localhost:{port}",
            "https://127.0.0.1:{port}",
            "http://127.0.0.1:{port}.evil.example",
            "",
        ],
    )
    async def test_a_websocket_of_another_page_is_refused(self, origin: str) -> None:
        """Even with the cookie, only a page of exactly this address gets a terminal."""
        async with fronted() as front, client(front) as session:
            port = front.url.rpartition(":")[2]
            with pytest.raises(WSServerHandshakeError) as refusal:
                async with tab(session, front, Origin=origin.format(port=port)):
                    pass
            assert refusal.value.status == 403
            assert front.tabs == 0

    async def test_a_websocket_without_an_origin_is_refused(self) -> None:
        """Programs without an origin are refused; they connect with their own token instead."""
        async with fronted() as front, client(front) as session:
            with pytest.raises(WSServerHandshakeError) as refusal:
                async with session.ws_connect(front.url + "/ws/"):
                    pass
            assert refusal.value.status == 403

    async def test_request_marked_cross_site_is_refused(self) -> None:
        """A request that the browser marks as cross-site is refused, whatever its Origin."""
        async with fronted() as front, client(front) as session:
            with pytest.raises(WSServerHandshakeError):
                async with tab(session, front, **{"Sec-Fetch-Site": "cross-site"}):
                    pass

    async def test_foreign_form_cannot_log_in_or_out(self) -> None:
        """A form on another page can neither log in nor log out."""
        async with fronted() as front, client(front) as session:
            evil = {"Origin": "http://evil.example"}
            for path in ("/login", "/logout"):
                async with session.post(front.url + path, headers=evil) as answer:
                    assert answer.status == 403
            async with session.get(front.url) as answer:
                assert answer.status == 200


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        [
            "/static/../front.py",
            "/static/%2e%2e/front.py",
            "/static/..%2ffront.py",
            "/terminal/..%2fserver.py",
            "/terminal/%2e%2e/%2e%2e/pip/__init__.py",
            "/static//etc/passwd",
            "/static/%2fetc%2fpasswd",
            "/static/",
            "/terminal/js/",
            "/download/abc",
            "/s/..%2f..",
            "/s/-abc",
            "/s/--db=x",
            "/a/a b",
            "/s/",
        ],
    )
    async def test_other_paths_are_not_served(self, path: str) -> None:
        """No path leads out of the two directories, lists one, or becomes a command's option."""
        async with fronted() as front, client(front) as session:
            cookie = next(iter(session.cookie_jar))
            host = front.url.removeprefix("http://")
            answer = await send_raw(
                front,
                f"GET {path.replace(' ', '%20')} HTTP/1.1\nHost: {host}\n"
                f"Cookie: {cookie.key}={cookie.value}\n\n",
            )
            assert answer.split()[1] in ("403", "404")

    async def test_query_is_dropped(self) -> None:
        """The query is dropped, because the terminal's script would act on parts of it."""
        async with fronted() as front, client(front) as session:
            url = f"{front.url}/s/abc?ping=http://evil.example&delay=1"
            async with session.get(url, allow_redirects=False) as answer:
                assert answer.status == 303
                assert answer.headers["Location"] == "/s/abc"


class TestHeaders:
    @pytest.mark.parametrize("path", ["/", "/login", "/nothing", "/static/login.js"])
    async def test_every_answer_has_protective_headers(self, path: str) -> None:
        """No answer may be framed, sniffed, stored, or load anything from elsewhere."""
        async with (
            fronted() as front,
            client(front) as session,
            session.get(front.url + path) as answer,
        ):
            headers = answer.headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert "aiohttp" not in headers["Server"]

    async def test_each_page_has_its_own_nonce(self) -> None:
        """Each page has its own nonce, so that no style sheet of one page is allowed on another."""
        async with fronted() as front, client(front) as session:
            policies = set()
            for _ in range(2):
                async with session.get(front.url) as answer:
                    policies.add(answer.headers["Content-Security-Policy"])
        assert len(policies) == 2


class TestManyTabs:
    async def test_number_of_tabs_is_limited(self) -> None:
        """A tab above the limit gets the reason and no process; a closed tab makes room."""
        async with (
            fronted(program(OBEYS), most_tabs=2) as front,
            client(front) as session,
            tab(session, front) as first,
            tab(session, front) as second,
        ):
            await first.receive_bytes()
            await second.receive_bytes()
            async with tab(session, front) as third:
                refusal = await third.receive()
                assert refusal.type is WSMsgType.CLOSE
                assert "2 tabs are open" in refusal.extra
            await first.close()
            await until(lambda: front.tabs == 1, "the first tab's end")
            async with tab(session, front) as fourth:
                assert (await fourth.receive_bytes()).isdigit()

    async def test_a_port_in_use_is_an_error(self) -> None:
        """Starting on a port that is in use is an error."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            front = ConsoleServer(program(OBEYS))
            with pytest.raises(OSError, match="address already in use"):
                await front.start("127.0.0.1", taken.getsockname()[1])
