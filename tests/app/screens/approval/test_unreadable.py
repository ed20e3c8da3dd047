"""Requests whose input is too long to read on a screen cannot be approved there."""

from __future__ import annotations

import pytest

from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.viewmodels.request import (
    MOST_FIELDS,
    MOST_VALUES,
    excerpt,
    unreadable_reason,
)
from interlock.app.widgets.approval.request import request_text
from interlock.engine.history.model.state import ApprovalState

from ...support.queue_scenes import asking, asks
from ...support.scenes import NOW
from ...support.stage import stage

FIELDS = {f"field{n}": f"value {n}" for n in range(60_000)}
NESTED = {"body": {"rows": [list(range(1000)) for _ in range(60)]}}
LINES = {"text": "\n".join(f"line {n}" for n in range(MOST_VALUES + 5))}


def request_with_input(given: object) -> ApprovalState:
    return asks(1, input=given)


class TestReason:
    @pytest.mark.slow
    @pytest.mark.parametrize("given", [FIELDS, NESTED, LINES], ids=["fields", "nested", "lines"])
    def test_too_long_input_names_the_command(self, given: object) -> None:
        """Fields, nested values and lines count. The reason names the command that shows all of them."""
        reason = unreadable_reason(request_with_input(given))
        assert reason is not None
        assert "interlock approvals show q1" in reason

    @pytest.mark.parametrize(
        "given",
        [
            {f"f{n}": n for n in range(MOST_FIELDS)},
            {"text": "\n".join(map(str, range(MOST_VALUES - 5)))},
            {"text": "x" * 1_000_000},
            {},
        ],
    )
    def test_input_within_limits_has_no_reason(self, given: object) -> None:
        """An input up to the limits, or of a single line, is shown in full."""
        assert unreadable_reason(request_with_input(given)) is None

    @pytest.mark.slow
    @pytest.mark.parametrize("given", [FIELDS, NESTED, LINES], ids=["fields", "nested", "lines"])
    def test_excerpt_is_short_with_a_warning(self, given: object) -> None:
        """An excerpt is short, has a warning above it, and cannot be unfolded."""
        request = request_with_input(given)
        text = request_text(request, None, NOW, 100, 30, expanded=True)
        assert len(text.lines) < 100
        assert text.hidden
        assert not text.folded
        assert any("ONLY AN EXCERPT" in line.plain for line in text.lines)
        assert len(excerpt(request.input)) <= 41

    @pytest.mark.slow
    def test_printed_request_is_complete(self) -> None:
        """A printed request is complete."""
        text = request_text(request_with_input(LINES), None, NOW, 100, 0, expanded=True, bounded=False)
        assert len(text.lines) > MOST_VALUES


@pytest.mark.slow
class TestDialog:
    @pytest.mark.parametrize("given", [FIELDS, NESTED, LINES], ids=["fields", "nested", "lines"])
    async def test_request_can_be_denied_but_not_approved(self, given: object) -> None:
        """No key approves it, however far the operator scrolls. The dialog shows why, and deny works."""
        async with stage(asking(request_with_input(given)), size=(120, 40)) as on:
            dialog = await on.open_dialog()
            for key in ("a", "space", "end", "a", "home", "pagedown", "a", "g", "e"):
                await on.press(key)
                await on.wake()
            assert not dialog._frame.guard.complete
            assert not on.hub.answers
            assert isinstance(on.app.screen, ApprovalScreen)
            await on.press("home")
            await on.until("ONLY AN EXCERPT")
            await on.press("d")
            await on.wake()
            await on.press("enter")
            await on.settle()
            [answer] = on.hub.answers
            assert not answer.approved

    async def test_triage_does_not_approve_it(self) -> None:
        """Triage does not approve it either."""
        async with stage(asking(request_with_input(FIELDS)), size=(120, 40)) as on:
            await on.app.run_action("triage")
            await on.wake()
            await on.press("a")
            await on.wake()
            await on.press("a")
            await on.settle()
            assert not on.hub.answers
