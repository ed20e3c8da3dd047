"""Calls of an MCP client that are not decided in time: refused, and answered when made again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.engine.gateway.mcp.gate import McpCall
from interlock.engine.history.model.events import (
    ApprovalRequested,
    ApprovalWithdrawn,
    CallRepeated,
    CallResult,
)
from interlock.engine.hub.hub import ApprovalPolicy

from ..served import Served, served, until
from .test_mcp_proxy import ASKING, between, calls, text, waiting

LATE = ApprovalPolicy(late=900.0)


async def is_late(server: Served) -> bool:
    found = await server.hub.approvals()
    return bool(found) and found[0].late is not None


async def recorded(server: Served, kind: type) -> list[object]:
    [state] = await server.hub.sessions()
    return [e.body for e in await server.hub.recorded(state.id) if isinstance(e.body, kind)]


class TestOutOfTime:
    @pytest.mark.slow
    async def test_refused_call_can_be_repeated(self, tmp_path: Path) -> None:
        """The refusal names the deadline; a repeated call runs with the approval given in between."""
        async with (
            served(tmp_path, rules=ASKING, policy=LATE) as server,
            between(server, wait=2.0) as ends,
        ):
            await ends.ask(1, "deploy", {"env": "prod"})
            refused = text(await ends.told(1))
            assert "call the same tool again with exactly the same input" in refused
            assert "15 min from now" in refused or "14 min" in refused
            assert await is_late(server)
            await server.hub.decide(await waiting(server), approved=True, by="ada")
            assert ends.server == []
            await ends.ask(2, "deploy", {"env": "prod"})
            assert (await ends.forwarded())["params"]["arguments"] == {"env": "prod"}
            await ends.done(2)
            await ends.told(2)
            [call] = await calls(server)
            assert (call.status, call.approved_by) == ("done", ("ada",))
            assert len(await recorded(server, ApprovalRequested)) == 1

    @pytest.mark.slow
    async def test_repeated_calls_wait_for_same_request(self, tmp_path: Path) -> None:
        """Repeated calls wait for the same request until it is decided."""
        async with (
            served(tmp_path, rules=ASKING, policy=LATE) as server,
            between(server, wait=2.0) as ends,
        ):
            for number in (1, 2, 3):
                await ends.ask(number, "deploy")
                assert "stays open until" in text(await ends.told(number))
            assert len(await recorded(server, ApprovalRequested)) == 1

    @pytest.mark.slow
    async def test_without_late_answers_request_is_withdrawn(self, tmp_path: Path) -> None:
        """Without late answers the request is withdrawn, and the text gives the reason."""
        async with served(tmp_path, rules=ASKING) as server, between(server, wait=2.0) as ends:
            await ends.ask(1, "deploy")
            assert "make it again when somebody is there" in text(await ends.told(1))
            assert await server.hub.approvals() == []

    async def test_client_with_progress_is_kept_waiting(self, tmp_path: Path) -> None:
        """A client that asked for progress is kept waiting and gets progress notifications."""
        async with served(tmp_path, rules=ASKING, policy=LATE) as server, between(server) as ends:
            await ends.ask(1, "deploy", _meta={"progressToken": "t"})

            async def heard() -> bool:
                return len(ends.progress()) >= 3

            await until(heard)
            assert not await is_late(server)


class TestCancelled:
    @pytest.mark.parametrize("reason", ["McpError: MCP error -32001: Request timed out", "timeout"])
    async def test_client_timeout_leaves_request_open(self, tmp_path: Path, reason: str) -> None:
        """A client that times out leaves the request open and gets no late answer."""
        async with served(tmp_path, rules=ASKING, policy=LATE) as server, between(server) as ends:
            await ends.ask(1, "deploy")
            await waiting(server)
            await ends.cancel(1, reason=reason)

            async def late() -> bool:
                return await is_late(server)

            await until(late)
            await server.hub.decide(await waiting(server), approved=True, by="ada")
            await ends.ask(2, "deploy")
            assert (await ends.forwarded())["id"] == 2
            await ends.done(2)
            await ends.told(2)
            assert [each for each in ends.client if each.get("id") == 1] == []
            assert len(await recorded(server, CallResult)) == 1

    async def test_timeout_during_progress_submits_no_second_call(self, tmp_path: Path) -> None:
        """A client that times out during a progress notification does not submit the call again."""
        async with served(tmp_path, rules=ASKING, policy=LATE) as server, between(server) as ends:
            tells, goes_on = asyncio.Event(), asyncio.Event()

            async def slow(call: McpCall, began: float, activity: str) -> None:
                if activity == "it needs approval":
                    tells.set()
                    await goes_on.wait()

            ends.proxy._send_progress = slow
            await ends.ask(1, "deploy", _meta={"progressToken": "t"})
            await tells.wait()
            await waiting(server)
            [task] = ends.proxy._call_tasks.values()
            await ends.cancel(1, reason="timeout")

            async def late() -> bool:
                return await is_late(server)

            await until(late)
            goes_on.set()
            await task
            assert len(await recorded(server, CallRepeated)) == 0
            assert await is_late(server)

    @pytest.mark.parametrize("reason", [None, "the user pressed escape"])
    async def test_other_cancellation_withdraws_request(self, tmp_path: Path, reason: str | None) -> None:
        """Any other cancellation withdraws the request."""
        async with served(tmp_path, rules=ASKING, policy=LATE) as server, between(server) as ends:
            await ends.ask(1, "deploy")
            await waiting(server)
            await ends.cancel(1, **({} if reason is None else {"reason": reason}))

            async def gone() -> bool:
                return await server.hub.approvals() == []

            await until(gone)
            assert len(await recorded(server, ApprovalWithdrawn)) == 1
