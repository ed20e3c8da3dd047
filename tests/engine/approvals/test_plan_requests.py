"""Requests for plans contain a forecast of each step (G-108)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import JsonValue

from interlock.app.config.rules_compiler import RulesLanguage
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.model.events import ApprovalRequested, GrantGiven
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import Hub

from ..support.external_agent import opened, recorded
from ..support.shop import until

RULES = "require human-approval before plan\nrequire human-approval before deploy\nblock delete"
STEPS = [{"tool": "deploy", "count": 2, "when": 'input.env = "staging"'}, {"tool": "delete"}]
PLAN = {"title": "Release 1.4", "steps": STEPS}


@asynccontextmanager
async def hub_with_request(
    folder: Path, value: Mapping[str, object] = PLAN, tool: str = "plan", rules: str = RULES
) -> AsyncGenerator[tuple[Hub, ApprovalState, asyncio.Future[object]]]:
    """A hub with one call of the tool, its request and its answer."""
    hub = Hub.open(folder / "hub.db", language=RulesLanguage())
    try:
        await opened(hub, rules)
        heard = hub.subscribe()
        waits = asyncio.ensure_future(hub.call("robin-1", "p1", tool, dict(value)))
        await until(heard, ApprovalRequested)
        heard.close()
        [request] = await hub.approvals()
        yield hub, request, waits
    finally:
        await hub.close()


class TestForecast:
    async def test_request_has_forecast_of_each_step(self, tmp_path: Path) -> None:
        """The request and its event contain the forecast of each step."""
        async with hub_with_request(tmp_path) as (_, request, _):
            deploy, delete = request.plan
            assert (deploy.tool, deploy.count, deploy.most) == ("deploy", 2, 2)
            assert [(f.calls, f.outcome) for f in deploy.findings] == [(2, "planned")]
            assert [f.outcome for f in delete.findings] == ["blocked"]
            assert delete.most == 0
            [event] = recorded(tmp_path / "hub.db", ApprovalRequested)
            assert event.plan == request.plan

    async def test_plan_cannot_be_approved_with_a_grant(self, tmp_path: Path) -> None:
        """A plan cannot be approved with a grant for later plans."""
        async with hub_with_request(tmp_path) as (hub, request, _):
            assert not request.may_grant
            more = {"digest": request.digest, "grant": GrantTerms("names"), "reason": "often"}
            outcome = await hub.decide(request.id, approved=True, by="maria", **more)
            assert not outcome.ok

    async def test_call_of_another_tool_has_no_forecast(self, tmp_path: Path) -> None:
        """A call of another tool with the same input has no forecast."""
        async with hub_with_request(tmp_path, tool="deploy") as (_, request, _):
            assert request.plan == ()
            assert request.may_grant

    async def test_calls_behave_as_forecast(self, tmp_path: Path) -> None:
        """Calls behave as the forecast says: covered ones run, others need approval or are blocked."""
        async with hub_with_request(tmp_path) as (hub, request, waits):
            outcome = await hub.decide(request.id, approved=True, by="maria", digest=request.digest)
            assert outcome.ok, outcome.message
            answer = await waits
            assert answer.outcome == "allow"  # type: ignore[attr-defined]
            for number in range(2):
                covered = await hub.call("robin-1", f"d{number}", "deploy", {"env": "staging"})
                assert covered.outcome == "allow"
            assert (await hub.call("robin-1", "x1", "delete", {})).outcome == "block"
            heard = hub.subscribe()
            third = asyncio.ensure_future(hub.call("robin-1", "d3", "deploy", {"env": "staging"}))
            await until(heard, ApprovalRequested)
            heard.close()
            third.cancel()

    async def test_masked_condition(self, tmp_path: Path) -> None:
        """A condition with a masked part must be revealed first, because that part may widen it."""
        when = 'input.password = "hunter2"or(input.zone is missing)'
        value = {"title": "Release 1.4", "steps": [{"tool": "deploy", "when": when}]}
        async with hub_with_request(tmp_path, value) as (hub, request, _):
            assert "zone" not in str(request.input)
            assert [each.place for each in request.hidden] == ["steps[0].when"]
            outcome = await hub.decide(request.id, approved=True, by="maria", digest=request.digest)
            assert not outcome.ok
            assert "look at it first" in outcome.message


WIDER: dict[str, JsonValue] = {
    "title": "Release 1.4",
    "steps": [{"tool": "deploy", "count": 3}, {"tool": "delete"}],
}


async def renewed_request(hub: Hub, before: ApprovalState) -> ApprovalState:
    """Wait for the request that replaces `before`."""
    while True:
        for request in await hub.approvals():
            if request.id != before.id:
                return request
        await asyncio.sleep(0)


class TestEdited:
    """G-108: a plan is never approved with the forecast of another plan."""

    async def edit(self, hub: Hub, request: ApprovalState, by: str) -> ApprovalState:
        """Edit a plan and return the request for the edited plan."""
        outcome = await hub.decide(
            request.id, approved=True, by=by, digest=request.digest, input=dict(WIDER)
        )
        assert outcome.ok, outcome.message
        assert "forecast of its own" in outcome.message
        return await asyncio.wait_for(renewed_request(hub, request), 10)

    async def test_edited_plan_has_its_own_forecast(self, tmp_path: Path) -> None:
        """An edit does not approve: the edited plan gets a request with its forecast and editor."""
        async with hub_with_request(tmp_path) as (hub, request, waits):
            again = await self.edit(hub, request, "maria")
            assert not waits.done()
            assert (again.input, again.edited_by, again.original) == (WIDER, "maria", PLAN)
            assert [(step.tool, step.count, step.most) for step in again.plan] == [
                ("deploy", 3, 3),
                ("delete", 1, 0),
            ]
            assert recorded(tmp_path / "hub.db", GrantGiven) == []
            outcome = await hub.decide(again.id, approved=True, by="maria", digest=again.digest)
            assert outcome.ok, outcome.message
            await waits
            [given] = recorded(tmp_path / "hub.db", GrantGiven)
            assert (given.grant.tool, given.grant.uses, given.by) == ("deploy", 3, "maria")

    async def test_digest_of_the_original_is_refused(self, tmp_path: Path) -> None:
        """An approval with the digest of the original plan is refused."""
        async with hub_with_request(tmp_path) as (hub, request, waits):
            again = await self.edit(hub, request, "maria")
            for answered in (request.id, again.id):
                late = await hub.decide(answered, approved=True, by="jo", digest=request.digest)
                assert not late.ok
            assert not waits.done()

    async def test_both_approvers_must_approve_the_edit(self, tmp_path: Path) -> None:
        """If two approvers are required, both must approve the edited plan."""
        rules = RULES.replace("before plan", "before plan by 2")
        async with hub_with_request(tmp_path, rules=rules) as (hub, request, waits):
            first = await hub.decide(request.id, approved=True, by="jo", digest=request.digest)
            assert first.ok, first.message
            again = await self.edit(hub, request, "maria")
            assert again.given == ()
            for by in ("jo", "maria"):
                assert not waits.done()
                assert (await hub.decide(again.id, approved=True, by=by, digest=again.digest)).ok
            assert (await waits).outcome == "allow"  # type: ignore[attr-defined]

    async def test_edit_into_an_invalid_plan_is_refused(self, tmp_path: Path) -> None:
        """An edit that is not a valid plan is refused with the path of the fault; the request stays."""
        async with hub_with_request(tmp_path) as (hub, request, waits):
            wrong: dict[str, JsonValue] = {"title": "x", "steps": [{"tool": "deploy", "count": 0}]}
            outcome = await hub.decide(
                request.id, approved=True, by="maria", digest=request.digest, input=wrong
            )
            assert not outcome.ok
            assert "steps[0].count: found 0" in outcome.message
            assert [each.id for each in await hub.approvals()] == [request.id]
            assert not waits.done()
