"""Hubs of several servers on one database, and an agent's sessions at these servers."""

from __future__ import annotations

import asyncio

from interlock.engine.approvals.policy import Credential
from interlock.engine.core.approvers import Operator
from interlock.engine.gateway.cluster.shared_hub import SharedHub, open_hub
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.model.records import StepRecord
from interlock.engine.history.postgres.pool import reading
from interlock.engine.net.net import Transition
from interlock.engine.sessions.hosted import HostedSession

from ....support.external_agent import opened
from ....support.shop import becomes

RULES = "require human-approval before deploy"


async def hub_on(location: PostgresLocation) -> SharedHub:
    hub = await asyncio.to_thread(open_hub, location)
    assert isinstance(hub, SharedHub)
    await hub.share()
    return hub


async def asked(hub: SharedHub, other: SharedHub) -> asyncio.Task[object]:
    """A pending deploy of an agent at one server; returned once the other server shows its request."""
    await opened(hub, RULES)
    task = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {"env": "prod"}))

    async def shown() -> bool:
        return bool(await other.approvals())

    await becomes(shown)
    return task


async def approve(hub: SharedHub, task: asyncio.Task[object]) -> None:
    """Approve the one open request with a token that remains valid."""
    [request] = await hub.approvals()
    credential = Credential("ada's", lambda token, needed: True, Operator("ada"))
    outcome = await hub.decide(
        request.id, approved=True, by="ada", digest=request.digest, credential=credential
    )
    assert outcome.ok, outcome.message
    await task


def transition(hosted: HostedSession, step: StepRecord) -> Transition:
    """Return the transition that a step record names."""
    net = hosted.manager.nets[step.net]
    return next(each for each in net.transitions if each.name == step.transition)


async def renews_no_more(hub: SharedHub) -> None:
    """Stop the thread that renews a server's lease, as a pause of the process would."""
    hub._lease._stop.set()
    await asyncio.to_thread(hub._lease._thread.join)


async def silent(hub: SharedHub, location: PostgresLocation) -> None:
    """Stop a server's lease renewal and expire its lease, as if the server were dead or paused."""
    await renews_no_more(hub)
    hub._lease._valid_until = 0.0
    with reading(location) as connection:
        connection.execute("UPDATE server SET ended = 1 WHERE id = ?", (hub._lease.id,))


async def closing(hub: SharedHub) -> bool:
    """Tell whether a hub holds all decisions."""
    return hub._live.freeze.holds


async def asked_for(hub: SharedHub, session: str) -> bool:
    """Tell whether a server has requested a session from its owner."""
    with reading(hub._lease.location) as connection:
        return bool(connection.number("SELECT count(*) FROM act WHERE session = ?", (session,)))


async def stop_following(hub: SharedHub) -> None:
    hub._following.cancel()
    await asyncio.wait([hub._following])
