"""The head of an input in a line: quick for typical inputs, and the same text as JSON."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.history.decisions.index import HEAD, input_head

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=2 * HEAD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


class TestInputHead:
    @given(st.text(min_size=1, max_size=2 * HEAD), VALUES)
    def test_is_json_cut_to_length(self, name: str, value: object) -> None:
        """A value follows its name as JSON, cut at the length of the head."""
        head = input_head({name: value})  # pyright: ignore[reportArgumentType]
        if name == "command" and isinstance(value, str):
            assert head == value[:HEAD].replace("\0", "␀")
            return
        short = value[:HEAD] if isinstance(value, str) else value
        text = f"{name[:HEAD]}={json.dumps(short, ensure_ascii=False)}"
        assert head == text[:HEAD].replace("\0", "␀")
