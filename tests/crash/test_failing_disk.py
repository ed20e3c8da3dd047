"""Disk full or read-only: nothing runs unrecorded, people learn why, and the hub recovers by itself."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from .busy import database_in
from .check import found_in
from .disk import DELETIONS, OPENS, SYNCS, WRITES
from .host import Host
from .marks import ran_in

DISKS = {
    "full": (errno.ENOSPC, WRITES),
    "full when synced": (errno.ENOSPC, SYNCS),
    "read-only": (errno.EROFS, WRITES | SYNCS | OPENS | DELETIONS),
}


@pytest.mark.parametrize("moment", ["proposal", "decision"])
@pytest.mark.parametrize("disk", DISKS)
class TestRefusedWrites:
    @pytest.mark.variants
    def test_fails_closed_and_recovers(self, host: Host, tmp_path: Path, disk: str, moment: str) -> None:
        """Nothing runs, every refusal names the journal and a remedy, and the same hub works again."""
        error, kinds = DISKS[disk]
        life = "tests.crash.failing:refused"
        end = host.life(life, folder=str(tmp_path), error=error, kinds=kinds, moment=moment)
        assert end.error is None, end.error
        said = end.value
        for refusal in ("run", "shown", "again", "opened"):
            text = str(said[refusal])
            assert "journal.db' could not be written" in text, (refusal, text)
            assert "check the free space and the permissions" in text, (refusal, text)
        assert said["recovered"] == ""
        assert said["status"] == "idle"
        assert [mark.tool for mark in ran_in(tmp_path)] == ["look", "look"]
        assert found_in(tmp_path, database_in(tmp_path)).problems == []


class TestRefusedSwitches:
    @pytest.mark.parametrize("disk", DISKS)
    def test_refused_switch_has_no_effect(self, host: Host, tmp_path: Path, disk: str) -> None:
        """If an operator is told after a refusal that rules are enforced, they are enforced."""
        error, kinds = DISKS[disk]
        life = "tests.crash.failing:switched"
        end = host.life(life, folder=str(tmp_path), error=error, kinds=kinds)
        assert end.error is None, end.error
        said = end.value
        assert str(said["told"]).count("the journal refused it") == 2
        assert (said["second"], said["failed"], said["mode"]) == (True, "", "enforce")
        assert "block-remove" in str(said["active"])
        assert ran_in(tmp_path) == []


@pytest.mark.parametrize("disk", DISKS)
class TestConsole:
    """The screens show the reason, and the same console continues when the disk works again."""

    def live(self, host: Host, tmp_path: Path, name: str, disk: str) -> dict[str, object]:
        error, kinds = DISKS[disk]
        life = f"tests.crash.failing_console:{name}"
        end = host.life(life, folder=str(tmp_path), error=error, kinds=kinds)
        assert end.error is None, end.error
        return end.value

    @pytest.mark.slow
    def test_refused_approval(self, host: Host, tmp_path: Path, disk: str) -> None:
        """The dialog stays open and says why nothing was decided; the same key decides it later."""
        said = self.live(host, tmp_path, "refused_approval", disk)
        assert "Not decided, the journal refused it" in str(said["refused"])
        assert "check the free space and the permissions" in str(said["refused"])
        assert said["ran"] == ["test"]
        assert "approved by maria" in str(said["approved"])
        assert said["ran_then"] == ["test", "deploy prod"]

    @pytest.mark.variants
    def test_refused_run(self, host: Host, tmp_path: Path, disk: str) -> None:
        """A session that could not be recorded is shown as failed, with the reason, until it resumes."""
        said = self.live(host, tmp_path, "refused_run", disk)
        assert "could not be written" in str(said["refused"])
        assert "check the free space and the permissions" in str(said["refused"])
        assert "idle" in str(said["recovered"])
        assert said["ran"] == ["test"]
