"""G-86, G-87: a value stands in a text as a whole, and what is not remembered is not denied."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.core import sources
from interlock.engine.core.sources import USER, SourceTexts

LETTER = "Please pay Bob A. Smith (GB29NW6016) $1,050.50 by 5pm, and write to 'mark@x.com'."
WORDS = st.lists(st.text("abé1-@", min_size=1, max_size=4), min_size=1, max_size=6)


def said(*texts: str, source: str = USER) -> SourceTexts:
    kept = SourceTexts([source])
    for text in texts:
        kept.add(source, text)
    return kept


class TestWholeValues:
    @pytest.mark.parametrize(
        "value",
        [
            "GB29NW6016",
            "mark@x.com",
            "Bob",
            "Bob A. Smith",
            "Bob  A.\nSmith",
            "pay Bob",
            1050.5,
            "$1,050.50",
        ],
    )
    def test_stand_in_a_text(self, value: str | float) -> None:
        assert said(LETTER).find(value, [USER]) is True

    @pytest.mark.parametrize(
        "value",
        ["x.com", "mark@x", "mark", "GB29", "ob A. Smit", "bob", 1050, 105, 5, "", ".", "mark@x.com and"],
    )
    def test_are_not_parts_of_words(self, value: str | float) -> None:
        """An address within another is not what was said; nor are letters of another size."""
        assert said(LETTER).find(value, [USER]) is False

    def test_are_composed_alike(self) -> None:
        assert said("Gro\u0308\u00dfe").find("Gr\u00f6\u00dfe", [USER]) is True

    @given(WORDS, WORDS, WORDS)
    def test_are_found_between_any_others(
        self, before: list[str], value: list[str], after: list[str]
    ) -> None:
        """Law: words in a row are found, whatever stands around them."""
        text = " ".join([*before, *value, *after])
        wanted = " ".join(value)
        expected = any(sign.isalnum() for sign in wanted)
        assert said(text).find(wanted, [USER]) is expected

    @given(st.text("ab @.,-", max_size=12), st.text("ab@-", min_size=1, max_size=3))
    def test_of_one_word_are_words(self, text: str, value: str) -> None:
        """Law: what is found is bounded by blanks, commas, or the marks of a sentence."""
        if said(text).find(value, [USER]):
            assert value in {part.strip(".,") for part in text.split(" ")} | {
                part.strip(".") for part in text.replace(",", " ").split(" ")
            }


class TestJson:
    def test_texts_names_and_numbers_count(self) -> None:
        output = json.dumps({"ada@x.org": [{"iban": "DE 12\n34", "sum": 5.0}], "ok": True})
        kept = said(output, source="contacts")
        found = [kept.find(v, ["contacts"]) for v in ("ada@x.org", "DE 12 34", 5, "5.0", "iban", 7)]
        assert found == [True, True, True, True, True, False]

    @pytest.mark.parametrize("text", ["[1, ", "{ada@x.org}", "[" * 100_000])
    def test_that_is_broken_is_a_text(self, text: str) -> None:
        kept = said(text)
        assert kept.find("ada@x.org", [USER]) is ("ada" in text)

    @given(st.decimals(allow_nan=False, allow_infinity=False, places=2, max_value=10**6, min_value=0))
    def test_numbers_are_equal_by_size(self, number: Decimal) -> None:
        kept = said(json.dumps([float(number)]), f"{number:,}")
        assert kept.find(float(number), [USER]) is True


class TestMemory:
    def test_of_an_unknown_source_is_none(self) -> None:
        assert said(LETTER).find("x", ["get_contacts"]) is None
        assert said(LETTER).find("Bob", ["get_contacts", USER]) is True

    def test_of_a_late_source_begins_in_doubt(self) -> None:
        """What it said before is not known."""
        kept = SourceTexts()
        kept.listen([USER])
        kept.add(USER, "Bob")
        assert (kept.find("Bob", [USER]), kept.find("Eve", [USER])) == (True, None)

    @pytest.mark.parametrize("bound", ["MOST_WORDS", "MOST_CHARACTERS"])
    def test_is_bounded(self, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Past the bound a value is found or unknown, never known to be missing."""
        monkeypatch.setattr(sources, bound, 10)
        kept = said(*(f"w{number}" for number in range(30)))
        assert kept.find("w1", [USER]) is True
        assert kept.find("w29", [USER]) is None
        kept.clear()
        assert kept.find("w29", [USER]) is False

    def test_keeps_nothing_of_others(self) -> None:
        kept = said("Bob")
        kept.add("web", "Eve")
        assert kept.sources == {USER}
        assert kept.find("Eve", [USER]) is False
