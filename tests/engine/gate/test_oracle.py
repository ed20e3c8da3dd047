"""The gate compared with an oracle that evaluates every net step by step."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine import (
    ApprovalAnswer,
    ApprovalRequest,
    GateContext,
    GateDecision,
    ReplayEntry,
    ToolCall,
    ToolResult,
    create_gate_manager,
)

from ...support.laws import examples
from .support.oracle import Answer, Arc, Called, Decided, Oracle
from .support.plain_nets import Twice, compiled, hand_built

NO_ANSWER = "returned 'yes', expected True, False or an ApprovalAnswer"
Event = tuple[Any, ...]
History = list[Event]


@pytest.fixture(autouse=True, scope="module")
def without_logging() -> Iterator[None]:
    """Disable logging: callbacks raise here by the thousand."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def any_history(random: Random, twice: Twice) -> History:
    """Return calls, results, switches, modes and replays, some of them during a request."""
    keys = sorted(twice.plain)

    def some_call(*, asks: bool, nested: bool, tool: str) -> Event:
        # Mostly a new id, sometimes one that another call has or had.
        number = random.choice([*[None] * 6, 0, 1])
        answers = random.choices([*[True] * 8, False, "raise", "junk", "edit"], k=3) if asks else None
        meanwhile: History = []
        if asks and not nested:
            meanwhile = [any_event(tool) for _ in range(random.randrange(4))]
        value, edited = twice.some_input(random), twice.some_input(random)
        return ("call", tool, number, value, answers, meanwhile, edited)

    def any_event(waiting: str | None = None) -> Event:
        """Return one event; `waiting` is the tool of a call that waits for an answer."""
        nested = waiting is not None
        kind = random.choices(
            ["ask", "call", "settle", "result", "switch", "mode", "replay"],
            [10, 3, 6, 1, 4 if nested else 1, 1, 0 if nested else 1],
        )[0]
        match kind:
            case "settle":
                return (kind, random.randrange(3), random.random() < 0.3)
            case "result":
                return (kind, random.choice(twice.tools), random.randrange(2), random.random() < 0.3)
            case "switch":
                return (kind, random.choice(keys), random.random() < 0.6)
            case "mode":
                return (kind, random.choice(["enforce", "enforce", "shadow"]))
            case "replay":
                value = {**twice.some_input(random), "mood": None}
                return (kind, [(random.choice(twice.tools), value, random.random() < 0.3)])
            case _:
                same = waiting is not None and random.random() < 0.6
                tool = waiting if same and waiting else random.choice(twice.tools)
                return some_call(asks=kind == "ask", nested=nested, tool=tool)

    return [any_event() for _ in range(random.randint(1, 25))]


def call_id(number: int | None, tool: str, made: list[tuple[str, str]]) -> str:
    """Return the id of the next call and add it to those made."""
    made.append((f"own-{len(made)}" if number is None else str(number), tool))
    return made[-1][0]


class Side(Protocol):
    """One of the two gates with its log."""

    log: list[Any]
    heard: Counter[str]

    async def happen(self, event: Event) -> None: ...


class Real:
    """The gate under test."""

    def __init__(self, twice: Twice, *, dynamic: bool, mode: str) -> None:
        nets = twice.real if dynamic else list(twice.real.values())
        self.log: list[Any] = []
        self.heard: Counter[str] = Counter()
        self.made: list[tuple[str, str]] = []
        self.gate = create_gate_manager(nets, mode=mode, on_decision=self.hear)

    def hear(self, call: ToolCall, decision: GateDecision) -> None:
        self.heard[f"{call.tool_call_id} {decision.outcome}"] += 1
        raise OSError("deaf")

    async def happen(self, event: Event) -> None:
        match event:
            case ("call", tool, number, value, answers, meanwhile, edited):
                asked: list[Any] = []

                async def confirm(request: ApprovalRequest) -> Any:
                    asked.append((request.net, request.transition.name, request.tool))
                    for other in meanwhile if len(asked) == 1 else ():
                        await self.happen(other)
                    await asyncio.sleep(0)
                    match answers[min(len(asked), len(answers)) - 1]:
                        case "raise":
                            raise OSError("gone")
                        case "junk":
                            return "yes"
                        case "edit":
                            return ApprovalAnswer(True, input=edited)
                        case answer:
                            return answer

                made = ToolCall(call_id(number, tool, self.made), tool, value)
                context = GateContext(None if answers is None else confirm)
                decision = await self.gate.handle_tool_call(made, context)
                steps = tuple((s.net, s.transition.name, s.tool) for s in decision.steps)
                seen = Decided(decision.outcome, decision.mode, decision.reason, decision.net, steps)
                assert seen.runs is not decision.block
                self.note(event, asked, seen)
            case ("settle", back, is_error):
                if self.made:
                    number, tool = self.made[-1 - min(back, len(self.made) - 1)]
                    await self.happen(("result", tool, number, is_error))
            case ("result", tool, number, is_error):
                self.gate.handle_tool_result(ToolResult(str(number), tool, {}, is_error))
                self.note(event)
            case ("switch", key, on):
                (self.gate.add_net if on else self.gate.remove_net)(key)
                self.note(event)
            case ("mode", mode):
                self.gate.mode = mode
                self.note(event)
            case ("replay", entries):
                self.gate.replay(ReplayEntry(tool, value, error) for tool, value, error in entries)
                self.note(event)
            case _:
                raise AssertionError(event)

    def note(self, event: Event, asked: Any = (), decided: Decided | None = None) -> None:
        held = {
            key: (
                dict(state.marking),
                dict(state.meta),
                {
                    i: [(p.transition.name, p.tool, p.call.input) for p in w]
                    for i, w in state.pending.items()
                },
            )
            for key, state in self.gate.states.items()
        }
        self.log.append((event[:3], list(asked), decided, list(self.gate.active), self.gate.mode, held))


class Expected:
    """The oracle."""

    def __init__(self, twice: Twice, *, dynamic: bool, mode: str) -> None:
        self.log: list[Any] = []
        self.heard: Counter[str] = Counter()
        self.made: list[tuple[str, str]] = []
        self.gate = Oracle(twice.plain, dynamic=dynamic, mode=mode)

    async def happen(self, event: Event) -> None:
        gate = self.gate
        match event:
            case ("call", tool, number, value, answers, meanwhile, edited):
                asked: list[Any] = []

                async def answer(key: str, arc: Arc, name: str) -> Any:
                    asked.append((key, arc.name, name))
                    for other in meanwhile if len(asked) == 1 else ():
                        await self.happen(other)
                    said = answers[min(len(asked), len(answers)) - 1]
                    return {"raise": "gone", "junk": NO_ANSWER, "edit": edited}.get(said, said)

                ask: Answer | None = None if answers is None else answer
                made = Called(call_id(number, tool, self.made), tool, value)
                decided = await gate.call(made, ask)
                self.heard[f"{made.id} {decided.outcome}"] += 1
                self.note(event, asked, decided)
            case ("settle", back, is_error):
                if self.made:
                    number, tool = self.made[-1 - min(back, len(self.made) - 1)]
                    await self.happen(("result", tool, number, is_error))
            case ("result", tool, number, is_error):
                gate.result(str(number), tool, is_error=is_error)
                self.note(event)
            case ("switch", key, on):
                gate.switch(key, on=on)
                self.note(event)
            case ("mode", mode):
                gate.mode = mode
                self.note(event)
            case ("replay", entries):
                gate.replay([(Called("replay", tool, value), error) for tool, value, error in entries])
                self.note(event)
            case _:
                raise AssertionError(event)

    def note(self, event: Event, asked: Any = (), decided: Decided | None = None) -> None:
        held: dict[str, Any] = {}
        for key, state in self.gate.held.items():
            pending: dict[str, Any] = {}
            for called, arc, name in state.pending:
                pending.setdefault(called.id, []).append((arc.name, name, called.input))
            held[key] = (dict(state.marking), dict(state.meta), pending)
        self.log.append((event[:3], list(asked), decided, list(self.gate.active), self.gate.mode, held))


def first_difference(twice: Twice, history: History, *, dynamic: bool, mode: str) -> Any:
    """Run a history on both sides and return the first difference."""
    real, expected = (side(twice, dynamic=dynamic, mode=mode) for side in (Real, Expected))

    async def live(side: Side) -> None:
        for event in history:
            await side.happen(event)

    asyncio.run(live(real))
    asyncio.run(live(expected))
    for found, right in zip(real.log, expected.log, strict=True):
        if found != right:
            return found, right
    return None if real.heard == expected.heard else (real.heard, expected.heard)


def check_agreement(make: Callable[[Random], Twice], random: Random) -> None:
    """Compare both on random nets and a random history; report the shortest differing history."""
    twice = make(random)
    how = {"dynamic": random.random() < 0.5, "mode": random.choice(["enforce", "enforce", "shadow"])}
    history = any_history(random, twice)
    if first_difference(twice, history, **how) is None:
        return
    at = 0
    while at < len(history):
        shorter = history[:at] + history[at + 1 :]
        if first_difference(twice, shorter, **how) is None:
            at += 1
        else:
            history = shorter
    found, right = first_difference(twice, history, **how)
    assert found == right, (twice.plain, history)


class TestOracle:
    """No history makes the gate allow a call that a step-by-step evaluation of the nets forbids.

    The nets are static or dynamic, in enforce or shadow mode, at random.
    """

    @pytest.mark.slow
    @given(st.randoms(use_true_random=True))
    @settings(max_examples=examples(100, usual=12), deadline=None)
    def test_hand_built_nets_agree(self, random: Random) -> None:
        """G-10 … G-17, G-20 … G-23, G-25, G-50, G-53, G-57 … G-59: all kinds of transitions, failing
        callbacks, and events during a request."""
        for _ in range(20):
            check_agreement(hand_built, random)

    @pytest.mark.slow
    @given(st.randoms(use_true_random=True))
    @settings(max_examples=examples(100, usual=12), deadline=None)
    def test_rules_agree_with_exact_reasons(self, random: Random) -> None:
        """G-18, G-43, G-50, G-54, G-55: rules with maps and duplicates, with their exact reasons."""
        for _ in range(15):
            check_agreement(compiled, random)

    def test_both_sides_use_the_same_keys(self) -> None:
        """G-43: both sides use the same keys."""
        for seed in range(100):
            twice = compiled(Random(seed))
            assert list(twice.real) == list(twice.plain)
