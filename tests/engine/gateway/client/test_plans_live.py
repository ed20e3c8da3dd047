"""Plans at a server under attack (G-108 to G-110): lost agents, races of operators and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import JsonValue

from interlock.app.config.rules_compiler import LANGUAGE
from interlock.engine.gate.types import GrantTerms
from interlock.engine.gateway import RequestFailedError
from interlock.engine.gateway.client.agent import AgentClient, AgentSession
from interlock.engine.history.model.events import ApprovalRequested, GrantGiven
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import ApprovalPolicy, Outcome

from ...support.external_agent import check_fold
from ..served import Served, served, until

RULES = "require human-approval before plan\nrequire human-approval before deploy"
STAGING: Mapping[str, JsonValue] = {"env": "staging"}
TWO: list[Mapping[str, object]] = [{"tool": "deploy", "count": 2, "when": 'input.env = "staging"'}]
ONE: list[Mapping[str, object]] = [{"tool": "deploy", "count": 1}]


@asynccontextmanager
async def agent_session(
    directory: Path, rules: str = RULES, **options: object
) -> AsyncGenerator[tuple[Served, AgentClient, AgentSession]]:
    """Yield a server, a connected agent and its session."""
    async with (
        served(directory, rules=rules, language=LANGUAGE, **options) as server,  # type: ignore[arg-type]
        server.agent_client() as agent,
    ):
        yield server, agent, await agent.open("bot")


async def requests(server: Served, number: int = 1) -> list[ApprovalState]:
    """Return the waiting requests as soon as there are `number` of them."""

    async def enough() -> list[ApprovalState]:
        found = await server.hub.approvals()
        return found if len(found) == number else []

    return await until(enough)


async def wait_for_empty_queue(server: Served) -> None:
    """Return once no request waits."""

    async def empty() -> bool:
        return not await server.hub.approvals()

    await until(empty)


async def decide(server: Served, request: ApprovalState, token: str = "", **how: object) -> Outcome:
    """Decide as an operator at a separate console."""
    async with server.console(token or server.ada) as console:
        await until(console.approvals)
        told: dict[str, object] = {"approved": True, "by": "", "digest": request.digest, **how}
        return await console.decide(request.id, **told)  # type: ignore[arg-type]


async def approve(server: Served, request: ApprovalState, token: str = "") -> None:
    outcome = await decide(server, request, token)
    assert outcome.ok, outcome.message


async def passes(gate: AgentSession, server: Served) -> bool:
    """Deploy to staging and return true if no approval was required; otherwise deny the request."""
    going = asyncio.ensure_future(gate.call("deploy", STAGING))

    async def deploys() -> list[ApprovalState]:
        return [each for each in await server.hub.approvals() if each.tool == "deploy"]

    asked = asyncio.ensure_future(until(deploys))
    await asyncio.wait((going, asked), return_when=asyncio.FIRST_COMPLETED)
    if going.done():
        asked.cancel()
        assert going.result().outcome == "allow", going.result().reason
        return True
    for request in await asked:
        assert (await decide(server, request, approved=False)).ok
    assert (await going).outcome == "block"
    return False


async def recorded_grants(server: Served, session: str) -> list[GrantGiven]:
    """Return the grants in the record of a session."""
    events = await server.hub.recorded(session)
    return [event.body for event in events if isinstance(event.body, GrantGiven)]


def cut(agent: AgentClient) -> None:
    """Cut the agent's connection as a network failure does."""
    socket = agent.link._socket
    assert socket is not None
    socket.transport.abort()


class TestVanished:
    async def test_connection_before_approval(self, tmp_path: Path) -> None:
        """An agent that reconnects gets the approval of its plan, and its calls are granted once."""
        async with agent_session(tmp_path) as (server, agent, gate):
            going = asyncio.create_task(gate.plan(TWO, title="Release"))
            [request] = await requests(server)
            cut(agent)
            await approve(server, request)
            assert (await going).outcome == "allow"
            assert [await passes(gate, server) for _ in range(3)] == [True, True, False]
            assert len(await recorded_grants(server, gate.id)) == 1
            await check_fold(server.hub, gate.id)

    async def test_program_before_approval(self, tmp_path: Path) -> None:
        """A program that resumes a dead program's session has the plan approved in between."""
        async with agent_session(tmp_path) as (server, agent, gate):
            going = asyncio.create_task(gate.plan(TWO, title="Release"))
            [request] = await requests(server)
            await agent.link.close()
            with pytest.raises(Exception):  # noqa: B017, PT011 - the client that died
                await going
            await approve(server, request)
            async with server.agent_client() as other:
                again = await other.resume(gate.id)
                assert [await passes(again, server) for _ in range(3)] == [True, True, False]
            await check_fold(server.hub, gate.id)

    async def test_withdrawn_before_approval(self, tmp_path: Path) -> None:
        """A withdrawn plan cannot be approved and grants nothing."""
        async with agent_session(tmp_path) as (server, _, gate):
            going = asyncio.create_task(gate.plan(TWO, title="Release"))
            [request] = await requests(server)
            going.cancel()
            with pytest.raises(asyncio.CancelledError):
                await going
            await wait_for_empty_queue(server)
            outcome = await server.hub.decide(request.id, approved=True, by="ada", digest=request.digest)
            assert not outcome.ok
            assert await recorded_grants(server, gate.id) == []
            assert not await passes(gate, server)
            await check_fold(server.hub, gate.id)

    @pytest.mark.slow
    async def test_simultaneous_withdrawal_and_approval(self, tmp_path: Path) -> None:
        """Either the approval or the simultaneous withdrawal takes effect, and the record shows which."""
        async with agent_session(tmp_path) as (server, _, gate):
            for n in range(8):
                going = asyncio.create_task(gate.plan(ONE, title=f"Release {n}"))
                [request] = await requests(server)
                before = len(await recorded_grants(server, gate.id))
                deciding = server.hub.decide(request.id, approved=True, by="ada", digest=request.digest)
                task = asyncio.ensure_future(deciding)
                for _ in range(n):
                    await asyncio.sleep(0)
                going.cancel()
                outcome = await task
                with pytest.raises(asyncio.CancelledError):
                    await going
                await wait_for_empty_queue(server)

                async def over(title: str = f"Release {n}") -> bool:
                    calls = (await server.hub.session(gate.id)).calls.values()
                    return all(c.status != "waiting" for c in calls if c.input.get("title") == title)

                await until(over)
                new = len(await recorded_grants(server, gate.id)) - before
                bodies = [e.body for e in await server.hub.recorded(gate.id)]
                said = [each.text or "" for each in bodies if each.type == "message"]
                # The agent may withdraw the plan after its approval and before a grant for it.
                taken_back = outcome.ok and "took it back" in said[-1]
                assert new == (1 if outcome.ok and not taken_back else 0), (n, outcome)
                await check_fold(server.hub, gate.id)

    async def test_two_approved_plans_add_up(self, tmp_path: Path) -> None:
        """The remaining calls of two approved plans add up, and each plan is revoked separately."""
        async with agent_session(tmp_path) as (server, _, gate):
            for steps in (TWO, ONE):
                going = asyncio.create_task(gate.plan(steps, title="Release"))
                [request] = await requests(server)
                await approve(server, request)
                assert (await going).outcome == "allow"
            assert await passes(gate, server)
            async with server.console() as ada:
                assert (await ada.revoke_grant(gate.id, "plan-1", by="")).ok
            assert [await passes(gate, server) for _ in range(2)] == [True, False]
            await check_fold(server.hub, gate.id)

    @pytest.mark.slow
    async def test_session_ended(self, tmp_path: Path) -> None:
        """Closing the session removes its plan from the queue, and a late approval grants nothing."""
        async with agent_session(tmp_path) as (server, _, gate):
            going = asyncio.create_task(gate.plan(TWO, title="Release"))
            [request] = await requests(server)
            await gate.close()
            await wait_for_empty_queue(server)
            outcome = await server.hub.decide(request.id, approved=True, by="ada", digest=request.digest)
            assert not outcome.ok
            assert await recorded_grants(server, gate.id) == []
            with pytest.raises(RequestFailedError, match="has ended"):
                await going

    @pytest.mark.slow
    async def test_client_gave_up(self, tmp_path: Path) -> None:
        """A plan approved after its client gave up grants nothing until the same plan is shown again."""
        late = ApprovalPolicy(late=900.0)
        async with agent_session(tmp_path, policy=late) as (server, _, gate):
            written: dict[str, JsonValue] = {
                "title": "Release",
                "steps": [{"tool": "deploy", "count": 2}],
            }
            assert (await gate.call("plan", written, call_id="p1", wait=0.01)).outcome == "waiting"
            [request] = await requests(server)
            assert await gate.give_up("p1", "timed out") is not None
            await approve(server, request)
            assert await recorded_grants(server, gate.id) == []
            assert not await passes(gate, server)
            wider = {**written, "steps": [{"tool": "deploy", "count": 3}]}
            other = asyncio.create_task(gate.call("plan", wider, call_id="p2"))

            async def asked_again() -> list[ApprovalState]:
                return [r for r in await server.hub.approvals() if r.input == wider]

            [wide] = await until(asked_again)
            assert (await decide(server, wide, approved=False)).ok
            assert (await other).outcome == "block"
            again = await asyncio.wait_for(gate.call("plan", written, call_id="p3"), 10)
            assert again.outcome == "allow", again.reason
            assert len(await recorded_grants(server, gate.id)) == 1
            assert [await passes(gate, server) for _ in range(3)] == [True, True, False]
            await check_fold(server.hub, gate.id)


class TestAtOnce:
    async def test_two_plans(self, tmp_path: Path) -> None:
        """Two operators approve two waiting plans at once, and the granted calls add up."""
        async with agent_session(tmp_path) as (server, _, gate):
            going = [asyncio.create_task(gate.plan(s, title=f"Release {len(s)}")) for s in (TWO, ONE)]
            first, second = await requests(server, 2)
            await asyncio.gather(approve(server, second, server.ben), approve(server, first, server.ada))
            assert {(await each).outcome for each in going} == {"allow"}
            grants = await recorded_grants(server, gate.id)
            assert sorted(g.grant.key for g in grants) == ["grant-1", "grant-2"]
            assert {g.grant.plan for g in grants} == {"plan-1", "plan-2"}
            assert {g.by for g in grants} == {"ada", "ben"}
            assert [await passes(gate, server) for _ in range(4)] == [True, True, True, False]
            await check_fold(server.hub, gate.id)

    async def test_one_plan_twice(self, tmp_path: Path) -> None:
        """If operators approve one plan at once, one approval counts and grants the calls once."""
        async with agent_session(tmp_path) as (server, _, gate):
            going = asyncio.create_task(gate.plan(TWO, title="Release"))
            [request] = await requests(server)
            outcomes = await asyncio.gather(
                *(
                    server.hub.decide(request.id, approved=True, by=by, digest=request.digest)
                    for by in ("ada", "ben", "jo")
                )
            )
            assert [each.ok for each in outcomes].count(True) == 1
            assert (await going).outcome == "allow"
            assert [await passes(gate, server) for _ in range(3)] == [True, True, False]

    async def test_simultaneous_calls_within_the_plan(self, tmp_path: Path) -> None:
        """A plan allows only its number of calls, also if ten are made at once."""
        async with agent_session(tmp_path) as (server, _, gate):
            going = asyncio.create_task(gate.plan(TWO, title="Release"))
            [request] = await requests(server)
            await approve(server, request)
            await going
            calls = [asyncio.create_task(gate.call("deploy", STAGING)) for _ in range(10)]
            asked = await requests(server, 8)
            assert sum(each.done() for each in calls) <= 2
            for each in asked:
                await server.hub.decide(each.id, approved=False, by="ada", digest=each.digest)
            outcomes = sorted([(await each).outcome for each in calls])
            assert outcomes == ["allow"] * 2 + ["block"] * 8
            await check_fold(server.hub, gate.id)

    @pytest.mark.slow
    async def test_revoked_as_it_is_used(self, tmp_path: Path) -> None:
        """A call during the revocation of its plan passes or is queued, in the order of the record."""
        async with agent_session(tmp_path) as (server, _, gate):
            for n in range(6):
                going = asyncio.create_task(gate.plan(ONE, title=f"Release {n}"))
                [request] = await requests(server)
                await approve(server, request)
                await going
                revoking, _ = await asyncio.gather(
                    server.hub.revoke_grant(gate.id, f"plan-{n + 1}", by="ada"),
                    passes(gate, server),
                )
                assert revoking.ok
                await check_fold(server.hub, gate.id)
                assert not await passes(gate, server)


class TestTogether:
    RULES = RULES + "\nlimit deploy to 3 per session"

    async def test_plan_grant_and_limit(self, tmp_path: Path) -> None:
        """The limit blocks calls that plan and grant would allow, and a block uses up neither."""
        async with agent_session(tmp_path, self.RULES) as (server, _, gate):
            plan = asyncio.create_task(gate.plan(TWO, title="Release"))
            [request] = await requests(server)
            await approve(server, request)
            await plan
            # A call that the plan does not cover is queued and gets a grant.
            other = asyncio.create_task(gate.call("deploy", {"env": "prod"}))
            [asked] = await requests(server)
            terms = GrantTerms("input", 5)
            outcome = await decide(server, asked, grant=terms, reason="often")
            assert outcome.ok, outcome.message
            assert (await other).outcome == "allow"
            assert [await passes(gate, server) for _ in range(2)] == [True, True]
            for env in ("staging", "prod"):
                refused = await asyncio.wait_for(gate.call("deploy", {"env": env}), 10)
                assert refused.outcome == "block"
            left = (await server.hub.session(gate.id)).grants
            assert {k: g.net.marking["granted"] for k, g in left.items()} == {"grant-1": 0, "grant-2": 5}
            await check_fold(server.hub, gate.id)

    async def test_more_than_the_limit(self, tmp_path: Path) -> None:
        """Calls of a plan beyond a limit are blocked and use up no grant."""
        async with agent_session(tmp_path, self.RULES) as (server, _, gate):
            plan = asyncio.create_task(gate.plan([{"tool": "deploy", "count": 5}], title="Release"))
            [request] = await requests(server)
            found = [(f.calls, f.outcome) for f in request.plan[0].findings]
            assert found == [(3, "planned"), (2, "blocked")]
            await approve(server, request)
            await plan
            calls = await asyncio.gather(*(gate.call("deploy", STAGING) for _ in range(6)))
            assert sorted(c.outcome for c in calls) == ["allow"] * 3 + ["block"] * 3
            [grant] = (await server.hub.session(gate.id)).grants.values()
            assert grant.net.marking["granted"] == 2
            await check_fold(server.hub, gate.id)


class TestRestarted:
    async def test_before_approval(self, tmp_path: Path) -> None:
        """A waiting plan survives a restart with its forecast."""
        async with agent_session(tmp_path) as (server, _, gate):
            address = server.address
            agent_client = AgentClient(server.url, server.agent, patience=10.0)
            await agent_client.link.open()
            mine = await agent_client.open("bot")
            going = asyncio.create_task(mine.plan(TWO, title="Release"))
            [before] = await requests(server)
            await gate.close()
        async with served(tmp_path, rules=RULES, language=LANGUAGE, address=address) as server:
            [request] = await requests(server)
            assert (request.input, request.plan) == (before.input, before.plan)
            await approve(server, request)
            assert (await going).outcome == "allow"
            assert [await passes(mine, server) for _ in range(3)] == [True, True, False]
            await check_fold(server.hub, mine.id)
            await agent_client.close()

    async def test_between_calls(self, tmp_path: Path) -> None:
        """The remaining calls of a plan survive a restart; a repeated call id uses up no other one."""
        async with agent_session(tmp_path) as (server, _, _):
            address = server.address
            client = AgentClient(server.url, server.agent, patience=10.0)
            await client.link.open()
            gate = await client.open("bot")
            going = asyncio.create_task(gate.plan(TWO, title="Release"))
            [request] = await requests(server)
            await approve(server, request)
            await going
            assert (await gate.call("deploy", STAGING, call_id="d1")).outcome == "allow"
        async with served(tmp_path, rules=RULES, language=LANGUAGE, address=address) as server:
            again = await gate.call("deploy", STAGING, call_id="d1")
            assert (again.outcome, again.repeated) == ("allow", True)
            assert [await passes(gate, server) for _ in range(2)] == [True, False]
            await check_fold(server.hub, gate.id)
            await client.close()

    @pytest.mark.slow
    async def test_one_operator_does_not_count_twice(self, tmp_path: Path) -> None:
        """One operator's approval does not count twice for a plan by 2 after a restart."""
        rules = RULES.replace("before plan", "before plan by 2")
        async with agent_session(tmp_path, rules) as (server, _, _):
            address = server.address
            client = AgentClient(server.url, server.agent, patience=10.0)
            await client.link.open()
            gate = await client.open("bot")
            going = asyncio.create_task(gate.plan(TWO, title="Release"))
            [request] = await requests(server)
            await approve(server, request)
            assert not going.done()
        async with served(tmp_path, rules=rules, language=LANGUAGE, address=address) as server:
            [request] = await requests(server)
            again = await decide(server, request)
            if again.ok:  # asked for both approvals again
                assert not going.done()
                [request] = await requests(server)
            else:
                assert [each.by for each in request.given] == ["ada"]
            await approve(server, request, server.ben)
            assert (await going).outcome == "allow"
            assert len(await recorded_grants(server, gate.id)) == 1
            assert [await passes(gate, server) for _ in range(3)] == [True, True, False]
            await check_fold(server.hub, gate.id)
            await client.close()

    @pytest.mark.slow
    async def test_edited(self, tmp_path: Path) -> None:
        """The request for an edited plan shows the edit after a restart."""
        async with agent_session(tmp_path) as (server, _, _):
            address = server.address
            client = AgentClient(server.url, server.agent, patience=10.0)
            await client.link.open()
            gate = await client.open("bot")
            going = asyncio.create_task(gate.plan(TWO, title="Release"))
            [request] = await requests(server)
            fewer = {"title": "Release", "steps": [{"tool": "deploy", "count": 1}]}
            assert (await decide(server, request, input=fewer)).ok

            async def renewed() -> bool:
                return [each.input for each in await server.hub.approvals()] == [fewer]

            await until(renewed)
        async with served(tmp_path, rules=RULES, language=LANGUAGE, address=address) as server:
            [request] = await requests(server)
            assert (request.input, request.edited_by) == (fewer, "ada")
            assert [step.count for step in request.plan] == [1]
            await approve(server, request)
            assert (await going).outcome == "allow"
            assert [await passes(gate, server) for _ in range(2)] == [True, False]
            await check_fold(server.hub, gate.id)
            await client.close()

    @pytest.mark.slow
    async def test_under_other_rules(self, tmp_path: Path) -> None:
        """A plan that was approved under other rules allows no call after the restart."""
        async with agent_session(tmp_path) as (server, _, _):
            address = server.address
            client = AgentClient(server.url, server.agent, patience=10.0)
            await client.link.open()
            gate = await client.open("bot")
            going = asyncio.create_task(gate.plan(TWO, title="Release"))
            [request] = await requests(server)
            await approve(server, request)
            await going
        rules = RULES + "\nblock rm"
        async with served(tmp_path, rules=rules, language=LANGUAGE, address=address) as server:
            assert not await passes(gate, server)
            await check_fold(server.hub, gate.id)
            await client.close()


class TestByTwo:
    RULES = RULES.replace("before plan", "before plan by 2")

    async def test_one_is_not_enough(self, tmp_path: Path) -> None:
        """A plan allows no call until two operators have approved it; one cannot approve twice."""
        async with agent_session(tmp_path, self.RULES) as (server, agent, gate):
            going = asyncio.create_task(gate.plan(TWO, title="Release"))
            [request] = await requests(server)
            await approve(server, request)
            assert not (await decide(server, request)).ok
            cut(agent)
            other = asyncio.create_task(gate.call("deploy", STAGING))
            both = await requests(server, 2)
            [call] = [each for each in both if each.tool == "deploy"]
            assert (await decide(server, call, approved=False)).ok
            assert (await other).outcome == "block"
            await approve(server, request, server.ben)
            assert (await going).outcome == "allow"
            assert await passes(gate, server)
            await check_fold(server.hub, gate.id)

    @pytest.mark.slow
    async def test_withdrawn_between(self, tmp_path: Path) -> None:
        """An approval of a withdrawn plan counts neither for another plan nor for the same one."""
        async with agent_session(tmp_path, self.RULES) as (server, _, gate):
            for by in (server.ada, server.ben):
                going = asyncio.create_task(gate.plan(TWO, title="Release"))
                [request] = await requests(server)
                assert request.given == ()
                await approve(server, request, by)
                assert not going.done()
                going.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await going
                await wait_for_empty_queue(server)
            assert await recorded_grants(server, gate.id) == []
            assert not await passes(gate, server)


class TestShadow:
    async def test_plan_in_shadow_mode_grants_nothing(self, tmp_path: Path) -> None:
        """A plan in shadow mode grants nothing after a change to enforce mode."""
        async with agent_session(tmp_path, mode="shadow") as (server, _, gate):
            answer = await gate.plan(TWO, title="Release")
            assert answer.outcome == "allow"
            assert await recorded_grants(server, gate.id) == []
            assert (await server.hub.set_mode(gate.id, "enforce", by="ada", reason="live")).ok
            assert not await passes(gate, server)
            events = await server.hub.recorded(gate.id)
            assert sum(isinstance(e.body, ApprovalRequested) for e in events) == 1
            await check_fold(server.hub, gate.id)
