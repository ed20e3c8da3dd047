"""Information that an operator needs on a small terminal, shown in one place only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.widgets._toast import Toast

from interlock.app.screens.common.help import help_for
from interlock.app.screens.decisions.approval_stats import _operators
from interlock.app.widgets.approval.batch_lines import batch_lines
from interlock.app.widgets.approval.progress import Viewer
from interlock.app.widgets.base.bars import KeyBar
from interlock.engine.history.decisions.approval_stats import Fatigue, OperatorFatigue, Tally

from ...support.queue_scenes import asking, asks, several
from ...support.scenes import NOW, release_bot
from ...support.stage import stage
from ...support.views import BY_NAME, showing
from ...widgets.test_batch_lines import _row
from .test_batch import batch


class TestOneWayOut:
    """The frame alone says what escape does."""

    @pytest.mark.slow
    async def test_dialog_shows_decide_later_once(self) -> None:
        """Dialog: `esc decide later` is shown once at every width, beside the deciding keys."""
        for size in ((80, 24), (120, 40)):
            async with stage(size=size) as on:
                await on.open_dialog()
                await on.until("esc decide later")
                assert on.painted().count("decide later") == 1
                bar = on.app.screen.query_one(KeyBar).render().plain
                assert "s deny and stop" in bar
                assert "x explain" in bar

    async def test_reason_line_does_not_offer_to_close_dialog(self) -> None:
        """Deny: while a reason is typed, escape goes back; no label says that it closes the dialog."""
        async with stage(size=(80, 24)) as on:
            await on.open_dialog()
            await on.press("d")
            await on.wake()
            await on.until("esc go back")
            assert "decide later" not in on.painted()

    @pytest.mark.slow
    async def test_batch_shows_decide_later_once(self) -> None:
        """Batch: `decide later` is shown once, before and after the end of the table was seen."""
        for size in ((80, 24), (120, 40)):
            async with batch(asks(1), asks(2, input={"command": "x\n" * 9}), size=size) as (on, _):
                assert on.painted().count("decide later") == 1
                await on.press("end")
                await on.settle()
                assert on.painted().count("decide later") == 1

    @pytest.mark.slow
    async def test_extend_key_is_in_view_at_80_columns(self) -> None:
        """Extend: at 80 columns the key that extends the deadline is in view."""
        async with stage(several(), size=(80, 24)) as on:
            await on.open_dialog()
            assert "+ more time" in on.app.screen.query_one(KeyBar).render().plain


class TestPeopleInABatch:
    def lines(self, viewer: Viewer | None = None) -> str:
        one, two, _ = several().approvals.values()
        state = asking(one, two)
        made = batch_lines([_row(one), _row(two)], {state.id: state}, NOW, 113, viewer)
        return "\n".join(line.plain for line in made)

    def test_approver_and_age_are_shown(self) -> None:
        """Two-person rule: a batch names the operator who has approved and shows how long ago."""
        assert "1 of 2: ben 2 min ago ✓ — 1 more needed" in self.lines()

    def test_own_earlier_approval_is_shown(self) -> None:
        """Two-person rule: an operator who has already approved sees this before approving the batch."""
        assert "not you: you have approved" in self.lines(Viewer("ben"))
        assert "not you" not in self.lines(Viewer("maria"))

    def test_single_approver_is_not_mentioned(self) -> None:
        """Batch: requests for a single approver do not mention a number of people."""
        made = batch_lines([_row(asks(1)), _row(asks(2))], {}, NOW, 113, Viewer("maria"))
        assert not any("of 1" in line.plain or "people" in line.plain for line in made)


class TestNarrow:
    async def test_header_shows_session_mode_and_cost(self) -> None:
        """Narrow screens: the header shows the session, its mode, and its cost of the limit."""
        state = release_bot()
        state.input_tokens, state.output_tokens = 12_345, 678
        state.cost, state.max_cost = 1.25, 2.0
        async with stage(state, size=(80, 24)) as on:
            await on.until("$1.25 of $2.00")
            lines = on.painted().split("\n")
            assert lines[2].startswith(" release-bot  ◐ asks  enforce  scripted · $1.25 of $2.00")

    @pytest.mark.slow
    async def test_number_of_marked_requests_is_shown(self) -> None:
        """Batch: if a pane has no frame, the number of marked requests is shown above the queue."""
        async with stage(several(), size=(80, 24)) as on:
            await on.press("alt+5", "space", "j", "space")
            await on.until("Waiting (3) · 2 marked")
        async with stage(several()) as on:
            await on.press("alt+5", "space")
            await on.until("1 marked")
            assert "Waiting (3) ─" in on.painted()

    @pytest.mark.slow
    async def test_pane_title_uses_an_empty_line(self) -> None:
        """Narrow screens: the pane's title replaces an empty line."""
        async with stage(size=(80, 24)) as on:
            await on.press("alt+3")
            await on.until("Nets of release-bot")
            assert on.painted().split("\n")[2].strip() == "Nets of release-bot"
            assert on.painted().split("\n")[3].startswith("▌ [x]")

    @pytest.mark.slow
    async def test_sums_wrap_between_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The sums of the what-if screen wrap between two of them at 80 columns."""
        monkeypatch.chdir(tmp_path)
        async with showing(BY_NAME["judged"], tmp_path, (80, 24)) as on:
            text = on.painted()
            for kind in ("blocked", "asked", "allowed"):
                assert re.search(rf"\S [\d,]+ newly {kind}", text), text


class TestHelp:
    @pytest.mark.slow
    async def test_deciding_keys_of_a_dialog_are_first(self) -> None:
        """`?`: over the dialog, keys that decide are listed before keys that scroll."""
        async with stage(size=(80, 24)) as on:
            await on.open_dialog()
            await on.press("question_mark")
            await on.until("approval.deny")
            text = on.painted()
            assert text.index("approval.approve") < text.index("approval.deny")
            assert "list.up" not in text

    async def test_keys_of_focused_part_are_first(self) -> None:
        """`?`: on a screen, keys of the focused part are listed first."""
        async with stage() as on:
            await on.press("alt+5")
            titles = [block.key for block in help_for(on.app.screen)._blocks]
            assert titles.index("Here") < titles.index("This screen")


class TestNotices:
    @pytest.mark.slow
    async def test_further_requests_are_counted_in_one_notice(self) -> None:
        """New requests: a visible notice counts further requests, so notices do not pile up."""
        async with batch(asks(1), asks(2), size=(80, 24)) as (on, _):
            on.hub.request(asks(7, tool="migrate"))
            await on.until("migrate needs approval")
            on.hub.request(asks(8, tool="rm"))
            await on.until("2 new requests; the latest: rm.")
            assert "migrate waits" not in on.painted()
            assert len(on.app._notifications) == 1
            on.seconds += 60
            on.hub.request(asks(9, tool="push"))
            await on.until("push needs approval")

    @pytest.mark.slow
    async def test_simultaneous_requests_are_one_notice(self) -> None:
        """New requests: many at once, as after a rule is switched, are one notice, too."""
        async with batch(asks(1), asks(2), size=(80, 24)) as (on, _):
            for number in range(3, 11):
                on.hub.request(asks(number, tool=f"tool{number}"))
            await on.until("8 new requests; the latest: tool10.")
            await on.settle()
            assert on.painted().count("new requests") == 1
            assert len(on.app.screen.query(Toast)) == 1


class TestFatigue:
    def test_empty_table_explains_itself(self) -> None:
        """Fatigue: a table without rows says why it is empty."""
        found = Fatigue(since=None, total=Tally(requests=1), rules=(), operators=())
        assert "Nobody has decided anything yet." in [line.plain for line in _operators(found, 78)]
        some = found.model_copy(
            update={"operators": (OperatorFatigue(name="ben", tally=Tally(requests=1, approved=1)),)}
        )
        assert not any("Nobody" in line.plain for line in _operators(some, 78))


class TestGrant:
    @pytest.mark.variants
    @pytest.mark.parametrize(("width", "told"), [(80, True), (60, False)])
    async def test_panel_shows_selection_keys(self, width: int, told: bool) -> None:
        """Grants: the panel shows which keys choose, if there is room."""
        async with stage(asking(asks(1)), size=(width, 24)) as on:
            await on.open_dialog()
            await on.press("g")
            await on.wake()
            await on.until("^g approve and grant")
            assert ("←→ choose · tab next" in on.painted()) is told
            assert "esc go back" in on.painted()
