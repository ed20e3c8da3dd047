"""G-86, G-87: a value matches a text as a whole, and forgotten text gives unknown, not false."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.core import sources
from interlock.engine.core.sources import USER, SourceTexts, member_source, source_parts

LETTER = "Please pay Bob A. Smith (GB29NW6016) $1,050.50 by 5pm, and write to 'mark@x.com'."
WORDS = st.lists(st.text("abé1-@", min_size=1, max_size=4), min_size=1, max_size=6)


def texts_of(*texts: str, source: str = USER) -> SourceTexts:
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
    def test_found_in_a_text(self, value: str | float) -> None:
        assert texts_of(LETTER).find(value, [USER]) is True

    @pytest.mark.parametrize(
        "value",
        ["x.com", "mark@x", "mark", "GB29", "ob A. Smit", "bob", 1050, 105, 5, "", ".", "mark@x.com and"],
    )
    def test_parts_of_words_do_not_match(self, value: str | float) -> None:
        """A part of an address does not match, and neither does text in another case."""
        assert texts_of(LETTER).find(value, [USER]) is False

    def test_unicode_composition_does_not_matter(self) -> None:
        assert texts_of("Gro\u0308\u00dfe").find("Gr\u00f6\u00dfe", [USER]) is True

    @given(WORDS, WORDS, WORDS)
    def test_found_in_any_surroundings(
        self, before: list[str], value: list[str], after: list[str]
    ) -> None:
        """Law: a sequence of words is found in any surroundings."""
        text = " ".join([*before, *value, *after])
        wanted = " ".join(value)
        expected = any(sign.isalnum() for sign in wanted)
        assert texts_of(text).find(wanted, [USER]) is expected

    @pytest.mark.slow
    @given(st.text("ab @.,-", max_size=12), st.text("ab@-", min_size=1, max_size=3))
    def test_match_of_one_word_is_a_whole_word(self, text: str, value: str) -> None:
        """Law: a match is bounded by blanks, commas or sentence punctuation."""
        if texts_of(text).find(value, [USER]):
            assert value in {part.strip(".,") for part in text.split(" ")} | {
                part.strip(".") for part in text.replace(",", " ").split(" ")
            }


class TestJson:
    def test_texts_names_and_numbers_count(self) -> None:
        output = json.dumps({"ada@x.org": [{"iban": "DE 12\n34", "sum": 5.0}], "ok": True})
        kept = texts_of(output, source="contacts")
        found = [kept.find(v, ["contacts"]) for v in ("ada@x.org", "DE 12 34", 5, "5.0", "iban", 7)]
        assert found == [True, True, True, True, True, False]

    @pytest.mark.parametrize("text", ["[1, ", "{ada@x.org}", "[" * 100_000])
    def test_broken_json_is_read_as_text(self, text: str) -> None:
        kept = texts_of(text)
        assert kept.find("ada@x.org", [USER]) is ("ada" in text)

    @given(st.decimals(allow_nan=False, allow_infinity=False, places=2, max_value=10**6, min_value=0))
    def test_numbers_compare_by_value(self, number: Decimal) -> None:
        kept = texts_of(json.dumps([float(number)]), f"{number:,}")
        assert kept.find(float(number), [USER]) is True


class TestMemory:
    def test_unknown_source_gives_none(self) -> None:
        assert texts_of(LETTER).find("x", ["get_contacts"]) is None
        assert texts_of(LETTER).find("Bob", ["get_contacts", USER]) is True

    def test_earlier_texts_of_a_new_source_are_unknown(self) -> None:
        """Earlier texts of the source are unknown."""
        kept = SourceTexts()
        kept.listen([USER])
        kept.add(USER, "Bob")
        assert (kept.find("Bob", [USER]), kept.find("Eve", [USER])) == (True, None)

    @pytest.mark.parametrize("bound", ["MOST_WORDS", "MOST_CHARACTERS"])
    def test_value_beyond_the_bound_is_unknown(self, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Beyond the bound a value is found or unknown, but never false."""
        monkeypatch.setattr(sources, bound, 10)
        kept = texts_of(*(f"w{number}" for number in range(30)))
        assert kept.find("w1", [USER]) is True
        assert kept.find("w29", [USER]) is None
        kept.clear()
        assert kept.find("w29", [USER]) is False

    def test_other_sources_are_not_kept(self) -> None:
        kept = texts_of("Bob")
        kept.add("web", "Eve")
        assert kept.sources == {USER}
        assert kept.find("Eve", [USER]) is False


class TestMembers:
    """G-112: `email of get_contacts` means the values of one member in JSON results."""

    EMAIL = member_source(("email",), "get_contacts")
    RESULT = '[{"name": "Ada", "email": "ada@x.org", "notes": "eve@x.org"}, {"name": "Bob"}]'

    def find_in_results(self, value: str | float, *results: str, source: str = EMAIL) -> bool | None:
        kept = SourceTexts([source])
        for result in results:
            kept.add("get_contacts", result)
        return kept.find(value, [source])

    def test_other_members_do_not_count(self) -> None:
        assert self.find_in_results("ada@x.org", self.RESULT) is True
        assert self.find_in_results("eve@x.org", self.RESULT) is False
        assert self.find_in_results("Ada", self.RESULT) is False

    def test_results_of_another_tool_do_not_count(self) -> None:
        kept = SourceTexts([self.EMAIL])
        kept.add("read_mail", self.RESULT)
        kept.add("user", "ada@x.org")
        assert kept.find("ada@x.org", [self.EMAIL]) is False

    def test_member_matches_as_a_whole(self) -> None:
        """A member whose value is a sentence does not match single words of it."""
        result = '{"email": "send it to eve@x.org  now"}'
        assert self.find_in_results("eve@x.org", result) is False
        assert self.find_in_results("send it to eve@x.org now", result) is True

    @pytest.mark.parametrize(
        ("path", "result", "value"),
        [
            (("owner", "name"), '{"owner": {"name": "ada"}, "name": "eve"}', "ada"),
            (("owner", "name"), '[[{"owner": [{"name": "eve"}, {"name": "ada"}]}]]', "ada"),
            (("to",), '{"to": ["ada", "bob"]}', "ada"),
            (("n",), '{"n": 50.0}', 50),
            (("e mail",), '{"e mail": "ada"}', "ada"),
            (("*",), '["general", ["ada"], {"name": "eve"}]', "ada"),
        ],
    )
    def test_members_along_a_path_match(
        self, path: tuple[str, ...], result: str, value: str | float
    ) -> None:
        assert self.find_in_results(value, result, source=member_source(path, "get_contacts")) is True

    def test_items_path_excludes_members_and_words(self) -> None:
        """Items of a list do not count as members, and neither do words in them."""
        items = member_source(("*",), "get_contacts")
        assert self.find_in_results("eve", '["ask eve first", {"name": "eve"}]', source=items) is False
        assert self.find_in_results("eve", '{"*": "eve"}', source=items) is True

    @pytest.mark.parametrize(
        "result",
        [
            '{"user": {"email": "eve@x.org"}}',
            '{"Email": "eve@x.org"}',
            '{"email": {"email2": "eve@x.org"}}',
            '"email: eve@x.org"',
            '{"body": "{\\"email\\": \\"eve@x.org\\"}"}',
        ],
    )
    def test_member_elsewhere_does_not_count(self, result: str) -> None:
        assert self.find_in_results("eve@x.org", result) is False

    @pytest.mark.parametrize(
        "result", ["email: eve@x.org", "{", '{"email": "ada", "email": "eve@x.org"}', "[" * 100_000]
    )
    def test_non_json_result_leaves_value_unknown(self, result: str) -> None:
        """A result that is not JSON makes an absent value unknown, so a rule applies.

        Values found in other results stay known.
        """
        assert self.find_in_results("eve@x.org", result) is None
        assert self.find_in_results("ada@x.org", self.RESULT, result) is True

    def test_member_and_whole_tool_as_sources(self) -> None:
        kept = SourceTexts([self.EMAIL, "get_contacts"])
        kept.add("get_contacts", self.RESULT)
        assert kept.find("eve@x.org", ["get_contacts"]) is True
        assert kept.find("eve@x.org", [self.EMAIL]) is False

    def test_member_added_later_is_unknown(self) -> None:
        kept = SourceTexts(["get_contacts"])
        kept.add("get_contacts", self.RESULT)
        kept.listen([self.EMAIL])
        assert kept.find("ada@x.org", [self.EMAIL]) is None
        assert kept.find("ada@x.org", ["get_contacts"]) is True
        kept.clear()
        kept.add("get_contacts", self.RESULT)
        assert kept.find("ada@x.org", [self.EMAIL]) is True

    def test_source_name_splits_into_path_and_tool(self) -> None:
        assert source_parts(member_source(("a b", "c"), "t")) == (("a b", "c"), "t")
        assert source_parts("get_contacts") == ((), "get_contacts")
