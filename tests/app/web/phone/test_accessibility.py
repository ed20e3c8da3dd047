"""axe-core checks every view of the page, small and wide, light and dark, against WCAG AA."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from ..fronts import NEEDS_CHROMIUM
from .phones import SIZE, agent, awake, deploy, enter, open_request, phone, phones, run

axe = pytest.importorskip(
    "axe_playwright_python.async_playwright", reason="needs axe: pip install axe-playwright-python"
)

pytestmark = [NEEDS_CHROMIUM, pytest.mark.asyncio(loop_scope="session")]

AA = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
LONG = "\n".join(f"line {number}" for number in range(40))


async def violations(page: Page) -> list[str]:
    """Return the violations that axe finds, with their elements."""
    found = await axe.Axe().run(page, options=AA)
    return [
        f"{each['id']}: {node['html'][:120]} {node['failureSummary']}"
        for each in found.response["violations"]
        for node in each["nodes"]
    ]


class TestViews:
    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("size", "colours"), [(SIZE, "light"), ((1280, 800), "dark")], ids=["phone", "wide"]
    )
    async def test_no_view_has_violations(
        self, tmp_path: Path, browser: Browser, size: tuple[int, int], colours: str
    ) -> None:
        """Queue, request with its forms, denial, review and the decided list have no violations."""
        async with (
            phones(tmp_path) as of,
            phone(browser, size=size, colours=colours) as page,  # type: ignore[arg-type]
            agent(of) as gate,
        ):
            await enter(page, of)
            assert await violations(page) == []
            await page.tap("summary >> text=Freeze all agents")
            assert await violations(page) == []
            await of.served.hub.freeze(by="ben", reason="one")
            await page.tap("summary >> text=Lift the freeze")
            assert await violations(page) == []
            await of.served.hub.lift_freeze(by="ben", reason="looked")
            await page.wait_for_selector("summary >> text=Freeze all agents")
            of.ask(gate(run)(text=LONG))
            [request] = await of.asked()
            await open_request(page, of, request)
            for summary in await page.locator("summary").all():
                await summary.click()
            await page.wait_for_selector(".explain")
            assert await violations(page) == []
            await awake(page, "left")
            await page.tap("#left")
            assert await violations(page) == []
            await page.tap("#left")
            call = of.ask(gate(deploy)(env="prod"))
            [other] = [each for each in await of.asked(2) if each.id != request.id]
            await page.tap("nav >> text=Queue")
            await page.wait_for_selector(".rows li >> nth=1")
            assert await violations(page) == []
            await open_request(page, of, other)
            await awake(page)
            await page.tap("summary >> text=Edit the input")
            await page.fill("#f0", "staging")
            await page.tap("text=Review the changes")
            await page.wait_for_selector("[data-panel=review]")
            await awake(page)
            assert await violations(page) == []
            await page.tap("#right")
            await call
            await page.tap("nav >> text=Decided")
            await page.wait_for_selector(".verdict")
            assert await violations(page) == []

    @pytest.mark.slow
    async def test_can_be_used_by_keyboard(self, tmp_path: Path, browser: Browser) -> None:
        """The request's heading has the focus, and Tab leads from there to the deciding buttons."""
        async with phones(tmp_path) as of, phone(browser, size=(1280, 800)) as page, agent(of) as gate:
            await enter(page, of)
            call = of.ask(gate(deploy)(env="prod"))
            [request] = await of.asked()
            await page.wait_for_selector(".rows a")
            await page.keyboard.press("Tab")
            await page.keyboard.press("Enter")
            await page.wait_for_selector("article[data-view=request]")
            focused = "document.activeElement.tagName + document.activeElement.id"
            assert await page.evaluate(focused) == "H1"
            await awake(page)
            found = []
            while "BUTTONright" not in found:
                await page.keyboard.press("Tab")
                found.append(await page.evaluate(focused))
                assert len(found) < 30, found
            assert found[-2:] == ["BUTTONleft", "BUTTONright"]
            async with asyncio.timeout(60):
                while not call.done():
                    # Tab may have scrolled the page, and new data redraws it: wait until it rests.
                    await awake(page)
                    await page.keyboard.press("Enter")
                    await asyncio.wait([call], timeout=5)
            assert await call == "deployed to prod"
            await page.wait_for_selector("article[data-view=queue]")
            assert request.id not in await page.content()
