"""A server for requests of the Agent Approval Protocol, and the protocol's own clients."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agentapprovalprotocol import AsyncClient, AsyncGate
from pydantic import JsonValue

from interlock.app.hosting.approval_requests import ApprovalRequests
from interlock.app.hosting.http_listener import listening
from interlock.engine.core.clock import Clock
from interlock.engine.gateway.aap.provider import VALID, ApprovalProvider
from interlock.engine.gateway.aap.receiver import WebhookReceiver
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.server.limits import Limits
from interlock.engine.history.model.events import EventBody
from interlock.engine.history.model.state import ApprovalState
from tests.engine.gateway.served import Served, served, until

RULES = """\
require human-approval before deploy
block rm
limit push to 1 per session
"""


@dataclass
class AapServer:
    """A server and its address for requests."""

    served: Served
    provider: ApprovalProvider
    address: Address

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def client(self, token: str | None = None, *, retries: float = 5.0) -> AsyncClient:
        return AsyncClient(self.url, token or self.served.agent, retry_budget=retries)

    def gate(self, token: str | None = None, **options: object) -> AsyncGate:
        return AsyncGate(self.client(token), **options)  # type: ignore[arg-type]

    async def asked(self, tool: str = "deploy") -> ApprovalState:
        """The approval request for a tool, as soon as operators have it."""

        async def find() -> ApprovalState | None:
            found = await self.served.hub.approvals()
            return next((each for each in found if each.tool == tool), None)

        return await until(find)

    async def decide(self, *, approved: bool, reason: str | None = None, tool: str = "deploy") -> None:
        request = await self.asked(tool)
        done = await self.served.hub.decide(request.id, approved=approved, by="ada", reason=reason)
        assert done.ok, done.message

    async def bodies(self) -> list[EventBody]:
        """The recorded events of all sessions whose calls are requests."""
        hub = self.served.hub
        sessions = [each.id for each in await hub.history() if each.id.startswith("aap.")]
        return [event.body for each in sessions for event in await hub.recorded(each)]


@asynccontextmanager
async def aap_server(
    directory: Path,
    *,
    rules: str = RULES,
    valid: float = VALID,
    clock: Clock | None = None,
    receivers: Mapping[str, WebhookReceiver] | None = None,
    limits: Limits | None = None,
) -> AsyncGenerator[AapServer, None]:
    """A server on loopback. Started again in the same directory, it continues."""
    async with served(directory, rules=rules, limits=limits) as server:
        gateway = server.gateway
        provider = ApprovalProvider(
            gateway.sessions, server.tokens, receivers, valid=valid, clock=clock, pause=0.05
        )
        await provider.start()
        part = ApprovalRequests(provider, server.hub, server.tokens, gateway.limits)
        try:
            async with listening(Address(port=0), [part], None, gateway.limits) as where:
                yield AapServer(server, provider, where)
        finally:
            await provider.close()


def submission(tool: str = "deploy", **fields: JsonValue) -> dict[str, JsonValue]:
    return {"tool": tool, "arguments": {"to": "prod", "n": 1.5}, "timeout": "5m", **fields}
