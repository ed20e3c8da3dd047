"""`interlock journal upgrade`: an older journal gets this version's tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.app.cli.main import main
from interlock.engine.history.database.location import Location
from tests.support import postgres
from tests.support.migrations import EXPANDING, NEXT, NOW, journal_at, schema_with, version_of

pytestmark = pytest.mark.sqlite("both databases are named here")


@pytest.fixture(params=["file", "database"])
def older(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Location]:
    """A journal of this version, which a later version upgrades."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path / "config"))
    if request.param == "file":
        location: Location = tmp_path / "journal.db"
    else:
        location = postgres.fresh_location()
    journal_at(location, schema_with(tmp_path / "made"), NOW)
    monkeypatch.setenv("INTERLOCK_DB", postgres.named(location))
    yield location
    if not isinstance(location, Path):
        postgres.drop(location)


class TestUpgrade:
    def test_output_names_schemas_and_servers(
        self, older: Location, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The output names both schemas and which servers may continue; a second run does nothing."""
        with version_of(schema_with(tmp_path, EXPANDING)):
            assert main(["history"]) == 2
            assert "interlock journal upgrade" in capsys.readouterr().err
            assert main(["journal", "upgrade"]) == 0
            assert capsys.readouterr().out.splitlines() == [
                f"Upgraded the journal from schema {NOW} to {NEXT}.",
                f"Servers of schema {NOW} may keep using it.",
            ]
            assert main(["journal", "upgrade"]) == 0
            assert f"schema {NEXT}; nothing was changed" in capsys.readouterr().out

    def test_missing_journal_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A missing journal is an error, and none is created."""
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        monkeypatch.setenv("INTERLOCK_DB", str(tmp_path / "none.db"))
        assert main(["journal", "upgrade"]) == 2
        assert "There is no journal" in capsys.readouterr().err
        assert not (tmp_path / "none.db").exists()
