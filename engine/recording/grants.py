"""Grants between the gate and the record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..gate.grants.net import GRANTED, Grant
from ..gate.grants.store import make_grant
from ..gate.types import GrantTerms
from ..history.fold.markings import skill_net
from ..history.model.records import GrantRecord, RuleRecord
from ..history.model.state import GrantState, SessionState
from ..net.net import GateState, SkillNet
from .records import net_record, rule_record


def grant_record(grant: Grant, state: GateState, now: float, maps: str) -> GrantRecord:
    """A grant as the journal keeps it, that came about `now` under maps of the digest `maps`."""
    came = state.since.get(GRANTED, ())
    return GrantRecord(
        key=grant.key,
        net=net_record(grant.key, grant.net),
        asks=grant.asks,
        asked=grant.net.transitions[0].tools[0],
        tool=grant.tool,
        names=grant.names,
        exact=grant.input is not None,
        uses=grant.terms.uses,
        seconds=grant.terms.seconds,
        since=came[0] if came else now,
        subagents=grant.terms.subagents,
        maps=maps,
        programs=grant.programs,
    )


@dataclass(frozen=True, slots=True)
class Grants:
    """The grants of a record, for `GateManager.restore`; `over` are the keys that answer nothing.

    `ended` are those among them that were in force until now.
    """

    every: tuple[Grant, ...]
    over: frozenset[str]
    ended: tuple[str, ...]
    markings: dict[str, dict[str, int]]
    since: dict[str, dict[str, tuple[float, ...]]]

    @classmethod
    def of(cls, states: Mapping[str, GrantState], nets: Mapping[str, SkillNet], maps: str) -> Grants:
        """Those in `states` where `nets` are those there are now, and `maps` the digest of their maps.

        Without its net, or under other maps, a grant is over (G-74).
        """
        active = {key: s for key, s in states.items() if s.net.active}
        live = {key: s for key, s in active.items() if s.record.asks in nets and s.record.maps == maps}
        asks = {key: nets[s.record.asks] for key, s in live.items()}
        return cls(
            tuple(_grant(state, asks.get(key)) for key, state in states.items()),
            frozenset(states.keys() - live.keys()),
            tuple(key for key in active if key not in live),
            {key: s.net.marking for key, s in live.items()},
            {key: s.net.since for key, s in live.items()},
        )


def same_rules(
    state: SessionState, nets: Mapping[str, SkillNet], keys: Iterable[str]
) -> dict[str, SkillNet]:
    """The nets among `keys` whose rule says what it said when it was recorded.

    What one may grant is in the rule and not in its net's structure.
    """
    return {
        key: nets[key]
        for key in keys
        if _text(state.nets[key].net.rule) == _text(rule_record(nets[key].rule))
    }


def _text(rule: RuleRecord | None) -> str | None:
    return None if rule is None else rule.text


def _grant(state: GrantState, asks: SkillNet | None) -> Grant:
    record = state.record
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
