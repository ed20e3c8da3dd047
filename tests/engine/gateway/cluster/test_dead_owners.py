"""Acts of operators on a session whose server is dead, which reach the session's next server."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest

from interlock.engine.gate.types import GrantTerms
from interlock.engine.gateway.cluster import forwarding_hub
from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.history.model.events import GrantRevoked
from interlock.engine.hub.api import Outcome
from interlock.engine.hub.hub import UnknownSessionError

from ...support.external_agent import opened, resumed
from .support.hubs import RULES, asked_for, becomes, silent, stop_following
from .test_taking_over import have_ended


async def with_grant(hub: SharedHub, other: SharedHub) -> str:
    """Open a session with a grant for deploy, which the other server shows; return the grant's key."""
    await opened(hub, RULES)
    call = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {"env": "prod"}))
    await becomes(hub.approvals)
    [request] = await hub.approvals()
    terms = GrantTerms(scope="names")
    decided = await hub.decide(
        request.id, approved=True, by="ada", digest=request.digest, grant=terms, reason="release day"
    )
    assert decided.ok, decided.message
    await call
    await becomes(lambda: shown_grants(other))
    [key] = (await hub.session("robin-1")).grants
    return key


async def shown_grants(hub: SharedHub) -> bool:
    """Tell whether a hub shows the session with a grant."""
    try:
        return bool((await hub.session("robin-1")).grants)
    except UnknownSessionError:
        return False


async def dies(hub: SharedHub) -> None:
    """End a server as a kill does: its lease is over, and it knows so when it is closed."""
    await silent(hub, hub._lease.location)
    hub._lease.end()


async def asked_of_dead(
    here: SharedHub, there: SharedHub, coroutine: Coroutine[object, object, Outcome]
) -> asyncio.Task[Outcome]:
    """Begin an operator's act at one server while the other, which owns the session, is dead."""
    await stop_following(here)
    asking = asyncio.create_task(coroutine)
    await becomes(lambda: asked_for(there, "robin-1"))
    await dies(here)
    return asking


async def deploys(hub: SharedHub) -> str:
    """Outcome of another deploy of the agent, or `asks` if it waits for approval."""
    call = asyncio.ensure_future(hub.call("robin-1", "d2", "deploy", {"env": "prod"}))

    async def is_clear() -> bool:
        return call.done() or bool(await hub.approvals())

    await becomes(is_clear)
    if call.done():
        return call.result().outcome
    await hub.withdraw_call("robin-1", "d2", "not wanted")
    await asyncio.wait([call])
    return "asks"


class TestDeadOwner:
    async def test_revocation_holds_after_takeover(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A grant that is revoked while its server is dead allows nothing at the next server."""
        here, there = two
        key = await with_grant(here, there)
        revoking = await asked_of_dead(here, there, there.revoke_grant("robin-1", key, by="ben"))
        assert await revoking == Outcome(ok=True, message=f"{key} revoked by ben")
        await resumed(there, rules=RULES)
        assert await deploys(there) == "asks"

    @pytest.mark.slow
    async def test_revocation_holds_although_agent_comes_at_once(
        self, two: tuple[SharedHub, SharedHub]
    ) -> None:
        """An agent that waits for the takeover cannot use a grant that was revoked before it."""
        here, there = two
        key = await with_grant(here, there)
        await stop_following(here)
        revoking = asyncio.ensure_future(there.revoke_grant("robin-1", key, by="ben"))
        await becomes(lambda: asked_for(there, "robin-1"))
        coming = asyncio.ensure_future(resumed(there, rules=RULES))
        await dies(here)
        await coming
        assert await deploys(there) == "asks"
        assert (await revoking).ok

    @pytest.mark.slow
    async def test_grant_is_revoked_before_agent_is_back(self, two: tuple[SharedHub, SharedHub]) -> None:
        """After the takeover any server revokes a grant, although the session runs at none."""
        here, there = two
        key = await with_grant(here, there)
        await dies(here)
        await have_ended(there, "robin-1")
        assert (await there.revoke_grant("robin-1", key, by="ben")).ok
        assert not (await there.revoke_grant("robin-1", key, by="ben")).ok
        with pytest.raises(UnknownSessionError):
            await there.revoke_grant("robin-7", key, by="ben")
        revoked = [each.body for each in await there.recorded("robin-1")]
        assert [each for each in revoked if isinstance(each, GrantRevoked)] == [
            GrantRevoked(key=key, by="ben")
        ]
        await resumed(there, rules=RULES)
        assert await deploys(there) == "asks"

    @pytest.mark.slow
    async def test_enforce_mode_holds_after_takeover(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A session that is enforced while its server is dead is in enforce mode at the next one."""
        here, there = two
        await opened(here, RULES)
        assert (await here.set_mode("robin-1", "shadow", by="ada", reason="a test")).ok
        await becomes(lambda: shows_mode(there, "shadow"))
        enforcing = await asked_of_dead(here, there, there.set_mode("robin-1", "enforce", by="ben"))
        outcome = await enforcing
        assert outcome.ok, outcome.message
        await resumed(there, rules=RULES)
        assert await deploys(there) == "asks"

    @pytest.mark.slow
    async def test_net_is_on_again_before_first_call(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A net that is switched on while its server is dead judges the first call elsewhere."""
        here, there = two
        await opened(here, RULES)
        [net] = (await here.session("robin-1")).nets
        assert (await here.toggle_net("robin-1", net, False, by="ada", reason="a test")).ok
        await becomes(lambda: shows_off(there, net))
        switching = await asked_of_dead(here, there, there.toggle_net("robin-1", net, True, by="ben"))
        await have_ended(there, "robin-1")
        await resumed(there, rules=RULES)
        assert await deploys(there) == "asks"
        outcome = await switching
        assert outcome.ok, outcome.message

    @pytest.mark.slow
    async def test_switch_of_absent_agent_is_not_done(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If the agent does not come back in time, the operator hears that nothing was switched."""
        monkeypatch.setattr(forwarding_hub, "ANSWER_SECONDS", 1.0)
        here, there = two
        await opened(here, RULES)
        [net] = (await here.session("robin-1")).nets
        assert (await here.toggle_net("robin-1", net, False, by="ada", reason="a test")).ok
        await becomes(lambda: shows_off(there, net))
        switching = await asked_of_dead(here, there, there.toggle_net("robin-1", net, True, by="ben"))
        assert await switching == Outcome(
            ok=False,
            message="Not switched: the server of session 'robin-1' has ended, and its agent is not back "
            "yet. Try again in some seconds",
        )
        await resumed(there, rules=RULES)
        assert await deploys(there) == "allow"


async def shows_mode(hub: SharedHub, mode: str) -> bool:
    """Tell whether a hub shows the session in this mode."""
    try:
        return (await hub.session("robin-1")).mode == mode
    except UnknownSessionError:
        return False


async def shows_off(hub: SharedHub, net: str) -> bool:
    """Tell whether a hub shows a net of the session as switched off."""
    try:
        return not (await hub.session("robin-1")).nets[net].active
    except UnknownSessionError:
        return False
