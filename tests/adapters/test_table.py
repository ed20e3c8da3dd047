"""The table of adapters: current, and about every adapter."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet

from .table import PAGE, ROOT, ROWS, text, written_versions


class TestTable:
    def test_is_current(self) -> None:
        """The page is what the rows, the extras and the programs of the pages say."""
        assert PAGE.read_text("utf-8") == text(written_versions())

    def test_has_every_adapter(self) -> None:
        """Each module of a framework has a row."""
        shared = {"__init__", "backends", "coverage", "gate"}
        modules = {path.stem for path in (ROOT / "adapters").glob("*.py")} - shared
        assert {row.page.replace("-", "_") for row in ROWS} == modules

    def test_versions_are_ones_that_install(self) -> None:
        """The version that was tested is one that the extra installs."""
        versions = written_versions()
        for row in ROWS:
            assert versions[row.title] in SpecifierSet(row.requirement)

    def test_takes_two_lines(self) -> None:
        """One line imports the gate, one names it."""
        assert {row.title: row.lines for row in ROWS} == {row.title: 2 for row in ROWS}
