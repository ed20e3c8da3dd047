"""Conversion of the gate's values to the journal's records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import isfinite
from threading import Lock
from typing import cast

from pydantic import JsonValue, TypeAdapter

from ..core.condition import condition_text
from ..core.json_values import same_json
from ..core.rule import Rule, people_to_loosen, restricted
from ..gate.classify import maps_digest
from ..gate.grants.forecast import StepForecast
from ..gate.types import GateDecision, ResultRecord, Step, ToolResult
from ..history.model.events import CallDecided, CallResult
from ..history.model.fast_models import copy_with
from ..history.model.records import (
    NetRecord,
    PlanFinding,
    PlanStepRecord,
    RuleRecord,
    StepRecord,
    TransitionRecord,
    shared_rule,
)
from ..net.net import Input, KnowsMaps, NameMaps, SkillNet

NO_STEPS = ResultRecord()
_LIMIT = 512
_made: dict[tuple[str, int], tuple[SkillNet, NetRecord]] = {}
_making = Lock()
_json_object = TypeAdapter(dict[str, JsonValue])


def json_input(value: Input) -> dict[str, JsonValue]:
    """A call's input as plain JSON. Raises pydantic's `ValidationError` for anything else."""
    try:
        # A parsed frame already is JSON; checking that takes a tenth of the time of a validation.
        return cast("dict[str, JsonValue]", _plain(value, _DEEPEST))
    except (_NotPlain, ValueError):
        return _json_object.validate_python(dict(value))


def rule_record(rule: Rule | None) -> RuleRecord | None:
    """Record of a rule's source; `None` for hand-built nets."""
    if rule is None or rule.source is None:
        return None
    return shared_rule(rule.source.file, rule.source.line, rule.source.text.strip())


def plan_records(forecast: Iterable[StepForecast]) -> tuple[PlanStepRecord, ...]:
    """Record of a plan's forecast."""
    return tuple(
        PlanStepRecord(
            tool=each.step.tool,
            count=each.step.count,
            findings=tuple(
                PlanFinding(calls=found.calls, outcome=found.outcome, reason=found.reason)
                for found in each.findings
            ),
            most=each.most,
        )
        for each in forecast
    )


def net_record(key: str, net: SkillNet) -> NetRecord:
    """Record of a net's structure, so that the journal can be replayed without the rules file.

    Sessions under the same rules share it: it would be most of an idle session's memory.
    """
    # A cached net stays alive, so no other net can have its id.
    record = _made.get((key, id(net)))
    if record is None:
        record = net, _net_record(key, net)
        with _making:
            while len(_made) >= _LIMIT:
                del _made[next(iter(_made))]
            _made[key, id(net)] = record
    return record[1]


def _net_record(key: str, net: SkillNet) -> NetRecord:
    people = people_to_loosen(net.rule)
    keeps_maps = people > 0 or net.call_names is not None
    lead_maps = tuple([_name_maps(net, lead) for lead in net.leads]) if keeps_maps else ()
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
                voids=t.voids,
                amount=t.amount,
                approvers=t.approvers,
            )
            for t in net.transitions
        ),
        initial_marking=dict(net.initial_marking),
        free_tools=net.free_tools,
        leads=net.leads,
        rule=rule_record(net.rule),
        when=None if net.condition is None else condition_text(net.condition, whole=True),
        governs=net.governs,
        people=people,
        maps=maps_digest((net,)) if people else None,
        name_maps=_name_maps(net, restricted(net.rule) if net.rule else None) if keeps_maps else None,
        lead_maps=lead_maps[0] if lead_maps else None,
        other_lead_maps=lead_maps[1:],
        per_value=net.per_value,
        shared=net.shared,
    )


def _name_maps(net: SkillNet, name: str | None) -> NameMaps | None:
    """Maps that give calls the name in a net's rule; `None` if they are unknown."""
    namer = net.call_names
    if name is None or namer is None:
        return NameMaps()
    return namer.name_maps(name) if isinstance(namer, KnowsMaps) else None


def step_records(steps: Iterable[Step]) -> tuple[StepRecord, ...]:
    """Records of committed steps, in their order."""
    return tuple(
        [
            _step(s.net, s.transition.name, s.tool, s.transition.deferred)
            if s.transition.amount is None
            else _step_of(s, s.transition.amount.units)
            for s in steps
        ]
    )


def _step_of(step: Step, units: int) -> StepRecord:
    return copy_with(_step(step.net, step.transition.name, step.tool, False), {"units": units})


@lru_cache(maxsize=4096)
def _step(net: str, transition: str, tool: str, deferred: bool) -> StepRecord:
    return StepRecord(net=net, transition=transition, tool=tool, deferred=deferred)


def result_record(
    result: ToolResult, output: str, seconds: float, outcome: ResultRecord = NO_STEPS
) -> CallResult:
    """Record of a call's result; `outcome` is its effect on the nets."""
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


def _groups(decision: GateDecision) -> dict[str, tuple[str, ...]]:
    """Groups of those who approved, by name, without people who are in none."""
    answers = [each.answer for each in decision.approvals if each.answer.approved]
    return {name: groups for each in answers for name, groups in each.groups.items() if groups}


_DECIDED = CallDecided(call_id="", tool="", input={}, names=(), outcome="block", mode="enforce")
"""Template, because the gate's values are valid and validating them again takes four times as long."""


def decision_record(
    decision: GateDecision,
    original: Input,
    *,
    via: str | None = None,
    uses: Mapping[str, str] | None = None,
) -> CallDecided:
    """Record of a decision; `original` is the input that the agent sent, `via` is who sent it.

    `uses` has the counters of limits over sessions for which the call counts, by net.
    """
    call = decision.call
    fields = {
        "call_id": call.tool_call_id,
        "tool": call.tool_name,
        "input": json_input(call.input),
        "names": decision.names,
        "outcome": decision.outcome,
        "mode": decision.mode,
        "reason": decision.reason,
        "net": decision.net,
        "rule": rule_record(decision.rule),
        "steps": step_records(decision.steps),
        "approved_by": tuple(dict.fromkeys(_approvers(decision))) if decision.approvals else (),
        "edited": call.input is not original and not same_json(call.input, original),
        "granted": decision.granted,
        "clock": decision.clock,
        "via": via,
        "uninspectable": decision.unclear,
        "judged_as": decision.judged_as,
        "edited_by": decision.edited_by,
        "uses": dict(uses or {}),
        "groups": _groups(decision) if decision.approvals else {},
    }
    return copy_with(_DECIDED, fields)


# Copies of JSON, so that the caller cannot change what was judged and recorded.


_DEEPEST = 64
_SCALARS = frozenset({str, int, bool, float, type(None)})


def own_input(value: Mapping[str, object]) -> dict[str, JsonValue]:
    """A call's input as plain JSON. Raises `ValueError` for anything JSON cannot represent."""
    try:
        return cast("dict[str, JsonValue]", _plain(value, _DEEPEST))
    except _NotPlain:
        found = json_input(value)
        json.dumps(found, allow_nan=False)
        return found


def copied(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A copy of a value that is known to be JSON."""
    return {key: item if type(item) in _SCALARS else _copy(item) for key, item in value.items()}


def _copy(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return copied(value)
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


class _NotPlain(Exception):  # noqa: N818 - not an error: it is looked at more closely
    pass


def _plain(value: object, levels: int) -> object:
    """A copy of a value that consists only of built-in types."""
    kind = type(value)
    if kind is float and not isfinite(cast("float", value)):
        raise ValueError(f"{value} is not a JSON number, so nobody could see what they approve")
    if kind in _SCALARS:
        return value
    if levels == 0:
        raise _NotPlain
    if kind is dict:
        found = cast("dict[object, object]", value)
        for key in found:
            if type(key) is not str:
                raise _NotPlain
        return {key: _plain(item, levels - 1) for key, item in found.items()}
    if kind is list:
        return [_plain(item, levels - 1) for item in cast("list[object]", value)]
    raise _NotPlain
