"""Blocks of the transcript: their heights are computed without their lines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.content import Content

from interlock.app.viewmodels.stream import LiveStream
from interlock.app.widgets.lists.transcript import MUTED, entry_block, tail_blocks
from interlock.engine.history.model.records import RuleRecord
from interlock.engine.history.model.state import CallState, TranscriptEntry

from ...support.laws import examples
from ..support.scenes import NOW, release_bot

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


LABELS = st.text(max_size=60)


@pytest.mark.slow
class TestHeight:
    @given(ENTRIES, st.integers(4, 130), st.text(max_size=30), st.text(max_size=200), LABELS)
    @settings(max_examples=examples(400), deadline=None)
    def test_equals_number_of_lines(
        self, entry: TranscriptEntry, width: int, agent: str, printed: str, label: str
    ) -> None:
        """The computed height equals the number of lines at any width, so the list does not jump."""
        flow = LiveStream(outputs={"c1": printed}, heard={"c1": NOW})
        labels = {} if entry.call is None else {entry.call.tool: label}
        block = entry_block("k", entry, agent, flow, NOW, labels)
        assert block.height is not None
        assert block.height(width) == len(block.lines(width))


class TestMoreLines:
    @pytest.mark.parametrize(("lines", "said"), [(4, "… 1 more line,"), (5, "… 2 more lines,")])
    def test_are_counted(self, lines: int, said: str) -> None:
        """The beginning of an output is followed by the number of further lines."""
        call = CallState(
            call_id="c1", tool="sh", input={}, at=NOW, status="done", output="\n".join("x" * lines)
        )
        entry = TranscriptEntry(at=NOW, kind="call", call=call)
        block = entry_block("k", entry, "bot", LiveStream(), NOW)
        assert said in "\n".join(line.plain for line in block.lines(100))


WHY = "command: eval runs a computed text"


class TestUnclear:
    @pytest.mark.parametrize(
        ("status", "outcome", "reason"),
        [
            ("done", "allow", None),
            ("running", "allow", None),
            ("done", "block", "unclear is blocked."),
            ("blocked", "block", "delete is blocked and cannot be called."),
            ("blocked", "block", f"unclear is blocked. The call cannot be read to its end: {WHY}."),
        ],
    )
    def test_reason_is_shown_once(self, status: str, outcome: str, reason: str | None) -> None:
        """G-64, G-66: each unclear call shows the reason once, whether it ran or not."""
        given = {"status": status, "outcome": outcome, "reason": reason, "judged_as": ("bash",)}
        call = CallState.model_validate(
            {"call_id": "c1", "tool": "Bash", "input": {}, "at": NOW, "uninspectable": WHY, **given}
        )
        block = entry_block(
            "k", TranscriptEntry(at=NOW, kind="call", call=call), "bot", LiveStream(), NOW
        )
        said = [line.plain for line in block.lines(200)]
        assert sum(WHY in line for line in said) == 1
        assert "  judged as bash" in said
        assert len(said) == block.height(200)


class TestLabel:
    def head(self, label: str, width: int = 100, **more: object) -> Content:
        call = CallState(call_id="c1", tool="sh", input={"command": "make"}, at=NOW, status="done")
        entry = TranscriptEntry(at=NOW, kind="call", call=call.model_copy(update=more))
        return entry_block("k", entry, "bot", LiveStream(), NOW, {"sh": label}).lines(width)[0]

    def test_label_follows_the_gate_name(self) -> None:
        """Section 9: a tool's label is muted and in quotes, after the name that the gate uses."""
        head = self.head("Run a command")
        assert head.plain.startswith("✓ sh  “Run a command”  make")
        [span] = [s for s in head.spans if "“Run a command”" in head.plain[s.start : s.end]]
        assert span.style == MUTED

    def test_label_follows_both_names(self) -> None:
        """Section 9: if the call has another name, both names come before the label."""
        head = self.head("Run a command", names=("deploy", "sh"))
        assert head.plain.startswith("✓ deploy  sh  “Run a command”  make")

    def test_subagent_call_gets_no_label(self) -> None:
        """A subagent's call may be of another tool with the same name, so it gets no label."""
        assert "Run" not in self.head("Run a command", via="helper-1").plain

    def test_label_is_escaped_and_limited(self) -> None:
        """Section 9: a label cannot control the terminal, and a long one leaves room for the call."""
        head = self.head("\x1b[2J\u202eevil " * 20)
        assert "\x1b" not in head.plain
        assert "\u202e" not in head.plain
        assert "…”  make" in head.plain


class TestErrors:
    def test_an_error_is_shown_once(self) -> None:
        """An error at the end of the transcript is not repeated below it."""
        note = TranscriptEntry(at=NOW, kind="note", text="error: The cost limit is reached")
        state = release_bot(waiting=False)
        state.status, state.error = "failed", "The cost limit is reached"
        assert [block.key for block in tail_blocks(state, LiveStream(), NOW)] == ["error"]
        state.transcript = [*state.transcript, note]
        assert tail_blocks(state, LiveStream(), NOW) == []
        lines = entry_block("k", note, "bot", LiveStream(), NOW).lines(60)
        assert [line.plain for line in lines] == ["", "✗ The cost limit is reached"]


class TestMarkup:
    def test_only_agent_markdown_is_rendered(self) -> None:
        """An agent's Markdown is rendered, also while it is streamed. A user's text is not."""
        said = {
            kind: entry_block(
                "k", TranscriptEntry(at=NOW, kind=kind, text="**so**"), "bot", LiveStream(), NOW
            ).lines(60)[1]
            for kind in ("assistant", "user")
        }
        assert said["assistant"].plain.endswith(" so")
        assert said["user"].plain.endswith("**so**")
        [writing] = tail_blocks(release_bot(waiting=False), LiveStream(said="**so** on"), NOW)
        assert writing.lines(60)[1].plain.endswith(" so on▍")
