"""A host that dies while it creates its journal: the next one creates it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest

from tests.crash.disk import Death
from tests.crash.host import Host
from tests.crash.lives import seeds

LIFE = "tests.crash.creating:create"


@pytest.mark.parametrize("power_loss", [False, True], ids=["killed", "power loss"])
def test_creation_is_all_or_nothing(host: Host, tmp_path: Path, power_loss: bool) -> None:
    """Whenever the creation of a journal ends, the next start has a journal."""
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
