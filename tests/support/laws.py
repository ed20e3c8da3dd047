"""Test cases tried with each change, and those tried only by `make full` or `make thorough`."""

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
    """Return the number of examples for a law with `thorough` examples in the thorough run.

    The full run uses `usual`, or a quarter and at least `FEWEST`: a law with few thorough examples is
    slow. A run with each change uses a third of that.
    """
    if THOROUGH:
        return thorough
    full = usual if usual is not None else min(thorough, max(FEWEST, thorough // 4))
    return full if FULL else max(1, full // 3)


def pairs(one: Mapping[str, object], other: Mapping[str, object]) -> list[ParameterSet]:
    """Return parameters of a test for each case of `one` with each of `other`.

    With each change every case is part of at least one pair; the thorough run tries every pair. For
    independent lists of cases, such as a text and the size of a terminal.
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
