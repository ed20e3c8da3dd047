"""Sessions of remote agents: opened twice, abandoned and resumed, and calls that nobody waits for."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from interlock.engine.gateway import Address, NotAdmittedError, RequestFailedError
from interlock.engine.gateway.protocol.agent_methods import OPEN, OpenSession
from interlock.engine.gateway.protocol.framing import Code, request_frame
from interlock.engine.gateway.server.limits import Limits
from interlock.engine.history.model.events import CallDecided, SessionOpened, SessionResumed

from ..served import Served, raw, served, until

ASKS = "require human-approval before deploy"


async def has_no_requests(served: Served) -> bool:
    return not await served.hub.approvals()


class TestOpening:
    async def test_simultaneous_opens_give_one_session(self, tmp_path: Path) -> None:
        """A session that is opened many times at once exists once, and all clients get it."""
        async with served(tmp_path) as server, server.agent_client() as a, server.agent_client() as b:
            opened = await asyncio.gather(*(c.open("bot", session="s-1") for c in (a, b) * 8))
            assert {each.id for each in opened} == {"s-1"}
            assert len(await server.hub.sessions()) == 1
            events = await server.hub.recorded("s-1")
            assert sum(isinstance(event.body, SessionOpened) for event in events) == 1

    async def test_simultaneous_open_by_another_token_is_refused(self, tmp_path: Path) -> None:
        """If two tokens open the same session id at once, one gets it and the other is refused."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as a,
            server.agent_client(server.other) as b,
        ):
            opened = await asyncio.gather(
                a.open("bot", session="s-1"), b.open("bot", session="s-1"), return_exceptions=True
            )
            refused = [each for each in opened if isinstance(each, RequestFailedError)]
            assert [each.code for each in refused] == [Code.UNKNOWN]

    async def test_session_is_found_after_lost_connection(self, tmp_path: Path) -> None:
        """A session that was opened before the connection was lost is found by opening it again."""
        async with served(tmp_path) as server:
            for number in range(10):
                name = f"s-{number}"
                async with raw(server, server.agent) as socket:
                    asked = OpenSession(agent="bot", session=name)
                    await socket.send(request_frame(OPEN.name, asked, 1), text=True)
                    await asyncio.sleep(0.001 * number)
                    socket.transport.abort()
                async with server.agent_client() as client:
                    gate = await client.open("bot", session=name)
                    assert (await gate.call("ls", {})).outcome == "allow"

    async def test_ended_session_cannot_be_opened_again(self, tmp_path: Path) -> None:
        """The id of an ended session cannot be opened again, and the error names `session.resume`."""
        async with served(tmp_path) as server, server.agent_client() as client:
            gate = await client.open("bot", session="s-1")
            await gate.call("push", {})
            await gate.close()
            with pytest.raises(RequestFailedError, match=r"session\.resume") as refused:
                await client.open("bot", session="s-1")
            assert refused.value.code == Code.REFUSED
            again = await client.resume("s-1")
            assert [(await again.call("push", {})).outcome for _ in range(2)] == ["allow", "block"]

    async def test_session_labels_come_from_the_token(self, tmp_path: Path) -> None:
        """Session labels are those of the token that opens or resumes it, whatever the agent sends."""
        rules = 'block deploy when not session.labels contains "nightly"'
        async with served(tmp_path, rules=rules) as server:
            secret = server.tokens.issue("agent", "ci", labels=["nightly"])
            async with server.agent_client(secret) as client:
                gate = await client.open("bot")
                assert (await gate.call("deploy", {})).outcome == "allow"
                await gate.close()
            async with server.agent_client() as client:
                other = await client.open("bot", labels={"nightly": "nightly", "deploy": "nightly"})
                assert (await other.call("deploy", {})).outcome == "block"
            secret = server.tokens.rotate("ci", labels=["weekly"])
            async with server.agent_client(secret) as client:
                again = await client.resume(gate.id)
                assert (await again.call("deploy", {})).outcome == "block"
            bodies = [event.body for event in await server.hub.recorded(gate.id)]
            openings = [b for b in bodies if isinstance(b, SessionOpened | SessionResumed)]
            assert [b.session_labels for b in openings] == [("nightly",), ("weekly",)]

    async def test_operators_see_tool_labels(self, tmp_path: Path) -> None:
        """Operators see the labels of tools."""
        async with served(tmp_path) as server, server.agent_client() as client:
            gate = await client.open("bot", tools=["rm"], labels={"rm": "Remove a file"})
            state = await server.hub.session(gate.id)
            assert state.labels == {"rm": "Remove a file"}


class TestTwoConnections:
    async def test_connections_of_one_token_share_a_request(self, tmp_path: Path) -> None:
        """Both connections wait for the same request; the end of one does not withdraw it."""
        async with (
            served(tmp_path, rules=ASKS, limits=Limits(absent=0.01)) as server,
            server.agent_client() as a,
            server.agent_client() as b,
        ):
            gate = await a.open("bot")
            same = await b.resume(gate.id)
            first = asyncio.create_task(gate.call("deploy", {}, call_id="d1"))
            await until(server.hub.approvals)
            second = asyncio.create_task(same.call("deploy", {}, call_id="d1"))
            await asyncio.sleep(0.05)
            await a.close()
            await asyncio.gather(first, return_exceptions=True)
            await asyncio.sleep(0.05)
            request = (await server.hub.approvals())[0]
            await server.hub.decide(request.id, approved=True, by="ada")
            assert (await second).outcome == "allow"


class TestNobodyWaits:
    @pytest.mark.slow
    async def test_abandoned_call_is_withdrawn_after_a_while(self, tmp_path: Path) -> None:
        """A call of a lost agent is withdrawn undecided after a while, and judged again on its return."""
        async with served(tmp_path, rules=ASKS, limits=Limits(absent=0.05)) as server:
            client = server.agent_client()
            gate = await client.open("bot")
            going = asyncio.create_task(gate.call("deploy", {}, call_id="d1"))
            await until(server.hub.approvals)
            await client.close()
            await asyncio.gather(going, return_exceptions=True)
            await until(lambda: has_no_requests(server))
            events = await server.hub.recorded(gate.id)
            assert not [event for event in events if isinstance(event.body, CallDecided)]
            async with server.agent_client() as again:
                gate = await again.resume(gate.id)
                going = asyncio.create_task(gate.call("deploy", {}, call_id="d1"))
                request = (await until(server.hub.approvals))[0]
                await server.hub.decide(request.id, approved=True, by="ada")
                assert (await going).outcome == "allow"

    async def test_faulty_repetition_does_not_keep_request_open(self, tmp_path: Path) -> None:
        """A faulty repetition of an abandoned call does not keep its request open."""
        limits = Limits(absent=0.2)
        async with (
            served(tmp_path, rules=ASKS, limits=limits) as server,
            server.agent_client() as client,
        ):
            gate = await client.open("bot")
            assert (await gate.call("deploy", {}, call_id="d1", wait=0.0)).outcome == "waiting"
            await until(server.hub.approvals)
            with pytest.raises(RequestFailedError):
                await gate.call("deploy", {"other": 1}, call_id="d1")
            await until(lambda: has_no_requests(server))

    @pytest.mark.slow
    async def test_abandoned_call_does_not_affect_resumed_session(self, tmp_path: Path) -> None:
        """An abandoned call of an ended session does not withdraw the same call of the resumed one."""
        limits = Limits(absent=0.3)
        async with (
            served(tmp_path, rules=ASKS, limits=limits) as server,
            server.agent_client() as client,
        ):
            gate = await client.open("bot")
            assert (await gate.call("deploy", {}, call_id="d1", wait=0.0)).outcome == "waiting"
            await server.hub.close_session(gate.id, "ada")
            gate = await client.resume(gate.id)
            going = asyncio.create_task(gate.call("deploy", {}, call_id="d1"))
            [request] = await until(server.hub.approvals)
            await asyncio.wait([going], timeout=0.6)
            assert await server.hub.approvals() == [request]
            await server.hub.decide(request.id, approved=True, by="ada")
            assert (await going).outcome == "allow"

    async def test_long_wait_keeps_request_open(self, tmp_path: Path) -> None:
        """A client that waits longer than one answer may take asks again, and its request stays open."""
        async with (
            served(tmp_path, rules=ASKS, limits=Limits(wait=0.05)) as server,
            server.agent_client() as client,
        ):
            gate = await client.open("bot")
            going = asyncio.create_task(gate.call("deploy", {}, call_id="d1"))
            [request] = await until(server.hub.approvals)
            [first] = server.gateway.sessions._open[gate.id].pending["d1"].answers
            await asyncio.sleep(0.1)
            await server.gateway.sessions.end_idle()
            await until(lambda: asyncio.sleep(0, first.done()))
            assert first.result().outcome == "waiting"
            assert await server.hub.approvals() == [request]
            await server.hub.decide(request.id, approved=True, by="ada")
            assert (await going).outcome == "allow"

    async def test_idle_session_is_ended_and_can_be_resumed(self, tmp_path: Path) -> None:
        """An idle session is ended and can be resumed."""
        async with served(tmp_path, limits=Limits(idle=0.05)) as server, server.agent_client() as client:
            gate = await client.open("bot")
            await asyncio.sleep(0.1)
            await server.gateway.sessions.end_idle()
            assert "interlock" in await until(lambda: asyncio.sleep(0, gate.ended))
            assert (await (await client.resume(gate.id)).call("ls", {})).outcome == "allow"


class TestOutputs:
    @pytest.mark.slow
    async def test_oversized_result_is_recorded_shortened(self, tmp_path: Path) -> None:
        """A result too large to send is recorded shortened with a note, and the connection stays open."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as client,
            client.session("bot") as gate,
        ):
            await gate.call("cat", {}, call_id="c1")
            await gate.result("c1", "é\x00" * 2_000_000)
            output = (await server.hub.session(gate.id)).calls["c1"].output
            assert output is not None
            assert "more characters were not sent" in output
            with pytest.raises(RequestFailedError) as refused:
                await gate.call("cat", {"text": "x" * 2_000_000})
            assert refused.value.code == Code.LIMIT
            assert (await gate.call("ls", {})).outcome == "allow"

    async def test_repeated_model_ids_are_each_judged(self, tmp_path: Path) -> None:
        """Repeated calls under the same id of a model are each judged."""
        call = {"id": "call_0", "function": {"name": "push", "arguments": "{}"}}
        async with (
            served(tmp_path) as server,
            server.agent_client() as client,
            client.session("bot") as gate,
        ):
            said = [await gate.run(call, {"push": lambda: "pushed"}) for _ in range(3)]
            assert [each["content"] for each in said[:2]] == ["pushed", "pushed"]
            assert said[2]["content"] != "pushed"


class TestUnixSockets:
    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
    async def test_socket_of_another_user_gets_no_token(self, tmp_path: Path) -> None:
        """A client sends no token to a socket of another user."""
        path = tmp_path / "gate.sock"
        async with served(tmp_path, address=Address(path=path)) as server:
            os.chown(path, 12345, -1)
            with pytest.raises(NotAdmittedError, match="another user"):
                await server.agent_client().link.open()

    async def test_socket_of_dead_server_is_replaced(self, tmp_path: Path) -> None:
        """A socket without a server is replaced; the socket of a running server is not."""
        path = tmp_path / "gate.sock"
        async with served(tmp_path, address=Address(path=path)):
            (tmp_path / "other").mkdir()
            with pytest.raises(OSError, match="another server"):
                async with served(tmp_path / "other", address=Address(path=path)):
                    pass
        import socket

        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        async with (
            served(tmp_path, address=Address(path=path)) as server,
            server.agent_client() as client,
        ):
            await client.open("bot")
        assert not path.exists()
