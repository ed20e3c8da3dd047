"""The what-if screen: other nets from an event on, and the verdicts that they would have given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import pytest
from textual.widgets import Input, Static

from interlock.app.screens.replay.screen import ReplayScreen
from interlock.app.screens.replay.what_if import WhatIfDialog
from interlock.app.screens.replay.what_if_result import JudgedScreen
from interlock.app.screens.replay.what_if_text import MUTED
from interlock.app.widgets.base.blocks import BlockList
from interlock.engine.backtest import RecordedCall, RecordedOutcome, Recording, source
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import JournalEvent, MessageAdded
from interlock.engine.history.model.state import SessionState

from .journal import EVENTS, SESSION, Desk, desk, replay_of
from .recording import BODIES, decided, rule, says


async def open_dialog(shown: Desk, at: int) -> WhatIfDialog:
    """Open the dialog with its key at an event."""
    replay = shown.app.screen
    assert isinstance(replay, ReplayScreen)
    replay.position = at
    await shown.press("w")
    await shown.when(lambda: isinstance(shown.app.screen, WhatIfDialog), "the dialog")
    asking = shown.app.screen
    assert isinstance(asking, WhatIfDialog)
    return asking


async def judged_lines(shown: Desk) -> list[str]:
    """The lines of the answer, after all calls are judged."""
    await shown.when(lambda: isinstance(shown.app.screen, JudgedScreen), "the answer")
    await shown.app.workers.wait_for_complete()
    await shown.pilot.pause()
    calls = shown.app.screen.query_one(BlockList)
    return [" ".join(line.plain.split()) for block in calls.blocks for line in block.lines(116)]


def painted_switches(asking: WhatIfDialog) -> list[str]:
    """The painted switches."""
    return [line.plain for b in asking.query_one(BlockList).blocks for line in b.lines(90)]


def assumptions_or_error(asking: WhatIfDialog) -> str:
    """The assumptions, or the error."""
    return str(asking.query_one("#said", Static).content)


class TestDialog:
    """The dialog's switches and files."""

    async def test_switches_start_with_nets_of_the_event(self, database: Path) -> None:
        """The switches start as the nets were at the event, and the dialog shows its assumptions."""
        async with desk(replay_of(database)) as shown:
            asking = await open_dialog(shown, 4)
            assert [box[:3] for box in painted_switches(asking)] == ["[x]"] * 4 + ["[ ]"]
            assert "deploy.rules:5  block push" in painted_switches(asking)[-1]
            assert "What if, after event 4" in shown.painted()
            assert "by the names they were recorded under" in assumptions_or_error(asking)
            assert "whatever was switched later" in assumptions_or_error(asking)
            await shown.press("escape")
            assert [box[:3] for box in painted_switches(await open_dialog(shown, 11))] == ["[x]"] * 5

    @pytest.mark.slow
    async def test_escape_changes_nothing(self, database: Path) -> None:
        """Escape goes back to the event."""
        async with desk(replay_of(database)) as shown:
            await open_dialog(shown, 4)
            await shown.press("space", "escape")
            assert isinstance(shown.app.screen, ReplayScreen)
            assert shown.app.screen.position == 4

    @pytest.mark.slow
    async def test_rules_that_do_not_compile(self, database: Path) -> None:
        """The compiler's message is shown with its place, and the text can be corrected."""
        async with desk(replay_of(database), size=(80, 24)) as shown:
            asking = await open_dialog(shown, 4)
            await shown.press("shift+tab")
            await shown.write("faulty.rules")
            await shown.press("ctrl+s")
            painted = await shown.until("✗ faulty.rules:1:14: expected 'before'")
            assert "require lint after test" in painted
            assert asking.query_one(Input).has_focus
            assert shown.app.screen is asking

    @pytest.mark.slow
    async def test_missing_file_is_named(self, database: Path) -> None:
        """A missing file is named, whatever its name."""
        async with desk(replay_of(database)) as shown:
            asking = await open_dialog(shown, 4)
            asking.query_one(Input).value = "[red]gone.rules"
            await shown.press("ctrl+s")
            await shown.until("✗ [red]gone.rules")

    @pytest.mark.slow
    async def test_enter_offers_nets_of_the_files(self, database: Path) -> None:
        """Enter reads the files and offers their nets. Without a file the session's nets are offered."""
        async with desk(replay_of(database)) as shown:
            asking = await open_dialog(shown, 4)
            asking.query_one(Input).focus()
            await shown.write("strict.rules")
            await shown.press("enter")
            await shown.until("approve-before-push")
            assert [box[:3] for box in painted_switches(asking)] == ["[x]"] * 3
            assert "keep its marking" in assumptions_or_error(asking)
            asking.query_one(Input).value = ""
            asking.query_one(Input).focus()
            await shown.press("enter")
            await shown.until("limit-deploy-2")
            assert len(painted_switches(asking)) == 5

    @pytest.mark.slow
    async def test_double_click_switches_a_net(self, database: Path) -> None:
        """A double click switches a net."""
        async with desk(replay_of(database)) as shown:
            asking = await open_dialog(shown, 4)
            await shown.pilot.click("#boxes", offset=(6, 3), times=2)
            await shown.pilot.pause()
            assert painted_switches(asking)[3].startswith("[ ] block-rm")


class TestAnswer:
    """Each call with its old and new verdict."""

    @pytest.mark.slow
    async def test_a_net_switched_off(self, database: Path) -> None:
        """Without `block rm` the call of rm is allowed; the calls before it stay as recorded."""
        async with desk(replay_of(database)) as shown:
            await open_dialog(shown, 2)
            await shown.press(*["down"] * 3, "space", "ctrl+s")
            lines = await judged_lines(shown)
            assert lines == [
                "3 14:00:10 test ▸ allowed → same",
                "7 14:00:30 deploy prod ◐ approved → same",
                "9 14:00:40 push main ▸ allowed → same",
                "▶ 12 14:00:55 rm build ■ blocked → ▸ allowed deploy.rules:4",
            ]
            painted = shown.painted()
            assert "after event 2 · without block-rm" in painted
            assert "4 calls, 0 of them hypothetical" in painted
            assert "▸ 1 newly allowed" in painted

    @pytest.mark.slow
    async def test_a_net_switched_on(self, database: Path) -> None:
        """With `block push` switched on earlier, the push differs and the rest is hypothetical."""
        async with desk(replay_of(database)) as shown:
            await open_dialog(shown, 2)
            await shown.press("end", "space", "ctrl+s")
            await shown.when(lambda: isinstance(shown.app.screen, JudgedScreen))
            lines = await judged_lines(shown)
            assert "▶ 9 14:00:40 push main ▸ allowed → ■ blocked deploy.rules:5" in lines
            assert lines[-1] == "~ 12 14:00:55 rm build ■ blocked → same hypothetical"

    @pytest.mark.slow
    async def test_the_rest_is_hypothetical(self, database: Path) -> None:
        """After the first call that differs, the rest is dimmed and marked as hypothetical."""
        async with desk(replay_of(database)) as shown:
            asking = await open_dialog(shown, 1)
            asking.query_one(Input).value = "strict.rules"
            await shown.press("ctrl+s")
            lines = await judged_lines(shown)
            assert lines[0] == "2 14:00:05 deploy prod ■ blocked → same"
            assert lines[1] == "▶ 3 14:00:10 test ▸ allowed → ■ blocked strict.rules:1"
            assert "hypothetical from here on" in lines[2]
            assert lines[3:] == [
                "~ 7 14:00:30 deploy prod ◐ approved → ■ blocked strict.rules:3 hypothetical",
                "~ 9 14:00:40 push main ▸ allowed → ◐ asks strict.rules:2 hypothetical",
                "~ 12 14:00:55 rm build ■ blocked → ▸ allowed deploy.rules:4 hypothetical",
            ]
            blocks = shown.app.screen.query_one(BlockList).blocks
            rows = [block.lines(116)[0] for block in blocks]
            muted = [
                any(s.style == MUTED and (s.start, s.end) == (0, len(row)) for s in row.spans)
                for row in rows
            ]
            assert muted == [False, False, False, True, True, True]
            assert "3 of them hypothetical" in shown.painted()

    @pytest.mark.slow
    async def test_no_difference_is_reported(self, database: Path) -> None:
        """If no call differs, the answer says so."""
        async with desk(replay_of(database)) as shown:
            await open_dialog(shown, 4)
            await shown.press("ctrl+s")
            assert all("→ same" in line for line in await judged_lines(shown))
            assert "nothing would have gone differently" in shown.painted()
            await shown.press("d")
            await shown.until("No call was judged differently. Press d to see all.")

    @pytest.mark.slow
    async def test_no_calls_after_the_last_event(self, database: Path) -> None:
        """After the last event there is nothing to judge."""
        async with desk(replay_of(database)) as shown:
            await open_dialog(shown, EVENTS)
            await shown.press("ctrl+s")
            await judged_lines(shown)
            assert "No call was recorded after this event." in shown.painted()

    @pytest.mark.slow
    async def test_enter_opens_the_event(self, database: Path) -> None:
        """The first difference is selected. Enter goes to its event in the replay."""
        async with desk(replay_of(database)) as shown:
            await open_dialog(shown, 2)
            await shown.press(*["down"] * 3, "space", "ctrl+s")
            await judged_lines(shown)
            await shown.press("enter")
            await shown.when(lambda: isinstance(shown.app.screen, ReplayScreen))
            assert isinstance(shown.app.screen, ReplayScreen)
            assert shown.app.screen.position == 12

    @pytest.mark.slow
    async def test_double_click_opens_the_event(self, database: Path) -> None:
        """A double click goes to the event, too."""
        async with desk(replay_of(database)) as shown:
            await open_dialog(shown, 2)
            await shown.press("ctrl+s")
            await judged_lines(shown)
            await shown.pilot.click("#calls", offset=(10, 1), times=2)
            await shown.when(lambda: isinstance(shown.app.screen, ReplayScreen))
            assert isinstance(shown.app.screen, ReplayScreen)
            assert shown.app.screen.position == 7

    @pytest.mark.slow
    async def test_d_shows_only_differences(self, database: Path) -> None:
        """`d` shows only differences; `n` and `p` go to the next and the previous one."""
        async with desk(replay_of(database)) as shown:
            asking = await open_dialog(shown, 1)
            asking.query_one(Input).value = "strict.rules"
            await shown.press("ctrl+s")
            await judged_lines(shown)
            calls = shown.app.screen.query_one(BlockList)
            found = [calls.current]
            for key in ("n", "n", "p"):
                await shown.press(key)
                found.append(calls.current)
            assert found == ["3", "7", "9", "7"]
            await shown.press("d")
            assert not any("→ same" in line for line in await judged_lines(shown))
            await shown.press("d")
            assert any("→ same" in line for line in await judged_lines(shown))

    @pytest.mark.slow
    async def test_old_and_new_decision_are_shown_in_full(self, database: Path) -> None:
        """Below the list are the old decision with operator and reason, and the new one."""
        async with desk(replay_of(database)) as shown:
            asking = await open_dialog(shown, 4)
            asking.query_one(Input).value = "strict.rules"
            await shown.press("ctrl+s")
            await judged_lines(shown)
            painted = await shown.until("then  ◐ needed approval: approved by maria")
            assert "now   ■ blocked: deploy is blocked" in painted
            assert "strict.rules:3  block deploy" in painted

    @pytest.mark.slow
    async def test_escape_returns_to_the_event(self, database: Path) -> None:
        """Escape goes back to the event from which the dialog was opened."""
        async with desk(replay_of(database)) as shown:
            await open_dialog(shown, 4)
            await shown.press("ctrl+s")
            await judged_lines(shown)
            await shown.press("escape")
            await shown.when(lambda: isinstance(shown.app.screen, ReplayScreen))
            assert isinstance(shown.app.screen, ReplayScreen)
            assert shown.app.screen.position == 4

    @pytest.mark.slow
    async def test_escape_cancels_and_keeps_results(
        self, database: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Escape cancels the judgement and keeps its results. A second escape goes back.

        Until the calls are known, the screen makes no statement about them.
        """
        silence = "No call was recorded"
        begun = threading.Event()

        def endless(
            events: Iterable[JournalEvent], at: int, trial: Callable[[SessionState], object]
        ) -> Recording:
            trial(fold(islice(events, at)))
            begun.wait(30)
            calls = (RecordedCall(n, f"c{n}", "push", {}, RecordedOutcome()) for n in range(1, 5_000_000))
            return Recording(SESSION, calls)

        monkeypatch.setattr(source, "fork", endless)
        async with desk(replay_of(database)) as shown:
            await open_dialog(shown, 1)
            await shown.press("ctrl+s")
            painted = await shown.until("judging", "esc cancels")
            assert silence not in painted
            assert "0 of 0" not in painted
            begun.set()
            await shown.until("judging, ", "esc cancels")
            screen = shown.app.screen
            assert isinstance(screen, JudgedScreen)
            await shown.press("escape")
            await shown.app.workers.wait_for_complete()
            await shown.until("cancelled")
            assert shown.app.screen is screen
            await shown.press("escape")
            await shown.when(lambda: isinstance(shown.app.screen, ReplayScreen))


@pytest.mark.slow
class TestSpoofing:
    """Hostile text in a record."""

    async def test_hostile_text_is_shown_as_text(self, tmp_path: Path) -> None:
        """Names, inputs, reasons and rules of a record are shown as text."""
        evil = "[@click=app.quit]x[/] [/nope] \x1b[2J\x9b31m \u202egnp\u2066 \ue000"
        calls = [
            MessageAdded(role="user", text=evil),
            says("c1", evil, evil),
            decided("c1", evil, evil, outcome="block", reason=evil, net="block-rm", rule=rule(1, evil)),
            decided("c2", "rm", evil, approved_by=(evil,)),
        ]
        path = tmp_path / "evil.db"
        with Journal.open(path) as journal:
            journal.write("evil-1", BODIES[0], *calls)
        async with desk(replay_of(path, "evil-1")) as shown:
            await open_dialog(shown, 1)
            await shown.press("ctrl+s")
            await judged_lines(shown)
            for key in ("home", "down", "end"):
                await shown.press(key)
                await shown.pilot.pause()
                svg = shown.app.export_screenshot()
                assert not {"\x1b", "\x9b", "\u202e", "\u2066", "\ue000"} & set(svg)
                assert "@click" in svg
            await shown.press("escape")
            for at in (3, 4, 5):
                replay = shown.app.screen
                assert isinstance(replay, ReplayScreen)
                replay.position = at
                await shown.press("o")
                await shown.app.workers.wait_for_complete()
                await shown.pilot.pause()
                svg = shown.app.export_screenshot()
                assert not {"\x1b", "\x9b", "\u202e", "\u2066", "\ue000"} & set(svg)
                await shown.press("escape")


def secret_journal(folder: Path, password: str) -> Path:
    """A journal with one call, and rules that match the secret in it."""
    (folder / "look.rules").write_text(f"map bash.command {password} as leak\nblock leak\n")
    path = folder / "secret.db"
    with Journal.open(path) as journal:
        call = decided("c1", "bash", f"x --password {password}", names=("bash",))
        journal.write("secret-1", BODIES[0], call)
    return path


@pytest.mark.slow
class TestSecrets:
    """Rules judge the recorded input; the screen shows it masked."""

    async def test_map_matches_a_masked_secret(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A map can match a masked secret, here and in a backtest."""
        monkeypatch.chdir(tmp_path)
        password = "correct-horse-battery"
        path = secret_journal(tmp_path, password)
        async with desk(replay_of(path, "secret-1")) as shown:
            asking = await open_dialog(shown, 1)
            asking.query_one(Input).value = "look.rules"
            await shown.press("ctrl+s")
            lines = await judged_lines(shown)
            assert "▸ allowed → ■ blocked look.rules:2" in lines[0]
            assert "[masked" in lines[0]
            assert password not in shown.painted()
            await shown.press("escape", "b")
            await shown.write("look.rules")
            await shown.press("enter")
            painted = await shown.until("✓ done", "[masked: ")
            assert "1 newly blocked" in painted
            assert password not in painted
