"""Conversion of grants between the gate and the record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from ..core.plan import ConditionReader, PlanError, PlanStep, written_plan
from ..gate.grants.net import GRANTED, Grant
from ..gate.grants.plans import plan_of, plan_of_call, planned_grant
from ..gate.grants.store import make_grant
from ..gate.types import GrantTerms
from ..history.fold.markings import skill_net
from ..history.model.records import GrantRecord, RuleRecord
from ..history.model.state import GrantState, SessionState
from ..net.net import GateState, SkillNet
from .records import json_input, net_record, rule_record


def grant_record(grant: Grant, state: GateState, now: float, maps: str) -> GrantRecord:
    """Record of a grant that was given at `now`, under maps with the digest `maps`."""
    came = state.since.get(GRANTED, ())
    planned = grant.planned
    return GrantRecord(
        key=grant.key,
        net=net_record(grant.key, grant.net),
        asks=grant.asks,
        asked=grant.net.transitions[0].tools[0] if planned is None else planned.asked[0][1],
        tool=grant.tool,
        names=grant.names,
        exact=grant.input is not None,
        uses=grant.terms.uses,
        seconds=grant.terms.seconds,
        since=came[0] if came else now,
        subagents=grant.terms.subagents,
        maps=maps,
        programs=grant.programs,
        plan=None if planned is None else planned.plan,
        also=() if planned is None else planned.asked[1:],
    )


def grant_input(grant: Grant) -> dict[str, JsonValue]:
    """Content of a grant in the record: an input, fields of one, or a plan with only its step."""
    plan = plan_of(grant)
    if plan is not None:
        return json_input(written_plan(plan.title, plan.steps))
    return json_input(grant.fixed if grant.input is None else grant.input)


@dataclass(frozen=True, slots=True)
class Grants:
    """Grants of a record, for `GateManager.restore`; `over` are the keys that answer nothing.

    `ended` are those of them that were in force until now.
    """

    every: tuple[Grant, ...]
    over: frozenset[str]
    ended: tuple[str, ...]
    markings: dict[str, dict[str, int]]
    since: dict[str, dict[str, tuple[float, ...]]]

    @classmethod
    def of(
        cls,
        states: Mapping[str, GrantState],
        nets: Mapping[str, SkillNet],
        maps: str,
        conditions: ConditionReader | None = None,
        *,
        plans: bool = True,
    ) -> Grants:
        """Grants in `states`, where `nets` are the current nets and `maps` is the digest of their maps.

        A grant without its net, or given under other maps, has ended (G-74). A plan's grants end
        together. They also end if `conditions` cannot parse the condition of a step, and without `plans`
        (G-110).
        """
        planned = {
            k: _planned_step(s, conditions) for k, s in states.items() if s.record.plan is not None
        }
        steps = {key: step for key, step in planned.items() if step is not None}
        active = {key: s for key, s in states.items() if s.net.active}
        live = {key: s for key, s in active.items() if _holds(s.record, nets, maps)}
        live = {k: s for k, s in live.items() if s.record.plan is None or (plans and k in steps)}
        over = {s.record.plan for key, s in active.items() if key not in live} - {None}
        live = {key: s for key, s in live.items() if s.record.plan not in over}
        none: Mapping[str, SkillNet] = {}
        every = (_grant(s, nets if k in live else none, steps.get(k)) for k, s in states.items())
        return cls(
            tuple(every),
            frozenset(states.keys() - live.keys()),
            tuple(key for key in active if key not in live),
            {key: s.net.marking for key, s in live.items()},
            {key: s.net.since for key, s in live.items()},
        )


def _holds(record: GrantRecord, nets: Mapping[str, SkillNet], maps: str) -> bool:
    """Return whether the nets and maps that a grant rests on are unchanged."""
    return record.maps == maps and nets.keys() >= {*record.nets}


def _planned_step(state: GrantState, conditions: ConditionReader | None) -> tuple[str, PlanStep] | None:
    """Title of a grant's plan and its step; `None` if the record does not have them."""
    try:
        plan = plan_of_call(state.input or {}, conditions)
    except PlanError:
        return None
    step = plan.steps[0]
    same = (step.tool, step.count) == (state.record.tool, state.record.uses)
    return (plan.title, step) if same and len(plan.steps) == 1 else None


def same_rules(
    state: SessionState, nets: Mapping[str, SkillNet], keys: Iterable[str]
) -> dict[str, SkillNet]:
    """The nets among `keys` whose rule has the same text as when it was recorded.

    What may be granted is in the rule, not in its net's structure.
    """
    return {
        key: nets[key]
        for key in keys
        if _text(state.nets[key].net.rule) == _text(rule_record(nets[key].rule))
    }


def _text(rule: RuleRecord | None) -> str | None:
    return None if rule is None else rule.text


def _grant(
    state: GrantState, nets: Mapping[str, SkillNet], planned: tuple[str, PlanStep] | None
) -> Grant:
    """The grant of a record; if the nets that it answers for are missing, one that has ended.

    `planned` are the title of its plan and its step, if it belongs to a plan that can be read.
    """
    record = state.record
    if record.plan is not None:
        title, step = planned or ("", PlanStep(record.tool, record.uses or 1))
        pairs = ((record.asks, record.asked), *record.also)
        questions = [(key, nets[key], name) for key, name in pairs if key in nets]
        return planned_grant(record.key, record.plan, title, step, questions)
    asks = nets.get(record.asks)
    scope = "input" if record.exact else "names"
    terms = GrantTerms(scope, record.uses, record.seconds, record.subagents)
    value = state.input or {}
    if asks is None:
        net = skill_net(record.net)
        exact, fixed = (value, {}) if record.exact else (None, value)
        return Grant(record.key, net, record.asks, record.tool, record.names, exact, fixed, terms, ())
    return make_grant(
        record.key,
        asks=record.asks,
        net=asks,
        name=record.asked,
        tool=record.tool,
        names=record.names,
        value=value,
        terms=terms,
        programs=record.programs,
    )
