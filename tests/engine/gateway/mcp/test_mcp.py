"""`interlock mcp` between a client and a server of the official SDK, as programs at a real server."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, ClientSession, MCPError, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, CreateMessageResult, TextContent

from interlock.app.cli.main import main
from tests.support.forked import python_with

from ..served import Served, served, until

SERVER = Path(__file__).parent / "mcp_server.py"
INTERLOCK = ["-m", "interlock.app.cli", "mcp"]
GATE = (
    "interlock.app.cli.main",
    "interlock.app.config.loader",
    "interlock.app.cli.agent.mcp",
    "interlock.engine.gateway.client.agent",
    "interlock.engine.gateway.mcp.child",
    "interlock.engine.gateway.mcp.http",
    "interlock.engine.gateway.mcp.proxy",
)


@dataclass
class Heard:
    """The progress notifications of a client."""

    progress: list[tuple[float, str | None]] = field(default_factory=list[tuple[float, str | None]])
    first: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, progress: float, _: float | None, message: str | None) -> None:
        self.progress.append((progress, message))
        self.first.set()


def sdk_python() -> list[str]:
    """Return the Python for one of many servers."""
    return python_with("mcp.server.mcpserver", "mcp.server.stdio")


def program(server: Served, directory: Path, *before: str, real: bool = False) -> StdioServerParameters:
    """Return the client's configuration: the gate in front of the server, or with the words `before`.

    The gate is a fork, or with `real` a process as users start it.
    """
    gate = [sys.executable] if real else python_with(*GATE)
    command = before or ("--", *sdk_python(), str(SERVER))
    return StdioServerParameters(
        command=gate[0],
        args=[*gate[1:], *INTERLOCK, *command],
        env={
            "INTERLOCK_URL": server.url,
            "INTERLOCK_TOKEN": server.agent,
            "INTERLOCK_CONFIG_DIR": str(directory / "config"),
            "MCP_RAN": str(directory / "ran"),
        },
        cwd=directory,
    )


async def sampled(_context: object, params: Any) -> CreateMessageResult:
    said = TextContent(type="text", text=f"about {params.messages[0].content.text}")
    return CreateMessageResult(role="assistant", content=said, model="m")


@asynccontextmanager
async def session(program: StdioServerParameters) -> AsyncGenerator[ClientSession]:
    async with (
        stdio_client(program) as (read, write),
        ClientSession(read, write, sampling_callback=sampled) as client,
    ):
        await client.initialize()
        yield client


def ran(directory: Path) -> list[Any]:
    file = directory / "ran"
    return [json.loads(each) for each in file.read_text().splitlines()] if file.exists() else []


def text(result: object) -> str:
    assert isinstance(result, CallToolResult)
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


async def waiting(server: Served) -> str:
    return (await until(server.hub.approvals))[0].id


class TestCalls:
    @pytest.mark.slow
    async def test_blocked_and_allowed(self, tmp_path: Path) -> None:
        """A blocked call gets an error with the reason and does not reach the server; others run."""
        async with (
            served(tmp_path) as server,
            session(program(server, tmp_path, real=True)) as client,
        ):
            blocked = await client.call_tool("rm", {"path": "/"})
            assert blocked.is_error
            assert "rm is blocked" in text(blocked)
            early = await client.call_tool("deploy", {"env": "prod"})
            assert early.is_error
            assert "requires a successful call to test" in text(early)
            failed = await client.call_tool("test", {"fails": True})
            assert "3 failed" in text(failed)
            assert (await client.call_tool("deploy", {"env": "prod"})).is_error
            assert text(await client.call_tool("test", {})) == "12 passed"
            assert [each[0] for each in ran(tmp_path)] == ["test", "test"]
            [found] = await server.hub.sessions()
            assert found.agent == "mcp/shop"

    @pytest.mark.slow
    async def test_waiting_call_is_approved_denied_or_edited(self, tmp_path: Path) -> None:
        """A waiting call is approved, denied or edited, and the client gets progress notifications."""
        rules = "require human-approval before deploy"
        async with served(tmp_path, rules=rules) as server, session(program(server, tmp_path)) as client:
            heard = Heard()

            def deploy(env: str) -> asyncio.Task[object]:
                return asyncio.create_task(
                    client.call_tool("deploy", {"env": env}, progress_callback=heard)
                )

            first = deploy("one")
            await asyncio.wait_for(heard.first.wait(), 30)
            assert "it needs approval" in (heard.progress[0][1] or "")
            assert ran(tmp_path) == []
            await server.hub.decide(await waiting(server), approved=True, by="ada")
            assert text(await first) == "deployed to one"

            second = deploy("two")
            request = await waiting(server)
            await server.hub.decide(request, approved=False, by="ada", reason="not on a Friday")
            denied = await second
            assert isinstance(denied, CallToolResult)
            assert denied.is_error
            assert "not on a Friday" in text(denied)

            third = deploy("three")
            request = await waiting(server)
            await server.hub.decide(request, approved=True, by="ada", input={"env": "four"})
            assert text(await third) == "deployed to four"
            assert [each[1]["env"] for each in ran(tmp_path)] == ["one", "four"]

    @pytest.mark.slow
    async def test_cancelled_call_leaves_the_queue(self, tmp_path: Path) -> None:
        """A call that its client cancels leaves the queue and does not run."""
        rules = "require human-approval before deploy"
        async with served(tmp_path, rules=rules) as server, session(program(server, tmp_path)) as client:
            going = asyncio.create_task(client.call_tool("deploy", {"env": "prod"}))
            await waiting(server)
            going.cancel()
            await asyncio.wait({going})

            async def none() -> bool:
                return not await server.hub.approvals()

            await until(none)
            assert text(await client.call_tool("test", {})) == "12 passed"
            assert [each[0] for each in ran(tmp_path)] == ["test"]

    @pytest.mark.slow
    async def test_newer_protocol_is_gated(self, tmp_path: Path) -> None:
        """The newer protocol without a handshake is gated in the same way."""
        async with served(tmp_path) as server, Client(program(server, tmp_path)) as client:
            assert client.protocol_version == "2026-07-28"
            assert text(await client.call_tool("test", {})) == "12 passed"
            blocked = await client.call_tool("rm", {"path": "/"})
            assert blocked.is_error
            assert [each[0] for each in ran(tmp_path)] == ["test"]


class TestTheRest:
    @pytest.mark.slow
    async def test_other_messages_pass(self, tmp_path: Path) -> None:
        """Tools, resources, prompts, sampling requests and progress pass the gate."""
        async with served(tmp_path) as server, session(program(server, tmp_path)) as client:
            tools = (await client.list_tools()).tools
            assert {"deploy", "test", "rm", "think"} <= {each.name for each in tools}
            [found] = (await client.read_resource("shop://stock")).contents
            assert getattr(found, "text", None) == "3 apples"
            [message] = (await client.get_prompt("greet", {"name": "Ada"})).messages
            assert getattr(message.content, "text", None) == "Greet Ada"
            heard = Heard()
            thought = await client.call_tool("think", {"about": "apples"}, progress_callback=heard)
            assert text(thought) == "thought: about apples"
            assert [each[1] for each in heard.progress] == ["thinking", "thought"]

    @pytest.mark.slow
    async def test_mcp_server_does_not_get_the_token(self, tmp_path: Path) -> None:
        """The environment of the MCP server does not contain the gate's token."""
        async with served(tmp_path) as server, session(program(server, tmp_path)) as client:
            assert text(await client.call_tool("secrets", {})) == "[]"

    @pytest.mark.slow
    async def test_without_interlock_server_calls_get_a_remedy(self, tmp_path: Path) -> None:
        """Without the Interlock server, calls get a remedy and everything else works."""
        async with served(tmp_path) as server:
            pass
        async with session(program(server, tmp_path)) as client:
            assert (await client.read_resource("shop://stock")).contents
            refused = await client.call_tool("test", {})
            assert refused.is_error
            assert "interlock serve" in text(refused)
        assert ran(tmp_path) == []


class TestOptions:
    async def test_prefix_and_name_set_names_for_rules(self, tmp_path: Path) -> None:
        """`--prefix` changes the tool names in rules, and `--name` the name of the agent."""
        before = ("--prefix", "shop_", "--name", "clerk", "--", *sdk_python(), str(SERVER))
        async with (
            served(tmp_path, rules="block shop_rm\nblock test") as server,
            session(program(server, tmp_path, *before)) as client,
        ):
            assert (await client.call_tool("rm", {"path": "/"})).is_error
            assert text(await client.call_tool("test", {})) == "12 passed"
            [found] = await server.hub.sessions()
            assert found.agent == "clerk"

    @pytest.mark.slow
    async def test_configuration_file_has_no_effect(self, tmp_path: Path) -> None:
        """A configuration file changes neither the tool names nor the session."""
        (tmp_path / "config").mkdir(exist_ok=True)
        (tmp_path / "config/interlock.toml").write_text(
            '[mcp]\nprefix = "x_"\nsession = "s"\nurl = "http://127.0.0.1:9/"\n'
        )
        async with (
            served(tmp_path, rules="block rm") as server,
            session(program(server, tmp_path)) as client,
        ):
            assert (await client.call_tool("rm", {"path": "/"})).is_error
            [found] = await server.hub.sessions()
            assert found.id != "s"

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ([], "expected either a command after -- or --url"),
            (["--url", "http://h/", "--", "x"], "expected either a command after -- or --url"),
            (["--url", "ftp://h/"], "--url: expected http"),
            (["--session", "a b", "--", "x"], "--session: expected letters"),
            (["--header", "A: b", "--", "x"], "--header is for --url"),
            (["--url", "http://h/", "--header", "A"], "expected 'NAME: VALUE'"),
            (["--url", "http://h/", "--header", "A: ${NOT_SET}"], "NOT_SET is not set"),
            (
                ["--url", "http://h/", "--header", "A: ${TWO_LINES}"],
                "contains characters that HTTP cannot send",
            ),
            (["--", "/no/such/server", "--flag"], "/no/such/server cannot be started"),
        ],
    )
    def test_invalid_options_get_one_line_error(
        self,
        words: list[str],
        expected: str,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Invalid options get a one-line error, and INTERLOCK_URL does not replace `--url`."""
        monkeypatch.setenv("INTERLOCK_URL", "ws://127.0.0.1:9")
        monkeypatch.setenv("TWO_LINES", "secret\r\nB: c")
        assert main(["mcp", *words]) == 2
        said = capsys.readouterr().err
        assert expected in said
        assert "secret" not in said


@asynccontextmanager
async def over_http(directory: Path) -> AsyncGenerator[str]:
    """Yield the URL of the same server behind streamable HTTP."""
    process = await asyncio.create_subprocess_exec(
        *sdk_python(),
        str(SERVER),
        "http",
        stdout=asyncio.subprocess.PIPE,
        env={"MCP_RAN": str(directory / "ran")},
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        await process.wait()


class TestHttp:
    @pytest.mark.slow
    @pytest.mark.parametrize("mode", ["legacy", "auto"])
    async def test_http_server_is_gated(self, tmp_path: Path, mode: str) -> None:
        """A server behind HTTP is gated like one behind stdio, in both versions of the protocol."""
        rules = "block rm\nrequire human-approval before deploy"
        async with served(tmp_path, rules=rules) as server, over_http(tmp_path) as url:
            before = ("--url", url, "--header", "X-Shop: ${MCP_RAN}")
            async with Client(program(server, tmp_path, *before), mode=mode) as client:
                assert (await client.read_resource("shop://stock")).contents
                assert (await client.get_prompt("greet", {"name": "Ada"})).messages
                assert text(await client.call_tool("test", {})) == "12 passed"
                assert "rm is blocked" in text(await client.call_tool("rm", {"path": "/"}))
                going = asyncio.create_task(client.call_tool("deploy", {"env": "one"}))
                request = await waiting(server)
                await server.hub.decide(request, approved=True, by="ada", input={"env": "two"})
                assert text(await going) == "deployed to two"
            assert [each[0] for each in ran(tmp_path)] == ["test", "deploy"]

    @pytest.mark.slow
    async def test_sampling_and_progress_reach_the_client(self, tmp_path: Path) -> None:
        """Sampling requests and progress of a server behind HTTP reach the client."""
        async with (
            served(tmp_path) as server,
            over_http(tmp_path) as url,
            session(program(server, tmp_path, "--url", url)) as client,
        ):
            heard = Heard()
            thought = await client.call_tool("think", {"about": "pears"}, progress_callback=heard)
            assert text(thought) == "thought: about pears"
            assert [each[1] for each in heard.progress] == ["thinking", "thought"]

    @pytest.mark.slow
    async def test_unauthorized_is_reported_without_secrets(self, tmp_path: Path) -> None:
        """An HTTP 401 or a broken answer is reported without secrets, and the gate keeps running."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            if b"x-shop: open" in head.lower():
                said = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"
            else:
                said = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"
            writer.write(said)
            writer.close()

        listening = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://user:hidden@127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp?key=hidden"
        async with served(tmp_path) as server, listening:
            for header, expected in (("shut", "--header"), ("open", "no MCP server answers")):
                shop = program(server, tmp_path, "--url", url, "--header", f"X-Shop: {header}")
                async with stdio_client(shop) as (read, write), ClientSession(read, write) as client:
                    for _ in range(2):
                        with pytest.raises(MCPError, match=expected) as found:
                            await client.initialize()
                        assert "hidden" not in str(found.value)

    @pytest.mark.slow
    async def test_missing_mcp_server_is_an_error(self, tmp_path: Path) -> None:
        """Without an MCP server, the client gets an error and the gate keeps running."""
        async with served(tmp_path) as server, over_http(tmp_path) as url:
            pass
        async with (
            stdio_client(program(server, tmp_path, "--url", url)) as (read, write),
            ClientSession(read, write) as client,
        ):
            for _ in range(2):
                with pytest.raises(MCPError, match="no MCP server answers"):
                    await client.initialize()
