"""Recorded calls judged under other rules, case by case."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from interlock.engine.backtest import (
    Judge,
    Judgement,
    RecordedCall,
    RecordedOpening,
    RecordedOutcome,
    RecordedResult,
    RecordedResumption,
    RecordedSwitch,
    Trial,
    fork,
)
from interlock.engine.backtest.journal_reader import JsonInput
from interlock.engine.backtest.trial import CACHED, LONGEST_CACHED
from interlock.engine.gate.types import Outcome
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import CallDecided, SessionResumed
from interlock.engine.history.model.records import RuleRecord
from interlock.engine.net.net import (
    GateState,
    NetError,
    Rejection,
    ToolCall,
    Transition,
    define_skill_net,
)
from interlock.rules import compile_rules, condition_of

from .recorder import Recorder, changes, items_of, judged

OLD = RuleRecord(file="old.rules", line=2, text="block deploy")
BLOCKED = RecordedOutcome("block", ran=False, net="block-deploy", rule=OLD, reason="deploy is blocked.")
APPROVED = RecordedOutcome("ask", by=("maria",))
DENIED = RecordedOutcome("ask", ran=False, denied=True, by=("maria",))


def call(
    call_id: str, tool: str, then: RecordedOutcome | None = None, **arguments: object
) -> RecordedCall:
    return RecordedCall(int(call_id[1:]), call_id, tool, arguments, then or RecordedOutcome())


def ok(call_id: str, tool: str) -> RecordedResult:
    return RecordedResult(call_id, tool, is_error=False)


def ran(call_id: str, tool: str) -> tuple[RecordedCall, RecordedResult]:
    return call(call_id, tool), ok(call_id, tool)


def outcomes(judgements: Iterable[Judgement]) -> list[Outcome]:
    return [j.now.outcome for j in judgements]


class TestNewlyBlocked:
    """A call that ran and would be blocked."""

    def test_verdict_names_net_rule_and_place(self) -> None:
        """The verdict has net, rule and place, and the name that the rule matches."""
        [found] = judged(
            "map bash.command ./deploy as deploy\nblock deploy", [call("c1", "bash", command="./deploy")]
        )
        assert (found.change, found.now.net, found.now.name) == ("blocked", "block-deploy", "deploy")
        assert found.now.reason == "deploy is blocked and cannot be called."
        assert found.now.rule == RuleRecord(file="<rules>", line=2, text="block deploy")

    def test_only_later_calls_are_hypothetical(self) -> None:
        """The call itself is not hypothetical, but all later ones are."""
        items = [*ran("c1", "a"), *ran("c2", "b"), *ran("c3", "a")]
        assert changes(judged("block b", items)) == ["c1 same", "c2 blocked", "c3 same?"]

    def test_blocked_call_moves_no_net(self) -> None:
        """A blocked call fires nothing, as in shadow mode (G-57)."""
        rules = "block lint\nrequire lint before deploy\nlimit lint to 1 per session"
        items = [*ran("c1", "lint"), *ran("c2", "deploy"), *ran("c3", "lint")]
        found = judged(rules, items)
        assert [(j.now.outcome, j.now.net, j.hypothetical) for j in found] == [
            ("block", "block-lint", False),
            ("block", "require-lint-before-deploy", True),
            ("block", "block-lint", True),
        ]
        without = judged(rules.replace("block lint\n", ""), items)
        assert [(j.now.outcome, j.now.net) for j in without][2] == ("block", "limit-lint-1")

    def test_failed_result_unlocks_nothing(self) -> None:
        """Results count as recorded (G-16); an unknown one counts as a failure."""
        items = [call("c1", "test"), RecordedResult("c1", "test", is_error=True), call("c2", "deploy")]
        assert outcomes(judged("require test before deploy", items)) == ["allow", "block"]

    def test_missing_result_unlocks_nothing(self) -> None:
        """A call without a result does not unlock later calls."""
        items = [call("c1", "test"), call("c2", "deploy")]
        assert outcomes(judged("require test before deploy", items)) == ["allow", "block"]


class TestNewlyAllowed:
    """A call that did not run and would be allowed."""

    def test_call_without_result_moves_no_net(self) -> None:
        """Without a result its effects are unknown, so budgets and deferred transitions do not change."""
        items = [call("c1", "deploy", BLOCKED), *ran("c2", "deploy"), *ran("c3", "deploy")]
        found = judged("limit deploy to 1 per session\nrequire deploy before test", items)
        assert changes(found) == ["c1 allowed", "c2 same?", "c3 blocked?"]
        found = judged("require deploy before test", [items[0], call("c1", "x"), ok("c1", "deploy")])
        assert changes(found) == ["c1 allowed", "c1 same?"]
        assert outcomes(
            judged("require deploy before test", [items[0], ok("c1", "deploy"), call("c2", "test")])
        ) == [
            "allow",
            "block",
        ]

    def test_block_by_the_gate_itself_stays(self) -> None:
        """A block by the gate itself, for an id in use, stays under any rules (G-53)."""
        own = RecordedOutcome("block", ran=False, reason="Tool call id 'c1' is already in use.", own=True)
        [found] = judged("limit x to 1 per session", [call("c1", "x", own)])
        assert (found.change, found.now.reason) == ("same", own.reason)

    def test_shadow_call_that_ran_is_not_hypothetical(self) -> None:
        """It ran and would run now, so later calls are not hypothetical."""
        blocked = replace(BLOCKED, ran=True, shadow=True)
        items = [call("c1", "deploy", blocked), *ran("c2", "a")]
        assert changes(judged("block b", items)) == ["c1 allowed", "c2 same"]


class TestNewlyAsked:
    """A call for which approval would be required."""

    ASKS = "require human-approval before deploy\nlimit deploy to 1 per session"

    def test_executed_call_counts_as_approved(self) -> None:
        """Without a recorded answer approval is assumed, and later calls are hypothetical."""
        found = judged(self.ASKS, [*ran("c1", "deploy"), *ran("c2", "deploy")])
        assert changes(found) == ["c1 asked", "c2 blocked?"]
        assert (found[0].now.assumed, found[0].now.net) == (True, "approve-before-deploy")

    def test_verdict_names_the_first_asking_net(self) -> None:
        """G-60: the verdict names the first of several nets that ask."""
        rules = "map bash.command ./deploy as deploy\n"
        rules += "require human-approval before bash\nrequire human-approval before deploy"
        [found] = judged(rules, [call("c1", "bash", command="./deploy")])
        assert (found.now.net, found.now.name) == ("approve-before-bash", "deploy")

    def test_formerly_blocked_call_moves_nothing(self) -> None:
        """It would need approval and has no result, so it fires nothing."""
        found = judged(self.ASKS, [call("c1", "deploy", BLOCKED), call("c2", "deploy", APPROVED)])
        assert changes(found) == ["c1 asked", "c2 same?"]
        assert [j.now.assumed for j in found] == [True, False]


@pytest.fixture
def both_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record as before G-68, when two requests could be open for one last token."""
    monkeypatch.setattr("interlock.engine.gate.calls.contention.blocking_calls", lambda *_: ())


class TestAnswered:
    """A call with a recorded request for approval."""

    def test_recorded_answer_counts(self) -> None:
        """If approval is needed then and now, the recorded answer counts; nothing is hypothetical."""
        rules = "require human-approval before deploy\nlimit deploy to 1 per session"
        items = [
            call("c1", "deploy", DENIED),
            call("c2", "deploy", APPROVED),
            call("c3", "deploy", APPROVED),
        ]
        assert changes(judged(rules, items)) == ["c1 same", "c2 same", "c3 blocked"]

    def test_approved_call_newly_allowed_is_not_hypothetical(self) -> None:
        """The call is newly allowed and did run, so later calls are not hypothetical."""
        assert changes(judged("block b", [call("c1", "a", APPROVED), call("c2", "b")])) == [
            "c1 allowed",
            "c2 blocked",
        ]

    def test_denied_call_newly_allowed_makes_later_hypothetical(self) -> None:
        """The call is newly allowed but did not run, so later calls are hypothetical."""
        assert changes(judged("block b", [call("c1", "a", DENIED), call("c2", "c")])) == [
            "c1 allowed",
            "c2 same?",
        ]

    def test_denied_call_newly_blocked_is_not_hypothetical(self) -> None:
        """The call is newly blocked and did not run before, so later calls are not hypothetical."""
        assert changes(judged("block a", [call("c1", "a", DENIED), call("c2", "c")])) == [
            "c1 blocked",
            "c2 same",
        ]

    async def test_net_switched_off_during_request_counts_as_asked(self) -> None:
        """A net that is switched off during a request still counts as having asked."""
        rules = compile_rules("require human-approval before deploy").registry
        recorder = Recorder(rules)
        await recorder.call("c1", "deploy")
        recorder.toggle("approve-before-deploy", False)
        await recorder.answer("c1", False)
        [found] = Judge(Trial.of(rules)).judge(items_of(recorder.events))
        assert (found.change, found.now.outcome, found.call.then.by) == ("same", "ask", ("maria",))

    async def test_denied_call_counts_as_asked_despite_later_block(self, both_asked: None) -> None:
        """A denied call counts as asked about, even if the nets would block it by the time of denial."""
        rules = compile_rules(
            "require human-approval before deploy\nlimit deploy to 1 per session"
        ).registry
        recorder = Recorder(rules)
        for call_id in ("c1", "c2"):
            await recorder.call(call_id, "deploy")
        await recorder.answer("c1", True)
        await recorder.answer("c2", False)
        found = Judge(Trial.of(rules)).judge(items_of(recorder.events))
        assert [(j.change, j.now.outcome) for j in found] == [("same", "ask"), ("same", "ask")]

    async def test_net_switched_off_after_its_requests_counts_as_asked(self, both_asked: None) -> None:
        """A net that was switched off after its requests counts as having asked in both cases."""
        rules = "require human-approval before deploy\nlimit deploy to 1 per session"
        recorder = Recorder(compile_rules(rules).registry)
        for call_id in ("c1", "c2"):
            await recorder.call(call_id, "deploy")
        recorder.toggle("approve-before-deploy", False)
        for call_id in ("c1", "c2"):
            await recorder.answer(call_id, True)
        items = items_of(recorder.events)
        assert changes(judged(rules, items)) == ["c1 same", "c2 same"]
        found = judged(rules.partition("\n")[0], items)
        assert [(j.change, j.now.outcome) for j in found] == [("same", "ask"), ("asked", "ask")]
        assert not found[1].now.assumed

    async def test_withdrawn_request_does_not_count_for_others(self) -> None:
        """A withdrawn request does not count for another call with that id or for another session."""
        rules = compile_rules("require human-approval before deploy").registry
        recorder = Recorder(rules)
        await recorder.call("c1", "deploy")
        await recorder.withdraw("c1")
        recorder.toggle("approve-before-deploy", False)
        await recorder.call("c1", "deploy")
        judge = Judge(Trial.of(rules))
        assert changes(judge.judge(items_of(recorder.events))) == ["c1 same"]
        recorder = Recorder(rules)
        await recorder.call("c1", "deploy")
        assert changes(judge.judge(items_of(recorder.events))) == []
        assert changes(judge.judge([call("c1", "x", APPROVED)])) == ["c1 allowed"]

    async def test_block_before_the_request_blocks_the_call(self) -> None:
        """The call is blocked if the rules would have blocked it before the request."""
        recorder = Recorder(compile_rules("require human-approval before deploy").registry)
        await recorder.call("c1", "deploy")
        await recorder.call("c2", "test")
        recorder.result("c2")
        await recorder.answer("c1", True)
        trial = Trial.of(
            compile_rules("require test before deploy\nrequire human-approval before deploy").registry
        )
        found = list(Judge(trial).judge(items_of(recorder.events)))
        assert changes(found) == ["c2 same", "c1 blocked"]
        assert found[1].now.net == "require-test-before-deploy"

    async def test_approved_then_blocked_call_stays_blocked(self, both_asked: None) -> None:
        """A call that was approved and then blocked stays blocked under such rules."""
        text = "require human-approval before deploy\nlimit deploy to 1 per session"
        recorder = Recorder(compile_rules(text).registry)
        for call_id in ("c1", "c2"):
            await recorder.call(call_id, "deploy")
        for asked, test in (("c1", "c3"), ("c2", "c4")):
            await recorder.call(test, "test")
            recorder.result(test)
            await recorder.answer(asked, True)
        rules = "require test before deploy\nrequire human-approval before deploy"
        found = judged(rules, items_of(recorder.events))
        assert changes(found) == ["c3 same", "c1 blocked", "c4 same?", "c2 same?"]

    async def test_edited_input_is_judged(self) -> None:
        """The edited input, which ran, is judged."""
        recorder = Recorder(compile_rules("require human-approval before bash").registry)
        await recorder.call("c1", "bash", command="rm -rf build")
        await recorder.answer("c1", True, command="ls build")
        rules = "map bash.command rm as rm\nrequire human-approval before bash\nlimit rm to 1 per session"
        items = [*items_of(recorder.events), call("c2", "bash", APPROVED, command="rm a")]
        assert changes(judged(rules, items)) == ["c1 same", "c2 same"]


class TestActiveNets:
    """Active nets over the course of a session."""

    RULES = "block a\nblock b"
    OPENING = RecordedOpening(frozenset({"block-a", "x"}), ("x",))

    def test_nets_are_active_as_recorded(self) -> None:
        """A net in the record is active as recorded; a new net is active."""
        items = [self.OPENING, call("c1", "a"), call("c2", "b")]
        assert outcomes(judged(self.RULES, items)) == ["allow", "block"]

    def test_recorded_switches_apply(self) -> None:
        """Recorded switches apply; switches of unknown nets are ignored."""
        off, on = RecordedSwitch("block-b", active=False), RecordedSwitch("block-b", active=True)
        items = [off, RecordedSwitch("x", active=False), call("c1", "b"), on, call("c2", "b")]
        assert outcomes(judged(self.RULES, items)) == ["allow", "block"]

    def test_active_overrides_the_record(self) -> None:
        """`active` overrides the record; an empty list activates no net."""
        items = [self.OPENING, RecordedSwitch("block-a", active=False), call("c1", "a"), call("c2", "b")]
        assert outcomes(judged(self.RULES, items, active=["block-a"])) == ["block", "allow"]
        assert outcomes(judged(self.RULES, items, active=[])) == ["allow", "allow"]

    def test_unknown_active_name_is_an_error(self) -> None:
        """G-21: a name in `active` that no net has is an error naming it."""
        with pytest.raises(NetError, match=r"Unknown nets in active: 'nope'\. Available: block-a"):
            Trial.of(compile_rules("block a").registry, ["nope"])

    def test_resumption_sets_its_recorded_nets(self) -> None:
        """A resumption sets its recorded nets; a net that it dropped is treated as new."""
        rules = "block a\nblock b\nblock c"
        opening = RecordedOpening(frozenset({"block-a", "block-b"}), ("block-a", "block-b"))
        off = RecordedSwitch("block-c", active=False)
        resumed = RecordedResumption((), ("block-a",), ())
        calls = [call("c1", "a"), call("c2", "b"), call("c3", "c")]
        found = outcomes(judged(rules, [opening, *calls, off, resumed, *calls]))
        assert found == ["block", "block", "block", "block", "allow", "allow"]
        added = RecordedResumption(("block-c",), (), ("block-a", "block-c"))
        assert outcomes(judged(rules, [opening, off, added, *calls])) == ["block", "allow", "block"]
        again = RecordedResumption((), (), ("block-a",))
        assert outcomes(judged(rules, [opening, added, again, *calls])) == ["block", "allow", "allow"]

    async def test_resumption_in_a_journal_sets_nets(self) -> None:
        """A resumption in a journal's events has the same effect."""
        recorder = Recorder(compile_rules("block a\nblock b").registry)
        recorder.bodies.append(
            SessionResumed(agent="bot", model="m", mode="enforce", active=("block-b",))
        )
        await recorder.manager.handle_tool_call(ToolCall("c1", "x"))
        items = [*items_of(recorder.events), call("c2", "a"), call("c3", "b")]
        assert outcomes(judged("block a\nblock b", items))[-2:] == ["allow", "block"]


class TestBranches:
    """Sessions that branched off another session."""

    RULES = "require test before deploy\nlimit deploy to 2 per session"

    async def branch(self) -> Recorder:
        recorder = Recorder(compile_rules(self.RULES).registry)
        opening = recorder.bodies[0].model_copy(
            update={
                "kind": "branch",
                "parent": "bot-0",
                "parent_seq": 9,
                "markings": {
                    "require-test-before-deploy": {"idle": 0, "ready": 0, "gate": 1},
                    "limit-deploy-2": {"idle": 0, "ready": 1, "budget": 1},
                },
            }
        )
        recorder.bodies = [opening]
        return recorder

    async def test_unchanged_nets_start_at_the_recorded_marking(self) -> None:
        """A net with the same structure starts at the recorded marking, others at their initial one."""
        opening = items_of((await self.branch()).events)
        calls = [call("c1", "deploy"), call("c2", "test"), ok("c2", "test"), call("c3", "deploy")]
        found = judged(self.RULES, [*opening, *calls])
        assert [(j.now.outcome, j.now.net) for j in found][::2] == [
            ("allow", None),
            ("block", "limit-deploy-2"),
        ]
        changed = self.RULES.replace("to 2", "to 3")
        assert outcomes(judged(changed, [*opening, *calls])) == ["allow", "allow", "allow"]


class TestForks:
    """Forks: judging from an event in the middle."""

    async def recorder(self) -> Recorder:
        recorder = Recorder(compile_rules("require test before deploy\nblock rm").registry)
        await recorder.call("c1", "test")
        recorder.result("c1")
        await recorder.call("c2", "test")
        await recorder.call("c3", "deploy")
        recorder.result("c2")
        await recorder.call("c4", "rm")
        return recorder

    async def test_recorded_nets_with_another_selection(self) -> None:
        """The record's own nets are used with the recorded names, but other nets are active."""
        events = (await self.recorder()).events
        state = fold(events[:3])
        trial = Trial.recorded(state, active=["require-test-before-deploy"], conditions=condition_of)
        recording = fork(events, 3, trial)
        found = list(Judge(trial).judge(recording.items, recording.start))
        assert changes(found) == ["c2 same", "c3 same", "c4 allowed"]
        assert found[2].call.then.rule is not None

    async def test_unchanged_nets_keep_their_marking(self) -> None:
        """Unchanged nets keep their marking at the fork; new nets start at their initial one."""
        events = (await self.recorder()).events
        rules = "require test before deploy\nrequire test before rm"
        for at, expected in (
            (1, ["c1 same", "c2 same", "c3 same", "c4 allowed"]),
            (4, ["c3 same", "c4 same"]),
        ):
            trial = Trial.of(compile_rules(rules).registry)
            recording = fork(events, at, trial)
            assert changes(Judge(trial).judge(recording.items, recording.start)) == expected

    async def test_result_after_the_fork_counts(self) -> None:
        """A result after the fork counts for unchanged nets."""
        events = (await self.recorder()).events
        for rules, expected in (
            ("require test before deploy", ["c2 same", "c3 same", "c4 allowed"]),
            ("require test before rm", ["c2 same", "c3 same", "c4 allowed"]),
            ("require test before deploy\nblock test", ["c2 blocked", "c3 same?", "c4 allowed?"]),
        ):
            trial = Trial.of(compile_rules(rules).registry)
            recording = fork(events, 2, trial)
            assert changes(Judge(trial).judge(recording.items, recording.start)) == expected

    async def test_request_open_at_the_fork_counts_as_asked(self) -> None:
        """The request counts as asked, even if its net was switched off, before or after the answer."""
        rules = compile_rules("require human-approval before deploy").registry
        recorder = Recorder(rules)
        await recorder.call("c1", "deploy")
        recorder.toggle("approve-before-deploy", False)
        await recorder.answer("c1", False)
        trial = Trial.of(rules)
        for at in (2, 3, 4):
            recording = fork(recorder.events, at, trial)
            assert changes(Judge(trial).judge(recording.items, recording.start)) == ["c1 same"]

    async def test_request_is_judged_by_names_of_its_call(self) -> None:
        """The request is judged with the names of its own call, not with those of the call before."""
        rules = compile_rules("map bash.command ./deploy as deploy\nrequire human-approval before deploy")
        recorder = Recorder(rules.registry)
        await recorder.call("c1", "bash", command="ls")
        await recorder.call("c2", "bash", command="./deploy")
        await recorder.answer("c2", False)
        trial = Trial.recorded(fold(recorder.events[:1]), conditions=condition_of)
        recording = fork(recorder.events, 1, trial)
        found = Judge(trial).judge(recording.items, recording.start)
        assert [(j.change, j.now.outcome) for j in found] == [("same", "allow"), ("same", "ask")]

    @pytest.mark.parametrize("allowed", ["", "allow unclear bash\n"])
    async def test_unclear_call_unlocks_nothing(self, allowed: str) -> None:
        """G-64: an unclear call under the record's nets and names is judged as it was live."""
        text = "map bash.command ./test as test\nmap bash.command rm as rm\nblock rm\n"
        recorder = Recorder(compile_rules(f"{text}{allowed}require test before deploy").registry)
        await recorder.call("c1", "bash", command="./test; $x")
        if not allowed:
            await recorder.answer("c1", True)
        recorder.result("c1")
        await recorder.call("c2", "deploy")
        live = recorder.bodies[-1]
        assert isinstance(live, CallDecided)
        assert live.outcome == "block"
        trial = Trial.recorded(fold(recorder.events[:1]), conditions=condition_of)
        recording = fork(recorder.events, 1, trial)
        found = list(Judge(trial).judge(recording.items, recording.start))
        assert [j.now.outcome for j in found] == ["allow" if allowed else "ask", "block"]

    async def test_resumption_after_the_fork_sets_nets(self) -> None:
        """From a resumption after the fork on, the nets of the record are active as recorded there."""
        recorder = Recorder(compile_rules("block a").registry)
        resumed = SessionResumed(agent="bot", model="m", mode="enforce", active=())
        recorder.bodies.append(resumed)
        trial = Trial.of(compile_rules("block a\nblock b").registry)
        recording = fork(recorder.events, 1, trial)
        items = [*recording.items, call("c1", "a"), call("c2", "b")]
        assert outcomes(Judge(trial).judge(items, recording.start)) == ["allow", "block"]

    async def test_recorded_nets_keep_their_rules(self) -> None:
        """The record's nets keep the rules that they were compiled from."""
        events = (await self.recorder()).events
        state = fold(events[:1])
        trial = Trial.recorded(state, conditions=condition_of)
        recording = fork(events, 1, trial)
        last = list(Judge(trial).judge(recording.items, recording.start))[-1]
        assert last.now.rule == RuleRecord(file="<rules>", line=2, text="block rm")


class TestHandWrittenNets:
    """Hand-written nets with callbacks."""

    def test_validators_notes_start_empty_each_session(self) -> None:
        """A validator's notes start empty in each session.

        Notes from a call that did not run are discarded.
        """

        def twice(_call: ToolCall, tool: str, _t: Transition, state: GateState) -> Rejection | None:
            seen = state.meta["seen"] = int(str(state.meta.get("seen", 0))) + 1
            return Rejection(f"{tool}: twice is enough") if seen > 2 else None

        net = define_skill_net(
            "twice",
            places=["p"],
            transitions=[Transition("t", ["p"], ["p"], ["x"])],
            initial_marking={"p": 1},
            validate_tool_call=twice,
        )
        judge = Judge(Trial.of({"twice": net}))
        items = [call("c1", "x", BLOCKED), call("c2", "x"), call("c3", "x"), call("c4", "x")]
        for _ in range(2):
            assert outcomes(judge.judge(items)) == ["allow", "allow", "allow", "block"]

    def test_denial_precedes_validation(self) -> None:
        """G-14: approval comes before validation, so a denied call counts as asked about."""
        net = define_skill_net(
            "asks",
            places=["p"],
            transitions=[Transition("t", ["p"], ["p"], ["x"], type="manual")],
            initial_marking={"p": 1},
            validate_tool_call=lambda *_: Rejection("never"),
        )
        found = Judge(Trial.of({"asks": net})).judge([call("c1", "x", DENIED), call("c2", "x", APPROVED)])
        assert changes(found) == ["c1 same", "c2 blocked"]


class TestNames:
    """Names of calls are cached, within bounds."""

    def test_equal_calls_are_mapped_once(self) -> None:
        """Equal calls are mapped once; long inputs and values other than text are not cached."""
        seen: list[ToolCall] = []

        def names(called: ToolCall) -> tuple[str, ...]:
            seen.append(called)
            return (called.tool_name,)

        net = replace(compile_rules("block x").nets[0], call_names=names)
        judge = Judge(Trial.of({"n": net}))

        def asked(*calls: RecordedCall) -> int:
            seen.clear()
            list(judge.judge(calls))
            return len(seen)

        assert asked(call("c1", "a", command="ls"), call("c2", "a", command="ls")) == 1
        assert asked(call("c1", "b", command="ls"), call("c2", "a", command="ls -l")) == 2
        assert asked(call("c1", "a", text="l" * LONGEST_CACHED), call("c2", "a", n=1)) == 2
        assert asked(call("c1", "a", text="l" * LONGEST_CACHED), call("c2", "a", n=1)) == 2
        unread = [
            RecordedCall(n, f"c{n}", tool, JsonInput(text), RecordedOutcome())
            for n, tool, text in (
                (1, "a", '{"x":"1"}'),
                (2, "a", '{"x":"1"}'),
                (3, "b", '{"x":"1"}'),
                (4, "b", '{"x":"2"}'),
                (5, "b", f'{{"x":"{"l" * LONGEST_CACHED}"}}'),
            )
        ]
        assert asked(*unread) == 4
        assert asked(*unread) == 1
        assert asked(*(call(f"c{n}", "a", command=str(n)) for n in range(CACHED))) == CACHED
        assert asked(call("c1", "a", command="ls")) == 1


class TestOverlaps:
    async def test_unexecuted_call_does_not_void_another(self) -> None:
        """A test that ran beside a denied edit still unlocks."""
        recorder = Recorder(compile_rules("require human-approval before edit").registry)
        await recorder.call("t", "test")
        await recorder.call("e", "edit")
        await recorder.answer("e", False)
        recorder.result("t")
        await recorder.call("d", "deploy")
        found = judged("require test since edit before deploy", items_of(recorder.events))
        assert [j.now.outcome for j in found] == ["allow", "allow", "allow"]
