"""Plans of MCP clients: a tool of Interlock beside the server's tools (G-108)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.engine.core.plan import PLAN_SCHEMA
from interlock.engine.gateway.mcp.gate import PLAN_TOOL

from ..served import Served, served, until
from .test_mcp_proxy import Ends, between, calls, text

RULES = "require human-approval before plan\nrequire human-approval before deploy"
PLAN = {"title": "Release 1.4", "steps": [{"tool": "deploy", "count": 2}]}


async def decide(server: Served, *, approved: bool = True) -> None:
    request = (await until(server.hub.approvals))[0]
    assert request.called == "plan"
    outcome = await server.hub.decide(request.id, approved=approved, by="ada", digest=request.digest)
    assert outcome.ok, outcome.message


async def listed(ends: Ends, *tools: str, **more: object) -> list[str]:
    """Return the names that the client reads in the server's list."""
    await ends.send(id="list", method="tools/list", params={})
    await ends.answer("list", result={"tools": [{"name": each} for each in tools], **more})
    return [each["name"] for each in (await ends.told("list"))["result"]["tools"]]


class TestList:
    async def test_tool_is_last_in_the_list(self, tmp_path: Path) -> None:
        """The tool is last in the list and replaces a tool of the server with the same name."""
        async with served(tmp_path, rules=RULES) as server, between(server, plans=True) as ends:
            assert await listed(ends, "deploy", PLAN_TOOL, "push") == ["deploy", "push", PLAN_TOOL]
            found = (await ends.told("list"))["result"]["tools"][-1]
            assert found["inputSchema"] == json.loads(json.dumps(PLAN_SCHEMA))

    async def test_only_last_page_has_the_tool(self, tmp_path: Path) -> None:
        """Only the last of several pages contains the tool."""
        async with served(tmp_path, rules=RULES) as server, between(server, plans=True) as ends:
            assert await listed(ends, "deploy", nextCursor="2") == ["deploy"]

    async def test_absent_without_the_option(self, tmp_path: Path) -> None:
        """Without the option the list does not contain the tool."""
        async with served(tmp_path, rules=RULES) as server, between(server) as ends:
            assert await listed(ends, "deploy") == ["deploy"]


class TestPlan:
    async def test_approved(self, tmp_path: Path) -> None:
        """The plan does not reach the server; the client reads the granted calls, which then run."""
        async with served(tmp_path, rules=RULES) as server, between(server, plans=True) as ends:
            await ends.ask(1, PLAN_TOOL, PLAN)
            await decide(server)
            result = (await ends.told(1))["result"]
            assert result["isError"] is False
            assert "2 deploy" in result["content"][0]["text"]
            assert ends.server == []
            for number in (2, 3):
                await ends.ran(number, "deploy")
            assert [(each.tool, each.status) for each in await calls(server)] == [
                ("plan", "done"),
                ("deploy", "done"),
                ("deploy", "done"),
            ]

    async def test_denied(self, tmp_path: Path) -> None:
        """A denied plan is answered as an error."""
        async with served(tmp_path, rules=RULES) as server, between(server, plans=True) as ends:
            await ends.ask(1, PLAN_TOOL, PLAN)
            await decide(server, approved=False)
            assert "plan" in text(await ends.told(1))
            assert ends.server == []

    async def test_invalid_plan_is_refused(self, tmp_path: Path) -> None:
        """An invalid plan is refused with the faulty place, without a request."""
        async with served(tmp_path, rules=RULES) as server, between(server, plans=True) as ends:
            await ends.ask(1, PLAN_TOOL, {"title": "Release 1.4", "steps": []})
            assert "steps: found an empty list" in text(await ends.told(1))

    @pytest.mark.parametrize("prefix", ["", "shop_"])
    async def test_prefix_does_not_change_plan_name(self, tmp_path: Path, prefix: str) -> None:
        """The prefix of the server's tools does not change the name `plan` in rules."""
        async with served(tmp_path, rules=RULES) as server, between(server, plans=True) as ends:
            ends.gate._prefix = prefix
            await ends.ask(1, PLAN_TOOL, PLAN)
            await decide(server)
            await ends.told(1)
