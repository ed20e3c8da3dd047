"""Every attack in every pane of the live screen and in the dialogs over it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from interlock.app.screens.approval.batch import BatchScreen
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.sources.messages import StartFailed

from ..support.scenes import deploy_request, release_bot
from ..support.stage import Stage, stage
from .attacks import EACH_GROUP, LONG, TAIL, group
from .harmless import assert_harmless
from .hostile import RECORDED, explanation, session


@asynccontextmanager
async def attacked_console(texts: list[str], size: tuple[int, int] = (100, 30)) -> AsyncIterator[Stage]:
    """A console with a session and a request for each text."""
    made = [session(number, text) for number, text in enumerate(texts)]
    async with stage(*(state for state, _ in made), size=size, deny_reasons=texts[:5]) as on:
        yield on


async def check(on: Stage) -> None:
    await on.settle()
    assert_harmless(on.app)


@pytest.mark.slow
class TestPanes:
    async def test_each_attack_in_each_pane(self) -> None:
        """Spoofing: sessions, transcript, nets, pending and waiting, for one session after the other."""
        async with attacked_console(list(RECORDED.values())) as on:
            await on.press("alt+1")
            for _ in RECORDED:
                await check(on)
                await on.press("down")
            for pane in "2345":
                await on.press(pane, "G")
                await check(on)
            assert on.hub.asked == []


@pytest.mark.slow
class TestDialogs:
    async def test_each_attack_in_a_request(self) -> None:
        """Spoofing: a request with each attack, from top to end."""
        texts = list(RECORDED.values())
        async with attacked_console(texts) as on:
            for number, text in enumerate(texts):
                assert await on.app.open_request(f"{text}ap{number}")
                await check(on)
                await on.press("end")
                await check(on)
                await on.press("escape")
                await on.settle()
            assert on.hub.answers == []

    @pytest.mark.parametrize("name", EACH_GROUP)
    async def test_each_attack_in_panels_over_a_request(self, name: str) -> None:
        """Spoofing: edit, grant, deny with its presets, explain, help, and panels of the live screen."""
        text = group(name)
        async with attacked_console([text]) as on:
            on.hub.explanation = explanation(text)
            for keys in (
                ("e",),
                ("e", "ctrl+s"),
                ("g",),
                ("d",),
                ("x",),
                ("x", "end"),
                ("question_mark",),
            ):
                await on.open_dialog()
                await on.press(*keys)
                await check(on)
                while not isinstance(on.app.screen, ApprovalScreen):
                    await on.press("escape")
                    await on.settle()
                on.app.screen.action_close()
                await on.settle()
            for keys in (
                ("n",),
                ("m",),
                ("i",),
                ("s",),
                ("alt+3", "G", "enter"),
                ("alt+2", "G", "enter"),
            ):
                await on.press(*keys)
                await check(on)
                await on.press("escape")
                await on.settle()
            assert on.hub.answers == []

    async def test_each_attack_in_a_batch(self) -> None:
        """Spoofing: common and differing fields of a batch."""
        text = group("forged")
        async with attacked_console([text, text, group("crowded")]) as on:
            await on.press("alt+5", "space", "j", "space")
            await check(on)
            await on.press("B")
            await check(on)
            assert isinstance(on.app.screen, BatchScreen)
            await on.press("end")
            await check(on)
            assert on.hub.answers == []


class TestNotices:
    @pytest.mark.variants
    @pytest.mark.parametrize("name", EACH_GROUP)
    async def test_outcomes_and_failures(self, name: str) -> None:
        """Spoofing: a hub's refusal, a failed start, and a revoked grant."""
        text = group(name)
        async with attacked_console([text]) as on:
            on.hub.refuse = text
            await on.open_dialog()
            await on.press("a")
            await check(on)
            on.app.screen.action_close()
            await on.settle()
            on.app.post_message(StartFailed(text))
            await check(on)
            [grant] = next(iter(on.hub.states.values())).grants.values()
            grant.revoked_by = text
            await on.press("alt+3", "G", "x")
            await check(on)


@pytest.mark.slow
class TestLongTexts:
    @pytest.mark.parametrize("name", LONG)
    async def test_end_of_a_long_input_is_visible(self, name: str) -> None:
        """Spoofing: a very long input is folded, with its end visible, or shown as an excerpt."""
        state = release_bot()
        state.approvals["ap1"] = deploy_request(input={"command": LONG[name]})
        async with stage(state, size=(80, 24)) as on:
            await on.open_dialog()
            await check(on)
            if name == "lines":
                # An excerpt of an input that is too long for the dialog, which cannot be approved there.
                assert "ONLY AN EXCERPT" in on.painted()
                return
            assert TAIL in on.painted()
            assert "lines hidden" in on.painted()
            assert "WHY IT ASKS" in on.painted()
