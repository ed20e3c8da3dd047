"""The approval dialog: nothing is approved that was not on screen, by no key and in no size."""

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


def squeezed(text: str) -> str:
    """A text without what wrapping, borders and bars put into it."""
    return "".join(letter for letter in text if letter.isascii() and not letter.isspace())


async def all_pages(on: Stage, key: str = "a") -> str:
    """Press `key` until nothing is unseen; everything that was painted on the way."""
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
    async def test_all_was_painted_before_it_is_approved(
        self, more: dict[str, object], size: tuple[int, int]
    ) -> None:
        """`a` shows page after page, and approves only once the bad line among them was on screen."""
        async with stage(asking(**more), size=size) as on:
            await on.open_dialog()
            seen = on.painted()
            await on.press("a")
            await on.wake()
            assert on.decisions() == []
            seen += await all_pages(on)
            assert on.decisions() == []
            assert BAD in squeezed(seen)
            await on.press("a")
            await on.settle()
            assert on.decisions() == [("decide", "ap1", True, "maria", None)]

    @pytest.mark.slow
    async def test_a_request_that_fits_takes_one_key(self) -> None:
        """What is on screen as a whole is approved by one deliberate `a`."""
        async with stage(size=(80, 24)) as on:
            await on.open_dialog()
            assert "next page" not in on.painted()
            await on.press("a")
            await on.settle()
            assert on.decisions() == [("decide", "ap1", True, "maria", None)]

    @pytest.mark.slow
    async def test_the_frame_says_how_much_is_left(self) -> None:
        """The key says what it does, and which page of how many comes next."""
        async with stage(asking(**LONG["heredoc"]), size=(80, 24)) as on:
            await on.open_dialog()
            await on.until("a show the next page")
            assert "a next page" in on.painted()
            await on.press("a")
            await on.wake()
            await on.until("a show the next page · 3 of 18")
            await all_pages(on)
            await on.until("✓a approve")
            assert "show the next page" not in on.painted()

    @pytest.mark.slow
    @pytest.mark.parametrize("key", ["a", "e", "g"])
    async def test_no_way_of_approving_passes_it(self, key: str) -> None:
        """To edit or to grant approves as well: the form opens once all was on screen."""
        async with stage(asking(**LONG["heredoc"])) as on:
            dialog = await on.open_dialog()
            await on.press(key)
            await on.wake()
            assert on.app.screen is dialog
            await all_pages(on, key)
            assert on.app.screen is dialog
            await on.press(key)
            await on.settle()
            assert {"e": InputForm, "g": GrantScreen}.get(key) in (None, type(on.app.screen))

    @pytest.mark.slow
    async def test_denying_takes_no_reading(self) -> None:
        """What is denied harms nobody."""
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
        """Lines that `end` passed over were not shown: they come before anything is approved."""
        async with stage(asking(**LONG["heredoc"]), size=(80, 24)) as on:
            dialog = await on.open_dialog()
            await on.press("space")
            await on.press("end")
            await on.wake()
            await on.press("a")
            await on.wake()
            assert on.decisions() == []
            assert dialog.query_one(RequestList).scroll_offset.y < 100
            assert "line 150" in await all_pages(on)

    @pytest.mark.slow
    @pytest.mark.parametrize("size", [(60, 20), (80, 20), (80, 24)])
    @pytest.mark.parametrize("scrolled", [False, True])
    async def test_what_is_unfolded_is_shown(self, size: tuple[int, int], scrolled: bool) -> None:
        """Lines that were folded are counted where they stay in view, not where they flash by."""
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
    async def test_page_down_counts(self) -> None:
        """Whoever reads by the keys of the list has read it."""
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
        """Every page puts the keys to sleep: what follows at once is about what was not read."""
        async with stage(asking(**LONG["heredoc"])) as on:
            await on.open_dialog()
            await on.press(*"a" * 100)
            await on.settle()
            assert on.decisions() == []
            assert not on.app.screen.query_one(RequestList).guard.complete

    @pytest.mark.slow
    async def test_a_key_too_early_delays_no_page(self) -> None:
        """Whoever presses faster than pages may follow each other still gets on, and approves nothing."""
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
        """What was not on screen before the terminal shrank has to be, after it did."""
        async with stage(asking(**LONG["fields"]), size=(120, 60)) as on:
            await on.open_dialog()
            assert not on.app.screen.query_one(RequestList).guard.complete
            await on.pilot.resize_terminal(60, 20)
            await on.wake()
            await on.press("a")
            await on.wake()
            assert on.decisions() == []
            assert BAD in squeezed(await all_pages(on))

    async def test_too_small_a_terminal_approves_nothing(self) -> None:
        """Where no line of the request can be painted, none was."""
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
    async def test_what_is_asked_anew_is_unseen(self) -> None:
        """Other content under the eyes has to be shown again, from its first line."""
        async with stage(asking(**LONG["heredoc"])) as on:
            dialog = await on.open_dialog()
            await all_pages(on)
            on.hub.asked_again("ap1", digest="other", input={"command": HEREDOC.replace("150", "rm")})
            await on.settle()
            assert dialog.request.id == "ap1+"
            await on.wake()
            await on.press("a")
            await on.wake()
            assert on.decisions() == []
            assert "line rm" in await all_pages(on)
            await on.press("a")
            await on.settle()
            assert [asked[1] for asked in on.decisions()] == ["ap1+"]

    @pytest.mark.slow
    async def test_behind_a_panel_nothing_counts(self) -> None:
        """What is asked anew while help covers the dialog is unseen until that is closed."""
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
    async def test_a_notice_covers_lines(self) -> None:
        """Lines that a notification may have covered count once it is gone."""
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
    async def test_reopened_it_is_read_again(self) -> None:
        """Who closed the dialog halfway begins anew; who read it to its end, too."""
        async with stage(asking(**LONG["heredoc"])) as on:
            await on.open_dialog()
            await all_pages(on)
            await on.press("escape")
            await on.settle()
            dialog = await on.open_dialog()
            assert not dialog.query_one(RequestList).guard.complete

    @pytest.mark.slow
    async def test_the_wheel_counts_what_it_shows(self) -> None:
        """Scrolling by the mouse paints line by line."""
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
    async def test_all_changes_are_seen_first(self) -> None:
        """An edit of more lines than fit is approved once all that it changes was on screen."""
        before = "\n".join(f"line {n}" for n in range(120))
        async with stage(asking(input={"script": before}), size=(80, 24)) as on:
            await on.open_dialog()
            await all_pages(on, "e")
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
