"""Two rule sets compared by the calls that they allow: what becomes possible, and what no longer is.

Both are walked together, breadth first, along calls that both let pass. The first call that they treat
differently ends a shortest sequence that distinguishes them. Rules that both sets contain are walked
once. Rules that share no call with those that differ, directly or through others, are not walked at all
(G-96).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal, TypeAlias

from ...engine.core.condition import Condition, condition_text
from ...engine.core.rule import UNCLEAR, ApprovalRule, RuleSource, is_weaker_approval, strictest
from ...engine.net.net import CallNames, KnowsMaps, NameMaps, SkillNet, auto_advance
from ...engine.verify import Action
from ...engine.verify.budget import Effort, SpentError
from ...engine.verify.local_net import BLOCKED, LocalNet, TimedFiring
from ...engine.verify.machine import time_name
from ...engine.verify.vocabulary import Vocabulary, combines, gated_names, loosely_covered, vocabulary
from ..ruleset import RuleSet
from .condition_logic import FAILS, NOT_FAILS, ruled_out
from .lint import meaning

Kind: TypeAlias = Literal["possible", "fewer", "weaker", "impossible", "more", "stricter"]
"""Change of a call: it becomes possible, needs fewer people, or needs approval on weaker terms; or the
reverse of each.
"""

LOOSER: frozenset[Kind] = frozenset(("possible", "fewer", "weaker"))

COMPARING_EFFORT = 3_000_000
MOST_CONDITIONS = 8
"""Most conditions of one call of which all combinations are examined."""

BESIDE = "calls of rules with 'since' or 'until' are compared as if no two ran at the same time"

_BOTH, _OLD, _NEW = "both", "old", "new"


@dataclass(frozen=True, slots=True)
class Step:
    """A call of a sequence: its names, the most specific first, and how many people approve it.

    `when` says which of the differing rules' conditions it meets. With `waits` it is not a call: time
    passes until no more uses come back.
    """

    names: tuple[str, ...]
    people: int = 0
    when: str = ""
    waits: bool = False

    def __str__(self) -> str:
        if self.waits:
            return "wait"
        approval = {0: "", 1: " (approval)"}.get(self.people, f" ({self.people} people approve)")
        return f"{self.names[0]}{approval}"


@dataclass(frozen=True, slots=True)
class Difference:
    """A call that the sets treat differently, after the shortest sequence that leads there.

    `way` ends with that call. `before` and `now` are how many people approve it, `None` if it is blocked.
    `rule` is the source of a rule that makes the difference.
    """

    kind: Kind
    way: tuple[Step, ...]
    before: int | None
    now: int | None
    rule: RuleSource | None

    @property
    def tool(self) -> str:
        return self.way[-1].names[0]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences of two sets, at most one of a kind for each name.

    `unknown` says in words what was not compared. The sets are the same only if they have no difference
    and `unknown` is empty.
    """

    differences: tuple[Difference, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        return not self.differences and not self.unknown

    @property
    def looser(self) -> bool:
        """True if a call is known to become possible, or to need less approval."""
        return any(each.kind in LOOSER for each in self.differences)


def compare(old: RuleSet, new: RuleSet, tools: Iterable[str] | None = None) -> Comparison:
    """Compare the calls that two sets allow; `tools` are the existing tools, if known.

    Raises `NetError` for a net that does not come to rest.
    """
    words = None if tools is None else [*tools]
    joint = _Joint(old, new, words)
    joint.unknown += _unknown_terms(old, new)
    if not joint.locals:
        return Comparison(unknown=tuple(joint.unknown))
    walk = _Walk(joint)
    try:
        walk.run()
    except SpentError:
        joint.unknown.append("there are too many states to compare all of them")
    # Rules that only one set has make nothing possible, whenever calls begin and end.
    if joint.voiding and (joint.is_exchange or not walk.found):
        joint.unknown.append(BESIDE)
    return Comparison(tuple(walk.found.values()), tuple(dict.fromkeys(joint.unknown)))


def _unknown_terms(old: RuleSet, new: RuleSet) -> Iterator[str]:
    """Changes of approvers that are neither clearly weaker nor clearly stricter."""
    for tool in dict.fromkeys(rule.tool for rules in (old, new) for rule in _approvals(rules)):
        each = [[rule for rule in _approvals(rules) if rule.tool == tool] for rules in (old, new)]
        was, now = (strictest(some) for some in each)
        terms = [{rule.approvers for rule in some} for some in each]
        if was is None or now is None or terms[0] == terms[1]:
            continue
        if not (is_weaker_approval(now, was) or is_weaker_approval(was, now)):
            yield f"{tool} is approved by other people, or escalated in another way"


def _approvals(rules: RuleSet) -> list[ApprovalRule]:
    return [net.rule for net in rules.nets if isinstance(net.rule, ApprovalRule)]


# Both sets as one: their nets, the possible calls, and their conditions.


@dataclass(frozen=True, slots=True)
class _Call:
    """A call by its names in each set; the call of a wait has none."""

    names: Mapping[str, tuple[str, ...]]
    when: str = ""
    wait: bool = False

    @property
    def shown(self) -> tuple[str, ...]:
        return max(self.names[_OLD], self.names[_NEW], key=len)


@dataclass(slots=True)
class _Joint:
    """Nets relevant to the differences, each with the set it belongs to, and the calls that they know."""

    old: RuleSet
    new: RuleSet
    tools: Sequence[str] | None
    effort: Effort = field(default_factory=lambda: Effort(COMPARING_EFFORT))
    unknown: list[str] = field(default_factory=list[str])
    locals: list[tuple[str, LocalNet]] = field(default_factory=list[tuple[str, LocalNet]])
    calls: list[_Call] = field(default_factory=list[_Call])

    def __post_init__(self) -> None:
        changed = self._changed_names()
        nets = self._cone(self._nets(changed), changed)
        if not nets:
            return
        actions: list[Action] = []
        for names in self._names(changed):
            for call, action in self._cases(names, nets):
                self.calls.append(call)
                actions.append(action)
        for key, (_, net) in nets.items():
            for timed in net.timed:
                wait = TimedFiring(key, timed)
                actions.append(Action((), by_net={key: (time_name(timed),)}, wait=wait))
                self.calls.append(_Call({}, wait=True))
        self._note_uncertain(nets)
        for key, (side, net) in nets.items():
            known = {tool for t in net.transitions for tool in t.tools}
            known |= {time_name(timed) for timed in net.timed}
            mine = {n: a for n, a in enumerate(actions) if not known.isdisjoint(a.names_in(key))}
            marking = auto_advance(net, net.initial_marking)
            self.locals.append((side, LocalNet(key, net, marking, mine, self.effort)))

    @property
    def voiding(self) -> bool:
        """True if a differing rule depends on whether a call began while another was running."""
        return any(each.net.voiding and side != _BOTH for side, each in self.locals)

    @property
    def is_exchange(self) -> bool:
        """True if each set has rules that the other lacks."""
        return {_OLD, _NEW} <= {side for side, _ in self.locals}

    def _changed_names(self) -> frozenset[str]:
        """Names that the new set gives by other maps, and the tools that carry them."""
        old, new = self.old.call_names, self.new.call_names
        each = {*gated_names(self.old.nets), *gated_names(self.new.nets)}
        changed: set[str] = set()
        for name in each:
            before, now = _maps_of(old, name), _maps_of(new, name)
            if before != now and (before.fields or now.fields):
                changed.add(name)
        if changed:
            self.unknown.append(
                f"the maps to {_listed(changed)} differ: which calls have the name in one set is open"
            )
        return frozenset(changed)

    def _nets(self, changed: frozenset[str]) -> dict[str, tuple[str, SkillNet]]:
        """Nets of both sets by key; nets that both contain appear once."""
        both: dict[str, tuple[str, SkillNet]] = {}
        remaining = dict(self.new.registry)
        for key, net in self.old.registry.items():
            alike = next((k for k, other in remaining.items() if _alike(net, other)), None)
            names = {tool for t in net.transitions for tool in t.tools}
            if alike is not None and changed.isdisjoint(names):
                both[f"{_BOTH}:{key}"] = (_BOTH, remaining.pop(alike))
            else:
                both[f"{_OLD}:{key}"] = (_OLD, net)
        return both | {f"{_NEW}:{key}": (_NEW, net) for key, net in remaining.items()}

    def _cone(
        self, nets: Mapping[str, tuple[str, SkillNet]], changed: frozenset[str]
    ) -> dict[str, tuple[str, SkillNet]]:
        """The nets that differ, and those that share calls with them, directly or through others."""
        names = {key: self._names_known(net) for key, (_, net) in nets.items()}
        cone = {key for key, (side, _) in nets.items() if side != _BOTH}
        names_seen = {name for key in cone for name in names[key]} | changed
        while more := {key for key in nets if key not in cone and not names_seen.isdisjoint(names[key])}:
            cone |= more
            names_seen |= {name for key in more for name in names[key]}
        return {key: net for key, net in nets.items() if key in cone}

    def _names_known(self, net: SkillNet) -> set[str]:
        """Names that a net knows, and the tools whose calls can have them."""
        names = {tool for t in net.transitions for tool in t.tools}
        return names | {
            tool for words in self._words for name in names for tool in words.carried_by(name)
        }

    @property
    def _words(self) -> tuple[Vocabulary, Vocabulary]:
        return vocabulary(self.old.nets, self.tools), vocabulary(self.new.nets, self.tools)

    def _names(self, changed: frozenset[str]) -> list[dict[str, tuple[str, ...]]]:
        """Names of each call in the old set and in the new one, without duplicates."""
        found: dict[tuple[tuple[str, ...], tuple[str, ...]], None] = {}
        old, new = self._words
        for name in dict.fromkeys([*gated_names(self.old.nets), *gated_names(self.new.nets)]):
            if old.exists(name) and new.exists(name):
                found[(name,), (name,)] = None
            for tool in dict.fromkeys([*old.carried_by(name), *new.carried_by(name)]):
                whole, own = (name, tool), (tool,)
                was = [whole] if tool in old.carried_by(name) else [own]
                now = [whole] if tool in new.carried_by(name) else [own]
                if name in changed and was == now and name != UNCLEAR:
                    was, now = [whole, own], [whole, own]
                for pair in product(was, now):
                    if pair != (own, own):
                        found[pair] = None
        return [{_OLD: before, _NEW: now, _BOTH: before} for before, now in found]

    def _cases(
        self, names: Mapping[str, tuple[str, ...]], nets: Mapping[str, tuple[str, SkillNet]]
    ) -> Iterator[tuple[_Call, Action]]:
        """The call with every possible combination of outcomes of the nets' conditions on it."""
        rules_by_condition: dict[Condition, list[str]] = {}
        for key, (side, net) in nets.items():
            if net.condition is not None and not set(net.governs).isdisjoint(names[side]):
                rules_by_condition.setdefault(net.condition, []).append(key)
        telling = {
            c for c, keys in rules_by_condition.items() if any(nets[key][0] != _BOTH for key in keys)
        }
        for applies in self._outcomes([*rules_by_condition]):
            by_net = {key: names[side] for key, (side, _) in nets.items()}
            for condition, keys in rules_by_condition.items():
                for key in keys if not applies[condition] else ():
                    by_net[key] = tuple(n for n in by_net[key] if n not in nets[key][1].governs)
            text = " and ".join(_case_text(c, applies[c]) for c in rules_by_condition if c in telling)
            yield _Call(names, text), Action(max(names.values(), key=len), by_net=by_net)

    def _outcomes(self, conditions: Sequence[Condition]) -> Iterator[dict[Condition, bool]]:
        """For each possible combination of the conditions' outcomes, whether their rules apply."""
        every: Iterable[tuple[bool, ...]] = product((False, True), repeat=len(conditions))
        if len(conditions) > MOST_CONDITIONS:
            self.unknown.append(f"more than {MOST_CONDITIONS} conditions are asked of one call")
            alone = [tuple(n == m for m in range(len(conditions))) for n in range(len(conditions))]
            every = [(False,) * len(conditions), (True,) * len(conditions), *alone]
        for outcome in every:
            demands = zip(conditions, (NOT_FAILS if each else FAILS for each in outcome), strict=True)
            if not ruled_out(*demands, effort=self.effort):
                yield dict(zip(conditions, outcome, strict=True))

    def _note_uncertain(self, nets: Mapping[str, tuple[str, SkillNet]]) -> None:
        """Record the kinds of nets whose structure alone does not show everything."""
        kinds: tuple[tuple[str, Callable[[str, SkillNet], bool]], ...] = (
            ("rules on each value of a field are compared with one value for all calls",
             lambda side, net: net.per_value is not None),
            ("limits over sessions are compared as if no other session had made a call",
             lambda side, net: net.shared is not None),
            ("limits on sums are compared for calls of 0", lambda side, net: net.measured),
            ("times differ, and are compared as if each were over at once or never",
             lambda side, net: bool(net.timed) and side != _BOTH),
            ("a net with callbacks of its own is compared without them",
             lambda side, net: net.validate_tool_call is not None or net.tool_mapper is not None),
        )  # fmt: skip
        for words, holds in kinds:
            if any(holds(side, net) for side, net in nets.values()):
                self.unknown.append(words)
        if self._is_combining([net for _, net in nets.values()]):
            self.unknown.append("calls that have several mapped names at once are not compared")

    def _is_combining(self, nets: Sequence[SkillNet]) -> bool:
        """Return whether one call with several names may do what calls with one name each cannot.

        It may if a rule counts the calls of the tool that carries the names, or if a net treats the names
        differently.
        """
        names = gated_names(nets)
        for words in self._words:
            carriers = {tool for name in names for tool in words.carried_by(name)}
            if not combines(nets, words):
                continue
            if not carriers.isdisjoint(names) or not loosely_covered(nets, words):
                return True
        return False


def _maps_of(namer: CallNames | None, name: str) -> NameMaps:
    return namer.name_maps(name) if isinstance(namer, KnowsMaps) else NameMaps()


def _case_text(condition: Condition, applies: bool) -> str:
    text = condition_text(condition)
    return text if applies else f"not ({text})"


def _alike(net: SkillNet, other: SkillNet) -> bool:
    """Return whether two nets of rules are equal apart from reason and line."""
    if net.rule is None or other.rule is None:
        return False
    return meaning(net.rule) == meaning(other.rule) and net.transitions == other.transitions


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))


# The walk.


State: TypeAlias = tuple[int, ...]


@dataclass(slots=True)
class _Walk:
    """Walks both sets together and records the first difference of each kind for each name."""

    joint: _Joint
    found: dict[tuple[str, Kind], Difference] = field(default_factory=dict[tuple[str, Kind], Difference])

    def run(self) -> None:
        """Walk the sets. Raises `SpentError` if there are too many states."""
        locals_ = [local for _, local in self.joint.locals]
        start = tuple(local.start for local in locals_)
        predecessors: dict[State, tuple[State, Step] | None] = {start: None}
        waiting = deque([start])
        knowing = [
            [at for at, local in enumerate(locals_) if number in local.actions]
            for number in range(len(self.joint.calls))
        ]
        calls = [n for n, call in enumerate(self.joint.calls) if not call.wait]
        waiting_calls = [n for n, call in enumerate(self.joint.calls) if call.wait]
        while waiting:
            state = waiting.popleft()
            self.joint.effort.charge(10)
            moves: list[tuple[State, Step]] = []
            for number in calls:
                after = self._call(state, number, knowing[number], predecessors)
                if after is not None:
                    moves.append(after)
            if waiting_calls:
                moves.append((self._waited(state, waiting_calls, knowing), Step((), waits=True)))
            for after, step in moves:
                if after not in predecessors:
                    predecessors[after] = (state, step)
                    waiting.append(after)

    def _call(
        self,
        state: State,
        number: int,
        nets: Sequence[int],
        predecessors: Mapping[State, tuple[State, Step] | None],
    ) -> tuple[State, Step] | None:
        """State after a call that both sets let pass; a difference is recorded."""
        after, people = list(state), {_BOTH: 0, _OLD: 0, _NEW: 0}
        against: dict[str, LocalNet] = {}
        asking: dict[str, LocalNet] = {}
        terms: dict[str, list[ApprovalRule]] = {_BOTH: [], _OLD: [], _NEW: []}
        for at in nets:
            side, local = self.joint.locals[at]
            to = local.step(state[at], number)
            if to == BLOCKED:
                against.setdefault(side, local)
                continue
            after[at] = to
            questions = local.asks(state[at], number)
            if questions and isinstance(local.net.rule, ApprovalRule):
                terms[side].append(local.net.rule)
            if questions > people[side]:
                people[side], asking[side] = questions, local
        if _BOTH in against:
            return None
        before, now = (max(people[_BOTH], people[side]) for side in (_OLD, _NEW))
        if not against and before and now:
            self._compare_terms(state, number, terms, (before, now), predecessors)
        kind, side = _kind(against, before, now)
        call = self.joint.calls[number]
        step = Step(call.shown, max(before, now), call.when)
        if kind is not None and (call.shown[0], kind) not in self.found:
            local = against.get(side) or asking.get(side)
            source = None if local is None or local.net.rule is None else local.net.rule.source
            last = Step(call.shown, (before if kind in ("impossible", "more") else now), call.when)
            way = (*_back(state, predecessors), last if not against else Step(call.shown, 0, call.when))
            self.found[call.shown[0], kind] = Difference(
                kind,
                way,
                None if _OLD in against else before,
                None if _NEW in against else now,
                source,
            )
        return None if against else (tuple(after), step)

    def _compare_terms(
        self,
        state: State,
        number: int,
        terms: Mapping[str, Sequence[ApprovalRule]],
        people: tuple[int, int],
        predecessors: Mapping[State, tuple[State, Step] | None],
    ) -> None:
        """Record a difference if people approve a call on other terms.

        The terms are who they are and, if as many must approve, also the risk, the time, and whether one
        approval may cover later calls.
        """
        was, now = (strictest((*terms[_BOTH], *terms[side])) for side in (_OLD, _NEW))
        if was is None or now is None:
            return
        before, after = people
        if before != after:
            was, now = (ApprovalRule(each.tool, approvers=each.approvers) for each in (was, now))
        call = self.joint.calls[number]
        kinds: tuple[tuple[Kind, bool], ...] = (
            ("weaker", _is_weaker(now, was)),
            ("stricter", _is_weaker(was, now)),
        )
        for kind, holds in kinds:
            if holds and (call.shown[0], kind) not in self.found:
                source = next((rule.source for rule in (*terms[_NEW], *terms[_OLD])), None)
                way = (*_back(state, predecessors), Step(call.shown, after, call.when))
                self.found[call.shown[0], kind] = Difference(kind, way, before, after, source)

    def _waited(
        self, state: State, waiting_calls: Sequence[int], knowing: Sequence[Sequence[int]]
    ) -> State:
        """State after everything that comes back with time has come back."""
        after = list(state)
        for number in waiting_calls:
            for at in knowing[number]:
                local, seen = self.joint.locals[at][1], {after[at]}
                while (to := local.step(after[at], number)) not in (BLOCKED, *seen):
                    after[at] = to
                    seen.add(to)
        return tuple(after)


def _is_weaker(rule: ApprovalRule, other: ApprovalRule) -> bool:
    """Return whether `rule` requires less than `other`, or gives people more time."""
    longer = other.within is not None and (rule.within is None or rule.within > other.within)
    return longer or is_weaker_approval(rule, other)


def _kind(against: Mapping[str, LocalNet], before: int, now: int) -> tuple[Kind | None, str]:
    """Kind of a difference, and the set whose rule makes it."""
    if _OLD in against:
        return (None, _OLD) if _NEW in against else ("possible", _OLD)
    if _NEW in against:
        return "impossible", _NEW
    if now < before:
        return "fewer", _OLD
    return ("more", _NEW) if now > before else (None, _OLD)


def _back(state: State, predecessors: Mapping[State, tuple[State, Step] | None]) -> list[Step]:
    steps: list[Step] = []
    while (before := predecessors[state]) is not None:
        state, step = before
        steps.append(step)
    return steps[::-1]
