"""Grants, plans, fuses, freezes and two-person approvals at servers that are killed, paused, cut off."""

from __future__ import annotations

import asyncio
import signal
import time
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


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with own_server(port=free_port()) as database:
        found = Team(database, tmp_path)
        try:
            yield found
        finally:
            found.kill()


def killed(team: Team, random: Random) -> None:
    random.choice(team.servers).kill()


def paused(team: Team, random: Random) -> None:
    random.choice(team.servers).pause()


def paused_shortly(team: Team, random: Random) -> None:
    random.choice(team.servers).pause_shortly(random.uniform(0.2, 1.2))


def cut_off(team: Team, random: Random) -> None:
    random.choice(team.servers).cut_off(late=random.random() < 0.5)


def restarted(team: Team, random: Random) -> None:
    """End the database at once, as after a crash, and restart it."""
    team.database.stop(signal.SIGQUIT)
    time.sleep(random.choice((0, 0, 0.3, 1)))
    team.database.start()


def all_killed(team: Team, random: Random) -> None:
    """Kill all servers at once; restart them one after the other."""
    for each in team.servers:
        each.process.kill()
    for each in random.sample(team.servers, len(team.servers)):
        each.again()


@pytest.mark.timeout(3600)
class TestWhatOperatorsSaidHolds:
    @pytest.mark.slow
    @pytest.mark.parametrize("way", [killed, paused, paused_shortly, cut_off, restarted, all_killed])
    async def test_whatever_ends(
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
        tally = {**record.tally, "done": dict(people.memory.done)}
        record_property("tally", tally)
        print(way.__name__, len(every), tally)
        problems = record.problems + team.faults()
        assert not problems, "\n".join(problems)
        assert record.tally["allowed"] > 0
