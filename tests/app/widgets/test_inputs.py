"""A call's input in the dialog: complete, typed, folded so that the end stays in view."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.app.widgets.approval.call_input import cap_for, input_rows, lay_out

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
INPUTS = st.dictionaries(st.text(min_size=1, max_size=20), JSON, max_size=5)


def text_of(values: dict[str, object], width: int = 60, room: int | None = None) -> list[str]:
    return [line.plain for line in input_rows(values, width, room)]


class TestInput:
    def test_values_keep_their_json_types(self) -> None:
        """Each value is shown as JSON: a string in quotes, a number without, a list as a list."""
        assert text_of({"env": "prod", "n": 2, "dry": False, "to": ["a", "b"]}) == [
            'env  "prod"',
            "n    2",
            "dry  false",
            'to   ["a", "b"]',
        ]

    def test_lines_of_a_text_start_with_a_bar(self) -> None:
        """Each line of a value with line breaks has a bar, so it cannot imitate the dialog."""
        rows = text_of({"command": "echo 1\nWHY IT ASKS  nothing\n"})
        assert all("│ " in row for row in rows)

    @pytest.mark.slow
    @given(values=INPUTS, width=st.integers(20, 100))
    def test_no_line_is_wider_than_the_dialog(self, values: dict[str, object], width: int) -> None:
        """Lines fit and contain no line break, whatever the names and values."""
        for line in input_rows(values, width):
            assert line.cell_length <= width
            assert "\n" not in line.plain

    @pytest.mark.slow
    @given(values=INPUTS, room=st.integers(1, 30))
    def test_folding_hides_only_middles(self, values: dict[str, object], room: int) -> None:
        """A folded value still shows its first and its last line."""
        whole, folded = text_of(values), text_of(values, 60, room)
        assert len(folded) <= len(whole)
        if whole:
            assert folded[-1] == whole[-1]
            assert folded[0] == whole[0]
        assert cap_for(lay_out(values, 60).sizes, room) is not None or folded == whole


class TestFold:
    def test_the_end_of_a_long_command_is_visible(self) -> None:
        """A folded text has its first lines, a fold with count and key, and its last lines."""
        command = "\n".join(f"line {n}" for n in range(1, 81)) + "; rm -rf /"
        rows = text_of({"command": command}, 60, 9)
        assert len(rows) == 9
        assert "line 1" in rows[0]
        assert rows[-1].endswith("line 80; rm -rf /")
        assert "… 72 lines hidden · space shows all 80" in rows[4]

    def test_no_lines_are_hidden_without_height_limit(self) -> None:
        """Without a limited height nothing is hidden."""
        rows = text_of({"command": "\n".join(f"line {n}" for n in range(80))})
        assert len(rows) == 80


class TestNames:
    @pytest.mark.parametrize("name", ["", " ", "command ", "\u00a0command", "WHY IT ASKS"])
    def test_unusual_name_is_quoted(self, name: str) -> None:
        """Names that are empty or contain blanks are quoted, so they imitate no heading or value."""
        values = {"command": "ls", name: "rm"}
        assert any(f'"{name}"' in line.plain for line in lay_out(values, 70).lines())

    def test_name_with_line_break_is_complete(self) -> None:
        """A field's name with a line break is shown in full."""
        shown = "".join(row.plain for row in input_rows({"a\nrm -rf /home/x": 1}, 60))
        assert "rm -rf /home/x" in shown
