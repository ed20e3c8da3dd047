"""The approval dialog: every part of a request must have been on screen before any key approves it."""

from __future__ import annotations

import pytest
from pydantic import JsonValue
from textual import events

from interlock.app.screens.approval.forms.edit_input import InputForm
from interlock.app.screens.approval.forms.review_edit import ReviewEdit
from interlock.app.screens.approval.grant import GrantScreen
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.widgets.approval.frame import RequestList
from interlock.engine.history.model.state import SessionState

from ....support.laws import pairs
from ...support.scenes import deploy_request, release_bot
from ...support.stage import Stage, stage

BAD = "EVIL"
HEREDOC = "\n".join(["cat > notes <<E", *(f"line {n}" for n in range(280)), "E", BAD, "echo done"])
LONG_LINE = "echo " + "x" * 2_500 + f"; {BAD}; echo " + "y" * 2_500
FIELDS = {f"f{n:02}": f"value {n}" for n in range(60)} | {"bad": BAD} | {f"g{n}": n for n in range(5)}
PREVIEW = "\n".join(
    ["--- a/x", "+++ b/x", *(f"+line {n}" for n in range(200)), f"+{BAD}", *(f"+{n}" for n in range(200))]
)
LONG = {
    "heredoc": {"input": {"command": HEREDOC}},
    "long line": {"input": {"command": LONG_LINE}},
    "fields": {"input": FIELDS},
    "preview": {"preview": PREVIEW},
}
SIZES = {"120x40": (120, 40), "80x24": (80, 24), "60x24": (60, 24), "40x12": (40, 12)}


def asking(**more: object) -> SessionState:
    state = release_bot()
    state.approvals["ap1"] = deploy_request(**{"digest": "shown", **more})
    return state


def without_wrapping(text: str) -> str:
    """A text without the characters that wrapping, borders and bars add."""
    return "".join(letter for letter in text if letter.isascii() and not letter.isspace())


async def show_all_pages(on: Stage, key: str = "a") -> str:
    """Press `key` until nothing is unseen, and return all that was painted."""
    guard = on.app.screen.query_one(RequestList).guard
    seen = on.painted()
    for _ in range(400):
        if guard.complete:
            return seen
        await on.press(key)
        await on.wake()
        seen += on.painted()
    raise AssertionError("there was always more to see")


class TestLongRequests:
    @pytest.mark.slow
    @pytest.mark.parametrize(("more", "size"), pairs(LONG, SIZES))
    async def test_approval_requires_all_pages_shown(
        self, more: dict[str, object], size: tuple[int, int]
    ) -> None:
        """`a` shows each page, and approves only after the bad line among them was on screen."""
        async with stage(asking(**more), size=size) as on:
            await on.open_dialog()
            seen = on.painted()
            await on.press("a")
            await on.wake()
            assert on.decisions() == []
            seen += await show_all_pages(on)
            assert on.decisions() == []
            assert BAD in without_wrapping(seen)
            await on.press("a")
            await on.settle()
            assert on.decisions() == [("decide", "ap1", True, "maria", None)]

    @pytest.mark.slow
    async def test_a_request_that_fits_takes_one_key(self) -> None:
        """One deliberate `a` approves a request that fits on the screen."""
        async with stage(size=(80, 24)) as on:
            await on.open_dialog()
            assert "next page" not in on.painted()
            await on.press("a")
            await on.settle()
            assert on.decisions() == [("decide", "ap1", True, "maria", None)]

    @pytest.mark.slow
    async def test_frame_shows_next_page_number(self) -> None:
        """Key bar and frame announce the next page with its number."""
        async with stage(asking(**LONG["heredoc"]), size=(80, 24)) as on:
            await on.open_dialog()
            await on.until("a show the next page")
            assert "a next page" in on.painted()
            await on.press("a")
            await on.wake()
            await on.until("a show the next page · 3 of 18")
            await show_all_pages(on)
            await on.until("✓a approve")
            assert "show the next page" not in on.painted()

    @pytest.mark.slow
    @pytest.mark.parametrize("key", ["a", "e", "g"])
    async def test_edit_and_grant_require_all_pages_shown(self, key: str) -> None:
        """Edit and grant keys open their forms only after all pages were on screen."""
        async with stage(asking(**LONG["heredoc"])) as on:
            dialog = await on.open_dialog()
            await on.press(key)
            await on.wake()
            assert on.app.screen is dialog
            await show_all_pages(on, key)
            assert on.app.screen is dialog
            await on.press(key)
            await on.settle()
            assert {"e": InputForm, "g": GrantScreen}.get(key) in (None, type(on.app.screen))

    @pytest.mark.slow
    async def test_denial_does_not_require_all_pages(self) -> None:
        """A denial does not require that all pages were on screen."""
        async with stage(asking(**LONG["heredoc"])) as on:
            await on.open_dialog()
            await on.press("d")
            await on.wake()
            await on.press("enter")
            await on.settle()
            assert on.decisions() == [("decide", "ap1", False, "maria", None)]


class TestWaysAround:
    @pytest.mark.slow
    async def test_a_jump_to_the_end_skips_nothing(self) -> None:
        """Lines skipped by `end` count as unseen and are shown before approval."""
        async with stage(asking(**LONG["heredoc"]), size=(80, 24)) as on:
            dialog = await on.open_dialog()
            await on.press("space")
            await on.press("end")
            await on.wake()
            await on.press("a")
            await on.wake()
            assert on.decisions() == []
            assert dialog.query_one(RequestList).scroll_offset.y < 100
            assert "line 150" in await show_all_pages(on)

    @pytest.mark.slow
    @pytest.mark.parametrize("size", [(60, 20), (80, 20), (80, 24)])
    @pytest.mark.parametrize("scrolled", [False, True])
    async def test_unfolded_lines_count_only_in_view(self, size: tuple[int, int], scrolled: bool) -> None:
        """Unfolded lines count as seen only where they stay in view."""
        old = [f"old line {number}" for number in range(40)]
        new = [f"EVIL {n}" if n % 7 == 0 else line for n, line in enumerate(old)]
        given: dict[str, JsonValue] = {"path": "a.py", "old_text": "\n".join(old)}
        given["new_text"] = "\n".join(new)
        async with stage(asking(called="edit", names=("edit",), input=given), size=size) as on:
            await on.open_dialog()
            if scrolled:
                await on.press("end")
                await on.wake()
            stable = on.painted()
            while not on.app.screen.query_one(RequestList).guard.complete:
                await on.press("a")
                await on.wake()
                stable += on.painted()
            assert [n for n in range(0, 40, 7) if f"│ EVIL {n} " not in stable] == []

    @pytest.mark.slow
    async def test_pages_read_with_page_down_count(self) -> None:
        """Pages read with the list's keys count as seen."""
        async with stage(asking(**LONG["heredoc"]), size=(80, 24)) as on:
            await on.open_dialog()
            await on.press("space")
            await on.settle()
            for _ in range(40):
                await on.press("pagedown")
                await on.settle()
            await on.wake()
            await on.press("a")
            await on.settle()
            assert on.decisions() == [("decide", "ap1", True, "maria", None)]

    @pytest.mark.slow
    async def test_a_key_held_down_approves_nothing(self) -> None:
        """Every page puts the keys to sleep, so a held key does not approve unread pages."""
        async with stage(asking(**LONG["heredoc"])) as on:
            await on.open_dialog()
            await on.press(*"a" * 100)
            await on.settle()
            assert on.decisions() == []
            assert not on.app.screen.query_one(RequestList).guard.complete

    @pytest.mark.slow
    async def test_early_key_shows_pages_but_approves_nothing(self) -> None:
        """Keys pressed too early still show page after page, but approve nothing."""
        async with stage(asking(**LONG["heredoc"])) as on:
            await on.open_dialog()
            guard = on.app.screen.query_one(RequestList).guard
            for _ in range(400):
                if guard.complete:
                    break
                await on.press("a")
                on.seconds += 0.3
            assert guard.complete
            for _ in range(10):
                await on.press("a")
                on.seconds += 0.3
            assert on.decisions() == []

    @pytest.mark.slow
    async def test_a_smaller_terminal_shows_the_rest_first(self) -> None:
        """Lines not seen before the terminal shrank must be shown afterwards."""
        async with stage(asking(**LONG["fields"]), size=(120, 60)) as on:
            await on.open_dialog()
            assert not on.app.screen.query_one(RequestList).guard.complete
            await on.pilot.resize_terminal(60, 20)
            await on.wake()
            await on.press("a")
            await on.wake()
            assert on.decisions() == []
            assert BAD in without_wrapping(await show_all_pages(on))

    async def test_too_small_a_terminal_approves_nothing(self) -> None:
        """If no line of the request fits on the screen, nothing is approved."""
        async with stage(asking(), size=(80, 2)) as on:
            await on.press("a")
            await on.wake()
            assert isinstance(on.app.screen, ApprovalScreen)
            assert on.app.screen.query_one(RequestList).size.height == 0
            for _ in range(5):
                await on.press("a")
                await on.wake()
            assert on.decisions() == []

    @pytest.mark.slow
    async def test_changed_request_counts_as_unseen(self) -> None:
        """A changed request must be shown again from its first line."""
        async with stage(asking(**LONG["heredoc"])) as on:
            dialog = await on.open_dialog()
            await show_all_pages(on)
            on.hub.asked_again("ap1", digest="other", input={"command": HEREDOC.replace("150", "rm")})
            await on.settle()
            assert dialog.request.id == "ap1+"
            await on.wake()
            await on.press("a")
            await on.wake()
            assert on.decisions() == []
            assert "line rm" in await show_all_pages(on)
            await on.press("a")
            await on.settle()
            assert [asked[1] for asked in on.decisions()] == ["ap1+"]

    @pytest.mark.slow
    async def test_request_changed_behind_help_counts_as_unseen(self) -> None:
        """A request that changes while help covers the dialog stays unseen until help is closed."""
        async with stage(asking()) as on:
            dialog = await on.open_dialog()
            await on.press("question_mark")
            await on.settle()
            on.hub.asked_again("ap1", digest="other")
            await on.settle()
            assert not dialog.query_one(RequestList).guard.complete
            await on.press("escape")
            await on.wake()
            assert dialog.query_one(RequestList).guard.complete

    @pytest.mark.slow
    async def test_lines_under_a_notification_count_as_unseen(self) -> None:
        """Lines that a notification may have covered count only after it has disappeared."""
        async with stage(asking(**LONG["heredoc"])) as on:
            dialog = await on.open_dialog()
            shown = dialog.query_one(RequestList)
            on.app.notify("Something else", timeout=60)
            await on.press("space")
            await on.settle()
            row = shown.guard.next_row
            await on.press("pagedown", "pagedown")
            await on.settle()
            assert shown.guard.next_row == row
            await on.press("a")
            await on.wake()
            assert "Something else" not in on.painted()
            assert (shown.guard.next_row or 0) > (row or 0)

    @pytest.mark.slow
    async def test_reopened_dialog_counts_as_unseen(self) -> None:
        """A dialog that is opened again must be read again."""
        async with stage(asking(**LONG["heredoc"])) as on:
            await on.open_dialog()
            await show_all_pages(on)
            await on.press("escape")
            await on.settle()
            dialog = await on.open_dialog()
            assert not dialog.query_one(RequestList).guard.complete

    @pytest.mark.slow
    async def test_lines_scrolled_by_wheel_count_as_seen(self) -> None:
        """Lines scrolled into view with the mouse wheel count as seen."""
        async with stage(asking(**LONG["heredoc"]), size=(80, 24)) as on:
            dialog = await on.open_dialog()
            await on.press("space")
            await on.settle()
            shown = dialog.query_one(RequestList)
            before = shown.guard.next_row
            for _ in range(10):
                at = {"x": 10, "y": 5, "screen_x": 10, "screen_y": 5}
                shown.post_message(
                    events.MouseScrollDown(
                        shown,
                        **at,
                        delta_x=0,
                        delta_y=1,
                        button=0,
                        shift=False,
                        meta=False,
                        ctrl=False,
                    )
                )
                await on.settle()
            assert (shown.guard.next_row or 0) > (before or 0)


@pytest.mark.slow
class TestReviewedEdit:
    async def test_approval_requires_all_changes_shown(self) -> None:
        """A long edit is approved only after all its changes were on screen."""
        before = "\n".join(f"line {n}" for n in range(120))
        async with stage(asking(input={"script": before}), size=(80, 24)) as on:
            await on.open_dialog()
            await show_all_pages(on, "e")
            await on.press("e")
            await on.settle()
            form = on.app.screen
            assert isinstance(form, InputForm)
            form.draft.texts["script"] = before.replace("line", "other")
            form.action_review()
            await on.wake()
            review = on.app.screen
            assert isinstance(review, ReviewEdit)
            await on.press("a")
            await on.wake()
            assert on.decisions() == []
            assert on.app.screen is review
            assert await on.read_on() > 3
            await on.press("a")
            await on.settle()
            assert [asked[:3] for asked in on.decisions()] == [("decide", "ap1", True)]
