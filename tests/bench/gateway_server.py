"""A gateway in a separate process, with a journal that writes as much as requested."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
from collections.abc import Coroutine, Mapping
from pathlib import Path

from interlock.app.cli.lark_import import keep_lark_small
from interlock.app.hosting.arenas import share_one_arena
from interlock.app.terminal.gc import settle_collector
from interlock.engine.gateway.cluster.shared_hub import open_hub
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.protocol.tokens import TokenFile
from interlock.engine.gateway.server.limits import Limits
from interlock.engine.gateway.server.rule_sets import RuleSets
from interlock.engine.gateway.server.server import Gateway
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.hub.hub import Hub
from interlock.rules import compile_rules
from interlock.rules.compiler import forget_grammars

RULES = """\
limit work to 1000000 per session
limit order to 1000000 per 1d across everyone
block rm
require look before change
require human-approval before deploy
"""
"""`work` is counted and allowed at once, `order` is counted over all sessions, `deploy` waits."""


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def obeying(said: Mapping[str, object]) -> None:
    """Print this text, then the memory in use for each line of input; return at the end of the input."""
    print(json.dumps(said), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        gc.collect()
        print(resident(), flush=True)


def run(main: Coroutine[None, None, None], loop: str) -> None:
    """Run on asyncio's own event loop, or on uvloop."""
    if loop == "uvloop":
        import uvloop

        uvloop.run(main)
    else:
        asyncio.run(main)


async def _main(writer: str, directory: Path, secrets: Path | None) -> None:
    # As in the `interlock` command.
    keep_lark_small()
    share_one_arena()
    tokens = TokenFile((secrets or directory) / "tokens.json")
    agent = tokens.issue("agent", f"bench-{os.getpid()}")
    operator = tokens.issue("operator", f"ada-{os.getpid()}")
    if writer.startswith("postgresql:"):
        hub = open_hub(PostgresLocation.of(writer))
    else:
        # The database's library is part of the server's memory; the other server does not load it.
        from .journal_writers import WRITERS, journal_of

        hub = Hub(journal_of(directory / "bench.db", WRITERS[writer]))
    rules = RuleSets.of(compile_rules(RULES).registry)
    # All clients share one token here, which has a limit of its own.
    most = 1 << 20
    limits = Limits(
        rate=1e9,
        sessions_per_token=most,
        connections_per_token=most,
        requests_per_token=most,
        calls_per_token=most,
        at_work_per_token=most,
    )
    gateway = Gateway(hub, tokens, rules=rules, limits=limits)
    try:
        address = await gateway.start(Address(port=0))
        hub.name_server(address.url)
        await hub.share()
        forget_grammars()
        settle_collector()
        await obeying({"port": address.port, "agent": agent, "operator": operator})
    finally:
        await gateway.close()
        await hub.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        loop, journal, *shared = sys.argv[1:]
        run(_main(journal, Path(folder), Path(shared[0]) if shared else None), loop)
