"""A real browser: it loads only from this server, types without a click, and can reopen the console."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Browser, Page

from interlock.app.web.server import ConsoleServer

from .fronts import NEEDS_CHROMIUM, Seen, click_cell, connected, fronted, line_of, log_in, pages, until

pytestmark = [NEEDS_CHROMIUM, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session")
async def front() -> AsyncGenerator[ConsoleServer, None]:
    async with fronted() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser) -> AsyncGenerator[Page, None]:
    async with pages(browser, 1, (900, 500)) as [opened]:
        yield opened


class TestLogin:
    @pytest.mark.slow
    async def test_the_link_leaves_no_secret_behind(self, front: ConsoleServer, page: Page) -> None:
        """The link opens the console; no request and no address in the history has its secret."""
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        link = front.link()
        await log_in(page, link)
        secret = link.partition("#")[2]
        assert page.url == front.url + "/"
        assert not any(secret in url for url in asked if "#" not in url)
        await page.go_back()
        assert secret not in page.url

    @pytest.mark.slow
    async def test_used_link_shows_the_reason(
        self, front: ConsoleServer, browser: Browser, page: Page
    ) -> None:
        """A used link shows a message with the reason."""
        link = front.link()
        await log_in(page, link)
        async with pages(browser, 1) as [stranger]:
            await stranger.goto(link)
            await stranger.wait_for_selector("#said:not(:empty)")
            assert "was used before" in await stranger.inner_text("#said")

    @pytest.mark.thorough
    async def test_login_on_a_deep_link_leads_there(self, front: ConsoleServer, page: Page) -> None:
        """A login on the page of a deep link leads to that deep link."""
        seen = Seen(page)
        await page.goto(front.url + "/s/abc")
        await page.fill("#link", front.link())
        await page.keyboard.press("Enter")
        await connected(page)
        assert page.url == front.url + "/s/abc"
        await seen.until("options: --session=abc")

    @pytest.mark.thorough
    async def test_link_on_another_site_uses_the_login(self, front: ConsoleServer, page: Page) -> None:
        """A link on another site opens the console, although browsers omit the strict cookie there."""
        await log_in(page, front.link())
        app = web.Application()

        async def answer(_: web.Request) -> web.Response:
            html = f"<a href='{front.url}/a/abc'>a request</a>"
            return web.Response(text=html, content_type="text/html")

        app.router.add_get("/", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.2", 0).start()
            other = await page.context.new_page()
            seen = Seen(other)
            await other.goto(f"http://127.0.0.2:{runner.addresses[0][1]}/")
            await other.click("a")
            await connected(other)
            assert other.url == front.url + "/a/abc"
            await seen.until("options: --approval=abc")
        finally:
            await runner.cleanup()

    @pytest.mark.slow
    async def test_logging_out_closes_the_tab(self, front: ConsoleServer, page: Page) -> None:
        """Logging out at `/logout` ends the console in another tab."""
        await log_in(page, front.link())
        other = await page.context.new_page()
        await other.goto(front.url + "/logout")
        await other.click("#leave")
        await page.wait_for_selector("body.-closed")
        await page.click("#again")
        await page.wait_for_selector("#link")


class TestPage:
    async def test_every_request_goes_to_this_server(self, front: ConsoleServer, page: Page) -> None:
        """Every request goes to this server, the page's policy blocks none, and no script fails."""
        asked: list[str] = []
        said: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("websocket", lambda socket: asked.append(socket.url.replace("ws:", "http:")))
        page.on("pageerror", lambda error: said.append(str(error)))
        seen = Seen(page)
        await log_in(page, front.link())
        page.on("console", lambda message: said.append(message.text))
        await page.goto(f"{front.url}/s/abc?ping=http://evil.example")
        await connected(page)
        await seen.until("options: --session=abc")
        assert len(asked) > 10
        assert [url for url in asked if not url.startswith(front.url + "/")] == []
        assert [text for text in said if not text.startswith("ping=")] == []

    @pytest.mark.thorough
    async def test_terminal_has_the_focus_without_a_click(self, front: ConsoleServer, page: Page) -> None:
        """The terminal has the focus when the page opens, and again after another tab had it."""
        seen = Seen(page)
        await log_in(page, front.link())
        await seen.until("options:")
        await page.keyboard.type("hello")
        await seen.until("typed hello")
        other = await page.context.new_page()
        await other.close()
        await page.bring_to_front()
        await page.keyboard.type("!")
        await seen.until("typed hello!")

    @pytest.mark.thorough
    async def test_browser_keys_reach_the_console(self, front: ConsoleServer, page: Page) -> None:
        """Keys that the browser would use itself reach the console."""
        seen = Seen(page)
        await log_in(page, front.link())
        await seen.until("options:")
        for key, said in (("F5", "F5 came"), ("Control+o", "^o came"), ("Control+p", "Search")):
            await page.keyboard.press(key)
            await seen.until(said)
            assert front.tabs == 1

    @pytest.mark.thorough
    async def test_help_lists_the_browsers_keys(self, front: ConsoleServer, page: Page) -> None:
        """Help lists the keys that belong to the browser."""
        seen = Seen(page)
        await log_in(page, front.link())
        await seen.until("options:")
        await page.keyboard.press("F1")
        await seen.until("HERE")
        await page.keyboard.press("End")
        await seen.until("belong to the browser")

    @pytest.mark.thorough
    async def test_the_console_follows_the_windows_size(self, front: ConsoleServer, page: Page) -> None:
        """The console is resized with the window."""
        seen = Seen(page)
        await log_in(page, front.link())
        await seen.until("size 100 by")
        await page.set_viewport_size({"width": 540, "height": 400})
        await seen.until("size 60 by")

    @pytest.mark.thorough
    async def test_a_click_reaches_its_button(self, front: ConsoleServer, page: Page) -> None:
        """A mouse click reaches a button of the console."""
        seen = Seen(page)
        await log_in(page, front.link())
        shown = await seen.until("press me")
        await click_cell(page, line_of(shown, "press me"), seen.size)
        await seen.until("clicked")

    @pytest.mark.slow
    async def test_a_closed_tab_ends_its_process(self, front: ConsoleServer, page: Page) -> None:
        """Closing the tab ends its process."""
        await log_in(page, front.link())
        assert front.tabs == 1
        await page.close()
        await until(lambda: front.tabs == 0, "the tab's end")

    @pytest.mark.thorough
    async def test_an_ended_console_can_be_opened_again(self, front: ConsoleServer, page: Page) -> None:
        """After quitting, Enter opens the console again."""
        seen = Seen(page)
        await log_in(page, front.link())
        await seen.until("options:")  # A key typed before the first paint is dropped.
        await page.keyboard.press("Control+q")
        await page.wait_for_selector("body.-closed")
        await page.keyboard.press("Enter")
        await connected(page)
        assert front.tabs == 1
