"""A hook's client: the answers that it accepts, and errors for all others."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from operator import attrgetter
from typing import TypeVar

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from interlock.engine.gateway.hooks.client import (
    METHOD,
    PARAMS,
    REFUSED,
    UNKNOWN,
    VERSION,
    HookClient,
    HookRefusedError,
    HookVerdict,
    Opening,
)
from interlock.engine.gateway.hooks.websocket import HookError, LateError, NotLetInError
from interlock.engine.gateway.protocol import framing as wire
from interlock.engine.gateway.protocol import schema as protocol
from interlock.engine.gateway.server.admission import SUBPROTOCOL

T = TypeVar("T")
Message = dict[str, object]
ALLOW = {"outcome": "allow", "input": {}, "edited": False, "reason": None, "mode": "enforce"}
WELCOME = {"version": 1, "server": "0", "kind": "agent", "name": "bot", "frame": 5000}


def near_deadline() -> float:
    return time.monotonic() + 5.0


@asynccontextmanager
async def answering(
    answer: Callable[[Message], list[Message | str]],
) -> AsyncGenerator[tuple[str, list[Message]], None]:
    """Yield the URL of a server that answers requests with `answer`, and a list of the requests."""
    asked: list[Message] = []

    async def serving(peer: ServerConnection) -> None:
        try:
            async for frame in peer:
                message = json.loads(frame)
                if message["method"] == "hello":
                    await peer.send(
                        json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": WELCOME})
                    )
                    continue
                asked.append(message)
                for said in answer(message):
                    text = said if isinstance(said, str) else json.dumps({"id": message["id"]} | said)
                    await peer.send(text)
        except ConnectionClosed:
            pass

    async with serve(
        serving, "127.0.0.1", 0, subprotocols=[Subprotocol("interlock.v1")], compression=None
    ) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


async def with_client(url: str, work: Callable[[HookClient], T]) -> T:
    def run() -> T:
        client = HookClient(url, "token", near_deadline())
        try:
            return work(client)
        finally:
            client.close()

    return await asyncio.to_thread(run)


def judge(client: HookClient) -> HookVerdict:
    return client.judge(Opening("s", "bot"), "c", "Bash", {"command": "ls"}, time.monotonic() + 0.1)


class TestSameProtocol:
    def test_constants_equal_the_protocols(self) -> None:
        """The hook's copies of the protocol's constants equal the originals, which it does not load."""
        assert (UNKNOWN, REFUSED) == (wire.Code.UNKNOWN, wire.Code.REFUSED)
        assert VERSION == protocol.VERSION
        assert SUBPROTOCOL == "interlock.v1"


class TestAnswers:
    @pytest.mark.parametrize(
        "changed",
        [
            {"outcome": "ok"},
            {"outcome": None},
            {"outcome": True},
            {"input": None},
            {"input": []},
            {"edited": "no"},
            {"edited": 1},
            {"approved": "yes"},
            {"approved": 1},
            {"reason": 7},
            {"mode": None},
            {"mode": "off"},
        ],
        ids=str,
    )
    async def test_invalid_field_raises_an_error(self, changed: Message) -> None:
        """An answer with an invalid field raises an error instead of allowing the call."""
        async with answering(lambda _: [{"result": ALLOW | changed}]) as (url, _):
            with pytest.raises(HookError, match="sent an invalid answer"):
                await with_client(url, judge)

    @pytest.mark.parametrize(
        "said",
        [
            {"result": None},
            {"result": "allow"},
            {"result": [ALLOW]},
            {"id": None, "result": ALLOW},
            {"error": {}},
            {"error": {"code": "x", "message": None}, "result": ALLOW},
            {"id": None, "error": {"code": -32700, "message": "what?"}},
            "[]",
            "null",
            "{",
            "[" * 100_000,
        ],
        ids=lambda said: str(said)[:40],
    )
    async def test_message_that_is_no_answer(self, said: Message | str) -> None:
        """A message that is no answer or also contains an error raises an error."""
        async with answering(lambda _: [said]) as (url, _):
            with pytest.raises(HookError):
                await with_client(url, judge)

    async def test_answers_to_other_requests_are_skipped(self) -> None:
        """Answers to other requests and notifications of the server are skipped."""
        notice = json.dumps({"jsonrpc": "2.0", "method": "session.ended", "params": {}})

        def answer(_: Message) -> list[Message | str]:
            return [notice, {"id": 99, "result": ALLOW}, {"result": ALLOW | {"outcome": "block"}}]

        async with answering(answer) as (url, _):
            assert (await with_client(url, judge)).outcome == "block"

    async def test_unknown_fields_are_ignored(self) -> None:
        """Fields that a later server adds are ignored."""
        async with answering(lambda _: [{"result": ALLOW | {"new": {"a": 1}}}]) as (url, _):
            assert (await with_client(url, judge)).outcome == "allow"

    async def test_too_large_call_is_not_sent(self) -> None:
        """A call larger than the server accepts is not sent, and the error gives the reason."""
        async with answering(lambda _: [{"result": ALLOW}]) as (url, asked):
            with pytest.raises(HookError, match="smaller parts"):
                await with_client(
                    url,
                    lambda client: client.judge(
                        Opening("s", "bot"), "c", "t", {"x": "y" * 6000}, near_deadline()
                    ),
                )
            assert asked == []

    async def test_silent_server_ends_at_the_deadline(self) -> None:
        """A request to a silent server ends at its deadline."""
        async with answering(lambda _: []) as (url, _):
            with pytest.raises(LateError):
                await with_client(
                    url, lambda client: client.ask("session.close", {}, time.monotonic() + 0.05)
                )

    async def test_other_version_is_refused(self) -> None:
        """A server that does not speak the client's version refuses the connection."""

        async def serving(peer: ServerConnection) -> None:
            asked = json.loads(await peer.recv())
            error = {"code": -32006, "message": "this server speaks version 2"}
            await peer.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}))
            await peer.wait_closed()

        async with serve(
            serving, "127.0.0.1", 0, subprotocols=[Subprotocol("interlock.v1")], compression=None
        ) as server:
            url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(NotLetInError, match="version 2"):
                await asyncio.to_thread(HookClient, url, "token", near_deadline())


class TestOrder:
    async def test_unknown_session_is_opened_and_call_repeated(self) -> None:
        """An unknown session is resumed or opened, and the call is sent again."""
        known: set[str] = set()

        def answer(message: Message) -> list[Message | str]:
            method = str(message["method"])
            if method == "session.open":
                known.add("s")
                return [{"result": {"session": "s", "mode": "enforce", "active": ["n"]}}]
            if not known:
                return [{"error": {"code": UNKNOWN, "message": "no such session"}}]
            return [{"result": ALLOW}]

        async with answering(answer) as (url, asked):
            assert (await with_client(url, judge)).outcome == "allow"
            methods = [each["method"] for each in asked]
            assert methods == ["tool.call", "session.resume", "session.open", "tool.call"]

    async def test_other_refusals_are_raised(self) -> None:
        """Only an unknown session is opened; any other refusal is raised."""
        async with answering(lambda _: [{"error": {"code": REFUSED, "message": "not now"}}]) as (
            url,
            asked,
        ):
            with pytest.raises(HookRefusedError, match="not now"):
                await with_client(url, judge)
            assert [each["method"] for each in asked] == ["tool.call"]

    @pytest.mark.parametrize(
        ("said", "approved"), [({"approved": True}, True), ({"approved": False}, False), ({}, False)]
    )
    async def test_verdict_contains_the_approval(self, said: Message, approved: bool) -> None:
        """The verdict contains the approval from the answer; an older server sends none."""
        async with answering(lambda _: [{"result": ALLOW | said}]) as (url, asked):
            judged = await with_client(url, judge)
            assert (judged.outcome, judged.approved) == ("allow", approved)
            assert [each["method"] for each in asked] == ["tool.call"]

    @pytest.mark.parametrize("method", ["withdraw", "give_up"])
    async def test_withdrawn_call_is_reported_as_not_run(self, method: str) -> None:
        """A withdrawn call is also reported as not run, in case it was allowed at the last moment."""
        async with answering(lambda _: [{"result": {}}]) as (url, asked):
            end = attrgetter(method)
            until = await with_client(
                url, lambda client: end(client)("s", "c", "too late", near_deadline())
            )
            assert until is None
            assert [each["method"] for each in asked] == [f"tool.{method}", "tool.result"]
            params = asked[1]["params"]
            assert isinstance(params, dict)
            assert params["is_error"] is True

    async def test_open_call_is_not_reported_as_failed(self) -> None:
        """A call whose request stays open is not reported as failed."""
        said: Message = {"result": {"until": "2026-11-26T14:05:00Z"}}
        async with answering(lambda _: [said]) as (url, asked):
            until = await with_client(
                url, lambda client: client.give_up("s", "c", "late", near_deadline())
            )
            assert until == datetime(2026, 11, 26, 14, 5, tzinfo=UTC)
            assert [each["method"] for each in asked] == ["tool.give_up"]

    async def test_older_server_is_supported(self) -> None:
        """An older server without `subagent` and `give_up` judges the call and withdraws it."""

        def answer(message: Message) -> list[Message | str]:
            params = message["params"]
            assert isinstance(params, dict)
            if message["method"] == "tool.give_up":
                return [{"error": {"code": METHOD, "message": "no such method"}}]
            if "subagent" in params:
                return [{"error": {"code": PARAMS, "message": "subagent: unknown"}}]
            return [{"result": ALLOW}]

        async with answering(answer) as (url, asked):
            opening = Opening("s", "bot")
            judged = await with_client(
                url, lambda client: client.judge(opening, "c", "ls", {}, near_deadline(), subagent="a7")
            )
            assert judged.outcome == "allow"
            assert await with_client(url, lambda c: c.give_up("s", "c", "late", near_deadline())) is None
            assert [each["method"] for each in asked][2:] == [
                "tool.give_up",
                "tool.withdraw",
                "tool.result",
            ]
