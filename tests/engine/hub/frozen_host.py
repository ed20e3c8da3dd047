"""A host process that freezes its agents and waits with their calls, which the test kills."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from interlock.engine.hub.hub import Hub

from ..support.external_agent import opened


async def main(database: Path) -> None:
    hub = Hub.open(database)
    await opened(hub)
    await hub.freeze(by="maria", reason="the deploys look wrong")
    events = hub.subscribe()
    calls = [
        asyncio.ensure_future(hub.call("robin-1", call_id, tool, {}))
        for call_id, tool in (("t1", "test"), ("d1", "deploy"))
    ]
    async for _ in events:
        if len((await hub.session("robin-1")).calls) == len(calls):
            print("waits", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
