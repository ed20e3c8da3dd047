"""At 80 columns and 24 lines every screen shows its essential text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..support.views import BY_NAME, NAMES, Shown, showing

ESSENTIAL: dict[str, tuple[str, ...]] = {
    "live": ("1 waiting", "as maria", "Waiting 1", "◐ deploy", "waiting 0:42", "a approve", "d deny"),
    "live-sessions": ("◐ release-bot", "● docs-writer", "S nightly-sync", "✓ cleanup", "shadow"),
    "live-nets": ("[x] limit-deploy-2", "budget ●●", "deploy needs approval", "[ ] require-freeze"),
    "live-waiting": ("◐ deploy", "0:42", "release-bot", "./deploy --env prod --commit 9f31c02"),
    "say": ("To release-bot", "Message (interrupts", "tab send after its turn"),
    "approval": (
        "WHAT WILL RUN",
        "./deploy --env prod --commit 9f31c02",
        "require human-approval before deploy",
        "✓ lint",
        "“Checks are green, deploying now.”",
        "✓a approve",
        "✗d deny",
    ),
    "approval-hard": (
        "CANNOT BE FULLY ANALYSED",
        "git push --force origin main",
        "lines hidden",
        "-for i in range(n):",
        "+for i in range(n + 1):",
        "a next page",
        "a show the next page",
    ),
    "edit": (
        "Edit input of bash",
        "command  text  changed",
        "^s review changes",
        "esc go",
    ),
    "edit-review": (
        "- │",
        "+ │",
        "Rules are checked again",
        "a approve with these changes",
        "esc go back",
    ),
    "answer": (
        "WHAT IS ASKED",
        "good enough to publish?",
        "step 2 of flow Release",
        "TO FILL IN",
        "a answer",
        "d deny",
        "esc decide later",
    ),
    "answer-form": (
        "Answer: Notes",
        "good enough to publish?",
        "by  text  required",
        "Your name",
        "( ) 1 true   ( ) 2 false",
        "^s send the answer",
        "esc go back",
    ),
    "answer-refused": (
        "by  text  required",
        "Not yet. by: it must be filled in",
        "^s send the answer",
    ),
    "flow-nets": ("[~] flow Release", "step 2 · at Notes", "Commit ○ → Notes ● → SignOff ○"),
    "flow-graph": ("Δ worked last", "◐  Notes", "suspend   waits for an answer", "SignOff", "esc close"),
    "grant": ("(●) a number of calls", "( ) a period", "the next 3 calls", "^g approve and grant"),
    "grant-once": ("(●) exactly this input", "for the rest of this session", "^g approve and grant"),
    "grant-given": ("lets pass     bash as deploy", "2 left, 12 min", "given by      maria", "esc close"),
    "revoke": ("Revoke grant-1?", "need approval again", "y yes", "n no"),
    "limit": ("Spent $1.25 of $1.00", "in USD", "enter raise it", "esc cancel"),
    "limit-mistake": ("✗ Expected more than $1.00", "enter raise it"),
    "batch": (
        "Decide 3 requests together",
        "deploy ×1, git push --force ×1",
        "1 of 3 may do more",
        "A show the next page · 2 of 2",
        "D deny all",
        "esc decide later",
    ),
    "batch-read": ("END, 3 REQUESTS", "A approve all once", "D deny all", "esc decide later"),
    "batch-deny": ("Reason for all", "enter deny all", "esc go back"),
    "fatigue": (
        "60 requests",
        "93 % approved",
        "approve-before-deploy",
        "denied",
        "always",
        "Suggestions",
    ),
    "deny": ("Reason", "enter deny", "go back", "./deploy --env prod"),
    "explain": ("■ blocked", "test → deploy", "require-test-before-deploy", "esc close"),
    "confirm": ('Stop agent "release-bot"?', "y yes", "n no"),
    "loosen": ("only recorded", "keep waiting", "reason", "enter confirm", "esc cancel"),
    "start": ("Agent", "Rules", "Tools", "Task", "Shadow mode", "^s start", "esc cancel"),
    "switch-nets": ("[x] block-rm", "[ ] require-freeze-before-deploy", "space switch"),
    "net": ("( ) ready", "(●) gate", "▸ do-deploy  enabled", "esc close"),
    "call": ("✓ done", "./test", "2 of 2 passed", "esc close"),
    "decisions": (
        "12 decisions",
        "S would block",
        "◐ approved",
        "■ denied by jo",
        "S Shadow",
        "/ filter",
    ),
    "decision-groups": ("by rule", "block-rm", "■ 3", "? help"),
    "decision": ("denied by jo", "enough for", "deploy.rules:5", "r replay"),
    "decision-mistake": ("verdict:no", "use ask, shadow, allow"),
    "shadow": ("would block  3", "would ask    1", "enter lists them", "esc close"),
    "history": ("docs-writer-77c0", "nightly-sync-02", "blocked", "/ filter", "enter open"),
    "replay": ("event 3 of 13", "call.decided", "■ 2 blocked", "◐ 1 asked", "[ back", "] step"),
    "replay-nets": ("before", "after", "budget ●●", "gate ○", "Δ require-test"),
    "picture": ("(●) ready", "Δ fired", "enabled"),
    "go-to": ("event number or time", "1 to 13", "enter go"),
    "what-if": ("[ ] approve-before-deploy", "[x] block-rm", "space switch", "^s judge"),
    "what-if-problem": ("✗ faulty.rules:1:14", "write: require", "^^^^^"),
    "judged": ("2 newly blocked", "▸ allowed → ■ blocked", "hypothetical", "esc back"),
    "backtest": ("1 with a divergence", "By rule", "first at event 3", "enter open"),
    "recorded-decision": ("approved by maria", "deploy.rules:2", "esc close"),
    "event": ("Event 8", "running → done", "esc close"),
}


NARROW: dict[str, tuple[str, ...]] = {
    "edit": ("Edit input of bash", "changed", "^s review changes", "esc go back"),
    "edit-review": (
        "- │",
        "+ │",
        "Rules are checked again",
        "a approve with these changes",
        "esc go back",
    ),
    "grant": (
        "a number of calls",
        "( ) a period",
        "the next 3 calls",
        "^g approve and grant",
        "esc go",
    ),
    "grant-given": ("lets pass", "2 left, 12 min", "given by", "esc close"),
    "answer-form": ("by  text  required", "Your name", "^s send the answer", "esc go back"),
    "answer-refused": ("Not yet. by: it must be filled in", "^s send the answer"),
    "revoke": ("Revoke grant-1?", "y yes", "n no"),
    "limit": ("Spent $1.25 of $1.00", "enter raise it", "esc cancel"),
    "batch": (
        "Decide 3 requests together",
        "A show the next page · 2 of 2",
        "D deny all",
        "esc decide later",
    ),
    "batch-read": ("END, 3 REQUESTS", "A approve all once", "D deny all", "esc decide later"),
    "batch-deny": ("Reason for all", "enter deny all", "esc go back"),
    "fatigue": ("60 requests", "93 % approved", "edited denied", "? help"),
}
"""Required texts at 60 columns: those of panels that decide, and a table's last column."""


@pytest.mark.slow
class TestAt60Columns:
    @pytest.mark.parametrize("name", NARROW)
    async def test_nothing_essential_is_cut_off(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The subject of a decision and the keys to decide or leave are visible."""
        monkeypatch.chdir(tmp_path)
        async with showing(BY_NAME[name], tmp_path, (60, 24)) as on:
            text = on.painted()
            assert [part for part in NARROW[name] if part not in text] == [], text
            assert max(map(len, text.split("\n"))) <= 60
            for frame in on.app.screen.query(".frame"):
                assert on.app.screen.region.contains_region(frame.region)


def check_size(on: Shown, name: str) -> None:
    """Assert that a screen's essential texts and keys are visible at 80 columns and 24 lines."""
    text = on.painted()
    lines = text.split("\n")
    assert [part for part in ESSENTIAL.get(name, ()) if part not in text] == [], text
    assert len(lines) == 24
    assert max(map(len, lines)) <= 80
    frames = list(on.app.screen.query(".frame"))
    for frame in frames:
        assert on.app.screen.region.contains_region(frame.region), name
    if not frames and not name.startswith("palette"):
        assert re.search(r"(\?|f1) help$", lines[-1]), lines[-1]


class TestAt80By24:
    def test_listed_names_are_views(self) -> None:
        """Every name in the list above is the name of a view."""
        assert set(ESSENTIAL) <= set(NAMES)
