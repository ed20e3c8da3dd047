"""A host that dies while it creates its journal, which the next one creates; and lost renames."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest

from interlock.engine.history.journal.schema import inspect

from . import disk
from .disk import Death
from .host import Host
from .lives import seeds

LIFE = "tests.crash.creating:create"


@pytest.mark.parametrize("power_loss", [False, True], ids=["killed", "power loss"])
def test_creation_is_all_or_nothing(host: Host, tmp_path: Path, power_loss: bool) -> None:
    """Whenever the creation of a journal is interrupted, the next start has a journal."""
    (tmp_path / "whole").mkdir()
    whole = host.life(LIFE, folder=str(tmp_path / "whole"))
    operations = int(str(whole.value["operations"]))
    for seed in seeds():
        random = Random(f"{power_loss} {seed}")
        folder = tmp_path / str(seed)
        folder.mkdir()
        when = random.choice(("before", "amid", "after"))
        at = random.randrange(1, operations)
        death = Death(when, at, power_loss=power_loss, seed=seed)
        assert host.life(LIFE, folder=str(folder), death=asdict(death)).killed
        again = host.life(LIFE, folder=str(folder))
        assert again.error is None, f"seed {seed}, {death}: {again.error}"


def test_created_journal_survives_a_power_loss(host: Host, tmp_path: Path) -> None:
    """A journal that was opened exists after a power loss, under its name."""
    (tmp_path / "whole").mkdir()
    whole = host.life(LIFE, folder=str(tmp_path / "whole"))
    at = int(str(whole.value["operations"])) + 1
    for seed in range(1, 6):
        folder = tmp_path / str(seed)
        folder.mkdir()
        death = Death("before", at, power_loss=True, seed=seed)
        assert host.life(LIFE, folder=str(folder), death=asdict(death), used=True).killed
        assert inspect(folder / "journal.db")[0] == "current", f"seed {seed}"


class TestNames:
    def left(self, host: Host, folder: Path, seed: int, synced: bool) -> str:
        """Return the files that exist after a power loss."""
        folder.mkdir()
        (folder / "file-old").touch()
        death = asdict(Death("after", 1, disk.WRITES, power_loss=True, seed=seed))
        life = "tests.crash.creating:rename"
        assert host.life(life, folder=str(folder), death=death, synced=synced).killed
        return " ".join(sorted(path.name.removeprefix("file-") for path in folder.iterdir()))

    def test_unsynced_renames_are_lost_in_part(self, host: Host, tmp_path: Path) -> None:
        """Without a sync of the directory only the first few renames survive, or none."""
        found = {self.left(host, tmp_path / str(seed), seed, synced=False) for seed in range(24)}
        assert found == {"old", "made old", "moved old", "moved"}

    def test_synced_renames_are_durable(self, host: Host, tmp_path: Path) -> None:
        """After a sync, all of them survive."""
        found = {self.left(host, tmp_path / str(seed), seed, synced=True) for seed in range(8)}
        assert found == {"moved"}
