"""The benchmark of durable decisions writes the decisions that it counts, in each variant."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.reader import open_reader
from tests.bench import cluster


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use few callers with few decisions, and do not wait for other processes."""
    monkeypatch.setattr(cluster, "CALLERS", 3)
    monkeypatch.setattr(cluster, "ROUNDS", 2)
    monkeypatch.setattr(cluster, "_begin", time.perf_counter)


class TestWays:
    @pytest.mark.parametrize("way", cluster.WAYS)
    def test_postgresql_variants_write_every_decision(
        self, way: str, postgresql: PostgresLocation, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Each variant writes the decisions whose number it prints."""
        cluster._serve(way, str(postgresql), 0)
        assert capsys.readouterr().out.split()[0] == "6"
        assert [len(list(open_reader(postgresql).events(f"s0-{n}"))) for n in range(3)] == [3, 3, 3]

    def test_sqlite_variant_writes_every_decision(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The variant with SQLite writes the same number of decisions."""
        cluster._serve("sqlite", str(tmp_path / "file.db"), 0)
        assert capsys.readouterr().out.split()[0] == "6"
        assert [len(list(open_reader(tmp_path / "file.db").events(f"s0-{n}"))) for n in range(3)] == [
            3
        ] * 3
