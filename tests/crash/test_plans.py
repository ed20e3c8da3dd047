"""A hub that dies while plans are active: each plan then has its recorded uses left, never more."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest

from .host import Host
from .lives import Way, _ending, seeds

WAYS: tuple[Way, ...] = ("outside", "before", "amid", "after", "power loss")


def die_and_go_on(
    host: Host, folder: Path, empty: Path, seed: int, way: Way, left: Counter[str], plant: str = ""
) -> object:
    """Run a life that dies in this way, and the next one; return the problems found."""
    folder.mkdir()
    shutil.copy(empty, folder / "journal.db")
    kill_after, death = _ending(Random(f"{way} {seed}"), way, 600)
    first = host.life(
        "tests.crash.planning:live",
        kill_after=kill_after,
        folder=str(folder),
        seed=seed,
        death=None if death is None else asdict(death),
    )
    assert first.error is None, first.error
    left["killed"] += first.killed
    second = host.life("tests.crash.planning:go_on", folder=str(folder), seed=seed + 1, plant=plant)
    assert second.error is None, f"'{way}' with seed {seed} in {folder}: {second.error}"
    problems = second.value.pop("problems")
    left.update({what: int(str(number)) for what, number in second.value.items()})
    return problems


def test_plan_keeps_its_remaining_uses(host: Host, empty: Path, tmp_path: Path) -> None:
    """G-110: whatever kills the hub, a plan permits its recorded remaining uses, and no more."""
    left: Counter[str] = Counter()
    tried = seeds(usual=2)
    for turn, seed in enumerate(tried):
        way = WAYS[turn % len(WAYS)]
        folder = tmp_path / str(seed)
        problems = die_and_go_on(host, folder, empty, seed, way, left)
        assert not problems, f"'{way}' with seed {seed} left in {folder}: {problems}"
        shutil.rmtree(folder)
    assert left["killed"] > len(tried) // 2, left
    assert left["plans"] > 0, left
    assert left["remaining"] > 0, left


@pytest.mark.thorough
def test_planted_bug_is_found(host: Host, empty: Path, tmp_path: Path) -> None:
    """Plans that restart with all uses are detected by their number of uses."""
    for seed in range(1, 11):
        folder = tmp_path / str(seed)
        found = die_and_go_on(host, folder, empty, seed, "outside", Counter(), "plans_begin_again")
        if "left, the gate" in str(found):
            return
    raise AssertionError("plans that begin again were not found")
