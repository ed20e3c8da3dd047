"""A hostile server on the same host receives the login's cookie, but cannot use it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import ClientSession, WSMsgType, web
from playwright.async_api import Browser

from interlock.app.sources.deep_link import DeepLink
from interlock.app.web import server as front_module
from interlock.app.web.browser_key import new_challenge
from interlock.app.web.server import PROOF_LENGTH, ConsoleServer
from interlock.app.web.tabs import Console

from .fronts import (
    KEY,
    NEEDS_CHROMIUM,
    OBEYS,
    client,
    fronted,
    log_in,
    pages,
    program,
    signature,
    small_app,
    tab,
    until,
)

REFUSED = 1008
LATER = 1013


@dataclass
class Hostile:
    """A hostile server on a port of the host, with the cookies and proofs that it received."""

    url: str = ""
    cookies: dict[str, str] = field(default_factory=dict[str, str])
    proofs: list[str] = field(default_factory=list[str])

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Accept every request and keep its cookies and proof."""
        self.cookies.update(request.cookies)
        if request.path.startswith("/ws/"):
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            await socket.send_json(["challenge", new_challenge()])
            self.proofs.append((await socket.receive()).data)
            return socket
        return web.Response(text="<title>A preview</title>", content_type="text/html")


@asynccontextmanager
async def hostile(port: int = 0) -> AsyncGenerator[Hostile, None]:
    got = Hostile()
    app = web.Application()
    app.router.add_get("/{path:.*}", got.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        got.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield got
    finally:
        await runner.cleanup()


class Starts:
    """A console factory that counts the processes started for tabs."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, place: DeepLink) -> Console:
        self.count += 1
        return small_app(place)


async def send_first_messages(
    session: ClientSession, front: ConsoleServer, *messages: str | bytes
) -> tuple[bool, int | None]:
    """Send a tab's first messages; return whether anything followed the challenge, and the close code."""
    async with session.ws_connect(front.url + "/ws/", headers={"Origin": front.url}) as socket:
        kind, _ = await socket.receive_json()
        assert kind == "challenge"
        for each in messages:
            await (socket.send_bytes(each) if isinstance(each, bytes) else socket.send_str(each))
        async for _ in socket:
            return True, None
        return False, socket.close_code


def forged_messages(front: ConsoleServer) -> list[str | bytes]:
    """Return first messages of a program that has only the cookie."""
    mine = signature(KEY, front.url, new_challenge())
    return [
        json.dumps(["resize", {"width": 80, "height": 24}]),
        json.dumps(["stdin", "a"]),
        json.dumps(["proof", ""]),
        json.dumps(["proof", None]),
        json.dumps(["proof", "ä"]),
        json.dumps(["proof", mine]),
        json.dumps(["proof", "x" * PROOF_LENGTH]),
        json.dumps(["proof", mine, mine]),
        "x" * 100_000,
        b"\0",
        "",
    ]


@pytest.mark.slow
@NEEDS_CHROMIUM
@pytest.mark.asyncio(loop_scope="session")
class TestAnotherPort:
    async def test_the_cookie_opens_no_terminal(self, browser: Browser) -> None:
        """A page on another port receives the login's cookie, but starts no process with it."""
        starts = Starts()
        async with (
            fronted(starts) as front,
            hostile() as other,
            pages(browser, 2) as [page, preview],
        ):
            await log_in(page, front.link())
            await preview.goto(other.url)
            assert list(other.cookies) == [f"interlock-{front.url.rpartition(':')[2]}"]
            async with ClientSession(cookies=other.cookies) as thief:
                async with thief.get(front.url) as answer:
                    assert answer.status == 200
                for first in forged_messages(front):
                    assert await send_first_messages(thief, front, first, '["stdin", "a"]') == (
                        False,
                        REFUSED,
                    ), first
            assert starts.count == 1
            assert front.tabs == 1

    async def test_page_on_another_port_does_not_find_the_key(self, browser: Browser) -> None:
        """Scripts of that page in the operator's browser find no key and get no WebSocket."""
        async with (
            fronted() as front,
            hostile() as other,
            pages(browser, 2) as [page, preview],
        ):
            await log_in(page, front.link())
            assert await page.evaluate("async () => (await indexedDB.databases()).length") == 1
            await preview.goto(other.url)
            assert await preview.evaluate("async () => (await indexedDB.databases()).length") == 0
            socket = "new WebSocket(url.replace('http', 'ws') + '/ws/')"
            assert await preview.evaluate(
                f"url => new Promise(done => {{ const socket = {socket};"
                "socket.onopen = () => done('open'); socket.onerror = () => done('refused'); })",
                front.url,
            ) == ("refused")
            assert front.tabs == 1


@NEEDS_CHROMIUM
@pytest.mark.asyncio(loop_scope="session")
class TestTheSamePort:
    @pytest.mark.slow
    async def test_signature_for_a_replacement_server_is_invalid(self, browser: Browser) -> None:
        """A server that replaces this one receives a signature that is invalid when this one is back."""
        front = ConsoleServer(small_app)
        await front.start("127.0.0.1", 0)
        port = int(front.url.rpartition(":")[2])
        async with pages(browser, 1) as [page]:
            await log_in(page, front.link())
            await front.close()
            async with hostile(port) as other:
                await until(lambda: other.proofs, "a tab's proof")
        starts = Starts()
        async with (
            fronted(starts, logins=front.logins, port=port) as again,
            ClientSession(cookies=other.cookies) as thief,
        ):
            assert json.loads(other.proofs[0])[0] == "proof"
            assert await send_first_messages(thief, again, other.proofs[0]) == (False, REFUSED)
            async with thief.get(again.url) as answer:
                assert answer.status == 200
        assert starts.count == 0


class TestFirstMessage:
    async def test_missing_proof_closes_the_connection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A connection that sends no proof in time is closed."""
        monkeypatch.setattr(front_module, "PROOF_TIMEOUT", 0.05)
        starts = Starts()
        async with fronted(starts) as front, client(front) as session:
            assert await send_first_messages(session, front) == (False, LATER)
        assert starts.count == 0

    async def test_is_for_this_server_only(self) -> None:
        """A signature made by a page of another address opens nothing here."""
        starts = Starts()
        async with fronted(starts) as front, client(front) as session:
            for elsewhere in ("http://127.0.0.1:1", front.url.replace("127.0.0.1", "localhost")):
                async with session.ws_connect(
                    front.url + "/ws/", headers={"Origin": front.url}
                ) as socket:
                    _, challenge = await socket.receive_json()
                    await socket.send_json(["proof", signature(KEY, elsewhere, challenge)])
                    assert (await socket.receive()).type is WSMsgType.CLOSE
        assert starts.count == 0

    async def test_is_for_one_connection_only(self) -> None:
        """A signature opens no second connection."""
        async with fronted(program(OBEYS)) as front, client(front) as session:
            async with session.ws_connect(front.url + "/ws/", headers={"Origin": front.url}) as socket:
                _, challenge = await socket.receive_json()
                seen = json.dumps(["proof", signature(KEY, front.url, challenge)])
                await socket.send_str(seen)
                assert (await socket.receive_bytes()).isdigit()
            assert await send_first_messages(session, front, seen) == (False, REFUSED)

    async def test_wrong_proofs_do_not_lock_out_the_right_key(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Wrong proofs are logged a limited number of times a minute; the right key still opens a tab."""
        monkeypatch.setattr(front_module, "MAX_WRONG_LINKS", 3)
        async with fronted(program(OBEYS)) as front, client(front) as session:
            for _ in range(5):
                assert await send_first_messages(session, front, "[]") == (False, REFUSED)
            said = [record for record in caplog.records if "without its key" in record.getMessage()]
            assert len(said) == 3
            async with tab(session, front) as socket:
                assert (await socket.receive_bytes()).isdigit()

    async def test_login_that_ends_before_the_proof_opens_nothing(self) -> None:
        """A login that ends between challenge and proof opens nothing."""
        starts = Starts()
        async with fronted(starts) as front, client(front) as session:
            headers = {"Origin": front.url}
            socket = await session.ws_connect(front.url + "/ws/", headers=headers)
            _, challenge = await socket.receive_json()
            async with session.post(front.url + "/logout", headers=headers) as answer:
                assert answer.status == 204
            await socket.send_json(["proof", signature(KEY, front.url, challenge)])
            assert (await socket.receive()).type is WSMsgType.CLOSE
        assert starts.count == 0

    async def test_oldest_connections_without_proof_are_closed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The oldest connections with a cookie but no proof are closed in favour of newer ones."""
        monkeypatch.setattr(front_module, "MAX_STRANGERS", 2)
        async with fronted(program(OBEYS)) as front, client(front) as session:
            headers = {"Origin": front.url}
            first = await session.ws_connect(front.url + "/ws/", headers=headers)
            await first.receive_json()
            others = [await session.ws_connect(front.url + "/ws/", headers=headers) for _ in range(2)]
            async with asyncio.timeout(20):
                assert (await first.receive()).type in (WSMsgType.CLOSED, WSMsgType.ERROR)
            for each in (first, *others):
                await each.close()
