"""`--db` with a database, and with an unsupported URL."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from interlock.app.cli.main import main
from interlock.engine.history.database.location import PostgresLocation
from tests.support.decisions import usual
from tests.support.postgres import named

RULES = "require test before deploy\n"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class TestDatabase:
    @pytest.mark.slow
    def test_each_command_accepts_a_database(
        self, postgresql: PostgresLocation, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """All commands accept a database in place of a file."""
        usual(postgresql)
        Path("new.rules").write_text(RULES)
        place = ["--db", str(postgresql)]
        for line, said in (
            (["history"], "docs-writer-77c0"),
            (["history", "verify"], "4 sessions"),
            (["history", "export", "docs-writer-77c0"], '"format":"interlock-session"'),
            (["history", "approvals"], "deploy"),
            (["history", "rebuild"], "all were correct"),
            (["flow", "list"], "No runs of flows"),
            (["backtest", "new.rules"], "deploy"),
            (["suggest", "new.rules"], ""),
        ):
            assert main([*line, *place]) in (0, 1), line
            out, err = capsys.readouterr()
            assert err == "", line
            assert said in out, (line, out)

    def test_empty_schema_counts_as_missing_journal(
        self, postgresql: PostgresLocation, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A schema without tables counts as a missing journal, and reading creates none."""
        assert main(["history", "--db", str(postgresql)]) == 0
        assert "No sessions are recorded yet in postgresql://" in capsys.readouterr().out
        assert main(["history", "verify", "--db", str(postgresql)]) == 2
        assert "There is no journal at 'postgresql://" in capsys.readouterr().err

    def test_connection_error_omits_the_password(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The error has PostgreSQL's message and what to check, but no password."""
        url = f"postgresql://ada:hunter2@/lock?host={tmp_path}"
        assert main(["history", "--db", url]) == 2
        said = capsys.readouterr().err
        assert "PostgreSQL says" in said
        assert "Check that the database runs" in said
        assert "hunter2" not in said

    @pytest.mark.parametrize(
        ("change", "remedy"),
        [
            ("/nobodys", "Correct its name in the URL"),
            ("/postgres?sslmod=require", "Correct the URL"),
            ("/postgres?sslmode=requir", "Correct the URL"),
        ],
    )
    def test_with_a_typing_error(
        self, postgresql: PostgresLocation, capsys: pytest.CaptureFixture[str], change: str, remedy: str
    ) -> None:
        """The advice is about the URL, since the database runs and is reached."""
        parts = "&" if "?" in change else "?"
        url = postgresql.url.replace("/postgres", change).replace("?host", f"{parts}host")
        assert main(["history", "--db", url]) == 2
        said = capsys.readouterr().err
        assert remedy in said
        assert "Check that the database runs" not in said

    def test_whose_role_may_not_make_its_tables(
        self, postgresql: PostgresLocation, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The first server has to be one of the role that is to own the tables."""
        role = f"{postgresql.schema}_server"
        with psycopg.connect(postgresql.url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {role} LOGIN".encode())
            try:
                url = named(postgresql).replace("//interlock@", f"//{role}@")
                assert main(["serve", "--listen", "127.0.0.1:0", "--db", url]) == 2
                said = capsys.readouterr().err
                assert "start one server as the role that is to own them" in said
                assert main(["journal", "upgrade", "--db", url]) == 2
                assert "make its tables" in capsys.readouterr().err
            finally:
                connection.execute(f"DROP ROLE {role}".encode())


class TestOtherUrl:
    def test_unsupported_url_is_refused(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """An unsupported database URL is refused and creates no folder; the error has valid forms."""
        with pytest.raises(SystemExit) as ended:
            main(["history", "--db", "mysql://ada:hunter2@db/lock"])
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert (
            "'mysql' is not supported. Name a file, or a database: postgresql://user@host/database"
            in said
        )
        assert "hunter2" not in said
        assert list(tmp_path.iterdir()) == []

    def test_error_names_the_variable(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The error names the variable that set the journal."""
        monkeypatch.setenv("INTERLOCK_DB", "mysql://ada@db/lock")
        assert main(["history"]) == 2
        said = capsys.readouterr().err
        assert "INTERLOCK_DB" in said
        assert "'mysql' is not supported" in said
