"""A host process whose approved call is still on its fuse, which the test kills."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from interlock.engine.history.model.events import ApprovalFused, ApprovalRequested
from interlock.engine.hub.hub import ApprovalPolicy, Hub

from ..support.external_agent import opened
from ..support.shop import until


async def main(database: Path) -> None:
    hub = Hub.open(database, policy=ApprovalPolicy(fuse=3600.0))
    await opened(hub, "require human-approval before deploy risk high")
    heard = hub.subscribe()
    call = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {}))
    await until(heard, ApprovalRequested)
    [request] = await hub.approvals()
    await hub.decide(request.id, approved=True, by="maria", digest=request.digest)
    await until(heard, ApprovalFused)
    print("burns", flush=True)
    await call


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
