"""G-79, G-80, G-82: `since`, `within`, `until human-approval`; overlapping calls prove nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.gate import (
    ReplayEntry,
)
from interlock.engine.history.fold.fold import fold
from interlock.engine.net.net import NetError, ToolCall, Transition, define_skill_net
from interlock.engine.verify import Together
from interlock.engine.verify.vocabulary import vocabulary
from interlock.rules import RuleError, compile_rules
from tests.engine.backtest.recorder import Recorder

from .support.world import World

SINCE = "require test since edit before deploy"
UNTIL = "block send after read until human-approval"
MINUTE = 60.0


class TestSince:
    async def test_a_later_call_locks_again(self) -> None:
        world = World(SINCE)
        assert await world.calls("deploy", "edit", "test", "deploy", "deploy") == [
            False, True, True, True, False
        ]  # fmt: skip
        assert await world.calls("test", "edit", "deploy", "test", "test", "deploy") == [
            True, True, False, True, True, True
        ]  # fmt: skip

    async def test_a_failed_call_counts(self) -> None:
        """A failed edit may have changed something, so it counts."""
        world = World(SINCE)
        await world.call("test")
        await world.call("edit", fails=True)
        assert not await world.call("deploy")

    @pytest.mark.parametrize("first_ends", ["test", "edit"])
    async def test_test_overlapping_an_edit_does_not_count(self, first_ends: str) -> None:
        """The order of their beginnings and ends does not matter."""
        for first in ("test", "edit"):
            world = World(SINCE)
            running = {first: await world.begin(first)}
            other = "edit" if first == "test" else "test"
            running[other] = await world.begin(other)
            last_ends = "edit" if first_ends == "test" else "test"
            world.end(running[first_ends])
            assert not await world.call("deploy")
            world.end(running[last_ends])
            assert not await world.call("deploy")
            assert await world.calls("test", "deploy") == [True, True]

    async def test_one_of_two_edits_still_runs(self) -> None:
        world = World(SINCE)
        first, second = await world.begin("edit"), await world.begin("edit")
        world.end(first)
        await world.call("test")
        assert not await world.call("deploy")
        world.end(second, fails=True)
        assert await world.calls("deploy", "test", "deploy") == [False, True, True]

    async def test_call_that_edits_and_tests_does_not_count(self) -> None:
        """A call that edits and tests does not count as a test of its edits."""
        rules = f"map bash.command make as edit\nmap bash.command pytest as test\n{SINCE}"
        world = World(rules)
        await world.call("bash", command="make; pytest")
        assert not await world.call("deploy")
        await world.call("bash", command="pytest")
        assert await world.call("deploy")

    async def test_unclear_call_locks_and_does_not_count(self) -> None:
        """An unclear call may edit, so it locks, also while it runs (G-64)."""
        rules = (
            f"map bash.command make as edit\nmap bash.command pytest as test\n{SINCE}\nallow unclear bash"
        )
        world = World(rules)
        await world.call("test")
        unclear = await world.begin("bash", command="$x; make")
        await world.call("test")
        assert not await world.call("deploy")
        world.end(unclear)
        assert not await world.call("deploy")
        assert await world.calls("test", "deploy") == [True, True]

    async def test_every_prerequisite_is_needed_again(self) -> None:
        world = World("require lint and test since edit before deploy")
        assert await world.calls("lint", "test", "edit", "lint", "deploy", "test", "deploy") == [
            True, True, True, True, False, True, True
        ]  # fmt: skip

    async def test_one_of_two_prerequisites_is_enough(self) -> None:
        world = World("require lint or test since edit before deploy")
        assert await world.calls("lint", "edit", "deploy", "test", "deploy") == [
            True, True, False, True, True
        ]  # fmt: skip

    async def test_reason_names_since_and_within(self) -> None:
        world = World(f"{SINCE} within 30m")
        [verdict] = world.gate.classify(ToolCall("c", "deploy"))
        expected = "deploy requires a successful call to test after the last call to edit"
        assert verdict.reason == f"{expected}, not longer than 30m ago."
        [sentence] = world.gate.constraints()
        expected = "deploy needs a successful test first since the last call of edit"
        assert sentence == f"{expected}, not longer than 30m ago."

    def test_a_history_counts(self) -> None:
        """G-25: the calls of a history count as consecutive."""
        for tools, allowed in (
            (["edit", "test"], True),
            (["test", "edit"], False),
            (["test", "edit", "test"], True),
        ):
            world = World(SINCE)
            world.gate.replay(ReplayEntry(tool, {}, tool == "edit") for tool in tools)
            assert (world.gate.classify(ToolCall("c", "deploy"))[0].kind == "gated") is allowed


class TestWithin:
    async def test_a_success_expires(self) -> None:
        world = World("require test before deploy within 30m")
        await world.call("test")
        world.now = 29 * MINUTE
        assert await world.call("deploy")
        await world.call("test")
        world.now = 59 * MINUTE
        assert await world.calls("deploy", "test", "deploy") == [False, True, True]

    async def test_another_success_renews_the_time(self) -> None:
        """A success renews the time, and a failure does not."""
        world = World("require lint and test before deploy within 30m")
        await world.calls("lint", "test")
        world.now = 20 * MINUTE
        assert await world.calls("lint", "test") == [True, True]
        world.now = 45 * MINUTE
        await world.call("lint", fails=True)
        world.now = 49 * MINUTE
        assert await world.call("deploy")
        await world.calls("lint", "test")
        world.now = 60 * MINUTE
        await world.call("lint", fails=True)
        world.now = 80 * MINUTE
        assert not await world.call("deploy")


class TestUntil:
    async def test_approved_call_ends_the_requirement(self) -> None:
        world = World(UNTIL)
        assert await world.calls("send", "read", "send", "send") == [True] * 4
        assert world.asked == 1
        await world.calls("read", "send")
        assert world.asked == 2

    async def test_failed_call_does_not_end_it(self) -> None:
        world = World(UNTIL)
        await world.call("read")
        await world.call("send", fails=True)
        await world.call("send")
        assert world.asked == 2

    @pytest.mark.parametrize("first", ["read", "send"])
    async def test_call_overlapping_a_read_does_not_end_it(self, first: str) -> None:
        """The next call may send what the simultaneous call reads."""
        world = World(UNTIL)
        await world.call("read")
        other = "send" if first == "read" else "read"
        running = [await world.begin(first), await world.begin(other)]
        for call_id in running:
            world.end(call_id)
        await world.call("send")
        assert world.asked == 2

    async def test_unclear_call_needs_approval_and_does_not_end_it(self) -> None:
        rules = f"map bash.command mail as send\n{UNTIL}\nallow unclear bash"
        world = World(rules)
        await world.call("read")
        await world.call("bash", command="$x; mail")
        assert world.asked == 1
        await world.call("send")
        assert world.asked == 2


EVENTS = st.lists(
    st.tuples(st.sampled_from(["edit", "test", "deploy", "other"]), st.integers(0, 3), st.booleans()),
    max_size=14,
)


class TestLaws:
    @given(EVENTS)
    async def test_deploy_needs_a_test_without_an_overlapping_edit(
        self, events: Sequence[tuple[str, int, bool]]
    ) -> None:
        """Law: a deploy needs its own test that succeeded without overlapping an edit.

        The test began after every edit had ended and ended before another one began.
        """
        world = World(SINCE)
        running: list[tuple[str, str, int]] = []
        clock, edits, proofs = 0, dict[str, tuple[int, int | None]](), list[int]()
        for tool, ends, fails in events:
            clock += 1
            call_id = await world.begin(tool)
            if tool == "deploy":
                last = max((begun for begun, _ in edits.values()), default=0)
                ended = all(end is not None for _, end in edits.values())
                usable = [end for end in proofs if end > last]
                assert call_id is None or (ended and usable)
                proofs = [] if call_id is not None else proofs
            elif tool == "edit":
                edits[str(call_id)] = (clock, None)
            if call_id is not None:
                running.append((call_id, tool, clock))
            for _ in range(min(ends, len(running))):
                clock += 1
                done, kind, begun = running.pop(0)
                world.end(done, fails=fails)
                if kind == "edit":
                    edits[done] = (edits[done][0], clock)
                if kind == "test" and not fails:
                    met = any(b < clock and (e is None or e > begun) for b, e in edits.values())
                    proofs += [] if met else [clock]

    @pytest.mark.slow
    @given(
        st.lists(st.tuples(st.sampled_from(["edit", "test", "deploy"]), st.integers(0, 2)), max_size=10)
    )
    async def test_record_has_the_pending_transitions(self, events: list[tuple[str, int]]) -> None:
        """Law: the fold of the record has the gate's pending transitions and markings."""
        recorder = Recorder(compile_rules(SINCE).registry)
        for number, (tool, ends) in enumerate(events):
            await recorder.call(f"c{number}", tool)
            for call_id in list(recorder.running)[:ends]:
                recorder.result(call_id)
            folded = fold(recorder.events)
            states = recorder.manager.states
            assert {key: net.marking for key, net in folded.nets.items()} == {
                key: state.marking for key, state in states.items()
            }
            assert [(p.call_id, p.step.transition) for p in folded.pending] == [
                (call_id, p.transition.name)
                for state in states.values()
                for call_id, calls in state.pending.items()
                for p in calls
            ]


class TestProof:
    def test_finds_the_shortest_way(self) -> None:
        rules = compile_rules(
            f"{SINCE}\nrequire edit before test\nblock send after deploy until human-approval"
        )
        together = Together(rules.registry, words=vocabulary(rules.nets, None))
        assert [str(call) for call in together.way("deploy").calls] == ["edit", "test", "deploy"]

    def test_call_of_both_names_does_not_count(self) -> None:
        """In the proof, a call of several names fires as in the gate."""
        rules = compile_rules(
            "map bash.command /make|pytest/ as edit\nmap bash.command /pytest/ as test\n"
            f"{SINCE}\nblock test when input.x = 1"
        )
        together = Together(rules.registry, words=vocabulary(rules.nets, None))
        assert len(together.way("deploy").calls) == 2


class TestNets:
    @pytest.mark.parametrize(
        ("voiding", "said"),
        [
            (Transition("e", ("p",), ("p",), ("edit",), voids=("t",)), "must be deferred"),
            (Transition("e", ("p",), ("p",), ("edit",), deferred=True, voids=("x",)), "voids 'x'"),
            (Transition("e", ("p",), ("p",), ("edit",), deferred=True, voids=("e",)), "voids 'e'"),
            (Transition("e", ("p",), ("p",), ("edit",), deferred=True, voids=("u",)), "voids 'u'"),
        ],
    )
    def test_only_deferred_transitions_can_be_voided(self, voiding: Transition, said: str) -> None:
        others = (
            Transition("t", ("p",), ("p",), ("test",), deferred=True),
            Transition("u", ("p",), ("p",), ("use",)),
        )
        with pytest.raises(NetError, match=said):
            define_skill_net("n", places=["p"], transitions=[*others, voiding], initial_marking={"p": 1})


class TestErrors:
    @pytest.mark.parametrize(
        ("line", "message", "remedy"),
        [
            (
                "require a since before b",
                "expected a tool after 'since', got 'before'",
                "since <tool> before b",
            ),
            (
                "require a before b since c",
                "'since' must come before 'before'",
                "require a since c before b",
            ),
            ("require a sinc b before c", "got 'sinc'", "require a since b before c"),
            ("require a since b", "expected 'before' after 'b'", "require a since b before <tool>"),
            ("require a since", "expected a tool after 'since'", "require a since <tool> before <tool>"),
            ("require human-approval since a before b", "'since' is for tools", "since <tool>"),
            ("require a since b or c before d", "takes one tool", "a rule for each"),
            ("require a since a before b", "make itself necessary again", "that changes"),
            ("require a since b before b", "needs its own success anyway", "require a before b"),
            ("require a since b* before c", "'*' has no meaning", "name one tool"),
            ("require a since b before a", "required before itself", "another tool"),
            ("require a before a within 1h", "takes no 'within'", "leave the time out"),
            ("require a before b within 0m", "a time", "90s"),
            ("block a after b until", "got the end of the line", "until human-approval"),
            ("block a after b until c", "got 'c'", "block a after b until human-approval"),
            ("block a after b c until human-approval", "must follow a single tool", "block <tool> after"),
            ("block a after a until human-approval", "each approved 'a'", "after a require"),
            ("block a after b until human-approval by 2", "one person's approval", "before a by 2"),
        ],
    )
    def test_name_the_remedy(self, line: str, message: str, remedy: str) -> None:
        with pytest.raises(RuleError) as error:
            compile_rules(line)
        [problem] = error.value.problems
        assert message in problem.message
        assert remedy in problem.remedy
