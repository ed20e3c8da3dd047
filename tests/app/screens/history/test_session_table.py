"""The table of sessions: its columns, and the columns that a narrow table leaves out."""

from __future__ import annotations

from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from interlock.app.format.sessions import columns, heading, origin, row

from .sessions import FAMILY, SESSIONS, summary


class TestWidth:
    """The table fits into its space."""

    @given(width=st.integers(min_value=26, max_value=200), agent=st.text(max_size=60))
    def test_fits_any_width(self, width: int, agent: str) -> None:
        """Heading and rows are never wider than requested, with any names."""
        sessions = [*SESSIONS, summary("x" * 50, agent=agent)]
        chosen = columns(sessions, width, zone=UTC)
        lines = [heading(chosen), *("  ".join(row(chosen, s)) for s in sessions)]
        assert {cell_len(line) for line in lines} == {cell_len(lines[0])}
        assert cell_len(lines[0]) <= width

    def test_cut_name_ends_in_ellipsis(self) -> None:
        """A name that does not fit ends in an ellipsis."""
        long = summary("x" * 50)
        chosen = columns([long], 120, zone=UTC)
        assert row(chosen, long)[1].endswith("x…")

    def test_keeps_ids_whole_on_request(self) -> None:
        """For the command an id stays whole, because `interlock replay` takes it."""
        long = summary("x" * 90)
        chosen = columns([long], 80, zone=UTC, shorten_ids=False)
        assert "x" * 90 in row(chosen, long)

    def test_table_of_80_cells_has_state_mode_start_and_counts(self) -> None:
        """At 80 cells the state, the mode, the start and the counts are shown."""
        names = [c.name for c in columns(SESSIONS, 80, zone=UTC)]
        assert names == ["status", "session", "mode", "started", "calls", "blocked", "waiting"]

    def test_table_of_120_cells_omits_only_the_model(self) -> None:
        """At 120 cells the agent and the length are shown, too."""
        names = [c.name for c in columns(SESSIONS, 120, zone=UTC)]
        assert {"agent", "length"} <= set(names)


class TestFamily:
    """The column that names the parent of a branch or of a subagent's session."""

    def cells(self, width: int, **options: object) -> list[str]:
        chosen = columns(FAMILY, width, zone=UTC, **options)
        at = [c.name for c in chosen].index("from")
        return [row(chosen, session)[at].strip() for session in FAMILY]

    def test_wide_table_shows_whole_parent_id(self) -> None:
        """In a wide table the parent's id is whole. The cell of a session without a parent is empty."""
        expected = ["branch of deploy-bot-0c41aa", "child of docs-writer-77b0e2"]
        assert self.cells(160) == [*[""] * len(SESSIONS), *expected]

    def test_table_of_80_cells_shows_end_of_parent_id(self) -> None:
        """At 80 cells the end of the id identifies the parent. Start and counts are still shown."""
        assert self.cells(80)[-2:] == ["branch of …-0c41aa", "child of …-77b0e2"]
        names = [c.name for c in columns(FAMILY, 80, zone=UTC)]
        assert names == ["status", "session", "from", "started", "calls", "blocked"]

    def test_no_parent_column_without_parents(self) -> None:
        """If no session has a parent, the table has no such column at any width."""
        assert "from" not in [c.name for c in columns(SESSIONS, 400, zone=UTC)]

    def test_a_short_id_is_whole(self) -> None:
        """An id that is hardly longer than its end is not shortened."""
        assert origin(summary("b", kind="branch", parent="mine-1"), short=True) == "branch of mine-1"
        assert origin(summary("n", kind="flow", newer=True)) == "newer version, flow"

    def test_imported_records_are_marked(self) -> None:
        """The list marks imported records at 80 cells."""
        found = [
            summary("a", imported=True),
            summary("b", imported=True, kind="branch", parent="deploy-bot-0c41aa"),
            summary("c", imported=True, kind="flow"),
            summary("d", imported=True, kind="outside"),
        ]
        said = ["imported", "imported, branch of …-0c41aa", "imported, flow", "imported, external"]
        chosen = columns([*SESSIONS, *found], 80, zone=UTC)
        at = [c.name for c in chosen].index("from")
        assert [row(chosen, s)[at].strip() for s in found] == said

    def test_untrusted_ids_are_made_visible(self) -> None:
        """Escape sequences in a parent's id are shown as text, also where the id is shortened."""
        evil = [summary("b", kind="child", parent="\x1b[2J" * 9)]
        for width in (60, 200):
            assert "\x1b" not in "".join(row(columns(evil, width, zone=UTC), evil[0]))

    @given(width=st.integers(min_value=26, max_value=200), parent=st.text(min_size=1, max_size=60))
    def test_fits_any_width(self, width: int, parent: str) -> None:
        """Heading and rows are never wider than requested, with any parent id."""
        sessions = [*FAMILY, summary("x" * 50, kind="branch", parent=parent)]
        chosen = columns(sessions, width, zone=UTC)
        lines = [heading(chosen), *("  ".join(row(chosen, s)) for s in sessions)]
        assert {cell_len(line) for line in lines} == {cell_len(lines[0])}
        assert cell_len(lines[0]) <= width


class TestCells:
    """The text of a cell."""

    def test_symbol_and_word_for_every_state(self) -> None:
        """Each state of a session has a symbol and a word. A session in shadow mode has `S`."""
        chosen = columns(SESSIONS, 160, zone=UTC)
        assert [row(chosen, s)[0].strip() for s in SESSIONS] == [
            "● running",
            "◐ asks",
            "S idle",
            "✗ failed",
            "✓ done",
        ]

    def test_untrusted_names_are_made_visible(self) -> None:
        """Escape sequences and bidi marks in an agent's name are shown as text."""
        evil = summary("evil", agent="\x1b[2J\u202egnp")
        line = "  ".join(row(columns([evil], 160, zone=UTC), evil))
        assert "\x1b" not in line
        assert "\\x1b[2J\\u202e" in line
