"""Petri nets: places, transitions, markings, enabling, firing, auto-advance.

Pure functions over plain data: no clock, no I/O, nothing of ours imported that is not as plain. A
marking maps every place of a net to its tokens; functions that move tokens return a new marking and
leave the one they were given alone. The behaviour follows G-1 … G-5 and G-61.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf
from typing import Literal, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from ..core.amounts import Amount
from ..core.approvers import Approvers
from ..core.condition import Condition, Input, Shell
from ..core.frozen import frozen
from ..core.rule import Rule
from ..core.shared_limit import SharedLimit
from ..core.value_key import ValueKey

Marking: TypeAlias = dict[str, int]
Meta: TypeAlias = dict[str, object]
Since: TypeAlias = dict[str, tuple[float, ...]]
T = TypeVar("T")

MAX_STRUCTURAL_ROUNDS = 10_000


class NetError(ValueError):
    """An invalid net, or an invalid use of one: the message names the net and the culprit."""


@frozen
class ToolCall:
    """A call an agent wants to make; `input` is the tool's arguments as a JSON object.

    `shell` is what will run the shell commands in it, `None` where that is unknown; a gate fills it in.
    `subagent` is the agent's own one that made it, by the agent's id, where that is known.
    """

    tool_call_id: str
    tool_name: str
    input: Input = field(default_factory=dict[str, object])
    shell: Shell | None = None
    subagent: str = ""

    def run_by(self, shell: Shell | None) -> ToolCall:
        """This call, with the shell that will run its commands unless it says one itself."""
        if shell is None or self.shell is not None:
            return self
        return ToolCall(self.tool_call_id, self.tool_name, self.input, shell, self.subagent)


@dataclass(frozen=True, slots=True)
class Transition:
    """One transition of a net.

    A place listed twice in `inputs` needs two tokens; likewise `outputs`. `tools` are the names whose
    calls fire it; without any it is structural and fires by itself. `manual` asks a person, `deferred`
    fires when the call succeeded. Each pair in `transfers` moves all tokens of its first place to its
    second when the transition fires (G-2). Lists are taken for tuples; a bare string raises `NetError`.
    With `after`, in seconds, it fires by itself as soon as the oldest token of its one input place is
    that old. A `partial` one does not let a call pass alone: the call fires the next that is then enabled
    for it as well. `voids` names deferred transitions of the net that do not fire for calls which run at
    the same time as a call of this one, itself deferred. With an `amount` it also takes as many tokens as
    the call's number has units, none until it is of one call: see `of_units`. `approvers` says whose
    approvals a manual one takes. `needs` is derived: each input place once, with the tokens it must hold.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tools: tuple[str, ...] = ()
    type: Literal["auto", "manual"] = "auto"
    deferred: bool = False
    transfers: tuple[tuple[str, str], ...] = ()
    after: float | None = None
    partial: bool = False
    voids: tuple[str, ...] = ()
    amount: Amount | None = None
    approvers: Approvers | None = None
    needs: tuple[tuple[str, int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (
            not type(self.inputs)
            is type(self.outputs)
            is type(self.tools)
            is type(self.transfers)
            is type(self.voids)
            is tuple
        ):
            self._take_lists()
        if self.transfers:
            pairs = tuple([_pair(f"transition '{self.name}':", pair) for pair in self.transfers])
            object.__setattr__(self, "transfers", pairs)
        needs = _needs(self.inputs)
        if self.amount is not None and self.amount.units:
            needs = (*needs, (self.amount.source, self.amount.units))
        object.__setattr__(self, "needs", needs)

    def of_units(self, units: int) -> Transition:
        """This transition for a call of so many units. Raises `NetError` for one without an amount."""
        if self.amount is None:
            raise NetError(f"transition '{self.name}' takes no amount, got {units} units")
        return replace(self, amount=replace(self.amount, units=units))

    def _take_lists(self) -> None:
        for name in ("inputs", "outputs", "tools", "transfers", "voids"):
            value = getattr(self, name)
            if type(value) is not tuple:
                object.__setattr__(self, name, _listed(f"transition '{self.name}':", name, value))

    @property
    def structural(self) -> bool:
        """True if it fires without any call, at once."""
        return self.type == "auto" and not self.tools and self.after is None


@lru_cache(1_024)
def _needs(inputs: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    return tuple((place, inputs.count(place)) for place in dict.fromkeys(inputs))


def _listed(owner: str, part: str, value: Iterable[T]) -> tuple[T, ...]:
    """`value` as a tuple; a string would silently become its characters."""
    if type(value) is tuple:
        return cast("tuple[T, ...]", value)
    if not isinstance(value, str | Mapping):
        try:
            return tuple(value)
        except TypeError:
            pass
    raise NetError(f"{owner} {part} must be a list, got {value!r}")


def _pair(owner: str, value: Iterable[str]) -> tuple[str, str]:
    match _listed(owner, "transfers", value):
        case (source, target):
            return source, target
        case other:
            raise NetError(f"{owner} transfers must be pairs of places, got {other!r}")


@frozen
class PendingCall:
    """A deferred transition that waits for the result of `call`; `tool` is the name that matched it."""

    call: ToolCall
    transition: Transition
    tool: str


@dataclass(slots=True)
class GateState:
    """State of one net in one session.

    `pending` holds, by call id, the deferred transitions that wait for that call's result, oldest first.
    `meta` belongs to the net's own callbacks. `since` is when the tokens of places that a timed
    transition empties came there, oldest first, in seconds since 1970. `values` has the states of a net
    that is one for each value of a field, by the value's digest; its own marking is where each begins.
    """

    marking: Marking
    meta: Meta = field(default_factory=dict[str, object])
    pending: dict[str, list[PendingCall]] = field(default_factory=dict[str, list[PendingCall]])
    since: Since = field(default_factory=dict[str, tuple[float, ...]])
    values: dict[str, GateState] = field(default_factory=dict[str, "GateState"])


@dataclass(frozen=True, slots=True)
class Rejection:
    """Refusal of a call by `validate_tool_call`; `reason` goes to the model."""

    reason: str


ToolMapper: TypeAlias = Callable[[ToolCall], str]
CallNames: TypeAlias = Callable[[ToolCall], Sequence[str]]
"""Every name of a call. One that has a frozen set `renames` is asked about calls of those tools alone."""


@runtime_checkable
class ReadsCalls(Protocol):
    """A `call_names` function that can also say why there may be more to a call than its names tell."""

    def named(self, call: ToolCall, /) -> tuple[Sequence[str], str | None]:
        """Every name of a call, and the reason why it is `unclear`; `None` for one that is not (G-64)."""
        ...


@dataclass(frozen=True, slots=True)
class FieldMaps:
    """The first `count` maps of a field, by their digest; `shell` says that it holds shell commands."""

    tool: str
    field: str
    shell: bool
    count: int
    digest: str


@dataclass(frozen=True, slots=True)
class NameMaps:
    """The maps that give calls a name, as far down in each field as they matter for it.

    `renamed` are the tools whose calls may have other names than their own. For `unclear` also the names
    that maps give and rules restrict, `risky`, and the tools whose calls can be it; `None` for all.
    """

    fields: tuple[FieldMaps, ...] = ()
    renamed: tuple[str, ...] = ()
    risky: tuple[str, ...] = ()
    unclear: tuple[str, ...] | None = None


@runtime_checkable
class KnowsMaps(Protocol):
    """A `call_names` function that can say by which maps calls come by a name."""

    def name_maps(self, name: str, /) -> NameMaps:
        """The maps that give `name`."""
        ...

    def gives_less(self, name: str, was: NameMaps, /) -> bool:
        """Tell whether `name` is given to fewer calls than by the maps that `was` is of (G-67)."""
        ...


Validator: TypeAlias = Callable[[ToolCall, str, Transition, GateState], Rejection | None]
DeferredHook: TypeAlias = Callable[[ToolCall, str, Transition, GateState], None]


@dataclass(frozen=True, slots=True)
class SkillNet:
    """A net that gates tools (G-1). Make one with `define_skill_net`, which checks it.

    `call_names` gives every name a call goes by, the most specific first (G-50); compiled rules share
    one such function per file. A hand-written `tool_mapper` gives exactly one name and then only that
    one counts. With neither, a call has its tool's own name. The net judges calls by the names in
    `governs` only where `condition` holds or cannot be evaluated. `by_rule` says of a net
    without `rule`, such as one from a record, that a rule was what it was made from; `wish` of one that
    a tool asks for itself, which names no call for the rules (G-66). `leads` are names that count before
    the others of one call, unless they are the tool's own. With `per_value` it is one net for each value
    of that field, all of this structure. With `shared` uses in other sessions count as well. Derived are
    `structural`, the transitions that fire by themselves at once, `wakes`, the first need of each (while
    none is met, all are at rest), `timed`, those that fire by themselves after a time, `voiding`, whether
    any calls void others, and `measured`, whether any take amounts.
    """

    name: str
    places: tuple[str, ...]
    transitions: tuple[Transition, ...]
    initial_marking: Mapping[str, int]
    terminal_places: tuple[str, ...] = ()
    free_tools: tuple[str, ...] = ()
    tool_mapper: ToolMapper | None = None
    call_names: CallNames | None = None
    validate_tool_call: Validator | None = None
    on_deferred_result: DeferredHook | None = None
    rule: Rule | None = None
    condition: Condition | None = None
    governs: tuple[str, ...] = ()
    by_rule: bool = False
    wish: bool = False
    leads: tuple[str, ...] = ()
    per_value: ValueKey | None = None
    shared: SharedLimit | None = None
    structural: tuple[Transition, ...] = field(init=False, repr=False, compare=False)
    timed: tuple[Transition, ...] = field(init=False, repr=False, compare=False)
    wakes: tuple[tuple[str, int], ...] = field(init=False, repr=False, compare=False)
    voiding: bool = field(init=False, repr=False, compare=False)
    measured: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        structural = tuple([t for t in self.transitions if t.structural])
        object.__setattr__(self, "structural", structural)
        object.__setattr__(self, "timed", tuple([t for t in self.transitions if t.after is not None]))
        object.__setattr__(self, "voiding", any(t.voids for t in self.transitions))
        object.__setattr__(self, "measured", any(t.amount for t in self.transitions))
        # One that needs nothing has a place that no marking has, which sends `fire_and_advance` round.
        first = tuple([t.needs[0] if t.needs else ("", 0) for t in structural])
        object.__setattr__(self, "wakes", first)


def renamed_by(call_names: CallNames | None) -> frozenset[str] | None:
    """The tools whose calls may have other names than their tool's own; `None` for any."""
    if call_names is None:
        return frozenset()
    renames = cast("object", getattr(call_names, "renames", None))
    return cast("frozenset[str]", renames) if isinstance(renames, frozenset) else None


def define_skill_net(
    name: str,
    *,
    places: Iterable[str],
    transitions: Iterable[Transition],
    initial_marking: Mapping[str, int],
    terminal_places: Iterable[str] = (),
    free_tools: Iterable[str] = (),
    tool_mapper: ToolMapper | None = None,
    call_names: CallNames | None = None,
    validate_tool_call: Validator | None = None,
    on_deferred_result: DeferredHook | None = None,
    rule: Rule | None = None,
    condition: Condition | None = None,
    governs: Iterable[str] = (),
    leads: Iterable[str] = (),
    per_value: ValueKey | None = None,
    shared: SharedLimit | None = None,
) -> SkillNet:
    """Make a net and check it (G-3).

    Lists do as well as tuples. Places that `initial_marking` leaves out hold no tokens. Raises `NetError`
    naming the net and the culprit: an unknown place in an arc or marking, a duplicate place or
    transition, tokens that are negative or no whole number, a manual or deferred transition without
    tools, a timed one that has tools or more than one input place, a condition on no name.
    """
    here = f"net '{name}':"
    made = _listed(here, "transitions", transitions)
    for each in cast("tuple[object, ...]", made):
        if not isinstance(each, Transition):
            raise NetError(f"{here} {_no_transition(each)}")
    places = _listed(here, "places", places)
    net = SkillNet(
        name=name,
        places=places,
        transitions=made,
        initial_marking={**dict.fromkeys(places, 0), **initial_marking},
        terminal_places=_listed(here, "terminal places", terminal_places),
        free_tools=_listed(here, "free tools", free_tools),
        tool_mapper=tool_mapper,
        call_names=call_names,
        validate_tool_call=validate_tool_call,
        on_deferred_result=on_deferred_result,
        rule=rule,
        condition=condition,
        governs=_listed(here, "governed names", governs),
        leads=_listed(here, "leading names", leads),
        per_value=per_value,
        shared=shared,
    )
    _check(net)
    return net


def _no_transition(value: object) -> str:
    """The problem of a value in place of a transition, and for a dict the remedy."""
    expected = "Transition(name, inputs, outputs, tools)"
    if isinstance(value, Mapping):
        name = cast("Mapping[object, object]", value).get("name")
        which = f"transition {name!r}" if isinstance(name, str) else "a transition"
        return f"{which} is a dict, expected {expected}: write Transition(**that)"
    return f"a transition is {expected}, got {value!r}"


def _check(net: SkillNet) -> None:
    def fail(problem: str) -> None:
        raise NetError(f"net '{net.name}': {problem}")

    named = [t.name for t in net.transitions]
    for kind, listed, names in (("place", "listed", net.places), ("transition", "defined", named)):
        if len(set(names)) < len(names):
            name, count = next(pair for pair in Counter(names).items() if pair[1] > 1)
            fail(f"{kind} '{name}' is {listed} {count} times")
    known = set(net.places)
    for place, tokens in net.initial_marking.items():
        if place not in known:
            fail(f"initial marking names unknown place '{place}'")
        if type(tokens) is not int or tokens < 0:
            fail(f"place '{place}' starts with {tokens!r}; tokens are whole numbers from 0")
    for place in net.terminal_places:
        if place not in known:
            fail(f"terminal places name unknown place '{place}'")
    for transition in net.transitions:
        if transition.type not in ("auto", "manual"):
            fail(
                f"transition '{transition.name}' is of type {transition.type!r}; it is 'auto' or 'manual'"
            )
        arcs = (*transition.inputs, *transition.outputs)
        if transition.transfers:
            arcs += tuple(place for pair in transition.transfers for place in pair)
        if not known.issuperset(arcs):
            unknown = next(place for place in arcs if place not in known)
            fail(f"transition '{transition.name}' names unknown place '{unknown}'")
        if transition.after is not None:
            _check_timed(net, transition, fail)
        if not transition.tools and transition.type == "manual":
            fail(f"manual transition '{transition.name}' names no tools")
        if not transition.tools and transition.deferred:
            fail(f"deferred transition '{transition.name}' names no tools")
        if transition.partial and (transition.deferred or not transition.tools):
            fail(f"partial transition '{transition.name}' must name tools and not be deferred")
        if transition.voids:
            _check_voids(net, transition, fail)
        if transition.amount is not None:
            _check_amount(transition, transition.amount, known, fail)
    if net.per_value is not None:
        _check_per_value(net, fail)
    if net.shared is not None:
        _check_shared(net, net.shared, fail)
    if net.condition is not None and not net.governs:
        fail("has a condition that is asked of no name; name those it governs")


def _check_amount(
    transition: Transition, amount: Amount, places: Container[str], fail: Callable[[str], None]
) -> None:
    """The places of an amount hold nothing else, and a call takes it when it is allowed."""
    named, own = f"transition '{transition.name}'", (amount.source, amount.target)
    for place in own:
        if place is not None and place not in places:
            fail(f"{named} names unknown place '{place}'")
        if place in (*transition.inputs, *transition.outputs):
            fail(f"{named} takes an amount of '{place}', so it has no other arc to it")
    if transition.deferred or transition.partial or transition.type == "manual" or not transition.tools:
        fail(f"{named} takes an amount, so it fires at a call, without a person")


def _check_per_value(net: SkillNet, fail: Callable[[str], None]) -> None:
    """Nets that come about with the calls themselves keep no notes."""
    if net.validate_tool_call is not None or net.on_deferred_result is not None:
        fail("has callbacks of its own, so it cannot be one for each value of a field")


def _check_shared(net: SkillNet, shared: SharedLimit, fail: Callable[[str], None]) -> None:
    """Each use is a token that a call takes when it is allowed, and that time brings back."""
    if shared.place not in net.places:
        fail(f"counts uses of unknown place '{shared.place}' over sessions")
    back = [t for t in net.timed if shared.place in t.outputs]
    if not back or any(t.after != shared.window for t in back):
        fail(f"counts uses over sessions: tokens must come back to '{shared.place}' in {shared.window} s")


def _check_voids(net: SkillNet, voiding: Transition, fail: Callable[[str], None]) -> None:
    """Only what waits for a result runs beside others."""
    named = f"transition '{voiding.name}'"
    if not voiding.deferred:
        fail(f"{named} voids others while its calls run, so it must be deferred")
    deferred = {t.name for t in net.transitions if t.deferred}
    for name in voiding.voids:
        if name not in deferred or name == voiding.name:
            fail(f"{named} voids '{name}', which is no other deferred transition")


def _check_timed(net: SkillNet, timed: Transition, fail: Callable[[str], None]) -> None:
    """The age of a token counts only where tokens cannot be taken by something else in between."""
    named = f"transition '{timed.name}'"
    assert timed.after is not None
    if not timed.after > 0 or timed.after == inf:
        fail(f"{named} fires after {timed.after!r} seconds; a time is a number above 0")
    if timed.tools or timed.type == "manual" or timed.deferred or timed.transfers:
        fail(f"{named} fires after a time, so it takes neither tools nor people nor transfers")
    if len(timed.inputs) != 1 or timed.inputs[0] in timed.outputs:
        fail(f"{named} fires after a time, so it has one input place, which it does not fill")


def is_enabled(marking: Mapping[str, int], transition: Transition) -> bool:
    """Tell whether every input place holds the tokens its arcs need."""
    for place, need in transition.needs:  # noqa: SIM110 - a generator here costs more than the check
        if marking.get(place, 0) < need:
            return False
    return True


def fire(marking: Mapping[str, int], transition: Transition) -> Marking:
    """The marking after `transition` fired. Raises `NetError` when it is not enabled."""
    if not is_enabled(marking, transition):
        raise NetError(f"transition '{transition.name}' is not enabled at {dict(marking)}")
    after = dict(marking)
    for place, need in transition.needs:
        after[place] -= need
    for source, target in transition.transfers:
        moved = after.get(source, 0)
        after[source] = 0
        after[target] = after.get(target, 0) + moved
    for place in transition.outputs:
        after[place] = after.get(place, 0) + 1
    amount = transition.amount
    if amount is not None and amount.target is not None:
        after[amount.target] = after.get(amount.target, 0) + amount.units
    return after


def fire_and_advance(net: SkillNet, marking: Mapping[str, int], transition: Transition) -> Marking | None:
    """`auto_advance` of `fire`, or `None` when `transition` is not enabled.

    Written out in one piece because every gated call and result comes through here: a third of what the
    two take one after the other. Raises `NetError` when the net does not come to rest.
    """
    after = {**marking}
    try:
        for place, need in transition.needs:
            tokens = after[place] - need
            if tokens < 0:
                return None
            after[place] = tokens
        if transition.transfers:
            for source, target in transition.transfers:
                moved = after[source]
                after[source] = 0
                after[target] += moved
        for place in transition.outputs:
            after[place] += 1
        amount = transition.amount
        if amount is not None and amount.target is not None:
            after[amount.target] += amount.units
        for place, need in net.wakes:
            if after[place] >= need:
                return auto_advance(net, after)
    except KeyError:
        # A marking may leave out empty places.
        return auto_advance(net, fire(marking, transition)) if is_enabled(marking, transition) else None
    return after


def unfired(net: SkillNet, marking: Mapping[str, int], transition: Transition) -> Marking | None:
    """The marking before `transition` fired, where nothing but tokens of its own arcs had moved.

    `None` where `marking` does not show it: tokens that it made are spent, it empties places, or
    what fires by itself at once looks at a place it changes. For times see `timed.arrivals_before`.
    """
    taken, made = Counter(transition.inputs), Counter(transition.outputs)
    if transition.amount is not None:
        taken[transition.amount.source] += transition.amount.units
        if transition.amount.target is not None:
            made[transition.amount.target] += transition.amount.units
    changed = {place for place in taken | made if taken[place] != made[place]}
    looks = any(not changed.isdisjoint(t.inputs) for t in net.structural)
    before = {**dict.fromkeys(net.places, 0), **marking}
    if transition.transfers or looks or any(before[place] < made[place] for place in made):
        return None
    return {place: tokens - made[place] + taken[place] for place, tokens in before.items()}


def auto_advance(net: SkillNet, marking: Mapping[str, int]) -> Marking:
    """Fire enabled structural transitions, round by round, until none is left (G-4, G-61).

    Transitions that compete for more tokens than a place holds are all held back for that round. Stops
    when a marking comes back. Raises `NetError` naming the net when it does not come to rest within
    10,000 rounds.
    """
    now = dict(marking)
    for transition in net.structural:
        if is_enabled(now, transition):
            break
    else:
        return now
    seen = {tuple(sorted(now.items()))}
    for _ in range(MAX_STRUCTURAL_ROUNDS):
        ready = _without_conflicts(now, [t for t in net.structural if is_enabled(now, t)])
        if not ready:
            return now
        for transition in ready:
            if is_enabled(now, transition):
                now = fire(now, transition)
        key = tuple(sorted(now.items()))
        if key in seen:
            return now
        seen.add(key)
    raise NetError(
        f"net '{net.name}': structural transitions do not come to rest within "
        f"{MAX_STRUCTURAL_ROUNDS} rounds; is there a loop that makes tokens?"
    )


def _without_conflicts(marking: Mapping[str, int], enabled: Sequence[Transition]) -> list[Transition]:
    """Those of `enabled` that no place's other consumers can starve."""
    if len(enabled) == 1:
        return list(enabled)
    demand: Counter[str] = Counter()
    consumers: Counter[str] = Counter()
    for transition in enabled:
        demand.update(transition.inputs)
        consumers.update(set(transition.inputs))
    contested = {p for p, n in demand.items() if consumers[p] > 1 and n > marking.get(p, 0)}
    return [t for t in enabled if contested.isdisjoint(t.inputs)]


def format_marking(marking: Mapping[str, int]) -> str:
    """Places that hold tokens, in their order: `ready:1, budget:2`; empty when none do (G-5)."""
    return ", ".join(f"{place}:{tokens}" for place, tokens in marking.items() if tokens > 0)


def enabled_tool_transitions(net: SkillNet, marking: Mapping[str, int]) -> list[Transition]:
    """The transitions a call could fire now, in definition order."""
    return [t for t in net.transitions if t.tools and is_enabled(marking, t)]


def create_gate_state(marking: Mapping[str, int]) -> GateState:
    """A fresh state at `marking`, with nothing pending."""
    return GateState(marking=dict(marking))


def initial_state(net: SkillNet) -> GateState:
    """The state a session starts with: the initial marking after structural transitions ran."""
    return create_gate_state(auto_advance(net, net.initial_marking))
