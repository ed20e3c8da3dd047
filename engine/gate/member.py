"""One net with its state inside a gate, and its verdicts on each tool name.

A net's verdicts on one name are few and never change, so they are created once. Classifying then looks
one up by the marking and allocates nothing.
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

    `consults` is true if the marking alone does not decide: the net may need an approval, a validator,
    the time, a condition, or a chain of transitions.
    """

    net: SkillNet
    free: NetVerdict | None
    gated: tuple[tuple[Transition, NetVerdict], ...]
    blocked: NetVerdict
    consults: bool

    def verdict(self, marking: Marking) -> NetVerdict:
        """Verdict at a marking: free, else gated by the first enabled transition, else blocked (G-10)."""
        if self.free is not None:
            return self.free
        for transition, verdict in self.gated:
            if is_enabled(marking, transition):
                chained = self._chained(marking, verdict) if transition.partial else verdict
                return chained or self.blocked
        return self.blocked

    def _chained(self, marking: Marking, first: NetVerdict) -> NetVerdict | None:
        """Verdict with all transitions that follow a partial one, which alone lets nothing pass."""
        transitions = chain(self.net, marking, [t for t, _ in self.gated])
        if transitions is None:
            return None
        steps = {t: verdict.steps[0] for t, verdict in self.gated}
        return replace(first, steps=tuple(steps[t] for t in transitions))


def in_order(net: SkillNet, names: Sequence[str], own: str) -> Sequence[str]:
    """Names of one call in the order in which a net applies them; `own` is the tool's name."""
    if net.leads and len(names) > 1:
        return sorted(names, key=lambda name: name not in net.leads or name == own)
    return names


@dataclass(frozen=True, slots=True, weakref_slot=True)
class KnownTools:
    """Tools of a net by name, with the questions about them that were created so far.

    All gates that hold the same net under the same key share them.
    """

    net: SkillNet
    by_name: dict[str, KnownTool]
    questions: dict[str, Question] = field(default_factory=dict[str, Question])


_common: WeakValueDictionary[tuple[str, int], KnownTools] = WeakValueDictionary()
"""By the net's key and `id`; the id stays unique because the value keeps the net alive."""


@dataclass(slots=True, weakref_slot=True)
class Member:
    """A net that a gate holds under `key`; `order` is its position among the active nets.

    A `plain` net's verdict depends only on a call's names, not on its input or the time. A net per value
    of a field has one member for each value: `template` is then the registered member, and `digest`
    identifies the value.
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
        # A net of one value, or one instantiated for a call, belongs to this gate alone.
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
        """Key of the net that operators see and switch; for a net of one value, its template's key."""
        return self.key if self.template is None else self.template.key

    def of_value(self, digest: str) -> Member:
        """The net of one value; it is forgotten unless something moves it, see `keep`."""
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
        """The net for a call with this input, taking as many tokens as the number in the input.

        It shares its state with this member. `None` if the call has no number in the field.
        """
        return self._taking(lambda amount: amount.field.units(given))

    def of_past_call(self, given: Input) -> Member:
        """Like `of_call`, for a call that ran whatever was left: it takes at most the tokens left.

        A call without a number takes all of them.
        """

        def units(amount: Amount) -> int:
            remaining, found = self.state.marking.get(amount.source, 0), amount.field.units(given)
            return remaining if found is None else min(found, remaining)

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
        """Nets of the values that calls have named so far."""
        return map(self.of_value, list(self.state.values))

    def keep(self) -> None:
        """Keep the net of a value, because it has moved or waits for a result."""
        if self.template is not None:
            self.template.state.values[self.digest] = self.state

    def forget_values(self) -> None:
        """Forget the nets of all values, so that they start from their initial markings."""
        self.state.values.clear()
        self._by_value = None

    def take_state(self, state: GateState) -> None:
        """Replace the state with another one."""
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
        has_question = any(t.type == "manual" or t.partial for t, _ in gated)
        consults = not self.plain or (free is None and (validated or has_question))
        blocked = self.blocked(tool, reasons.unavailable(self.net, tool))
        return KnownTool(self.net, free, gated, blocked, consults)

    def question(self, tool: str) -> Question:
        """Question that the net asks an operator about a name."""
        question = self._known.questions.get(tool)
        if question is None:
            question = question_of(self.registered, self.net, tool, self.digest)
            self._known.questions[tool] = question
        return question

    def blocked(self, tool: str, reason: str) -> NetVerdict:
        """Verdict against the call, in this net's name."""
        return NetVerdict(self.registered, "blocked", tool, reason=reason, rule=self.net.rule)

    def abstain(self, tool: str) -> NetVerdict:
        return NetVerdict(self.registered, "abstain", tool, rule=self.net.rule)

    def verdict(self, names: Sequence[str], marking: Marking | None = None) -> NetVerdict:
        """Verdict of the net on a call with all of `names` (G-10, G-50).

        Names are applied in order and together: tokens that an earlier name consumes are not available to
        a later one. Blocked if any name is blocked, else gated if any is gated, else free, else abstain.
        Uses the net's own marking unless another is given.
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
        """The marking after the steps that fire at the call; deferred steps wait.

        Raises `NetError` if a step is not enabled or the net does not come to rest.
        """
        for step in steps:
            if not step.transition.deferred:
                marking = auto_advance(self.net, fire(marking, step.transition))
        return marking
