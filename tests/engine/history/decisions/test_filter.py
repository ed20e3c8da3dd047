"""The filter line that an operator types to select decisions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.history.decisions.filter import (
    EVERYTHING,
    LONGEST,
    DecisionFilter,
    FilterError,
    parse_filter,
    quoted,
    time_of,
)

NOW = datetime(2026, 11, 20, 14, 2, 30, tzinfo=UTC)
EAST = timezone(timedelta(hours=2))


def parsed(text: str) -> DecisionFilter:
    return parse_filter(text, now=NOW, zone=UTC)


class TestKeys:
    def test_words_and_every_key_are_parsed(self) -> None:
        """Words and every key are parsed; several values of one key are kept together."""
        assert parsed(
            'deploy prod input:"a b" tool:bash tool:rm rule:"block rm" verdict:block '
            "session:s1 agent:bot result:done"
        ) == DecisionFilter(
            words=("deploy", "prod"),
            inputs=("a b",),
            tools=("bash", "rm"),
            rules=("block rm",),
            verdicts=("block",),
            sessions=("s1",),
            agents=("bot",),
            results=("done",),
        )

    def test_blank_line_selects_everything(self) -> None:
        """An empty or blank line selects everything."""
        assert parsed("") == parsed("   ") == EVERYTHING

    def test_ask_and_shadow_select_several_verdicts(self) -> None:
        """`ask` means calls with a real or would-be approval, `shadow` those enforce would change."""
        assert parsed("verdict:ask").verdicts == ("approved", "denied", "would-ask")
        assert parsed("verdict:shadow").verdicts == ("would-block", "would-ask")

    def test_case_is_ignored_and_displayed_verdicts_are_accepted(self) -> None:
        """Keys and verdicts ignore case, and a verdict can be written as the list shows it."""
        assert parsed("Tool:Bash TOOL:rm").tools == ("Bash", "rm")
        assert parsed('Verdict:Block verdict:"would block"').verdicts == ("block", "would-block")
        assert parsed("result:Done").results == ("done",)

    def test_word_with_unknown_key_is_text(self) -> None:
        """A word with a colon that is not a key is plain text."""
        assert parsed(r"C:\Temp Error: Tools:x").words == (r"C:\Temp", "Error:", "Tools:x")

    def test_quoted_text_is_never_a_key(self) -> None:
        """Quoted text is never a key, and neither is a rule's place."""
        assert parsed('"tool:bash" deploy.rules:4').words == ("tool:bash", "deploy.rules:4")

    @given(st.text().filter(lambda text: text.strip() and '"' not in text).map(lambda text: text[:200]))
    def test_quoted_group_name_is_parsed_back(self, value: str) -> None:
        """The quoted name of a group is parsed back to the same name."""
        if value.strip() and not value.startswith('"'):
            assert parsed(f"rule:{quoted(value)}").rules == (value,)


class TestTimes:
    @pytest.mark.parametrize(
        ("text", "moment"),
        [
            ("30m", NOW - timedelta(minutes=30)),
            ("14:05", datetime(2026, 11, 19, 14, 5, tzinfo=UTC)),
            ('"2026-11-01 08:15"', datetime(2026, 11, 1, 8, 15, tzinfo=UTC)),
            ("2026-11-01T08:15+02:00", datetime(2026, 11, 1, 6, 15, tzinfo=UTC)),
        ],
    )
    def test_all_forms_of_moments_are_accepted(self, text: str, moment: datetime) -> None:
        """All forms that `since.moment` accepts are accepted; a value with a space is quoted."""
        assert parsed(f"since:{text}").since == moment

    def test_default_to_the_operators_zone(self) -> None:
        """A time without a zone is in the operator's zone."""
        assert parse_filter("since:16:00", now=NOW, zone=EAST).since == datetime(
            2026, 11, 20, 14, 0, tzinfo=UTC
        )

    def test_are_returned_as_typed(self) -> None:
        """The time parts of a filter line are returned as they were typed."""
        assert (
            time_of('rm Since:"2026-11-01 08:15" tool:x until:1h ') == 'Since:"2026-11-01 08:15" until:1h'
        )
        assert time_of('"since:1h" rm') == ""


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "column", "says"),
        [
            ("verdict:blok", 1, "'blok' is not a verdict; use ask, shadow, allow"),
            ("deploy  env:prod", 9, "'env:' is not a key. Use tool:"),
            ("deploy  env:prod", 9, 'search for the text itself: "env:prod"'),
            ("tool:", 1, "the value after 'tool:' is missing"),
            ("a since:soon", 3, "'soon' is not a time; use 30m, 24h, 7d, 14:05, 2026-11-20"),
            ("since:1h since:2h", 10, "'since:' is given twice"),
            ('rule:"block rm', 6, "this quotation mark is never closed"),
            ('one "two', 5, "this quotation mark is never closed"),
            ("since:999999w", 1, "this is too long ago"),
            ("since:1h rm until:2h", 13, "ends before it begins at 2026-11-20 13:02"),
            ("until:09:00 since:09:00", 1, "ends before it begins at 2026-11-20 09:00"),
            ("x" * (LONGEST + 1), LONGEST + 1, "at most"),
        ],
    )
    def test_name_column_text_and_remedy(self, text: str, column: int, says: str) -> None:
        """The error has the column, the rejected text and what to write instead."""
        with pytest.raises(FilterError) as caught:
            parsed(text)
        assert caught.value.column == column
        assert str(caught.value).startswith(f"column {column}: ")
        assert says in str(caught.value)

    @given(st.text(max_size=60))
    def test_any_input_gives_filter_or_filter_error(self, text: str) -> None:
        """Any input gives a filter or a `FilterError` with a column within the line."""
        error = error_of(text)
        assert error is None or 1 <= error.column <= len(text) + 1


def error_of(text: str) -> FilterError | None:
    """Return the error of a filter line, if any."""
    try:
        parsed(text)
    except FilterError as error:
        return error
    return None
