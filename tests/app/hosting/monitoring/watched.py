"""A server with metrics, and a reader of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from interlock.app.hosting.monitoring.endpoints import answering
from interlock.app.hosting.monitoring.metrics import Metrics
from interlock.engine.gateway.protocol.address import Address
from tests.engine.gateway.served import RULES, Served, served

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@dataclass
class Watched:
    """A server, and the address of its metrics."""

    server: Served
    address: Address

    async def get(self, path: str, **headers: str) -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False) as client:
            return await client.get(f"http://{self.address}{path}", headers=headers)

    async def samples(self) -> Samples:
        """Every exported number by its name and labels."""
        answer = await self.get("/metrics")
        assert answer.status_code == 200, answer.text
        return {
            (each.name, tuple(sorted(each.labels.items()))): each.value
            for family in text_string_to_metric_families(answer.text)
            for each in family.samples
        }

    async def until(self, found: Callable[[Samples], bool]) -> Samples:
        """The numbers, as soon as they fulfil the condition."""
        for _ in range(1000):
            samples = await self.samples()
            if found(samples):
                return samples
            await asyncio.sleep(0.01)
        raise AssertionError("it did not happen")


@asynccontextmanager
async def watched(directory: Path, rules: str = RULES) -> AsyncGenerator[Watched, None]:
    """A server on loopback with metrics."""
    async with (
        served(directory, rules=rules) as server,
        answering(
            server.hub,
            Metrics(server.hub, server.gateway),
            server.tokens,
            Address(port=0),
            None,
        ) as address,
    ):
        yield Watched(server, address)


def value(samples: Samples, name: str, **labels: str) -> float:
    """One number, 0 if it is missing."""
    return samples.get((name, tuple(sorted(labels.items()))), 0.0)
