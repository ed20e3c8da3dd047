"""Locations of journals: files and databases, as they are parsed and shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.engine.history.database.location import PostgresLocation, absolute, location_of
from interlock.engine.history.errors import JournalError


class TestLocationOf:
    @pytest.mark.parametrize("text", ["j.db", "/data/j.db", "a:b", "C:/x.db", "postgresql:x"])
    def test_text_without_scheme_names_a_file(self, text: str) -> None:
        """A text without a scheme and `://` names a file."""
        assert location_of(text) == Path(text)

    @pytest.mark.parametrize("scheme", ["postgresql", "postgres", "PostgreSQL"])
    def test_both_libpq_schemes_name_a_database(self, scheme: str) -> None:
        """Both schemes that libpq knows name a database; `schema` is not passed on to libpq."""
        found = location_of(f"{scheme}://ada@db:5433/lock?sslmode=require&schema=team_a")
        assert found == PostgresLocation("postgresql://ada@db:5433/lock?sslmode=require", "team_a")

    def test_selects_the_writable_host(self) -> None:
        """With several hosts the writable one is selected, unless the URL chooses differently."""
        which = "target_session_attrs=read-write"
        found = location_of("postgresql://ada@one:1,two/lock")
        assert found == PostgresLocation(f"postgresql://ada@one:1,two/lock?{which}")
        found = location_of("postgresql:///lock?host=one,two&target_session_attrs=any")
        assert found == PostgresLocation("postgresql:///lock?host=one%2Ctwo&target_session_attrs=any")

    @pytest.mark.parametrize("text", ["mysql://ada@db/lock", "sqlite:///j.db", "file:///data/j.db"])
    def test_refuses_other_schemes(self, text: str) -> None:
        """A URL of another kind is refused with the accepted forms instead of naming a folder."""
        with pytest.raises(JournalError, match="Name a file, or a database: postgresql://user@host"):
            location_of(text)

    @pytest.mark.parametrize("text", ["postgresql:/ada@db/lock", "Postgres:/ada@db/lock"])
    def test_refuses_a_database_with_one_slash(self, text: str) -> None:
        """A database URL with only one slash is refused instead of naming a folder."""
        with pytest.raises(JournalError, match="its host cannot be read"):
            location_of(text)

    @pytest.mark.parametrize("password", ["x@y", "100%", "%zz", "@"])
    def test_refuses_password_that_libpq_parses_differently(self, password: str) -> None:
        """A password is refused if libpq would read part of it as the host or show it in an error."""
        with pytest.raises(JournalError, match="its user or password cannot be read"):
            location_of(f"postgresql://ada:{password}@db/lock")
        assert location_of("postgresql://ada%40b:x%25@db/lock") == PostgresLocation(
            "postgresql://ada%40b:x%25@db/lock"
        )

    @pytest.mark.parametrize("schema", ["", "A", "1a", 'a"b', "a-b", "x" * 64])
    def test_refuses_names_of_schemas_that_need_quotes(self, schema: str) -> None:
        """Only plain schema names are accepted, because they are written into statements."""
        with pytest.raises(JournalError, match="cannot be the schema of a journal"):
            location_of(f"postgresql://db/lock?schema={schema}")

    def test_refuses_a_url_of_no_database(self) -> None:
        """A scheme without a database is refused."""
        with pytest.raises(JournalError, match="does not name a database"):
            location_of("postgresql://")

    @pytest.mark.sqlite("names of files")
    def test_finds_a_file_from_any_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A relative file name becomes absolute; a URL stays unchanged."""
        monkeypatch.chdir(tmp_path)
        assert absolute("j.db") == tmp_path / "j.db"
        assert absolute("postgresql://db/lock") == PostgresLocation("postgresql://db/lock")


class TestShownLocation:
    @pytest.mark.parametrize(
        "text",
        [
            "postgresql://ada:hunter2@db/lock",
            "postgresql://ada:hunter2@db/lock?schema=team_a",
            "postgresql://ada@db/lock?password=hunter2&sslmode=require",
            "postgresql://ada@db/lock?sslpassword=hunter2",
            "mysql://ada:hunter2@db/lock",
            "postgresql://ada:hunter2@db:port/lock",
            "postgresql://ada:hunter2/lock@db/lock",
            "postgresql://ada:x/hunter2@db/lock",
            "postgresql://ada:x@hunter2@db/lock",
            "postgresql://ada:x%hunter2@db/lock",
            "postgresql://ada:1#hunter2@db/lock",
            "postgresql:/ada:hunter2@db/lock",
        ],
    )
    def test_has_no_password(self, text: str) -> None:
        """Neither the text of a location nor an error shows the password of its URL."""
        try:
            shown = str(location_of(text))
        except JournalError as error:
            shown = str(error)
        assert "ada" in shown
        assert "hunter2" not in shown

    def test_shown_text_parses_to_the_same_location(self) -> None:
        """A URL without a password names the same location when its shown text is parsed."""
        found = location_of("postgresql://ada@db/lock?sslmode=require&schema=team_a")
        assert location_of(str(found)) == found
