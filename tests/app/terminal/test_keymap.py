"""The operator's own keys: read from `interlock.toml`, checked, used, and shown everywhere."""

from __future__ import annotations

import re
from datetime import UTC
from pathlib import Path

import pytest
from textual.command import CommandPalette
from textual.widgets import Input

from interlock.app.cli.main import parser
from interlock.app.config.keys import KeySetting, key_settings
from interlock.app.config.loader import SettingsError
from interlock.app.console.history_app import HistoryConsole
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.terminal import keymap
from interlock.app.terminal.appearance import Appearance, appearance_of
from interlock.app.terminal.keymap import bindings_of, decides, display_key
from interlock.app.terminal.keymap_check import check_keymap, classes_with_keys, is_key, normalize_key

from ..screens.history.sessions import SESSIONS, Source
from ..support.views import BY_NAME, Shown, showing

KEY = re.compile(r"(?<![\w<])(esc|escape|enter|space|tab|ctrl\+\w|\^\w|F\d+|f\d+)(?![\w>])")
FIXED = re.compile(r"enter (next|deny|go|reads|raise|confirm)|\"ctrl\+t\"")
"""Keys of text fields, which cannot be changed, and the example in the help."""


def appearance(tmp_path: Path, here: str, user: str = "", *line: str) -> Appearance:
    """The appearance of a console with these two files and this command line."""
    config = tmp_path / "config"
    config.mkdir(exist_ok=True)
    (tmp_path / "interlock.toml").write_text(here)
    (config / "interlock.toml").write_text(user)
    args = parser().parse_args(["console", *line])
    environ = {"INTERLOCK_CONFIG_DIR": str(config), "LANG": "C.UTF-8"}
    return appearance_of(args, environ=environ, directory=tmp_path)


def keys(tmp_path: Path, user: str, here: str = "") -> dict[str, str]:
    return dict(appearance(tmp_path, here, user).keys)


def mark_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show every configured key between `<` and `>` from here on."""
    shown = keymap.display_key
    for where in ("interlock.app.terminal.keymap", "interlock.app.console.base"):
        monkeypatch.setattr(f"{where}.display_key", lambda key, display=None: f"<{shown(key, display)}>")


def check_keys(on: Shown) -> None:
    """Check that no unmarked key is on screen; all configured keys are marked."""
    found = [
        (match[0], line.strip())
        for line in on.painted().split("\n")
        for match in KEY.finditer(FIXED.sub("", line))
    ]
    assert found == []


class TestFile:
    def test_quoted_ids_equal_tables(self, tmp_path: Path) -> None:
        """`"approval.approve" = "y"` and `approval.approve = "y"` mean the same."""
        wanted = {"approval.approve": "y"}
        assert keys(tmp_path, '[keys]\n"approval.approve" = "y"') == wanted
        assert keys(tmp_path, '[keys]\napproval.approve = "y"') == wanted
        assert keys(tmp_path, '[keys.approval]\napprove = "y"') == wanted

    def test_several_keys(self, tmp_path: Path) -> None:
        """Several keys are a list or separated by commas; signs get Textual's names."""
        assert keys(tmp_path, '[keys]\n"list.up" = ["up", "-"]') == {"list.up": "up,minus"}
        assert keys(tmp_path, '[keys]\n"list.up" = "up, ctrl+y"') == {"list.up": "up,ctrl+y"}
        assert keys(tmp_path, '[keys]\n"live.nets" = ","') == {"live.nets": "comma"}

    def test_working_directory_overrides_single_keys(self, tmp_path: Path) -> None:
        """The user's keys apply where the directory's file has none."""
        found = keys(
            tmp_path,
            '[keys]\n"live.history" = "u"\n"live.mode" = "f6"',
            '[keys]\n"live.history" = "t"',
        )
        assert found == {"live.history": "t", "live.mode": "f6"}

    def test_working_directory_cannot_change_deciding_keys(self, tmp_path: Path) -> None:
        """A file in the working directory cannot change keys that approve or deny."""
        with pytest.raises(SettingsError, match=r"'approval\.deny' decides, so its key is allowed"):
            keys(tmp_path, "", '[keys]\n"approval.deny" = "y"')

    @pytest.mark.parametrize(
        "binding",
        ["live.approve", "live.mode", "live.nets", "live.limit", "nets.switch", "history.continue"],
    )
    def test_working_directory_cannot_change_other_acting_keys(
        self, tmp_path: Path, binding: str
    ) -> None:
        """The same applies to keys that switch modes and nets, raise limits or continue a session."""
        with pytest.raises(SettingsError, match=f"'{binding}' changes something, so its key is allowed"):
            keys(tmp_path, "", f'[keys]\n"{binding}" = "f9"')

    def test_file_in_the_config_directory_is_the_users(self, tmp_path: Path) -> None:
        """In the config directory, its file is the user's own and not a project's."""
        (tmp_path / "interlock.toml").write_text('[keys]\n"approval.deny" = "f9"')
        found = key_settings(environ={"INTERLOCK_CONFIG_DIR": str(tmp_path)}, directory=tmp_path)
        assert dict(check_keymap(found)) == {"approval.deny": "f9"}

    def test_digit_of_a_screen_is_refused(self, tmp_path: Path) -> None:
        """The digit of a screen is refused for another action, with the line and the screen."""
        with pytest.raises(SettingsError) as told:
            keys(tmp_path, '[keys]\n"live.stop" = "5"\n"decisions.group" = "1"\n')
        assert "interlock.toml:2: [keys] 'live.stop': the key '5' is also 'app.triage'" in str(told.value)
        assert "interlock.toml:3: [keys] 'decisions.group': the key '1' is also 'app.live'" in str(
            told.value
        )

    def test_unused_digit_is_free(self, tmp_path: Path) -> None:
        """Other digits are free, as are the digits of screens that have other keys."""
        text = '[keys]\n"live.stop" = "9"\n"live.pane-waiting" = "5"\n"app.triage" = "f6"\n'
        assert keys(tmp_path, text) == {
            "live.stop": "9",
            "live.pane-waiting": "5",
            "app.triage": "f6",
        }

    def test_digit_of_the_same_screen_is_accepted(self, tmp_path: Path) -> None:
        """An action may have the digit that leads to the same screen."""
        assert keys(tmp_path, '[keys]\n"live.decisions" = "2"\n') == {"live.decisions": "2"}

    def test_no_table_changes_no_key(self, tmp_path: Path) -> None:
        """Without the table no key changes."""
        assert keys(tmp_path, 'theme = "interlock"') == {}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('keys = "y"', "[keys] is a table, with lines like"),
            ('[keys]\n"approval.approve" = 3', "expected a key like"),
            ('[keys]\n"approval.approve" = []', "needs a key; remove the line"),
            ('[keys]\n"approval.approve" = ""', "needs a key; remove the line"),
        ],
    )
    def test_wrong_types(self, tmp_path: Path, text: str, message: str) -> None:
        """A value that is not a key is refused with the expected form."""
        with pytest.raises(SettingsError, match=re.escape(message)):
            keys(tmp_path, text)

    def test_message_names_file_and_line(self, tmp_path: Path) -> None:
        """The message has the file and the line."""
        with pytest.raises(
            SettingsError, match=r"interlock\.toml:5: \[keys\] there is no action"
        ) as told:
            keys(tmp_path, '# mine\ntheme = "interlock"\n\n[keys]\n"approval.aprove" = "y"\n')
        assert "did you mean 'approval.approve'?" in str(told.value)

    def test_all_problems_are_reported_at_once(self, tmp_path: Path) -> None:
        """All mistakes are reported at once."""
        with pytest.raises(SettingsError) as told:
            keys(tmp_path, '[keys]\n"live.net" = "t"\n"live.mode" = "entr"\n"live.start" = "i"')
        text = str(told.value)
        assert ":2: " in text
        assert ":3: [keys] 'live.mode': there is no key 'entr'; did you mean 'enter'?" in text
        assert ":4: [keys] 'live.start': the key 'i' is also 'live.interrupt'" in text

    def test_refused_key_causes_no_further_error(self, tmp_path: Path) -> None:
        """A refused key causes no further error about the key that it would have replaced."""
        with pytest.raises(SettingsError) as told:
            keys(tmp_path, '[keys]\n"approval.approve" = "enter"\n"approval.deny" = "a"')
        assert "is also" not in str(told.value)


class TestRefused:
    @pytest.mark.parametrize(
        "key", ["enter", "space", "escape", "ctrl+m", "ctrl+j", "ctrl+[", "return", "y,enter", " "]
    )
    @pytest.mark.parametrize("binding", ["approval.approve", "approval.deny", "confirm.yes"])
    def test_common_keys_cannot_decide(self, tmp_path: Path, binding: str, key: str) -> None:
        """No key that is pressed in passing can decide, under any of its names."""
        with pytest.raises(SettingsError, match=r"deliberate|needs a key"):
            keys(tmp_path, f'[keys]\n"{binding}" = "{key}"')

    def test_unlisted_action_counts_as_a_decision(self) -> None:
        """A new action of the dialog counts as a decision until it is listed as harmless."""
        named = {b.id for b in bindings_of(ApprovalScreen) if (b.id or "").startswith("approval.")}
        assert {b for b in named if b and not decides(b)} == {
            "approval.close",
            "approval.explain",
            "approval.fold",
            "approval.next",
            "approval.passkey",
            "approval.precedent",
        }
        assert decides("approval.something-new")

    @pytest.mark.parametrize(
        ("lines", "other"),
        [
            ('"approval.approve" = "d"', "approval.deny"),
            ('"approval.approve" = "?"', "app.help"),
            ('"approval.approve" = "j"', "list.down"),
            ('"live.approve" = "j"', "list.down"),
            ('"live.approve" = "q"', "app.quit"),
            ('"list.open" = "o"', "replay.open"),
            ('"live.nets" = "f7"\n"live.mode" = "f7"', "live.nets"),
            ('"judged.next" = "Y"\n"judged.last" = "shift+y"', "judged.next"),
        ],
    )
    def test_two_actions_on_one_key(self, tmp_path: Path, lines: str, other: str) -> None:
        """On a screen, including its lists and the app, a key has only one action."""
        with pytest.raises(SettingsError, match=r"is also '") as told:
            keys(tmp_path, f"[keys]\n{lines}")
        assert other in str(told.value)

    @pytest.mark.parametrize(
        "lines",
        [
            '"approval.approve" = "d"\n"approval.deny" = "a"',
            '"live.nets" = "m"\n"live.mode" = "n"',
            '"confirm.yes" = "i"',
            '"replay.back" = "h"',
        ],
    )
    def test_freed_key_can_be_used(self, tmp_path: Path, lines: str) -> None:
        """A key that another action gave up is free, as is one that only other screens use."""
        assert keys(tmp_path, f"[keys]\n{lines}")

    @pytest.mark.parametrize(
        "key", ["Enter", "SPACE", "f25", "entr", "ctrl+", "hyper+shift+shift+a", "aa"]
    )
    def test_impossible_key_is_refused(self, key: str) -> None:
        """The name of a key that no terminal sends is invalid."""
        assert not is_key(key)

    @pytest.mark.parametrize(
        ("key", "name"),
        [
            ("?", "question_mark"),
            ("+", "plus"),
            ("ctrl++", "ctrl+plus"),
            ("hyphen_minus", "minus"),
            ("ctrl+m", "enter"),
            ("shift+y", "Y"),
            ("ü", "ü"),
            ("f12", "f12"),
            ("ctrl+shift+left", "ctrl+shift+left"),
        ],
    )
    def test_forms_of_key_names(self, key: str, name: str) -> None:
        """Keys are accepted by sign, by name and with modifiers."""
        assert is_key(key)
        assert normalize_key(key) == name

    def test_default_keys_are_valid(self) -> None:
        """All default keys are valid."""
        for owner in classes_with_keys():
            for binding in bindings_of(owner):
                if binding.id:
                    assert is_key(binding.key), binding


class TestBindings:
    def test_each_has_a_name_an_explanation_and_one_action(self) -> None:
        """Every binding of every screen has an id, a label and a tooltip, and each id has one action."""
        actions: dict[str, set[str]] = {}
        for owner in classes_with_keys():
            for binding in (b for b in bindings_of(owner) if not b.system):
                assert binding.id, (owner, binding)
                assert binding.description, (owner, binding)
                assert binding.tooltip, (owner, binding)
                actions.setdefault(binding.id, set()).add(binding.action)
        assert len(actions) > 80
        assert {name: found for name, found in actions.items() if len(found) > 1} == {}

    def test_each_key_of_a_class_has_one_action(self) -> None:
        """In a class each key has one action, because Textual frees the whole key if a binding moves."""
        for owner in classes_with_keys():
            found: dict[str, set[str]] = {}
            for binding in bindings_of(owner):
                found.setdefault(binding.key, set()).add(binding.action)
            assert {key: actions for key, actions in found.items() if len(actions) > 1} == {}, owner

    def test_keys_have_short_names(self) -> None:
        """Keys have short names, as on the keyboard."""
        names = [display_key(k) for k in ("a", "question_mark", "ctrl+s", "enter", "up", "pagedown")]
        assert names == ["a", "?", "^s", "enter", "↑", "pgdn"]


OTHER = Appearance(
    keys=dict(
        check_keymap(
            [
                KeySetting(name, (key,), "interlock.toml:1")
                for name, key in (
                    ("approval.approve", "y"),
                    ("approval.close", "f9"),
                    ("approval.fold", "f8"),
                    ("list.open", "f7"),
                    ("live.interrupt", "ctrl+t"),
                    ("app.help", "f2"),
                )
            ]
        )
    )
)


@pytest.mark.slow
class TestShown:
    async def test_new_key_replaces_the_default(self, tmp_path: Path) -> None:
        """With `approval.approve` set to `y`, `y` approves and `a` does nothing."""
        async with showing(BY_NAME["approval"], tmp_path, (80, 24), OTHER) as on:
            hub = on.app.hub  # type: ignore[attr-defined]
            await on.pilot.press("a")
            assert hub.asked == []
            await on.pilot.press("y")
            for _ in range(100):
                await on.pilot.pause(0.01)
                if hub.asked:
                    break
            assert hub.asked == [("decide", "ap1", True, "maria", None)]

    async def test_footer_help_and_palette_show_the_configured_key(self, tmp_path: Path) -> None:
        """Every text that names a key shows the configured one."""
        async with showing(BY_NAME["approval-hard"], tmp_path, (120, 40), OTHER) as on:
            text = on.painted()
            assert "y next page" in text
            assert "y show the next page" in text
            assert "f9 decide later" in text
            assert "f8 shows all 61" in text
            assert "a next page" not in text
            await on.pilot.press("f2")
            await on.until("approval.approve")
            assert re.search(r"│ +y +next page +approval\.approve", on.painted())
            await on.pilot.press("escape", "ctrl+p")
            await on.pilot.press(*"next page")
            await on.until("y · Show the next page")
        async with showing(BY_NAME["live"], tmp_path, (80, 24), OTHER) as on:
            assert "3 more lines, f7 shows them" in on.painted()
            assert "^t interrupt" in on.painted()
            assert "f2 help" in on.painted()


class TestTyping:
    @pytest.mark.slow
    @pytest.mark.parametrize(("key", "character"), [("y", "y"), ("minus", "-"), ("at", "@")])
    async def test_global_key_is_a_character_in_a_line(self, key: str, character: str) -> None:
        """A key given to the palette opens it, but is a character while the filter is typed."""
        keys = dict(check_keymap([KeySetting("app.commands", (key,), "interlock.toml:1")]))
        source, appearance = Source(SESSIONS), Appearance(keys=keys)
        async with HistoryConsole(source, zone=UTC, appearance=appearance).run_test() as pilot:
            await pilot.app.workers.wait_for_complete()
            await pilot.app.run_action("filter", pilot.app.screen)
            await pilot.press(character)
            assert pilot.app.screen.query_one(Input).value == character
            await pilot.press("escape", character)
            assert isinstance(pilot.app.screen, CommandPalette)


class TestCommandLine:
    @pytest.mark.variants
    @pytest.mark.parametrize(
        "command", [["console"], ["demo"], ["run", "x"], ["resume", "x"], ["replay", "x"]]
    )
    def test_every_console_has_the_options(self, command: list[str]) -> None:
        """Every command that opens a console has `--theme` and `--ascii`."""
        args = parser().parse_args([*command, "--theme", "nord", "--ascii"])
        assert (args.theme, args.ascii) == ("nord", True)
        assert parser().parse_args([*command, "--no-ascii"]).ascii is False

    def test_unknown_theme_is_refused_with_proposals(self, tmp_path: Path) -> None:
        """For an unknown theme the message has the most similar one and all others."""
        with pytest.raises(
            SettingsError, match=r"unknown theme 'interlok'; did you mean 'interlock'\?"
        ) as told:
            appearance(tmp_path, "", "", "--theme", "interlok")
        assert "interlock-contrast" in str(told.value)
        assert "nord" in str(told.value)

    def test_ascii_follows_the_locale_by_default(self, tmp_path: Path) -> None:
        """ASCII follows the terminal's locale unless an option is given."""
        args = parser().parse_args(["console"])
        plain = {"LANG": "C", "INTERLOCK_CONFIG_DIR": str(tmp_path)}
        assert appearance_of(args, environ=plain, directory=tmp_path).ascii_only
        assert not appearance_of(
            args, environ={**plain, "LANG": "C.UTF-8"}, directory=tmp_path
        ).ascii_only
        args.ascii = False
        assert not appearance_of(args, environ=plain, directory=tmp_path).ascii_only
