"""Hostile text cannot style, hide or imitate the queue, a batch or a grant."""

from __future__ import annotations

from datetime import timedelta

import pytest

from interlock.app.screens.approval.batch import BatchScreen
from interlock.engine.history.model.state import SessionState

from ....support.laws import pairs
from ...support.queue_scenes import asking, asks, grant, two_people
from ...support.scenes import NOW
from ...support.stage import stage
from .test_spoofing import SIZES, TEXTS, assert_harmless


def hostile(text: str) -> SessionState:
    """A session whose requests, operators, grants and conditions all contain `text`."""
    state = asking(
        *(
            asks(
                number,
                tool=text,
                called=text,
                names=(text, f"{text}{number}", "bash"),
                agent=text,
                via=text,
                net=text,
                note=text,
                uninspectable=text,
                people=3,
                given=(text,),
                risk="high",
                expires=NOW + timedelta(seconds=30),
                input={text: text, f"n{number}": number},
            )
            for number in (1, 2)
        )
    )
    asked = two_people()
    record = asked.net.model_copy(update={"key": text, "when": text, "governs": (text,)})
    state.nets[text] = asked.model_copy(update={"net": record})
    state.grants = {
        text: grant(key=text, tool=text, asked=text, by=text, value={text: text}),
        "grant-2": grant(key="grant-2", asked=text, by=text),
    }
    call = state.calls["c6"]
    call.granted, call.approved_by, call.edited = (text,), (text,), True
    return state


@pytest.mark.slow
@pytest.mark.parametrize(("size", "text"), pairs(SIZES, TEXTS))
class TestHostileText:
    async def test_queue_and_batch(self, text: str, size: tuple[int, int]) -> None:
        """Spoofing: tools, operators and inputs in the queue and in a batch."""
        async with stage(hostile(text), size=size) as on:
            await on.press("alt+5", "space", "j", "space")
            await on.settle()
            assert_harmless(on)
            await on.press("B")
            await on.settle()
            assert isinstance(on.app.screen, BatchScreen)
            assert_harmless(on)
            await on.press("end")
            await on.settle()
            assert_harmless(on)
            on.hub.decided_elsewhere("q1", approved=False, by=text)
            await on.settle()
            assert_harmless(on)
            assert on.hub.answers == []

    async def test_nets_and_grants(self, text: str, size: tuple[int, int]) -> None:
        """Spoofing: keys of grants, conditions and names of operators in the net pane and its panels."""
        async with stage(hostile(text), size=size) as on:
            for keys in (
                ("alt+3", "G"),
                ("alt+3", "G", "enter"),
                ("alt+3", "G", "k", "enter"),
                ("alt+3", "G", "x"),
            ):
                await on.press(*keys)
                await on.settle()
                assert_harmless(on)
                await on.press("end")
                await on.settle()
                assert_harmless(on)
                await on.press("escape")
                await on.settle()
            await on.press("alt+2", "G")
            await on.settle()
            assert_harmless(on)
            assert on.hub.asked == []
