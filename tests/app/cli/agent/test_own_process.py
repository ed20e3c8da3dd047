"""The garbage collector of a process that is the command's own, and of one that only calls it."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from interlock.app.cli.main import main

OWN = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_threshold()[0], gc.get_freeze_count() > 1000, flush=True))
sys.argv = ["interlock", "--version"]
from interlock.app.cli.main import main
main()
"""


class TestCollections:
    def test_are_rare_and_not_of_everything_at_the_end(self) -> None:
        """Imports and the end of a command's own process go without looking for garbage."""
        ended = subprocess.run([sys.executable, "-c", OWN], capture_output=True, text=True, check=True)
        assert ended.stdout.splitlines()[1:] == ["50000 True"]

    @pytest.mark.slow
    def test_of_somebody_elses_process_stay_as_they_are(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Whoever calls the command in a process of theirs finds its collector as it was."""
        before, frozen = gc.get_threshold(), gc.get_freeze_count()
        assert main(["--version"]) == 0
        assert capsys.readouterr().out.startswith("interlock ")
        assert gc.get_threshold() == before
        # Of what was frozen before, some may be gone by now.
        assert gc.get_freeze_count() <= frozen
