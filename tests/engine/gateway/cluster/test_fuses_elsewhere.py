"""Approvals with a fuse that are taken back at another server than the session's."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from uuid import uuid4

import pytest

from interlock.engine.approvals.policy import ApprovalPolicy
from interlock.engine.gateway.cluster.shared_hub import SharedHub, open_hub
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.model.events import ApprovalTakenBack, CallDecided

from ...support.external_agent import opened
from ...support.shop import becomes
from .support.hubs import hub_on

HIGH = "require human-approval before deploy risk high"
FUSE = 0.4


class TestTakenBack:
    @pytest.mark.slow
    async def test_paused_owner_accepts_pending_withdrawal(self, postgresql: PostgresLocation) -> None:
        """A fuse that ended only because its server was paused leaves time for what came meanwhile."""
        policy = ApprovalPolicy(fuse=FUSE)
        here = await asyncio.to_thread(open_hub, postgresql, policy=policy)
        assert isinstance(here, SharedHub)
        await here.share()
        there = await hub_on(postgresql)
        try:
            await opened(here, HIGH)
            call = asyncio.ensure_future(here.call("robin-1", "d1", "deploy", {"env": "prod"}))
            await becomes(here.approvals)
            [request] = await here.approvals()
            outcome = await here.decide(request.id, approved=True, by="maria", digest=request.digest)
            assert outcome.ok, outcome.message

            params, actor = json.dumps({"approval_id": request.id}), json.dumps({"by": "ben"})
            act = uuid4().hex, request.session, "approval.take_back", params, actor
            taking = threading.Thread(target=there._acts.post, args=act)
            taking.start()
            time.sleep(2 * FUSE + 0.5)  # noqa: ASYNC251 - stops the loop, as a pause of the process does
            taking.join()

            async def answered() -> bool:
                return await asyncio.to_thread(there._acts.result, act[0]) is not None

            await becomes(answered)
            bodies = [each.body for each in await there.recorded(request.session)]
            [taken] = [each for each in bodies if isinstance(each, ApprovalTakenBack)]
            assert taken.by == "ben"
            await asyncio.sleep(FUSE + 1.5)
            assert not call.done()
            assert not any(isinstance(each, CallDecided) for each in bodies)
            call.cancel()
        finally:
            await here.close()
            await there.close()
