"""A flow's human step, answered in a browser: its typed form, by keyboard."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser

from interlock.app.web.environment import tab_environment
from interlock.app.web.tabs import Console
from interlock.engine.history.model.events import ApprovalDecided
from interlock.engine.sessions.config import SessionConfig

from ...engine.gateway.served import served
from ..screens.flows.flows import Commit, Release
from .fronts import NEEDS_CHROMIUM, Seen, fronted, log_in, pages
from .test_web_command import CLI, QUIET

TO_FILL_IN = [
    ("by", 0, "Ada"),
    ("severity", 2, "9"),
    ("ratio", 1, ""),
    ("approved", 1, "1"),
    ("kind", 1, "2"),
    ("level", 1, ""),
    ("place.city", 1, "Oslo"),
]
"""Fields, the number of Tab presses to reach each, and the typed text; the severity is too high."""


@NEEDS_CHROMIUM
@pytest.mark.asyncio(loop_scope="session")
class TestForm:
    @pytest.mark.thorough
    async def test_filled_in_by_keyboard(self, tmp_path: Path, browser: Browser) -> None:
        """P-81: an operator fills in the form in a tab; an invalid value is reported."""
        async with served(tmp_path) as server:
            line = [*CLI, "console", "--connect", server.url]
            environment = {
                **tab_environment(server.ada),
                "INTERLOCK_CONFIG_DIR": str(tmp_path),
            }
            run = await server.hub.open_flow(Release, Commit(sha="abc"), SessionConfig({}, by="maria"))
            async with (
                fronted(lambda _: Console(line, environment)) as front,
                pages(browser, 1) as [page],
            ):
                seen = Seen(page)
                await log_in(page, front.link())
                await seen.until("1 waiting", "step 2 of Release")
                await page.keyboard.press("a")
                await seen.until("WHAT IS ASKED", "step 2 of flow Release waits for the answer")
                await page.wait_for_timeout(QUIET)
                await page.keyboard.press("a")
                await seen.until("by  text  required", "send the answer")
                for name, tabs, text in TO_FILL_IN:
                    for _ in range(tabs):
                        await page.keyboard.press("Tab")
                    await seen.until(f"▌ {name} ")
                    await page.keyboard.type(text)
                await seen.until("Oslo", "(●) 1 true", "(●) 2 minor")
                await page.wait_for_timeout(QUIET)
                await page.keyboard.press("Control+s")
                await seen.until("✗ Input should be less than or equal to 5")
                await page.keyboard.type("4")
                await page.wait_for_timeout(QUIET)
                await page.keyboard.press("Control+s")
                async with asyncio.timeout(20):
                    await server.hub.flow_ended(run)
                await seen.until("0 waiting")
            [answer] = [
                event.body
                for event in await server.hub.recorded(run)
                if isinstance(event.body, ApprovalDecided)
            ]
        assert (answer.approved, answer.by) == (True, "ada")
        assert answer.input == {
            "by": "Ada",
            "severity": 4,
            "approved": True,
            "kind": "minor",
            "level": "low",
            "place": {"city": "Oslo"},
            "tags": [],
        }
