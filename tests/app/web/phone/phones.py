"""A session server with the phone page in front of it, and phones that connect to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from aiohttp import ClientSession
from playwright.async_api import Browser, CDPSession, Page, expect

from interlock.app.web.logins import Logins
from interlock.app.web.server import ConsoleServer
from interlock.engine.core.approvers import Operators
from interlock.engine.gateway.client.agent import AgentSession
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import ApprovalPolicy

from ....engine.gateway.served import Served, served, until
from ..fronts import KEY, client, signature, small_app

SIZE = (390, 844)
AGENT = (
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/130.0.0.0 Mobile Safari/537.36"
)
RULES = """\
require human-approval before deploy risk high
require human-approval before run
require human-approval before erase by 2
"""


async def deploy(env: str, version: str = "v1.4.0") -> str:
    return f"deployed to {env}"


async def run(text: str) -> str:
    return text


async def erase(text: str) -> str:
    return text


@dataclass
class Phones:
    """A front with the phone page, and the session server behind it."""

    front: ConsoleServer
    served: Served
    calls: list[asyncio.Task[object]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def link(self) -> str:
        """A login link to the phone page."""
        return self.front.phone_link(self.front.link())

    def ask(self, call: Awaitable[object]) -> asyncio.Task[object]:
        """Start an agent's tool call in the background."""
        task = asyncio.ensure_future(call)
        self.calls.append(task)
        return task

    async def asked(self, count: int = 1) -> list[ApprovalState]:
        """Wait for `count` open requests and return them."""

        async def found() -> list[ApprovalState] | None:
            waiting = await self.served.hub.approvals()
            return waiting if len(waiting) == count else None

        return await until(found)


@asynccontextmanager
async def phones(
    directory: Path,
    *,
    rules: str = RULES,
    rights: Literal["look", "decide", "administer"] | None = None,
    logins: Logins | None = None,
    port: int = 0,
    deny_reasons: tuple[str, ...] = (),
    policy: ApprovalPolicy | None = None,
) -> AsyncGenerator[Phones, None]:
    """The phone page for a token with these rights; ada's token with all rights by default."""
    async with served(directory, rules=rules, policy=policy) as running:
        token = running.ada
        if rights is not None:
            token = running.tokens.issue("operator", f"eve-{rights}", rights=rights)
        front = ConsoleServer(
            small_app,
            logins=logins,
            phone=lambda: ConsoleClient(running.url, token),
            deny_reasons=deny_reasons,
        )
        await front.start("127.0.0.1", port)
        found = Phones(front, running)
        try:
            yield found
        finally:
            await front.close()
            for each in found.calls:
                each.cancel()
            await asyncio.gather(*found.calls, return_exceptions=True)


@asynccontextmanager
async def keyed_phones(
    directory: Path, *names: Literal["ada", "ben"], rules: str, operators: Operators
) -> AsyncGenerator[list[Phones], None]:
    """A phone page for each operator, all on one session server, under the host name that passkeys need.

    The hub's terminal is the list `said` that all pages share.
    """
    async with served(directory, rules=rules) as running:
        running.hub.know_operators(operators)
        found: list[Phones] = []
        said: list[str] = []
        running.hub.serve_keys(None, said.append)
        try:
            for name in names:
                token = running.ada if name == "ada" else running.ben
                front = ConsoleServer(
                    small_app, phone=lambda token=token: ConsoleClient(running.url, token)
                )
                await front.start("localhost", 0)
                found.append(Phones(front, running, said=said))
            yield found
        finally:
            for each in found:
                await each.front.close()
                for call in each.calls:
                    call.cancel()
                await asyncio.gather(*each.calls, return_exceptions=True)


@dataclass(frozen=True)
class VirtualAuthenticator:
    """An authenticator of a page; after `lock` it cannot verify its user."""

    session: CDPSession
    id: str

    async def lock(self) -> None:
        await self.session.send(
            "WebAuthn.setUserVerified", {"authenticatorId": self.id, "isUserVerified": False}
        )


@asynccontextmanager
async def authenticator(
    page: Page, transport: str = "internal"
) -> AsyncGenerator[VirtualAuthenticator, None]:
    """Chromium's virtual authenticator on a page; it verifies its user."""
    session = await page.context.new_cdp_session(page)
    await session.send("WebAuthn.enable")
    made = await session.send(
        "WebAuthn.addVirtualAuthenticator",
        {
            "options": {
                "protocol": "ctap2",
                "transport": "internal",
                "hasResidentKey": True,
                "hasUserVerification": True,
                "isUserVerified": True,
                "automaticPresenceSimulation": True,
            }
        },
    )
    yield VirtualAuthenticator(session, made["authenticatorId"])


async def add_key(page: Page, of: Phones, name: str = "phone") -> None:
    """Enroll a first passkey on the page, with the code that the server's terminal shows."""
    await page.tap("nav >> text=Keys")
    await page.wait_for_selector("article[data-view=keys]")
    await page.fill("#key-name", name)
    await page.tap("article >> button:text('Add a passkey')")
    await page.wait_for_selector("#code:visible")
    await page.fill("#code", of.said[-1].partition("code ")[2][:9])
    await page.tap("button:text-is('Confirm')")
    await expect(page.locator("#said")).to_contain_text(f"Passkey '{name}' is enrolled")


@asynccontextmanager
async def agent(of: Phones, name: str = "release-bot") -> AsyncGenerator[AgentSession, None]:
    """A session of a remote agent."""
    async with of.served.agent_client() as program, program.session(name) as session:
        yield session


@asynccontextmanager
async def phone(
    browser: Browser,
    *,
    size: tuple[int, int] = SIZE,
    colours: Literal["light", "dark"] = "light",
) -> AsyncGenerator[Page, None]:
    """A phone's page in its own browser context."""
    context = await browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        has_touch=True,
        is_mobile=size[0] < 800,
        user_agent=AGENT,
        color_scheme=colours,
        device_scale_factor=2,
    )
    try:
        yield await context.new_page()
    finally:
        await context.close()


async def enter(page: Page, of: Phones) -> None:
    """Follow a login link to the queue."""
    await page.goto(of.link)
    await page.wait_for_selector("article[data-view=queue]")


async def open_request(page: Page, of: Phones, request: ApprovalState) -> None:
    """Open a request as a notification's link does."""
    await page.goto(f"{of.front.url}/m/a/{request.id}")
    await page.wait_for_selector("article[data-view=request]")


async def awake(page: Page, side: str = "right") -> None:
    """Wait until a button of the bar is enabled."""
    await expect(page.locator(f"#{side}")).to_have_attribute("aria-disabled", "false", timeout=10_000)


@asynccontextmanager
async def program(of: Phones, *, shows_key: bool = True) -> AsyncGenerator[Program, None]:
    """A logged-in program that does what the page's script does."""
    async with client(of.front) as session:
        made = Program(session, of.front.url)
        if shows_key:
            await made.show_key()
        yield made


@dataclass
class Program:
    session: ClientSession
    url: str
    tab: str = ""

    async def show_key(self) -> None:
        headers = {"Origin": self.url}
        async with self.session.post(f"{self.url}/m/challenge", headers=headers) as answer:
            challenge = (await answer.json())["challenge"]
        proof = {"challenge": challenge, "signature": signature(KEY, self.url, challenge, "phone")}
        async with self.session.post(f"{self.url}/m/tab", json=proof, headers=headers) as answer:
            assert answer.status == 204, await answer.text()
            self.tab = answer.headers["X-Interlock-Tab"]

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        given = {"X-Interlock-Tab": self.tab, **headers}
        async with self.session.get(self.url + path, headers=given) as answer:
            return answer.status, await answer.text()

    async def post(self, path: str, body: object, **headers: str) -> tuple[int, str]:
        given = {"X-Interlock-Tab": self.tab, "Origin": self.url, **headers}
        async with self.session.post(self.url + path, json=body, headers=given) as answer:
            return answer.status, await answer.text()
