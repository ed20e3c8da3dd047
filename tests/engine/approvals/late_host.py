"""A host process with one approved and one open late request, which the test kills."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from interlock.engine.history.model.events import ApprovalRequested
from interlock.engine.hub.hub import ApprovalPolicy, Hub

from ..support.external_agent import opened
from ..support.shop import until

RULES = "require human-approval before deploy\nrequire human-approval before migrate"


async def main(database: Path) -> None:
    hub = Hub.open(database, policy=ApprovalPolicy(late=3600.0))
    await opened(hub, RULES)
    heard = hub.subscribe()
    calls: list[asyncio.Future[object]] = []
    for call_id, tool in (("d1", "deploy"), ("m1", "migrate")):
        calls.append(asyncio.ensure_future(hub.call("robin-1", call_id, tool, {})))
        await until(heard, ApprovalRequested)
        assert await hub.give_up_call("robin-1", call_id, "nobody decided") is not None
    [approved] = [each for each in await hub.approvals() if each.tool == "deploy"]
    outcome = await hub.decide(approved.id, approved=True, by="maria", digest=approved.digest)
    assert outcome.ok
    print("held", flush=True)
    await asyncio.gather(*calls)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
