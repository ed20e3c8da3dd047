"""An MCP server made with the official SDK, as a program: over stdio, or over HTTP on the port it prints.

The file that MCP_RAN names records the calls of its tools.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import socket
import sys
from pathlib import Path

# Each of many servers imports all this; collections would take a third of that time.
gc.disable()
atexit.register(gc.freeze)

from mcp.server.mcpserver import Context, MCPServer  # noqa: E402
from mcp.server.mcpserver.exceptions import ToolError  # noqa: E402
from mcp.types import SamplingMessage, TextContent  # noqa: E402

server = MCPServer("shop")


def ran(tool: str, **given: object) -> None:
    with Path(os.environ["MCP_RAN"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps([tool, given]) + "\n")


@server.tool()
def deploy(env: str, dry: bool = False) -> str:
    ran("deploy", env=env, dry=dry)
    return f"deployed to {env}"


@server.tool(name="test")
def suite(fails: bool = False) -> str:
    ran("test", fails=fails)
    if fails:
        raise ToolError("3 failed")
    return "12 passed"


@server.tool()
def rm(path: str) -> str:
    ran("rm", path=path)
    return "gone"


@server.tool()
def secrets() -> str:
    return str(sorted(name for name in os.environ if "TOKEN" in name))


@server.tool()
async def think(about: str, context: Context) -> str:  # type: ignore[type-arg]
    """Asks the client's model, and says how far it is."""
    await context.report_progress(1, 2, "thinking")
    asked = SamplingMessage(role="user", content=TextContent(type="text", text=about))
    found = await context.session.create_message([asked], max_tokens=10)
    await context.report_progress(2, 2, "thought")
    return f"thought: {getattr(found.content, 'text', found.content)}"


@server.resource("shop://stock")
def stock() -> str:
    return "3 apples"


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}"


if __name__ == "__main__":
    if "http" in sys.argv:
        import uvicorn

        listening = socket.create_server(("127.0.0.1", 0))
        print(listening.getsockname()[1], flush=True)
        app = server.streamable_http_app()
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listening])
    else:
        server.run("stdio")
