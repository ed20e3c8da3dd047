"""The closest candidate to a misspelt word."""

from __future__ import annotations

from difflib import get_close_matches

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.rules.errors.fault import closest

from ...support.laws import examples

WORDS = st.text(st.sampled_from("abcA-"), max_size=12)
CUTOFFS = st.sampled_from([0.0, 0.3, 0.5, 0.6, 2 / 3, 0.75, 0.85, 1.0])


@pytest.mark.slow
class TestClosest:
    @given(word=WORDS, candidates=st.lists(WORDS, max_size=5), cutoff=CUTOFFS)
    @settings(max_examples=examples(4_000))
    def test_equals_the_first_close_match(self, word: str, candidates: list[str], cutoff: float) -> None:
        """Skipping candidates because of their length does not change the result."""
        found = get_close_matches(word.lower(), candidates, 1, cutoff)
        assert closest(word, candidates, cutoff) == (found[0] if found else None)
