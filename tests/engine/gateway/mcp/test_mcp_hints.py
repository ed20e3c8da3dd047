"""Hints of MCP servers: they are known before the first call, and a changed hint is dropped (G-113)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.engine.gateway.client.connection import RequestFailedError
from interlock.engine.gateway.mcp.tools import ToolNames
from interlock.engine.gateway.protocol.framing import Code
from interlock.engine.history.model.events import ToolHints

from ..served import Served, served
from .test_mcp_proxy import Ends, between, said, text

RULES = "block fetch when not hint.read_only = true"
CHANGED = '{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}'


def claiming(ends: Ends, annotations: object, *more: object) -> None:
    """Make the server list `fetch` once for each of the annotations."""

    async def lists(asked: dict[str, Any]) -> None:
        tools = [{"name": "fetch", "annotations": each} for each in (annotations, *more)]
        ends.pages.append(0)
        await ends.answer(asked["id"], result={"tools": tools})

    ends.lists = lists


async def claims(server: Served) -> list[tuple[dict[str, bool], tuple[str, ...]]]:
    [state] = await server.hub.sessions()
    events = await server.hub.recorded(state.id)
    return [(e.body.hints, e.body.differ) for e in events if isinstance(e.body, ToolHints)]


class TestHints:
    async def test_hints_apply_to_the_first_call(self, tmp_path: Path) -> None:
        """The server's hints are recorded once and apply to the first call."""
        async with served(tmp_path, rules=RULES) as server, between(server) as ends:
            claiming(ends, {"readOnlyHint": True, "openWorldHint": False, "title": "Fetch"})
            await ends.ran(1, "fetch")
            await ends.ran(2, "fetch")
            assert await claims(server) == [({"read_only": True, "open_world": False}, ())]

    async def test_without_annotations_no_hint_is_recorded(self, tmp_path: Path) -> None:
        """Without annotations no hint is recorded, and a rule about the hint applies."""
        async with served(tmp_path, rules=RULES) as server, between(server) as ends:
            await ends.ask(1, "fetch")
            assert "hint.read_only" in text(await ends.told(1))
            assert await claims(server) == []

    async def test_changed_hint_is_dropped(self, tmp_path: Path) -> None:
        """A hint that the server changes is dropped permanently, and operators get a note."""
        async with served(tmp_path, rules=RULES) as server, between(server) as ends:
            claiming(ends, {"readOnlyHint": True})
            await ends.ran(1, "fetch")
            claiming(ends, {"readOnlyHint": False})
            await ends.line(CHANGED)
            await ends.ask(2, "fetch")
            text(await ends.told(2))
            claiming(ends, {"readOnlyHint": True})
            await ends.line(CHANGED)
            await ends.ask(3, "fetch")
            text(await ends.told(3))
            assert await claims(server) == [({"read_only": True}, ()), ({}, ("read_only",))]
            assert any("differently than before" in each for each in await said(server))

    @pytest.mark.slow
    async def test_duplicate_tool_gets_common_hints_only(self, tmp_path: Path) -> None:
        """If a list contains a tool twice, only the hints of both entries count."""
        async with served(tmp_path, rules=RULES) as server, between(server) as ends:
            claiming(ends, {"readOnlyHint": True, "openWorldHint": True}, {"openWorldHint": True})
            await ends.ask(1, "fetch")
            text(await ends.told(1))
            assert await claims(server) == [({"open_world": True}, ())]

    @pytest.mark.slow
    async def test_hints_belong_to_prefixed_name(self, tmp_path: Path) -> None:
        """With `--prefix` the hints belong to the prefixed tool name."""
        rules = RULES.replace("fetch", "web_fetch")
        async with served(tmp_path, rules=rules) as server, between(server) as ends:
            ends.gate._prefix = "web_"  # pyright: ignore[reportPrivateUsage]
            claiming(ends, {"readOnlyHint": True})
            await ends.ran(1, "fetch")
            [state] = await server.hub.sessions()
            assert list(state.hints) == ["web_fetch"]

    async def test_call_fails_if_hints_cannot_be_recorded(self, tmp_path: Path) -> None:
        """A call fails if its hints cannot be recorded, unless the server is too old for hints."""
        async with served(tmp_path, rules="block other") as server, between(server) as ends:
            claiming(ends, {"readOnlyHint": True})
            session = await ends.at_gate.opened()
            link, failing = session._client.link, [Code.INTERNAL, Code.METHOD]  # pyright: ignore[reportPrivateUsage]
            request = link.request

            async def fails(method: Any, *args: Any, **more: Any) -> Any:
                if method.name == "tool.note_hints":
                    raise RequestFailedError(failing.pop(0), "no")
                return await request(method, *args, **more)

            link.request = fails  # type: ignore[method-assign]
            await ends.ask(1, "fetch")
            assert "could not judge fetch" in text(await ends.told(1))
            assert ends.server == []
            await ends.ran(2, "fetch")


class TestOtherTools:
    """A hint applies to the tool of one server, and to no other tool of the same name."""

    @pytest.mark.parametrize("reported", [False, True])
    async def test_other_programs_call_is_judged_without_hints(
        self, tmp_path: Path, reported: bool
    ) -> None:
        """A call of another program without hints is judged without the first program's hints."""
        async with served(tmp_path, rules=RULES) as server, between(server) as ends:
            claiming(ends, {"readOnlyHint": True})
            await ends.ran(1, "fetch")
            shared = (await ends.at_gate.opened()).id
            async with server.agent_client() as other:
                session = await other.resume(shared)
                if reported:
                    await session.note_hints("fetch", {})
                assert (await session.call("fetch", {})).outcome == "block"
                assert (await session.call("fetch", {})).outcome == "block"
            await ends.ask(2, "fetch")
            assert "hint.read_only" in text(await ends.told(2))
            assert await claims(server) == [({"read_only": True}, ()), ({}, ("read_only",))]

    async def test_hints_survive_a_reconnection(self, tmp_path: Path) -> None:
        """A client's reported hints still count after it reconnects."""
        async with served(tmp_path, rules=RULES) as server:
            async with server.agent_client() as client:
                session = await client.open("bot")
                await session.note_hints("fetch", {"read_only": True})
                socket = client.link._socket  # type: ignore[reportPrivateUsage]
                assert socket is not None
                socket.transport.abort()
                await socket.wait_closed()
                assert (await session.call("fetch", {})).outcome == "allow"
            assert await claims(server) == [({"read_only": True}, ())]


class TestList:
    def test_incomplete_list_gives_no_hints(self) -> None:
        """Hints come from the last complete list."""
        names = ToolNames(new_id=lambda: "x")
        names.request({})
        names.take(
            b'{"id": "interlock-tools-x-1", "result": {"tools": [{"name": "a", "annotations": '
            b'{"readOnlyHint": true}}], "nextCursor": "2"}}'
        )
        assert names.hints("a") == {}
        names.take(b'{"id": "interlock-tools-x-2", "result": {"tools": []}}')
        assert names.hints("a") == {"read_only": True}
