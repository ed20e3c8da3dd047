"""Passkeys of operators whose consoles are at a server other than the session's owner."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine.approvals.passkeys import KeyAnswer
from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.model.events import ApprovalDecided, ApprovalGiven
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.history.postgres import lines
from interlock.engine.hub.api import KeyRequest, Outcome
from tests.support.authenticator import PAGE, Authenticator, enroll

from ...history.postgres.support.servers import beside
from ...support.external_agent import opened
from .support.hubs import becomes

RULES = "require human-approval before deploy with passkey"


async def waits(hub: SharedHub, other: SharedHub, rules: str = RULES) -> asyncio.Task[object]:
    """A deploy at one server that waits for passkeys, once the other server shows its request."""
    await opened(hub, rules)
    task = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {"env": "prod"}))
    await becomes(other.approvals)
    return task


async def only_request(hub: SharedHub) -> ApprovalState:
    """Return the one open request."""
    [request] = await hub.approvals()
    return request


async def challenged(hub: SharedHub, by: str) -> KeyRequest:
    request = await only_request(hub)
    return await hub.challenge_key(request.id, digest=request.digest, origin=PAGE, by=by)


async def approve(hub: SharedHub, by: str, answer: KeyAnswer) -> Outcome:
    request = await only_request(hub)
    return await hub.decide(request.id, approved=True, by=by, digest=request.digest, passkey=answer)


class TestKeyOfAnotherServer:
    async def test_challenge_and_approval_may_use_different_servers(
        self, two: tuple[SharedHub, SharedHub]
    ) -> None:
        """The challenge and the approval may use different servers."""
        here, there = two
        device = Authenticator()
        await enroll(there, "maria", device)
        task = await waits(here, there)
        answer = device.sign(await challenged(there, "maria"))
        outcome = await approve(here, "maria", answer)
        assert outcome.ok, outcome.message
        await task

    async def test_list_reflects_changes_at_other_servers(self, two: tuple[SharedHub, SharedHub]) -> None:
        """The list reflects keys that another server enrolled or removed, before any key is used."""
        here, there = two
        device = Authenticator()
        key = await enroll(there, "maria", device)
        assert [each.passkey for each in (await here.passkeys()).passkeys] == [key]
        assert (await here.remove_key(key, by="maria")).ok
        assert (await there.passkeys()).passkeys == ()

    async def test_removal_voids_a_waiting_approval(self, two: tuple[SharedHub, SharedHub]) -> None:
        """The removal of a key also voids its approval that waits for a second approver."""
        here, there = two
        maria, ben = Authenticator(), Authenticator()
        key = await enroll(there, "maria", maria)
        await enroll(there, "ben", ben)
        task = await waits(here, there, f"{RULES} by 2")
        assert (await approve(there, "maria", maria.sign(await challenged(there, "maria")))).ok
        assert (await there.remove_key(key, by="maria")).ok
        outcome = await approve(here, "ben", ben.sign(await challenged(here, "ben")))
        assert not outcome.ok
        assert "their passkey was removed" in outcome.message
        task.cancel()

    @pytest.mark.slow
    async def test_replayed_answer_counts_once(self, two: tuple[SharedHub, SharedHub]) -> None:
        """One signed answer that is sent to both servers, and sent again, counts as one approval."""
        here, there = two
        device = Authenticator()
        await enroll(there, "maria", device)
        task = await waits(here, there, f"{RULES} by 2")
        answer = device.sign(await challenged(there, "maria"))
        outcomes = await asyncio.gather(*(approve(hub, "maria", answer) for hub in (here, there, here)))
        assert [each.ok for each in outcomes].count(True) == 1
        given = [e.body for e in await here.recorded("robin-1") if isinstance(e.body, ApprovalGiven)]
        assert [each.by for each in given] == ["maria"]
        for by in ("maria", "ada"):
            assert not (await approve(there, by, answer)).ok
        task.cancel()

    @pytest.mark.slow
    async def test_decreasing_sign_count_is_refused(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A copied key is detected by its sign count, even if the last use was at another server."""
        here, there = two
        device = Authenticator()
        await enroll(there, "maria", device)
        task = await waits(here, there)
        copied = device.uses
        assert (await approve(there, "maria", device.sign(await challenged(there, "maria")))).ok
        await task
        again = asyncio.ensure_future(deploy_call_at(there))
        await becomes(here.approvals)
        device.uses = copied
        outcome = await approve(here, "maria", device.sign(await challenged(here, "maria")))
        assert not outcome.ok
        assert "sign count" in outcome.message.lower()
        decided = [e for e in await there.recorded("robin-2") if isinstance(e.body, ApprovalDecided)]
        assert decided == []
        again.cancel()


async def deploy_call_at(hub: SharedHub) -> object:
    """Make a deploy call of an agent whose session is at this server."""
    from interlock.engine.sessions.config import SessionConfig
    from interlock.rules import compile_rules

    from ...support.external_agent import AGENT

    config = SessionConfig(compile_rules(RULES).registry, by="ada")
    session = await hub.open_external(AGENT, config, session_id="robin-2")
    return await hub.call(session, "d2", "deploy", {"env": "prod"})


@pytest.mark.slow
class TestDatabaseThatDoesNotAnswer:
    async def test_unchecked_approval_is_refused_in_time(
        self,
        two: tuple[SharedHub, SharedHub],
        postgresql: PostgresLocation,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """If a key cannot be checked in time, its approval is refused and the request stays open."""
        here, there = two
        device = Authenticator()
        await enroll(here, "maria", device)
        task = await waits(here, there)
        answer = device.sign(await challenged(here, "maria"))
        request = await only_request(here)
        monkeypatch.setattr(lines, "_LIMITS", {"keys": 0.3})
        with beside(postgresql) as connection:
            connection.execute("BEGIN")
            connection.execute("LOCK TABLE line IN ACCESS EXCLUSIVE MODE")
            outcome = await here.decide(
                request.id, approved=True, by="maria", digest=request.digest, passkey=answer
            )
            connection.execute("ROLLBACK")
        assert not outcome.ok
        assert "no answer within 0.3 s" in outcome.message
        outcome = await approve(here, "maria", device.sign(await challenged(here, "maria")))
        assert outcome.ok, outcome.message
        await task
