"""The minimal gate over WebSocket: it parses, decides and answers, and remembers nothing.

It has no record, sessions, limits or tokens: the difference to the gateway is their cost.
"""

from __future__ import annotations

import sys

import orjson
from websockets.asyncio.server import ServerConnection, serve

from interlock.engine.gate import create_gate_manager
from interlock.engine.gateway.protocol.agent_methods import CallAnswer, CallTool
from interlock.engine.gateway.protocol.framing import result_frame
from interlock.engine.net.net import ToolCall
from interlock.rules import compile_rules

from .gateway_server import RULES, obeying, run


async def _answer(socket: ServerConnection) -> None:
    gate = create_gate_manager(registry=compile_rules(RULES).registry)
    async for frame in socket:
        request = orjson.loads(frame)
        asked = CallTool.model_validate(request["params"])
        call = ToolCall(asked.call, asked.tool, asked.input)
        decision = await gate.handle_tool_call(call)
        answer = CallAnswer.model_construct(
            outcome="block" if decision.block else "allow", input=asked.input, reason=decision.reason
        )
        await socket.send(result_frame(request["id"], answer), text=True)


async def _main() -> None:
    async with serve(_answer, "127.0.0.1", 0, compression=None, server_header=None) as server:
        await obeying({"port": server.sockets[0].getsockname()[1]})


if __name__ == "__main__":
    run(_main(), sys.argv[1])
