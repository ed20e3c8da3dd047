"""Petri nets: places, transitions, markings, enabling, firing, auto-advance.

Pure functions over plain data: no clock, no I/O, and only imports of modules that are as plain. A marking
maps every place of a net to its tokens. Functions that move tokens return a new marking and never change
the one they are given. The behaviour follows G-1 … G-5 and G-61.
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
    """An invalid net, or an invalid use of one; the message names the net and the faulty part."""


@frozen
class ToolCall:
    """A call that an agent wants to make; `input` is the tool's arguments as a JSON object.

    `shell` is the shell that will run the commands in it, `None` if unknown; a gate fills it in.
    `subagent` is the agent's own id of the subagent that made the call, if known.
    """

    tool_call_id: str
    tool_name: str
    input: Input = field(default_factory=dict[str, object])
    shell: Shell | None = None
    subagent: str = ""

    def run_by(self, shell: Shell | None) -> ToolCall:
        """This call with the shell that will run its commands, unless it already names one."""
        if shell is None or self.shell is not None:
            return self
        return ToolCall(self.tool_call_id, self.tool_name, self.input, shell, self.subagent)


@dataclass(frozen=True, slots=True)
class Transition:
    """One transition of a net.

    A place listed twice in `inputs` needs two tokens; likewise `outputs`. `tools` are the names whose
    calls fire it; a transition without tools is structural and fires by itself. A `manual` one needs
    approval; a `deferred` one fires when the call has succeeded. Each pair in `transfers` moves all
    tokens of its first place to its second when the transition fires (G-2). Lists are converted to
    tuples; a bare string raises `NetError`.

    With `after`, in seconds, it fires by itself as soon as the oldest token of its one input place has
    that age. A `partial` one does not let a call pass alone: the call then also fires the next transition
    that is enabled for it. `voids`, on a deferred transition, names deferred transitions of the net that
    do not fire for calls running at the same time as a call of this one. With an `amount` it also takes
    as many tokens as the call's number has units, and none before it is made for a call: see `of_units`.
    `approvers` are the conditions on who may approve a manual one. `needs` is derived: each input place
    once, with the tokens it must hold.
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
        """This transition for a call of so many units. Raises `NetError` if it has no amount."""
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
        """True if it fires by itself at once, without a call."""
        return self.type == "auto" and not self.tools and self.after is None


@lru_cache(1_024)
def _needs(inputs: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    return tuple((place, inputs.count(place)) for place in dict.fromkeys(inputs))


def _listed(owner: str, part: str, value: Iterable[T]) -> tuple[T, ...]:
    """`value` as a tuple; a string, which would silently become its characters, raises `NetError`."""
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
    """Deferred transition that waits for the result of `call`; `tool` is the name that matched it."""

    call: ToolCall
    transition: Transition
    tool: str


@dataclass(slots=True)
class GateState:
    """State of one net in one session.

    `pending` has, by call id, the deferred transitions that wait for that call's result, oldest first.
    `meta` belongs to the net's own callbacks. `since` has the arrival times of tokens in the places that
    timed transitions empty, oldest first, in seconds since 1970. `values` has the states of a net per
    value of a field, by the value's digest; each starts from this state's own marking.
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
"""Returns all names of a call.

If the function has a frozen set `renames`, it is only called for calls of those tools.
"""


@runtime_checkable
class ReadsCalls(Protocol):
    """A `call_names` function that also reports why a call may do more than its names say."""

    def named(self, call: ToolCall, /) -> tuple[Sequence[str], str | None]:
        """All names of a call, and the reason why it is `unclear`; `None` if it is not (G-64)."""
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
    """Maps that give calls a name: in each field, all maps up to the last that matters for the name.

    `renamed` are the tools whose calls may have other names than their own. For the name `unclear` there
    are also `risky`, the names that maps give and rules restrict, and `unclear`, the tools whose calls
    can be unclear; `None` means all tools.
    """

    fields: tuple[FieldMaps, ...] = ()
    renamed: tuple[str, ...] = ()
    risky: tuple[str, ...] = ()
    unclear: tuple[str, ...] | None = None


@runtime_checkable
class KnowsMaps(Protocol):
    """A `call_names` function that can report which maps give calls a name."""

    def name_maps(self, name: str, /) -> NameMaps:
        """Maps that give `name`."""
        ...

    def gives_less(self, name: str, was: NameMaps, /) -> bool:
        """Return whether these maps give `name` to fewer calls than those described by `was` (G-67)."""
        ...


Validator: TypeAlias = Callable[[ToolCall, str, Transition, GateState], Rejection | None]
DeferredHook: TypeAlias = Callable[[ToolCall, str, Transition, GateState], None]


@dataclass(frozen=True, slots=True)
class SkillNet:
    """A net that gates tools (G-1). Create one with `define_skill_net`, which checks it.

    `call_names` returns all names of a call, the most specific first (G-50); compiled rules share one
    such function per file. A hand-written `tool_mapper` returns exactly one name, and then only that name
    counts. With neither, a call has its tool's own name. The net judges calls by the names in `governs`
    only if `condition` holds or cannot be evaluated. `by_rule` is true for a net without `rule`, such as
    one from a record, that was made from a rule. `wish` is true for a net that a tool requests for
    itself; it does not name calls for the rules (G-66). `leads` are names of a call that are applied
    before its others, unless they are the tool's own. With `per_value` there is one net of this structure
    for each value of that field. With `shared`, uses in other sessions count as well.

    Derived are `structural`, the transitions that fire by themselves at once; `wakes`, the first need of
    each of these (while none is met, none is enabled); `timed`, those that fire by themselves after a
    time; `voiding`, whether any calls void others; and `measured`, whether any take amounts.
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
        # A transition without needs gets a place that no marking has, so that `fire_and_advance` always
        # loops.
        first = tuple([t.needs[0] if t.needs else ("", 0) for t in structural])
        object.__setattr__(self, "wakes", first)


def renamed_by(call_names: CallNames | None) -> frozenset[str] | None:
    """Tools whose calls may have other names than their tool's own; `None` for any tool."""
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
    """Create a net and check it (G-3).

    Lists are accepted in place of tuples. Places missing in `initial_marking` hold no tokens. Raises
    `NetError`, naming the net and the faulty part, for an unknown place in an arc or marking, a duplicate
    place or transition, token counts that are negative or not whole numbers, a manual or deferred
    transition without tools, a timed one with tools or more than one input place, and a condition on no
    name.
    """
    subject = f"net '{name}':"
    definitions = _listed(subject, "transitions", transitions)
    for each in cast("tuple[object, ...]", definitions):
        if not isinstance(each, Transition):
            raise NetError(f"{subject} {_no_transition(each)}")
    places = _listed(subject, "places", places)
    net = SkillNet(
        name=name,
        places=places,
        transitions=definitions,
        initial_marking={**dict.fromkeys(places, 0), **initial_marking},
        terminal_places=_listed(subject, "terminal places", terminal_places),
        free_tools=_listed(subject, "free tools", free_tools),
        tool_mapper=tool_mapper,
        call_names=call_names,
        validate_tool_call=validate_tool_call,
        on_deferred_result=on_deferred_result,
        rule=rule,
        condition=condition,
        governs=_listed(subject, "governed names", governs),
        leads=_listed(subject, "leading names", leads),
        per_value=per_value,
        shared=shared,
    )
    _check(net)
    return net


def _no_transition(value: object) -> str:
    """Description of a value given in place of a transition, with the remedy if it is a dict."""
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
        fail("has a condition that applies to no name; list the names in governs")


def _check_amount(
    transition: Transition, amount: Amount, places: Container[str], fail: Callable[[str], None]
) -> None:
    """Check an amount: its places have no other arcs, and a call takes it when it is allowed."""
    named, own = f"transition '{transition.name}'", (amount.source, amount.target)
    for place in own:
        if place is not None and place not in places:
            fail(f"{named} names unknown place '{place}'")
        if place in (*transition.inputs, *transition.outputs):
            fail(f"{named} takes an amount of '{place}', so it must have no other arc to it")
    if transition.deferred or transition.partial or transition.type == "manual" or not transition.tools:
        fail(f"{named} takes an amount, so it must fire at a call, without approval")


def _check_per_value(net: SkillNet, fail: Callable[[str], None]) -> None:
    """Check that a net per value has no callbacks: such nets are created with the calls themselves."""
    if net.validate_tool_call is not None or net.on_deferred_result is not None:
        fail("has callbacks of its own, so it cannot be one for each value of a field")


def _check_shared(net: SkillNet, shared: SharedLimit, fail: Callable[[str], None]) -> None:
    """Check that a use is a token that an allowed call takes and that time returns."""
    if shared.place not in net.places:
        fail(f"counts uses of unknown place '{shared.place}' over sessions")
    back = [t for t in net.timed if shared.place in t.outputs]
    if not back or any(t.after != shared.window for t in back):
        fail(f"counts uses over sessions: tokens must come back to '{shared.place}' in {shared.window} s")


def _check_voids(net: SkillNet, voiding: Transition, fail: Callable[[str], None]) -> None:
    """Check that voided transitions are deferred: only pending calls run at the same time as others."""
    named = f"transition '{voiding.name}'"
    if not voiding.deferred:
        fail(f"{named} voids others while its calls run, so it must be deferred")
    deferred = {t.name for t in net.transitions if t.deferred}
    for name in voiding.voids:
        if name not in deferred or name == voiding.name:
            fail(f"{named} voids '{name}', which is not another deferred transition")


def _check_timed(net: SkillNet, timed: Transition, fail: Callable[[str], None]) -> None:
    """Check that no other transition can take tokens whose age counts."""
    name = f"transition '{timed.name}'"
    assert timed.after is not None
    if not timed.after > 0 or timed.after == inf:
        fail(f"{name} fires after {timed.after!r} seconds; a time is a number above 0")
    if timed.tools or timed.type == "manual" or timed.deferred or timed.transfers:
        fail(f"{name} fires after a time, so it must have no tools, approval, deferral or transfers")
    if len(timed.inputs) != 1 or timed.inputs[0] in timed.outputs:
        fail(f"{name} fires after a time, so it must have one input place, and no arc back to it")


def is_enabled(marking: Mapping[str, int], transition: Transition) -> bool:
    """Return whether every input place holds the tokens that its arcs need."""
    for place, need in transition.needs:  # noqa: SIM110 - a generator here costs more than the check
        if marking.get(place, 0) < need:
            return False
    return True


def fire(marking: Mapping[str, int], transition: Transition) -> Marking:
    """The marking after `transition` fired. Raises `NetError` if it is not enabled."""
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
    """`auto_advance` of `fire`, or `None` if `transition` is not enabled.

    Written as one function because every gated call and result uses it: it takes a third of the time of
    the two. Raises `NetError` if the net does not come to rest.
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
    """The marking before `transition` fired, if only tokens of its own arcs had moved.

    `None` if `marking` does not show it: tokens that it produced are spent, it empties places, or a
    structural transition depends on a place that it changes. For arrival times see
    `timed.arrivals_before`.
    """
    inputs, outputs = Counter(transition.inputs), Counter(transition.outputs)
    if transition.amount is not None:
        inputs[transition.amount.source] += transition.amount.units
        if transition.amount.target is not None:
            outputs[transition.amount.target] += transition.amount.units
    changed = {place for place in inputs | outputs if inputs[place] != outputs[place]}
    looks = any(not changed.isdisjoint(t.inputs) for t in net.structural)
    before = {**dict.fromkeys(net.places, 0), **marking}
    if transition.transfers or looks or any(before[place] < outputs[place] for place in outputs):
        return None
    return {place: tokens - outputs[place] + inputs[place] for place, tokens in before.items()}


def auto_advance(net: SkillNet, marking: Mapping[str, int]) -> Marking:
    """Fire enabled structural transitions, round by round, until none is left (G-4, G-61).

    Transitions that compete for more tokens than a place holds do not fire in that round. Stops when a
    marking repeats. Raises `NetError` naming the net if it does not come to rest within 10,000 rounds.
    """
    now = dict(marking)
    for transition in net.structural:
        if is_enabled(now, transition):
            break
    else:
        return now
    markings = {tuple(sorted(now.items()))}
    for _ in range(MAX_STRUCTURAL_ROUNDS):
        ready = _without_conflicts(now, [t for t in net.structural if is_enabled(now, t)])
        if not ready:
            return now
        for transition in ready:
            if is_enabled(now, transition):
                now = fire(now, transition)
        key = tuple(sorted(now.items()))
        if key in markings:
            return now
        markings.add(key)
    raise NetError(
        f"net '{net.name}': structural transitions do not come to rest within "
        f"{MAX_STRUCTURAL_ROUNDS} rounds; is there a loop that makes tokens?"
    )


def _without_conflicts(marking: Mapping[str, int], enabled: Sequence[Transition]) -> list[Transition]:
    """Those of `enabled` that do not compete for more tokens than their places hold."""
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
    """Places that hold tokens, in their order: `ready:1, budget:2`; empty if none do (G-5)."""
    return ", ".join(f"{place}:{tokens}" for place, tokens in marking.items() if tokens > 0)


def enabled_tool_transitions(net: SkillNet, marking: Mapping[str, int]) -> list[Transition]:
    """Transitions that a call could fire now, in definition order."""
    return [t for t in net.transitions if t.tools and is_enabled(marking, t)]


def create_gate_state(marking: Mapping[str, int]) -> GateState:
    """Fresh state at `marking`, with nothing pending."""
    return GateState(marking=dict(marking))


def initial_state(net: SkillNet) -> GateState:
    """State in which a session starts: the initial marking after structural transitions have fired."""
    return create_gate_state(auto_advance(net, net.initial_marking))
