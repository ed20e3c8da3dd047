"""A server on loopback with its own tokens, and programs that connect to it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from websockets.asyncio.client import ClientConnection, connect

from interlock.app.config.rules_compiler import RulesLanguage
from interlock.engine.gateway.client.agent import AgentClient
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.protocol.agent_methods import HELLO, Hello
from interlock.engine.gateway.protocol.framing import read_incoming, request_frame
from interlock.engine.gateway.protocol.tokens import TokenFile
from interlock.engine.gateway.server.admission import SUBPROTOCOL
from interlock.engine.gateway.server.limits import Limits
from interlock.engine.gateway.server.rule_sets import RuleSets
from interlock.engine.gateway.server.server import Gateway
from interlock.engine.hub.hub import ApprovalPolicy, Hub
from interlock.rules import compile_rules

T = TypeVar("T")

RULES = """\
require test before deploy
require human-approval before deploy
block rm
limit push to 2 per session
"""


@dataclass
class Served:
    """A server, and the secrets of two agents and two operators."""

    hub: Hub
    gateway: Gateway
    tokens: TokenFile
    address: Address
    agent: str
    other: str
    ada: str
    ben: str

    @property
    def url(self) -> str:
        return self.address.url

    def agent_client(self, token: str | None = None) -> AgentClient:
        return AgentClient(self.url, token or self.agent, patience=5.0)

    def console(self, token: str | None = None) -> ConsoleClient:
        return ConsoleClient(self.url, token or self.ada)


@asynccontextmanager
async def served(
    directory: Path,
    *,
    rules: str | RuleSets = RULES,
    address: Address | None = None,
    limits: Limits | None = None,
    tls: ssl.SSLContext | None = None,
    policy: ApprovalPolicy | None = None,
    language: RulesLanguage | None = None,
    **options: object,
) -> AsyncGenerator[Served, None]:
    """Yield a server with its files in `directory`, which a later server there uses again."""
    tokens = TokenFile(directory / "tokens.json")
    secrets = directory / "secrets"
    if not secrets.exists():
        made = [
            tokens.issue("agent", "bot"),
            tokens.issue("agent", "other"),
            tokens.issue("operator", "ada"),
            tokens.issue("operator", "ben"),
        ]
        secrets.write_text("\n".join(made))
    agent, other, ada, ben = secrets.read_text().split()
    sets = rules if isinstance(rules, RuleSets) else RuleSets.of(compile_rules(rules).registry)
    hub = Hub.open(directory / "interlock.db", policy=policy, language=language)
    gateway = Gateway(hub, tokens, rules=sets, limits=limits, **options)  # type: ignore[arg-type]
    try:
        where = await gateway.start(address or Address(port=0), tls=tls)
        yield Served(hub, gateway, tokens, where, agent, other, ada, ben)
    finally:
        await gateway.close()
        await hub.close()


@asynccontextmanager
async def raw(served: Served, token: str, path: str = "/agent") -> AsyncGenerator[ClientConnection, None]:
    """Yield a connection after its greeting, for raw frames."""
    headers = {"Authorization": f"Bearer {token}"}
    async with connect(
        served.url + path, additional_headers=headers, subprotocols=[SUBPROTOCOL], max_size=None
    ) as socket:
        await socket.send(request_frame(HELLO, Hello(versions=(1,)), 0), text=True)
        read_incoming(await socket.recv())
        yield socket


async def until(found: Callable[[], Awaitable[T]]) -> T:
    """Return the value of `found` as soon as it is true, also on a busy machine."""
    for _ in range(12_000):
        if value := await found():
            return value
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")
