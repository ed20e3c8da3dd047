"""G-89: rules on values and sums in random sessions: record, gate and backtest agree."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from interlock.engine.backtest import Judge, Trial
from interlock.engine.backtest.journal_reader import RecordedItems
from interlock.engine.core.value_key import value_net
from interlock.engine.history.fold.fold import fold
from interlock.rules import compile_rules
from tests.engine.backtest.recorder import Recorder

TWO_PEOPLE = "after c or a require 2 human-approvals before b for same input.k no grants"
LINES = [
    "require a before b for same input.k",
    "require a since c before b for same input.k",
    "require a or c before b within 1h for same input.k",
    "limit b to 2 per session for each input.k",
    "limit b to 1 per a for each input.k",
    "limit a to 3 per 1h for each input.k",
    "block b after a for same input.k",
    "block b after a or c",
    "after a require human-approval before b for same input.k",
    "after a or c require human-approval before b for same input.k",
    TWO_PEOPLE,
    "block b after a or c until human-approval",
    "limit b to 5 of input.n per session for each input.k",
    "limit a to 6 of input.n per c",
    "limit b to 3 of input.n per session when input.k = 1",
    "require human-approval before c",
]
calls = st.tuples(
    st.sampled_from("abc"),
    st.sampled_from([1, 2, "1", None]),
    st.sampled_from([0, 1, 2.5, "x", None]),
    st.sampled_from(["ends", "fails", "never ran"]),
    st.sampled_from(["approved", "denied", "edited"]),
    st.integers(0, 2),
)


@given(
    st.lists(st.sampled_from(LINES), min_size=1, max_size=4, unique=True),
    st.sampled_from(["enforce", "shadow"]),
    st.lists(calls, max_size=12),
)
@example(
    [TWO_PEOPLE], "enforce", [("a", 1, 0, "ends", "approved", 1), ("b", 1, 0, "ends", "approved", 0)]
)
async def test_record_gate_and_backtest_agree(
    lines: list[str], mode: str, made: list[tuple[str, Any, Any, str, str, int]]
) -> None:
    """Law: markings, pending transitions and a backtest with the same rules agree after every call.

    Calls overlap, fail, never run, and are edited by their approvers.
    """
    rules = compile_rules("\n".join(lines))
    recorder = Recorder(rules.registry, mode=mode)
    for number, (tool, value, amount, end, answer, ends) in enumerate(made):
        found = {"k": value, "n": amount}
        arguments = {name: each for name, each in found.items() if each is not None}
        await recorder.call(f"c{number}", tool, **arguments)
        for call_id in recorder.waiting:
            edited = {"k": 2, "n": 1} if answer == "edited" else {}
            await recorder.answer(call_id, answer != "denied", **edited)
        for call_id in list(recorder.running)[:ends]:
            recorder.result(call_id, is_error=end == "fails", ran=end != "never ran")
        state, states = fold(recorder.events), recorder.manager.states
        assert {key: net.marking for key, net in state.nets.items()} == {
            key: net.marking for key, net in states.items()
        }
        assert {key: net.marking for key, net in state.values.items()} == {
            value_net(key, digest): each.marking
            for key, net in states.items()
            for digest, each in net.values.items()
        }
        assert sorted((p.step.net, p.step.transition, p.call_id) for p in state.pending) == sorted(
            (net, transition, call.tool_call_id) for net, transition, _, call in recorder.manager.pending
        )
    items = RecordedItems(texts=False)
    recorded = [item for item in map(items.of, recorder.events) if item is not None]
    judge = Judge(Trial.of(rules.registry))
    for judged in (*judge.judge(recorded), *judge.judge(recorded)):
        then = judged.call.then
        assert judged.now.outcome == then.outcome or judged.hypothetical or then.denied
