"""The garbage collector in the command's own process, and in a process that only calls the command."""

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
    def test_are_rare_and_objects_are_frozen_at_the_end(self) -> None:
        """In its own process the command collects rarely, and freezes its objects before the end."""
        ended = subprocess.run([sys.executable, "-c", OWN], capture_output=True, text=True, check=True)
        assert ended.stdout.splitlines()[1:] == ["50000 True"]

    @pytest.mark.slow
    def test_stay_unchanged_in_a_callers_process(self, capsys: pytest.CaptureFixture[str]) -> None:
        """In a caller's process the command leaves the collector unchanged."""
        before, frozen = gc.get_threshold(), gc.get_freeze_count()
        assert main(["--version"]) == 0
        assert capsys.readouterr().out.startswith("interlock ")
        assert gc.get_threshold() == before
        # Some of the objects frozen before may have been freed.
        assert gc.get_freeze_count() <= frozen
