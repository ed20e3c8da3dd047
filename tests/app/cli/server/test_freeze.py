"""`interlock freeze`: all agents of a server held, and let go, without a screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .test_approvals import shell


class TestFreeze:
    async def test_holds_and_lifts(self, tmp_path: Path) -> None:
        """The server says who froze it and why, in the list of requests too; lifting needs a reason."""
        async with shell(tmp_path) as operator:
            done = await operator.command("freeze", "the deploys look wrong")
            assert "frozen by ada: the deploys look wrong" in done.stdout
            assert operator.server.hub.current_freeze() is not None
            assert "frozen by ada: the deploys look wrong" in (await operator.run("list")).stderr
            again = await operator.command("freeze", code=1)
            assert "frozen by ada" in again.stderr
            no_reason = await operator.command("freeze", "--lift", code=2)
            assert "needs a reason" in no_reason.stderr
            lifted = await operator.command("freeze", "--lift", "looked at", "--json")
            assert json.loads(lifted.stdout)["ok"]
            assert operator.server.hub.current_freeze() is None

    @pytest.mark.slow
    async def test_lifting_needs_an_administrator(self, tmp_path: Path) -> None:
        """Who may decide freezes, and does not lift."""
        async with shell(tmp_path) as operator:
            dora = operator.server.tokens.issue("operator", "dora", rights="decide")
            await operator.command("freeze", token=dora)
            refused = await operator.command("freeze", "--lift", "looked at", token=dora, code=1)
            assert "administer" in refused.stderr
            assert operator.server.hub.current_freeze() is not None
