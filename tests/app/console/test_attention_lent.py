"""Signals for an operator while an editor uses the console's terminal."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from interlock.app.config.notifications import AttentionSettings
from interlock.app.console.app import InterlockConsole
from interlock.app.console.attention import BELL, Attention

from ...support.fake_hub import FakeHub
from ..support.scenes import NOW, deploy_request
from .test_attention import Recorder

QUIET = AttentionSettings(every=timedelta(seconds=30))


class Lent(Recorder):
    """A terminal with focus that the console can lend to another program."""

    def __init__(self) -> None:
        super().__init__(focused=True)
        self.is_lent = False

    def attention(self) -> Attention:
        attention = Attention(replace(self.terminal(), is_lent=lambda: self.is_lent), QUIET)
        attention.begin()
        return attention


class TestLent:
    """The console keeps title and signals until it has its terminal back."""

    def test_one_signal_after_the_terminal_returns(self) -> None:
        """Attention: one signal after the editor's end covers all requests that arrived before."""
        on = Lent()
        attention = on.attention()
        on.is_lent = True
        for number in (1, 2):
            attention.count(number)
            attention.signal(deploy_request(id=f"q{number}"))
        assert on.calls == []
        on.is_lent = False
        attention.resume()
        assert on.written[-3:] == [
            "\x1b]0;Interlock (2 waiting)\x1b\\",
            BELL,
            "\x1b]9;Interlock: 2 requests wait\x1b\\",
        ]
        attention.resume()
        assert on.calls.count(BELL) == 1

    def test_request_decided_elsewhere_causes_no_signal(self) -> None:
        """Attention: a request decided elsewhere in that time causes no signal; the title is right."""
        on = Lent()
        attention = on.attention()
        on.is_lent = True
        attention.count(1)
        attention.signal(deploy_request())
        attention.count(0)
        on.is_lent = False
        attention.resume()
        assert on.calls == []
        assert on.written[-1] == "\x1b]0;Interlock\x1b\\"

    def test_delayed_signal_follows_on_return(self) -> None:
        """Attention: a delayed signal that falls due while the terminal is lent follows on its return."""
        on = Lent()
        on.focused = False
        attention = on.attention()
        for number in (1, 2):
            attention.count(number)
            attention.signal(deploy_request(id=f"q{number}"))
        assert on.calls.count(BELL) == 1
        on.is_lent = True
        on.due[0][1]()
        assert on.calls.count(BELL) == 1
        on.is_lent, on.focused = False, True
        attention.resume()
        assert on.calls.count(BELL) == 2

    async def test_title_is_written_on_resume(self) -> None:
        """Attention: the console writes its title when the app resumes."""
        on = Lent()
        hub = FakeHub(now=NOW)
        app = InterlockConsole(hub, operator="maria", clock=lambda: NOW)
        app._terminal = replace(on.terminal(), is_lent=lambda: on.is_lent)
        async with app.run_test() as pilot:
            await pilot.pause()
            before = len(on.written)
            app.app_resume_signal.publish(app)
            await pilot.pause()
            assert on.written[before:] == ["\x1b]0;Interlock\x1b\\"]
