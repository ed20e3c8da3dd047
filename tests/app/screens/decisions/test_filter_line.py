"""The filter line: reopening, leaving and clearing it, and the messages below it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from textual.widgets import Input
from textual.worker import WorkerCancelled

from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from tests.support.decisions import call, opened, usual

from .decisions_world import desk


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return usual(tmp_path_factory.mktemp("filter") / "deploy.db")


class TestTyping:
    @pytest.mark.slow
    async def test_reopened_line_continues_at_its_end(self, journal: Path) -> None:
        """A reopened line continues at its end. Down, like enter, goes to the list."""
        async with desk(journal, (80, 24)) as on:
            await on.press("slash", *"tool:deploy", "enter")
            await on.until("4 decisions match")
            await on.press("slash", *" verdict:block", "down")
            await on.until("1 decision match", "tool:deploy verdict:block")
            assert on.table.has_focus

    @pytest.mark.slow
    async def test_footer_shows_keys_of_the_line(self, journal: Path) -> None:
        """In the line `/` is an ordinary letter. The footer shows the keys that leave and clear it."""
        async with desk(journal, (80, 24)) as on:
            assert "/ filter" in on.painted().split("\n")[-1]
            await on.press("slash", *"rm")
            await on.until("3 decisions match", "enter list", "esc clear")
            assert "/ filter" not in on.painted().split("\n")[-1]
            await on.press("slash")
            assert on.screen.query_one(Input).value == "rm/"
            await on.press("escape")
            await on.until("12 decisions", "/ filter", gone="esc clear")
            assert on.table.has_focus

    @pytest.mark.slow
    async def test_no_match_has_no_time_course(self, journal: Path) -> None:
        """A filter without matches shows no time course."""
        async with desk(journal, (80, 24)) as on:
            await on.until("11-20 13:23 ", " 11-20 13:31")
            await on.filter("since:1m")
            await on.until("No decision matches.", gone="11-20 1")


class TestYesterday:
    @pytest.mark.slow
    async def test_later_time_of_day_means_yesterday(self, journal: Path) -> None:
        """A time of day later than now means yesterday, and the screen says so."""
        async with desk(journal, (80, 24)) as on:
            await on.filter("since:23:30")
            await on.until("since:23:30 means yesterday, 2026-11-19 23:30")
            await on.filter("since:00:30")
            await on.until("since:00:30", gone="yesterday")


class TestFailing:
    async def test_journal_error_disappears_after_next_read(
        self, journal: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A journal error disappears after the next successful read. An error in the filter stays."""
        async with desk(journal) as on:
            feed = on.screen._feed
            looks, broken = feed._source.scan_decisions, True

            async def scan(*given: object, **more: object) -> object:
                if broken:
                    raise JournalError("the disk was away")
                return await looks(*given, **more)  # type: ignore[arg-type]

            monkeypatch.setattr(feed._source, "scan_decisions", scan)
            await on.press("f5")
            await on.until("✗ the disk was away", "0 decisions")
            broken = False
            on.screen._look_again()
            await on.until("12 decisions", gone="the disk was away")
            await on.filter("verdict:no")
            await on.until("'no' is not a verdict")
            on.screen._look_again()
            with suppress(WorkerCancelled):  # a new look cancels the previous one
                await on.pilot.app.workers.wait_for_complete()
            await on.until("'no' is not a verdict")


class TestShadow:
    @pytest.mark.slow
    async def test_a_session_s_differing_calls_are_listed(self, journal: Path) -> None:
        """G-26: `enter` in the shadow panel lists the calls that enforce would have blocked or asked."""
        async with desk(journal, (80, 24)) as on:
            await on.press("slash", *"since:2026-11-20T13:26", "enter")
            await on.until("S Shadow")
            await on.press("s")
            await on.until("enter lists them")
            await on.press("enter")
            await on.until("T13:26 session:nightly-sync-02 verdict:shadow", "4 decisions match")
            assert on.table.has_focus

    @pytest.mark.slow
    async def test_the_summary_follows_the_filter(self, journal: Path) -> None:
        """The shadow summary leaves out calls that the filter leaves out."""
        async with desk(journal) as on:
            await on.until("S Shadow: 1 session, 5 calls")
            await on.filter("tool:rm")
            await on.until("S Shadow: 1 session, 3 calls")
            await on.filter("verdict:denied")
            await on.until("1 decision matches", gone="S Shadow")

    @pytest.mark.slow
    async def test_untypable_session_name_is_reported(self, tmp_path: Path) -> None:
        """Calls of a session whose name cannot be typed are not listed; the screen reports why."""
        path = tmp_path / "j.db"
        with Journal.open(path) as written:
            written.write('a"b', opened("bot", "shadow"), call("c1", "rm", "rm x", mode="shadow"))
        async with desk(path) as on:
            await on.until("S Shadow: 1 session")
            await on.press("s")
            await on.until("enter lists them")
            await on.press("enter")
            await on.until("Its name cannot be typed.", "1 decision ")
