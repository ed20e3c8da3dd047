"""The approval of a call by operators, as reported to its agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

from interlock.engine.gate.types import GrantTerms
from interlock.engine.gateway.client.agent import AgentSession
from interlock.engine.gateway.protocol.agent_methods import CallAnswer

from ..served import Served, served, until

RULES = """\
require human-approval before deploy
require 2 human-approvals before release
"""


async def call_with_answers(
    server: Served, gate: AgentSession, *answers: bool, **how: object
) -> CallAnswer:
    """Return the answer to a call that operators answer as given, ada first."""
    tool, people = ("deploy", "release")[len(answers) > 1], ("ada", "ben")
    call = asyncio.ensure_future(gate.call(tool, {"env": "prod"}, call_id="c1"))
    for who, approved in zip(people, answers, strict=False):

        async def waiting(who: str = who) -> list[object]:
            return [each for each in await server.hub.approvals() if who not in each.given]

        [request] = await until(waiting)
        outcome = await server.hub.decide(request.id, approved=approved, by=who, **how)  # type: ignore[arg-type, attr-defined]
        assert outcome.ok, outcome.message
    return await asyncio.wait_for(call, 10)


class TestApproved:
    async def test_call_without_approval_has_no_approver(self, tmp_path: Path) -> None:
        """A call that requires no approval has no approver."""
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            answer = await (await client.open("bot")).call("ls", {})
            assert (answer.outcome, answer.approved, answer.approved_by) == ("allow", False, ())

    async def test_approver_is_named_also_when_repeated(self, tmp_path: Path) -> None:
        """The answer names the approver, also when the call is repeated."""
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            gate = await client.open("bot")
            answer = await call_with_answers(server, gate, True)
            assert (answer.outcome, answer.approved, answer.approved_by) == ("allow", True, ("ada",))
            again = await gate.call("deploy", {"env": "prod"}, call_id="c1")
            assert (again.repeated, again.approved, again.approved_by) == (True, True, ("ada",))
            here = await server.hub.call(gate.id, "c1", "deploy", {"env": "prod"})
            assert (here.approved, here.approved_by) == (True, ("ada",))

    async def test_two_approvers_are_named_in_order(self, tmp_path: Path) -> None:
        """Two approvers are named in the order of their approvals."""
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            answer = await call_with_answers(server, await client.open("bot"), True, True)
            assert (answer.outcome, answer.approved_by) == ("allow", ("ada", "ben"))

    async def test_denied_call_has_no_approver(self, tmp_path: Path) -> None:
        """A denied call has no approver."""
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            answer = await call_with_answers(server, await client.open("bot"), False)
            assert (answer.outcome, answer.approved, answer.approved_by) == ("block", False, ())

    async def test_edited_approval_counts(self, tmp_path: Path) -> None:
        """An approval with an edited input counts as an approval."""
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            answer = await call_with_answers(
                server, await client.open("bot"), True, input={"env": "test"}
            )
            assert (answer.approved, answer.edited, answer.input) == (True, True, {"env": "test"})

    async def test_only_the_granting_call_has_an_approver(self, tmp_path: Path) -> None:
        """Only the call with which a grant was given has an approver; later calls have none."""
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            gate = await client.open("bot")
            first = await call_with_answers(
                server, gate, True, grant=GrantTerms("names", uses=2), reason="often"
            )
            assert first.approved
            second = await gate.call("deploy", {"env": "prod"}, call_id="c2")
            assert (second.outcome, second.approved, second.approved_by) == ("allow", False, ())

    async def test_second_nets_denial_leaves_no_approver(self, tmp_path: Path) -> None:
        """If two nets require approval and the second is denied, the answer names no approver."""
        rules = "require human-approval before deploy\nmap deploy.env prod as prod-deploy\n"
        rules += "require human-approval before prod-deploy"
        async with served(tmp_path, rules=rules) as server, server.agent_client() as client:
            gate = await client.open("bot")
            call = asyncio.ensure_future(gate.call("deploy", {"env": "prod"}, call_id="c1"))
            first = (await until(server.hub.approvals))[0]
            await server.hub.decide(first.id, approved=True, by="ada")

            async def second() -> list[object]:
                return [each for each in await server.hub.approvals() if each.id != first.id]

            [request] = await until(second)
            await server.hub.decide(request.id, approved=False, by="ben")  # type: ignore[attr-defined]
            answer = await asyncio.wait_for(call, 10)
            [state] = await server.hub.sessions()
            assert state.calls["c1"].approved_by == ("ada",)
            assert (answer.outcome, answer.approved, answer.approved_by) == ("block", False, ())

    async def test_shadow_call_has_no_approver(self, tmp_path: Path) -> None:
        """In shadow mode no approval is requested, so the call has no approver."""
        async with (
            served(tmp_path, rules=RULES, mode="shadow") as server,
            server.agent_client() as client,
        ):
            answer = await (await client.open("bot")).call("deploy", {})
            assert (answer.outcome, answer.would, answer.approved) == ("allow", "ask", False)
