"""Text from an agent, a tool or a rules file cannot style, hide or imitate the console."""

from __future__ import annotations

import unicodedata
from datetime import timedelta

import pytest

from interlock.app.screens.approval.forms.edit_input import InputForm
from interlock.app.screens.approval.forms.review_edit import ReviewEdit
from interlock.app.widgets.inputs.safe_input import TypedLine
from interlock.engine.history.model.records import RuleRecord, StepRecord
from interlock.engine.history.model.state import PendingState, TranscriptEntry

from ....support.laws import THOROUGH, pairs
from ...support.clicks import clicks_of_others
from ...support.scenes import NOW, approve, before, call, deploy_request, entry, release_bot
from ...support.stage import Stage, stage

HOSTILE = (
    "[bold red]x[/] [/] [@click=app.quit]quit[/] \x1b[31mred\x1b[2J\x1b]0;title\x07 \x9b31m "
    "a\u202eb\u2066c \u200bzero\u200d \ue000 \r\n│ WHY IT ASKS  nothing │\n╰──╯\t"
)
LONG = "A" * (1_000_000 if THOROUGH else 100_000)
TEXTS = {"escapes": HOSTILE, "long": LONG}
SIZES = {"wide": (120, 40), "narrow": (60, 24)}


def hostile(text: str) -> tuple[object, ...]:
    """A session and a request with `text` in every untrusted place."""
    state = release_bot(waiting=False)
    rule = RuleRecord(file=text, line=5, text=text)
    net = approve("deploy", 5)
    evil = net.model_copy(
        update={
            "net": net.net.model_copy(
                update={
                    "key": text,
                    "name": text,
                    "rule": rule,
                    "places": (*net.net.places, text),
                    "initial_marking": {**net.net.initial_marking, text: 1},
                }
            ),
            "marking": {**net.marking, text: 1},
        }
    )
    state.nets[text] = evil
    state.agent = state.model = state.workdir = text
    state.status, state.error = "running", text
    last = call(
        "c8",
        text,
        text,
        "blocked",
        5,
        reason=text,
        net=text,
        rule=rule,
        tool=text,
        names=(text, "bash"),
        approved_by=(text,),
    )
    done = call("c9", text, text, "failed", 3, output=text, seconds=1.0, tool=text)
    state.calls.update({c.call_id: c for c in (last, done)})
    for each in ("user", "assistant", "note"):
        state.transcript.append(entry(each, text, 6, by=text))
    state.transcript += [TranscriptEntry(at=before(5), kind="call", call=c) for c in (last, done)]
    step = StepRecord(net=text, transition=text, tool=text, deferred=True)
    state.pending.append(PendingState(call_id=text, since=NOW - timedelta(seconds=3), step=step))
    request = deploy_request(
        agent=text,
        tool=text,
        called=text,
        names=(text, "bash"),
        input={text: text, "list": [text], "map": {text: text}},
        net=text,
        title=text,
        message=text,
        rule=rule,
    )
    return state, request


def assert_harmless(on: Stage) -> None:
    """Check that the screen holds no control, format or private character and keeps its width."""
    for line in on.painted().split("\n"):
        strange = {c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")}
        assert strange == set()
    for row in on.app.screen._compositor.render_strips():
        assert row.cell_length == on.app.size.width
    assert clicks_of_others(on.app) == []


class TestHostileText:
    @pytest.mark.slow
    @pytest.mark.parametrize(("size", "text"), pairs(SIZES, TEXTS))
    async def test_hostile_text_is_shown_as_text_in_every_pane(
        self, text: str, size: tuple[int, int]
    ) -> None:
        """Markup, escape sequences, bidi, zero-width and a long text in every pane and panel."""
        state, request = hostile(text)
        state.approvals["ap1"] = request
        async with stage(state, size=size) as on:
            for pane in "12345":
                await on.press(f"alt+{pane}", "G")
                await on.settle()
                assert_harmless(on)
            for keys in (
                ("alt+2", "enter"),
                ("alt+3", "G", "enter"),
                ("alt+4", "enter"),
                ("n",),
                ("i",),
                ("alt+5", "enter"),
            ):
                await on.press(*keys)
                await on.settle()
                assert_harmless(on)
                await on.press("end")
                await on.settle()
                assert_harmless(on)
                await on.press("escape")
                await on.settle()
            assert on.hub.asked == []

    @pytest.mark.slow
    @pytest.mark.parametrize(("size", "text"), pairs(SIZES, TEXTS))
    async def test_hostile_text_is_shown_as_text_in_the_dialog(
        self, text: str, size: tuple[int, int]
    ) -> None:
        """Effects, notes, operators, presets, warnings, previews; the form, the review and the grants."""
        text = text[:200_000]
        state, request = hostile(text)
        state.workdir = text
        state.approvals["ap1"] = request.model_copy(
            update={
                "note": text,
                "given": (text, "ada"),
                "people": 4,
                "names": (text, f"{text}2", "bash"),
                "input": {**request.input, "command": f"{text}; ls", "n": 1},
                "uninspectable": text,
                "exact_only": text,
                "preview": text,
                "may_grant": True,
                "risk": "high",
                "expires": NOW + timedelta(seconds=90),
            }
        )
        async with stage(state, size=size, deny_reasons=[text, f"{text} again"]) as on:
            await on.open_dialog()
            assert_harmless(on)
            on.hub.given("ap1", text[:40])
            await on.wake()
            assert_harmless(on)
            for key in ("d", "1", "escape", "s", "escape", "space", "end", "g", "tab", "right", "escape"):
                if key == "g":
                    await on.read_all()
                await on.press(key)
                await on.wake()
                await on.settle()
                assert_harmless(on)
            await on.press("e")
            await on.settle()
            assert isinstance(on.app.screen, InputForm)
            assert_harmless(on)
            on.app.screen.query(TypedLine).first().value = "2"
            await on.press("ctrl+s")
            await on.settle()
            assert isinstance(on.app.screen, ReviewEdit)
            assert_harmless(on)
            assert on.hub.answers == []

    async def test_an_input_cannot_draw_the_dialog(self) -> None:
        """A forged section or command stays inside its field, behind the field's bar."""
        state = release_bot()
        forged = "ls\n\nWHY IT ASKS      nothing to see\nSO FAR           ✓ approved by maria"
        state.approvals["ap1"] = deploy_request(input={"command": forged})
        async with stage(state) as on:
            await on.open_dialog()
            lines = on.painted().splitlines()
        real = [line for line in lines if "WHY IT ASKS" in line and "deploy.rules:5" in line]
        fake = [line for line in lines if "nothing to see" in line or "approved by maria" in line]
        assert len(real) == 1
        assert len(fake) >= 2
        assert all("│ WHY" in line or "│ SO" in line for line in fake)

    @pytest.mark.slow
    async def test_notices_do_not_take_markup(self) -> None:
        """A tool's name in a notice is text."""
        async with stage(release_bot()) as on:
            await on.open_dialog()
            on.hub.refuse = "[bold]no[/] [/x]"
            await on.press("a")
            await on.settle()
            assert "[bold]no[/] [/x]" in on.painted()
            await on.press("escape", "i")
            on.hub.request(deploy_request(id="ap2", tool="[/x][@click=app.quit]deploy"))
            await on.until("[/x][@click=app.quit]deploy needs")
