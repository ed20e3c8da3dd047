"""`interlock freeze`: freezes all agents of a server, or lifts the freeze, without a console."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .test_approvals import shell


class TestFreeze:
    async def test_freeze_is_reported_and_lifting_needs_reason(self, tmp_path: Path) -> None:
        """The operator and the reason are reported, even by `approvals list`; lifting needs a reason."""
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
        """An operator with the right `decide` may freeze all agents, but may not lift the freeze."""
        async with shell(tmp_path) as operator:
            dora = operator.server.tokens.issue("operator", "dora", rights="decide")
            await operator.command("freeze", token=dora)
            refused = await operator.command("freeze", "--lift", "looked at", token=dora, code=1)
            assert "administer" in refused.stderr
            assert operator.server.hub.current_freeze() is not None
