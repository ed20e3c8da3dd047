"""`interlock mcp --url URL`: an MCP server behind streamable HTTP, with its tools behind the gate."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from pydantic import JsonValue, ValidationError

from ..protocol.address import is_safe
from .frames import CALL, error_line
from .gate import McpGate
from .proxy import McpProxy, ProxySession, report
from .results import is_object
from .stdio import OwnOutput, own_lines

if TYPE_CHECKING:
    import httpx2
    from mcp.shared.message import SessionMessage
    from mcp.types import JSONRPCMessage

EVENT: Final = 64 << 20
"""Size of the largest message that a server may send, in bytes."""
CONNECT: Final = 30.0
_VERSION = "io.modelcontextprotocol/protocolVersion"


class Headers:
    """HTTP headers that repeat parts of a message, by version of the protocol.

    Older versions require the agreed version. Newer ones require the method, name and marked arguments,
    which must equal those in the message: for an edited call they differ from the client's.
    """

    def __init__(self) -> None:
        self._version: str | None = None
        self._marked_arguments: dict[str, dict[tuple[str, ...], str]] = {}

    def learn(self, message: Mapping[str, JsonValue]) -> None:
        """Read the version and marked arguments from a server's answer."""
        from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map

        result = message.get("result")
        if not is_object(result):
            return
        version, tools = result.get("protocolVersion"), result.get("tools")
        if isinstance(version, str):
            self._version = version
        for tool in tools if isinstance(tools, list) else []:
            name = tool.get("name") if is_object(tool) else None
            schema = tool.get("inputSchema") if is_object(tool) else None
            if isinstance(name, str):
                fits = find_invalid_x_mcp_header(schema) is None
                self._marked_arguments[name] = x_mcp_header_map(schema) if fits else {}

    def headers_for(self, message: Mapping[str, JsonValue]) -> dict[str, str]:
        """Return the headers for a message of the client."""
        from mcp.shared.inbound import (
            MCP_METHOD_HEADER,
            MCP_NAME_HEADER,
            MCP_PROTOCOL_VERSION_HEADER,
            NAME_BEARING_METHODS,
            encode_header_value,
            mcp_param_headers,
        )

        method, params = message.get("method"), message.get("params")
        meta = params.get("_meta") if is_object(params) else None
        version = meta.get(_VERSION) if is_object(meta) else None
        if not isinstance(version, str) or not isinstance(method, str) or not is_object(params):
            return {} if self._version is None else {MCP_PROTOCOL_VERSION_HEADER: self._version}
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            arguments = params.get("arguments")
            if method == CALL and is_object(arguments):
                headers |= mcp_param_headers(self._marked_arguments.get(name, {}), arguments)
        return headers


async def run_http(
    url: str,
    headers: Mapping[str, str],
    gate: McpGate,
    session: ProxySession,
    *,
    wait: float | None = None,
) -> int:
    """Proxy the server at `url` until the client ends. Returns the exit code.

    `wait` is as in `McpProxy`.
    """
    import anyio
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.message import ClientMessageMetadata, SessionMessage
    from mcp.types.jsonrpc import jsonrpc_message_adapter

    output, request_headers = OwnOutput(), Headers()
    async with (
        _client(url, headers) as http,
        streamable_http_client(url, http_client=http, max_sse_event_size=EVENT) as (read, write),
    ):

        async def to_server(line: bytes) -> None:
            try:
                message: JSONRPCMessage = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError:
                if line.strip():
                    await output.send(error_line(None, -32600, "HTTP carries single messages only"))
                return
            metadata = ClientMessageMetadata(headers=request_headers.headers_for(json.loads(line)))
            await write.send(SessionMessage(message, metadata))

        proxy = McpProxy(gate, session, output.send, to_server, wait=wait)

        async def read_client() -> None:
            async for line in own_lines():
                await proxy.handle_client(line)

        async def read_server() -> None:
            async for session_message in read:
                if isinstance(session_message, Exception):
                    report(f"a message of the server was skipped: {session_message}")
                    continue
                line = _line(session_message)
                request_headers.learn(cast("dict[str, JsonValue]", json.loads(line)))
                await proxy.handle_server(line)

        front, back = asyncio.create_task(read_client()), asyncio.create_task(read_server())
        output_closed, stop = (
            asyncio.create_task(output.wait_closed()),
            asyncio.create_task(_stop_signal()),
        )
        tasks = {front, back, output_closed, stop}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            server_ended = back.done()
            # Also after the conversation with the server broke off, which cancels everything here.
            with anyio.CancelScope(shield=True):
                for task in tasks:
                    task.cancel()
                for fault in await asyncio.gather(*tasks, return_exceptions=True):
                    if isinstance(fault, Exception):
                        report(f"{type(fault).__name__}: {fault}")
                await proxy.close()
    return 1 if server_ended else 0


def _line(session_message: SessionMessage) -> bytes:
    return session_message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


async def _stop_signal() -> None:
    ending = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(each, ending.set)
    await ending.wait()


def _client(url: str, headers: Mapping[str, str]) -> httpx2.AsyncClient:
    """Return an HTTP client that answers for an unreachable server, so that the conversation continues.

    It sends the token of this user's login at the server, unless the headers have an `Authorization`.
    """
    import httpx2

    from .logins import LoginFile, StoredLogin, login_command

    has_authorization = any(name.lower() == "authorization" for name in headers)
    auth = None if has_authorization or not is_safe(url) else StoredLogin(LoginFile(url), report)

    # Without parts that may be secret, because a model may read this.
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    class Answering(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            try:
                response = await super().handle_async_request(request)
                if response.headers.get("content-type", "").lower().startswith("application/json"):
                    await response.aread()
            except httpx2.TransportError as error:
                reason = f"no MCP server answers at {address}: {error or type(error).__name__}"
                return _error_response(502, reason)
            if response.status_code in (401, 403):
                await response.aclose()
                reason = (
                    f"the MCP server at {address} requires another authorization "
                    f"({response.status_code}): log in with `{login_command(address)}`; or put "
                    "its token in the environment, say as MCP_TOKEN, and start interlock mcp with "
                    "--header 'Authorization: Bearer ${MCP_TOKEN}'"
                )
                report(reason)
                return _error_response(response.status_code, reason)
            return response

    def _error_response(status: int, message: str) -> httpx2.Response:
        body = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": message}}
        return httpx2.Response(status, json=body)

    # No read timeout: the client decides how long a call may take.
    timeout = httpx2.Timeout(CONNECT, read=None)
    return httpx2.AsyncClient(headers=dict(headers), timeout=timeout, transport=Answering(), auth=auth)
