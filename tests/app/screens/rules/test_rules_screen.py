"""The rules screen: files, findings about them, and the actions on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input

from interlock.app.console.app import InterlockConsole
from interlock.app.console.history_app import HistoryConsole
from interlock.app.screens.common.detail import Detail
from interlock.app.screens.decisions.screen import DecisionsScreen
from interlock.app.screens.history.backtest import BacktestScreen
from interlock.app.screens.history.screen import HistoryScreen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.app.screens.rules.screen import RulesScreen
from interlock.app.sources.read_only import read_only
from interlock.app.widgets.lists.rules import RuleList, RulesFileList
from interlock.engine.history.model.state import SessionSummary
from interlock.rules.library import LIBRARY
from tests.support.fake_hub import FakeHub

from ...support.scenes import NOW
from ...support.stage import Stage, stage
from ..history.sessions import Source, summary
from ..replay import journal
from .folder import DEPLOY, opened, sessions


@pytest.fixture
def database(folder: Path) -> Path:
    """A journal of sessions, with rules files beside it."""
    return journal.write(folder)


def screen_of(on: Stage) -> RulesScreen:
    assert isinstance(on.app.screen, RulesScreen)
    return on.app.screen


def enabled(on: Stage, name: str) -> bool | None:
    """Tell whether a key is enabled; `None` if it is not offered."""
    found = [b for b in on.app.screen.active_bindings.values() if b.binding.id == name]
    return found[0].enabled if found else None


class TestOpening:
    @pytest.mark.slow
    async def test_files_of_the_selected_session_are_shown(self, folder: Path) -> None:
        """The screen shows the files of the selected session, each rule with its net and effect."""
        async with stage(*sessions(folder, "deploy.rules")) as on:
            await opened(on, "limit-deploy-3")
            painted = on.painted()
        assert "▸ deploy.rules" in painted
        assert "release-bot-1f3a" in painted
        assert "└ limit-deploy-1 · 3 states · 1 call of deploy a session" in painted
        assert "risk high · no grants · only when input.env" in painted
        assert "▲ warning: this limit is redundant beside a smaller one" in painted
        assert "that is in line 7 (limit deploy to 1 per session): remove the larger" in painted
        assert "7 rules · ▲ 1 warning" in painted.splitlines()[0]

    @pytest.mark.slow
    async def test_header_click_opens_the_screen(self, folder: Path) -> None:
        """The header of the live screen has the rules screen, and a click opens it."""
        async with stage(*sessions(folder, "deploy.rules")) as on:
            title = on.painted().splitlines()[0]
            await on.pilot.click("TitleBar", offset=(title.index("rules") + 1, 0))
            await on.until("─ Files")
            screen_of(on)

    @pytest.mark.slow
    async def test_history_opens_files_of_the_selected_session(self, folder: Path) -> None:
        """From the history the selected session's files are shown. Escape goes back to the history."""
        source = Source(
            [summary("a-1", source={"rules": [str(folder / "circle.rules")]}), summary("b-1")]
        )
        app = HistoryConsole(source)
        async with app.run_test(size=(120, 40)) as pilot:
            on = Stage(app, FakeHub(now=NOW), pilot)
            await on.until("b-1")
            await opened(on, "can never be called")
            assert "✗ error: 'build' and 'fetch' can never be called" in on.painted()
            await pilot.press("escape")
            assert isinstance(app.screen, HistoryScreen)

    @pytest.mark.slow
    async def test_replay_opens_rules_of_its_session(self, database: Path) -> None:
        """From a replay the screen is for its session, whose record has only the names of the rules."""
        app = journal.replay_of(database)
        async with journal.desk(app) as on:
            await on.press("R")
            await on.until("─ Files", "require-test-before-deploy")
            assert isinstance(app.screen, RulesScreen)
            await on.press("b")
            await on.until(f"this session: {journal.SESSION}")
            await on.press("escape", "escape")
            assert isinstance(app.screen, ReplayScreen)

    @pytest.mark.slow
    async def test_open_rules_screen_is_shown_again(self, folder: Path) -> None:
        """A rules screen that is already open is shown again."""
        async with stage(*sessions(folder, "deploy.rules")) as on:
            await opened(on, "limit-deploy-3")
            first = screen_of(on)
            await on.press("v")
            await on.settle()
            assert isinstance(on.app.screen, DecisionsScreen)
            await on.press("R")
            await on.settle()
            assert screen_of(on) is first

    @pytest.mark.slow
    async def test_no_session_shows_files_of_the_folder(self, folder: Path) -> None:
        """Without a session the files of this folder are shown."""
        hub = FakeHub(now=NOW)
        app = InterlockConsole(hub, operator="maria", clock=lambda: NOW)
        async with app.run_test(size=(120, 40)) as pilot:
            on = Stage(app, hub, pilot)
            await opened(on, "circle.rules:1")
            assert "OF SESSIONS" not in on.painted()
            assert "▸ circle.rules" in on.painted()

    @pytest.mark.slow
    async def test_unreadable_sessions(self, folder: Path) -> None:
        """If the sessions cannot be read, the error is shown and files can still be chosen."""

        class Broken(Source):
            async def history(self, limit: int = 200) -> list[SessionSummary]:
                if not self.sessions:
                    raise OSError("the disk is gone")
                return self.sessions

        source = Broken([summary("a-1")])
        app = HistoryConsole(source)
        async with app.run_test(size=(120, 40)) as pilot:
            on = Stage(app, FakeHub(now=NOW), pilot)
            await on.until("a-1")
            source.sessions = []
            await opened(on, "the disk is gone")
            assert "✗ The sessions cannot be read: the disk is gone" in on.painted()
            assert "circle.rules" in on.painted()


class TestChoosing:
    @pytest.mark.slow
    async def test_cursor_shows_another_file(self, folder: Path) -> None:
        """The cursor in the list shows another file. Enter goes to its text."""
        async with stage(*sessions(folder, "deploy.rules")) as on:
            await opened(on, "limit-deploy-3")
            await on.press("tab")
            assert isinstance(on.app.focused, RulesFileList)
            await on.press("down")
            await on.until("require-fetch-before-build")
            await on.press("enter")
            await on.settle()
            assert isinstance(on.app.focused, RuleList)

    @pytest.mark.slow
    async def test_c_copies_a_library_file(self, folder: Path) -> None:
        """`c` copies a library file into this folder and shows it, but never overwrites a file."""
        async with stage(*sessions(folder, "deploy.rules")) as on:
            await opened(on, "limit-deploy-3")
            assert enabled(on, "rules.copy") is None
            library = LIBRARY / "tool-approval.rules"
            screen_of(on)._take((str(library),))
            await on.until("library/tool-approval.rules:")
            assert enabled(on, "rules.copy")
            await on.press("c")
            await on.until("▸ tool-approval.rules")
            assert "Copied to tool-approval.rules" in on.painted()
            copy = folder / "tool-approval.rules"
            assert copy.read_text() == library.read_text()
            assert screen_of(on)._files == ("tool-approval.rules",)
            await on.settle()
            copy.write_text("block rm\n")
            screen_of(on)._take((str(library),))
            await on.until("library/tool-approval.rules:")
            await on.press("c")
            await on.until("tool-approval.rules is there already,")
            assert copy.read_text() == "block rm\n"
            assert screen_of(on)._files == (str(library),)

    @pytest.mark.slow
    async def test_library_file_is_marked(self, folder: Path) -> None:
        """A library file is marked as ready-made."""
        async with stage(*sessions(folder, "deploy.rules")) as on:
            await opened(on, "limit-deploy-3")
            await on.press("tab", "end")
            await on.until("ready-made: copy it to change it")
            assert "library/untrusted-content.rules" in on.painted().splitlines()[0]

    @pytest.mark.slow
    async def test_several_names_can_be_typed(self, folder: Path) -> None:
        """Several names can be typed at once. They stay in the list, and escape closes the line."""
        async with stage(*sessions(folder, "deploy.rules")) as on:
            await opened(on, "limit-deploy-3")
            await on.press("o")
            await on.settle()
            await on.press(*"circle.rules", "space")
            screen_of(on).query_one("#named", Input).value += "faulty.rules"
            await on.press("enter")
            await on.until("OPENED HERE")
            await on.until("Nothing was compiled")
            assert "circle.rules, faulty.rules" in on.painted().splitlines()[0]
            await on.press("o", "escape")
            await on.settle()
            assert isinstance(on.app.focused, RuleList)
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_unclosed_quote_is_reported(self, folder: Path) -> None:
        """An unclosed quote is reported, and nothing else changes."""
        async with stage(*sessions(folder, "deploy.rules")) as on:
            await opened(on, "limit-deploy-3")
            await on.press("o")
            await on.settle()
            await on.press('"', "a", "enter")
            await on.until("has a quote that is not closed")
            assert screen_of(on).view is not None

    @pytest.mark.slow
    async def test_a_faulty_file(self, folder: Path) -> None:
        """G-40: each error is at its line, no picture is offered, and other files still open."""
        async with stage(*sessions(folder, "faulty.rules")) as on:
            await opened(on, "Nothing was compiled")
            painted = on.painted()
            assert "✗ error, column 14: expected 'before' at position 3, got 'after'" in painted
            assert "write: require <tool> before <tool>" in painted
            assert "✗ 3 errors" in painted.splitlines()[0]
            assert enabled(on, "rules.picture") is False
            await on.press("n")
            await on.settle()
            assert screen_of(on).query_one(RuleList).where() == "faulty.rules:2"
            await on.press("N")
            await on.settle()
            assert screen_of(on).query_one(RuleList).where() == "faulty.rules:1"
            await on.press("tab", "down")
            await on.until("require-fetch-before-build")


class TestReading:
    async def test_changed_file_is_reported_and_read_on_f5(self, folder: Path) -> None:
        """A file that changes on disk is reported. F5 shows the new text."""
        async with stage(*sessions(folder, "deploy.rules")) as on:
            await opened(on, "limit-deploy-3")
            (folder / "deploy.rules").write_text(DEPLOY + "block push\n")
            screen_of(on).look()
            await on.until("◐ deploy.rules has changed on disk · f5 reads again")
            assert "block-push" not in on.painted()
            await on.press("f5")
            await on.until("block-push")
            assert "changed on disk" not in on.painted()

    @pytest.mark.slow
    async def test_removed_file_is_reported(self, folder: Path) -> None:
        """A removed file counts as changed. After f5 it is reported as missing."""
        async with stage(*sessions(folder, "deploy.rules")) as on:
            await opened(on, "limit-deploy-3")
            (folder / "deploy.rules").unlink()
            screen_of(on).look()
            await on.until("has changed on disk")
            await on.press("f5")
            await on.until("no such rules file")

    @pytest.mark.slow
    async def test_cursor_line_stays_after_f5(self, folder: Path) -> None:
        """After f5 the cursor is on the same line."""
        async with stage(*sessions(folder, "deploy.rules")) as on:
            await opened(on, "limit-deploy-3")
            await on.press("n")
            assert screen_of(on).query_one(RuleList).where() == "deploy.rules:8"
            await on.press("f5")
            await opened(on, "limit-deploy-3")
            assert screen_of(on).query_one(RuleList).where() == "deploy.rules:8"


class TestFromALine:
    async def test_p_draws_the_initial_net(self, folder: Path) -> None:
        """`p` draws the initial net of the rule under the cursor. Elsewhere it is greyed and says why."""
        async with stage(*sessions(folder, "deploy.rules")) as on:
            await opened(on, "limit-deploy-3")
            assert enabled(on, "rules.picture") is False
            await on.press("p")
            await on.until("No rule is under the cursor.")
            await on.press("n")
            await on.settle()
            assert enabled(on, "rules.picture") is True
            await on.press("p")
            await on.until("Net: limit-deploy-3")
            assert "(●) ready   (3) budget" in on.painted()

    @pytest.mark.slow
    async def test_enter_shows_the_net_as_check_does(self, folder: Path) -> None:
        """Enter shows the net as `interlock check` prints it, with the findings of the line."""
        async with stage(*sessions(folder, "deploy.rules")) as on:
            await opened(on, "limit-deploy-3")
            await on.press("n", "enter")
            await on.until("do-deploy: ready, budget → ready; on deploy")
            assert isinstance(on.app.screen, Detail)
            painted = on.painted()
            assert "places        idle 1, ready, budget 3" in painted
            assert "ready:1, budget:2" in painted
            assert "warning: this limit is redundant" in painted

    @pytest.mark.slow
    async def test_b_opens_the_backtest(self, folder: Path) -> None:
        """`b` opens the backtest with these files, for this session."""
        async with stage(*sessions(folder, "deploy.rules", "circle.rules")) as on:
            await opened(on, "limit-deploy-3")
            await on.press("b")
            await on.until("this session: release-bot-1f3a")
            assert isinstance(on.app.screen, BacktestScreen)
            assert on.app.screen.query_one("#rules", Input).value == "deploy.rules circle.rules"
            await on.press("escape")
            await on.settle()
            screen_of(on)

    @pytest.mark.slow
    async def test_backtest_runs(self, database: Path) -> None:
        """A backtest from the rules screen runs to its result."""
        app = journal.replay_of(database)
        async with journal.desk(app) as on:
            await on.press("R")
            await on.until("─ Files")
            await on.press("o", *"strict.rules", "enter")
            await on.until("require-lint-before-test", "block-deploy")
            await on.press("b", "enter")
            await on.until("✓ done", "5 calls in 1 session, 1 with a divergence")

    @pytest.mark.slow
    async def test_no_journal(self, folder: Path) -> None:
        """Without a journal the key is not offered."""
        app = HistoryConsole(Source([summary()]))
        async with app.run_test(size=(120, 40)) as pilot:
            on = Stage(app, FakeHub(now=NOW), pilot)
            await opened(on, "circle.rules")
            assert enabled(on, "rules.backtest") is None


@pytest.mark.slow
async def test_read_only(folder: Path) -> None:
    """A read-only console shows the rules and asks the hub for nothing but to read."""
    hub = FakeHub(*sessions(folder, "deploy.rules"), now=NOW)
    app = InterlockConsole(read_only(hub), operator="maria", clock=lambda: NOW)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        on = Stage(app, hub, pilot)
        await on.until("release-bot")
        await opened(on, "limit-deploy-3")
        assert enabled(on, "rules.backtest") is True
        await on.press("n", "p")
        await on.until("Net: limit-deploy-3")
    assert hub.asked == []
