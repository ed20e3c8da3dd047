"""Attacks by clients with a valid token. Each class is one attack."""

from __future__ import annotations

import asyncio
import json
import logging
import socket as sockets
from contextlib import suppress
from pathlib import Path

import pytest
from pydantic import JsonValue
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from interlock.engine.gateway import NotAdmittedError, RequestFailedError
from interlock.engine.gateway.client.agent import AgentSession
from interlock.engine.gateway.protocol.agent_methods import AGENT_METHODS
from interlock.engine.gateway.protocol.console_methods import CONSOLE_METHODS
from interlock.engine.gateway.protocol.framing import Code, Response, read_incoming
from interlock.engine.gateway.server import server
from interlock.engine.gateway.server.limits import Limits
from interlock.engine.history.model.events import ApprovalDecided, CallDecided, CallResult

from ..client.examples import EXAMPLES
from ..served import Served, raw, served, until
from .stranger import PATIENCE, bearer, framed, let_in, stranger, upgrade

GREETING = b'{"jsonrpc":"2.0","id":0,"method":"hello","params":{"versions":[1]}}'
ASKS = "require human-approval before deploy"


async def ask(socket: ClientConnection, method: str, **params: JsonValue) -> Response:
    """Send one raw request and return its answer."""
    await socket.send(json.dumps(request(method, 1, **params)))
    async with asyncio.timeout(PATIENCE):
        while True:
            found = read_incoming(await socket.recv())
            if isinstance(found, Response):
                return found


def request(method: str, number: int, **params: JsonValue) -> dict[str, JsonValue]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def code(response: Response) -> int | None:
    return None if response.error is None else response.error.code


async def answers(socket: ClientConnection, *, within: float) -> int:
    """Return the number of messages within some seconds."""
    count = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            while True:
                await socket.recv()
                count += 1
    return count


async def waiting(served: Served) -> tuple[str, str]:
    """Return the id and the digest of the waiting request."""
    found = (await until(served.hub.approvals))[0]
    return found.id, found.digest


async def wait_for_a_person(served: Served, gate: AgentSession, call_id: str) -> None:
    """Make a call of this id, and return once its request is in the queue."""
    assert (await gate.call("deploy", {}, call_id=call_id, wait=0.01)).outcome == "waiting"

    async def asked() -> bool:
        return any(call_id == each.call_id for each in await served.hub.approvals())

    await until(asked)


async def no_sessions(served: Served) -> bool:
    return not await served.hub.sessions()


class TestFloods:
    @pytest.mark.slow
    async def test_messages_of_one_token_do_not_delay_others(self, tmp_path: Path) -> None:
        """Messages beyond the rate wait in their own socket, while another token is served."""
        async with (
            served(tmp_path, limits=Limits(rate=50)) as server,
            raw(server, server.agent) as flood,
            server.agent_client(server.other) as client,
            client.session("other") as gate,
        ):
            for number in range(2000):
                await flood.send(f'{{"jsonrpc":"2.0","id":{number},"method":"nothing"}}')
            assert (await gate.call("ls", {})).outcome == "allow"
            assert await answers(flood, within=0.2) < 2000
            flood.transport.abort()

    async def test_rate_limit_covers_all_connections_of_a_token(self, tmp_path: Path) -> None:
        """The rate limit applies to all connections of a token together."""
        async with served(tmp_path, limits=Limits(rate=50)) as server:
            usage = server.gateway._usage  # type: ignore[reportPrivateUsage]
            async with raw(server, server.agent), raw(server, server.agent), raw(server, server.other):
                assert len(usage) == 2

    @pytest.mark.slow
    async def test_large_messages_count_more(self, tmp_path: Path) -> None:
        """A few large messages use as much of a token's rate as many small ones."""
        async with served(tmp_path, limits=Limits(rate=50)) as server, raw(server, server.agent) as flood:
            for _ in range(8):
                await flood.send("x" * 500_000)
            assert await answers(flood, within=0.5) < 8
            flood.transport.abort()

    @pytest.mark.slow
    @pytest.mark.parametrize("batch", [True, False])
    async def test_many_small_values_count_more(self, tmp_path: Path, batch: bool) -> None:
        """Many small values use up the rate, in parameters and in a batch of requests."""
        lists: list[JsonValue] = [[] for _ in range(1000)]
        frame = json.dumps([lists] if batch else request("nothing", 1, lists=lists))
        async with served(tmp_path, limits=Limits(rate=50)) as server, raw(server, server.agent) as flood:
            for _ in range(20):
                await flood.send(frame)
            assert await answers(flood, within=0.3) < 20
            flood.transport.abort()

    async def test_open_sessions_of_a_token_are_limited(self, tmp_path: Path) -> None:
        """The open sessions of a token are limited, also if all are opened at once."""
        async with served(tmp_path, limits=Limits(sessions_per_token=3)) as server:
            async with server.agent_client() as client:
                opened = await asyncio.gather(
                    *(client.open("bot") for _ in range(10)), return_exceptions=True
                )
                refused = [each for each in opened if isinstance(each, RequestFailedError)]
                assert {each.code for each in refused} == {Code.LIMIT}
                assert len(opened) - len(refused) == 3 == len(await server.hub.sessions())
            async with server.agent_client(server.other) as client:
                await client.open("bot")

    async def test_waiting_calls_of_a_session_are_limited(self, tmp_path: Path) -> None:
        """The waiting calls of a session are limited, and those that already wait stay."""
        limits = Limits(calls_per_session=3)
        async with (
            served(tmp_path, rules=ASKS, limits=limits) as server,
            server.agent_client() as client,
            client.session("bot") as gate,
        ):
            for number in range(3):
                assert (
                    await gate.call("deploy", {}, call_id=f"c{number}", wait=0.01)
                ).outcome == "waiting"
            with pytest.raises(RequestFailedError) as refused:
                await gate.call("deploy", {}, call_id="c4")
            assert refused.value.code == Code.LIMIT
            assert (await gate.call("deploy", {}, call_id="c1", wait=0.01)).outcome == "waiting"

    @pytest.mark.slow
    async def test_connection_with_many_waiting_calls_is_still_served(self, tmp_path: Path) -> None:
        """A connection with many waiting calls still answers requests and withdraws calls."""
        limits = Limits(calls_per_connection=20, calls_per_session=100, at_work=2)
        async with (
            served(tmp_path, rules=ASKS, limits=limits) as server,
            server.agent_client() as client,
            client.session("bot") as gate,
        ):
            calls = [
                asyncio.create_task(gate.call("deploy", {"n": n}, call_id=f"c{n}")) for n in range(30)
            ]
            await until(lambda: asyncio.sleep(0, sum(call.done() for call in calls) == 10))
            for call in calls:
                if call.done():
                    error = call.exception()
                    assert isinstance(error, RequestFailedError)
                    assert error.code == Code.LIMIT
            assert "deploy" in await gate.prompt()
            open_ = [number for number, call in enumerate(calls) if not call.done()]
            await gate.withdraw(f"c{open_[0]}")
            await until(lambda: asyncio.sleep(0, calls[open_[0]].done()))
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    async def test_refused_calls_use_no_place(self, tmp_path: Path) -> None:
        """Refused calls under used ids use up no place for waiting calls."""
        async with (
            served(tmp_path, limits=Limits(calls_per_session=2)) as server,
            server.agent_client() as client,
            client.session("bot") as gate,
        ):
            for number in range(4):
                await gate.call("ls", {}, call_id=f"c{number}")
            for number in range(4):
                with pytest.raises(RequestFailedError) as refused:
                    await gate.call("ls", {"other": True}, call_id=f"c{number}")
                assert refused.value.code == Code.CALL_ID_USED
            assert (await gate.call("ls", {})).outcome == "allow"


class TestAFullQueue:
    async def test_requests_beyond_the_limit_are_blocked(self, tmp_path: Path) -> None:
        """Requests beyond a token's limit are blocked and recorded; other tokens' are queued."""
        async with (
            served(tmp_path, rules=ASKS, limits=Limits(requests_per_token=3)) as server,
            server.agent_client() as client,
            client.session("one") as one,
            client.session("two") as two,
            server.agent_client(server.other) as stranger,
            stranger.session("other") as other,
            server.console() as console,
        ):
            for number in range(3):
                await wait_for_a_person(server, one, f"c{number}")
            for gate in (one, two):
                blocked = await gate.call("deploy", {}, call_id="more")
                assert blocked.outcome == "block"
                assert "3 requests of 'bot' are open already" in (blocked.reason or "")
                recorded = (await server.hub.session(gate.id)).calls["more"]
                assert (recorded.status, recorded.reason) == ("blocked", blocked.reason)
            assert (await two.call("ls", {})).outcome == "allow"
            await wait_for_a_person(server, other, "other")
            first = (await server.hub.approvals())[0]
            assert (await console.decide(first.id, approved=False, digest=first.digest)).ok
            await wait_for_a_person(server, two, "again")

    async def test_voided_requests_are_made_again_beyond_the_limit(self, tmp_path: Path) -> None:
        """Requests that a change makes void are requested again, even beyond a lower limit."""
        async with (
            served(tmp_path, rules=ASKS, limits=Limits(requests_per_token=2)) as server,
            server.agent_client() as client,
            client.session("one") as one,
        ):
            for number in range(2):
                await wait_for_a_person(server, one, f"c{number}")
            before = {each.id for each in await server.hub.approvals()}
            server.hub.bound_requests(1)
            await server.hub.set_mode(one.id, "shadow", by="ada", reason="a trial")

            async def anew() -> bool:
                now = {each.id for each in await server.hub.approvals()}
                return len(now) == 2 and not now & before

            await until(anew)

    @pytest.mark.slow
    async def test_resuming_sessions_gives_no_more_requests(self, tmp_path: Path) -> None:
        """Ending and resuming sessions does not give an agent more requests."""
        async with (
            served(tmp_path, rules=ASKS, limits=Limits(requests_per_token=2)) as server,
            server.agent_client() as client,
        ):
            for name in ("one", "two"):
                gate = await client.open("bot", session=name)
                for number in range(2):
                    await wait_for_a_person(server, gate, f"c{number}")
                await gate.close()
            one, two = await client.resume("one"), await client.resume("two")
            for number in range(2):
                await wait_for_a_person(server, one, f"c{number}")
            for number in range(2):
                again = await two.call("deploy", {}, call_id=f"c{number}", wait=5)
                assert again.outcome == "block"
            assert len(await server.hub.approvals()) == 2


class TestSlowReaders:
    @pytest.mark.slow
    async def test_console_that_never_reads_is_disconnected(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A console that does not read is disconnected, and agents are still answered."""
        monkeypatch.setattr(server, "LOOK_AGAIN", 0.05)
        limits = Limits(backlog=20, stalled=0.3)
        async with (
            served(tmp_path, limits=limits) as gate_server,
            stranger(gate_server) as peer,
            gate_server.agent_client() as client,
            client.session("bot") as gate,
        ):
            found = peer.writer.get_extra_info("socket")
            found.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
            await peer.send(upgrade(gate_server, bearer(gate_server.ada), path="/console"))
            await peer.head()
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await peer.send(
                framed(GREETING)
                + framed(b'{"jsonrpc":"2.0","id":1,"method":"events.subscribe","params":{"after":0}}')
            )
            subscriptions = gate_server.hub._subscriptions  # type: ignore[reportPrivateUsage]
            await until(lambda: asyncio.sleep(0, len(subscriptions) > 1))
            for number in range(60):
                answer = await gate.call("read", {"n": number})
                assert answer.outcome == "allow"
                await gate.report_message("assistant", "x" * 100_000)
            inside = gate_server.gateway._peers.inside  # type: ignore[reportPrivateUsage]
            await until(lambda: asyncio.sleep(0, len(inside) == 1))
            await until(lambda: asyncio.sleep(0, len(subscriptions) == 1))
            assert (await gate.call("read", {})).outcome == "allow"

    @pytest.mark.slow
    async def test_unresponsive_peer_does_not_block_server_end(self, tmp_path: Path) -> None:
        """A peer that neither reads nor closes does not prevent the server's end."""
        async with asyncio.timeout(PATIENCE), served(tmp_path) as server, stranger(server) as peer:
            found = peer.writer.get_extra_info("socket")
            found.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
            await let_in(server, peer)
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await peer.send(framed(GREETING))
            unknown = framed(b'{"jsonrpc":"2.0","id":0,"method":"%s"}' % (b"x" * 90))
            for _ in range(400):
                await peer.send(unknown * 20)
                connection = next(iter(server.gateway._connections))  # type: ignore[reportPrivateUsage]
                if connection._socket.transport.get_write_buffer_size() > 0:  # type: ignore[reportPrivateUsage]
                    break
                await asyncio.sleep(0)


class TestReplayedDecisions:
    async def test_decision_counts_once_for_its_own_request(self, tmp_path: Path) -> None:
        """A decision counts once, for its own request, and not again after a restart."""
        rules = ASKS
        async with served(tmp_path, rules=rules) as server:
            client = server.agent_client()
            gate = await client.open("bot")
            first = asyncio.create_task(gate.call("deploy", {"to": "prod"}))
            approval, digest = await waiting(server)
            decision: dict[str, JsonValue] = {"approval_id": approval, "approved": True, "digest": digest}
            async with raw(server, server.ada, "/console") as console:
                assert (await ask(console, "approval.decide", **decision)).result["ok"]  # type: ignore[index]
                again = await ask(console, "approval.decide", **decision)
                assert again.result == {
                    "ok": False,
                    "message": "You have approved this: it is recorded",
                    "needs_reason": False,
                }
            assert (await first).outcome == "allow"
            second = asyncio.create_task(gate.call("deploy", {"to": "all"}))
            other, _ = await waiting(server)
            async with raw(server, server.ben, "/console") as console:
                assert not (await ask(console, "approval.decide", **decision)).result["ok"]  # type: ignore[index]
                moved = decision | {"approval_id": other}
                assert not (await ask(console, "approval.decide", **moved)).result["ok"]  # type: ignore[index]
            assert [each.id for each in await server.hub.approvals()] == [other]
            address = server.address
        async with served(tmp_path, rules=rules, address=address) as server:
            await until(server.hub.approvals)
            async with raw(server, server.ada, "/console") as console:
                assert not (await ask(console, "approval.decide", **decision)).result["ok"]  # type: ignore[index]
            assert not second.done()
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)
            await client.close()
            events = await server.hub.recorded(gate.id)
            assert sum(isinstance(event.body, ApprovalDecided) for event in events) == 1

    async def test_operator_name_in_request_is_refused(self, tmp_path: Path) -> None:
        """The recorded operator is the token's owner; a field with another name is refused."""
        async with (
            served(tmp_path, rules=ASKS) as server,
            server.agent_client() as client,
            client.session("bot") as gate,
            raw(server, server.ben, "/console") as console,
        ):
            going = asyncio.create_task(gate.call("deploy", {}))
            approval, digest = await waiting(server)
            decision: dict[str, JsonValue] = {
                "approval_id": approval,
                "approved": False,
                "digest": digest,
            }
            assert code(await ask(console, "approval.decide", **decision, by="ada")) == Code.PARAMS
            no_digest: dict[str, JsonValue] = {"approval_id": approval, "approved": True}
            assert code(await ask(console, "approval.decide", **no_digest)) == Code.PARAMS
            assert (await ask(console, "approval.decide", **decision)).result["ok"]  # type: ignore[index]
            assert (await going).outcome == "block"
            events = await server.hub.recorded(gate.id)
            assert [e.body.by for e in events if isinstance(e.body, ApprovalDecided)] == ["ben"]


class TestForgedResults:
    async def test_result_for_another_session_is_refused(self, tmp_path: Path) -> None:
        """A result counts only for an allowed call of the token's own session, and only once."""
        async with (
            served(tmp_path, rules="require test before deploy\nblock rm") as server,
            server.agent_client() as mine,
            server.agent_client(server.other) as theirs,
            mine.session("mine") as gate,
            theirs.session("theirs") as victim,
            raw(server, server.agent) as socket,
        ):
            await victim.call("test", {}, call_id="t1")
            await gate.call("rm", {}, call_id="r1")

            async def forged(session: str, call: str, output: str = "passed") -> int | None:
                result: dict[str, JsonValue] = {"session": session, "call": call, "output": output}
                return code(await ask(socket, "tool.result", **result))

            assert await forged(victim.id, "t1") == Code.UNKNOWN
            assert await forged("nobody", "t1") == Code.UNKNOWN
            assert await forged(gate.id, "t1") == Code.REFUSED
            assert await forged(gate.id, "r1") == Code.REFUSED
            assert (await victim.call("deploy", {})).outcome == "block"
            await victim.result("t1", "3 failed", is_error=True)
            assert (await victim.call("deploy", {})).outcome == "block"
            with pytest.raises(RequestFailedError) as refused:
                await victim.result("t1", "all passed")
            assert refused.value.code == Code.REFUSED
            assert (await victim.call("deploy", {})).outcome == "block"
            for session in (victim.id, gate.id):
                events = await server.hub.recorded(session)
                results = [e.body for e in events if isinstance(e.body, CallResult)]
                counted = [each.is_error for each in results if each.anomaly is None]
                assert counted == ([True] if session == victim.id else [])

    async def test_result_of_a_waiting_call_is_refused(self, tmp_path: Path) -> None:
        """A result for a waiting call is refused, and the call still gets its decision."""
        async with (
            served(tmp_path, rules=ASKS) as server,
            server.agent_client() as client,
            client.session("bot") as gate,
        ):
            going = asyncio.create_task(gate.call("deploy", {}, call_id="d1"))
            approval, _ = await waiting(server)
            with pytest.raises(RequestFailedError):
                await gate.result("d1", "deployed")
            await server.hub.decide(approval, approved=False, by="ada")
            assert (await going).outcome == "block"
            with pytest.raises(RequestFailedError):
                await gate.result("d1", "deployed")


class TestAnAgentsReach:
    @pytest.mark.parametrize("method", [each.name for each in CONSOLE_METHODS])
    async def test_operator_methods_are_refused(self, tmp_path: Path, method: str) -> None:
        """An agent's token is refused all operators' methods."""
        async with served(tmp_path) as server, raw(server, server.agent) as socket:
            found = await ask(socket, method, **EXAMPLES[method][0])
            assert code(found) == Code.NOT_ALLOWED

    @pytest.mark.parametrize("method", [each.name for each in AGENT_METHODS])
    async def test_agent_methods_are_refused_to_operators(self, tmp_path: Path, method: str) -> None:
        """An operator's token is refused all agents' methods."""
        async with served(tmp_path) as server, raw(server, server.ada, "/console") as socket:
            assert code(await ask(socket, method, **EXAMPLES[method][0])) == Code.NOT_ALLOWED

    async def test_sessions_of_other_tokens_are_hidden(self, tmp_path: Path) -> None:
        """A token cannot read, end or even learn the names of another token's sessions."""
        async with (
            served(tmp_path) as server,
            server.agent_client(server.other) as theirs,
            raw(server, server.agent) as socket,
        ):
            live = await theirs.open("secret-project", session="secret-project-1")
            ended = await theirs.open("secret-project", session="secret-project-2")
            await live.call("ls", {}, call_id="c1")
            await ended.close()
            of: dict[str, dict[str, JsonValue]] = {
                "session.open": {"agent": "bot"},
                "session.resume": {},
                "session.close": {},
                "session.end_turn": {},
                "session.report_message": {"role": "user", "text": "hello"},
                "session.prompt": {},
                "tool.call": {"call": "c1", "tool": "ls", "input": {}},
                "tool.withdraw": {"call": "c1"},
                "tool.give_up": {"call": "c1"},
                "tool.result": {"call": "c1", "output": ""},
                "tool.explain": {"tool": "ls", "input": {}},
                "tool.note_hints": {"tool": "ls", "hints": {}},
            }
            assert set(of) == {each.name for each in AGENT_METHODS}
            for method, params in of.items():
                for session in (live.id, ended.id, "secret", "s", "no-such-session"):
                    if method == "session.open" and session in ("secret", "s", "no-such-session"):
                        continue  # not in use
                    found = await ask(socket, method, session=session, **params)
                    assert found.error is not None, (method, session)
                    told = found.error.model_dump_json().replace(f"'{session}'", "")
                    assert "secret-project" not in told, (method, session)
                    if session == live.id:
                        assert found.error.code == Code.UNKNOWN
            assert (await live.call("ls", {})).outcome == "allow"

    async def test_server_nets_cannot_be_deselected(self, tmp_path: Path) -> None:
        """The server's nets stay active although an agent selects none."""
        async with served(tmp_path) as server, server.agent_client() as client:
            gate = await client.open("bot", active=[])
            assert (await gate.call("rm", {})).outcome == "block"
            for how in ({"rules": ["none"]}, {"active": ["none"]}):
                with pytest.raises(RequestFailedError) as refused:
                    await client.open("bot", **how)  # type: ignore[arg-type]
                assert refused.value.code == Code.PARAMS

    async def test_shadow_session_is_enforced_on_resume(self, tmp_path: Path) -> None:
        """A session from shadow mode is enforced when it resumes at an enforcing server."""
        async with served(tmp_path, mode="shadow") as server, server.agent_client() as client:
            gate = await client.open("bot")
            assert (await gate.call("rm", {})).outcome == "allow"
        async with served(tmp_path) as server, server.agent_client() as client:
            gate = await client.resume(gate.id)
            assert gate.mode == "enforce"
            assert (await gate.call("rm", {})).outcome == "block"


class TestBorrowedNames:
    async def test_stop_reason_names_the_tokens_operator(self, tmp_path: Path) -> None:
        """The reason names the operator of the token, whatever name the client sends."""
        async with (
            served(tmp_path, rules=ASKS) as server,
            server.agent_client() as client,
            raw(server, server.ada, "/console") as socket,
        ):
            gate = await client.open("bot")
            going = asyncio.create_task(gate.call("deploy", {}))
            await waiting(server)
            stop = {"session": gate.id, "reason": "stopped by ben"}
            assert code(await ask(socket, "session.abort", **stop)) is None
            assert "stopped by ada: stopped by ben" in str((await going).reason)

    async def test_no_method_accepts_an_operator_name(self, tmp_path: Path) -> None:
        """No operators' method has a parameter for an operator's name."""
        for method in CONSOLE_METHODS:
            for name, field in method.params.model_fields.items():
                is_text = field.annotation in (str, str | None)
                assert not (is_text and name in ("by", "operator", "name", "user", "who")), method.name

    async def test_agents_withdrawal_reason_is_marked(self, tmp_path: Path) -> None:
        """An agent's reason for withdrawing a call is marked as the agent's."""
        async with (
            served(tmp_path, rules=ASKS) as server,
            raw(server, server.agent) as socket,
        ):
            await ask(socket, "session.open", agent="bot", session="s-1")
            call = {"session": "s-1", "call": "c1", "tool": "deploy", "input": {}, "wait": 0.01}
            await ask(socket, "tool.call", **call)
            await ask(socket, "tool.withdraw", session="s-1", call="c1", reason="denied by ada")
            events = await server.hub.recorded("s-1")
            told = [text for each in events if "denied by ada" in (text := each.model_dump_json())]
            assert told
            assert all("the agent took it back: denied by ada" in each for each in told)


class TestRevokedTokens:
    async def test_revocation_ends_connections_and_sessions(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Revoking a token ends its connections and sessions, and its requests are not decided."""
        monkeypatch.setattr(server, "LOOK_AGAIN", 0.05)
        async with served(tmp_path, rules=ASKS) as gate_server:
            client = gate_server.agent_client()
            gate = await client.open("bot")
            going = asyncio.create_task(gate.call("deploy", {}))
            await waiting(gate_server)
            gate_server.tokens.revoke("bot")
            with pytest.raises(NotAdmittedError):
                await going
            await until(lambda: asyncio.sleep(0, not gate_server.gateway._peers.inside))  # type: ignore[reportPrivateUsage]
            async with asyncio.timeout(PATIENCE):
                await until(lambda: no_sessions(gate_server))
            events = await gate_server.hub.recorded(gate.id)
            assert not [e for e in events if isinstance(e.body, CallDecided)]
            await client.close()

    async def test_first_message_after_revocation_is_not_answered(self, tmp_path: Path) -> None:
        """The first message after the revocation is not answered."""
        async with served(tmp_path) as server, raw(server, server.ada, "/console") as socket:
            assert code(await ask(socket, "sessions.list")) is None
            server.tokens.revoke("ada")
            with pytest.raises(ConnectionClosed) as closed:
                await ask(socket, "sessions.list")
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1008

    async def test_writable_token_file_ends_connections(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """If others can write the file of tokens, connections end and the log contains the reason."""
        async with served(tmp_path) as server, raw(server, server.ada, "/console") as socket:
            server.tokens.path.chmod(0o666)
            with caplog.at_level(logging.ERROR), pytest.raises(ConnectionClosed):
                await ask(socket, "sessions.list")
            assert "chmod 600" in caplog.text

    async def test_overlapping_secrets_share_sessions(self, tmp_path: Path) -> None:
        """Both secrets work on the same sessions until the old one ends."""
        async with served(tmp_path) as server, server.agent_client() as client:
            gate = await client.open("bot")
            new = server.tokens.rotate("bot", overlap=3600)
            assert (await gate.call("ls", {})).outcome == "allow"
            async with server.agent_client(new) as later:
                assert (await (await later.resume(gate.id)).call("ls", {})).outcome == "allow"
