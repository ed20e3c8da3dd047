"""A tab that lost its server says so, and reconnects by itself while the login lasts."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from interlock.app.web import server as front_module
from interlock.app.web.logins import LoginFile, Logins
from interlock.app.web.tabs import Tab

from .fronts import NEEDS_CHROMIUM, Seen, connected, fronted, log_in, pages, until

pytestmark = [NEEDS_CHROMIUM, pytest.mark.asyncio(loop_scope="session")]

DISCONNECTED = "Interlock (disconnected)"


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser) -> AsyncGenerator[Page, None]:
    async with pages(browser, 1, (900, 500)) as [opened]:
        yield opened


async def wait_for_title(page: Page, title: str) -> None:
    await page.wait_for_function("title => document.title === title", arg=title)


@contextmanager
def suspended_browser() -> Generator[None, None, None]:
    """Stop every process of the browser."""
    found = [
        pid for pid in children(os.getpid()) if b"chrom" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    assert found
    for pid in found:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in found:
            os.kill(pid, signal.SIGCONT)


def children(pid: int) -> Generator[int, None, None]:
    """Return all descendants of a process."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from children(child)


class TestRestart:
    @pytest.mark.slow
    async def test_tab_reconnects_after_a_server_restart(self, tmp_path: Path, page: Page) -> None:
        """The title shows the outage; the tab returns with the server, without the keys typed then."""
        file = LoginFile(tmp_path / "logins.json", "this")
        seen = Seen(page)
        sent: list[str | bytes] = []

        def keep(frame: str | bytes) -> None:
            sent.append(frame)

        async with fronted(logins=Logins(file=file)) as front:
            port = int(front.url.rpartition(":")[2])
            await log_in(page, front.link())
            await seen.until("options:")
        await wait_for_title(page, DISCONNECTED)
        assert await page.is_visible(".lost")
        await page.keyboard.type("lost")
        page.on("websocket", lambda socket: socket.on("framesent", keep))
        async with fronted(logins=Logins(file=file), port=port) as front:
            await until(lambda: front.tabs == 1, "the tab's return")
            await wait_for_title(page, "Interlock")
            assert not await page.is_visible(".lost")
            await seen.until("options:")
            await page.keyboard.type("hello")
            await seen.until("typed hello")
        assert '["focus"]' in sent

    @pytest.mark.thorough
    async def test_tab_stops_after_the_login_ended(self, page: Page) -> None:
        """If the login has ended, the tab says so and stops trying."""
        async with fronted() as front:
            port = int(front.url.rpartition(":")[2])
            await log_in(page, front.link())
        async with fronted(port=port):
            await page.wait_for_selector("body.-closed")
            assert "Your login has ended" in await page.inner_text(".ended")
            assert await page.title() == DISCONNECTED
            await page.click("#again")
            await page.wait_for_selector("#link")


class TestSleep:
    @pytest.mark.slow
    async def test_suspended_browser_gets_its_consoles_back(
        self, page: Page, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A suspended browser loses its consoles, and gets them back when it resumes."""
        monkeypatch.setattr(front_module, "HEARTBEAT", 1.0)
        seen = Seen(page)
        async with fronted() as front:
            await log_in(page, front.link())
            await seen.until("options:")
            with suspended_browser():
                await until(lambda: front.tabs == 0, "the end of the tab's process")
                monkeypatch.undo()
            await until(lambda: front.tabs == 1, "the tab's return")
            await wait_for_title(page, "Interlock")
            await seen.until("options:")
            await page.keyboard.type("hello")
            await seen.until("typed hello")

    @pytest.mark.thorough
    async def test_silent_server_counts_as_lost(
        self, page: Page, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A server that stops answering counts as lost, although the connection was not closed."""

        async def unheard(tab: Tab, text: str) -> None:
            pass

        sockets: list[str] = []
        page.on("websocket", lambda socket: sockets.append(socket.url))
        async with fronted() as front:
            await page.clock.install()
            await log_in(page, front.link())
            monkeypatch.setattr(Tab, "_handle", unheard)
            await page.clock.run_for(20_000)
            await until(lambda: len(sockets) == 2, "another connection")


class TestManyTabs:
    @pytest.mark.thorough
    async def test_tab_above_the_limit_waits(self, browser: Browser) -> None:
        """A tab above the limit opens when another tab is closed."""
        async with fronted(most_tabs=1) as front, pages(browser, 2) as [one, two]:
            await log_in(one, front.link())
            seen = Seen(two)
            await two.goto(front.url)
            await wait_for_title(two, DISCONNECTED)
            assert "1 tabs are open" in await two.inner_text("#lost")
            await one.close()
            await seen.until("options:")
            assert await two.title() == "Interlock"


class TestWithoutKey:
    @pytest.mark.thorough
    async def test_login_is_requested(self, page: Page) -> None:
        """A browser that lost its key is asked to log in, and then opens the requested page."""
        async with fronted() as front:
            await log_in(page, front.link())
            await page.evaluate("indexedDB.deleteDatabase('interlock')")
            await page.goto(front.url + "/s/abc")
            await page.wait_for_selector("body.-closed")
            assert "does not have the key of its login" in await page.inner_text(".ended")
            await page.click("#again")
            await page.fill("#link", front.link())
            await page.keyboard.press("Enter")
            await connected(page)
            assert page.url == front.url + "/s/abc"
