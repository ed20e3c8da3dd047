"""Roles and groups of the server's configuration, enforced over real connections."""

from __future__ import annotations

import asyncio
from pathlib import Path

from interlock.engine.core.approvers import Operator, Operators
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import ApprovalDecided, ApprovalGiven, CallDecided

from ..served import served, until

TWO = "require 2 human-approvals before deploy\n"


class TestRoles:
    async def test_role_limits_the_token(self, tmp_path: Path) -> None:
        """The role of an operator limits the rights of an `administer` token."""
        async with served(tmp_path) as server:
            server.hub.know_operators(Operators((Operator("Ada", "look"),)))
            async with server.console() as ada:
                assert ada.rights == "look"
                outcome = await ada.decide("nothing", approved=True, digest="none")
            assert "needs the role 'decide', and that of 'ada' is 'look'" in outcome.message
            assert "[operators]" in outcome.message

    async def test_role_does_not_exceed_the_token(self, tmp_path: Path) -> None:
        """The lower of role and token counts; an unlisted operator has the token's rights."""
        async with served(tmp_path) as server:
            server.hub.know_operators(Operators((Operator("cy", "administer"),)))
            secret = server.tokens.issue("operator", "cy", rights="look")
            async with server.console(secret) as cy, server.console() as ada:
                assert (cy.rights, ada.rights) == ("look", "administer")

    async def test_a_changed_role_counts_at_once(self, tmp_path: Path) -> None:
        """A console whose role was lowered reconnects with the remaining rights."""
        async with served(tmp_path) as server, server.console() as ada:
            server.hub.know_operators(Operators((Operator("ada", "look", ("security",)),)))

            async def lowered() -> bool:
                try:
                    await ada.history()
                except (OSError, RuntimeError):
                    return False
                return ada.rights == "look"

            await until(lowered)
            assert ada.groups_of("ada") == ("security",)


class TestGroups:
    async def test_group_approval_needs_two_members(self, tmp_path: Path) -> None:
        """An operator outside the group is refused, and the call waits for two of the group."""
        rules = "require human-approval before deploy by 2 of security\n"
        async with served(tmp_path, rules=rules) as server, server.agent_client() as agent:
            members = ("ada", "cy")
            server.hub.know_operators(
                Operators(tuple(Operator(name, "decide", ("security",)) for name in members))
            )
            cy = server.tokens.issue("operator", "cy")
            gate = await agent.open("bot")
            call = asyncio.ensure_future(gate.call("deploy", {}, call_id="c1"))
            [request] = await until(server.hub.approvals)
            said: list[str] = []
            for token in (server.ben, server.ada, server.ada, cy):
                async with server.console(token) as console:
                    outcome = await console.decide(request.id, approved=True, digest=request.digest)
                    said.append(outcome.message)
            assert said[0] == "ben is not in security: 2 of security must approve"
            assert "ada has approved already" in said[2]
            answer = await asyncio.wait_for(call, 10)
            assert (answer.outcome, answer.approved_by) == ("allow", ("ada", "cy"))

    async def test_recorded_groups_do_not_change(self, tmp_path: Path) -> None:
        """A later change of the configuration does not change the groups of a recorded approval."""
        async with served(tmp_path, rules=TWO) as server, server.agent_client() as agent:
            listed = (Operator("ada", groups=("security",)), Operator("ben", groups=("oncall", "dba")))
            server.hub.know_operators(Operators(listed))
            gate = await agent.open("bot")
            call = asyncio.ensure_future(gate.call("deploy", {}, call_id="c1"))
            [request] = await until(server.hub.approvals)
            async with server.console() as ada, server.console(server.ben) as ben:
                assert (ada.groups_of("ada"), ben.groups_of("ben")) == (("security",), ("oncall", "dba"))
                assert (await ada.decide(request.id, approved=True, digest=request.digest)).ok
                [half] = await server.hub.approvals()
                assert (half.given, half.given_groups) == (("ada",), (("security",),))
                assert (await ben.decide(request.id, approved=True, digest=request.digest)).ok
            assert (await asyncio.wait_for(call, 10)).outcome == "allow"
            server.hub.know_operators(Operators())
            recorded = [event.body for event in await server.hub.recorded(request.session)]
            found = {type(body): body for body in recorded}
            given, decided, gated = found[ApprovalGiven], found[ApprovalDecided], found[CallDecided]
            assert isinstance(given, ApprovalGiven)
            assert isinstance(decided, ApprovalDecided)
            assert isinstance(gated, CallDecided)
            assert (given.groups, decided.groups) == (("security",), ("oncall", "dba"))
            assert gated.approver_names == "ada (security), ben (oncall, dba)"
            lines = [headline(event) for event in await server.hub.recorded(request.session)]
            assert any("approved by ada (security), ben (oncall, dba)" in line for line in lines)
            state = fold(await server.hub.recorded(request.session))
            assert state.calls["c1"].groups == {"ada": ("security",), "ben": ("oncall", "dba")}
