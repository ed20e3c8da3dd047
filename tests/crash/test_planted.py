"""The harness detects bugs planted on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from .host import Host
from .lives import Tally, Way, die_and_go_on

pytestmark = pytest.mark.thorough

ENOUGH = 30
"""Number of deaths after which a bug counts as undetectable by the harness."""

BUGS: list[tuple[str, Way, str]] = [
    ("record_after_execution", "outside", "ran and no decision allowed it"),
    ("synchronous_normal", "power loss", "operators were told"),
    ("pending_in_memory", "outside", "operators were told 'asked"),
    ("approval_ids_reused", "after", "questions have the id"),
    ("call_ids_reused", "amid", "ran 2 times"),
    ("allowed_calls_run_again", "after", "ran again"),
    ("helpers_begin_again", "before", "helpers to work"),
    ("helpers_recorded_late", "before", "has not decided"),
    ("branches_begin_now", "after", "its markings are not those of"),
    ("steps_recorded_late", "outside", "is asked before the step"),
    ("flows_repeat_approved_calls", "before", "approved call"),
    ("answers_in_memory", "after", "operators were told 'decided f"),
]


@pytest.mark.parametrize(("bug", "way", "symptom"), BUGS, ids=[bug for bug, _, _ in BUGS])
def test_planted_bug_is_found(
    host: Host, empty: Path, tmp_path: Path, bug: str, way: Way, symptom: str
) -> None:
    """Each bug is detected by its symptom within a few deaths."""
    seen: list[str] = []
    for seed in range(1, ENOUGH + 1):
        try:
            seen += die_and_go_on(host, tmp_path / str(seed), empty, seed, way, Tally(), bug)
        except AssertionError as error:
            seen.append(str(error))
        if any(symptom in problem for problem in seen):
            return
    raise AssertionError(f"{bug} was not found in {ENOUGH} deaths; seen instead: {seen[:10]}")
