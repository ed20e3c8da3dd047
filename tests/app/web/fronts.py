"""A front with a small app behind its tabs, and browsers and programs that connect to it."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import ssl
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pyte
import pytest
from aiohttp import ClientResponse, ClientSession, ClientWebSocketResponse, CookieJar, TCPConnector
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from playwright.async_api import Browser, Page, WebSocket, async_playwright

from interlock.app.sources.deep_link import DeepLink
from interlock.app.web.browser_key import Use, signed_text
from interlock.app.web.environment import tab_environment
from interlock.app.web.logins import Logins
from interlock.app.web.server import ConsoleServer
from interlock.app.web.tabs import Console

CHROMIUM = shutil.which("chromium")
NEEDS_CHROMIUM = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium: apt-get install chromium, or a package of its name"
)
SMALL_APP = Path(__file__).with_name("small_app.py")
_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def small_app(place: DeepLink) -> Console:
    """Return a small app in place of the console: it shows its options and the input that it receives."""
    return Console(
        [sys.executable, "-P", str(SMALL_APP), *place.options], tab_environment("secret-token")
    )


def program(code: str) -> Callable[[DeepLink], Console]:
    """A tab's process that runs `code`; its first packet is the number of its process."""
    begin = (
        "import os, sys, time, signal\n"
        "def send(data): sys.stdout.buffer.write(b'D' + len(data).to_bytes(4, 'big') + data)\n"
        "sys.stdout.buffer.write(b'__GANGLION__\\n'); send(str(os.getpid()).encode())\n"
        "sys.stdout.flush()\n"
    )
    return lambda _: Console([sys.executable, "-c", begin + code], tab_environment("secret-token"))


UNTIL_QUIT = "while sys.stdin.buffer.read1(): pass\n"
"""Reads all input, including the word to quit, and ends only at the end of the input."""
OBEYS = "while b'quit' not in sys.stdin.buffer.read1(): pass\n"
"""Ends when it reads "quit"."""


@asynccontextmanager
async def fronted(
    console: Callable[[DeepLink], Console] = small_app,
    *,
    logins: Logins | None = None,
    most_tabs: int = 16,
    tls: ssl.SSLContext | None = None,
    port: int = 0,
) -> AsyncGenerator[ConsoleServer, None]:
    front = ConsoleServer(console, logins=logins, most_tabs=most_tabs)
    await front.start("127.0.0.1", port, tls)
    try:
        yield front
    finally:
        await front.close()


@asynccontextmanager
async def client(
    front: ConsoleServer, *, logged_in: bool = True, trusts: Path | None = None
) -> AsyncGenerator[ClientSession, None]:
    """A program with a cookie jar; it trusts the certificate in the file `trusts`."""
    connector = None if trusts is None else TCPConnector(ssl=ssl.create_default_context(cafile=trusts))
    async with ClientSession(cookie_jar=CookieJar(unsafe=True), connector=connector) as session:
        if logged_in:
            answer = await offer(session, front, secret_of(front.link()))
            assert answer.status == 204
        yield session


def secret_of(link: str) -> str:
    return link.partition("#")[2]


KEY = ec.generate_private_key(ec.SECP256R1())
"""The key of every program that logs in."""


def shown(key: ec.EllipticCurvePrivateKey) -> str:
    """A public key as browsers send it."""
    point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return base64.b64encode(point).decode()


def signature(key: ec.EllipticCurvePrivateKey, origin: str, challenge: str, use: Use = "terminal") -> str:
    """Return the signature that a page of `origin` sends for a challenge."""
    signed = key.sign(signed_text(origin, challenge, use), ec.ECDSA(SHA256()))
    return base64.b64encode(
        b"".join(n.to_bytes(32, "big") for n in decode_dss_signature(signed))
    ).decode()


async def offer(session: ClientSession, front: ConsoleServer, secret: str) -> ClientResponse:
    """Log in as the login page does."""
    return await offered(session, front.url, secret)


async def offered(session: ClientSession, url: str, secret: str) -> ClientResponse:
    """Log in at a server by its address."""
    offer = {"link": secret, "key": shown(KEY)}
    async with session.post(f"{url}/login", json=offer, headers={"Origin": url}) as answer:
        await answer.read()
        return answer


@asynccontextmanager
async def tab(
    session: ClientSession, front: ConsoleServer, path: str = "/ws/", **headers: str
) -> AsyncGenerator[ClientWebSocketResponse, None]:
    """A tab that has shown its key."""
    async with opened(session, front.url, path, **headers) as socket:
        yield socket


@asynccontextmanager
async def opened(
    session: ClientSession, url: str, path: str = "/ws/", **headers: str
) -> AsyncGenerator[ClientWebSocketResponse, None]:
    """A tab of a server by its address."""
    async with session.ws_connect(
        f"{url}{path}?width=90&height=30", headers={"Origin": url, **headers}
    ) as socket:
        _, challenge = await socket.receive_json()
        await socket.send_json(["proof", signature(KEY, url, challenge)])
        yield socket


async def until(reached: Callable[[], object], what: str) -> None:
    """Wait until `reached` returns something true."""
    for _ in range(2000):
        if reached():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{what} did not happen")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@asynccontextmanager
async def browsing() -> AsyncGenerator[Browser, None]:
    """A browser without a window."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(_QUIET))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def pages(
    browser: Browser, count: int, size: tuple[int, int] = (1080, 700)
) -> AsyncGenerator[list[Page], None]:
    """Pages that share their cookies with each other only."""
    context = await browser.new_context(viewport={"width": size[0], "height": size[1]})
    try:
        yield [await context.new_page() for _ in range(count)]
    finally:
        await context.close()


async def log_in(page: Page, link: str) -> None:
    """Follow a login link up to the console."""
    await page.goto(link)
    await connected(page)


async def connected(page: Page) -> None:
    """Wait until the terminal in the page has painted."""
    await page.wait_for_selector("#terminal.-connected", timeout=30_000)
    await page.wait_for_selector("body.-first-byte", timeout=30_000)


class Seen:
    """The terminal output that a page received, for tests to read: the page itself paints on a canvas.

    Create it before the page is loaded; `size` is the terminal's initial size in columns and rows.
    """

    def __init__(self, page: Page) -> None:
        self._screen = pyte.Screen(200, 70)
        self._stream = pyte.ByteStream(self._screen)
        self.size = (80, 24)
        page.on("framenavigated", lambda _: self._screen.reset())
        page.on("websocket", self._opened)

    def _opened(self, socket: WebSocket) -> None:
        asked = parse_qs(urlsplit(socket.url).query)
        self.size = (int(asked["width"][0]), int(asked["height"][0]))
        self._screen.reset()
        socket.on("framereceived", self._take)

    def _take(self, frame: bytes | str) -> None:
        if isinstance(frame, bytes):
            self._stream.feed(frame)

    def text(self) -> str:
        """Return the screen as a terminal shows the received output."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    async def until(self, *texts: str) -> str:
        """Wait until all of `texts` are on the screen."""
        for _ in range(1500):
            shown = self.text()
            if all(text in shown for text in texts):
                return shown
            await asyncio.sleep(0.02)
        raise AssertionError(f"{texts} not shown:\n{self.text()}")


def line_of(shown: str, text: str) -> tuple[int, int]:
    """Return column and row of a text on a screen. Raises `ValueError`."""
    for row, line in enumerate(shown.splitlines()):
        if text in line:
            return line.index(text), row
    raise ValueError(text)


async def click_cell(page: Page, cell: tuple[int, int], size: tuple[int, int]) -> None:
    """Click on a cell of the terminal of `size` in columns and rows."""
    box = await page.locator(".xterm-screen").bounding_box()
    assert box is not None
    column, row = cell
    await page.mouse.click(
        box["x"] + (column + 0.5) * box["width"] / size[0],
        box["y"] + (row + 0.5) * box["height"] / size[1],
    )


def processes(names: Sequence[str]) -> list[int]:
    """Return the processes whose command line contains all of `names`."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                line = (directory / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if all(name in line for name in names):
                found.append(int(directory.name))
    return found
