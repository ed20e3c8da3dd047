"""The memory limit for a token's waiting calls, and errors while the disk is full."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.engine.gateway.client.connection import RequestFailedError
from interlock.engine.gateway.protocol.framing import Code
from interlock.engine.gateway.server.limits import Limits
from interlock.engine.hub.hub import ApprovalPolicy

from ..served import served, until

RULES = "require human-approval before deploy\nrequire test before ship\n"


@contextmanager
def full_disk() -> Iterator[None]:
    """Make every write that extends a file fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class TestMemory:
    async def test_calls_beyond_the_token_limit_are_refused(self, tmp_path: Path) -> None:
        """A call beyond the token's limit is refused; other tokens and small calls are not."""
        limits = Limits(waiting_bytes=30_000)
        async with (
            served(tmp_path, rules=RULES, limits=limits) as server,
            server.agent_client() as client,
            server.agent_client(server.other) as other,
        ):
            first, second = await client.open("a"), await client.open("b")
            large = {"text": "x" * 10_000}
            waiting = [
                asyncio.ensure_future(gate.call("deploy", large, call_id=f"c{n}"))
                for n, gate in enumerate((first, second))
            ]

            async def both() -> bool:
                return len(await server.hub.approvals()) == 2

            await until(both)
            with pytest.raises(RequestFailedError, match="exceed the limit of 30000") as refused:
                await first.call("deploy", large, call_id="c9")
            assert (refused.value.code, refused.value.data) == (Code.LIMIT, {"limit": 30_000})
            with pytest.raises(RequestFailedError, match="exceed the limit of 30000"):
                await first.call("deploy", large, call_id="c9", wait=0.0)
            assert len(await server.hub.approvals()) == 2
            assert (await first.call("ls", {}, call_id="small")).outcome == "allow"
            again = asyncio.ensure_future(first.call("deploy", large, call_id="c0"))
            theirs = asyncio.ensure_future((await other.open("o")).call("deploy", large, call_id="o1"))

            async def three() -> bool:
                return len(await server.hub.approvals()) == 3

            await until(three)
            for request in await server.hub.approvals():
                await server.hub.decide(request.id, approved=True, by="ada")
            answers = await asyncio.gather(*waiting, again, theirs)
            assert [each.outcome for each in answers] == ["allow"] * 4

    async def test_values_count_with_their_size_in_memory(self, tmp_path: Path) -> None:
        """Values count with their size in memory, which may exceed their size on the wire."""
        async with (
            served(tmp_path, rules=RULES, limits=Limits(waiting_bytes=60_000)) as server,
            server.agent_client() as client,
            client.session("a") as gate,
        ):
            with pytest.raises(RequestFailedError, match="exceed the limit of 60000"):
                await gate.call("deploy", {"lists": [[] for _ in range(1000)]}, wait=0.0)
            assert not await server.hub.approvals()
            assert (await gate.call("deploy", {"text": "[]," * 1000}, wait=0.0)).outcome == "waiting"

    @pytest.mark.parametrize("end", ["decided", "withdrawn", "closed", "refused"])
    async def test_memory_is_freed_however_the_wait_ends(self, tmp_path: Path, end: str) -> None:
        """The memory of a call is freed however its wait ends."""
        limits = Limits(waiting_bytes=15_000)
        async with (
            served(tmp_path, rules=RULES, limits=limits) as server,
            server.agent_client() as client,
        ):
            large = {"text": "x" * 10_000}
            gate = await client.open("a")
            for n in range(4):
                call = asyncio.ensure_future(gate.call("deploy", large, call_id=f"c{n}"))
                [request] = await until(server.hub.approvals)
                match end:
                    case "decided":
                        await server.hub.decide(request.id, approved=False, by="ada")
                        await call
                    case "withdrawn":
                        await gate.withdraw(f"c{n}")
                        with pytest.raises(RequestFailedError):
                            await call
                    case "closed":
                        await server.hub.close_session(gate.id, "ada")
                        with pytest.raises(RequestFailedError):
                            await call
                        gate = await client.open("a")
                    case _:
                        await server.hub.decide(request.id, approved=False, by="ada")
                        await call
                        with pytest.raises(RequestFailedError, match="another call"):
                            await gate.call("other", large, call_id=f"c{n}")
            assert not server.gateway.sessions.calls.sizes

    async def test_late_calls_are_limited(self, tmp_path: Path) -> None:
        """The late calls of a client are limited, too; further ones are withdrawn."""
        limits, policy = Limits(waiting_bytes=30_000), ApprovalPolicy(late=900.0)
        async with (
            served(tmp_path, rules=RULES, limits=limits, policy=policy) as server,
            server.agent_client() as client,
        ):
            gate = await client.open("a")
            stays_open = []

            async def asked() -> bool:
                return len(await server.hub.approvals()) == min(len(stays_open), 2) + 1

            for n in range(4):
                large = {"text": f"{n}" * 10_000}
                await gate.call("deploy", large, call_id=f"c{n}", wait=0.0)
                await until(asked)
                stays_open.append(await gate.give_up(f"c{n}") is not None)
            assert stays_open == [True, True, False, False]
            waiting = await server.hub.approvals()
            assert len(waiting) == 2
            calls = server.gateway.sessions.calls
            assert (calls.sizes, calls.late_sizes["bot"] > 20_000) == ({}, True)
            first = {"text": "0" * 10_000}
            assert (await gate.call("deploy", first, call_id="d0", wait=0.0)).outcome == "waiting"
            assert calls.late_sizes["bot"] < 15_000
            assert await gate.give_up("d0") is not None
            assert calls.late_sizes["bot"] > 20_000
            await server.hub.decide(waiting[1].id, approved=False, by="ada")

            async def released() -> bool:
                return calls.late_sizes["bot"] < 15_000

            await until(released)
            await gate.close()
            assert not calls.late_sizes

    async def test_closing_the_session_frees_abandoned_calls(self, tmp_path: Path) -> None:
        """A call that nobody waits for keeps its memory until its session is closed."""
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            gate = await client.open("a")
            asked = await gate.call("deploy", {"text": "x" * 10_000}, call_id="c1", wait=0.0)
            assert asked.outcome == "waiting"
            held = server.gateway.sessions.calls.sizes
            assert held["bot"] > 10_000
            await gate.close()
            assert not held


class TestFullDisk:
    async def test_clients_get_the_reason_and_continue(self, tmp_path: Path) -> None:
        """Agents and consoles get the reason while the disk is full, and continue afterwards."""
        async with (
            served(tmp_path, rules=RULES) as server,
            server.agent_client() as client,
            server.console() as console,
        ):
            gate = await client.open("bot")
            call = asyncio.ensure_future(gate.call("deploy", {}, call_id="d1"))
            [request] = await until(console.approvals)
            with full_disk():
                for ask in (
                    gate.call("ls", {"x": "y" * 5000}, call_id="l1"),
                    client.open("another"),
                    gate.report_message("user", "hello"),
                ):
                    with pytest.raises(RequestFailedError, match="free space") as refused:
                        await ask
                    assert refused.value.code == Code.UNRECORDED
                decided = await console.decide(request.id, approved=True, digest=request.digest)
                assert not decided.ok
                assert "Not decided, the journal refused it" in decided.message
                assert "free space" in decided.message
                switched = await console.toggle_net(
                    gate.id, "approve-before-deploy", False, reason="a test"
                )
                assert not switched.ok
                assert "free space" in switched.message
                assert not call.done()
            assert [each.id for each in await console.approvals()] == [request.id]
            decided = await console.decide(request.id, approved=True, digest=request.digest)
            assert decided.ok, decided.message
            assert (await asyncio.wait_for(call, 10)).outcome == "allow"
            assert (await gate.call("ls", {"x": "y" * 5000}, call_id="l1")).outcome == "allow"

    async def test_unrecorded_result_unlocks_nothing(self, tmp_path: Path) -> None:
        """A result that cannot be recorded unlocks nothing, and is accepted when it is sent again."""
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            gate = await client.open("bot")
            await gate.call("test", {}, call_id="t1")
            with full_disk(), pytest.raises(RequestFailedError, match="free space"):
                await gate.result("t1", "42 passed")
            assert (await gate.call("ship", {}, call_id="s1")).outcome == "block"
            await gate.result("t1", "42 passed")
            assert (await gate.call("ship", {}, call_id="s2")).outcome == "allow"
