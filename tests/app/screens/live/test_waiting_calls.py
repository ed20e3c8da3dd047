"""G-68: a call that competes for a last token shows the call that it waits for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.engine.hub.hub import Hub
from tests.engine.approvals.test_contention import SPENT, contending, one_question

from ...connect.seats import seated


class TestTranscript:
    @pytest.mark.variants
    @pytest.mark.parametrize("size", [(80, 24), (120, 40)])
    async def test_competing_call_names_the_call_it_waits_for(
        self, tmp_path: Path, size: tuple[int, int]
    ) -> None:
        """`waits for CALL` is shown while the other is being decided, then the net's own reason."""
        hub = Hub.open(tmp_path / "w.db")
        try:
            calls = await contending(hub, "first", "second")
            async with seated(hub, "ada", size) as on:
                await on.shows(
                    "◐ deploy", "waits for first", "Waiting 1" if size[0] < 100 else "Waiting (1)"
                )
                request = await one_question(hub)
                assert (await hub.decide(request.id, approved=True, by="ada")).ok
                await on.shows("■ deploy", SPENT[:40])
                assert "waits for first" not in on.painted()
            await asyncio.gather(*calls)
        finally:
            await hub.close()
