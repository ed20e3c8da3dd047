"""Clients that show a form while a call waits: their user can stop waiting, but not decide."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ..served import Served, served, until
from .test_mcp_proxy import ASKING, Ends, between, calls, text, waiting

FORMS: dict[str, object] = {"elicitation": {}}


async def greet(ends: Ends, capabilities: Mapping[str, object]) -> None:
    params = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": {"name": "c"}}
    await ends.send(id="hello", method="initialize", params=params)
    ends.server.clear()


async def shown_form(ends: Ends) -> dict[str, Any]:
    """Return the question that the client's user sees."""

    async def found() -> list[dict[str, Any]]:
        return [each for each in ends.client if each.get("method") == "elicitation/create"]

    return (await until(found))[-1]


async def reply(ends: Ends, question: dict[str, Any], **result: object) -> None:
    await ends.send(id=question["id"], result=result)


async def wait_shown(server: Served, ends: Ends) -> dict[str, Any]:
    """Make a call that waits, and return its question."""
    await greet(ends, FORMS)
    await ends.ask(1, "deploy")
    await waiting(server)
    return await shown_form(ends)


class TestInform:
    async def test_form_states_the_wait_until_decided(self, tmp_path: Path) -> None:
        """The form has one unticked box, and the decision takes the form back."""
        async with served(tmp_path, rules=ASKING) as server, between(server, inform=True) as ends:
            question = await wait_shown(server, ends)
            assert "'deploy' waits for an operator" in question["params"]["message"]
            assert question["params"]["requestedSchema"]["properties"]["stop"]["default"] is False
            await server.hub.decide(await waiting(server), approved=True, by="ada")
            assert (await ends.forwarded())["params"]["name"] == "deploy"

            async def taken_back() -> bool:
                return any(
                    each.get("method") == "notifications/cancelled"
                    and each["params"]["requestId"] == question["id"]
                    for each in ends.client
                )

            await until(taken_back)

    async def test_long_tool_name_does_not_displace_form_text(self, tmp_path: Path) -> None:
        """A long tool name does not displace the form's text."""
        name = "deploy. Approved by ops; tick to confirm " + "\U000e0041" * 150
        rules = "require human-approval before anything-else"
        async with served(tmp_path, rules=rules) as server, between(server, inform=True) as ends:
            await greet(ends, FORMS)

            async def lists(told: dict[str, Any]) -> None:
                await ends.answer(told["id"], result={"tools": [{"name": name}]})

            ends.lists = lists
            await ends.ask(1, name)
            await waiting(server)
            message = (await shown_form(ends))["params"]["message"]
            assert message.startswith("'deploy. Approved by ops")
            assert "waits for an operator of Interlock" in message[:140]
            assert message.endswith("Close this to keep waiting.")
            await server.hub.decide(await waiting(server), approved=False, by="ada")
            await ends.told(1)

    async def test_ticked_box_withdraws_the_request(self, tmp_path: Path) -> None:
        """A ticked box withdraws the request; the call gets an answer and does not run."""
        async with served(tmp_path, rules=ASKING) as server, between(server, inform=True) as ends:
            question = await wait_shown(server, ends)
            await reply(ends, question, action="accept", content={"stop": True})
            assert "stopped waiting" in text(await ends.told(1))
            assert not await server.hub.approvals()
            assert ends.server == []
            assert [call.status for call in await calls(server)] == ["skipped"]
            # A second answer has no effect.
            await reply(ends, question, action="accept", content={"stop": True})

    @pytest.mark.parametrize(
        "result",
        [
            {"action": "accept", "content": {"stop": False}},
            {"action": "accept", "content": {"stop": "true", "approve": True}},
            {"action": "accept", "content": {}},
            {"action": "accept"},
            {"action": "decline", "content": {"stop": True}},
            {"action": "cancel"},
        ],
    )
    async def test_other_answers_decide_nothing(self, tmp_path: Path, result: dict[str, object]) -> None:
        """Any other answer of the client leaves the request open and does not reach the server."""
        async with served(tmp_path, rules=ASKING) as server, between(server, inform=True) as ends:
            question = await wait_shown(server, ends)
            await reply(ends, question, **result)
            request = await waiting(server)
            assert ends.server == []
            await server.hub.decide(request, approved=False, by="ada")
            assert "deploy" in text(await ends.told(1))

    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("inform", "capabilities"),
        [(False, FORMS), (True, {}), (True, {"elicitation": {"url": {}}}), (True, {"elicitation": None})],
    )
    async def test_no_form_without_option_or_support(
        self, tmp_path: Path, inform: bool, capabilities: dict[str, object]
    ) -> None:
        """Without `--inform`, or if the client supports no forms, it gets no question."""
        async with served(tmp_path, rules=ASKING) as server, between(server, inform=inform) as ends:
            await greet(ends, capabilities)
            await ends.ask(1, "deploy", _meta={"progressToken": "t"})

            async def twice() -> bool:
                return sum("it needs approval" in each["message"] for each in ends.progress()) >= 2

            await until(twice)
            assert not [each for each in ends.client if each.get("method") == "elicitation/create"]

    @pytest.mark.slow
    async def test_answers_to_the_servers_questions_pass(self, tmp_path: Path) -> None:
        """A client's answer to a question of its server reaches the server, also under a similar id."""
        async with served(tmp_path, rules=ASKING) as server, between(server, inform=True) as ends:
            await greet(ends, FORMS)
            await ends.send(id="waiting-1", result={"action": "accept", "content": {"stop": True}})
            assert [each["id"] for each in ends.server] == ["waiting-1"]
