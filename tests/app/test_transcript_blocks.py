"""Blocks of the transcript: their heights are told without making their lines."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.app.flow import Flow
from interlock.app.widgets.transcript import entry_block
from interlock.engine.history.events import RuleRecord
from interlock.engine.history.state import CallState, TranscriptEntry
from tests.app.scenes import NOW

TEXTS = st.one_of(
    st.text(max_size=300),
    st.lists(st.text(max_size=90), max_size=12).map("\n".join),
    st.integers(1, 40_000).map(lambda n: "x" * n),
    st.integers(1, 400).map(lambda n: "line\n" * n),
)
CALLS = st.builds(
    CallState,
    call_id=st.just("c1"),
    tool=st.text(min_size=1, max_size=20),
    input=st.just({"command": "make"}),
    at=st.just(NOW),
    status=st.sampled_from(["proposed", "waiting", "running", "done", "failed", "blocked", "unknown"]),
    outcome=st.sampled_from([None, "allow", "block", "ask"]),
    reason=st.none() | TEXTS,
    rule=st.none() | st.just(RuleRecord(file="a/deploy.rules", line=3, text="block rm")),
    output=st.none() | TEXTS,
    seconds=st.none() | st.just(1.5),
    via=st.none() | st.just("reviewer-1"),
)
ENTRIES = st.one_of(
    st.builds(TranscriptEntry, at=st.just(NOW), kind=st.sampled_from(["user", "assistant"]), text=TEXTS),
    st.builds(TranscriptEntry, at=st.just(NOW), kind=st.just("call"), call=CALLS),
)


class TestHeight:
    @given(ENTRIES, st.integers(4, 130), st.text(max_size=30), st.text(max_size=200))
    @settings(max_examples=400, deadline=None)
    def test_is_the_number_of_lines(
        self, entry: TranscriptEntry, width: int, agent: str, printed: str
    ) -> None:
        """Whatever was said or printed, at any width: else the list would jump while it is read."""
        flow = Flow(outputs={"c1": printed}, heard={"c1": NOW})
        block = entry_block("k", entry, agent, flow, NOW)
        assert block.height is not None
        assert block.height(width) == len(block.lines(width))
