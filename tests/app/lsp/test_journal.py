"""Additions from a journal: tools and fields for completion, and counts above rules that ask."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from interlock.app.lsp.journal import History, LatestHistory, answered_rules, is_proposable, read_history
from interlock.engine.history.errors import JournalError
from tests.support.approvals import RULES, tired


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tired(tmp_path_factory.mktemp("tired") / "deploy.db")


@pytest.fixture(scope="module")
def history(journal: Path) -> History:
    return read_history(journal, threading.Event())


class TestHistory:
    def test_has_the_names_of_recorded_calls(self, history: History) -> None:
        """The history has tools and their fields, but no value of a field."""
        assert set(history.seen.tools) == {"deploy", "push", "migrate"}
        assert ("deploy", "env") in history.seen.fields
        assert "staging" not in str(history.seen)

    @pytest.mark.parametrize(
        ("name", "proposed"),
        [
            ("deploy_now-2", True),
            ("mcp__github__create", True),
            ("größe", True),
            ("x\nallow unclear bash", False),
            ("x # y", False),
            ("deploy\u202e", False),
            ("d\u0435ploy", False),
            ("a" * 101, False),
            ("", False),
        ],
    )
    def test_proposes_only_plain_names(self, name: str, proposed: bool) -> None:
        """Agents choose the names of their calls. A name that is not a plain word is not proposed."""
        assert is_proposable(name) is proposed

    def test_counts_answers_of_rules(self, history: History) -> None:
        """A rule is identified by its words and its file's name, wherever it is in the file."""
        moved = f"# moved\n{RULES.replace('deploy', 'deploy  # comment', 1)}block rm\n"
        found = {rule.line: rule.text for rule in answered_rules("/other/deploy.rules", moved, history)}
        assert found[2] == "asked 30 times, approved 30"
        assert set(found) == {2, 3, 4}
        assert found[4].startswith("asked 14 times, approved ")
        assert ", denied " in found[4]
        assert ", expired " in found[4]

    def test_other_rules_have_no_counts(self, history: History) -> None:
        """The same words in another file, and other words in this file, have no counts."""
        assert list(answered_rules("other.rules", RULES, history)) == []
        changed = "require human-approval before deploy by 2\n"
        assert list(answered_rules("deploy.rules", changed, history)) == []


class TestReading:
    async def test_journal_is_read_once_for_many_documents(self, journal: Path) -> None:
        """The journal is read once while it is fresh, and the editor is notified once."""
        finished: list[None] = []
        latest = LatestHistory(journal, lambda: finished.append(None))
        first, second = await asyncio.gather(latest.latest(), latest.latest())
        latest.refresh()
        assert first is second is await latest.latest()
        assert first.answers
        assert finished == [None]

    async def test_missing_journal_gives_an_empty_history(self, tmp_path: Path) -> None:
        """Without a journal, or with a file that is not a journal, the history is empty."""
        (tmp_path / "broken.db").write_bytes(b"no journal")
        for name in ("missing.db", "broken.db"):
            assert await LatestHistory(tmp_path / name, pytest.fail).latest() == History()
        assert not (tmp_path / "missing.db").exists()

    def test_stops_when_the_editor_ends(self, journal: Path) -> None:
        """Reading stops at once when the editor has ended."""
        stop = threading.Event()
        stop.set()
        with pytest.raises(JournalError):
            read_history(journal, stop)
