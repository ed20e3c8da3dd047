"""A real browser logs in at a provider of another site, and logs out again."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.support.oidc_provider import person

from ..fronts import NEEDS_CHROMIUM, Seen, connected, pages, until
from .signing import signing

pytestmark = [NEEDS_CHROMIUM, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.slow
class TestWalk:
    async def test_login_and_logout_at_the_provider(self, browser: Browser, tmp_path: Path) -> None:
        """The button leads to the provider and back to the page; the browser keeps no secret."""
        async with (
            signing(tmp_path) as front,
            pages(browser, 1, (900, 500)) as [page],
        ):
            front.provider.person = person("maria", "dev")
            seen, faults = Seen(page), []
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.on("console", lambda said: faults.append(said.text) if "Policy" in said.text else None)
            await page.goto(f"{front.url}/s/abc")
            await page.click("text=Log in with")
            await connected(page)
            assert page.url == f"{front.url}/s/abc"
            await seen.until("options: --session=abc")
            assert "/authorize" in front.provider.asked
            [token] = front.tokens
            kept = await page.evaluate(
                "document.cookie + JSON.stringify([{...localStorage}, {...sessionStorage}])"
            )
            assert "interlock" not in kept
            assert token not in kept + await page.content()
            await page.go_back()
            assert "code=" not in page.url
            await page.goto(f"{front.url}/logout")
            await page.click("#leave")
            await until(
                lambda: not any(each.login for each in front.server.tokens.tokens()), "the token's end"
            )
            assert faults == []

    async def test_failed_login_shows_the_reason(self, browser: Browser, tmp_path: Path) -> None:
        """A user without a role reads the reason on the page and can log in again from there."""
        async with (
            signing(tmp_path) as front,
            pages(browser, 1, (390, 844)) as [page],
        ):
            front.provider.person = person("eve", "sales")
            await page.goto(f"{front.url}/m/")
            await page.click("text=Log in with")
            await page.wait_for_selector("text=has no role here")
            await page.wait_for_url(f"{front.url}/oidc/callback")
            front.provider.person = person("eve", "staff")
            await page.click("text=Log in again")
            await page.click("text=Log in with")
            await page.wait_for_url(f"{front.url}/")
