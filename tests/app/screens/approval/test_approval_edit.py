"""Approving with edited input: a form that keeps JSON types, a review, and a deliberate key."""

from __future__ import annotations

import pytest
from textual import events
from textual.widgets import TextArea

from interlock.app.screens.approval.forms.edit_input import InputForm
from interlock.app.screens.approval.forms.review_edit import ReviewEdit
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.widgets.base.blocks import BlockList
from interlock.app.widgets.inputs.choice import Choice
from interlock.app.widgets.inputs.field_editor import FieldEditor
from interlock.app.widgets.inputs.safe_input import TypedLine, TypedText

from ...support.scenes import deploy_request, release_bot
from ...support.stage import Stage, stage

INPUT = {
    "env": "prod",
    "count": 2,
    "dry": False,
    "labels": {"team": "shop"},
    "note": None,
}


def asking(**more: object):
    """A session that asks to run a call of several fields."""
    state = release_bot()
    state.approvals["ap1"] = deploy_request(**{"input": INPUT, "digest": "shown", **more})
    return state


async def open_form(on: Stage) -> InputForm:
    await on.open_dialog()
    await on.press("e")
    await on.settle()
    assert isinstance(on.app.screen, InputForm)
    return on.app.screen


def editor(on: Stage, name: str) -> FieldEditor:
    return next(e for e in on.app.screen.query(FieldEditor) if e.field.name == name)


async def open_long_form(on: Stage) -> InputForm:
    """Open the form of a long request after reading it to its end."""
    await on.open_dialog()
    assert await on.read_on("e") > 0
    await on.press("e")
    await on.settle()
    assert isinstance(on.app.screen, InputForm)
    return on.app.screen


async def type_over(on: Stage, name: str, text: str) -> None:
    """Set the text of a field, as if it had been typed."""
    where = editor(on, name)
    areas = where.query(TypedText)
    if areas:
        areas.first().text = text
    elif where.query(TypedLine):
        where.query_one(TypedLine).value = text
    else:
        where.query_one(Choice).chosen = text
    await on.settle()


async def review(on: Stage, *, awake: bool = True) -> None:
    await on.press("ctrl+s")
    await on.settle()
    if awake:
        await on.wake()


class TestForm:
    @pytest.mark.slow
    async def test_every_field_keeps_its_type(self) -> None:
        """Section 1: texts, numbers, booleans, null and objects keep their JSON types."""
        async with stage(asking()) as on:
            await open_form(on)
            for name, text in (
                ("env", 'a "b"\nc'),
                ("count", "3"),
                ("dry", "true"),
                ("labels", '{"team": "ops", "n": [1, 1.0]}'),
            ):
                await type_over(on, name, text)
            await review(on)
            assert isinstance(on.app.screen, ReviewEdit)
            await on.press("a")
            await on.settle()
            [answer] = on.hub.answers
            assert (answer.approved, answer.digest, answer.by) == (True, "shown", "maria")
            assert answer.input == {
                "env": 'a "b"\nc',
                "count": 3,
                "dry": True,
                "labels": {"team": "ops", "n": [1, 1.0]},
                "note": None,
            }
            assert isinstance(answer.input["count"], int)
            assert answer.input["dry"] is True
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_invalid_value_is_reported_at_its_field(self) -> None:
        """A field reports an invalid number or broken JSON, and the form opens no review."""
        async with stage(asking()) as on:
            form = await open_form(on)
            await type_over(on, "labels", '{"team":\n  oops}')
            assert "line 2, column 3" in on.painted()
            await type_over(on, "count", "two")
            assert "expected a number, found 'two'" in on.painted()
            await review(on)
            assert on.app.screen is form
            assert "Not yet. count: expected a number" in on.painted()
            assert on.hub.asked == []

    async def test_dialog_keys_are_inactive_while_typing(self) -> None:
        """The keys of the dialog below do nothing while the operator types."""
        async with stage(asking()) as on:
            form = await open_form(on)
            await on.press(*"adsgx")
            await on.settle()
            assert on.app.screen is form
            assert editor(on, "env").text == "adsgxprod"
            assert on.hub.asked == []

    @pytest.mark.slow
    async def test_form_keeps_its_texts_after_escape(self) -> None:
        """Escape goes back without a decision. The form keeps its texts, even after the dialog closes."""
        async with stage(asking()) as on:
            await open_form(on)
            await type_over(on, "env", "staging")
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            await on.press("escape")
            await on.settle()
            assert on.hub.asked == []
            await open_form(on)
            assert editor(on, "env").text == "staging"

    @pytest.mark.slow
    async def test_unchanged_form_opens_no_review(self) -> None:
        """Without a change the form opens no review and reports this."""
        async with stage(asking()) as on:
            form = await open_form(on)
            await review(on)
            assert on.app.screen is form
            assert "Nothing is changed yet" in on.painted()

    @pytest.mark.slow
    async def test_a_call_without_input_has_no_form(self) -> None:
        """A call without input has no field to edit: the key is greyed and reports why."""
        async with stage(asking(input={})) as on:
            dialog = await on.open_dialog()
            assert dialog.check_action("edit", ()) is None
            await on.press("e")
            await on.until("This call has no input to edit")
            assert on.app.screen is dialog

    @pytest.mark.slow
    async def test_invisible_characters_are_edited_as_escapes(self) -> None:
        """Control and invisible characters appear as escapes and keep their values."""
        async with stage(asking(input={"env": "a\u202eb\x1b[2J", "n": 1})) as on:
            await open_form(on)
            assert '"a\\u202eb\\u001b[2J"' in on.painted()
            await type_over(on, "n", "2")
            await review(on)
            await on.press("a")
            await on.settle()
            assert on.hub.answers[0].input == {"env": "a\u202eb\x1b[2J", "n": 2}

    @pytest.mark.slow
    async def test_pasted_control_characters_are_visible(self) -> None:
        """Pasted control characters become visible and decide nothing."""
        async with stage(asking()) as on:
            await open_form(on)
            on.app.screen.query(TextArea).first().post_message(events.Paste("x\u202e\x1b[31m\r\ny "))
            await on.settle()
            assert editor(on, "env").text == "x\\u202e\\x1b[31m\ny prod"
            assert on.hub.asked == []

    @pytest.mark.slow
    async def test_many_fields_are_edited_as_json(self) -> None:
        """An input with very many fields is edited as JSON."""
        values = {f"f{n}": n for n in range(100)}
        async with stage(asking(input=values)) as on:
            await open_long_form(on)
            [only] = on.app.screen.query(FieldEditor)
            await type_over(on, only.field.name, only.text.replace('"f7": 7', '"f7": 8'))
            await review(on)
            await on.press("a")
            await on.settle()
            assert on.hub.answers[0].input == {**values, "f7": 8}


class TestReview:
    @pytest.mark.slow
    async def test_review_shows_before_and_after(self) -> None:
        """The review shows each changed field, and long texts as a diff."""
        script = "".join(f"echo {n}\n" for n in range(50))
        async with stage(asking(input={"env": "prod", "script": script, "same": 1})) as on:
            await open_long_form(on)
            await type_over(on, "env", "staging")
            await type_over(on, "script", script.replace("echo 20\n", "echo two\n"))
            await review(on)
            shown = [line.strip(" │") for line in on.painted().splitlines()]
            text = on.painted()
            # Leaves out the dialog behind, which also shows the script.
            blocks = on.app.screen.query_one(BlockList).blocks
            listed = [line.plain for block in blocks for line in block.lines(100)]
        assert '- │ "prod"' in text
        assert '+ │ "staging"' in text
        assert "- │ echo 20" in text
        assert "+ │ echo two" in text
        assert not any("echo 40" in line for line in listed)
        assert not any(line.startswith("same") for line in shown)
        assert "Rules are checked again" in text

    @pytest.mark.slow
    async def test_review_keys_sleep_at_first(self) -> None:
        """The review's keys sleep for 400 ms; then one key approves."""
        async with stage(asking()) as on:
            await open_form(on)
            await type_over(on, "env", "staging")
            await review(on, awake=False)
            await on.press("a", "enter", "space", "y")
            await on.settle()
            assert on.hub.asked == []
            on.seconds += 0.41
            await on.press("a")
            await on.settle()
            assert len(on.hub.answers) == 1

    @pytest.mark.slow
    async def test_escape_goes_back_to_the_form(self) -> None:
        """Escape goes back one step, and the form keeps its texts."""
        async with stage(asking()) as on:
            form = await open_form(on)
            await type_over(on, "env", "staging")
            await review(on)
            await on.press("escape")
            await on.settle()
            assert on.app.screen is form
            assert editor(on, "env").text == "staging"
            assert on.hub.asked == []

    @pytest.mark.slow
    async def test_refused_edit_can_be_corrected(self) -> None:
        """The dialog shows why the hub refused an edit, and the form keeps its texts."""
        async with stage(asking()) as on:
            await open_form(on)
            await type_over(on, "env", "staging")
            await review(on)
            on.hub.refuse = "Not decided: 'password' still holds the mask"
            await on.press("a")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            assert "still holds the mask" in on.painted()
            await on.wake()
            await on.press("e")
            await on.settle()
            assert editor(on, "env").text == "staging"


@pytest.mark.slow
class TestMeanwhile:
    async def test_decided_elsewhere(self) -> None:
        """Form and review name the operator who decided, and approve nothing."""
        async with stage(asking()) as on:
            await open_form(on)
            await type_over(on, "env", "staging")
            await review(on)
            on.hub.decided_elsewhere("ap1", approved=False, by="jo")
            await on.settle()
            assert "Already denied by jo" in on.painted()
            await on.wake()
            await on.press("a")
            await on.settle()
            await on.press("escape")
            await on.settle()
            assert "Already denied by jo" in on.painted()
            await review(on)
            assert isinstance(on.app.screen, InputForm)
            assert on.hub.asked == []

    async def test_changed_request_keeps_the_typed_edit(self) -> None:
        """If the request changes, the edit is not sent. The form for the new request keeps it."""
        async with stage(asking()) as on:
            await open_form(on)
            await type_over(on, "env", "staging")
            await review(on)
            on.hub.asked_again("ap1", digest="other")
            await on.settle()
            await on.wake()
            await on.press("a")
            await on.settle()
            assert on.hub.asked == []
            await on.press("escape", "escape")
            await on.settle()
            await on.wake()
            await on.press("e")
            await on.settle()
            assert editor(on, "env").text == "staging"
            await review(on)
            await on.press("a")
            await on.settle()
            [answer] = on.hub.answers
            assert (answer.approval_id, answer.digest) == ("ap1+", "other")


PLAN = {"title": "Release 1.4", "steps": [{"tool": "deploy", "count": 2}]}


class TestAskedAnew:
    """The review describes its key correctly if an edit does not approve the call."""

    @pytest.mark.slow
    async def test_edited_plan_is_requested_again(self) -> None:
        """G-108: an edited plan is requested again with its own forecast."""
        state = asking(tool="plan", called="plan", names=("plan",), input=PLAN, may_grant=False)
        async with stage(state) as on:
            await on.open_dialog()
            assert "a approve this plan" in on.painted()
            assert "approve once" not in on.painted()
            await on.press("e")
            await on.settle()
            await type_over(on, "title", "Release 1.5")
            await review(on)
            await on.until("ask again with these changes")
            assert "its own forecast" in " ".join(on.painted().split())
            await on.press("a")
            await on.settle()
            assert [answer.input for answer in on.hub.answers] == [{**PLAN, "title": "Release 1.5"}]

    @pytest.mark.slow
    async def test_edit_for_several_approvers_is_requested_again(self) -> None:
        """G-77: an edit of a request for several approvers causes a new request."""
        async with stage(asking(people=2)) as on:
            await open_form(on)
            await type_over(on, "count", "3")
            await review(on)
            await on.until("ask again with these changes")
            assert "approve with these changes" not in on.painted()

    @pytest.mark.slow
    async def test_other_edit_is_approved(self) -> None:
        """An edit of another call by a single approver approves it."""
        async with stage(asking()) as on:
            await open_form(on)
            await type_over(on, "count", "3")
            await review(on)
            await on.until("approve with these changes")
