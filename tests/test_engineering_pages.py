"""Pages for engineers: the files that they name exist, and all packages are listed."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "docs" / "glossary.md",
    *sorted((ROOT / "docs" / "adr").glob("*.md")),
)
NAMED = re.compile(r"(?<![\w/.-])(?:app|engine|rules|tests|docs|screenshots)/[\w/.-]*[\w/]")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")


def name(page: Path) -> str:
    """Return a page's name for test ids."""
    return page.name


class TestPages:
    @pytest.mark.parametrize("page", PAGES, ids=name)
    def test_files_and_folders_that_a_page_names_exist(self, page: Path) -> None:
        """After a file has moved, this test finds the pages that name it."""
        named = set(NAMED.findall(page.read_text(encoding="utf-8")))
        assert {path for path in named if not (ROOT / path).exists()} == set()

    @pytest.mark.parametrize("page", PAGES, ids=name)
    def test_links_lead_to_files(self, page: Path) -> None:
        """Links between the pages lead to existing files."""
        links = set(LINK.findall(page.read_text(encoding="utf-8")))
        assert {link for link in links if not (page.parent / link).exists()} == set()

    def test_architecture_lists_every_package_of_the_layers(self) -> None:
        """Each package of the layers in `pyproject.toml` has a row in the tables."""
        settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        contracts = settings["tool"]["importlinter"]["contracts"]
        layers = [
            [room.strip().removeprefix("interlock.").replace(".", "/") for room in floor.split("|")]
            for contract in contracts
            if contract["type"] == "layers"
            for floor in contract["layers"]
        ]
        lines = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
        rows = [re.findall(r"`([^`]+)`", line.split("|")[1]) for line in lines if line.startswith("|")]
        for floor in layers:
            rooms = [room for room in floor if "/" in room]
            assert [room for room in rooms if not any(room in row for row in rows)] == []
