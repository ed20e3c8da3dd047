"""`interlock history --label`: sessions with a given label."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.cli.main import main
from interlock.app.sources.recorded_file import RecordedFile
from interlock.engine.hub.hub import ExternalAgent, Hub
from interlock.engine.sessions.config import SessionConfig


def opening(*labels: str) -> SessionConfig:
    return SessionConfig({}, by="ada", labels=labels)


@pytest.fixture
async def journal(tmp_path: Path) -> Path:
    """Three sessions: one labelled nightly, one that became nightly, and one that no longer is."""
    path = tmp_path / "labels.db"
    hub = Hub.open(path)
    bot = ExternalAgent(name="bot")
    await hub.open_external(bot, opening("ci", "nightly"), session_id="always")
    await hub.open_external(bot, opening(), session_id="later")
    await hub.open_external(bot, opening("nightly"), session_id="before")
    for session, config in (("later", opening("nightly")), ("before", opening("ci"))):
        await hub.close_session(session, "ada")
        await hub.resume_external(session, bot, config)
    await hub.close()
    return path


class TestLabel:
    async def test_label_of_latest_opening_counts(
        self, journal: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """`--label` applies to a session's latest opening, not to earlier ones."""
        assert main(["history", "--db", str(journal), "--label", "nightly"]) == 0
        shown = capsys.readouterr().out
        assert [name in shown for name in ("always", "later", "before")] == [True, True, False]

    async def test_limit_counts_only_matching_sessions(
        self, journal: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """`--limit` counts only sessions with the label."""
        assert main(["history", "--db", str(journal), "--label", "ci", "--limit", "1"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 2

    async def test_label_without_sessions(
        self, journal: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["history", "--db", str(journal), "--label", "weekly"]) == 0
        assert "No session with the label weekly" in capsys.readouterr().out

    def test_invalid_label(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(["history", "--label", "two words"])
        assert "a label has" in capsys.readouterr().err


class TestList:
    """Session lists have the labels of each session, from a hub and from a journal file."""

    async def test_lists_have_labels_of_latest_opening(self, journal: Path) -> None:
        expected = {"always": ("ci", "nightly"), "later": ("nightly",), "before": ("ci",)}
        listed = {each.id: each.session_labels for each in await RecordedFile(journal).history()}
        assert listed == expected
        hub = Hub.open(journal)
        try:
            for _ in range(2):
                assert {each.id: each.session_labels for each in await hub.history()} == expected
            await hub.resume_external("later", ExternalAgent(name="bot"), opening("ci"))
            listed = {each.id: each.session_labels for each in await hub.history()}
            assert listed == {**expected, "later": ("ci",)}
        finally:
            await hub.close()
