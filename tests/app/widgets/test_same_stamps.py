"""Blocks of equal key and stamp have equal lines, whatever a list showed before."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.content import Content

from interlock.app.viewmodels.stream import LiveStream
from interlock.app.widgets.base.blocks import Block, BlockList
from interlock.app.widgets.lists.transcript import Transcript, tail_blocks
from interlock.app.widgets.nets.drawing import picture_blocks
from interlock.app.widgets.nets.list import net_blocks
from interlock.engine.history.model.records import StepRecord
from interlock.engine.history.model.state import (
    NetState,
    PendingState,
    SessionState,
    TranscriptEntry,
)

from ..support.scenes import NOW, approve, before, call, entry, require
from ..support.stage import Stage, stage


def only_when(net: NetState, condition: str) -> NetState:
    """The net of a rule with this condition."""
    return net.model_copy(update={"net": net.net.model_copy(update={"when": condition})})


def session(name: str, env: str) -> SessionState:
    """A session that differs only by its call, its condition and its pending transition."""
    done = call("c1", "bash", f"rm -r {env}", "done", 90, output=f"{env} is gone\n", seconds=1.0)
    running = call("c2", "lint", "./lint", "running", 60)
    step = f"do-lint-{env}"
    needs = require("lint", "deploy", 4, "ready")
    transitions = tuple(
        each.model_copy(update={"name": step, "outputs": (f"linted-{env}",)}) if each.deferred else each
        for each in needs.net.transitions
    )
    needs = needs.model_copy(update={"net": needs.net.model_copy(update={"transitions": transitions})})
    asks = only_when(approve("deploy", 3), f"env is {env}")
    return SessionState(
        id=name,
        agent="bot",
        status="running",
        opened=before(200),
        updated=before(3),
        calls={each.call_id: each for each in (done, running)},
        transcript=[
            entry("user", "go", 100),
            TranscriptEntry(at=before(90), kind="call", call=done),
            TranscriptEntry(at=before(60), kind="call", call=running),
        ],
        nets={asks.net.key: asks, needs.net.key: needs},
        pending=[
            PendingState(
                call_id="c2",
                step=StepRecord(net=needs.net.key, transition=step, tool="lint"),
                since=before(60),
            )
        ],
    )


class TestTwoSessions:
    @pytest.mark.parametrize("size", [(160, 40), (60, 24)])
    async def test_blocks_are_of_the_selected_session(self, size: tuple[int, int]) -> None:
        """Calls, nets and pending transitions are those of the selected session, back and forth."""

        async def panes(on: Stage) -> str:
            found = []
            for number in (2, 3, 4):
                await on.press(f"alt+{number}")
                await on.settle()
                found.append(on.painted())
            await on.press("alt+1")
            await on.settle()
            return "\n".join(found)

        async with stage(session("bot-1", "prod"), session("bot-2", "test"), size=size) as on:
            await on.press("alt+1", "home")
            await on.settle()
            for key, here, other in (
                ("up", "prod", "test"),
                ("down", "test", "prod"),
                ("up", "prod", "test"),
            ):
                await on.press(key)
                await on.settle()
                shown = await panes(on)
                assert f"rm -r {here}" in shown
                assert f"{here} is gone" in shown
                assert f"env is {here}" in shown
                assert f"→ linted-{here}" in shown
                for text in (f"rm -r {other}", f"{other} is gone", f"env is {other}", f"linted-{other}"):
                    assert text not in shown


class TestOtherRules:
    """Replaced rules whose nets have the same keys and markings."""

    def test_different_conditions_change_line_stamp(self) -> None:
        """The lines of nets with different conditions have different stamps."""
        one, other = (net_blocks(session("bot-1", env), now=NOW)[0] for env in ("prod", "test"))
        assert one.key == other.key
        assert one.lines(120) != other.lines(120)
        assert one.stamp != other.stamp

    def test_different_rules_change_picture_stamp(self) -> None:
        """Pictures that differ in rule or condition have different stamps."""
        net = approve("deploy", 3)
        moved = approve("deploy", 9)
        for other in (only_when(net, "env is prod"), moved):
            for a, b in zip(picture_blocks(net, now=NOW), picture_blocks(other, now=NOW), strict=True):
                assert a.stamp != b.stamp or a.lines(100) == b.lines(100)


class TestWriting:
    def test_texts_of_same_length_have_different_stamps(self) -> None:
        """Streamed texts of the same length have different stamps."""
        state = session("bot-1", "prod")
        one, other = (tail_blocks(state, LiveStream(said=said), NOW)[-1] for said in ("yes", "not"))
        assert one.key == other.key
        assert one.stamp != other.stamp


class ListApp(App[None]):
    """An app with only a list."""

    def __init__(self, shown: BlockList) -> None:
        super().__init__()
        self._shown = shown

    def compose(self) -> ComposeResult:
        yield self._shown


class TestSettledLater:
    @pytest.mark.parametrize("before_that", ["unknown", "skipped"])
    async def test_late_result_of_a_call_is_shown(self, before_that: str) -> None:
        """A call that was skipped or had an unknown outcome shows its result when it has one."""
        state, transcript = session("bot-1", "prod"), Transcript()
        [_, asked, last] = state.transcript
        assert asked.call is not None
        async with ListApp(transcript).run_test(size=(80, 20)) as pilot:
            for status, output in ((before_that, None), ("done", "it ran after all\n")):
                call = asked.call.model_copy(update={"status": status, "output": output})
                entries = [state.transcript[0], asked.model_copy(update={"call": call}), last]
                now = state.model_copy(update={"transcript": entries})
                transcript.show_session(now, LiveStream(), NOW)
                await pilot.pause()
            lines = [transcript.render_line(y).text for y in range(12)]
            assert any("it ran after all" in line for line in lines), lines
            assert not any(before_that in line for line in lines)


class TestEmptied:
    async def test_emptied_list_shows_no_old_lines(self) -> None:
        """A list that was emptied shows no old lines, even with the same key and stamp."""
        found = BlockList()
        async with ListApp(found).run_test(size=(40, 5)) as pilot:
            for text in ("first", "second"):
                found.show([Block("0", 0, lambda _, text=text: [Content(text)])])
                await pilot.pause()
                assert (
                    found.render_line(0).text.strip() == f"▌ {text}" or text in found.render_line(0).text
                )
                found.show([])
                await pilot.pause()
