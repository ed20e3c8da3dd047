"""Pictures of the console in a real browser, and of the page for phones, with an external agent.

`make screenshots`, or `python -m tests.support.web_screenshots DIRECTORY`; needs Chromium.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from interlock.engine.gateway.client.agent import AgentSession

from ..app.web.fronts import Seen, browsing, connected
from ..app.web.phone.phones import awake, phone
from ..app.web.test_web_command import QUIET, Started, started, tabs

SIZE = (1080, 760)
RULES = """\
require test before deploy
require human-approval before deploy risk high
require human-approval before push_branch
limit push to 2 per session
"""


async def test(suite: str) -> str:
    return f"{suite}: 214 passed"


async def deploy(env: str, version: str) -> str:
    return f"{version} is live in {env}"


async def push_branch(remote: str, branch: str) -> str:
    return f"{branch} is at {remote}"


async def take(out: Path) -> None:
    """Draw the console's pages in a browser, and those for phones.

    These are the login page, the queue, the dialog, past decisions and the queue in a narrow window; on a
    phone the queue and a request.
    """
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "deploy.rules"
        rules.write_text(RULES, encoding="utf-8")
        async with started(Path(folder), rules=rules.name) as web:
            await _draw(web, out)
        async with started(Path(folder), rules=rules.name) as web:
            await _draw_phone(web, out)


async def _draw(web: Started, out: Path) -> None:
    async with tabs(1, SIZE) as [page]:
        seen = Seen(page)
        await page.goto(web.page)
        await page.wait_for_selector("#link")
        await page.screenshot(path=out / "web-login.png")
        await page.goto(web.link)
        await connected(page)
        await seen.until("as ada")
        async with web.agent() as agent, agent.session("release-bot") as session:
            call = await _work(session)
            await seen.until("WHAT WILL RUN", "v1.4.0")
            await page.wait_for_timeout(QUIET)
            await page.screenshot(path=out / "web-dialog.png")
            await page.keyboard.press("Escape")
            await seen.until("1 waiting")
            await page.wait_for_timeout(QUIET)
            await page.screenshot(path=out / "web-queue.png")
            await page.set_viewport_size({"width": 560, "height": 640})
            await page.wait_for_timeout(QUIET)
            await page.screenshot(path=out / "web-narrow.png")
            await page.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
            await page.keyboard.press("a")
            await seen.until("WHAT WILL RUN")
            await page.wait_for_timeout(QUIET)
            await page.keyboard.press("a")
            await call
            await seen.until("0 waiting")
            await page.wait_for_timeout(QUIET)
            await page.screenshot(path=out / "web-decided.png")


async def _draw_phone(web: Started, out: Path) -> None:
    async with browsing() as browser, phone(browser) as page:
        await page.goto(web.link.replace("/login#", "/m/login#"))
        await page.wait_for_selector("article[data-view=queue]")
        async with web.agent() as agent, agent.session("release-bot") as session:
            call = await _work(session)
            push = asyncio.create_task(session(push_branch)(remote="origin", branch="release/1.4"))
            await page.wait_for_selector(".rows li >> nth=1")
            await page.wait_for_timeout(QUIET)
            await page.screenshot(path=out / "phone-queue.png")
            await page.tap(".rows li:first-child a")
            await awake(page)
            await page.screenshot(path=out / "phone-request.png")
            await page.tap("#right")
            await call
            push.cancel()


async def _work(session: AgentSession) -> asyncio.Task[str]:
    """Start an agent that runs tests, and requests a deploy."""
    await session.report_message("user", "Release v1.4.0 to production once the tests pass.")
    await session(test)(suite="all")
    await session.report_message("assistant", "All 214 tests pass, so I deploy v1.4.0 now.")
    return asyncio.create_task(session(deploy)(env="production", version="v1.4.0"))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    asyncio.run(take(folder))
