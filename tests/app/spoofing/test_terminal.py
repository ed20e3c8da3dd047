"""Output read back from a real terminal: no attack is obeyed, moves text or forges a frame."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .attacks import FORGED
from .harmless import crowded, strange
from .screen import Meant, ScreenOf, parsed

SEQUENCES = {"H", "m", "t", "?h", "?l", "?p", ">u", "<u"}
"""Final bytes of the sequences that Textual and the console send themselves."""
COMMANDS = {"0;", "0;Interlock", "22;default", "22;pointer", "22;text"}
"""Their operating system commands: the title, and the shape of the mouse pointer."""


def assert_only_ours(stream: str) -> None:
    """Check that the stream has only the console's own sequences, and harmless text."""
    sent = parsed(stream)
    assert sent.sequences <= SEQUENCES
    assert set(sent.commands) <= COMMANDS
    assert sent.others == ()
    assert strange(sent.text.replace("\r", "").replace("\n", "")) == set()
    assert not crowded(sent.text)


def assert_framed(on: ScreenOf, meant: Meant) -> None:
    """Check that every frame is closed: its corners and both its sides are in place."""
    for x, y, width, height in meant.frames:
        right, bottom = x + width - 1, y + height - 1
        corners = [on.cell(a, b) for a, b in ((x, y), (right, y), (x, bottom), (right, bottom))]
        assert corners == ["╭", "╮", "╰", "╯"]
        for row in range(y + 1, bottom):
            assert (on.cell(x, row), on.cell(right, row)) == ("│", "│"), on.rows()[row]


@contextmanager
def staged(what: str, folder: Path) -> Iterator[ScreenOf]:
    """The program in a terminal of 100 by 30."""
    with ScreenOf([sys.executable, "-m", "tests.app.spoofing.staged", what, str(folder)]) as on:
        yield on


@pytest.fixture
def walked(tmp_path: Path):
    """Press keys, wait for the screen to which they lead, and check it."""

    def walk(on: ScreenOf, keys: str, shows: str, screen: str, *, framed: bool = True) -> Meant:
        on.send(keys)
        on.until(shows)
        meant = on.meant(tmp_path, screen)
        assert bool(meant.frames) == framed
        assert_framed(on, meant)
        assert_only_ours(on.stream)
        return meant

    return walk


@pytest.mark.slow
class TestLive:
    def test_panes_dialog_and_batch(self, tmp_path: Path, walked) -> None:
        """Spoofing: a real terminal shows the live screen, a request and a batch as intended."""
        with staged("live", tmp_path) as on:
            walked(on, "", "6 waiting", "LiveScreen")
            walked(on, "\x1b3", "▌ [x] require-lint-before-test", "LiveScreen")
            walked(on, "\x1b5", "▌ ◐", "LiveScreen")
            walked(on, "a", "WHAT WILL RUN", "ApprovalScreen")
            walked(on, "\x1b[F", "SESSION  ", "ApprovalScreen")
            walked(on, "\x1b", "s start", "LiveScreen")
            walked(on, " ", "1 marked", "LiveScreen")
            walked(on, "j", "▌ ◐ [bold]", "LiveScreen")
            walked(on, " ", "2 marked", "LiveScreen")
            walked(on, "B", "Decide 2 requests together", "BatchScreen")

    def test_a_forged_dialog_stays_in_its_field(self, tmp_path: Path, walked) -> None:
        """Spoofing: lines that imitate the dialog's are behind the bar of their field."""
        with staged("live", tmp_path) as on:
            walked(on, "", "6 waiting", "LiveScreen")
            walked(on, "\x1b5", "▌ ◐", "LiveScreen")
            walked(on, "G", "▌ ◐ deploy", "LiveScreen")
            meant = walked(on, "a", "WHAT WILL RUN", "ApprovalScreen")
            [(x, y, width, height)] = meant.frames
            inner = [row[x + 1 : x + width - 1] for row in on.rows()[y + 1 : y + height - 1]]
            for label in ("WHAT WILL RUN", "WHY IT ASKS", "SO FAR"):
                assert sum(line.strip().startswith(label) for line in inner) == 1
            for line in FORGED:
                before = [row[: row.index(line)] for row in inner if line in row]
                assert before
                # Behind a bar, or quoted as the agent's words with escaped line breaks.
                assert all("│" in text or r"\n" in text for text in before)


class TestRecorded:
    @pytest.mark.thorough
    def test_history_decisions_and_replay(self, tmp_path: Path, walked) -> None:
        """Spoofing: a real terminal shows history, decisions with panels, and a replay as intended."""
        with staged("recorded", tmp_path) as on:
            walked(on, "", "4 sessions", "HistoryScreen", framed=False)
            walked(on, "v", "S Shadow: 2 sessions", "DecisionsScreen", framed=False)
            walked(on, "/", "filter", "DecisionsScreen", framed=False)
            on.send("kind:call")
            on.until("kind:call")
            walked(on, "\r", "decisions match · row 1", "DecisionsScreen", framed=False)
            walked(on, "\r", "╭─ Decision: ", "DecisionDetail")
            walked(on, "\x1b", "row 1", "DecisionsScreen", framed=False)
            walked(on, "\x1b", "Δ changed", "DecisionsScreen", framed=False)
            walked(on, "g", "by rule", "DecisionsScreen", framed=False)
            walked(on, "\x1b", "inp", "DecisionsScreen", framed=False)
            walked(on, "\x1b", "4 sessions", "HistoryScreen", framed=False)
            walked(on, "\r", "session.opened", "ReplayScreen")
            walked(on, "]]]]", "call.decided", "ReplayScreen")
            walked(on, "o", "╭─ Decision: ", "ReplayedDecision")
