"""Laws for any interleaving of calls, answers, edits, grants, revocations, switches and time.

The gate is compared with an obviously correct model: lists of approvals, of grants and of the times of
calls. After every event both must agree on every call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine import ApprovalAnswer, ApprovalRequest, GateContext, create_gate_manager
from interlock.engine.gate import GateDecision, GrantTerms
from interlock.engine.net.net import ToolCall, auto_advance, fire, initial_state
from interlock.rules.naming import Inspection

from ...support.laws import examples
from .support.helpers import call
from .support.ruled import Clock, approval, at, block, is_, limit, nets_of

WINDOW = 60.0
MOST = 3
PROD, ONE = is_("env", "prod"), is_("n", 1)

RULES = {
    "one": approval(when=PROD, source=at(1)),
    "strict": approval(when=ONE, grants=False, source=at(2)),
    "limit": limit("deploy", MOST, WINDOW),
    "same": approval(when=PROD, source=at(3)),
    "two": approval("bash", people=2, source=at(4)),
    "never": block("deploy", is_("env", "no")),
}
QUESTION = {"one": "one", "same": "one", "strict": "strict", "two": "two"}
ABOUT = {"two": "bash"}
PEOPLE = {"one": 1, "strict": 1, "two": 2}


@dataclass(frozen=True)
class Names:
    """Name `bash` also `deploy` if its input has `to`; `n` gives no name."""

    maps_digest = "names"

    def __call__(self, made: ToolCall) -> tuple[str, ...]:
        also = ("deploy",) if made.tool_name == "bash" and made.input.get("to") else ()
        return (*also, made.tool_name)

    def inspect(self, made: ToolCall) -> Inspection:
        return Inspection(self(made))

    def unread(self, made: ToolCall) -> dict[str, object]:
        return fixed(made.input)

    def other_effect(self, made: ToolCall) -> None:
        return None

    def programs(self, made: ToolCall) -> tuple[str, ...]:
        return ()


names = Names()


def fixed(value: Mapping[str, object]) -> dict[str, object]:
    """Return the fields that must be the same for a grant by names."""
    return {key: each for key, each in value.items() if key not in ("n", "to")}


def same(one: Any, other: Any) -> bool:
    """Compare flat inputs; values of different types differ."""
    kinds = [sorted((key, type(value).__name__, value) for key, value in v.items()) for v in (one, other)]
    return kinds[0] == kinds[1]


@dataclass
class Waiting:
    """A call in the model; `approved` has the approvers of its present input."""

    made: ToolCall
    input: dict[str, Any]
    approved: dict[str, set[str]] = field(default_factory=dict)
    terms: dict[str, GrantTerms] = field(default_factory=dict)
    edited: bool = False
    shadow: bool = False
    owed: list[str] = field(default_factory=list)
    ever: set[str] = field(default_factory=set)
    shown: frozenset[str] | None = None


@dataclass
class Given:
    """A grant in the model."""

    question: str
    tool: str
    names: frozenset[str]
    input: dict[str, Any] | None
    fixed: dict[str, object]
    left: int | None
    until: float | None


@dataclass
class Model:
    """The expected outcome of every call."""

    now: float
    active: list[str] = field(default_factory=lambda: list(RULES))
    mode: str = "enforce"
    spent: list[float] = field(default_factory=list)
    grants: dict[str, Given] = field(default_factory=dict)
    given: int = 0

    def applies(self, rule: str, waiting: Waiting) -> bool:
        """Return whether the active rule applies to this call; a missing field makes it apply."""
        return rule in self.active and self.concerns(rule, waiting)

    def concerns(self, rule: str, waiting: Waiting) -> bool:
        """Return whether the rule, if switched on, applies to this call."""
        if ABOUT.get(rule, "deploy") not in self.names(waiting):
            return False
        env, n = waiting.input.get("env"), waiting.input.get("n")
        match rule:
            case "one" | "same":
                return env in (None, "prod")
            case "strict":
                return n is None or (n == 1 and n is not True)
            case "never":
                return env in (None, "no")
        return True

    def names(self, waiting: Waiting) -> frozenset[str]:
        return frozenset(names(call(waiting.made.tool_name, **waiting.input)))

    def is_used_up(self) -> bool:
        return sum(time > self.now - WINDOW for time in self.spent) >= MOST

    def usable(self, question: str, waiting: Waiting) -> list[str]:
        """Return the grants that cover a question about this call now."""
        if waiting.edited or question in waiting.ever:
            return []
        return [
            key
            for key, g in self.grants.items()
            if g.question == question
            and (g.tool, g.names) == (waiting.made.tool_name, self.names(waiting))
            and (g.input is None or same(g.input, waiting.input))
            and (g.input is not None or same(g.fixed, fixed(waiting.input)))
            and g.left != 0
            and (g.until is None or self.now < g.until)
        ]

    def judge(self, waiting: Waiting) -> tuple[str, str | None, tuple[str, ...]]:
        """Return the expected outcome of the call, the question asked and the grants used."""
        asked: str | None = None
        used: dict[str, str] = {}
        open_now: list[str] = []
        for rule in self.active:
            question = QUESTION.get(rule)
            if question is None or not self.applies(rule, waiting):
                continue
            if len(waiting.approved.get(question, ())) >= PEOPLE[question] or question in used:
                continue
            usable = self.usable(question, waiting)
            if usable:
                used[question] = usable[0]
            else:
                asked = asked or question
                open_now.append(question)
        for question in waiting.owed:
            if len(waiting.approved.get(question, ())) < PEOPLE[question]:
                asked = asked or question
        counted = self.applies("limit", waiting)
        blocked = self.applies("never", waiting) or (counted and self.is_used_up())
        shadow = self.mode == "shadow" and waiting.shadow
        outcome = "block" if blocked else "ask" if asked else "allow"
        if outcome == "allow" or (shadow and outcome == "ask"):
            if counted and not self.is_used_up():
                self.spent.append(self.now)
            for key in used.values():
                left = self.grants[key].left
                self.grants[key].left = None if left is None else left - 1
            for question, terms in waiting.terms.items() if outcome == "allow" else ():
                if any(self.applies(r, waiting) for r, q in QUESTION.items() if q == question):
                    self.give(question, terms, waiting)
            return outcome, None, tuple(used.values())
        if outcome == "ask":
            waiting.owed += [question for question in open_now if question not in waiting.owed]
            waiting.ever.update(open_now)
        return outcome, asked, ()

    def edit(self, waiting: Waiting, value: dict[str, Any]) -> None:
        """Change the input; earlier questions stay required if their rules concern the new input."""
        if not same(value, waiting.input):
            waiting.input = value
            about = {QUESTION[r] for r in QUESTION if self.concerns(r, waiting)}
            waiting.owed = [question for question in QUESTION if question in waiting.ever & about]

    def give(self, question: str, terms: GrantTerms, waiting: Waiting) -> None:
        self.given += 1
        self.grants[f"grant-{self.given}"] = Given(
            question,
            waiting.made.tool_name,
            self.names(waiting),
            waiting.input if terms.scope == "input" else None,
            fixed(waiting.input),
            terms.uses,
            None if terms.seconds is None else self.now + terms.seconds,
        )

    def apply_answer(self, waiting: Waiting, question: str, answer: ApprovalAnswer) -> bool:
        """Apply an answer; return whether it refuses the call."""
        waiting.shadow = False
        if answer.again:
            waiting.approved, waiting.terms, waiting.shown = {}, {}, None
            if answer.input is not None:
                self.edit(waiting, dict(answer.input))
                waiting.edited = not same(waiting.input, waiting.made.input)
            return False
        who = {name.strip() for name in (*answer.others, answer.by or "")} - {""}
        if not answer.approved or (PEOPLE[question] > 1 and len(who) < PEOPLE[question]):
            return True
        if answer.input is not None and not same(answer.input, waiting.input):
            waiting.approved, waiting.terms = {}, {}
            waiting.edited = not same(answer.input, waiting.made.input)
            waiting.shown = None if answer.grant is None else self.names(waiting)
            self.edit(waiting, dict(answer.input))
        waiting.approved[question] = who or {"somebody"}
        if answer.grant is not None:
            waiting.terms[question] = answer.grant
        return False

    def may_grant(self, waiting: Waiting) -> bool:
        """Return whether every grant in the answers can be given."""
        given = [
            q
            for q in waiting.terms
            if any(self.applies(r, waiting) for r, of in QUESTION.items() if of == q)
        ]
        as_shown = waiting.shown is None or waiting.shown == self.names(waiting)
        return all(q == "one" for q in given) and (as_shown or not given)


class World:
    """A gate with its open requests, and the model beside it."""

    def __init__(self) -> None:
        self.clock = Clock()
        nets = dict(zip(RULES, nets_of(*RULES.values(), names=names), strict=True))
        self.gate = create_gate_manager(nets, clock=self.clock)
        self.model = Model(self.clock.now)
        self.open: list[tuple[Waiting, ApprovalRequest, asyncio.Future[ApprovalAnswer]]] = []
        self.tasks: list[tuple[Waiting, asyncio.Task[GateDecision]]] = []
        self.uses: dict[str, int] = {}
        self.moved: list[float] = []
        self.folded = {key: initial_state(net).marking for key, net in nets.items()}
        self.count = 0
        self.gate.format_status()

    async def event(self, event: tuple[Any, ...]) -> None:
        match event:
            case ("call", tool, value):
                await self.call(tool, value)
            case ("answer", which, answer) if self.open:
                await self.answer(which % len(self.open), answer)
            case ("cancel", which) if self.open:
                waiting, _, _ = self.open.pop(which % len(self.open))
                task = next(task for w, task in self.tasks if w is waiting)
                self.tasks = [(w, t) for w, t in self.tasks if w is not waiting]
                task.cancel()
                await run_until_waiting()
                assert task.cancelled()
            case ("time", seconds):
                self.clock.now += seconds
                self.model.now = max(self.model.now, self.clock.now)
                # The gate notices a clock set back only if it has read the clock before.
                self.gate.format_status()
            case ("revoke", number):
                known = self.model.grants.pop(f"grant-{number}", None)
                assert self.gate.revoke_grant(f"grant-{number}").ok is (known is not None)
                self.uses.pop(f"grant-{number}", None)
                self.folded.pop(f"grant-{number}", None)
            case ("toggle", key):
                on = key not in self.model.active
                (self.gate.add_net if on else self.gate.remove_net)(key)
                self.model.active = [k for k in self.model.active if k != key] + [key] * on
            case ("mode", mode):
                self.gate.mode = self.model.mode = mode

    async def call(self, tool: str, value: dict[str, Any]) -> None:
        self.count += 1
        made = call(tool, str(self.count), **value)
        waiting = Waiting(made, dict(value), shadow=True)

        def confirm(request: ApprovalRequest) -> Awaitable[ApprovalAnswer]:
            future = asyncio.get_running_loop().create_future()
            self.open.append((waiting, request, future))
            return future

        task = asyncio.ensure_future(self.gate.handle_tool_call(made, GateContext(confirm)))
        self.tasks.append((waiting, task))
        await run_until_waiting()
        self.compare(waiting, refused=False)

    async def answer(self, which: int, answer: ApprovalAnswer) -> None:
        waiting, request, future = self.open.pop(which)
        question = QUESTION[request.net]
        refused = self.model.apply_answer(waiting, question, answer)
        future.set_result(answer)
        await run_until_waiting()
        self.compare(waiting, refused=refused)

    def compare(self, waiting: Waiting, *, refused: bool) -> None:
        """Compare the gate's decision on a call with the model's."""
        model, before = self.model, dict(self.model.grants)
        task = next(task for w, task in self.tasks if w is waiting)
        outcome, asked, used = self.expected(waiting, refused)
        if outcome == "ask" and not (model.mode == "shadow" and waiting.shadow):
            assert not task.done(), task.result()
            requests = [request for w, request, _ in self.open if w is waiting]
            if not requests:
                self.contended(waiting, task)
                return
            (request,) = requests
            assert (QUESTION[request.net], request.people) == (asked, PEOPLE[asked or ""])
            assert same(request.call.input, waiting.input)
            return
        self.tasks = [(w, t) for w, t in self.tasks if w is not waiting]
        decision = task.result()
        assert (decision.outcome, decision.granted) == (outcome, used), decision
        assert decision.gave == tuple(key for key in model.grants if key not in before)
        assert same(decision.call.input, waiting.input)
        for key in decision.gave:
            self.uses[key] = model.grants[key].left or 1
            self.folded[key] = initial_state(self.gate.grants[key].net).marking
        for step in decision.steps:
            nets = {**self.gate.nets, **{k: g.net for k, g in self.gate.grants.items()}}
            moved = fire(self.folded[step.net], step.transition)
            self.folded[step.net] = auto_advance(nets[step.net], moved)
            if step.transition.name == "do-deploy":
                assert decision.clock is not None
                self.moved.append(decision.clock)

    def contended(self, waiting: Waiting, task: asyncio.Task[GateDecision]) -> None:
        """A call without a request yet waits for calls that may use up the limit.

        It is withdrawn here, because such calls have a law of their own.
        """
        model = self.model
        assert model.applies("limit", waiting)
        others = [w for w, _, _ in self.open if model.applies("limit", w)]
        spent = sum(time > model.now - WINDOW for time in model.spent)
        assert len(others) >= MOST - spent > 0
        self.tasks = [(w, t) for w, t in self.tasks if w is not waiting]
        task.cancel()

    def expected(self, waiting: Waiting, refused: bool) -> tuple[str, str | None, tuple[str, ...]]:
        if refused:
            return "block", None, ()
        if not self.model.may_grant(waiting):
            # A grant that cannot be given matters only if nothing else blocks the call.
            terms, waiting.terms = waiting.terms, {}
            spent, grants = list(self.model.spent), dict(self.model.grants)
            left = {key: g.left for key, g in grants.items()}
            judged = self.model.judge(waiting)
            if judged[0] != "allow":
                waiting.terms = terms
                return judged
            self.model.spent = spent
            for key, count in left.items():
                grants[key].left = count
            return "block", None, ()
        return self.model.judge(waiting)

    def check(self) -> None:
        """Check what must be true at any time."""
        states = {**self.gate.states, **self.gate.grant_states}
        assert {key: state.marking for key, state in states.items()} == self.folded
        assert all(count >= 0 for marking in self.folded.values() for count in marking.values())
        assert self.folded["limit"]["budget"] + self.folded["limit"]["spent"] == MOST
        assert self.folded["two"] == {"idle": 0, "ready": 1, "approval": 0}
        for key, uses in self.uses.items():
            assert sum(self.folded[key].values()) == uses
        for start in self.moved:
            assert sum(start <= time < start + WINDOW for time in self.moved) <= MOST


async def run_until_waiting() -> None:
    """Let every task run until it waits."""
    for _ in range(12):
        await asyncio.sleep(0)


def some_terms(random: Random) -> GrantTerms:
    return GrantTerms(
        random.choice(["names", "input"]), random.choice([None, 1, 2]), random.choice([None, None, 40.0])
    )


def some_value(random: Random) -> dict[str, Any]:
    """Return a common input, so that calls are often equal, or a random one."""
    if random.random() < 0.6:
        return {"env": "prod", "n": 0}
    whole = {
        "env": random.choice(["prod", "prod", "dev", "dev", "no"]),
        "n": random.choice([0, 0, 1, True]),
        "to": "here",
    }
    return {name: whole[name] for name in random.sample(sorted(whole), random.choice([2, 2, 3, 1]))}


def some_answer(random: Random) -> ApprovalAnswer:
    """Return mostly a plain approval."""
    unlikely = random.random() < 0.2
    return ApprovalAnswer(
        not (unlikely and random.random() < 0.3),
        input=some_value(random) if random.random() < 0.15 else None,
        by=random.choice(["ada", " ada", None, ""]) if unlikely else "ada",
        others=random.choice([(), ("ada", ""), ("grace",)]) if unlikely else ("grace",),
        grant=some_terms(random) if random.random() < 0.35 else None,
        again=random.random() < 0.08,
    )


def some_event(random: Random) -> tuple[Any, ...]:
    kind = random.choices(
        ["call", "answer", "time", "cancel", "revoke", "toggle", "mode"], [10, 12, 4, 1, 1, 1, 1]
    )[0]
    match kind:
        case "call":
            return kind, random.choice(["deploy", "deploy", "deploy", "bash"]), some_value(random)
        case "answer":
            return kind, random.randrange(4), some_answer(random)
        case "time":
            return kind, random.choice([1.0, 19.0, 40.0, 60.0, -30.0])
        case "toggle":
            return kind, random.choice([*RULES])
        case "mode":
            return kind, random.choice(["enforce", "enforce", "shadow"])
        case _:
            return kind, random.randrange(4)


class TestLaws:
    """Laws for any history."""

    @given(st.integers(0, 2**32))
    @settings(max_examples=examples(120), deadline=None)
    def test_gate_agrees_with_the_model(self, seed: int) -> None:
        """G-13, G-15, G-43, G-55, G-67: a call is allowed if and only if the model justifies it; tokens
        are conserved, and no window has more calls than its limit."""
        random = Random(seed)
        history = [some_event(random) for _ in range(60)]

        async def live() -> None:
            world = World()
            for event in history:
                await world.event(event)
                world.check()
            for _, task in world.tasks:
                task.cancel()
            await run_until_waiting()

        asyncio.run(live())
