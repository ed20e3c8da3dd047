"""The verdict of each net on a recorded call at the time of its decision."""

from __future__ import annotations

from interlock.engine.backtest.explain_recorded import explain_recorded_call
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import CallDecided
from interlock.rules import compile_rules, condition_of

from .recorder import Recorder

RULES = """\
map bash.command ./deploy as deploy
map bash.command ./test as test
require test before deploy
require human-approval before deploy
limit deploy to 1 per session
"""


async def recorded_session() -> Recorder:
    recorder = Recorder(compile_rules(RULES, file="deploy.rules").registry)
    await recorder.call("c1", "bash", command="./deploy prod")
    await recorder.call("c2", "bash", command="./test")
    recorder.result("c2")
    await recorder.call("c3", "bash", command="./deploy prod")
    await recorder.answer("c3", True)
    recorder.result("c3")
    await recorder.call("c4", "bash", command="./deploy prod")
    return recorder


def explained_call(recorder: Recorder, call_id: str):
    events = recorder.events
    event = next(e for e in events if isinstance(e.body, CallDecided) and e.body.call_id == call_id)
    assert isinstance(event.body, CallDecided)
    return explain_recorded_call(fold(events[: event.seq - 1]), event.body, event.at, condition_of)


class TestExplainedThen:
    """Explanations from the record alone, without the maps that named the call."""

    async def test_blocked(self) -> None:
        """G-61: the explanation has the blocking net, its rule, the recorded reason and the way."""
        view = explained_call(await recorded_session(), "c1")
        assert (view.outcome, view.names) == ("block", ("deploy", "bash"))
        [blocking] = [net for net in view.nets if net.verdict == "blocked"]
        assert blocking.reason == "deploy requires a successful call to test first."
        assert blocking.rule is not None
        assert blocking.rule.where == "deploy.rules:3"
        assert view.way is not None
        assert str(view.way).startswith("test")

    async def test_nets_are_shown_before_the_later_call(self) -> None:
        """The nets are shown before the later call: one asks, and the budget is unspent."""
        view = explained_call(await recorded_session(), "c3")
        assert view.outcome == "ask"
        assert [net.net for net in view.nets if net.asks] == ["approve-before-deploy"]
        budget = next(net for net in view.nets if net.net == "limit-deploy-1")
        assert budget.marking["budget"] == 1

    async def test_spent_budget_blocks(self) -> None:
        """After the allowed call the budget blocks."""
        view = explained_call(await recorded_session(), "c4")
        assert "limit-deploy-1" in [net.net for net in view.nets if net.verdict == "blocked"]
