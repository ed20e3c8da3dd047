"""The suggestions screen: its proposals, its rules files, its errors, and its pictures."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from interlock.app.config.rules_writer import RulesWriter
from interlock.app.console.history_app import HistoryConsole
from interlock.app.screens.common.confirm import Confirm
from interlock.app.screens.decisions.screen import DecisionsScreen
from interlock.app.screens.decisions.suggestions import SuggestionDetail, SuggestionsScreen, edit_of
from interlock.app.screens.live.loosen import Loosen
from interlock.app.sources.recorded_file import RecordedFile
from interlock.engine.backtest.suggestions import Suggestion, Support
from tests.engine.backtest.suggestions.learning import Did, deploys, record
from tests.support.clock import Clock
from tests.support.decisions import NOW, usual

from .decisions_world import Desk

Compare = Callable[..., bool]
SIZES = [(120, 40), (80, 24), (60, 24)]
NAMES = ["120x40", "80x24", "60x24"]
RULES = """\
require human-approval before deploy  # the usual
require human-approval before push risk high
require human-approval before merge by 2
require human-approval before migrate no grants
"""
ENDED = "What held in this history"
GUARDED = ("push", "merge", "migrate")


def calls() -> list[Did]:
    """Deploys to staging are approved, deploys to production denied, all other calls approved."""
    others = [Did(tool, {"branch": "main"}) for tool in ("push", "migrate") for _ in range(12)]
    return [*deploys(22, env="staging"), *deploys(2, approved=False, env="prod"), *others]


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal of these calls, with its rules file in the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("deploy.rules").write_text(RULES)
    path = tmp_path / "deploy.db"
    record(path, RULES, [calls()], clock=Clock())
    return path


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A journal without calls."""
    path = tmp_path / "none.db"
    record(path, RULES, [[]])
    return path


def text_of(journal: Path) -> str:
    return (journal.parent / "deploy.rules").read_text()


def delete_rules(journal: Path) -> None:
    (journal.parent / "deploy.rules").unlink()


def write(path: Path, text: str) -> None:
    path.write_text(text)


def console(path: Path) -> HistoryConsole:
    return HistoryConsole(RecordedFile(path), zone=UTC, clock=lambda: NOW)


async def opened(pilot: Pilot[None]) -> None:
    """Go from the history over the decisions to the suggestions."""
    on = Desk(pilot.app, pilot)
    await on.press("v")
    await on.when(lambda: isinstance(on.app.screen, DecisionsScreen))
    await on.when(lambda: on.table.total == 0 or on.table.current is not None)
    await on.press("p")
    await on.when(lambda: isinstance(on.app.screen, SuggestionsScreen))


@asynccontextmanager
async def suggested(path: Path, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Desk]:
    app = console(path)
    async with app.run_test(size=size, notifications=True) as pilot:
        await opened(pilot)
        yield Desk(app, pilot)


class TestProposed:
    @pytest.mark.slow
    async def test_suggestion_shows_lines_support_and_effect(self, journal: Path) -> None:
        """A suggestion shows the old and the new line, its support, and its effect on recorded calls."""
        async with suggested(journal) as on:
            text = await on.until(ENDED)
            assert "1 suggestion" in text
            assert "deploy.rules:1" in text
            assert "- require human-approval before deploy  # the usual" in text
            assert (
                '+ require human-approval before deploy when input.env != "staging" # the usual' in text
            )
            assert "22 calls in 1 session approved by maria" in text
            assert "2 denied calls it still asks" in text
            assert "22 approval requests saved, 22 newly allowed, 0 newly asked" in text

    @pytest.mark.slow
    async def test_guarded_rules_get_no_suggestion(self, journal: Path) -> None:
        """Rules with a high risk, several approvers or no grants get no suggestion."""
        async with suggested(journal) as on:
            text = await on.until(ENDED)
            assert not any(tool in text for tool in GUARDED)

    @pytest.mark.slow
    async def test_enter_opens_suggestion_in_full(self, journal: Path) -> None:
        """Enter opens a suggestion: the calls newly allowed, the findings of check, scenarios."""
        async with suggested(journal) as on:
            await on.until(ENDED)
            await on.press("enter")
            await on.when(lambda: isinstance(on.app.screen, SuggestionDetail))
            text = await on.until("NEWLY ALLOWED", "bot-0 event")
            assert "and 2 more" in text
            await on.press("end")
            await on.until("CHECK", "no new findings", "SCENARIOS", 'scenario "deploy passes (1)"')
            await on.press("c")
            assert 'when input.env != "staging"' in on.app.clipboard

    @pytest.mark.slow
    async def test_key_copies_the_rule(self, journal: Path) -> None:
        """The key copies the rule as a whole line and leaves the file unchanged."""
        async with suggested(journal) as on:
            await on.until(ENDED)
            await on.press("c")
            await on.until("Copied: write it into your rules file")
            assert on.app.clipboard == (
                'require human-approval before deploy when input.env != "staging" # the usual'
            )
            assert text_of(journal) == RULES

    @pytest.mark.slow
    async def test_saved_suggestion_replaces_the_line(self, journal: Path) -> None:
        """After a reason and a confirmation the line is replaced in the file."""
        async with suggested(journal) as on:
            await on.until(ENDED)
            await on.press("s")
            await on.when(lambda: isinstance(on.app.screen, Loosen))
            await on.press(*"safe", "enter")
            await on.when(lambda: isinstance(on.app.screen, Confirm))
            confirm = on.app.screen
            assert isinstance(confirm, Confirm)
            await on.when(lambda: confirm._shown_at is not None)
            confirm._shown_at = 0.0
            await on.press("y")
            await on.until("Saved in")
            first, second, rest = text_of(journal).split("\n", 2)
            assert first == f"# {NOW:%Y-%m-%d} operator: safe"
            assert (
                second == 'require human-approval before deploy when input.env != "staging" # the usual'
            )
            assert rest == RULES.partition("\n")[2]

    @pytest.mark.parametrize(
        "place", ["other.rules:1", "deploy.rules:99", "deploy.rules:0", "deploy.rules"]
    )
    def test_suggestion_for_an_unknown_line_is_rejected(self, place: str) -> None:
        """A suggestion from a server is rejected if its place is not a line of these rules."""
        suggestion = Suggestion(kind="value", rule="block rm", replaces=place, support=Support(calls=1))
        with pytest.raises(ValueError, match="is not a line of these rules"):
            edit_of(suggestion, {"deploy.rules": RULES})

    @pytest.mark.slow
    async def test_period_without_calls(self, journal: Path) -> None:
        """For a period without calls the screen suggests nothing and says why."""
        async with suggested(journal) as on:
            await on.until(ENDED)
            await on.press("t")
            await on.until("last 24 h", "No recorded call to learn from.")

    @pytest.mark.slow
    async def test_other_files(self, journal: Path) -> None:
        """Named files replace the offered ones. Errors are shown."""
        write(journal.parent / "own", 'require human-approval before deploy when input.env = "x"\n')
        async with suggested(journal) as on:
            await on.until(ENDED)
            await on.press("r", "right")
            named = on.app.screen.query_one("#named", Input)
            await on.when(lambda: named.has_focus)
            named.value = "nothing.rules"
            await on.press("enter")
            await on.until("✗", "nothing.rules")
            named.value = "own"
            named.focus()
            await on.press("enter")
            await on.until("0 suggestions", "Nothing to suggest")

    @pytest.mark.slow
    async def test_no_files(self, journal: Path) -> None:
        """If no files are known, the line for names has the focus."""
        delete_rules(journal)
        async with suggested(journal) as on:
            await on.until("Choose or name the rules files")
            assert on.app.focused is on.app.screen.query_one("#named")


class TestEnded:
    @pytest.mark.slow
    async def test_cancelled(self, journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Escape cancels the running analysis and reports it. A second escape leaves the screen."""
        entered, go_on = threading.Event(), threading.Event()
        compiled = RulesWriter.compiled

        def slowly(self: RulesWriter, rules: object) -> object:
            entered.set()
            go_on.wait(20)
            return compiled(self, rules)  # type: ignore[arg-type]

        monkeypatch.setattr(RulesWriter, "compiled", slowly)
        async with suggested(journal) as on:
            await on.when(entered.is_set)
            await on.until("esc cancels", "0 % read")
            await on.press("escape")
            await on.until("cancelled: nothing is suggested")
            go_on.set()
            await on.press("escape")
            await on.when(lambda: isinstance(on.app.screen, DecisionsScreen))

    async def test_an_empty_journal(self, empty: Path) -> None:
        """For a journal without calls the key is greyed and reports why."""
        app = console(empty)
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            on = Desk(app, pilot)
            await on.press("v")
            await on.when(lambda: isinstance(app.screen, DecisionsScreen))
            await on.when(lambda: not on.screen._searching)
            await on.press("p")
            await on.until("No call is recorded in this journal.")
            assert isinstance(app.screen, DecisionsScreen)

    @pytest.mark.slow
    async def test_unreadable_journal(self, tmp_path: Path) -> None:
        """If the journal cannot be read, the screen shows the error."""
        app = console(usual(tmp_path / "deploy.db"))
        async with app.run_test(size=(80, 24)) as pilot:
            on = Desk(app, pilot)
            screen = SuggestionsScreen(RecordedFile(tmp_path / "no.db"), clock=lambda: NOW)
            app.push_screen(screen)
            await on.when(lambda: screen.is_mounted and screen.query_one("#named").has_focus)
            write(tmp_path / "a.rules", "block rm\n")
            screen.query_one("#named", Input).value = str(tmp_path / "a.rules")
            await on.press("enter")
            await on.until("✗")


def opened_after_keys(*keys: str, until: str) -> Callable[[Pilot[None]], object]:
    async def run(pilot: Pilot[None]) -> None:
        await opened(pilot)
        on = Desk(pilot.app, pilot)
        await on.until(ENDED)
        await on.press(*keys)
        await on.until(until)
        await pilot.app.workers.wait_for_complete()
        await pilot.pause(0.05)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=NAMES)
class TestLooks:
    def test_list(self, journal: Path, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The suggestions with their rules files."""
        run = opened_after_keys(until="What held in this history")
        assert snap_compare(console(journal), terminal_size=size, run_before=run)

    def test_in_full(self, journal: Path, snap_compare: Compare, size: tuple[int, int]) -> None:
        """One suggestion, opened."""
        run = opened_after_keys("enter", until="DOES")
        assert snap_compare(console(journal), terminal_size=size, run_before=run)
