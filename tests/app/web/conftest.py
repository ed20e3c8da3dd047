"""The browser of all tests that need one; each test has its own browser context."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest_asyncio
from playwright.async_api import Browser

from .fronts import browsing


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncGenerator[Browser, None]:
    """Start the browser once; tests that use it run in the same loop (`loop_scope="session"`)."""
    async with browsing() as running:
        yield running
