"""G-77: `--answer approve` does not count as one of several required approvers."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from interlock.app.hosting.headless import follow
from interlock.engine.agents import C, T
from interlock.engine.history.model.events import ApprovalDecided, ApprovalGiven
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules
from tests.engine.support.shop import Shop, bodies, bot


class TestAnswerApprove:
    @pytest.mark.parametrize(("people", "ran"), [(1, ["deploy prod"]), (2, [])])
    async def test_counts_as_a_single_approver(self, tmp_path: Path, people: int, ran: list[str]) -> None:
        """`--answer approve` approves for one required approver; for several it denies and says why."""
        asks = "require human-approval" if people == 1 else f"require {people} human-approvals"
        path, shop, out = tmp_path / "h.db", Shop(), StringIO()

        async def start(hub: Hub) -> str:
            agent = bot(shop, C(deploy={"env": "prod"}), T("done"))
            registry = compile_rules(f"{asks} before deploy").registry
            session = await hub.open_session(agent, SessionConfig(registry, by="carl"), session_id="s1")
            await hub.send(session, "ship it", by="carl")
            return session

        assert await follow(Hub.open(path), start, answer="approve", out=out) == 0
        assert shop.ran == ran
        hub = Hub.open(path)
        try:
            [decided] = bodies(hub, "s1", ApprovalDecided)
            assert (decided.approved, bodies(hub, "s1", ApprovalGiven)) == (people == 1, [])
        finally:
            await hub.close()
        if people > 1:
            assert "2 people must approve, and --answer approve counts as none" in out.getvalue()
