"""The result of a backtest as lines, also in a narrow terminal."""

from __future__ import annotations

import pytest

from interlock.app.screens.replay.what_if_text import totals_lines
from interlock.engine.backtest import ChangeCounts, Count, Totals

TOTALS = Totals(
    sessions=12,
    diverging=8,
    counts=ChangeCounts(
        judged=Count(calls=10_000, hypothetical=9_997),
        same=Count(calls=7_000),
        blocked=Count(calls=1_000),
        asked=Count(calls=900),
        allowed=Count(calls=1_100),
    ),
)


class TestTotals:
    @pytest.mark.parametrize("width", [44, 56, 76, 116])
    def test_all_counts_are_shown_at_any_width(self, width: int) -> None:
        """All counts of changed and hypothetical calls are shown at any width."""
        lines = [line.plain for line in totals_lines(TOTALS, width)]
        assert all(len(line) <= width for line in lines)
        painted = "\n".join(lines)
        for said in (
            "10,000 calls",
            "9,997 hypothetical",
            "7,000 as recorded",
            "■ 1,000 newly blocked",
            "◐ 900 newly asked",
            "▸ 1,100 newly allowed",
        ):
            assert said in painted
