"""The title bar: screens with their digits at every size, and fields where a digit is text."""

from __future__ import annotations

import pytest
from textual import events
from textual._xterm_parser import XTermParser
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Input

from interlock.app.console.app import InterlockConsole
from interlock.app.console.history_app import HistoryConsole
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.common.help import Help
from interlock.app.screens.decisions.screen import DecisionsScreen
from interlock.app.screens.history.backtest import BacktestScreen
from interlock.app.screens.history.screen import HistoryScreen
from interlock.app.screens.live.keys import PANES
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.screens.replay.keys import PANES as REPLAY_PANES
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.app.screens.rules.screen import RulesScreen
from interlock.app.screens.triage.screen import TriageScreen
from interlock.app.terminal.appearance import Appearance
from interlock.app.terminal.bindings import SCREENS
from interlock.app.terminal.charset import use_ascii
from interlock.app.terminal.key_rights import Permission
from interlock.app.widgets.base.bars import PaneTabs
from interlock.app.widgets.base.title_bar import ScreenBar
from interlock.app.widgets.inputs.say_line import SayLine
from interlock.app.widgets.lists.sessions import NOTHING_WAITS
from interlock.engine.core.rights import Rights

from ...support.fake_hub import FakeHub
from ..connect.test_looks import ServersHub
from ..screens.history.sessions import SESSIONS, Source
from ..screens.replay.recording import recording
from ..support.scenes import NOW
from ..support.stage import Stage, everyone, stage

KINDS: tuple[type[Screen[None]], ...] = (
    LiveScreen,
    DecisionsScreen,
    HistoryScreen,
    RulesScreen,
    TriageScreen,
)
"""The screens in the order of their digits."""
ALL = "1 live  2 decisions  3 history  4 rules  5 triage"
CLOSE = "1 live 2 decisions 3 history 4 rules 5 triage"


def title(on: Stage) -> str:
    return on.painted().split("\n")[0]


def bar_of(app: InterlockConsole | HistoryConsole) -> Content:
    return app.screen.query_one(ScreenBar).render()


def current(line: Content) -> list[str]:
    """Return the reversed parts of the line, except the count of requests."""
    parts = [line.plain[span.start : span.end] for span in line.spans if "reverse" in str(span.style)]
    return [part.strip() for part in parts if "waiting" not in part]


def server_console(*, waiting: bool = True, operator: str = "maria", rights: Rights | None = None):
    states = everyone() if waiting else everyone()[1:]
    hub = ServersHub(*states, now=NOW)
    permission = None if rights is None else Permission(rights)
    return InterlockConsole(
        hub, operator=operator, permission=permission, clock=lambda: NOW, monotonic=lambda: 0.0
    )


async def open_replay(on: Stage) -> None:
    """Open the replay of a session over the live screen."""
    on.hub.journal = recording()
    await on.press("r")
    await on.until("event 1 of")
    assert isinstance(on.app.screen, ReplayScreen)


class TestDigits:
    """A digit opens its screen from every screen except dialogs."""

    @pytest.mark.parametrize("start", range(len(KINDS)), ids=SCREENS)
    @pytest.mark.variants
    async def test_digits_lead_from_each_screen_to_each(self, start: int) -> None:
        """One key leads from each of the five screens to each; the bar marks the current one."""
        async with stage() as on:
            for digit, (name, kind) in enumerate(zip(SCREENS, KINDS, strict=True), 1):
                await on.press(str(start + 1))
                await on.settle()
                assert isinstance(on.app.screen, KINDS[start])
                await on.press(str(digit))
                await on.settle()
                assert isinstance(on.app.screen, kind)
                assert current(bar_of(on.app)) == [f"{digit} {name}"]
                assert ALL in " ".join(title(on).split("\n"))

    @pytest.mark.slow
    async def test_each_screen_is_open_at_most_once(self) -> None:
        """Each screen is open at most once after many digits; 1 closes all others."""
        async with stage() as on:
            await on.press(*"2345432254")
            await on.settle()
            kinds = [type(screen) for screen in on.app.screen_stack]
            assert len(set(kinds)) == len(kinds)
            await on.press("1")
            await on.settle()
            assert [type(screen) for screen in on.app.screen_stack] == [LiveScreen]

    @pytest.mark.slow
    async def test_letters_open_the_same_screens(self) -> None:
        """`v`, `h`, `R` and `Q` open the same screens."""
        async with stage() as on:
            on.hub.request(everyone()[0].approvals["ap1"].model_copy(update={"id": "ap2"}))
            await on.settle()
            if isinstance(on.app.screen, ApprovalScreen):
                await on.press("escape")
            await on.until("2 waiting")
            for letter, kind in zip("vhRQ", KINDS[1:], strict=True):
                await on.press("1")
                await on.settle()
                await on.press(letter)
                await on.settle()
                assert isinstance(on.app.screen, kind)

    @pytest.mark.slow
    async def test_digits_work_in_a_replay(self) -> None:
        """In a replay digits open screens, and alt with a digit selects a pane."""
        for digit, kind in enumerate(KINDS, 1):
            async with stage() as on:
                await open_replay(on)
                assert current(bar_of(on.app)) == ["replay"]
                await on.press("alt+2")
                assert on.app.focused is not None
                assert on.app.focused.id == "details"
                await on.press(str(digit))
                await on.settle()
                assert isinstance(on.app.screen, kind)

    @pytest.mark.slow
    async def test_digits_work_in_subordinate_screens(self) -> None:
        """Digits also work from backtests, approval statistics and suggestions."""
        for keys, name in (("b", "backtest"), (("2", "f"), "approvals"), (("2", "p"), "suggestions")):
            async with stage() as on:
                await on.press(*keys)
                await on.settle()
                assert current(bar_of(on.app)) == [name]
                if isinstance(on.app.focused, Input):
                    await on.press("shift+tab")
                await on.press("4")
                await on.settle()
                assert isinstance(on.app.screen, RulesScreen)

    async def test_triage_opens_without_waiting_requests(self) -> None:
        """The triage screen also opens without a waiting request, and says that none waits."""
        async with stage(*everyone()[1:]) as on:
            await on.press("5")
            await on.until(NOTHING_WAITS)
            assert isinstance(on.app.screen, TriageScreen)
            await on.press("1")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_clicks_open_screens(self) -> None:
        """A click on each name, or on a digit, opens the screen."""
        async with stage() as on:
            for name, kind in [*zip(SCREENS[1:], KINDS[1:], strict=True), ("live", LiveScreen)]:
                await on.pilot.click(ScreenBar, offset=(title(on).index(name), 0))
                await on.settle()
                assert isinstance(on.app.screen, kind)
            await on.pilot.click(ScreenBar, offset=(title(on).index("3 history"), 0))
            await on.settle()
            assert isinstance(on.app.screen, HistoryScreen)


class TestElsewhere:
    """Digits do not change the screen in a text field or a dialog."""

    async def test_approval_dialog_ignores_digits(self) -> None:
        """The dialog remains open, without a decision or a new screen."""
        async with stage() as on:
            dialog = await on.open_dialog()
            await on.press(*"12345")
            await on.settle()
            assert on.app.screen is dialog
            assert len(on.app.screen_stack) == 2
            assert on.decisions() == []

    @pytest.mark.variants
    @pytest.mark.parametrize("key", ["question_mark", "n", "ctrl+x", "s", "ctrl+p"])
    async def test_other_dialogs_ignore_digits(self, key: str) -> None:
        """Help, nets, a question, a form and the palette remain open after digits."""
        async with stage() as on:
            await on.press(key)
            await on.settle()
            panel = on.app.screen
            assert isinstance(panel, ModalScreen)
            await on.press(*"2345")
            await on.settle()
            assert on.app.screen is panel

    async def test_digits_in_a_message_are_text(self) -> None:
        """Digits typed in a message to an agent are text."""
        async with stage() as on:
            await on.press("i", *"wait 23")
            await on.settle()
            line = on.app.screen.query_one(SayLine)
            assert line.input.value == "wait 23"
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("screen", "opens", "field"),
        [("2", "slash", None), ("3", "slash", "#filter"), ("4", "o", "#named"), ("5", "slash", None)],
        ids=["decisions", "history", "rules", "triage"],
    )
    async def test_digits_in_a_filter_are_text(
        self, monkeypatch: pytest.MonkeyPatch, screen: str, opens: str, field: str | None
    ) -> None:
        """Digits typed in a filter or a file's name are text."""
        async with stage() as on:
            monkeypatch.setattr(on.hub, "history", Source(SESSIONS).history)
            await on.press(screen)
            await on.settle()
            here = on.app.screen
            await on.press(opens)
            await on.settle()
            focused = on.app.focused
            assert isinstance(focused, Input), on.painted()
            assert field is None or focused is here.query_one(field)
            await on.press(*"a15")
            await on.settle()
            assert on.app.screen is here
            assert focused.value == "a15"

    @pytest.mark.slow
    async def test_digits_in_the_backtest_field_are_text(self) -> None:
        """Digits typed in the backtest's field for rule files are text."""
        async with stage() as on:
            await on.press("b")
            await on.settle()
            assert isinstance(on.app.screen, BacktestScreen)
            field = on.app.screen.query_one("#rules", Input)
            field.focus()
            await on.settle()
            before = field.value
            await on.press("4")
            await on.settle()
            assert isinstance(on.app.screen, BacktestScreen)
            assert field.value == f"{before}4"


class TestPanes:
    """Alt with a digit selects a pane of the live screen."""

    async def test_alt_digits_focus_panes(self) -> None:
        """`alt+1` to `alt+5` focus the panes; the tabs of a narrow screen show these keys."""
        async with stage(size=(80, 24)) as on:
            assert "alt+1 … alt+5" in on.painted().split("\n")[1]
            for number, pane in enumerate(("sessions", "transcript", "nets", "pending", "waiting"), 1):
                await on.press(f"alt+{number}")
                await on.settle()
                assert on.app.focused is not None
                assert on.app.focused.id == pane
                assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    @pytest.mark.parametrize("start", ["live", "replay"])
    async def test_escape_and_digit_select_a_pane(self, start: str) -> None:
        """Escape followed by a digit, as most terminals send alt and a digit, selects the pane too."""
        async with stage(size=(80, 24)) as on:
            if start == "replay":
                await open_replay(on)
            panes = PANES if start == "live" else REPLAY_PANES
            for number, (pane, _) in enumerate(panes, 1):
                for event in XTermParser().feed(f"\x1b{number}"):
                    assert isinstance(event, events.Key)
                    on.app.post_message(event)
                await on.settle()
                assert on.app.screen.query_one(PaneTabs).current == pane

    @pytest.mark.slow
    async def test_keys_are_configurable(self) -> None:
        """An operator can configure digits for panes and other keys for the screens."""
        chosen = {"live.pane-waiting": "5", "app.triage": "f6", "app.decisions": "f7"}
        hub = FakeHub(*everyone(), now=NOW)
        app = InterlockConsole(
            hub, operator="maria", appearance=Appearance(keys=chosen), clock=lambda: NOW
        )
        async with app.run_test(size=(120, 40)) as pilot:
            on = Stage(app, hub, pilot)
            await on.until("1 live  f7 decisions  3 history  4 rules  f6 triage")
            await on.press("5")
            await on.settle()
            assert app.focused is not None
            assert app.focused.id == "waiting"
            await on.press("2")
            await on.settle()
            assert isinstance(app.screen, LiveScreen)
            await on.press("f7")
            await on.settle()
            assert isinstance(app.screen, DecisionsScreen)


class TestSizes:
    """The names of the screens remain readable; other parts of the line are shortened first."""

    @pytest.mark.variants
    @pytest.mark.parametrize("waiting", [True, False], ids=["waiting", "none"])
    @pytest.mark.parametrize("width", [80, 100, 120, 200])
    async def test_bar_with_server_address_at_80_columns(self, width: int, waiting: bool) -> None:
        """From 80 columns the bar has all names, the count of requests and the server's address."""
        app = server_console(waiting=waiting)
        async with app.run_test(size=(width, 24)) as pilot:
            await pilot.pause(0.1)
            line = bar_of(app).plain
            assert (ALL if width > 80 or not waiting else CLOSE) in line or CLOSE in line
            assert ("1" if waiting else "0") + " waiting" in line
            assert "127.0.0.1:8737" in line
            assert ("as maria" in line) == (width > 80)

    @pytest.mark.variants
    @pytest.mark.parametrize("rights", ["look", "decide"])
    async def test_bar_with_limited_rights_at_80_columns(self, rights: Rights) -> None:
        """At 80 columns the bar has all names, the count of requests and the console's rights."""
        app = server_console(rights=rights)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause(0.1)
            line = bar_of(app).plain
            assert CLOSE in line
            assert "1 waiting" in line
            assert ("read-only" if rights == "look" else "decides only") in line

    @pytest.mark.slow
    async def test_long_operator_name_is_shortened_first(self) -> None:
        """A long operator's name is shortened before the names of the screens."""
        hub = FakeHub(*everyone(), now=NOW)
        app = InterlockConsole(hub, operator="maria-magdalena.of-operations@example.org")
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause(0.1)
            line = bar_of(app).plain
            assert CLOSE in line
            assert "· as maria" in line
            assert line.rstrip().endswith("…")

    @pytest.mark.variants
    @pytest.mark.parametrize("server", [True, False], ids=["server", "here"])
    async def test_bar_at_60_columns_names_the_current_screen(self, server: bool) -> None:
        """The bar has the digits, and only the current screen's name."""
        app = (
            server_console() if server else InterlockConsole(FakeHub(*everyone(), now=NOW), operator="m")
        )
        async with app.run_test(size=(60, 24)) as pilot:
            await pilot.pause(0.1)
            line = bar_of(app).plain
            assert " 1 live  2 3 4 5 " in line
            assert "1 waiting" in line
            assert current(bar_of(app)) == ["1 live"]
            assert ("127.0.0.1:8737" in line) == server
            await pilot.press("4")
            await pilot.pause(0.1)
            assert current(bar_of(app)) == ["4 rules"]

    @pytest.mark.variants
    @pytest.mark.parametrize("width", [20, 30, 40])
    async def test_tiny_bar_shows_count_of_requests(self, width: int) -> None:
        """The bar always shows the count of waiting requests."""
        async with stage(size=(width, 12)) as on:
            assert "1 waiting" in title(on)

    @pytest.mark.slow
    async def test_names_keep_their_cells(self) -> None:
        """On a wide terminal the names have the same position on every screen."""
        async with stage() as on:
            found: set[int] = set()
            for digit in "12345":
                await on.press(digit)
                await on.settle()
                found.add(title(on).index(ALL))
            assert len(found) == 1


class TestMark:
    """A mark other than colour identifies the current screen."""

    async def test_current_screen_is_reversed_without_colours(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without colours the current screen is reversed."""
        monkeypatch.setenv("NO_COLOR", "1")
        async with stage() as on:
            await on.press("2")
            await on.settle()
            first = on.app.screen._compositor.render_strips()[0]
            found = [text for text, style, _ in first if style is not None and style.reverse]
            assert [text.strip() for text in found] == ["2 decisions"]

    @pytest.mark.slow
    async def test_ascii_brackets_mark_current_screen(self) -> None:
        """In ASCII brackets mark the current screen without additional width."""
        app = InterlockConsole(
            FakeHub(*everyone(), now=NOW), operator="maria", appearance=Appearance(ascii_only=True)
        )
        try:
            async with app.run_test(size=(120, 24)) as pilot:
                await pilot.pause(0.1)
                assert "[1 live] 2 decisions  3 history" in bar_of(app).plain
                await pilot.press("3")
                await pilot.pause(0.1)
                assert " 1 live  2 decisions [3 history] 4 rules" in bar_of(app).plain
        finally:
            use_ascii(False)


class TestRecorded:
    """A console of recorded sessions keeps the digits of the screens that it has."""

    async def test_history_has_no_live_screens(self) -> None:
        """`interlock history` has no live, decisions or triage screen."""
        app = HistoryConsole(Source(SESSIONS))
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause(0.1)
            assert bar_of(app).plain.startswith(" 3 history  4 rules ")
            await pilot.press("1", "2", "5")
            await pilot.pause(0.05)
            assert isinstance(app.screen, HistoryScreen)
            await pilot.press("4")
            await pilot.pause(0.05)
            assert isinstance(app.screen, RulesScreen)
            await pilot.press("3")
            await pilot.pause(0.05)
            assert isinstance(app.screen, HistoryScreen)


class TestSaid:
    """Help and palette list the digits."""

    async def test_help_lists_digits(self) -> None:
        """Help lists each digit with its id for `[keys]`."""
        async with stage(size=(120, 60)) as on:
            await on.press("question_mark")
            await on.settle()
            assert isinstance(on.app.screen, Help)
            await on.press("end")
            await on.settle()
            lines = on.painted().split("\n")
            for digit, name in enumerate(SCREENS, 1):
                named = "rule files" if name == "rules" else name
                [row] = [line for line in lines if f"app.{name} " in line]
                assert f"{digit}            {named}" in row

    async def test_palette_has_an_entry_per_screen(self) -> None:
        """The palette has one entry per screen with its digit and letter."""
        async with stage() as on:
            commands = {each.title: each.help for each in on.app.get_system_commands(on.app.screen)}
            assert commands["Live"].startswith("1 · ")
            for name, keys in (("Decisions", {"v", "2"}), ("History", {"h", "3"})):
                assert set(commands[name].split(" · ")[0].split()) == keys
