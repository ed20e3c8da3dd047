"""A reference gate that is obviously correct, for comparison with the real one.

It is written from the specification with dicts and lists, without `engine.gate`. It has no indexes,
shortcuts or prepared verdicts: every net judges every call from the start. Its nets always come to rest,
so none of this can fail.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from json import dumps
from typing import Any

Marking = dict[str, int]


@dataclass(frozen=True)
class Arc:
    """A transition: inputs, outputs, tools, and transfers of all tokens of a place."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tools: tuple[str, ...] = ()
    manual: bool = False
    deferred: bool = False
    transfers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Plain:
    """A net. `says` is its reason to block; equal `asks` make two requests identical.

    `names` gives the names of a call. `names`, `validator` and `hook` may raise, and a validator may
    remove tokens.
    """

    name: str
    start: Marking
    arcs: tuple[Arc, ...]
    free: tuple[str, ...] = ()
    names: Callable[[Called], Sequence[str]] = lambda called: [called.tool]
    mapped: bool = False
    validator: Callable[[Called, Held], str | None] | None = None
    hook: Callable[[Called, Held], None] | None = None
    says: str | None = None
    asks: object = None


@dataclass(frozen=True)
class Called:
    """A call."""

    id: str
    tool: str
    input: dict[str, Any] = field(default_factory=dict)


@dataclass
class Held:
    """The state that a gate holds of one net."""

    net: Plain
    marking: Marking
    meta: dict[str, int] = field(default_factory=dict)
    pending: list[tuple[Called, Arc, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Decided:
    """A decision; each step has the net, transition and name of what fired or waits."""

    outcome: str
    mode: str
    reason: str | None = None
    net: str | None = None
    steps: tuple[tuple[str, str, str], ...] = ()

    @property
    def runs(self) -> bool:
        return self.mode == "shadow" or self.outcome == "allow"


Answer = Callable[[str, Arc, str], Awaitable[Any]]
"""Answers for net, transition and name: `True`, `False`, a dict as the edited input, or an error text."""

Steps = list[tuple[Arc, str]]


def enabled(marking: Marking, arc: Arc) -> bool:
    """G-2: a place named twice needs two tokens."""
    return all(marking[place] >= arc.inputs.count(place) for place in arc.inputs)


def fire(marking: Marking, arc: Arc) -> Marking:
    """G-2: remove input tokens, move all tokens of transferred places, add output tokens."""
    after = dict(marking)
    for place in arc.inputs:
        after[place] -= 1
    for source, target in arc.transfers:
        moved, after[source] = after[source], 0
        after[target] += moved
    for place in arc.outputs:
        after[place] += 1
    return after


def advance(net: Plain, marking: Marking) -> Marking:
    """G-4, G-61: fire structural transitions in rounds, holding back those that compete."""
    seen = [marking]
    while True:
        ready = [a for a in net.arcs if not a.tools and enabled(marking, a)]
        wanted = {p: sum(a.inputs.count(p) for a in ready) for p in marking}
        rivals = {p: sum(p in a.inputs for a in ready) for p in marking}
        short = [p for p in marking if rivals[p] > 1 and wanted[p] > marking[p]]
        calm = [a for a in ready if not any(p in a.inputs for p in short)]
        for arc in calm:
            if enabled(marking, arc):
                marking = fire(marking, arc)
        if not calm or marking in seen:
            return marking
        seen.append(marking)


def verdict(net: Plain, marking: Marking, names: Sequence[str]) -> tuple[str, str, Steps]:
    """G-10, G-50: return `abstain`, `free`, `gated` or `blocked`, the deciding name and the steps."""
    steps: Steps = []
    free = False
    for name in names:
        covering = [arc for arc in net.arcs if name in arc.tools]
        if name in net.free:
            free = True
        elif covering:
            arc = next((a for a in covering if enabled(marking, a)), None)
            if arc is None:
                return "blocked", name, []
            steps.append((arc, name))
            if not arc.deferred:
                marking = advance(net, fire(marking, arc))
    return ("gated" if steps else "free" if free else "abstain"), names[0], steps


class Oracle:
    """The gate of a session."""

    def __init__(self, nets: dict[str, Plain], *, dynamic: bool, mode: str) -> None:
        self.held = {key: Held(net, advance(net, net.start)) for key, net in nets.items()}
        self.active = list(nets)
        self.dynamic = dynamic
        self.mode = mode
        self.waiting: list[str] = []

    # Verdicts

    def look(
        self, called: Called, keys: Sequence[str] | None = None
    ) -> list[tuple[str, str, str, Steps, str | None]]:
        """Return key, verdict, deciding name, steps and reason to block of `keys`, or of every active net
        (G-11, G-22)."""
        found: list[tuple[str, str, str, Steps, str | None]] = []
        for key in self.active if keys is None else keys:
            held = self.held[key]
            try:
                names = held.net.names(called)
            except OSError as problem:
                callback = "tool_mapper" if held.net.mapped else "call_names"
                found.append((key, "blocked", called.tool, [], f"{key}: {callback} failed: {problem}"))
                continue
            kind, name, steps = verdict(held.net, held.marking, names)
            unavailable = held.net.says or f"Tool '{name}' is not available in the current state."
            found.append((key, kind, name, steps, unavailable if kind == "blocked" else None))
        return found

    def question(self, key: str, name: str) -> object:
        """G-43: identical rules ask one question."""
        return (self.held[key].net.asks or key, name)

    # Calls

    async def call(self, called: Called, answer: Answer | None) -> Decided:
        """G-11 … G-15, G-53, G-57 … G-59; G-67: an open request stays required, its net on or off."""
        waits = any(c.id == called.id for held in self.held.values() for c, _, _ in held.pending)
        if waits or called.id in self.waiting:
            reason = f"Tool call id '{called.id}' is already in use."
            return Decided("block", self.mode, reason)
        if self.mode == "shadow":
            return await self.shadow(called, asks=answer is not None)
        return await self.enforce(called, answer)

    async def enforce(self, called: Called, answer: Answer | None) -> Decided:
        answered: list[object] = []
        before: list[str] = []
        holders: list[str] = []
        open_still: dict[object, tuple[str, Arc, str]] = {}
        edited = False
        while True:
            found = self.look(called)
            off: list[tuple[str, str, str, Steps, str | None]] = []
            if edited:
                off = [o for key in holders if key not in self.active for o in self.look(called, [key])]
                edited = False
            for key, kind, name, _, reason in [*found, *off]:
                if kind == "blocked":
                    changed = f"Tool '{name}' is no longer available (state changed)."
                    return Decided("block", "enforce", changed if key in before else reason, key)
            for key, _, _, steps, _ in off:
                for arc, name in steps:
                    if arc.manual:
                        open_still[self.question(key, name)] = (key, arc, name)
            asks = [
                (key, arc, name) for key, _, _, steps, _ in found for arc, name in steps if arc.manual
            ]
            now = [self.question(key, name) for key, _, name in asks]
            left = [step for question, step in open_still.items() if question not in now]
            manual = [
                (key, arc, name)
                for key, arc, name in [*asks, *left]
                if self.question(key, name) not in answered
            ]
            if not manual:
                return self.finish(called, found)
            key, arc, name = manual[0]
            if answer is None:
                return Decided("block", "enforce", f"{name} requires human approval.", key)
            before = before or [key for key, kind, _, _, _ in found if kind != "abstain"]
            for step in asks:
                open_still[self.question(step[0], step[2])] = step
                holders = list(dict.fromkeys([*holders, step[0]]))
            self.waiting.append(called.id)
            said = await answer(key, arc, name)
            self.waiting.remove(called.id)
            if isinstance(said, str):
                return Decided("block", "enforce", f"{key}: confirm failed: {said}", key)
            if said is False:
                return Decided("block", "enforce", f"{name} was rejected by human review.", key)
            if isinstance(said, dict) and dumps(said, sort_keys=True) != dumps(
                called.input, sort_keys=True
            ):
                called, before, answered = replace(called, input=said), [], []
                open_still, edited = {}, True
            answered.append(self.question(key, name))

    def finish(self, called: Called, found: list[Any]) -> Decided:
        """Run validators, then commit all gated nets or none (G-14, G-15)."""
        metas = {key: deepcopy(held.meta) for key, held in self.held.items()}
        gated = [(key, steps) for key, _, _, steps, _ in found]
        for refuses in (self.objection, self.gone):
            for key, steps in gated:
                reason = refuses(key, called, steps)
                if reason is not None:
                    for other, meta in metas.items():
                        self.held[other].meta = meta
                    return Decided("block", "enforce", reason, key)
        done = [step for key, steps in gated for step in self.commit(key, called, steps)]
        return Decided("allow", "enforce", steps=tuple(done))

    def objection(self, key: str, called: Called, steps: Steps) -> str | None:
        held = self.held[key]
        if held.net.validator is None:
            return None
        for _ in steps:
            try:
                reason = held.net.validator(called, held)
            except OSError as problem:
                return f"{key}: validate_tool_call failed: {problem}"
            if reason is not None:
                return reason
        return None

    def gone(self, key: str, _called: Called, steps: Steps) -> str | None:
        """Return the reason if a step is not enabled any more; deferred ones are not checked."""
        held = self.held[key]
        marking = held.marking
        for arc, name in steps:
            if not arc.deferred:
                if not enabled(marking, arc):
                    return f"Tool '{name}' is no longer available (state changed)."
                marking = advance(held.net, fire(marking, arc))
        return None

    def commit(self, key: str, called: Called, steps: Steps) -> list[tuple[str, str, str]]:
        held = self.held[key]
        for arc, name in steps:
            if arc.deferred:
                held.pending.append((called, arc, name))
            else:
                held.marking = advance(held.net, fire(held.marking, arc))
        return [(key, arc.name, name) for arc, name in steps]

    async def shadow(self, called: Called, *, asks: bool) -> Decided:
        """G-57: enforce mode with an operator who approves everything; `ask` if one had to."""
        asked: list[str] = []

        async def approve(key: str, _arc: Arc, _name: str) -> bool:
            asked.append(key)
            return True

        decided = await self.enforce(called, approve if asks else None)
        if asked and decided.outcome == "allow":
            return replace(decided, outcome="ask", mode="shadow", net=asked[0])
        return replace(decided, mode="shadow")

    # Results, history, switches

    def result(self, call_id: str, tool: str, *, is_error: bool) -> None:
        """G-16, G-17, G-53: apply a result in every net, active or not, with the call's own input."""
        for held in self.held.values():
            mine = [entry for entry in held.pending if entry[0].id == call_id]
            if any(called.tool != tool for called, _, _ in mine):
                return
            held.pending = [entry for entry in held.pending if entry[0].id != call_id]
            for called, arc, _ in mine:
                if not is_error:
                    self.fire_deferred(held, called, arc)

    def fire_deferred(self, held: Held, called: Called, arc: Arc) -> None:
        """G-16, G-59: fire if still enabled, call the hook, advance; a raising hook leaves no meta."""
        if not enabled(held.marking, arc):
            return
        held.marking = fire(held.marking, arc)
        meta = deepcopy(held.meta)
        try:
            if held.net.hook is not None:
                held.net.hook(called, held)
        except OSError:
            held.meta = meta
        held.marking = advance(held.net, held.marking)

    def replay(self, entries: Sequence[tuple[Called, bool]]) -> None:
        """G-25: each success moves every active net that it can."""
        for called, is_error in entries:
            for held in [self.held[key] for key in self.active if not is_error]:
                for name in held.net.names(called):
                    if name in held.net.free:
                        continue
                    ready = (a for a in held.net.arcs if name in a.tools and enabled(held.marking, a))
                    arc = next(ready, None)
                    if arc is not None and arc.deferred:
                        self.fire_deferred(held, called, arc)
                    elif arc is not None:
                        held.marking = advance(held.net, fire(held.marking, arc))

    def switch(self, key: str, *, on: bool) -> None:
        """G-20 … G-22: a static gate cannot switch; a net that is switched on again goes last."""
        if self.dynamic and on != (key in self.active):
            self.active = [other for other in self.active if other != key] + [key] * on
