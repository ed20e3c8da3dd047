"""Grants of one session: giving them, and finding the one that answers a question now.

A grant's use is an ordinary step: it is committed together with the call's steps, all or none.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite

from ...core.json_values import same_json
from ...core.plan import PLAN
from ...core.rule import ApprovalRule
from ...net.net import Input, Marking, NetError, Since, SkillNet, ToolCall, initial_state, is_enabled
from .. import reasons
from ..approve import ApprovalProgress, manual_steps, own_input, tokens_wanted
from ..classify import (
    Classification,
    MemberVerdict,
    Roster,
    exact_input_reason,
    programs,
    unmapped_fields,
)
from ..conditions import EvaluationContext
from ..member import Member
from ..state.restore import RestoredNet
from ..types import GrantTerms, NetVerdict, Step
from .net import (
    GRANTED,
    Grant,
    Question,
    from_subagent,
    grant_key,
    grant_net,
    grant_number,
    plan_key,
    plan_number,
    question_of,
)
from .plans import NOT_INSPECTED, PlanOffer, planned_difference, planned_grant

log = logging.getLogger(__name__)

NOT_COVERED: Mapping[Question, MemberVerdict] = {}


@dataclass(frozen=True, slots=True)
class GrantOffer:
    """Grant that will be created when its call is committed, for what `member` asked about `tool`.

    `shown` are the names of the call that an operator was shown before editing it.
    """

    member: Member
    tool: str
    terms: GrantTerms
    shown: tuple[str, ...] | None = None


def make_grant(
    key: str,
    *,
    asks: str,
    net: SkillNet,
    name: str,
    tool: str,
    names: tuple[str, ...],
    value: Input,
    terms: GrantTerms,
    programs: tuple[str, ...] = (),
    digest: str = "",
) -> Grant:
    """Grant in place of the operator whom `net`, under the key `asks`, asks about `name`.

    It covers calls of `tool` under `names`: with exactly the input `value`, or with its values in the
    fields that no map reads and with its `programs`, depending on `terms`. For a net per value, it covers
    the value with the `digest`, or else the one in `value`.
    """
    own = own_input(value)
    exact, fixed = (own, {}) if terms.scope == "input" else (None, own)
    if net.per_value is not None and not digest:
        digest = net.per_value.digest(value) or ""
    question = question_of(asks, net, name, digest)
    return Grant(
        key, grant_net(key, (name,), terms), asks, tool, names, exact, fixed, terms, question, programs
    )


class GrantStore:
    """Grants with their nets' states, by key. A key is used only once in a session, even if revoked."""

    def __init__(self) -> None:
        self.grants: dict[str, Grant] = {}
        self.members: dict[str, Member] = {}
        self._last = 0
        self._last_plan = 0

    def add(self, grant: Grant, since: float | None) -> None:
        """Add a grant whose tokens arrived at `since`; only a grant that expires needs `since`.

        Raises `NetError` for a key that is invalid or in use, or if a required time is missing.
        """
        number = self._number(grant)
        member = Member(grant.key, grant.net, initial_state(grant.net))
        if since is not None:
            member.state.since = {GRANTED: (since,) * member.state.marking[GRANTED]}
        _check_times(member.key, member.net, member.state.marking, member.state.since)
        self._hold(grant, member, number)

    def _hold(self, grant: Grant, member: Member, number: int) -> None:
        self._note_keys(grant, number)
        self.grants[grant.key] = grant
        self.members[grant.key] = member

    def _note_keys(self, grant: Grant, number: int) -> None:
        """Mark the keys of a grant and of its plan as used."""
        self._last = max(self._last, number)
        if grant.planned is not None:
            self._last_plan = max(self._last_plan, plan_number(grant.planned.plan))

    def replaced(self, grants: Iterable[Grant] | None, revoked: Container[str]) -> GrantStore:
        """Store with those of `grants` that were not revoked; the keys of the current grants stay used.

        Markings are restored afterwards. Raises `NetError` for an invalid or repeated key.
        """
        if grants is None:
            return self
        store = GrantStore()
        store._last, store._last_plan = self._last, self._last_plan
        for grant in grants:
            number = store._number(grant)
            store._note_keys(grant, number)
            if grant.key not in revoked:
                store._hold(grant, Member(grant.key, grant.net, initial_state(grant.net)), number)
        return store

    def check_times(self, places: Mapping[str, RestoredNet]) -> None:
        """Raise `NetError` if a grant that expires would be restored without a time."""
        for key, member in self.members.items():
            place = places.get(key)
            if place is not None:
                _check_times(key, member.net, place.marking, place.recorded)
            else:
                _check_times(key, member.net, member.state.marking, member.state.since)

    def together(self, key: str) -> tuple[str, ...]:
        """Keys of all grants that end together with the one under `key`.

        These are the grants of the same plan; the key of a plan selects them too.
        """
        grant = self.grants.get(key)
        if grant is not None and grant.planned is None:
            return (key,)
        plan = key if grant is None or grant.planned is None else grant.planned.plan
        every = self.grants.items()
        return tuple(each for each, g in every if g.planned is not None and g.planned.plan == plan)

    def ended_without(self, nets: Container[str], kept: Container[str]) -> tuple[str, ...]:
        """Keys of the grants that end if only the nets `nets` are left and only `kept` are kept."""
        over = [
            key
            for key, grant in self.grants.items()
            if key not in kept or any(net not in nets for net in grant.asking)
        ]
        return tuple(dict.fromkeys(each for key in over for each in self.together(key)))

    def drop(self, key: str) -> Grant | None:
        """Remove a grant and return it; `None` if there is none."""
        self.members.pop(key, None)
        return self.grants.pop(key, None)

    def _number(self, grant: Grant) -> int:
        number = grant_number(grant.key)
        if number is None:
            raise NetError(f"'{grant.key}' is not the key of a grant, such as 'grant-1'")
        if grant.key in self.grants:
            raise NetError(f"There is already a grant '{grant.key}'")
        return number

    # Answering

    def covering(
        self,
        classification: Classification,
        call: ToolCall,
        progress: ApprovalProgress | None,
        context: EvaluationContext,
        roster: Roster,
    ) -> Mapping[Question, MemberVerdict]:
        """Questions about a call that grants answer now, each with the use of one grant.

        One use of a plan's step answers all its questions about the call, see `plans.distinct`. Empty for
        a call that an operator has edited: no grant was given for that call.
        """
        if not self.grants or (progress is not None and progress.edited):
            return NOT_COVERED
        answers = {} if progress is None else progress.answers
        covered: dict[Question, MemberVerdict] = {}
        for member, verdict, step, question in manual_steps(classification.verdicts):
            if question in answers or question in covered:
                continue
            if refusal(member.net, tokens_wanted(verdict, step.tool)) is not None:
                continue
            for key, grant in self.grants.items():
                if not grant.answers(question) or grant.tool != call.tool_name:
                    continue
                if _difference(grant, member.net, call, classification, context, roster) is not None:
                    continue
                use = self._use(key, context)
                if use is not None:
                    covered[question] = use
                    break
        return covered

    def beyond(
        self,
        member: Member,
        tool: str,
        classification: Classification,
        call: ToolCall,
        context: EvaluationContext,
        roster: Roster,
    ) -> str | None:
        """Reason why the last grant for what `member` asks about `tool` does not cover this call (G-74).

        `None` without such a grant. Contains names of fields but no values.
        """
        question = member.question(tool)
        for key, grant in reversed(self.grants.items()):
            if grant.answers(question) and grant.tool == call.tool_name:
                difference = _difference(grant, member.net, call, classification, context, roster)
                if difference is None and self._use(key, context) is None:
                    difference = reasons.USED_UP
                return None if difference is None else reasons.beyond(key, difference)
        return None

    def _use(self, key: str, context: EvaluationContext) -> MemberVerdict | None:
        """Use of a grant, if it has one left."""
        member = self.members[key]
        try:
            marking = context.marking(member)
        except Exception:
            # A grant answers nothing if its expiry cannot be determined.
            log.exception("Grant '%s' cannot be used", key)
            return None
        use = member.net.transitions[0]
        if not is_enabled(marking, use):
            return None
        step = Step(key, use, use.tools[0])
        return member, NetVerdict(key, "gated", step.tool, (step,))

    # Giving

    def unfit(
        self,
        offers: Iterable[GrantOffer],
        classification: Classification,
        call: ToolCall,
        context: EvaluationContext,
    ) -> MemberVerdict | None:
        """First grant that cannot be given for this call, as a verdict against the call.

        A call that was approved under terms that cannot hold does not run. Reads the clock if `give` will
        need it, because `give` must not fail after the commit. Raises what the clock raises.
        """
        for offer in offers:
            member = offer.member
            tokens = [tokens_wanted(v, offer.tool) for m, v in classification.verdicts if m is member]
            reason = refusal(member.net, max(tokens, default=1))
            if reason is None and from_subagent(call) and not offer.terms.subagents:
                reason = "a subagent made the call, and the grant does not reach subagents"
            if (
                reason is None
                and offer.shown is not None
                and set(offer.shown) != set(classification.names)
            ):
                reason = reasons.EDITED_EFFECTS
            if reason is None and call.tool_name == PLAN:
                reason = reasons.PLAN_AS_IT_IS
            if reason is None and offer.terms.scope == "names":
                reason = _names_refusal(member.net, call)
            if reason is not None:
                return member, member.blocked(offer.tool, reasons.no_grant(offer.tool, reason))
            if offer.terms.seconds is not None:
                context.now()
        return None

    def give(
        self,
        offers: Iterable[GrantOffer],
        classification: Classification,
        call: ToolCall,
        context: EvaluationContext,
    ) -> tuple[str, ...]:
        """Add the grants that came with the answers about a committed call; return their keys."""
        keys: list[str] = []
        for offer in offers:
            key = grant_key(self._last + 1)
            member, terms = offer.member, offer.terms
            grant = make_grant(
                key,
                asks=member.registered,
                net=member.net,
                name=offer.tool,
                tool=call.tool_name,
                names=classification.names,
                value=call.input if terms.scope == "input" else unmapped_fields(member.net, call),
                terms=terms,
                programs=() if terms.scope == "input" else programs(member.net, call),
                digest=member.digest,
            )
            self.add(grant, None if terms.seconds is None else context.now())
            keys.append(key)
        return tuple(keys)

    def give_plan(self, offers: Iterable[PlanOffer]) -> tuple[str, ...]:
        """Add the grants of a plan whose call is now committed; return their keys."""
        plan, keys = plan_key(self._last_plan + 1), list[str]()
        for offer in offers:
            key = grant_key(self._last + 1)
            asked = [(member.key, member.net, name) for member, name in offer.asked]
            self.add(planned_grant(key, plan, offer.title, offer.step, asked), None)
            keys.append(key)
        return tuple(keys)


def grant_offers(progress: ApprovalProgress | None, classification: Classification) -> list[GrantOffer]:
    """Grants that the answers about a call carry, for questions that are still asked."""
    if progress is None or all(answer.grant is None for answer in progress.answers.values()):
        return []
    offers: dict[Question, GrantOffer] = {}
    for member, _, step, question in manual_steps(classification.verdicts):
        answer = progress.answers.get(question)
        if answer is not None and answer.grant is not None and question not in offers:
            offers[question] = GrantOffer(member, step.tool, answer.grant, progress.shown)
    return list(offers.values())


def refusal(net: SkillNet, people: int) -> str | None:
    """Reason why no grant may answer what a net asks of `people`; `None` if one may."""
    rule = net.rule
    if isinstance(rule, ApprovalRule):
        people = max(people, rule.people)
        if not rule.grants:
            return "the rule says 'no grants'"
    return f"{people} people must approve each call" if people > 1 else None


def _check_times(key: str, net: SkillNet, marking: Marking, since: Since) -> None:
    """Raise `NetError` for an expiring grant without a start time, because it would never end."""
    times = since.get(GRANTED, ())
    if net.timed and not (len(times) >= marking[GRANTED] and all(map(isfinite, times))):
        raise NetError(f"'{key}' expires, so it needs the time from which it counts")


def _difference(
    grant: Grant,
    net: SkillNet,
    call: ToolCall,
    classification: Classification,
    context: EvaluationContext,
    roster: Roster,
) -> str | None:
    """Difference between a call and what a grant for its tool covers (G-74, G-109); or `None`."""
    names = classification.names
    if grant.planned is not None:
        return planned_difference(
            grant, grant.planned, classification, call, roster.namers, context.surroundings
        )
    if set(grant.names) != set(names):
        return reasons.other_names(names)
    if from_subagent(call) and not grant.terms.subagents:
        return reasons.OF_SUBAGENT
    if grant.input is not None:
        return None if same_json(grant.input, call.input) else reasons.OTHER_INPUT
    try:
        if (reason := exact_input_reason(net, call)) is not None:
            return reason
        if not same_json(grant.fixed, values := unmapped_fields(net, call)):
            return reasons.other_values(_different_fields(grant.fixed, values))
        return None if set(programs(net, call)) <= set(grant.programs) else reasons.OTHER_PROGRAM
    except Exception:
        log.exception("Call '%s' could not be inspected", call.tool_call_id)
        return NOT_INSPECTED


def _different_fields(one: Input, other: Input) -> list[str]:
    """Fields in which two inputs differ."""
    names = [name for name in {**one, **other} if (name in one) != (name in other)]
    return names + [name for name in one if name in other and not same_json(one[name], other[name])]


def _names_refusal(net: SkillNet, call: ToolCall) -> str | None:
    """Reason why only a call's exact input can be granted, such as a failed inspection; or `None`."""
    try:
        reason = exact_input_reason(net, call)
    except Exception:
        log.exception("Call '%s' could not be inspected", call.tool_call_id)
        reason = NOT_INSPECTED
    return None if reason is None else f"{reason}, so only its exact input can be granted"
