"""A host that dies while it upgrades an older journal: the next one finishes, and nothing is lost."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest

from .disk import Death
from .host import Host
from .lives import DIES_AGAIN, seeds
from .upgrading import OLDER, Held, decisions, held, older, problems_of

ENOUGH = 30
"""Number of deaths after which a bug counts as undetectable."""

LIFE = "tests.crash.upgrading:upgrade"


class Upgrade:
    """A journal of an older revision: its content, and an uninterrupted upgrade of it."""

    def __init__(self, host: Host, folder: Path, emptied: bool) -> None:
        folder.mkdir()
        self.before = folder / "before"
        self.before.mkdir()
        older(self.before / "journal.db", emptied=emptied)
        whole = self.copied(folder / "whole")
        self.holds: Held = held(self.copied(folder / "read"))
        self.operations = int(str(host.life(LIFE, folder=str(whole.parent)).value["operations"]))
        self.problems = problems_of(whole, self.holds)
        self.decisions = decisions(whole)

    def copied(self, folder: Path) -> Path:
        """Return a copy of the journal in a separate folder."""
        shutil.copytree(self.before, folder)
        return folder / "journal.db"

    def die_and_go_on(
        self, host: Host, folder: Path, random: Random, *, power_loss: bool, plant: str = ""
    ) -> list[str]:
        """Die in one or two upgrades, then finish; return the problems."""
        database = self.copied(folder)
        for _ in range(2 if random.random() < DIES_AGAIN else 1):
            when, at = random.choice(("before", "amid", "after")), random.randrange(1, self.operations)
            death = Death(when, at, power_loss=power_loss, seed=random.randrange(2**31))
            died = host.life(LIFE, folder=str(folder), death=asdict(death), plant=plant)
            assert died.error is None, died.error
        if held(database) != self.holds:
            return ["not all of it can be read before it is upgraded"]
        again = host.life(LIFE, folder=str(folder), plant=plant)
        if again.error is not None:
            return [again.error]
        found = problems_of(database, self.holds)
        return found or (["its decisions are others"] if decisions(database) != self.decisions else [])


@pytest.fixture(scope="module")
def upgrades(host: Host, tmp_path_factory: pytest.TempPathFactory) -> list[Upgrade]:
    """Return upgrades from every older revision, with a checkpointed log and with one that is not."""
    folder = tmp_path_factory.mktemp("older")
    kinds = [(revision, emptied) for revision in OLDER for emptied in (True, False)]
    return [Upgrade(host, folder / f"{r}-{emptied}", emptied) for r, emptied in kinds]


class TestUpgrade:
    def test_uninterrupted(self, upgrades: list[Upgrade]) -> None:
        """Every older journal is upgraded completely, after a copy was made."""
        assert [upgrade.problems for upgrade in upgrades] == [[]] * 2 * len(OLDER)

    @pytest.mark.slow
    @pytest.mark.parametrize("power_loss", [False, True], ids=["killed", "power loss"])
    def test_is_all_or_nothing(
        self, host: Host, tmp_path: Path, upgrades: list[Upgrade], power_loss: bool
    ) -> None:
        """Whenever an upgrade is interrupted, the journal is readable, and the next start finishes it."""
        for seed in seeds():
            random = Random(f"upgrade {power_loss} {seed}")
            upgrade = random.choice(upgrades)
            here = tmp_path / str(seed)
            problems = upgrade.die_and_go_on(host, here, random, power_loss=power_loss)
            assert problems == [], f"seed {seed} left in {here}"
            shutil.rmtree(here)

    @pytest.mark.slow
    def test_planted_bug_is_found(self, host: Host, tmp_path: Path, upgrades: list[Upgrade]) -> None:
        """An upgrade in more than one transaction is detected within a few deaths."""
        for seed in range(1, ENOUGH + 1):
            here, random = tmp_path / str(seed), Random(seed)
            bug = "upgraded_in_pieces"
            if upgrades[0].die_and_go_on(host, here, random, power_loss=False, plant=bug):
                return
        raise AssertionError(f"not found in {ENOUGH} deaths")
