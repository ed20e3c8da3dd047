"""The table of adapters: it is up to date and covers every adapter."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet

from .table import PAGE, ROOT, ROWS, text, written_versions


class TestTable:
    def test_is_current(self) -> None:
        """The page matches the rows, the extras and the programs of the pages."""
        assert PAGE.read_text("utf-8") == text(written_versions())

    def test_has_every_adapter(self) -> None:
        """Each framework's module has a row."""
        shared = {"__init__", "backends", "coverage", "gate"}
        modules = {path.stem for path in (ROOT / "adapters").glob("*.py")} - shared
        assert {row.page.replace("-", "_") for row in ROWS} == modules

    def test_tested_version_is_installable(self) -> None:
        """The extra allows the tested version."""
        versions = written_versions()
        for row in ROWS:
            assert versions[row.title] in SpecifierSet(row.requirement)

    def test_program_needs_two_lines(self) -> None:
        """The program needs two lines: one imports the gate, one uses it."""
        assert {row.title: row.lines for row in ROWS} == {row.title: 2 for row in ROWS}
