"""Cases that are tried with each change, and those that only `make full` or `make thorough` tries too."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest
from _pytest.mark import ParameterSet

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
"""True in `make thorough`."""
FULL = THOROUGH or os.environ.get("HYPOTHESIS_PROFILE") == "full"
"""True in `make full` and in `make thorough`."""
FEWEST = 10


def examples(thorough: int, *, usual: int | None = None) -> int:
    """The examples of a law that takes `thorough` of them in the thorough run.

    The full run takes `usual`, or a quarter and at least ten: a law of few thorough ones is a slow one.
    With each change it is a third of those.
    """
    if THOROUGH:
        return thorough
    full = usual if usual is not None else min(thorough, max(FEWEST, thorough // 4))
    return full if FULL else max(1, full // 3)


def pairs(one: Mapping[str, object], other: Mapping[str, object]) -> list[ParameterSet]:
    """Parameters of a test for each case of `one` with each of `other`.

    With each change every case is tried in one pair at least, in the thorough run every pair: for
    lists of cases that have nothing to do with each other, such as a text and the size of a terminal.
    """
    length = max(len(one), len(other))
    tried = {(number % len(one), number % len(other)) for number in range(length)}
    return [
        pytest.param(
            first,
            second,
            id=f"{name}-{other_name}",
            marks=() if (row, column) in tried else pytest.mark.thorough,
        )
        for row, (name, first) in enumerate(one.items())
        for column, (other_name, second) in enumerate(other.items())
    ]
