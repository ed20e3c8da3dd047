"""Judges recorded calls again: the gate's decision on each now, without running anything.

The verdicts are the gate's own: a `GateManager` takes every call through its phases, in the order of the
record, and gets the recorded results. A call that would be blocked moves no net and unlocks nothing, as
in shadow mode (G-57). A call that did not run moves none either; if that was recorded later, its moves
are taken back. After the first call that would have ended differently, the rest is hypothetical, because
an agent that is stopped, or let through, continues differently.

A recorded answer to a question is used again. Any other question counts as approved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import inf

from ..core.condition import Surroundings
from ..core.frozen import frozen, maker
from ..core.value_key import split_key, value_net
from ..gate import GateContext, GateDecision, GateManager, Mode, ToolResult
from ..gate.commit import MetaKeeper
from ..gate.types import ApprovalAnswer, ApprovalRequest, Outcome, Step
from ..history.fold.fold import fold
from ..history.model.records import RuleRecord
from ..net.net import GateState, Marking, Since, SkillNet, ToolCall, initial_state, unfired
from ..net.timed import arrivals_before
from .recording import (
    BEGINNING,
    Recorded,
    RecordedCall,
    RecordedHints,
    RecordedOpening,
    RecordedOutcome,
    RecordedQuestion,
    RecordedReplacement,
    RecordedResult,
    RecordedResumption,
    RecordedSwitch,
    RecordedText,
    Start,
)
from .report import Change
from .trial import Trial, initial_markings
from .uses import TrialUses


@frozen
class TrialOutcome:
    """Verdict of the nets on a call now; `net` and `rule` block it or ask.

    `name` is its most specific name if a net is against it. `assumed` marks a question without an answer
    in the record.
    """

    outcome: Outcome = "allow"
    net: str | None = None
    rule: RuleRecord | None = None
    reason: str | None = None
    name: str | None = None
    assumed: bool = False


@frozen
class Judgement:
    """A recorded call, its outcome then (`call.then`) and its outcome now.

    `hypothetical` says that an earlier call of the session would have ended differently.
    """

    call: RecordedCall
    now: TrialOutcome
    hypothetical: bool = False

    @property
    def change(self) -> Change:
        now = self.now.outcome
        return "same" if now == self.call.then.outcome else _CHANGES[now]


_CHANGES: dict[Outcome, Change] = {"allow": "allowed", "ask": "asked", "block": "blocked"}
_ALLOWED = TrialOutcome()
_UNANSWERED = RecordedOutcome("ask", ran=False, denied=True)
_NOTHING: dict[str, object] = {}
_tool_call = maker(ToolCall)
_tool_result = maker(ToolResult)
_judgement = maker(Judgement)


class Judge:
    """Judges one session after the other under a trial. Raises `NetError` for nets that never come to
    rest.

    Limits over sessions also count the uses of other sessions in `uses`; without it, there are none.
    """

    def __init__(self, trial: Trial, uses: TrialUses | None = None) -> None:
        self._trial = trial
        self._uses = uses or TrialUses()
        self._names = trial.names
        self._voiding = any(net.voiding for net in trial.nets.values())
        self._context = GateContext(confirm=self._confirm)
        self._now = 0.0
        self._manager = self._new_manager()
        self._states = self._manager.states
        self._initial = {key: state.marking for key, state in self._states.items()}
        self._has_started = False
        self._question: ApprovalRequest | None = None
        self._earlier: dict[str, TrialOutcome] = {}
        self._steps_of_calls: dict[str, tuple[Step, ...]] = {}
        self._net_keys: frozenset[str] = frozenset()
        self._hypothetical = False
        self.followed = False
        """True if nets of this session were off, or were switched, because of the record."""

    def _new_manager(self) -> GateManager:
        return GateManager(
            self._trial.nets,
            active=self._trial.active,
            clock=lambda: self._now,
            uses=self._uses.of_session(""),
            # Calls that a plan let pass count as answered by an operator, as with every grant.
            plans=False,
        )

    def judge(self, items: Iterable[Recorded], start: Start = BEGINNING) -> Iterator[Judgement]:
        """A judgement on every call of one session, in the order of the record."""
        self._begin(start)
        settle, steps_of_calls = self._manager.handle_tool_result, self._steps_of_calls
        for item in items:
            if isinstance(item, RecordedCall):
                yield self._judge_call(item)
            elif isinstance(item, RecordedResult):
                steps = steps_of_calls.pop(item.call_id, None)
                if item.output is not None and not item.is_error:
                    self._manager.hear(item.tool, item.output)
                if item.undone:
                    self._take_back(item, steps, start)
                else:
                    settle(_tool_result(item.call_id, item.tool, _NOTHING, item.is_error))
            else:
                self._follow(item)

    # State of a session

    def _begin(self, start: Start) -> None:
        if self._has_started and self._trial.keeps_notes:
            self._manager = self._new_manager()
            self._states = self._manager.states
        # Valid until the first call gives a time; tokens present then have always been there.
        self._now = 0.0
        states = self._states
        reset_markings = {
            k: m for k, m in self._initial.items() if states[k].marking != m or states[k].values
        }
        self._manager.restore(
            markings={**reset_markings, **start.markings},
            since=start.since,
            pending=start.pending,
            mode="enforce",
            latest=-inf,
        )
        self._manager.surroundings = Surroundings(
            start.workdir, shell=start.shell, session=start.session, hints=start.hints
        )
        self._manager.hear_again(start.texts)
        self._activate(tuple(self._trial.nets) if start.active is None else start.active)
        self._has_started = True
        self._net_keys = start.known
        self._steps_of_calls.clear()
        self._hypothetical = self.followed = False
        self._earlier = dict.fromkeys(start.asked, TrialOutcome("ask"))

    def _activate(self, active: tuple[str, ...]) -> None:
        """Activate these nets, or those that the trial names."""
        target = active if self._trial.active is None else self._trial.active
        self.followed |= self._trial.active is None and len(target) < len(self._trial.nets)
        if target != self._manager.active:
            self._manager.restore(active=target)

    def _follow(self, item: Recorded) -> None:
        """Apply the session's other events."""
        match item:
            case RecordedQuestion():
                if self._names is not None:
                    self._names.current, self._names.unclear = item.names, None
                self._now = item.seconds or self._now
                call = _tool_call(item.call_id, item.tool, item.input)
                self._earlier[item.call_id] = self._dry_verdict(call, _UNANSWERED)
            case RecordedSwitch(net=net, active=active):
                if self._trial.active is None and net in self._trial.nets:
                    switch = self._manager.add_net if active else self._manager.remove_net
                    self.followed |= switch(net).ok
            case RecordedText(source=source, text=text):
                self._manager.hear(source, text)
            case RecordedHints(tool=tool, hints=hints):
                around = self._manager.surroundings
                self._manager.surroundings = replace(around, hints={**around.hints, tool: hints})
            case RecordedOpening():
                self._net_keys = item.known
                self._manager.surroundings = _surroundings(item)
                if item.branch is not None:
                    initial = initial_markings(fold([item.branch]), self._trial)
                    self._manager.restore(markings=initial.markings, since=initial.since)
                self._activate(self._merge_active(item.active))
            case RecordedResumption() | RecordedReplacement():
                if isinstance(item, RecordedResumption):
                    hints = self._manager.surroundings.hints
                    self._manager.surroundings = replace(_surroundings(item), hints=hints)
                before = self._net_keys.difference(item.dropped)
                self._net_keys = before.union(item.added)
                self._activate(self._merge_active(item.active, of=self._manager.active))
            case _:
                raise AssertionError(f"{item} is no item of a record")

    def _merge_active(
        self, active: tuple[str, ...], of: tuple[str, ...] | None = None
    ) -> tuple[str, ...]:
        """Active nets: recorded ones as recorded, and unrecorded ones in `of`, by default all."""
        nets = self._trial.nets
        others = tuple(nets) if of is None else of
        return (
            *(key for key in active if key in nets),
            *(key for key in others if key not in self._net_keys and key not in active),
        )

    # One call

    def _judge_call(self, call: RecordedCall) -> Judgement:
        outcome = call.then
        hypothetical = self._hypothetical
        if outcome.own:
            return _judgement(call, TrialOutcome("block", reason=outcome.reason), hypothetical)
        if self._names is not None:
            self._names.current, self._names.unclear = call.names, call.unclear
        self._now = call.seconds or self._now
        earlier = self._earlier.pop(call.call_id, None) if self._earlier else None
        if not outcome.is_answered:
            earlier = None
        now = self._judge_run(call, earlier) if outcome.ran else self._judge_stopped(call, earlier)
        if now.outcome != outcome.outcome and (now.assumed or _runs(now, outcome) != outcome.ran):
            self._hypothetical = True
        return _judgement(call, now, hypothetical)

    def _judge_run(self, call: RecordedCall, earlier: TrialOutcome | None) -> TrialOutcome:
        """Verdict on a call that ran; the nets that let it pass move.

        `earlier` is the verdict when approval was requested. A block at that time would have ended the
        call; otherwise the nets judge again after the answer (G-58).
        """
        outcome = call.then
        tool_call = _tool_call(call.call_id, call.tool, call.input)
        if earlier is None and not outcome.shadow:
            direct_pass = self._manager.pass_at_once(tool_call)
            if direct_pass is not None:
                self._steps_of_calls[call.call_id] = direct_pass.steps
                return _ALLOWED
        decision = self._decide(tool_call, "shadow" if outcome.shadow else "enforce")
        self._steps_of_calls[call.call_id] = decision.steps
        if earlier is not None and earlier.outcome == "block":
            return earlier
        if decision.outcome != "allow":
            return self._refusal(decision, outcome)
        if self._question is not None:
            return self._question_outcome(self._question, outcome)
        return earlier or _ALLOWED

    def _judge_stopped(self, call: RecordedCall, earlier: TrialOutcome | None) -> TrialOutcome:
        """Verdict on a call that did not run; the nets keep their markings.

        A denied call ended with the denial, whatever the markings were by then.
        """
        outcome = call.then
        if earlier is not None and (outcome.denied or earlier.outcome == "block"):
            return earlier
        now = self._dry_verdict(_tool_call(call.call_id, call.tool, call.input), outcome)
        return earlier if earlier is not None and now.outcome == "allow" else now

    def _take_back(self, result: RecordedResult, moved: tuple[Step, ...] | None, start: Start) -> None:
        """Take back what a call that never ran `moved`, if possible.

        A call that was allowed before judging began moved the nets as recorded.
        """
        self._manager.handle_tool_result(
            _tool_result(result.call_id, result.tool, _NOTHING, True, moved or ())
        )
        if moved is not None:
            return
        before: dict[str, Marking | None] = {}
        for step in result.undone:
            if step.net in start.markings:
                net = self._net(step.net)
                marking = before.get(step.net, self._state(step.net).marking)
                transition = next(t for t in net.transitions if t.name == step.transition)
                transition = transition if step.units is None else transition.of_units(step.units)
                before[step.net] = marking and unfired(net, marking, transition)
        markings: dict[str, Marking] = {}
        since: dict[str, Since] = {}
        for key, marking in before.items():
            state, times = self._state(key), result.arrived.get(key, {})
            if marking is None:
                continue
            came = arrivals_before(self._net(key), state.since, marking, state.marking, times)
            if came is not None:
                markings[key], since[key] = marking, came
        self._manager.restore(markings=markings, since=since)

    def _net(self, key: str) -> SkillNet:
        return self._trial.nets[split_key(key)[0]]

    def _state(self, key: str) -> GateState:
        """State of a net, or of the net of one value."""
        net_key, digest = split_key(key)
        state = self._states[net_key]
        return state if digest is None else state.values.get(digest) or initial_state(self._net(key))

    def _every_state(self) -> Iterator[tuple[str, GateState]]:
        """State of each net and of each net of one value."""
        for key, state in self._states.items():
            yield key, state
            for digest, each in state.values.items():
                yield value_net(key, digest), each

    def _dry_verdict(self, call: ToolCall, recorded: RecordedOutcome) -> TrialOutcome:
        """Verdict of the nets on a call, leaving their markings unchanged."""
        before = {key: (state.marking, state.since) for key, state in self._every_state()}
        keeper = MetaKeeper()
        if self._trial.keeps_notes:
            for state in self._states.values():
                keeper.keep(state)
        pending = self._manager.pending if self._voiding else ()
        self._uses.dry = True
        decision = self._decide(call)
        if decision.outcome == "allow":
            keeper.put_back()
            # Its pending steps are dropped as by a failure.
            self._manager.handle_tool_result(
                _tool_result(call.tool_call_id, call.tool_name, _NOTHING, True, decision.steps)
            )
            if self._voiding:
                self._manager.restore(pending=pending)
            previous_states = {k: was for k, was in before.items() if self._state(k).marking != was[0]}
            for key, state in list(self._every_state()):
                if key not in before:
                    begins = initial_state(self._net(key))
                    previous_states |= (
                        {key: (begins.marking, begins.since)} if state.marking != begins.marking else {}
                    )
            if previous_states:
                self._manager.restore(
                    markings={key: marking for key, (marking, _) in previous_states.items()},
                    since={key: since for key, (_, since) in previous_states.items()},
                )
        self._uses.dry = False
        if self._question is not None and (recorded.denied or decision.outcome == "allow"):
            return self._question_outcome(self._question, recorded)
        return _ALLOWED if decision.outcome == "allow" else self._refusal(decision, recorded)

    def _decide(self, call: ToolCall, mode: Mode = "enforce") -> GateDecision:
        """The gate's decision with immediate approval; `_question` is the first one that it asked."""
        if self._manager.mode != mode:
            self._manager.mode = mode
        self._question = None
        deciding = self._manager.handle_tool_call(call, self._context)
        try:
            deciding.send(None)
        except StopIteration as done:
            return done.value
        deciding.close()
        raise AssertionError("the gate waited, though every answer was at hand")

    def _confirm(self, request: ApprovalRequest) -> ApprovalAnswer:
        self._question = self._question or request
        return ApprovalAnswer.of_enough(request, "person")

    def _question_outcome(self, request: ApprovalRequest, recorded: RecordedOutcome) -> TrialOutcome:
        rule = self._trial.rules[request.net]
        return TrialOutcome("ask", request.net, rule, None, request.names[0], not recorded.is_answered)

    def _refusal(self, decision: GateDecision, recorded: RecordedOutcome) -> TrialOutcome:
        """A block, or in shadow mode a question, in its net's name."""
        rule = None if decision.net is None else self._trial.rules[decision.net]
        is_assumed = decision.outcome == "ask" and not recorded.is_answered
        return TrialOutcome(
            decision.outcome, decision.net, rule, decision.reason, decision.names[0], is_assumed
        )


def _surroundings(item: RecordedOpening | RecordedResumption) -> Surroundings:
    return Surroundings(item.workdir, shell=item.shell, session=item.session)


def _runs(now: TrialOutcome, recorded: RecordedOutcome) -> bool:
    """True if the call would run now, given the recorded answer of the operator."""
    return now.outcome == "allow" or (now.outcome == "ask" and not recorded.denied)
