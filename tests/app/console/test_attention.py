"""Signals for an operator whose console has no focus, on a terminal that records its output."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest
from textual.events import AppBlur, AppFocus

from interlock.app.config.loader import SettingsError
from interlock.app.config.notifications import AttentionSettings, attention_settings
from interlock.app.console.app import InterlockConsole
from interlock.app.console.attention import (
    BELL,
    RESTORE_TITLE,
    SAVE_TITLE,
    Attention,
    Terminal,
    notifier_of,
    run_quietly,
    summary,
    terminal_of,
)

from ...support.fake_hub import FakeHub
from ..support.scenes import NOW, cleanup, deploy_request, docs_writer, release_bot


@dataclass
class Recorder:
    """A terminal that only records its output."""

    written: list[str] = field(default_factory=list)
    started: list[list[str]] = field(default_factory=list)
    due: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    focused: bool = False
    seconds: float = 0.0

    def terminal(self, kind: str | None = "osc9") -> Terminal:
        return Terminal(
            write=self.written.append,
            run=self.started.append,
            focused=lambda: self.focused,
            later=lambda seconds, then: self.due.append((seconds, then)),
            monotonic=lambda: self.seconds,
            kind=kind,  # type: ignore[arg-type]
        )

    @property
    def calls(self) -> list[str]:
        """All output except titles."""
        return [text for text in self.written if not text.startswith(("\x1b]0;", "\x1b[22"))]


def begun_attention(
    on: Recorder, settings: AttentionSettings | None = None, kind: str | None = "osc9"
) -> Attention:
    attention = Attention(on.terminal(kind), settings)
    attention.begin()
    return attention


class TestTitle:
    def test_title_shows_number_of_requests(self) -> None:
        """The title shows the number of waiting requests and is written only if that number changes."""
        on = Recorder(focused=True)
        attention = begun_attention(on)
        for waiting in (2, 2, 1, 0):
            attention.count(waiting)
        assert on.written == [
            SAVE_TITLE,
            "\x1b]0;Interlock\x1b\\",
            "\x1b]0;Interlock (2 waiting)\x1b\\",
            "\x1b]0;Interlock (1 waiting)\x1b\\",
            "\x1b]0;Interlock\x1b\\",
        ]

    def test_end_restores_the_title(self) -> None:
        """The end restores the terminal's own title; later signals write nothing."""
        on = Recorder()
        attention = begun_attention(on)
        attention.end()
        attention.count(3)
        attention.signal(deploy_request())
        assert on.written[-1] == RESTORE_TITLE


class TestCalls:
    def test_signals_only_without_focus(self) -> None:
        """The terminal signals a request only while the console has no focus."""
        on = Recorder(focused=True)
        attention = begun_attention(on)
        attention.signal(deploy_request())
        assert (on.calls, on.started, on.due) == ([], [], [])
        on.focused = False
        attention.signal(deploy_request())
        assert on.calls == [BELL, "\x1b]9;Interlock: deploy of release-bot needs approval\x1b\\"]

    def test_text_has_only_tool_agent_and_risk(self) -> None:
        """The text has tool, agent and risk, without the input, control characters or markup."""
        request = deploy_request(
            tool="dep\x1b]0;x\x07loy;a",
            agent="bot\u202e" + "x" * 200,
            input={"command": "secret"},
            risk="high",
        )
        text = summary(request)
        assert text.startswith("dep_x1b]0_x_x07loy_a of bot_u202exxx")
        assert text.endswith("… needs approval (risk high)")
        assert "secret" not in text
        assert text.isprintable()
        assert len(text) < 140

    def test_signals_are_throttled(self) -> None:
        """A signal delays the next ones; one later signal covers all requests of that interval."""
        on = Recorder()
        attention = begun_attention(on)
        attention.signal(deploy_request())
        on.seconds = 10.0
        for _ in range(3):
            attention.signal(deploy_request())
        attention.count(4)
        assert len(on.calls) == 2
        [(seconds, again)] = on.due
        assert seconds == 20.0
        on.seconds = 30.0
        again()
        assert on.calls[2:] == [BELL, "\x1b]9;Interlock: 4 requests wait\x1b\\"]

    @pytest.mark.parametrize(("focused", "waiting"), [(True, 2), (False, 0)])
    def test_outdated_signal_is_dropped(self, focused: bool, waiting: int) -> None:
        """A delayed signal is dropped if the operator has focused the console or no request waits."""
        on = Recorder()
        attention = begun_attention(on)
        attention.signal(deploy_request())
        attention.signal(deploy_request())
        on.focused, on.seconds = focused, 31.0
        attention.count(waiting)
        on.due[0][1]()
        assert len(on.calls) == 2

    def test_settings_control_bell_notification_and_interval(self) -> None:
        """Settings switch off bell and notification and set the interval between signals."""
        on = Recorder()
        attention = begun_attention(on, AttentionSettings(bell=False, every=timedelta(minutes=5)))
        attention.signal(deploy_request())
        on.seconds = 299.0
        attention.signal(deploy_request())
        assert len(on.calls) == 1
        assert on.due[0][0] == 1.0
        silent = Recorder()
        begun_attention(silent, AttentionSettings(bell=False, notify=False)).signal(deploy_request())
        assert silent.calls == []

    @pytest.mark.parametrize(
        ("kind", "sequence"),
        [
            ("osc9", "\x1b]9;Interlock: deploy"),
            ("osc99", "\x1b]99;;Interlock: deploy"),
            ("osc777", "\x1b]777;notify;Interlock;deploy"),
        ],
    )
    def test_each_terminal_gets_its_escape_sequence(self, kind: str, sequence: str) -> None:
        """Each kind of terminal gets the escape sequence it supports, with its terminator."""
        on = Recorder()
        begun_attention(on, kind=kind).signal(deploy_request())
        assert on.calls[1].startswith(sequence)
        assert on.calls[1].endswith("approval\x1b\\")

    def test_notify_send_gets_separate_arguments(self) -> None:
        """`notify-send` gets separate arguments, never a shell command line; the text escapes markup."""
        on = Recorder()
        begun_attention(on, kind="notify-send").signal(deploy_request(tool="<b>$(rm)", agent="-x"))
        assert on.started == [
            [
                "notify-send",
                "--app-name=Interlock",
                "--",
                "Interlock",
                "&lt;b&gt;$(rm) of -x needs approval",
            ]
        ]
        assert on.calls == [BELL]


class TestTerminals:
    @pytest.mark.parametrize(
        ("environ", "kind"),
        [
            ({"TERM": "xterm-kitty"}, "osc99"),
            ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "osc9"),
            ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "osc9"),
            ({"TERM": "foot"}, "osc777"),
            ({"TERM": "tmux-256color", "TERM_PROGRAM": "WezTerm"}, None),
            ({"TERM": "xterm-kitty", "TMUX": "/tmp/x,1,0"}, None),
            ({"TERM": "xterm-256color"}, None),
            ({"TERM": "xterm-256color", "DISPLAY": ":0"}, "notify-send"),
            ({"TERM": "xterm-256color", "WAYLAND_DISPLAY": "w"}, "notify-send"),
            ({"TERM": "xterm-256color", "DISPLAY": ":10", "SSH_CONNECTION": "a b"}, None),
        ],
    )
    def test_environment_determines_the_notification(
        self, environ: dict[str, str], kind: str | None, tmp_path: Path
    ) -> None:
        """The environment determines the kind of notification; `notify-send` requires a local display."""
        program = tmp_path / "notify-send"
        program.write_text("#!/bin/sh\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        assert notifier_of({"PATH": str(tmp_path), **environ}) == kind

    def test_no_notifications_without_notify_send(self, tmp_path: Path) -> None:
        """A desktop without `notify-send` has no notifications."""
        assert notifier_of({"PATH": str(tmp_path), "DISPLAY": ":0"}) is None

    async def test_program_runs_with_unchanged_arguments(self, tmp_path: Path) -> None:
        """A program runs with its arguments unchanged; a missing program causes no error."""
        program, told = tmp_path / "tell", tmp_path / "told"
        program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "' + str(told) + '"\n')
        program.chmod(0o700)
        tasks: set[asyncio.Task[None]] = set()
        run = run_quietly(tasks)
        run([str(program), "--", "a b", "$(id)"])
        run([str(tmp_path / "missing")])
        await asyncio.gather(*tasks)
        assert told.read_text().splitlines() == ["--", "a b", "$(id)"]


class TestSettings:
    def read(self, tmp_path: Path, text: str) -> AttentionSettings:
        (tmp_path / "interlock.toml").write_text(text)
        return attention_settings(environ={"INTERLOCK_CONFIG_DIR": str(tmp_path)}, directory=tmp_path)

    def test_file_sets_all_values(self, tmp_path: Path) -> None:
        """The file sets all three values; without it the defaults apply."""
        assert self.read(tmp_path, "") == AttentionSettings()
        found = self.read(tmp_path, '[attention]\nbell = false\nnotify = true\nevery = "2m"')
        assert found == AttentionSettings(bell=False, every=timedelta(minutes=2))

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("attention = 1", r"\[attention\]: expected a table"),
            ("[attention]\nbel = true", "unknown setting 'bel'; known: bell, every, notify"),
            ("[attention]\nbell = 1", "bell: expected true or false, found 1"),
            ('[attention]\nevery = "soon"', "every: expected a length of time"),
        ],
    )
    def test_faults_name_the_place(self, tmp_path: Path, text: str, message: str) -> None:
        """The error for a faulty setting names the file."""
        with pytest.raises(SettingsError, match=rf"interlock\.toml: .*{message}"):
            self.read(tmp_path, text)


class TestConsole:
    @pytest.mark.slow
    async def test_signals_depend_on_focus(self) -> None:
        """Signals depend on the console's focus; the title follows the queue until the end."""
        on = Recorder()
        hub = FakeHub(release_bot(), docs_writer(), cleanup(), now=NOW)
        hub.settle("ap1")
        app = InterlockConsole(hub, operator="maria", clock=lambda: NOW)
        app._terminal = replace(on.terminal(), focused=lambda: app.app_focus)
        async with app.run_test() as pilot:

            async def until(text: str) -> None:
                for _ in range(200):
                    if any(text in each for each in on.written):
                        return
                    await pilot.pause(0.01)
                raise AssertionError(on.written)

            hub.request(deploy_request(id="a1"))
            await until("(1 waiting)")
            assert on.calls == []
            app.post_message(AppBlur())
            await pilot.pause()
            hub.request(deploy_request(id="a2"))
            await until("(2 waiting)")
            await until("\x1b]9;")
            app.post_message(AppFocus())
            await pilot.pause()
            on.seconds = 100.0
            hub.request(deploy_request(id="a3"))
            await until("(3 waiting)")
            assert len(on.calls) == 2
        assert on.written[-1] == RESTORE_TITLE

    def test_browser_console_sends_no_notification(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A console in a browser sends no notification, regardless of the server's own terminal."""
        monkeypatch.setenv("KITTY_WINDOW_ID", "1")
        monkeypatch.setenv("TERM_PROGRAM", "WezTerm")

        class Driver:
            is_web = True
            is_headless = is_inline = False

            def write(self, text: str) -> None: ...

        app = InterlockConsole(FakeHub(now=NOW), operator="maria")
        app._driver = Driver()  # type: ignore[assignment]
        assert app.is_web
        found = terminal_of(app, set())
        assert found is not None
        assert found.kind is None
