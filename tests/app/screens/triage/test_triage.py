"""The queue as a table: its decisions, the requests that must be opened, its cursor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from textual import events

from interlock.app.screens.approval.grant import GrantScreen
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.common.guarded_keys import ASLEEP
from interlock.app.screens.triage.pane import TriagePane
from interlock.app.screens.triage.screen import TriageScreen
from interlock.app.terminal.charset import use_ascii
from interlock.app.terminal.key_rights import Permission
from interlock.app.widgets.approval.preview import RequestPreview
from interlock.app.widgets.approval.triage_list import TriageList
from interlock.app.widgets.base.bars import KeyBar
from interlock.app.widgets.base.title_bar import TitleBar
from interlock.engine.history.model.events import ApprovalClaimed
from interlock.engine.history.model.records import ClaimRecord, CommentRecord, FuseRecord
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.history.redaction.hidden_text import HiddenText
from interlock.engine.hub.hub import DisconnectedCalls

from ...support.queue_scenes import asking, asks
from ...support.scenes import NOW, rule
from ...support.stage import Stage, stage
from ...support.triage_scenes import deploys, long_command, of_two_people, pushes, uninspectable

WIDE, SMALL = (120, 40), (80, 24)
LATER = NOW + timedelta(minutes=5)


@asynccontextmanager
async def triage(
    *requests: ApprovalState,
    size: tuple[int, int] = WIDE,
    quiet: float = 0.0,
    deny_reasons: Sequence[str] = (),
) -> AsyncIterator[Stage]:
    """A console that shows `requests` as a table, with its keys awake."""
    async with stage(asking(*requests), size=size, quiet=quiet, deny_reasons=deny_reasons) as on:
        await on.app.run_action("triage")
        await on.settle()
        assert isinstance(on.app.screen, TriageScreen)
        await on.wake()
        await on.settle()
        yield on


def pane(on: Stage) -> TriagePane:
    return on.app.screen_stack[1].query_one(TriagePane)


def cursor(on: Stage) -> str | None:
    return pane(on).query_one(TriageList).current


def line_of_cursor(on: Stage) -> int:
    """The screen line of the cursor."""
    found = pane(on).query_one(TriageList)
    assert found._cursor is not None
    return found._start(found._cursor) - found.scroll_offset.y


def approved(on: Stage) -> dict[str, str | None]:
    """The digest that was sent with each approval."""
    return {each.approval_id: each.digest for each in on.hub.answers if each.approved}


async def stay_until_read(on: Stage) -> None:
    """Keep the screen as it is for long enough to be read."""
    await on.wake()
    await on.settle()


class TestApprove:
    async def test_key_approves_request_under_the_cursor(self) -> None:
        """Triage: a key approves the request under the cursor with the digest that was shown."""
        async with triage(*pushes(3)) as on:
            await on.press("j")
            await stay_until_read(on)
            chosen = cursor(on)
            await on.press("a")
            await on.settle()
            assert approved(on) == {chosen: f"digest-{str(chosen)[1:]}"}
            assert isinstance(on.app.screen, TriageScreen)
            assert chosen not in on.painted()

    @pytest.mark.slow
    async def test_two_keys_approve_a_whole_group(self) -> None:
        """Triage: two keys mark and approve five requests of one group."""
        async with triage(*pushes(5), *deploys(("prod", "9f31c02"))) as on:
            await on.press("j")
            await stay_until_read(on)
            await on.press("asterisk", "a")
            await on.settle()
            assert approved(on) == {f"q{n}": f"digest-{n}" for n in range(1, 6)}
            await on.until("5 requests decided")

    @pytest.mark.slow
    async def test_line_and_heading_suffice_without_preview(self) -> None:
        """Triage: without a preview a line and its heading suffice if they show everything."""
        async with triage(*pushes(5), size=SMALL) as on:
            await on.press("asterisk", "a")
            await on.settle()
            assert len(approved(on)) == 5

    @pytest.mark.slow
    async def test_common_part_is_shown_once_in_heading(self) -> None:
        """Triage: the common part of the lines is shown once, in the group's heading."""
        async with triage(*pushes(5), size=SMALL) as on:
            assert on.painted().count("git push origin") == 1
            assert all(f"  feature-{n}" in on.painted() for n in range(1, 6))

    @pytest.mark.slow
    async def test_request_under_another_rule_is_not_marked(self) -> None:
        """Triage: a request under another rule is not marked with the group."""
        other = asks(
            9, rule=rule(7, "require human-approval before git push"), net="approve-before-git-push"
        )
        async with triage(*pushes(2), other) as on:
            await on.press("asterisk")
            await on.settle()
            assert pane(on)._marked == {"q1", "q2"}


class TestUnseen:
    @pytest.mark.slow
    async def test_request_with_cut_line_is_opened(self) -> None:
        """Triage: the approving key opens a request whose line is cut, and the dialog shows why."""
        async with triage(long_command(), size=SMALL) as on:
            await on.press("a")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            assert "Opened, not approved: not all of it was on screen" in on.painted()
            assert not on.hub.answers

    async def test_request_complete_in_preview_is_approved(self) -> None:
        """Triage: a request too long for its line is approved if the preview shows all of it."""
        async with triage(long_command(), size=WIDE) as on:
            await on.press("a")
            await on.settle()
            assert approved(on) == {"q21": "digest-21"}

    @pytest.mark.slow
    async def test_masked_request_is_opened(self) -> None:
        """Triage: a request with masked text that may run is opened, whatever the preview shows."""
        hidden = HiddenText(place="command", characters=9, lines=1, holds="a space")
        async with triage(asks(1, hidden=(hidden,)), size=WIDE) as on:
            await on.press("a")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            assert "masked text in it may be more than a secret" in " ".join(on.painted().split())
            assert not on.hub.answers

    @pytest.mark.slow
    async def test_folded_request_is_opened(self) -> None:
        """Triage: a request whose input is folded in the preview is opened."""
        long = asks(1, called="write", input={"text": "\n".join(map(str, range(200)))})
        async with triage(long, size=WIDE) as on:
            await on.press("a")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            assert not on.hub.answers

    @pytest.mark.slow
    async def test_uninspectable_and_multi_approver_requests_are_opened(self) -> None:
        """Triage: uninspectable requests and those for several approvers must be opened."""
        async with triage(uninspectable(), of_two_people(), size=SMALL) as on:
            for _ in range(2):
                await on.press("a")
                await on.settle()
                assert isinstance(on.app.screen, ApprovalScreen)
                await on.press("escape", "j")
                await stay_until_read(on)
            assert not on.hub.answers

    @pytest.mark.slow
    @pytest.mark.parametrize("size", [WIDE, SMALL])
    async def test_plan_is_opened_unless_all_steps_are_shown(self, size: tuple[int, int]) -> None:
        """Triage: a plan has one line. It is opened unless the preview shows all its steps."""
        steps: list[object] = [{"tool": "deploy", "count": 2}, {"tool": "push"}]
        value = {"title": "Release 1.4", "steps": steps}
        plan = asks(1, tool="plan", called="plan", names=("plan",), input=value, may_grant=False)
        async with triage(plan, size=size) as on:
            assert "Release 1.4 · 2 steps: 2 deploy, 1 push" in " ".join(on.painted().split())
            assert ("2 × deploy" in on.painted()) is (size == WIDE)
            await on.press("a")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen) is (size == SMALL)
            assert len(approved(on)) == (size == WIDE)

    @pytest.mark.slow
    async def test_first_unseen_marked_request_is_opened(self) -> None:
        """Triage: if marked requests below the screen were not seen, the first of them is opened."""
        async with triage(*pushes(40), size=SMALL) as on:
            await on.press("asterisk", "a")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            assert "as one of 40 that are marked" in " ".join(on.painted().split())
            assert not on.hub.answers

    @pytest.mark.slow
    async def test_comments_must_be_read_before_approval(self) -> None:
        """Triage: a line counts comments, which must be read before an approval."""
        said = CommentRecord(by="ben", at=NOW, text="not on a Friday")
        async with triage(*pushes(1), asks(2, comments=(said,)), size=SMALL) as on:
            await on.press("j")
            await stay_until_read(on)
            assert "1 comment" in on.painted()
            await on.press("a")
            await on.until("Opened, not approved: people have commented on it")
            assert on.hub.answers == []

    @pytest.mark.slow
    async def test_request_of_lost_agent_counts_as_unseen(self) -> None:
        """Triage: a request that was seen counts as unseen after its agent disconnects."""
        async with triage(*pushes(2), size=SMALL) as on:
            await stay_until_read(on)
            chosen = str(cursor(on))
            await on.press("j", "k")
            await stay_until_read(on)
            request = on.hub._change(chosen, disconnected=NOW)
            lost = {request.call_id: NOW}
            on.hub.tell(DisconnectedCalls(session=request.session, calls=lost))
            await on.until("disconnected")
            await stay_until_read(on)
            await on.press("a")
            await on.until("no connection waits for the answer")
            assert on.hub.answers == []

    @pytest.mark.slow
    async def test_claimed_request_requires_second_key(self) -> None:
        """Triage: a claim by another operator is shown, and the request needs a second key press."""
        taken = pushes(3)[0].model_copy(update={"claim": ClaimRecord(by="ben", at=NOW, until=LATER)})
        for key, said in (("a", "approved"), ("d", "Reason")):
            async with triage(taken, *pushes(3)[1:], size=SMALL) as on:
                assert "ben has this" in on.painted()
                await on.press("asterisk")
                await stay_until_read(on)
                await on.press(key)
                await on.until("ben has 1 of these: press it again to decide anyway")
                await on.press(key)
                await on.settle()
                assert on.hub.answers == []
                assert said not in on.painted()
                await on.wake()
                await on.press(key)
                await on.until("3 requests decided" if key == "a" else "Reason")

    @pytest.mark.slow
    async def test_preview_shows_a_new_claim(self) -> None:
        """Triage: the preview shows a claim by another operator at once."""
        async with triage(*pushes(1)) as on:
            request = on.hub._change("q1", claim=ClaimRecord(by="ben", at=NOW, until=LATER))
            on.hub.publish(
                request.session,
                ApprovalClaimed(approval_id="q1", call_id=request.call_id, by="ben", until=LATER),
            )
            await on.settle()
            preview = pane(on).query_one(RequestPreview)
            await on.until("ben has this")
            lines = [strip.text for strip in map(preview.render_line, range(preview.size.height))]
            assert any("ben has this" in line for line in lines)

    @pytest.mark.slow
    async def test_scrolled_lines_count_as_seen(self) -> None:
        """Triage: lines count after each was in view, whatever the current position of the list."""
        async with triage(*pushes(30), size=SMALL) as on:
            for _ in range(4):
                await on.press("pagedown")
                await stay_until_read(on)
            await on.press("asterisk", "a")
            await on.settle()
            assert len(approved(on)) == 30

    @pytest.mark.slow
    async def test_line_in_view_too_briefly_counts_as_unseen(self) -> None:
        """Triage: a line that was scrolled away within 0.4 s counts as unseen."""
        async with triage(*pushes(50), size=SMALL) as on:
            for _ in range(4):
                await on.press("pagedown")
                await on.settle()
            await stay_until_read(on)
            await on.press("asterisk", "a")
            await on.settle()
            assert not on.hub.answers

    @pytest.mark.slow
    async def test_line_under_a_notice_counts_as_unseen(self) -> None:
        """Triage: a line that a notice may cover counts as unseen."""
        async with triage(*pushes(3), size=SMALL) as on:
            on.app.notify("something")
            on.hub.request(asks(8, id="q8", input={"command": "git push origin other"}))
            await on.settle()
            await on.press("G")
            await stay_until_read(on)
            await on.press("a")
            await on.settle()
            assert not on.hub.answers
            assert "something" not in on.painted()
            await stay_until_read(on)
            await on.press("a")
            await on.settle()
            assert len(on.hub.answers) == 1


class TestGuards:
    async def test_keys_sleep_at_first(self) -> None:
        """Triage: keys do nothing for 0.4 s after the table has opened."""
        async with stage(asking(*pushes(2))) as on:
            await on.press("Q")
            await on.settle()
            on.seconds += ASLEEP / 2
            await on.press("a")
            await on.settle()
            assert isinstance(on.app.screen, TriageScreen)
            assert not on.hub.answers

    @pytest.mark.slow
    async def test_key_does_not_act_on_the_next_request(self) -> None:
        """Triage: if the request under the cursor disappears, the key does not act on the next one."""
        async with triage(*pushes(3)) as on:
            gone = cursor(on)
            assert gone is not None
            on.hub.decided_elsewhere(gone, approved=True, by="ben")
            await on.settle()
            assert cursor(on) != gone
            await on.press("a")
            await on.settle()
            assert not on.hub.answers
            await stay_until_read(on)
            await on.press("a")
            await on.settle()
            assert len(approved(on)) == 1
            assert gone not in approved(on)

    @pytest.mark.slow
    async def test_changed_request_counts_as_unseen(self) -> None:
        """Triage: a request that changed counts as unseen, and is not decided by its old contents."""
        async with triage(*pushes(2), size=SMALL) as on:
            await on.press("x")
            state = next(iter(on.hub.states.values()))
            marked = next(iter(pane(on)._marked))
            changed = state.approvals[marked].model_copy(update={"digest": "another"})
            state.approvals[marked] = changed
            await pane(on).screen.read()  # type: ignore[attr-defined]
            await on.press("a")
            await on.settle()
            assert not on.hub.answers

    @pytest.mark.slow
    async def test_several_keys_at_once_decide_nothing(self) -> None:
        """Triage: several keys at once decide nothing."""
        async with triage(*pushes(3), quiet=0.1) as on:
            for _ in range(2):
                on.app.post_message(events.Key("a", "a"))
            await on.until("Keys pressed too fast")
            assert not on.hub.answers

    @pytest.mark.slow
    async def test_escape_removes_marks_then_closes(self) -> None:
        """Triage: escape removes marks, then closes the table, and decides nothing."""
        async with triage(*pushes(3)) as on:
            await on.press("x", "escape")
            await on.settle()
            assert not pane(on)._marked
            await on.press("escape")
            await on.settle()
            assert len(on.app.screen_stack) == 1
            assert not on.hub.answers

    @pytest.mark.slow
    async def test_u_takes_an_approval_back(self) -> None:
        """Triage: a line shows who approved it and when it runs. The key takes the approval back."""
        fuse = FuseRecord(by="ben", at=NOW, until=NOW + timedelta(seconds=4))
        async with triage(*pushes(1), asks(2, fuse=fuse), size=SMALL) as on:
            assert "approved by ben  runs in 4 s" in on.painted()
            if cursor(on) != "q2":
                await on.press("j")
            await stay_until_read(on)
            await on.press("u")
            await on.settle()
            assert ("take back", "q2", "maria") in on.hub.asked

    async def test_u_takes_marked_ones_back(self) -> None:
        """Triage: the approvals of all marked requests are taken back together, if there are any."""
        fuse = FuseRecord(by="ben", at=NOW, until=NOW + timedelta(seconds=4))
        one, *others = pushes(4)
        burning = [each.model_copy(update={"fuse": fuse}) for each in others]
        async with triage(one, *burning, size=SMALL) as on:
            await on.press("asterisk", "u")
            await on.until("3 approvals taken back")
            back = [asked[1] for asked in on.hub.asked if asked[0] == "take back"]
            assert sorted(map(str, back)) == ["q2", "q3", "q4"]
            on.hub.refuse = "it runs already"
            await on.press("u")
            await on.until("0 approvals taken back, 3 not: it runs already")

    @pytest.mark.slow
    async def test_read_only_operator_decides_nothing(self) -> None:
        """Triage: an operator who may only look can mark and decide nothing."""
        async with triage(*pushes(3)) as on:
            on.app.permission = Permission("look")
            await on.press("x", "asterisk", "a", "d", "g", "plus")
            await on.settle()
            assert not pane(on)._marked
            assert isinstance(on.app.screen, TriageScreen)
            assert not on.hub.asked

    @pytest.mark.slow
    async def test_hidden_marked_requests_are_not_decided(self) -> None:
        """Triage: marked requests that the filter hides are not decided with the visible ones."""
        async with triage(*pushes(3)) as on:
            await on.press("asterisk", "slash", *"feature-1", "enter")
            await stay_until_read(on)
            await on.press("a")
            await on.until("The filter hides marked requests")
            assert not on.hub.answers


class TestCursor:
    @pytest.mark.slow
    async def test_new_request_keeps_the_cursor_line(self) -> None:
        """Triage: a new request is inserted above, and the line under the cursor keeps its place."""
        async with triage(*pushes(5), size=SMALL) as on:
            await on.press("j", "j")
            await stay_until_read(on)
            before, line = cursor(on), line_of_cursor(on)
            on.hub.request(deploys(("prod", "1"))[0])
            await on.settle()
            assert "prod" in [text for group in pane(on)._groups for text in group.alike.values()] or any(
                "prod" in (part or "")
                for group in pane(on)._groups
                for p in group.parts.values()
                for part in p
            )
            assert (cursor(on), line_of_cursor(on)) == (before, line)
            assert on.painted().splitlines()[line + 3].lstrip("▌ ").startswith("▸ medium")

    async def test_title_counts_requests_out_of_view(self) -> None:
        """Triage: the title shows the number of requests above and below the view."""
        async with triage(*pushes(40), size=SMALL) as on:
            found = pane(on).query_one(TriageList)
            for key in ("end", "home"):
                await on.press(key)
                await on.settle()
                top, height = found.scroll_offset.y, found.scrollable_content_region.height
                lines = [found._start(n) for n, each in enumerate(found.blocks) if each.selectable]
                above = sum(each < top for each in lines)
                below = sum(each >= top + height for each in lines)
                assert (found.above, found.below) == (above, below)
                assert above + below > 0
                await on.until(f"{above or below} {'above' if above else 'below'}")

    @pytest.mark.slow
    async def test_title_bar_has_the_table(self) -> None:
        """Triage: the title bar has the table, and a click on live leads back."""
        async with triage(*pushes(2)) as on:
            bar = on.app.screen.query_one(TitleBar)
            line = bar.render().plain
            assert "4 rules  5 triage" in line
            await on.pilot.click(TitleBar, offset=(line.index("live") + 1, 0))
            await on.settle()
            assert not isinstance(on.app.screen, TriageScreen)

    @pytest.mark.slow
    async def test_new_request_opens_no_dialog(self) -> None:
        """Triage: a new request opens no dialog over the table."""
        async with triage(*pushes(2)) as on:
            on.hub.request(long_command().model_copy(update={"session": "release-bot-1f3a"}))
            await on.settle()
            assert isinstance(on.app.screen, TriageScreen)
            await on.until("3 requests")

    @pytest.mark.slow
    async def test_only_visible_lines_are_made(self) -> None:
        """Triage: for a thousand requests only the visible lines are rendered."""
        async with triage(*pushes(1000), size=SMALL) as on:
            found = pane(on).query_one(TriageList)
            assert len(found._lines.keys()) < 60


class TestSigns:
    @pytest.mark.variants
    @pytest.mark.parametrize("size", [(60, 24), SMALL, WIDE, (200, 50)])
    async def test_deciding_keys_have_signs(self, size: tuple[int, int]) -> None:
        """Triage: approve and deny each have a sign, which is not a letter, at every width."""
        async with triage(*pushes(3), size=size) as on:
            bar = on.painted().split("\n")[-1].replace("✓ ", "✓").replace("✗ ", "✗")
            assert "✓a approve" in bar
            assert "✗d deny" in bar

    @pytest.mark.slow
    async def test_ascii_signs_do_not_look_like_keys(self) -> None:
        """Triage: in ASCII the signs do not look like keys."""
        use_ascii(True)
        try:
            async with triage(*pushes(3)) as on:
                use_ascii(True)
                bar = on.app.screen.query_one(KeyBar).render().plain
                assert "(+)a approve" in bar
                assert "(-)d deny" in bar
        finally:
            use_ascii(False)


class TestAges:
    @pytest.mark.slow
    async def test_only_lines_in_view_are_renewed(self) -> None:
        """Triage: each second only lines in view are renewed, and others when they come into view."""
        async with triage(*pushes(60), size=SMALL) as on:
            listed = pane(on).query_one(TriageList)
            await on.press("end")
            before = {block.key: block.stamp for block in listed.blocks}
            top = listed.blocks[1].key

            def renewed() -> set[str]:
                return {block.key for block in listed.blocks if before[block.key] != block.stamp}

            listed.show_groups(pane(on)._groups, NOW + timedelta(seconds=3))
            assert 0 < len(renewed()) <= listed.scrollable_content_region.height + 2
            assert top not in renewed()
            await on.press("home")
            for _ in range(100):
                if top in renewed():
                    break
                await on.settle()
            assert top in renewed()

    @pytest.mark.slow
    async def test_cursor_move_paints_two_lines(self) -> None:
        """Triage: moving the cursor within the view paints two lines of the list."""
        async with triage(*pushes(12)) as on:
            listed, painted = pane(on).query_one(TriageList), list[int]()
            render = listed.render_line

            def noted(y: int) -> object:
                painted.append(y)
                return render(y)

            listed.render_line = noted  # type: ignore[method-assign, assignment]
            await on.press("j")
            await on.settle()
            assert 0 < len(set(painted)) <= 2


@pytest.mark.slow
class TestDeny:
    async def test_marked_requests_share_one_reason(self) -> None:
        """Triage: the marked requests are denied with one reason, each with its digest."""
        async with triage(*pushes(3)) as on:
            await on.press("asterisk", "d")
            await stay_until_read(on)
            await on.press(*"later")
            await on.press("enter")
            await on.settle()
            assert {(a.approval_id, a.approved, a.reason, a.digest) for a in on.hub.answers} == {
                (f"q{n}", False, "later", f"digest-{n}") for n in range(1, 4)
            }

    async def test_typed_letters_decide_nothing(self) -> None:
        """Triage: letters in the reason approve nothing, and escape leaves the line without denying."""
        async with triage(*pushes(2)) as on:
            await on.press("d")
            await stay_until_read(on)
            await on.press("a", "x", "escape")
            await on.settle()
            assert not on.hub.answers
            assert not pane(on)._marked


class TestGrant:
    @pytest.mark.slow
    async def test_grant_is_given_without_the_dialog(self) -> None:
        """Triage: a grant for the request under the cursor is given without its dialog."""
        async with triage(*pushes(2)) as on:
            chosen = cursor(on)
            await on.press("g")
            await on.settle()
            assert isinstance(on.app.screen, GrantScreen)
            on.app.screen.query_one("#reason").value = "a release night"  # type: ignore[attr-defined]
            await on.wake()
            await on.press("ctrl+g")
            await on.settle()
            [answer] = on.hub.answers
            assert (answer.approval_id, answer.approved, answer.reason) == (
                chosen,
                True,
                "a release night",
            )
            assert answer.grant is not None

    @pytest.mark.slow
    async def test_grant_requires_single_request(self) -> None:
        """Triage: a grant is given with one request, never with several marked ones."""
        async with triage(*pushes(2)) as on:
            await on.press("asterisk", "g")
            await on.settle()
            assert isinstance(on.app.screen, TriageScreen)
            assert "A grant goes with one request" in on.painted()


class TestFilter:
    @pytest.mark.slow
    async def test_words_and_risk_narrow_the_list(self) -> None:
        """Triage: only matching requests are listed, with the total number."""
        async with triage(*pushes(3), *deploys(("prod", "1"))) as on:
            await on.press("slash", *"risk:high")
            await on.press("enter")
            await on.until("1 of 4 requests")
            assert cursor(on) == "q11"
            await on.press("escape")
            await on.until("4 requests")

    async def test_invalid_filter_changes_nothing(self) -> None:
        """Triage: an invalid filter is reported and changes nothing."""
        async with triage(*pushes(3)) as on:
            await on.press("slash", *"risk:huge")
            await on.press("enter")
            await on.until("'huge' is not a risk")
            assert "3 requests" in on.painted()
