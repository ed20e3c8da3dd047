"""Answering a request with a typed form, sent by one deliberate key."""

from __future__ import annotations

import pytest
from textual import events

from interlock.app.screens.approval.batch import BatchScreen
from interlock.app.screens.approval.forms.answer_form import AnswerForm
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.widgets.inputs.choice import Choice
from interlock.app.widgets.inputs.field_editor import FieldEditor
from interlock.app.widgets.inputs.safe_input import TypedLine, TypedText

from ...support.stage import Stage, stage
from .flows import release, sign_off

FILLED = {
    "by": "ada",
    "ratio": "0.5",
    "approved": "true",
    "kind": '"minor"',
    "place.city": "Oslo",
    "tags": '["x", 1]',
}


async def open_form(on: Stage, *, awake: bool = True) -> AnswerForm:
    await on.open_dialog()
    await on.press("a")
    await on.settle()
    assert isinstance(on.app.screen, AnswerForm)
    if awake:
        await on.wake()
    return on.app.screen


def editor(on: Stage, name: str) -> FieldEditor:
    return next(e for e in on.app.screen.query(FieldEditor) if e.field.name == name)


async def fill_in(on: Stage, **texts: str) -> None:
    """Set the texts of fields, as if they had been typed."""
    for name, text in texts.items():
        where = editor(on, name)._editor
        match where:
            case TypedText():
                where.text = text
            case TypedLine():
                where.value = text
            case Choice():
                where.chosen = text
    await on.settle()


class TestForm:
    @pytest.mark.slow
    async def test_every_field_keeps_its_type(self) -> None:
        """P-81: text, numbers, booleans, choices, nested objects and lists keep their JSON types."""
        async with stage(release()) as on:
            await open_form(on)
            await fill_in(on, **FILLED)
            await on.press("ctrl+s")
            await on.settle()
            [answer] = on.hub.answers
            assert (answer.approved, answer.digest, answer.by) == (True, "shown", "maria")
            assert answer.input == {
                "by": "ada",
                "severity": 1,
                "ratio": 0.5,
                "approved": True,
                "kind": "minor",
                "level": "low",
                "place": {"city": "Oslo"},
                "tags": ["x", 1],
            }
            assert answer.input["approved"] is True
            assert answer.grant is None
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_field_shows_type_limits_and_description(self) -> None:
        """P-81: each field shows its type, its limits, its description, and whether it is required."""
        async with stage(release(), size=(120, 50)) as on:
            await open_form(on)
            painted = on.painted()
            assert "Answer: Notes" in painted
            assert "Are these notes good enough to publish?" in painted
            assert "by  text  required" in painted
            assert "Your name" in painted
            assert "severity  whole number, at least 1, at most 5" in painted
            assert "ratio  number  optional" in painted
            assert "place.city  text  required" in painted

    @pytest.mark.slow
    async def test_incomplete_form_is_not_sent(self) -> None:
        """P-81: an incomplete form is not sent, and the first field with a problem gets the focus."""
        async with stage(release()) as on:
            form = await open_form(on)
            await fill_in(on, by="ada", severity="very")
            assert "expected a number, found 'very'" in on.painted()
            await on.press("ctrl+s")
            await on.settle()
            assert "Not yet. severity: expected a number" in on.painted()
            assert editor(on, "severity")._editor.has_focus
            await fill_in(on, severity="2.5")
            assert "expected a whole number" in on.painted()
            await fill_in(on, severity="2")
            await on.press("ctrl+s")
            await on.settle()
            assert "Not yet. approved: choose one" in on.painted()
            assert on.app.screen is form
            assert on.hub.asked == []

    @pytest.mark.slow
    async def test_invalid_json_is_reported(self) -> None:
        """P-81: a field reports a value that is not a list, or the position of a JSON error."""
        async with stage(release(), size=(120, 50)) as on:
            await open_form(on)
            await fill_in(on, tags='{"a": 1}')
            assert "expected a list, found an object" in on.painted()
            await fill_in(on, tags="[1,\n oops]")
            assert "line 2, column 2" in on.painted()

    @pytest.mark.slow
    async def test_problem_scrolls_into_view(self) -> None:
        """P-81: a problem in the last field of a small screen scrolls into view."""
        async with stage(release(), size=(80, 24)) as on:
            await open_form(on)
            editor(on, "tags").take_focus()
            await on.settle()
            assert "Expecting" not in on.painted()
            await on.press("backspace", "backspace", "{")
            await on.until("Expecting property name enclosed in double")
            await on.until("▌ quotes")

    @pytest.mark.slow
    async def test_digits_and_arrows_select_a_choice(self) -> None:
        """Digits and arrows select a choice. The first arrow selects the first one."""
        async with stage(release()) as on:
            await open_form(on)
            chosen = editor(on, "kind")
            chosen.take_focus()
            await on.settle()
            assert "( ) 1 major   ( ) 2 minor" in on.painted()
            await on.press("2")
            await on.settle()
            assert chosen.text == '"minor"'
            assert "(●) 2 minor" in on.painted()
            await fill_in(on, kind="")
            await on.press("right")
            await on.settle()
            assert chosen.text == '"major"'

    @pytest.mark.slow
    async def test_suggestion_fills_the_field(self) -> None:
        """Examples are offered by number. Any other text can be typed."""
        async with stage(release()) as on:
            await open_form(on)
            by = editor(on, "by")
            by.query_one("#suggested").focus()
            await on.settle()
            await on.press("2")
            await on.settle()
            assert by.text == "Ben"
            assert by.query_one(TypedText).text == "Ben"
            await fill_in(on, by="Cleo")
            assert by.text == "Cleo"
            assert by.query_one("#suggested", Choice).chosen == "Cleo"

    async def test_answer_without_fields(self) -> None:
        """An answer without fields is given by the dialog's key."""
        async with stage(release(sign_off(wants={"type": "object", "properties": {}}))) as on:
            await on.open_dialog()
            assert "only has to be confirmed" in on.painted()
            await on.press("a")
            await on.settle()
            assert on.hub.answers[0].input == {}


@pytest.mark.slow
class TestDeliberately:
    async def test_only_one_key_sends(self) -> None:
        """Enter, tab and the dialog's letters go into the fields."""
        async with stage(release()) as on:
            form = await open_form(on)
            await fill_in(on, **FILLED)
            await on.press("enter", "a", "d", "tab", "enter", "y")
            await on.settle()
            assert on.app.screen is form
            assert on.hub.asked == []

    async def test_the_key_sleeps_at_first(self) -> None:
        """A key pressed before the form could be read sends nothing."""
        async with stage(release()) as on:
            form = await open_form(on, awake=False)
            form.draft.texts.update(FILLED)
            await on.press("ctrl+s")
            await on.settle()
            assert on.hub.asked == []
            await on.wake()
            await on.press("ctrl+s")
            await on.settle()
            assert len(on.hub.answers) == 1

    async def test_simultaneous_other_key_prevents_sending(self) -> None:
        """`^s` sends nothing if another key arrives just before or just after it, as in a paste."""
        async with stage(release(), quiet=5.0) as on:
            form = await open_form(on)
            await fill_in(on, **FILLED)
            on.seconds += 9
            await on.press("ctrl+s", "x")
            await on.settle()
            assert "nothing was decided" in on.painted()
            await on.wake()
            await on.press("x", "ctrl+s")
            await on.settle()
            assert "Keys pressed too fast; nothing was sent" in on.painted()
            assert on.app.screen is form
            assert on.hub.asked == []

    async def test_paste_goes_into_a_field(self) -> None:
        """A paste sends nothing, and its control characters become visible."""
        async with stage(release()) as on:
            await open_form(on)
            editor(on, "by").take_focus()
            await on.settle()
            on.app.screen.focused.post_message(events.Paste("ada\x13\x1b[31m\u202e"))
            await on.settle()
            assert editor(on, "by").text == "ada\\x13\\x1b[31m\\u202e"
            assert on.hub.asked == []

    async def test_escape_keeps_what_was_typed(self) -> None:
        """Escape goes back to the request without a decision. The form keeps its texts."""
        async with stage(release()) as on:
            await open_form(on)
            await fill_in(on, by="ada", approved="false")
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            await on.press("escape")
            await on.settle()
            assert on.hub.asked == []
            await open_form(on)
            assert (editor(on, "by").text, editor(on, "approved").text) == ("ada", "false")
            editor(on, "by").take_focus()
            await on.press(*" l")
            await on.settle()
            assert editor(on, "by").text == "ada l"  # The cursor is at the end of the kept text.

    async def test_key_in_frame_can_be_clicked(self) -> None:
        """The key in the frame can be clicked."""
        async with stage(release()) as on:
            await open_form(on)
            await fill_in(on, **FILLED)
            await on.until("send the answer")
            row, line = next(
                (y, text) for y, text in enumerate(on.painted().split("\n")) if "send the answer" in text
            )
            await on.pilot.click(offset=(line.index("send the answer"), row))
            await on.settle()
            assert len(on.hub.answers) == 1


@pytest.mark.slow
class TestRefused:
    async def test_server_error_is_shown_at_its_field(self) -> None:
        """P-81: the server's errors are shown beside their fields, and the form keeps its texts."""
        async with stage(release()) as on:
            form = await open_form(on)
            await fill_in(on, **FILLED)
            on.hub.refuse = "severity: Input should be a valid integer; place.city: too short"
            await on.press("ctrl+s")
            await on.settle()
            assert on.app.screen is form
            assert editor(on, "severity").refused == "Input should be a valid integer"
            assert editor(on, "place.city").refused == "too short"
            assert editor(on, "by").refused is None
            assert editor(on, "severity")._editor.has_focus
            assert "✗ Input should be a valid integer" in on.painted()
            assert editor(on, "by").text == "ada"
            await fill_in(on, severity="4")
            assert editor(on, "severity").problem is None
            on.hub.refuse = None
            await on.wake()
            await on.press("ctrl+s")
            await on.settle()
            assert on.hub.answers[-1].input["severity"] == 4
            assert isinstance(on.app.screen, LiveScreen)

    async def test_refusal_without_field_is_shown_below(self) -> None:
        """A refusal that names no field is shown below the fields."""
        async with stage(release()) as on:
            await open_form(on)
            await fill_in(on, **FILLED)
            on.hub.refuse = "The journal cannot be written"
            await on.press("ctrl+s")
            await on.settle()
            assert "The journal cannot be written" in on.painted()

    async def test_request_decided_elsewhere_cannot_be_answered(self) -> None:
        """A request decided elsewhere cannot be answered again. The form keeps its texts."""
        async with stage(release()) as on:
            form = await open_form(on)
            await fill_in(on, **FILLED)
            await on.hub.decide("ap-flow", approved=False, by="jo", digest="shown")
            await on.settle()
            assert form.over
            await on.wake()
            await on.press("ctrl+s")
            await on.settle()
            assert len(on.hub.answers) == 1
            assert editor(on, "by").text == "ada"


@pytest.mark.slow
class TestHints:
    async def test_focused_field_is_explained(self) -> None:
        """The frame explains the focused field, which is also marked without colours."""
        async with stage(release()) as on:
            await open_form(on)
            await on.until("tab next · ^s send the answer")
            assert "▌ by  text  required" in on.painted()
            editor(on, "kind").take_focus()
            await on.until("1-2 choose · tab next · ^s send the answer · esc go back")
            assert "▌ kind  one of these" in on.painted()
            assert "▌ by" not in on.painted()
            assert "Answer: Notes — Release" in on.painted()


class TestDialog:
    @pytest.mark.slow
    async def test_question_comes_first(self) -> None:
        """The question comes first, and the dialog offers no edit or grant."""
        async with stage(release(), size=(80, 24)) as on:
            await on.open_dialog()
            painted = on.painted()
            assert "WHAT IS ASKED" in painted
            assert "WHAT WILL RUN" not in painted
            assert painted.index("Are these notes") < painted.index("Faster cart")
            assert "step 2 of flow Release waits for the answer" in painted
            assert "TO FILL IN" in painted
            bar = painted.split("\n")
            keys = next(line for line in bar if " deny" in line and "stop" in line)
            assert "a answer" in keys
            assert "edit" not in keys
            assert "grant" not in keys
            await on.press("e", "g")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)

    async def test_question_is_shown_once(self) -> None:
        """A question that is also a field of the input is shown once."""
        asked = sign_off(input={"prompt": "Which name?", "about": "x"}, message="Which name?")
        async with stage(release(asked), size=(80, 24)) as on:
            await on.open_dialog()
            assert on.painted().count("Which name?") == 1
            assert "about" in on.painted()

    @pytest.mark.slow
    async def test_denial_requires_no_answer(self) -> None:
        """A denial requires no answer and takes a reason."""
        async with stage(release()) as on:
            await on.open_dialog()
            await on.press("d")
            await on.wake()
            await on.press(*"no", "enter")
            await on.settle()
            [answer] = on.hub.answers
            assert (answer.approved, answer.reason, answer.input) == (False, "no", None)

    @pytest.mark.slow
    @pytest.mark.parametrize("key", ["A", "D"])
    async def test_batch_does_not_decide_it(self, key: str) -> None:
        """A batch decides no request that requires an answer, and says so."""
        other = sign_off(id="ap-other", call_id="9.Notes")
        state = release()
        state.approvals[other.id] = other
        async with stage(state) as on:
            await on.press("alt+5", "space", "j", "space", "B")
            await on.settle()
            assert isinstance(on.app.screen, BatchScreen)
            await on.press("end")
            await on.wake()
            assert "answer it separately" in on.painted()
            await on.press(key)
            await on.settle()
            if key == "D":
                await on.wake()
                await on.press("enter")
            await on.settle()
            assert on.hub.asked == []
            assert "Nothing was decided" in on.painted()
