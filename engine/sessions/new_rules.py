"""Replacement of a live session's rules: which nets keep their markings, and the event (G-67)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from pydantic import JsonValue

from ..core.approvers import KEYED_RULE, Approvers, some_of
from ..core.sanitize import visible
from ..gate.classify import maps_digest
from ..gate.grants.net import Grant
from ..history.model.events import RulesReplaced
from ..history.model.records import AppliedRules, NetRecord
from ..history.model.state import SessionState
from ..net.net import SkillNet
from ..recording.grants import same_rules
from ..recording.records import net_record
from ..recording.resume_checks import (
    ResumePoint,
    loosened_nets,
    standing,
    unagreed_in_shadow,
    with_required,
)


@dataclass(frozen=True, slots=True)
class NewRules:
    """Nets that replace those of a live session; `applied` says who wanted it.

    Those in `required` are active, unless operators switched them off in the session. `source` is the
    data needed to start the session again; `None` keeps the previous one.
    """

    registry: Mapping[str, SkillNet]
    required: Collection[str]
    applied: AppliedRules
    source: dict[str, JsonValue] | None = None


@dataclass(frozen=True)
class RulesChange:
    """New `rules` compared with the recorded `state` of a session.

    `grants` are those of its gate, which may be ahead of the record; their maps have the digest `maps`.
    """

    state: SessionState
    rules: NewRules
    grants: Mapping[str, Grant]
    maps: str

    @cached_property
    def fit(self) -> ResumePoint:
        """The nets that keep their markings, as in a session that is resumed under changed nets."""
        state, rules = self.state, self.rules
        found = standing(state, rules.registry, active=None, nets="changed")
        return with_required(found, state, rules.registry, rules.required)

    @cached_property
    def loosened(self) -> Mapping[str, int]:
        """The nets that would restrict less, with the number of other people that each needs for that."""
        return loosened_nets(self.state, self.fit, self.rules.registry)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups whose members must agree to the loosening."""
        terms = [self._terms(key) for key in self.loosened]
        return tuple(dict.fromkeys(each.group for each in terms if each is not None and each.group))

    @cached_property
    def renewed(self) -> tuple[NetRecord, ...]:
        """The nets that keep their markings with a changed rule or changed maps."""
        nets = self.state.nets
        records = (net_record(key, self.rules.registry[key]) for key in self.fit.markings)
        return tuple(record for record in records if record != nets[record.key].net)

    @cached_property
    def ended_grants(self) -> tuple[str, ...]:
        """The grants that end, because what they were based on has changed (G-74).

        Those of plans are based on all rules (G-110).
        """
        registry = self.rules.registry
        same_maps = maps_digest(registry.values()) == self.maps
        same = same_rules(self.state, registry, self.fit.markings) if same_maps else {}
        other = not same_maps or bool(self.fit.fresh or self.fit.dropped or self.renewed)
        return tuple(
            key
            for key, grant in self.grants.items()
            if grant.asks not in same or (other and grant.planned is not None)
        )

    @property
    def changes_nothing(self) -> bool:
        """True if the session has these rules already."""
        fit = self.fit
        same = fit.active == tuple(self.state.active)
        return same and not (fit.fresh or fit.dropped or self.renewed or self.ended_grants)

    def problem(self, agreed: Callable[[Approvers | None], int]) -> str | None:
        """Return why the session keeps its rules, or `None`.

        `agreed` returns the number of people who agreed and count for a net with such approvers (G-77).
        """
        state, rules = self.state, self.rules
        if state.mode == "shadow" and (new := unagreed_in_shadow(state, rules.registry, rules.required)):
            named = visible(", ".join(new))
            return f"it is in shadow mode, in which nothing is blocked, and {named} needs several people"
        if self.loosened and not (rules.applied.reason or "").strip():
            return f"this may loosen {visible(', '.join(self.loosened))}, and no reason is given"
        for key, people in sorted(self.loosened.items(), key=lambda each: -each[1]):
            terms = self._terms(key)
            if terms is not None and terms.passkey:
                return f"this may loosen {visible(key)}, {KEYED_RULE}"
            did = agreed(terms)
            if did < people:
                group = None if terms is None else terms.group
                people_needed = people if group is None else some_of(people, group)
                short = [each for each, of in self.loosened.items() if of > agreed(self._terms(each))]
                loosened = visible(", ".join(short))
                return (
                    f"loosening {loosened} needs {people_needed} who neither started it nor gave it its "
                    f"task; {did or 'none'} of those who agreed count"
                )
        return None

    def _terms(self, key: str) -> Approvers | None:
        return self.state.nets[key].net.approvers

    def event(self) -> RulesReplaced:
        """Return the event of the replacement."""
        fit, state = self.fit, self.state
        return RulesReplaced(
            applied=self.rules.applied,
            nets=fit.fresh,
            dropped=fit.dropped,
            renewed=self.renewed,
            active=fit.active,
            ended_grants=self.ended_grants,
            waiting=tuple(dict.fromkeys(approval.call_id for approval in state.approvals.values())),
            source=self.rules.source,
        )
