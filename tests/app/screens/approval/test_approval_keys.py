"""The dialog's other keys, and that no accident is a decision."""

from __future__ import annotations

from datetime import timedelta

import pytest
from textual import events
from textual.widgets import Input

from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.widgets.approval.frame import RequestList

from ...support.scenes import NOW, deploy_request, release_bot
from ...support.stage import Stage, stage

PRESETS = ["wrong environment", "not now"]


def asking(*, opened_by: str | None = None, **more: object):
    state = release_bot()
    state.starters = {} if opened_by is None else {opened_by: "opened"}
    state.approvals["ap1"] = deploy_request(**{"digest": "shown", **more})
    return state


async def deny(on: Stage, *typed: str) -> None:
    await on.press(*typed)
    await on.wake()
    await on.press("enter")
    await on.settle()


class TestDenying:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("typed", "reason"),
        [
            ("2", "not now"),
            ("", None),
            ("3", "3"),
            ("2 tests failed", "2 tests failed"),
            (" 1 ", PRESETS[0]),
        ],
    )
    async def test_number_selects_configured_reason(self, typed: str, reason: str | None) -> None:
        """Section 1: a number selects a configured reason; any other text is the reason itself."""
        async with stage(asking(), deny_reasons=PRESETS) as on:
            await on.open_dialog()
            await on.press("d")
            await on.settle()
            assert "2 not now" in on.painted()
            await deny(on, *typed)
            [answer] = on.hub.answers
            assert (answer.approved, answer.reason, answer.stop, answer.digest) == (
                False,
                reason,
                False,
                "shown",
            )

    @pytest.mark.slow
    async def test_selected_reason_is_marked(self) -> None:
        """Before enter is pressed, the dialog marks the reason that a number selects."""
        async with stage(asking(), deny_reasons=PRESETS) as on:
            await on.open_dialog()
            await on.press("d", "2")
            await on.settle()
            assert "▸2 not now" in on.painted()

    @pytest.mark.slow
    async def test_s_denies_and_stops(self) -> None:
        """`s` announces its effect, asks for a reason, and stops the agent with the denial."""
        async with stage(asking()) as on:
            await on.open_dialog()
            await on.press("s")
            await on.settle()
            assert "Enter denies it and stops release-bot" in on.painted()
            await deny(on, *"enough")
            [answer] = on.hub.answers
            assert (answer.approved, answer.reason, answer.stop) == (False, "enough", True)

    @pytest.mark.slow
    async def test_after_stop_deny_only_denies(self) -> None:
        """Going back and choosing `d` cancels the choice of `s`."""
        async with stage(asking()) as on:
            await on.open_dialog()
            await on.press("s", "escape")
            await on.wake()
            await on.press("d")
            await on.settle()
            assert "stops release-bot" not in on.painted()
            await deny(on)
            assert not on.hub.answers[0].stop


class TestAccidents:
    async def test_a_held_key_never_decides(self) -> None:
        """Each repetition of a held key restarts the time."""
        async with stage(asking()) as on:
            await on.open_dialog(awake=False)
            for _ in range(40):
                await on.press("a")
                on.seconds += 0.1
            await on.settle()
            assert on.hub.asked == []

    @pytest.mark.slow
    async def test_several_keys_at_once_decide_nothing(self) -> None:
        """A held key, or a paste that arrives as keys, decides nothing. A single key decides."""
        async with stage(asking(), quiet=0.5) as on:
            dialog = await on.open_dialog()
            await on.press("a", "a", "a")
            await on.until("Keys pressed too fast")
            assert on.hub.asked == []
            assert on.app.screen is dialog
            await on.wake()
            await on.press("a")
            for _ in range(500):
                if on.hub.answers:
                    break
                await on.pilot.pause(0.02)
            assert len(on.hub.answers) == 1

    @pytest.mark.slow
    async def test_text_that_comes_as_keys_does_not_deny(self) -> None:
        """`dno` and a line break at once only open the line for the reason."""
        async with stage(asking()) as on:
            dialog = await on.open_dialog()
            await on.press("d", "n", "o", "enter", "enter")
            await on.settle()
            assert on.hub.asked == []
            assert on.app.screen is dialog

    @pytest.mark.slow
    async def test_paste_is_reported(self) -> None:
        """Pasted text decides nothing, and the dialog reports this."""
        async with stage(asking()) as on:
            await on.open_dialog()
            on.app.post_message(events.Paste("a"))
            await on.settle()
            assert on.hub.asked == []
            assert "Pasted text decides nothing" in on.painted()

    @pytest.mark.slow
    async def test_pasted_reason_shows_control_characters(self) -> None:
        """Control characters in a pasted reason become escapes."""
        async with stage(asking()) as on:
            await on.open_dialog()
            await on.press("d")
            await on.settle()
            on.app.screen.query_one("#reason", Input).post_message(events.Paste("a\x1b[2Jb\nc"))
            await on.settle()
            assert on.app.screen.query_one("#reason", Input).value == "a\\x1b[2Jb"


class TestTime:
    async def test_title_shows_age_and_time_left(self) -> None:
        """The title shows how long the request has waited and when it expires."""
        async with stage(asking(expires=NOW + timedelta(seconds=858))) as on:
            await on.open_dialog()
            assert "Approve: deploy — release-bot · waiting 0:42 · expires in 14:18" in on.painted()

    @pytest.mark.slow
    async def test_expiry_is_reported_before_the_hub_does(self) -> None:
        """The dialog reports the expiry at once, even before the hub reports it."""
        async with stage(asking(expires=NOW)) as on:
            await on.open_dialog()
            await on.press("a")
            await on.settle()
            assert "This request has expired" in on.painted()
            on.hub.expire("ap1", "nobody decided within 15 min (deploy.rules:5)")
            await on.settle()
            assert "Too late: nobody decided within 15 min (deploy.rules:5)" in on.painted()
            assert on.hub.asked == []

    @pytest.mark.slow
    async def test_plus_extends_the_deadline(self) -> None:
        """`+` extends the deadline by a quarter of an hour."""
        async with stage(asking(expires=NOW + timedelta(seconds=858))) as on:
            await on.open_dialog()
            await on.press("plus")
            await on.settle()
            assert on.hub.asked == [("extend", "ap1", 1758.0, "maria")]
            await on.settle()
            assert "expires in 29:18" in on.painted()
            await on.press("a")
            await on.settle()
            assert len(on.hub.answers) == 1

    @pytest.mark.slow
    async def test_request_without_deadline_cannot_be_extended(self) -> None:
        """A request without a deadline has no `+` key."""
        async with stage(asking()) as on:
            await on.open_dialog()
            assert "more time" not in on.painted()
            await on.press("plus")
            await on.settle()
            assert on.hub.asked == []


class TestSeveralPeople:
    async def test_first_approval_shows_progress(self) -> None:
        """After the first approval the dialog reports the progress, and the request stays open."""
        async with stage(asking(people=2)) as on:
            await on.open_dialog()
            assert "0 of 2: two people must approve" in on.painted()
            await on.press("a")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)
            await on.until("approved by maria (1 of 2)")
            await on.open_dialog()
            assert "maria just now ✓ — 1 more needed, not you: you have approved" in on.painted()

    @pytest.mark.slow
    async def test_open_dialog_shows_approval_of_another_operator(self) -> None:
        """An open dialog names the operator who approved, and its keys sleep again."""
        async with stage(asking(people=2)) as on:
            await on.open_dialog()
            on.hub.given("ap1", "ada")
            await on.settle()
            assert "1 of 2: ada just now ✓ — 1 more needed" in on.painted()
            await on.press("a")
            await on.settle()
            assert on.hub.asked == []
            await on.wake()
            await on.press("a")
            await on.settle()
            assert len(on.hub.answers) == 1

    @pytest.mark.slow
    async def test_age_of_an_approval_is_updated(self) -> None:
        """An open dialog updates the age of an approval and keeps its scroll position."""
        text = "\n".join(f"echo {number}" for number in range(99))
        state = asking(people=2, given=("ada",), given_at=(NOW,), input={"command": text})
        async with stage(state, size=(100, 24)) as on:
            dialog = await on.open_dialog()
            assert "1 of 2: ada just now ✓ — 1 more needed" in on.painted()
            await on.press("down", "down")
            await on.settle()
            body = dialog.query_one(RequestList)
            read = body.scroll_offset.y
            dialog._clock = dialog._frame._clock = lambda: NOW + timedelta(minutes=4)
            await on.until("ada 4 min ago ✓ — 1 more needed")
            assert body.scroll_offset.y == read

    @pytest.mark.slow
    async def test_session_author_sees_why_they_cannot_approve(self) -> None:
        """An operator cannot approve in a session they started, and the dialog says so."""
        async with stage(asking(people=2, opened_by="maria")) as on:
            await on.open_dialog()
            assert "two people must approve, not you: you started this session" in on.painted()


class TestChanged:
    async def test_replacement_request_is_shown_with_sleeping_keys(self) -> None:
        """The dialog changes to the new request with sleeping keys, and decides nothing by itself."""
        async with stage(asking()) as on:
            dialog = await on.open_dialog()
            on.hub.asked_again("ap1", digest="other", input={"command": "./deploy --env moon"})
            await on.settle()
            assert on.app.screen is dialog
            assert "the request has changed; asked again. This is the current request" in on.painted()
            assert "--env moon" in on.painted()
            await on.press("a")
            await on.settle()
            assert on.hub.asked == []
            await on.wake()
            await on.press("a")
            await on.settle()
            [answer] = on.hub.answers
            assert (answer.approval_id, answer.digest) == ("ap1+", "other")
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_refused_decision_on_outdated_request_is_reported(self) -> None:
        """If the hub refuses a decision about an old request, the dialog reports this and stays open."""
        async with stage(asking()) as on:
            dialog = await on.open_dialog()
            on.hub._change("ap1", digest="other")
            await on.press("a")
            await on.settle()
            assert on.app.screen is dialog
            assert "This is not the request that was shown" in on.painted()

    @pytest.mark.slow
    async def test_request_for_another_call_does_not_replace_it(self) -> None:
        """Only the same call of the same session replaces a request. Others wait in the queue."""
        async with stage(asking()) as on:
            dialog = await on.open_dialog()
            on.hub.withdraw("ap1", "the agent was interrupted")
            on.hub.request(deploy_request(id="ap2", call_id="c10"))
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            assert dialog.request.id == "ap1"
            assert "Withdrawn: the agent was interrupted" in on.painted()
