"""Connections to `interlock web` that never log in."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import ClientSession, CookieJar

from interlock.app.web import server as front_module
from interlock.app.web.server import ConsoleServer

from ..web.fronts import offer, secret_of, small_app


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Return whether the server has ended a connection."""
    try:
        return await asyncio.wait_for(reader.read(1), 10) == b""
    except ConnectionError:
        return True


async def logged_in(front: ConsoleServer) -> bytes:
    """Return the request of a logged-in browser, with its cookie."""
    # The jar keeps cookies of IP addresses, as browsers do.
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as browser:
        assert (await offer(browser, front, secret_of(front.link()))).status == 204
        cookie = "; ".join(f"{c.key}={c.value}" for c in browser.cookie_jar)
    host = front.url.removeprefix("http://")
    return f"GET /login/state HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n".encode()


class TestStrangers:
    async def test_limit_closes_the_oldest_connection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A connection above the limit closes the oldest one, and no other."""
        monkeypatch.setattr(front_module, "MAX_STRANGERS", 3)
        front = ConsoleServer(small_app)
        await front.start("127.0.0.1", 0)
        port = int(front.url.rpartition(":")[2])
        try:
            came = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
            assert await is_closed(came[0][0])
            assert await is_closed(came[1][0])
            for reader, writer in came[2:]:
                writer.write(f"GET /login HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            for _, writer in came:
                writer.close()
        finally:
            await front.close()

    async def test_strangers_do_not_close_a_logged_in_connection(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A logged-in browser keeps its connection, however many others connect."""
        monkeypatch.setattr(front_module, "MAX_STRANGERS", 2)
        front = ConsoleServer(small_app)
        await front.start("127.0.0.1", 0)
        port = int(front.url.rpartition(":")[2])
        try:
            ask = await logged_in(front)
            inside = await asyncio.open_connection("127.0.0.1", port)
            inside[1].write(ask)
            assert (await inside[0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
            came = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
            assert await is_closed(came[0][0])
            inside[1].write(ask)
            assert (await inside[0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
            for _, writer in (*came, inside):
                writer.close()
        finally:
            await front.close()

    async def test_connections_with_only_the_cookie_are_limited(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Connections with only the cookie are limited, so that they cannot use up all open files."""
        monkeypatch.setattr(front_module, "MAX_VISITORS", 2)
        front = ConsoleServer(small_app)
        await front.start("127.0.0.1", 0)
        port = int(front.url.rpartition(":")[2])
        try:
            ask = await logged_in(front)
            came: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
            for _ in range(4):
                came.append(await asyncio.open_connection("127.0.0.1", port))
                came[-1][1].write(ask)
                assert (await came[-1][0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
            assert await is_closed(came[0][0])
            assert await is_closed(came[1][0])
            came[2][1].write(ask)
            assert (await came[2][0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
            for _, writer in came:
                writer.close()
        finally:
            await front.close()

    async def test_closed_connection_no_longer_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A closed connection no longer counts."""
        monkeypatch.setattr(front_module, "MAX_STRANGERS", 2)
        front = ConsoleServer(small_app)
        await front.start("127.0.0.1", 0)
        port = int(front.url.rpartition(":")[2])
        try:
            for _ in range(6):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await writer.wait_closed()
            for _ in range(1000):
                if not front._strangers:
                    break
                await asyncio.sleep(0.005)
            assert not front._strangers
        finally:
            await front.close()
