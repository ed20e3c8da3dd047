"""One net with its state inside a gate, and its verdicts on each tool name.

A net's verdicts on one name are few and never change, so they are made once: classifying then looks one
up by the marking and allocates nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

from ..core.amounts import Amount
from ..core.value_key import value_net
from ..net.firing import chain
from ..net.net import (
    GateState,
    Input,
    Marking,
    NetError,
    SkillNet,
    Transition,
    auto_advance,
    fire,
    initial_state,
    is_enabled,
)
from . import reasons
from .grants.net import Question, question_of
from .types import NetVerdict, Step


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A name that a net knows: free, or covered by transitions in definition order.

    `consults` says whether more than one look at the marking may count: a person, a validator, the time,
    a condition, or transitions that lead on to others.
    """

    net: SkillNet
    free: NetVerdict | None
    gated: tuple[tuple[Transition, NetVerdict], ...]
    blocked: NetVerdict
    consults: bool

    def verdict(self, marking: Marking) -> NetVerdict:
        """Free, else gated by the first enabled transition, else blocked (G-10)."""
        if self.free is not None:
            return self.free
        for transition, verdict in self.gated:
            if is_enabled(marking, transition):
                chained = self._chained(marking, verdict) if transition.partial else verdict
                return chained or self.blocked
        return self.blocked

    def _chained(self, marking: Marking, first: NetVerdict) -> NetVerdict | None:
        """Verdict with all the transitions that follow a partial one, which alone lets nothing pass."""
        transitions = chain(self.net, marking, [t for t, _ in self.gated])
        if transitions is None:
            return None
        steps = {t: verdict.steps[0] for t, verdict in self.gated}
        return replace(first, steps=tuple(steps[t] for t in transitions))


def in_order(net: SkillNet, names: Sequence[str], own: str) -> Sequence[str]:
    """The names of one call in the order in which a net takes them; `own` is its tool's."""
    if net.leads and len(names) > 1:
        return sorted(names, key=lambda name: name not in net.leads or name == own)
    return names


@dataclass(frozen=True, slots=True, weakref_slot=True)
class KnownTools:
    """Tools of a net, by name, and the questions about them that were asked so far.

    Gates that hold the same net under one key have them in common.
    """

    net: SkillNet
    by_name: dict[str, KnownTool]
    questions: dict[str, Question] = field(default_factory=dict[str, Question])


_common: WeakValueDictionary[tuple[str, int], KnownTools] = WeakValueDictionary()
"""By the net's key and identity, which is its own while they have it."""


@dataclass(slots=True, weakref_slot=True)
class Member:
    """A net that a gate holds under `key`; `order` is its position among the active ones.

    `plain` ones have a verdict on every call by its names alone, whatever its input and the time. A net
    that is one for each value of a field has a member of its own for each: `template` is then the one
    that is registered, and `digest` the value's.
    """

    key: str
    net: SkillNet
    state: GateState
    order: int = 0
    template: Member | None = None
    digest: str = ""
    plain: bool = field(init=False)
    knows: dict[str, KnownTool] = field(init=False)
    _known: KnownTools = field(init=False, repr=False)
    _by_value: MutableMapping[str, Member] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        looks = self.net.timed or self.net.per_value is not None or self.net.measured
        self.plain = self.net.condition is None and not looks
        # A net of one value, or as it is for one call, is no other gate's.
        alone = self.template is not None or self.net.measured
        known = None if alone else _common.get((self.key, id(self.net)))
        if known is None:
            known = KnownTools(self.net, self._tools())
            if not alone:
                _common[self.key, id(self.net)] = known
        self._known = known
        self.knows = known.by_name

    @property
    def registered(self) -> str:
        """Key of the net that people know and switch: of the net of one value, its template's."""
        return self.key if self.template is None else self.template.key

    def of_value(self, digest: str) -> Member:
        """The net of one value; it is forgotten again unless something moves it, see `keep`."""
        if self._by_value is None:
            self._by_value = WeakValueDictionary()
        member = self._by_value.get(digest)
        if member is None:
            state = self.state.values.get(digest) or initial_state(self.net)
            member = Member(value_net(self.key, digest), self.net, state, self.order, self, digest)
            self._by_value[digest] = member
        member.order = self.order
        return member

    def of_call(self, given: Input) -> Member | None:
        """The net as it is for a call with this input, whose number it takes tokens for.

        It has the state in common with this one. `None` where the call has no number in the field.
        """
        return self._taking(lambda amount: amount.field.units(given))

    def of_past_call(self, given: Input) -> Member:
        """As `of_call`, for a call that ran whatever was left: it takes no more than there is.

        One without a number takes all of it.
        """

        def units(amount: Amount) -> int:
            left, found = self.state.marking.get(amount.source, 0), amount.field.units(given)
            return left if found is None else min(found, left)

        return self._taking(units) or self

    def _taking(self, units: Callable[[Amount], int | None]) -> Member | None:
        transitions: list[Transition] = []
        for transition in self.net.transitions:
            if transition.amount is None:
                transitions.append(transition)
                continue
            taken = units(transition.amount)
            if taken is None:
                return None
            transitions.append(transition.of_units(taken))
        net = replace(self.net, transitions=tuple(transitions))
        return Member(self.key, net, self.state, self.order, self.template, self.digest)

    def values(self) -> Iterator[Member]:
        """The nets of the values that calls have named so far."""
        return map(self.of_value, list(self.state.values))

    def keep(self) -> None:
        """Keep the net of a value, now that it has moved or waits for a result."""
        if self.template is not None:
            self.template.state.values[self.digest] = self.state

    def forget_values(self) -> None:
        """Let the nets of all values begin anew."""
        self.state.values.clear()
        self._by_value = None

    def take_state(self, state: GateState) -> None:
        """Go on from another state."""
        self.state = state
        self._by_value = None

    def _tools(self) -> dict[str, KnownTool]:
        names = dict.fromkeys([*self.net.free_tools, *(n for t in self.net.transitions for n in t.tools)])
        return {name: self._known_tool(name) for name in names}

    def _known_tool(self, tool: str) -> KnownTool:
        key, rule = self.registered, self.net.rule
        free = NetVerdict(key, "free", tool, rule=rule) if tool in self.net.free_tools else None
        gated = tuple(
            (t, NetVerdict(key, "gated", tool, (Step(self.key, t, tool),), rule=rule))
            for t in self.net.transitions
            if tool in t.tools
        )
        validated = self.net.validate_tool_call is not None
        asks = any(t.type == "manual" or t.partial for t, _ in gated)
        consults = not self.plain or (free is None and (validated or asks))
        blocked = self.blocked(tool, reasons.unavailable(self.net, tool))
        return KnownTool(self.net, free, gated, blocked, consults)

    def question(self, tool: str) -> Question:
        """Question that the net asks a person about a name."""
        asked = self._known.questions.get(tool)
        if asked is None:
            asked = question_of(self.registered, self.net, tool, self.digest)
            self._known.questions[tool] = asked
        return asked

    def blocked(self, tool: str, reason: str) -> NetVerdict:
        """A verdict against the call, in this net's name."""
        return NetVerdict(self.registered, "blocked", tool, reason=reason, rule=self.net.rule)

    def abstain(self, tool: str) -> NetVerdict:
        return NetVerdict(self.registered, "abstain", tool, rule=self.net.rule)

    def verdict(self, names: Sequence[str], marking: Marking | None = None) -> NetVerdict:
        """Verdict of the net on a call that goes by all of `names` (G-10, G-50).

        Names are taken in order and together: what an earlier one fires at once is spent for a later
        one. Blocked if any name is blocked, else gated if any is gated, else free, else abstain. It is
        judged at the net's own marking unless another is given.
        """
        if marking is None:
            marking = self.state.marking
        known = [name for name in names if name in self.knows]
        if len(known) == 1:
            return self.knows[known[0]].verdict(marking)
        return self._joint_verdict(in_order(self.net, known, names[-1]), names[0], marking)

    def _joint_verdict(self, names: Sequence[str], called: str, marking: Marking) -> NetVerdict:
        gated: list[NetVerdict] = []
        free: NetVerdict | None = None
        for name in names:
            verdict = self.knows[name].verdict(marking)
            if verdict.kind == "blocked":
                return verdict
            if verdict.kind == "free":
                free = free or verdict
                continue
            gated.append(verdict)
            try:
                marking = self.after(marking, verdict.steps)
            except NetError as problem:
                return self.blocked(name, reasons.cannot_fire(self.registered, problem))
        if not gated:
            return free or self.abstain(called)
        if len(gated) == 1:
            return gated[0]
        steps = tuple(step for verdict in gated for step in verdict.steps)
        return NetVerdict(self.registered, "gated", gated[0].tool, steps, rule=self.net.rule)

    def after(self, marking: Marking, steps: Iterable[Step]) -> Marking:
        """The marking once the steps that fire at the call have fired; deferred ones wait.

        Raises `NetError` when one is not enabled or the net does not come to rest.
        """
        for step in steps:
            if not step.transition.deferred:
                marking = auto_advance(self.net, fire(marking, step.transition))
        return marking
