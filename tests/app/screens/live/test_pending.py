"""Pending: deferred transitions that wait for a result, and those that have just been resolved."""

from __future__ import annotations

from datetime import timedelta

import pytest

from interlock.app.viewmodels.stream import RESOLVED_SHOWN, LiveStream
from interlock.app.widgets.lists.sessions import PendingList
from interlock.engine.history.model.events import CallResult, JournalEvent

from ...support.scenes import NOW, docs_writer
from ...support.stage import stage


def result(*, failed: bool = False) -> CallResult:
    """The result of the call that docs-writer's pending transition waits for."""
    step = docs_writer().pending[0].step
    fired, dropped = ((), (step,)) if failed else ((step,), ())
    return CallResult(call_id="d4", tool="test", output="", is_error=failed, fired=fired, dropped=dropped)


class TestPending:
    async def test_pending_transition_shows_tool_goal_and_net(self) -> None:
        """A pending transition shows its tool, goal and net, and the transition that fires on success."""
        async with stage(docs_writer()) as on:
            shown = on.painted()
        assert "test → gate" in shown
        assert "on success: do-test" in shown
        assert "  require-test-before-de…" in shown

    @pytest.mark.slow
    async def test_resolved_transition_stays_for_some_seconds(self) -> None:
        """A resolved transition stays listed for some seconds, marked with its effect."""
        for failed, mark, effect in (
            (False, "✓ test → gate", "fired: do-test"),
            (True, "✗ test → gate", "call failed: not fired"),
        ):
            state = docs_writer()
            async with stage(state) as on:
                state.pending = []
                on.hub.publish(state.id, result(failed=failed))
                await on.until(mark)
                assert effect in on.painted()
                await on.press("alt+4", "enter")
                await on.settle()
                assert "Call: test" in on.painted()

    def test_resolved_transition_disappears_later(self) -> None:
        """After that time it is no longer listed."""
        stream = LiveStream()
        event = JournalEvent(cursor=1, session="s", seq=1, at=NOW, body=result())
        stream.take(event, NOW)
        assert [each.fired for each in stream.just_resolved(NOW)] == [True]
        assert stream.just_resolved(NOW + timedelta(seconds=RESOLVED_SHOWN)) == []

    async def test_other_sessions_are_not_listed(self) -> None:
        """Transitions of another session are not listed."""
        other = docs_writer()
        other.id, other.agent = "other-1", "other"
        async with stage(docs_writer(), other) as on:
            on.hub.publish(other.id, result())
            await on.settle()
            keys = [block.key for block in on.app.screen.query_one(PendingList).blocks]
        assert not any(key.endswith("resolved") for key in keys)
