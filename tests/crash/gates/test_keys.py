"""Passkeys at servers that are killed, paused and cut off between a challenge and its answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from interlock.engine.history.audit.verify import check_file, verify_journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.logs.key_log import KeyLog
from interlock.engine.history.model.events import ApprovalDecided, ApprovalGiven, CallDecided

from ...support.ports import free_port
from ...support.postgres import own_server
from ..lives import seeds
from .keyholders import KeyHolders
from .servers import Team
from .ways import WAYS, dead_amid_keys

LATE = 0.05
"""Seconds by which the database's clock may seem behind that of this process."""


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with own_server(port=free_port()) as database:
        found = Team(database, tmp_path)
        try:
            yield found
        finally:
            found.kill()


def judge(team: Team, holders: KeyHolders) -> tuple[Counter[str], list[str]]:
    """Compare what the operators were told with the record; what was counted, and what is wrong."""
    problems, tally = [*holders.problems], Counter[str]()
    signatures = Counter[str]()
    reader = open_reader(team.location)
    for line in reader.sessions(None):
        for event in reader.events(line.id):
            body, where = event.body, f"{line.id} {event.seq}"
            if isinstance(body, ApprovalGiven | ApprovalDecided) and body.proof is not None:
                signatures[body.proof.signature] += 1
                removed = holders.removed.get(body.proof.credential)
                if removed is not None and event.at.timestamp() > removed + LATE:
                    problems.append(f"{where}: {body.by} approved with a key that was removed")
            if isinstance(body, CallDecided) and body.outcome == "allow":
                tally["allowed"] += 1
                if len({*body.approved_by}) < 2:
                    problems.append(f"{where}: {body.call_id} was approved by {body.approved_by}")
    tally["proofs"] = len(signatures)
    problems += [f"a proof is recorded {n} times" for n in signatures.values() if n > 1]
    lost = holders.accepted - signatures.keys()
    problems += [f"{len(lost)} approvals were acknowledged and are lost"] if lost else []
    problems += KeyLog(team.location).read().faults
    problems += [f"{c.session}: {c.fault}" for c in verify_journal(team.location) if c.fault]
    if missing := check_file(team.location).missing:
        problems.append(f"{missing} events that were numbered are missing")
    return tally, problems + team.faults()


@pytest.mark.timeout(3600)
class TestKeysCountOnce:
    @pytest.mark.slow
    @pytest.mark.parametrize("way", [*WAYS, dead_amid_keys])
    async def test_answers_count_once_after_any_fault(
        self,
        team: Team,
        way: Callable[[Team, Random], None],
        record_property: Callable[[str, object], None],
    ) -> None:
        """However servers end, no answer of a key counts twice, or after its removal."""
        every = seeds(usual=1)
        holders = KeyHolders(team, f"{way.__name__} {every[-1]}")
        async with holders.at_work():
            for seed in every:
                await holders.go_on()
                random = Random(f"{way.__name__} {seed}")
                await asyncio.sleep(random.uniform(0.0, 1.0))
                await asyncio.to_thread(way, team, random)
            await holders.go_on()
        await asyncio.to_thread(team.close)
        tally, problems = judge(team, holders)
        told = {**tally, "done": dict(holders.done), "deaths": dict(team.deaths)}
        record_property("tally", told)
        print(way.__name__, len(every), told)
        assert not problems, "\n".join(problems)
        assert tally["allowed"] > 0
        assert tally["proofs"] > 0
