"""From the gate's values to the journal's records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock

from pydantic import JsonValue, TypeAdapter

from .condition import written
from .gate.inspecting import maps_digest
from .gate.types import GateDecision, ResultRecord, Step, ToolResult
from .history.events import CallDecided, CallResult
from .history.parts import NetRecord, RuleRecord, StepRecord, TransitionRecord
from .net import Input, KnowsMaps, NameMaps, SkillNet
from .rule import Rule, people_to_loosen, restricted
from .same_json import same_json

NO_STEPS = ResultRecord()
_LIMIT = 512
_made: dict[tuple[str, int], tuple[SkillNet, NetRecord]] = {}
_making = Lock()
_json_object = TypeAdapter(dict[str, JsonValue])


def json_input(value: Input) -> dict[str, JsonValue]:
    """A call's input as plain JSON. Raises pydantic's `ValidationError` for anything JSON cannot hold."""
    return _json_object.validate_python(dict(value))


def rule_record(rule: Rule | None) -> RuleRecord | None:
    """Where a rule was written; `None` for hand-built nets."""
    if rule is None or rule.source is None:
        return None
    return RuleRecord(file=rule.source.file, line=rule.source.line, text=rule.source.text.strip())


def net_record(key: str, net: SkillNet) -> NetRecord:
    """A net's structure, so that the journal can be replayed without the rules file.

    Sessions under the same rules share it: it is most of what one that does nothing would hold.
    """
    # A net that is kept is alive, so that no other one has its id.
    made = _made.get((key, id(net)))
    if made is None:
        made = net, _net_record(key, net)
        with _making:
            while len(_made) >= _LIMIT:
                del _made[next(iter(_made))]
            _made[key, id(net)] = made
    return made[1]


def _net_record(key: str, net: SkillNet) -> NetRecord:
    people = people_to_loosen(net.rule)
    return NetRecord(
        key=key,
        name=net.name,
        places=net.places,
        transitions=tuple(
            TransitionRecord(
                name=t.name,
                inputs=t.inputs,
                outputs=t.outputs,
                tools=t.tools,
                manual=t.type == "manual",
                deferred=t.deferred,
                transfers=t.transfers,
                after=t.after,
                partial=t.partial,
            )
            for t in net.transitions
        ),
        initial_marking=dict(net.initial_marking),
        free_tools=net.free_tools,
        rule=rule_record(net.rule),
        when=None if net.condition is None else written(net.condition),
        governs=net.governs,
        people=people,
        maps=maps_digest((net,)) if people else None,
        name_maps=_name_maps(net) if people or net.call_names is not None else None,
    )


def _name_maps(net: SkillNet) -> NameMaps | None:
    """The maps by which calls come by the name that a net's rule restricts, if it can be told."""
    namer = net.call_names
    if net.rule is None or namer is None:
        return NameMaps()
    return namer.name_maps(restricted(net.rule)) if isinstance(namer, KnowsMaps) else None


def step_records(steps: Iterable[Step]) -> tuple[StepRecord, ...]:
    """Committed steps, in their order."""
    return tuple(
        StepRecord(net=s.net, transition=s.transition.name, tool=s.tool, deferred=s.transition.deferred)
        for s in steps
    )


def result_record(
    result: ToolResult, output: str, seconds: float, outcome: ResultRecord = NO_STEPS
) -> CallResult:
    """How a call ended as the journal keeps it; `outcome` is what that did to the nets."""
    return CallResult(
        call_id=result.tool_call_id,
        tool=result.tool_name,
        output=output,
        is_error=result.is_error,
        seconds=seconds,
        fired=step_records(outcome.fired),
        dropped=step_records(outcome.dropped),
        anomaly=outcome.anomaly,
        undone=step_records(outcome.undone),
        clock=outcome.clock,
        arrived={key: dict(times) for key, times in outcome.arrived.items()},
    )


def _approvers(decision: GateDecision) -> Iterator[str]:
    for approval in decision.approvals:
        if approval.answer.approved:
            yield from (*approval.answer.others, approval.answer.by or "unnamed")


def decision_record(decision: GateDecision, original: Input, *, via: str | None = None) -> CallDecided:
    """A decision as the journal keeps it; `original` is the input the agent sent, `via` who sent it."""
    call = decision.call
    return CallDecided(
        call_id=call.tool_call_id,
        tool=call.tool_name,
        input=json_input(call.input),
        names=decision.names,
        outcome=decision.outcome,
        mode=decision.mode,
        reason=decision.reason,
        net=decision.net,
        rule=rule_record(decision.rule),
        steps=step_records(decision.steps),
        approved_by=tuple(dict.fromkeys(_approvers(decision))),
        edited=not same_json(call.input, original),
        granted=decision.granted,
        clock=decision.clock,
        via=via,
        uninspectable=decision.unclear,
        judged_as=decision.judged_as,
        edited_by=decision.edited_by,
    )
