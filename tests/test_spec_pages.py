"""The numbered statements in `docs/spec`: each citation in the code has an anchor."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"G": "gate.md", "A": "agents.md", "P": "flows.md"}
CITATION = re.compile(r"(?<![\w-])([GAP])-([0-9]+[a-d]?)\b")
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
ROOMS = ("adapters", "app", "engine", "rules", "tests")
CURVE = "P-256"
"""The name of an elliptic curve, which is not a statement."""


def anchors(page: str) -> list[str]:
    """Return the anchors of a page, in their order."""
    return ANCHOR.findall((ROOT / "docs" / "spec" / page).read_text(encoding="utf-8"))


def cited(text: str) -> set[str]:
    """Return the statements that a text cites."""
    return {match[0] for match in CITATION.finditer(text)} - {CURVE}


class TestAnchors:
    @pytest.mark.slow
    def test_each_number_that_the_code_cites_is_on_its_page(self) -> None:
        """A citation such as `G-15` in the code has the anchor `docs/spec/gate.md#G-15`."""
        known = {anchor for page in PAGES.values() for anchor in anchors(page)}
        missing = {
            f"{path.relative_to(ROOT)}: {number}"
            for room in ROOMS
            for path in (ROOT / room).rglob("*.py")
            for number in cited(path.read_text(encoding="utf-8")) - known
        }
        assert not missing

    @pytest.mark.parametrize(("letter", "page"), PAGES.items())
    def test_each_anchor_occurs_once_on_its_page(self, letter: str, page: str) -> None:
        """Each anchor occurs once, on the page of its letter."""
        found = anchors(page)
        assert found
        assert len(found) == len(set(found))
        assert all(anchor.startswith(f"{letter}-") for anchor in found)

    @pytest.mark.parametrize("page", PAGES.values())
    def test_anchor_equals_its_number(self, page: str) -> None:
        """Each anchor equals the number that follows it."""
        text = (ROOT / "docs" / "spec" / page).read_text(encoding="utf-8")
        labelled = re.findall(r'<a id="([^"]+)"></a>(?:\*\*)?([GAP]-[0-9]+[a-d]?)', text)
        assert labelled
        assert [anchor for anchor, number in labelled if anchor != number] == []

    @pytest.mark.parametrize("page", PAGES.values())
    def test_statements_refer_to_numbers_that_exist(self, page: str) -> None:
        """A link to another statement of the same page leads to its anchor."""
        text = (ROOT / "docs" / "spec" / page).read_text(encoding="utf-8")
        assert set(re.findall(r"\]\(#([GAP]-[^)]+)\)", text)) <= set(anchors(page))
