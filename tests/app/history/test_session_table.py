"""The table of sessions: what it shows, and what leaves when there is no room."""

from __future__ import annotations

from datetime import UTC, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from interlock.app.moments import length
from interlock.app.session_table import columns, heading, row
from tests.app.history.sessions import SESSIONS, summary


class TestWidth:
    """The table fits where it is put."""

    @given(width=st.integers(min_value=26, max_value=200), agent=st.text(max_size=60))
    def test_fits_any_width(self, width: int, agent: str) -> None:
        """Heading and rows are never wider than asked, whatever the names are made of."""
        sessions = [*SESSIONS, summary("x" * 50, agent=agent)]
        chosen = columns(sessions, width, zone=UTC)
        lines = [heading(chosen), *("  ".join(row(chosen, s)) for s in sessions)]
        assert {cell_len(line) for line in lines} == {cell_len(lines[0])}
        assert cell_len(lines[0]) <= width

    def test_says_with_an_ellipsis_what_is_cut(self) -> None:
        """A name that does not fit ends in an ellipsis."""
        long = summary("x" * 50)
        chosen = columns([long], 120, zone=UTC)
        assert row(chosen, long)[1].endswith("x…")

    def test_keeps_ids_whole_on_request(self) -> None:
        """For the command an id stays whole: it is what `interlock replay` is given."""
        long = summary("x" * 90)
        chosen = columns([long], 80, zone=UTC, shorten_ids=False)
        assert "x" * 90 in row(chosen, long)

    def test_at_80_cells_everything_an_operator_judges_by_is_there(self) -> None:
        """At 80 cells the state, the mode, the start and the counts are shown."""
        names = [c.name for c in columns(SESSIONS, 80, zone=UTC)]
        assert names == ["status", "session", "mode", "started", "calls", "blocked", "waiting"]

    def test_at_120_cells_nothing_but_the_model_leaves(self) -> None:
        """At 120 cells the agent and the length are there too."""
        names = [c.name for c in columns(SESSIONS, 120, zone=UTC)]
        assert {"agent", "length"} <= set(names)


class TestCells:
    """What a cell says."""

    def test_symbol_and_word_for_every_state(self) -> None:
        """A session's state has a symbol and a word; one working in shadow mode has `S`."""
        chosen = columns(SESSIONS, 160, zone=UTC)
        assert [row(chosen, s)[0].strip() for s in SESSIONS] == [
            "● running",
            "◐ asks",
            "S idle",
            "✗ failed",
            "✓ done",
        ]

    def test_untrusted_names_are_made_visible(self) -> None:
        """Escape sequences and bidi marks in an agent's name are shown, not obeyed."""
        evil = summary("evil", agent="\x1b[2J\u202egnp")
        line = "  ".join(row(columns([evil], 160, zone=UTC), evil))
        assert "\x1b" not in line
        assert "\\x1b[2J\\u202e" in line

    @pytest.mark.parametrize(
        ("seconds", "words"),
        [(0, "0:00"), (67, "1:07"), (3605, "1:00:05"), (180_120, "2d 2:02"), (-5, "0:00")],
    )
    def test_lengths(self, seconds: int, words: str) -> None:
        """A length is minutes and seconds, with hours or days where needed, never negative."""
        assert length(timedelta(seconds=seconds)) == words
