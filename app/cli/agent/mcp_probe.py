"""`interlock mcp --self-test`: checks that the proxy blocks a call, and lists what it does not see."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

from ....engine.core.sanitize import visible
from ....engine.gateway.protocol.probe import PROBE, PROBED, SHADOW

TIMEOUT: Final = 60.0
LONGEST: Final = 8 << 20
VERSION: Final = "2025-06-18"
UNSEEN: Final = (
    "resources, prompts and what the server does on its own pass without a decision",
    "a client that starts the server without `interlock mcp` bypasses the gate",
)


class SelfTestError(Exception):
    """The gate did not block the probe; the message says what happened instead."""


async def self_test(line: Sequence[str]) -> int:
    """Have a client call the probe through `interlock mcp LINE`.

    Returns 1 if the call was not blocked.
    """
    try:
        tools, shadow = await _probe(line)
    except (SelfTestError, OSError, TimeoutError, ValueError) as error:
        print(f"FAULT: {visible(str(error) or 'no answer in time')}")
        return 1
    print(f"ok: the probe was blocked; {len(tools)} tools of the server pass the gate: ", end="")
    print(visible(", ".join(tools)))
    if shadow:
        print(f"note: {SHADOW.removeprefix('. ')}")
    for text in UNSEEN:
        print(f"note: not seen: {text}")
    return 0


async def _probe(line: Sequence[str]) -> tuple[list[str], bool]:
    """Return the server's tools, and whether the gate is in shadow mode. Raises `SelfTestError`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-m", "interlock.app.cli", "mcp"),
        *line,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LONGEST,
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            client = {"name": "interlock self-test", "version": "1"}
            terms = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client}
            await _ask(process, 1, "initialize", terms)
            await _send(process, {"method": "notifications/initialized"})
            listed = await _ask(process, 2, "tools/list", {})
            answer = await _ask(process, 3, "tools/call", {"name": PROBE, "arguments": {}})
    finally:
        if process.stdin is not None:
            process.stdin.close()
        with suppress(TimeoutError, ProcessLookupError):
            async with asyncio.timeout(5):
                await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
    if PROBED not in json.dumps(answer):
        raise SelfTestError(f"the probe was not blocked by the gate: {json.dumps(answer)[:500]}")
    tools = cast("dict[str, list[dict[str, object]]]", listed.get("result", {})).get("tools", [])
    return [str(each.get("name")) for each in tools], SHADOW in json.dumps(answer)


async def _ask(
    process: asyncio.subprocess.Process, number: int, method: str, params: Mapping[str, object]
) -> dict[str, object]:
    """Return the answer to one request; skip all other messages received before it."""
    await _send(process, {"id": number, "method": method, "params": params})
    assert process.stdout is not None
    while line := await process.stdout.readline():
        found: object = json.loads(line)
        if isinstance(found, dict):
            message = cast("dict[str, object]", found)
            if message.get("id") == number and "method" not in message:
                return message
    raise SelfTestError(f"the proxy ended before it answered {method}")


async def _send(process: asyncio.subprocess.Process, message: Mapping[str, object]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    with suppress(ConnectionError):
        await process.stdin.drain()
