"""Text from agents and flows cannot style, hide or imitate anything in a form or in a graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.screens.approval.forms.answer_form import AnswerForm
from interlock.app.widgets.inputs.choice import Choice
from interlock.app.widgets.inputs.field_editor import FieldEditor
from interlock.app.widgets.inputs.safe_input import TypedText

from ...spoofing.attacks import EACH_GROUP, FORGED, group
from ...spoofing.harmless import assert_harmless
from ...spoofing.test_terminal import staged, walked
from ...support.stage import stage
from .hostile import attacked

__all__ = ["walked"]


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH_GROUP)
class TestEachGroup:
    async def test_hostile_text_is_shown_as_text_in_form_and_graph(self, name: str) -> None:
        """Spoofing: a request for an answer, its form to the end, the flow's line and graph."""
        async with stage(attacked(group(name)), size=(100, 30)) as on:
            assert_harmless(on.app)
            await on.press("alt+3", "g")
            await on.settle()
            assert_harmless(on.app)
            await on.press("enter")
            await on.settle()
            assert_harmless(on.app)
            await on.press("escape")
            await on.open_dialog()
            assert_harmless(on.app)
            await on.press("end")
            await on.settle()
            assert_harmless(on.app)
            await on.read_all()
            await on.press("a")
            await on.settle()
            assert isinstance(on.app.screen, AnswerForm)
            await on.wake()
            for _ in range(9):
                assert_harmless(on.app)
                await on.press("tab")
                await on.settle()
            await on.press("ctrl+s")
            await on.settle()
            assert_harmless(on.app)
            on.app.screen.answered(await _refusal(on.hub, group(name)))
            await on.settle()
            assert_harmless(on.app)
            assert on.hub.answers[1:] == []


async def _refusal(hub, text: str):
    hub.refuse = text
    return await hub.decide("ap-flow", approved=True, by="maria")


@pytest.mark.slow
class TestSuggestions:
    async def test_suggestion_shows_control_characters(self) -> None:
        """Spoofing: a suggestion's control characters are visible in the field that it fills."""
        text = "a\x1b[31mred\u202e"
        async with stage(attacked(text), size=(100, 30)) as on:
            await on.open_dialog()
            await on.press("a")
            await on.settle()
            first = on.app.screen.query(FieldEditor).first()
            first.query_one("#suggested", Choice).action_turn(1)
            await on.settle()
            assert first.query_one(TypedText).text == "a\\x1b[31mred\\u202e"
            assert_harmless(on.app)

    async def test_choice_is_shown_escaped_and_sent_unchanged(self) -> None:
        """Spoofing: a choice is shown with escapes, and its original value is sent."""
        text = "a\x1b[31mred"
        async with stage(attacked(text), size=(100, 30)) as on:
            await on.open_dialog()
            await on.press("a")
            await on.settle()
            chosen = next(e for e in on.app.screen.query(FieldEditor) if e.field.name == "choose")
            chosen.take_focus()
            await on.press("1")
            await on.settle()
            assert chosen.field.read(chosen.text) == text
            assert "a\\x1b[31mred" in on.painted()


class TestTerminal:
    @pytest.mark.thorough
    def test_real_terminal_shows_question_form_and_graph(self, tmp_path: Path, walked) -> None:
        """Spoofing: a real terminal shows the question, the form and the graph as intended."""
        with staged("flow", tmp_path) as on:
            walked(on, "", "1 waiting", "LiveScreen")
            walked(on, "\x1b3", "▌ [~] flow", "LiveScreen")
            walked(on, "\r", "waits for an answer", "FlowPanel")
            walked(on, "\x1b", "s start", "LiveScreen")
            meant = walked(on, "a", "decide later", "ApprovalScreen")
            [(x, y, width, height)] = meant.frames
            inner = [row[x + 1 : x + width - 1] for row in on.rows()[y + 1 : y + height - 1]]
            assert sum(line.strip().startswith("WHAT IS ASKED") for line in inner) == 1
            for line in FORGED:
                assert not any(row.strip().startswith(line) for row in inner)
            while True:
                # A key pressed while the keys sleep after a page restarts the time.
                meant = on.meant(tmp_path, "ApprovalScreen")
                if any("keys unlock" in row for row in meant.rows):
                    continue
                if any("a answer" in row for row in meant.rows):
                    break
                on.send("a")
            walked(on, "a", "send the answer", "AnswerForm")
