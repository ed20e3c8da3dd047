"""The history screen: finding a session and opening its replay."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest
from textual.binding import Binding
from textual.pilot import Pilot
from textual.widgets import Input, Static

from interlock.app.console.history_app import HistoryConsole
from interlock.app.screens.history.screen import HistoryScreen, matches
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.app.sources.messages import HubMoved
from interlock.app.sources.recorded_file import RecordedFile
from interlock.app.widgets.base.bars import KeyBar
from interlock.app.widgets.base.blocks import BlockList
from interlock.engine.history.errors import JournalError, SessionNotFound
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import JournalEvent
from interlock.engine.history.model.state import SessionSummary

from ..replay.recording import BODIES, SESSION
from .sessions import FAMILY, SESSIONS, Source, summary


def console(sessions: list[SessionSummary] = SESSIONS) -> HistoryConsole:
    return HistoryConsole(Source(sessions), zone=UTC)


async def ready(pilot: Pilot[None]) -> HistoryScreen:
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, HistoryScreen)
    return screen


def shown(screen: HistoryScreen) -> list[str]:
    return [block.key for block in screen.query_one(BlockList).blocks]


def text_of(screen: HistoryScreen, name: str) -> str:
    return str(screen.query_one(f"#{name}", Static).content)


class TestList:
    """The contents of the table."""

    async def test_sessions_in_the_source_s_order(self) -> None:
        """The sessions are listed as the source gives them, the newest first."""
        async with console().run_test() as pilot:
            assert shown(await ready(pilot)) == [s.id for s in SESSIONS]

    async def test_omitted_columns_are_shown_below_a_narrow_table(self) -> None:
        """At 40 columns agent, model, mode and counts of the selected session are below the table."""
        async with console().run_test(size=(40, 20)) as pilot:
            screen = await ready(pilot)
            await pilot.press("j")
            detail = text_of(screen, "detail")
            assert "deploy-bot on anthropic/claude-sonnet, enforce mode" in detail
            assert "7 calls, 2 blocked, 1 waiting" in detail

    async def test_empty_history_explains_how_to_start_a_session(self) -> None:
        """Without sessions the screen explains how to start one."""
        async with console([]).run_test() as pilot:
            assert "interlock run" in text_of(await ready(pilot), "note")

    @pytest.mark.slow
    async def test_unreadable_journal_is_reported_and_f5_retries(self) -> None:
        """If the journal cannot be read, the screen shows the error. F5 tries again."""
        source = Broken()
        async with HistoryConsole(source, zone=UTC).run_test() as pilot:
            screen = await ready(pilot)
            assert "journal.db: not a journal" in text_of(screen, "note")
            source.broken = False
            await pilot.press("f5")
            assert shown(await ready(pilot)) == [SESSION]

    @pytest.mark.slow
    async def test_markup_and_escapes_in_names_are_shown_as_text(self) -> None:
        """Markup and escape sequences in an agent's name are shown as text."""
        evil = summary("[@click=app.quit]x[/]", agent="[/bold]\x1b[2J", error="[red\x9b2J")
        async with console([evil]).run_test(size=(120, 20)) as pilot:
            screen = await ready(pilot)
            svg = pilot.app.export_screenshot()
            assert "\x1b" not in svg
            assert "@click" in svg
            assert "[/bold]\\x1b[2J" in text_of(screen, "detail")

    @pytest.mark.slow
    async def test_new_sessions_of_the_hub_appear(self) -> None:
        """After a change in the hub, new sessions appear."""
        source = Source(SESSIONS[:1])
        async with HistoryConsole(source, zone=UTC).run_test() as pilot:
            screen = await ready(pilot)
            source.sessions = SESSIONS
            screen.post_message(HubMoved(()))
            await pilot.pause(1.1)
            assert len(shown(await ready(pilot))) == len(SESSIONS)


class Broken(Source):
    """A journal that cannot be read until `broken` is false."""

    def __init__(self) -> None:
        super().__init__([summary()])
        self.broken = True

    async def history(self, limit: int = 200) -> list[SessionSummary]:
        if self.broken:
            raise JournalError("journal.db: not a journal; name another file with --db")
        return await super().history(limit)


class TestFilter:
    """Filtering the table."""

    @pytest.mark.parametrize(
        ("words", "count"),
        [("", 5), ("shadow", 1), ("BOT enforce", 2), ("asks", 1), ("gpt done", 1), ("none", 0)],
    )
    def test_every_word_must_match(self, words: str, count: int) -> None:
        """A session matches if each word occurs in its id, agent, model, mode or status."""
        assert sum(matches(session, words) for session in SESSIONS) == count

    @pytest.mark.parametrize(("words", "count"), [("branch", 1), ("child of docs", 1), ("0c41aa", 2)])
    def test_branch_and_subagent_are_found_by_parent(self, words: str, count: int) -> None:
        """A branch and a subagent's session are found by their parent."""
        assert sum(matches(session, words) for session in FAMILY) == count

    async def test_imported_session_is_marked_and_found(self) -> None:
        """An imported session is marked in its row and below the table, and found by that word."""
        found = [*SESSIONS, summary("taken-in-1", imported=True)]
        assert [matches(session, "imported") for session in found] == [*[False] * len(SESSIONS), True]
        async with console(found).run_test(size=(80, 24)) as pilot:
            screen = await ready(pilot)
            [line] = screen.query_one(BlockList).blocks[-1].lines(76)
            assert "imported" in line.plain
            await pilot.press("G")
            await pilot.pause()
            assert text_of(screen, "detail").endswith("\nimported")

    @pytest.mark.slow
    async def test_typing_narrows_and_escape_shows_all(self) -> None:
        """`/` opens the filter, each letter narrows the table, escape shows all sessions again."""
        async with console().run_test() as pilot:
            screen = await ready(pilot)
            await pilot.press("slash", *"sync")
            assert shown(screen) == ["nightly-sync-e9d2f0"]
            await pilot.press("escape")
            assert len(shown(screen)) == 5
            assert not screen.query_one(Input).display

    @pytest.mark.slow
    async def test_filter_without_matches_reports_its_words(self) -> None:
        """A filter without matches reports the words."""
        async with console().run_test() as pilot:
            screen = await ready(pilot)
            await pilot.press("slash", *"zz")
            assert "No session matches 'zz'" in text_of(screen, "note")

    async def test_label_key_matches_whole_label(self) -> None:
        """`label:ci` matches a whole label. A plain word is also searched for in labels."""
        sessions = [
            summary("one-000001", session_labels=("ci", "nightly")),
            summary("two-000002", session_labels=("ci-slow",)),
            summary("ci-000003"),
        ]
        kept = {
            words: [each.id for each in sessions if matches(each, words)]
            for words in (
                "label:ci",
                "LABEL:CI label:nightly",
                "label:c",
                "nightly",
                "ci",
                "label:ci two",
            )
        }
        assert kept == {
            "label:ci": ["one-000001"],
            "LABEL:CI label:nightly": ["one-000001"],
            "label:c": [],
            "nightly": ["one-000001"],
            "ci": ["one-000001", "two-000002", "ci-000003"],
            "label:ci two": [],
        }

    @pytest.mark.slow
    async def test_labels_are_shown_with_the_session(self) -> None:
        sessions = [summary("one-000001", session_labels=("ci", "nightly")), summary("two-000002")]
        async with console(sessions).run_test() as pilot:
            screen = await ready(pilot)
            assert "labels ci, nightly" in text_of(screen, "detail")
            await pilot.press("slash", *"label", "colon", *"ci")
            assert shown(screen) == ["one-000001"]

    @pytest.mark.slow
    async def test_keys_of_the_table_are_letters_in_the_filter(self) -> None:
        """`q`, `j`, `?` and `/` typed into the filter are text. The bar does not offer them as keys."""
        async with console().run_test() as pilot:
            screen = await ready(pilot)
            bar = screen.query_one(KeyBar)
            assert "/ filter" in bar.render().plain
            await pilot.press("slash", "q", "j", "question_mark", "slash")
            assert screen.query_one(Input).value == "qj?/"
            assert "/ filter" not in bar.render().plain


class TestOpen:
    """From the table to a replay and back."""

    @pytest.mark.slow
    async def test_enter_opens_the_selected_session(self) -> None:
        """Enter replays the session under the cursor. Escape comes back to it."""
        async with console().run_test() as pilot:
            history = await ready(pilot)
            await pilot.press("down", "down", "enter")
            await pilot.app.workers.wait_for_complete()
            await pilot.pause()
            replay = pilot.app.screen
            assert isinstance(replay, ReplayScreen)
            assert replay.state is not None
            assert replay.state.id == "nightly-sync-e9d2f0"
            await pilot.press("escape")
            await ready(pilot)
            assert history.query_one(BlockList).current == "nightly-sync-e9d2f0"

    async def test_missing_session_is_reported(self) -> None:
        """If the session can no longer be read, the table stays and shows the error."""

        class Gone(Source):
            async def recorded(self, session_id: str) -> list[JournalEvent]:
                raise SessionNotFound(session_id, [], ambiguous=False)

        async with HistoryConsole(Gone(SESSIONS), zone=UTC).run_test() as pilot:
            await ready(pilot)
            await pilot.press("enter")
            screen = await ready(pilot)
            assert "not found" in text_of(screen, "note")

    @pytest.mark.slow
    async def test_escape_leaves(self) -> None:
        """Escape without a filter closes the screen, and with it the history console."""
        async with console().run_test() as pilot:
            await ready(pilot)
            await pilot.press("escape")
            await pilot.pause()
            assert not pilot.app.is_running

    @pytest.mark.slow
    async def test_journal_file_is_replayed_without_a_hub(self, tmp_path: Path) -> None:
        """A journal file is listed and replayed without a running hub."""
        path = tmp_path / "journal.db"
        with Journal.open(path) as journal:
            journal.write(SESSION, *BODIES)
        async with HistoryConsole(RecordedFile(path), zone=UTC).run_test() as pilot:
            assert shown(await ready(pilot)) == [SESSION]
            await pilot.press("enter")
            await pilot.app.workers.wait_for_complete()
            await pilot.pause()
            assert isinstance(pilot.app.screen, ReplayScreen)


class TestEverywhere:
    """Behaviour of every screen of the console."""

    @pytest.mark.slow
    @pytest.mark.parametrize("size", [(40, 10), (8, 3)])
    async def test_any_size(self, size: tuple[int, int]) -> None:
        """The console works at every terminal size."""
        async with console().run_test(size=size) as pilot:
            await ready(pilot)
            await pilot.press("slash", "b", "escape", "j")
            await pilot.resize_terminal(60, 20)
            assert len(shown(await ready(pilot))) == 5

    @pytest.mark.slow
    async def test_keys_are_bindings_with_id_tooltip_and_command(self) -> None:
        """Every key of the screen has an id and a tooltip and is in the command palette."""
        async with console().run_test() as pilot:
            screen = await ready(pilot)
            own = [binding for binding in HistoryScreen.BINDINGS if isinstance(binding, Binding)]
            assert own
            assert all(binding.id and binding.tooltip for binding in own)
            titles = {c.title.lower() for c in pilot.app.get_system_commands(screen)}
            assert {"filter", "reload", "back", "help"} <= titles

    @pytest.mark.slow
    async def test_help_names_the_keys(self) -> None:
        """`?` shows what the keys do on this screen."""
        async with console().run_test() as pilot:
            await ready(pilot)
            await pilot.press("question_mark")
            await pilot.pause()
            assert "Filter the sessions" in pilot.app.export_screenshot().replace("&#160;", " ")
