"""`interlock servers`: the servers that share a journal in PostgreSQL."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from interlock.app.cli.main import main
from interlock.app.cli.server import servers as listing
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import SessionOpened
from tests.support.postgres import named


class TestList:
    def test_living_and_ended_servers_are_shown(
        self, postgresql: PostgresLocation, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The list shows a living server with its sessions and URL, and an ended one."""
        with Journal.open(postgresql):
            pass
        with Journal.open(postgresql) as journal:
            journal.name_server("ws://10.0.0.2:8737")
            journal.write("s1", SessionOpened(agent="robin", model="m", mode="enforce"))
            assert main(["servers", "--db", named(postgresql)]) == 0
        heading, *lines = capsys.readouterr().out.splitlines()
        assert heading.split()[:3] == ["SERVER", "STATE", "SESSIONS"]
        [alive] = [each for each in lines if "alive" in each]
        assert "ws://10.0.0.2:8737" in alive
        assert " 1 " in alive
        assert sum("ended" in each for each in lines) == 1

    def test_has_the_living_first(
        self,
        postgresql: PostgresLocation,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A server that was started again and again does not push those that run off the screen."""
        monkeypatch.setattr(listing, "MOST_ENDED", 1)
        for port in (1, 2):
            with Journal.open(postgresql) as journal:
                journal.name_server(f"ws://10.0.0.2:{port}")
        with Journal.open(postgresql):
            assert main(["servers", "--db", named(postgresql)]) == 0
        _, first, second, rest = capsys.readouterr().out.splitlines()
        assert "alive" in first
        assert "ended" in second
        assert second.endswith("ws://10.0.0.2:2")
        assert rest == "1 more ended within a day: --json lists them"

    def test_json_has_ended_field(
        self, postgresql: PostgresLocation, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The JSON has the field `ended`; without a living server the exit code is 1."""
        with Journal.open(postgresql):
            pass
        assert main(["servers", "--json", "--db", named(postgresql)]) == 1
        [found] = json.loads(capsys.readouterr().out)
        assert found["ended"] is not None

    def test_missing_schema_has_no_servers(
        self, postgresql: PostgresLocation, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A missing schema has no servers; a schema with other tables is an error."""
        assert main(["servers", "--db", named(postgresql)]) == 1
        assert "Start one with: interlock serve" in capsys.readouterr().out
        with psycopg.connect(postgresql.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {postgresql.schema} CREATE TABLE orders (id int)".encode())
        assert main(["servers", "--db", named(postgresql)]) != 0
        assert "holds other tables (orders)" in capsys.readouterr().err

    def test_journal_file_is_refused(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """For a journal in a file, the command fails and names PostgreSQL as the remedy."""
        assert main(["servers", "--db", str(tmp_path / "x.db")]) == 2
        assert "postgresql://" in capsys.readouterr().err
