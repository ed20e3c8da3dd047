"""Programs in a network that is cut, one per process: a server, an agent and a console.

`python -m tests.crash.networked serve DATABASE FOLDER HOST`, `… work URLS FOLDER NAME` and `… approve
URLS FOLDER NAME`. Tokens are in FOLDER; an agent and a console store the answers they receive there, in a
file called NAME. All end cleanly on SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from interlock.engine.gateway.client.agent import AgentClient
from interlock.engine.gateway.client.connection import GatewayError
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.cluster.shared_hub import open_hub
from interlock.engine.gateway.protocol import silence
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.protocol.tokens import TokenFile
from interlock.engine.gateway.server.rule_sets import RuleSets
from interlock.engine.gateway.server.server import Gateway
from interlock.engine.history.database.location import PostgresLocation
from interlock.rules import compile_rules

PORT = 8737
RULES = "require human-approval before deploy\n"
_SILENCE = 3
"""Seconds without a sign of life after which an agent or a console switches to the other server."""

T = TypeVar("T")


def issue(folder: Path) -> None:
    """Write the tokens of an agent and of an operator, which all servers accept."""
    tokens = TokenFile(folder / "tokens.json")
    secrets = {"agent": tokens.issue("agent", "bot"), "operator": tokens.issue("operator", "ada")}
    (folder / "secrets.json").write_text(json.dumps(secrets))


async def serve(database: str, folder: Path, host: str, end: asyncio.Event) -> None:
    hub = open_hub(PostgresLocation.of(database))
    tokens = TokenFile(folder / "tokens.json")
    gateway = Gateway(hub, tokens, rules=RuleSets.of(compile_rules(RULES).registry))
    try:
        address = await gateway.start(Address(host, PORT))
        hub.name_server(address.url)
        await hub.share()
        print("ready", flush=True)
        waits = [asyncio.ensure_future(each) for each in (end.wait(), hub.lost())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
    finally:
        await gateway.close()
        await hub.close()


async def work(urls: str, folder: Path, name: str, end: asyncio.Event) -> None:
    """Make calls that wait for an operator, each until it is answered, and run allowed ones."""
    keep = _keeper(folder / name)
    secret = json.loads((folder / "secrets.json").read_text())["agent"]
    client = AgentClient(urls, secret, patience=5.0)
    try:
        gate = await _until_answered(lambda: client.open(name), end)
        number = 0
        while gate is not None and not end.is_set():
            call = f"{name}.{number}"
            number += 1
            decided = await _until_answered(
                lambda call=call: gate.call("deploy", {"call": call}, call_id=call), end
            )
            if decided is None:
                return
            keep(f"{gate.id} {call} {decided.outcome}")
            await _until_answered(lambda call=call: gate.result(call, "deployed"), end)
    finally:
        await client.close()


async def approve(urls: str, folder: Path, name: str, end: asyncio.Event) -> None:
    """Approve every request."""
    keep = _keeper(folder / name)
    secret = json.loads((folder / "secrets.json").read_text())["operator"]
    console = ConsoleClient(urls, secret)
    done: set[str] = set()
    try:
        await _until_answered(console.open, end)
        while not end.is_set():
            for request in [each for each in await console.approvals() if each.id not in done]:
                with suppress(GatewayError):
                    answer = await console.decide(request.id, approved=True, digest=request.digest)
                    if answer.ok:
                        done.add(request.id)
                        keep(f"{request.session} {request.id} approved")
            await asyncio.sleep(0.02)
    finally:
        await console.close()


async def _until_answered(ask: Callable[[], Awaitable[T]], end: asyncio.Event) -> T | None:
    """Ask until there is an answer; return `None` once the program should end."""
    while not end.is_set():
        asked = asyncio.ensure_future(ask())
        ended = asyncio.ensure_future(end.wait())
        await asyncio.wait({asked, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not asked.done():
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            return None
        try:
            return asked.result()
        except GatewayError:
            await asyncio.sleep(0.05)
    return None


def _keeper(path: Path) -> Callable[[str], None]:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def keep(line: str) -> None:
        os.write(file, f"{line}\n".encode())

    return keep


async def main() -> None:
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    role, where, folder, name = sys.argv[1:]
    silence.SECONDS = _SILENCE
    await {"serve": serve, "work": work, "approve": approve}[role](where, Path(folder), name, end)


if __name__ == "__main__":
    asyncio.run(main())
