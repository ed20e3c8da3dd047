"""The backtest screen: recorded calls judged by other rules while the screen stays usable."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest
from textual.widgets import Input

from interlock.app.console.history_app import HistoryConsole
from interlock.app.screens.history.backtest import BacktestScreen
from interlock.app.screens.history.screen import HistoryScreen
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.app.sources.recorded_file import RecordedFile
from interlock.app.viewmodels.backtest_job import rules_files
from interlock.app.widgets.base.blocks import BlockList
from interlock.app.widgets.inputs.choice import Choice
from interlock.engine.backtest import Recorded, RecordedCall, RecordedOutcome, Recording, source
from interlock.engine.history.journal.journal import Journal

from ...support.stage import stage
from ..history.sessions import SESSIONS, Source
from .journal import NOW, QUIET, SESSION, Desk, desk, replay_of
from .recording import BODIES, decided, recording


def screen_of(shown: Desk) -> BacktestScreen:
    assert isinstance(shown.app.screen, BacktestScreen)
    return shown.app.screen


async def opened(shown: Desk, rules: str = "") -> BacktestScreen:
    """Open the screen from the replay with its key and type `rules`."""
    await shown.press("b")
    await shown.when(lambda: isinstance(shown.app.screen, BacktestScreen), "the backtest screen")
    await shown.write(rules)
    return screen_of(shown)


async def report_lines(shown: Desk) -> list[str]:
    """The lines of the finished report."""
    await shown.until("✓ done")
    report = screen_of(shown).query_one(BlockList)
    return [" ".join(line.plain.split()) for block in report.blocks for line in block.lines(116)]


@pytest.mark.slow
class TestReport:
    """The contents of the report."""

    async def test_backtest_from_replay_judges_its_session(self, database: Path) -> None:
        """A backtest from a replay judges its session: totals, results by rule, first divergence."""
        async with desk(replay_of(database)) as shown:
            await opened(shown, "strict.rules")
            assert f"this session: {SESSION}" in shown.painted()
            await shown.press("enter")
            lines = await report_lines(shown)
            assert lines[:3] == [
                "4 of 5 decisions change: test (1), deploy (1), push (1) and 1 more.",
                "5 calls in 1 session, 1 with a divergence, 3 hypothetical",
                "1 as recorded ■ 2 newly blocked ◐ 1 newly asked ▸ 1 newly allowed",
            ]
            assert "strict.rules:1 require lint before test ■ 1 newly blocked" in lines
            assert any(
                line.startswith("strict.rules:2 require human-approval before push ◐ 1 newly asked")
                for line in lines
            )
            assert "deploy.rules:4 block rm (of the record) ▸ 1 newly allowed, hypothetical" in lines
            assert any(line.startswith("first at event 3, 2026-11-20 14:00: test") for line in lines)
            assert "▸ allowed → ■ blocked strict.rules:1 require lint before test" in lines
            assert "~ 3 calls after event 3: hypothetical" in lines

    async def test_enter_opens_the_divergence(self, database: Path) -> None:
        """Enter on a session replays it at its first divergence. Escape comes back to the report."""
        async with desk(replay_of(database)) as shown:
            await opened(shown, "strict.rules")
            await shown.press("tab", "right", "f5")
            await report_lines(shown)
            await shown.press("enter")
            await shown.when(lambda: isinstance(shown.app.screen, ReplayScreen))
            replay = shown.app.screen
            assert isinstance(replay, ReplayScreen)
            assert (replay.position, replay.state.id if replay.state else "") == (3, SESSION)
            await shown.press("escape")
            assert "✓ done" in await shown.until("✓ done")

    async def test_all_sessions_without_subagents_are_judged(self, database: Path) -> None:
        """All sessions are judged except subagents', whose calls are decided in their parents."""
        async with desk(replay_of(database)) as shown:
            screen = await opened(shown, "strict.rules")
            screen.query_one(Choice).chosen = "all"
            await shown.press("enter")
            lines = await report_lines(shown)
            assert lines[0].startswith("4 of 6 decisions change")
            assert lines[1].startswith("6 calls in 2 sessions, 1 with a divergence")
            assert not any(QUIET in line for line in lines)

    async def test_only_sessions_since_a_time_are_judged(self, database: Path) -> None:
        """Only sessions with later events than the given time are judged. An invalid time is reported."""
        async with desk(replay_of(database)) as shown:
            screen = await opened(shown, "strict.rules")
            await shown.press("tab", "right", "right")
            since = screen.query_one("#since", Input)
            assert since.display
            since.value = "2026-11-20T14:01:05"
            await shown.press("f5")
            assert (await report_lines(shown))[0].startswith("1 call in 1 session")
            since.value = "soon"
            await shown.press("f5")
            await shown.until("✗ 'soon' is not a time; use 30m, 24h, 7d, 14:05")

    async def test_no_divergence_is_reported(self, database: Path) -> None:
        """If no session diverges, the report says so."""
        async with desk(replay_of(database, QUIET)) as shown:
            await opened(shown, "free.rules")
            await shown.press("enter")
            assert any("No session diverges" in line for line in await report_lines(shown))

    async def test_journal_without_calls(self, database: Path, tmp_path: Path) -> None:
        """For a journal without calls the report says that there is nothing to judge."""
        path = tmp_path / "empty.db"
        with Journal.open(path) as journal:
            journal.write("empty-1", BODIES[0])
        async with desk(replay_of(path, "empty-1")) as shown:
            await opened(shown, "strict.rules")
            await shown.press("enter")
            assert any("nothing to judge" in line for line in await report_lines(shown))
            assert "opens a session" not in shown.painted()

    async def test_new_judgement_replaces_the_old_one(self, database: Path) -> None:
        """A new judgement under other rules replaces the old one."""
        async with desk(replay_of(database)) as shown:
            screen = await opened(shown, "strict.rules")
            await shown.press("enter")
            first = await report_lines(shown)
            await shown.press("end")
            screen.query_one("#rules", Input).value = "free.rules"
            await shown.until("◌ found under strict.rules over this session", "f5 judge again")
            await shown.press("f5")
            await shown.until("▸ 3 newly allowed", "5 calls in 1 session")
            assert await report_lines(shown) != first
            await shown.press("s", "right")
            await shown.until("◌ found under free.rules over this session")
            await shown.press("left")
            await report_lines(shown)


@pytest.mark.slow
class TestTrouble:
    """Rules and sessions that cannot be judged."""

    async def test_rules_that_do_not_compile(self, database: Path) -> None:
        """The compiler's message is shown with its place."""
        async with desk(replay_of(database), size=(80, 24)) as shown:
            await opened(shown, "faulty.rules")
            await shown.press("enter")
            painted = await shown.until("✗ faulty.rules:1:14: expected 'before'")
            assert "require lint after test" in painted

    @pytest.mark.parametrize(
        ("typed", "said"),
        [
            ("", "Name a rules file"),
            ("'strict.rules", "quote that is not closed"),
            ("gone.rules", "gone.rules"),
            ("[/x]\x1b[2J.rules", "[/x]"),
        ],
    )
    async def test_invalid_file_names_are_reported(self, database: Path, typed: str, said: str) -> None:
        """A missing name, an unclosed quote, a missing file and a hostile name are reported."""
        async with desk(replay_of(database)) as shown:
            screen = await opened(shown)
            screen.query_one("#rules", Input).value = typed
            await shown.press("f5")
            await shown.until("✗", said)
            assert not screen.judging

    async def test_subagent_session_names_its_parent(self, database: Path) -> None:
        """The calls of a subagent's session were decided in its parent, which is named."""
        async with desk(replay_of(database, "below-1")) as shown:
            await opened(shown, "strict.rules")
            await shown.press("enter")
            await shown.until("✗ 'below-1' is a subagent's session", SESSION)

    async def test_journal_error_is_reported(self, database: Path) -> None:
        """An error in reading the journal is shown, and another try is possible."""
        async with desk(replay_of(database)) as shown:
            screen = await opened(shown, "strict.rules")
            gone = RecordedFile(database.with_name("gone.db"))
            screen._journal, here = gone, screen._journal
            await shown.press("enter")
            await shown.until("✗ There is no journal")
            screen._journal = here
            await shown.press("f5")
            await report_lines(shown)


@pytest.mark.slow
class TestRunning:
    """Behaviour while calls are being judged."""

    async def test_escape_cancels_and_keeps_results(
        self, database: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Progress is shown and keys work. Escape cancels and keeps the results so far."""

        def endless() -> Iterator[Recorded]:
            for n in range(1, 20_000_000):
                yield RecordedCall(n, f"c{n}", "deploy", {"path": "build"}, RecordedOutcome())

        monkeypatch.setattr(source, "chosen", lambda *_, **__: ([Recording("long-1", endless())], 10**12))
        async with desk(replay_of(database)) as shown:
            screen = await opened(shown, "strict.rules")
            await shown.press("enter")
            await shown.until("of 1,000,000,000,000 calls  esc cancels")
            assert screen.judging
            await shown.press("r")
            assert screen.query_one("#rules").has_focus
            await shown.press("escape")
            painted = await shown.until("◐ cancelled after")
            assert "newly blocked" in painted
            assert not screen.judging
            await shown.app.workers.wait_for_complete()
            await shown.press("escape")
            await shown.when(lambda: isinstance(shown.app.screen, ReplayScreen))

    async def test_closing_the_console_ends_the_thread(
        self, database: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Closing the console ends the judging thread."""
        ended: list[bool] = []

        def endless() -> Iterator[Recorded]:
            try:
                for n in range(1, 20_000_000):
                    yield RecordedCall(n, f"c{n}", "rm", {}, RecordedOutcome())
            finally:
                ended.append(True)

        monkeypatch.setattr(source, "chosen", lambda *_, **__: ([Recording("long-1", endless())], 10**12))
        async with desk(replay_of(database)) as shown:
            await opened(shown, "strict.rules")
            await shown.press("enter")
            await shown.until("esc cancels")
            await shown.press("ctrl+q")
            await shown.when(lambda: bool(ended), "the thread's end")


class TestWaysIn:
    """The places from which the backtest opens."""

    async def test_history_palette_offers_backtest(self, database: Path) -> None:
        """The palette of the history screen offers the backtest for the selected session."""
        app = HistoryConsole(RecordedFile(database), zone=UTC, clock=lambda: NOW)
        async with desk(app) as shown:
            await shown.until(SESSION)
            commands = {command.title: command for command in app.get_system_commands(app.screen)}
            await commands["Backtest rules…"].callback()
            await shown.when(lambda: isinstance(app.screen, BacktestScreen))
            await shown.until("this session: ")
            await shown.press("escape")
            await shown.when(lambda: isinstance(app.screen, HistoryScreen))

    @pytest.mark.slow
    async def test_live_palette_offers_backtest(self) -> None:
        """The palette of the live screen offers the backtest for the session on screen."""
        async with stage() as shown:
            commands = {c.title: c for c in shown.app.get_system_commands(shown.app.screen)}
            await commands["Backtest rules…"].callback()
            await shown.settle()
            assert isinstance(shown.app.screen, BacktestScreen)
            await shown.until("this session: release-bot")

    @pytest.mark.slow
    async def test_source_without_journal_offers_no_backtest(self) -> None:
        """A source that is not a journal offers no backtest."""
        async with desk(HistoryConsole(Source(SESSIONS), recorded=recording(), zone=UTC)) as shown:
            await shown.press("b")
            await shown.pilot.pause()
            assert isinstance(shown.app.screen, ReplayScreen)

    @pytest.mark.slow
    async def test_line_starts_with_files_of_the_session(self, database: Path) -> None:
        """The line for files starts with the files that the session was started with."""
        with Journal.open(database) as journal:
            started = BODIES[0].model_copy(
                update={"source": {"rules": [str(database.parent / "my strict.rules"), "/etc/x.rules"]}}
            )
            journal.write("sourced-1", started, decided("c1", "ls", "ls"))
        async with desk(replay_of(database, "sourced-1")) as shown:
            screen = await opened(shown)
            assert screen.query_one("#rules", Input).value == '"my strict.rules" /etc/x.rules'

    @pytest.mark.slow
    @pytest.mark.parametrize("column", [3, 20, 40])
    async def test_click_selects_scope(self, database: Path, column: int) -> None:
        """A click selects the scope of sessions."""
        async with desk(replay_of(database)) as shown:
            screen = await opened(shown)
            await shown.pilot.click(Choice, offset=(column, 0))
            await shown.pilot.pause()
            chosen = {3: "this", 20: "all", 40: "since"}[column]
            assert screen.query_one(Choice).chosen == chosen
            assert screen.query_one("#since").display == (chosen == "since")


class TestFiles:
    """Names of rules files as an operator types them."""

    @pytest.mark.parametrize(
        ("text", "files"),
        [
            ("a.rules", ["a.rules"]),
            ("a.rules b.rules", ["a.rules", "b.rules"]),
            ("a.rules, b.rules", ["a.rules", "b.rules"]),
            ('"my a.rules" b', ["my a.rules", "b"]),
            ("C:\\a.rules", ["C:\\a.rules"]),
            ("#a.rules", ["#a.rules"]),
        ],
    )
    def test_names_are_separated_by_blanks_and_commas(self, text: str, files: list[str]) -> None:
        """Blanks and commas separate names; quotes keep a name together."""
        assert rules_files(text) == files
