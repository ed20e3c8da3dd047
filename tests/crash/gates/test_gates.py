"""Grants, plans, fuses, freezes and two-person approvals at servers that are killed, paused, cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from ...support.ports import free_port
from ...support.postgres import own_server
from ..lives import seeds
from .people import People
from .record import Record
from .servers import Team
from .ways import WAYS, dead_at_a_point, drained


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with own_server(port=free_port()) as database:
        found = Team(database, tmp_path)
        try:
            yield found
        finally:
            found.kill()


@pytest.mark.timeout(3600)
class TestWhatOperatorsSaidHolds:
    @pytest.mark.slow
    @pytest.mark.parametrize("way", [*WAYS, dead_at_a_point])
    async def test_decisions_hold_after_any_fault(
        self,
        team: Team,
        way: Callable[[Team, Random], None],
        record_property: Callable[[str, object], None],
    ) -> None:
        """However servers end, no call is allowed without permission, and none more often than that."""
        every = seeds(usual=1)
        people = People(team, f"{way.__name__} {every[-1]}")
        async with people.at_work():
            for seed in every:
                await people.go_on()
                random = Random(f"{way.__name__} {seed}")
                await asyncio.sleep(random.uniform(0.0, 1.0))
                await asyncio.to_thread(way, team, random)
            await people.go_on()
        await asyncio.to_thread(team.close)
        record = Record(team.location, people.memory)
        tally = {**record.tally, "done": dict(people.memory.done), "deaths": dict(team.deaths)}
        record_property("tally", tally)
        print(way.__name__, len(every), tally)
        problems = record.problems + team.faults()
        assert not problems, "\n".join(problems)
        assert record.tally["allowed"] > 0
        if way is drained:
            assert record.tally["unknown"] == 0
