"""Lives that end in a given way, and the checks of the next life."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random, SystemRandom
from typing import Literal, TypeAlias

from ..support.laws import THOROUGH
from . import disk
from .disk import Death
from .host import End, Host

Way: TypeAlias = Literal["outside", "before", "amid", "after", "power loss"]
"""Killed by another process; before, amid or after an operation on the files; or by a power loss."""

Ending: TypeAlias = tuple[int | None, Death | None]
"""Number of events before a life is killed from outside, or the death that it dies itself."""

DIES_AGAIN = 0.35
"""Probability that the second host dies as well."""


class CrashError(AssertionError):
    """Problems found after a life, and how to reproduce them."""


@dataclass(slots=True)
class Tally:
    """Totals over the deaths of many runs: if nothing can be lost, nothing is proved."""

    deaths: int = 0
    left: Counter[str] = field(default_factory=Counter[str])

    def is_proof(self) -> bool:
        """Return whether enough lives died, with enough at stake; few runs have lower requirements."""
        runs = len(seeds())
        agents = "ran", "unanswered", "without_result", "deferred", "helpers"
        often = (*agents, "flows", "flows_waiting") if runs >= 10 else ()
        seldom = ("branches", "queued") if runs >= 50 else ()
        return self.deaths >= runs and all(self.left[what] > 0 for what in (*often, *seldom))


def seeds(usual: int = 2) -> list[int]:
    """Return CRASH_RUNS seeds, by default `usual` or ten in the thorough run; or those of CRASH_SEEDS.

    Half of the seeds are always the same, half are new.
    """
    if chosen := os.environ.get("CRASH_SEEDS"):
        return [int(seed) for seed in chosen.split()]
    runs = int(os.environ.get("CRASH_RUNS", 10 if THOROUGH else usual))
    fixed = (runs + 1) // 2
    return [*range(1, fixed + 1), *(SystemRandom().randrange(10**3, 10**9) for _ in range(runs - fixed))]


def die_and_go_on(
    host: Host, folder: Path, empty: Path, seed: int, way: Way, tally: Tally, plant: str = ""
) -> list[str]:
    """Run a life that dies in this way, and further lives until one survives; return the problems found.

    `empty` is a journal without sessions to start with. Raises `AssertionError` if a process does not end
    as it should.
    """
    random = Random(f"{way} {seed}")
    folder.mkdir(parents=True)
    shutil.copy(empty, folder / "journal.db")

    def life(what: str, number: int, end: Ending = (None, None)) -> End:
        kill_after, death = end
        return host.life(
            f"tests.crash.{what}",
            kill_after=kill_after,
            folder=str(folder),
            seed=seed + number,
            death=None if death is None else asdict(death),
            plant=plant,
        )

    first = life("busy:live", 0, _ending(random, way, 3000))
    assert first.killed, f"the first life did not die: {first}"
    tally.deaths += 1
    if random.random() < DIES_AGAIN:
        second = life("restart:restart", 1, _ending(random, way, 800))
        if not second.killed:
            return _judged(second, tally)
        tally.deaths += 1
    return _judged(life("restart:restart", 2), tally)


def _ending(random: Random, way: Way, operations: int) -> Ending:
    """Choose when to kill or die: within a number of operations, a tenth of which are syncs."""
    if way == "outside":
        return random.randrange(1, max(2, operations // 4)), None
    syncs = random.random() < 0.3 and way != "amid"
    at = random.randrange(1, max(2, operations // 15 if syncs else operations))
    kinds = disk.SYNCS if syncs else disk.WRITES if way == "amid" else 0
    if way == "power loss":
        when = random.choice(("before", "amid", "after"))
        return None, Death(when, at, kinds, power_loss=True, seed=random.randrange(2**31))
    return None, Death(way, at, kinds)


def _judged(end: End, tally: Tally) -> list[str]:
    """Return the problems found by a surviving life."""
    assert end.error is None, end.error
    assert end.signal is None, f"the life died of signal {end.signal}"
    problems = end.value.pop("problems")
    assert isinstance(problems, list)
    tally.left.update({key: int(str(count)) for key, count in end.value.items()})
    return [str(problem) for problem in problems]


def all_well(host: Host, folder: Path, empty: Path, way: Way) -> Tally:
    """Die in this way with every seed. Raises `CrashError` for the first seed with problems."""
    tally = Tally()
    for seed in seeds():
        here = folder / str(seed)
        try:
            problems = die_and_go_on(host, here, empty, seed, way, tally)
        except AssertionError as error:
            problems = [str(error)]
        if problems:
            listed = "\n  ".join(problems[:20])
            again = f"CRASH_SEEDS={seed} pytest tests/crash -k '{way.replace(' ', '_')}'"
            raise CrashError(f"'{way}' with seed {seed} left in {here}:\n  {listed}\nTry: {again}")
        shutil.rmtree(here)
    return tally
