"""A hub that dies while external agents use it; they ask again under the same ids."""

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


@pytest.mark.slow
def test_same_id_same_answer(host: Host, empty: Path, tmp_path: Path) -> None:
    """G-63: whatever kills the hub, an id has one decision, one answer and one result.

    Every answer that was sent had been in the file before.
    """
    left: Counter[str] = Counter()
    tried = seeds(usual=4)  # each seed ends in another way, and most lives have to die
    for turn, seed in enumerate(tried):
        way = WAYS[turn % len(WAYS)]
        folder = tmp_path / str(seed)
        folder.mkdir()
        shutil.copy(empty, folder / "journal.db")
        kill_after, death = _ending(Random(f"{way} {seed}"), way, 1500)
        first = host.life(
            "tests.crash.elsewhere:live",
            kill_after=kill_after,
            folder=str(folder),
            seed=seed,
            death=None if death is None else asdict(death),
        )
        assert first.error is None, first.error
        left["killed"] += first.killed
        second = host.life("tests.crash.elsewhere:go_on", folder=str(folder), seed=seed + 1)
        assert second.error is None, f"'{way}' with seed {seed} in {folder}: {second.error}"
        problems = second.value.pop("problems")
        assert not problems, f"'{way}' with seed {seed} left in {folder}: {problems}"
        left.update({what: int(str(number)) for what, number in second.value.items()})
        shutil.rmtree(folder)
    runs = len(tried)
    at_stake = ("answers", "unsettled", "unheard") if runs >= 10 else ("answers",)
    assert left["killed"] > runs // 2, left
    assert all(left[what] > 0 for what in at_stake), left
