"""Nets with timed and partial transitions and conditions: hand-built, from rules, and endless."""

from __future__ import annotations

from hypothesis import strategies as st

from interlock.engine.core.condition import And, Compare, Condition, Not, Or
from interlock.engine.core.rule import ApprovalRule, BlockRule, LimitRule, Rule, SequenceRule
from interlock.engine.net.net import SkillNet, Transition, define_skill_net

PLACES = ("p", "q", "r")
TOOLS = ("a", "b", "c")
X: Condition = Compare(("x",), "=", 1)
Y: Condition = Compare(("y",), "=", 1)
PLAIN: tuple[Condition, ...] = (X, Y, Not(X), Not(Y), Compare(("x",), "!=", 1))
JOINED: tuple[Condition, ...] = (*PLAIN, And((X, Y)), Or((X, Not(Y))), Compare(("x",), "=", 2))

# Made once, because a new strategy in each example is examined again in each.
ANY_TOOL = st.sampled_from(TOOLS)
ONE_OR_TWO_TOOLS = st.lists(ANY_TOOL, min_size=1, max_size=2, unique=True)
TWO_TOOLS = st.lists(ANY_TOOL, min_size=2, max_size=2, unique=True)
SOME_TOOLS = st.lists(ANY_TOOL, max_size=2, unique=True)
INPUTS = st.lists(st.sampled_from(PLACES), min_size=1, max_size=2)
OUTPUTS = {most: st.lists(st.sampled_from(PLACES), max_size=most) for most in (1, 2, 3)}
MARKINGS = st.fixed_dictionaries({p: st.integers(0, 2) for p in PLACES})
KINDS = st.sampled_from(["call", "call", "deferred", "partial", "partial", "timed", "alone"])
RULES = st.sampled_from(["require", "require", "limit", "window", "block", "approve"])
COUNTS = {most: st.integers(1, most) for most in (3, 4)}
ENDLESS_COUNTS = st.integers(2, 5)
ONE_IN_FOUR = st.integers(0, 3).map(lambda number: number == 0)
YES_OR_NO = st.booleans()
ONE_OF = {conditions: st.sampled_from(conditions) for conditions in (PLAIN, JOINED)}
NONE_OR_ONE_OF = {conditions: st.none() | one for conditions, one in ONE_OF.items()}


@st.composite
def hand_built(draw: st.DrawFn, name: str, conditions: tuple[Condition, ...]) -> SkillNet:
    """A small net that returns no more tokens than it takes, so that it has few states."""
    transitions: list[Transition] = []
    for number in range(draw(COUNTS[4])):
        inputs = draw(INPUTS)
        outputs = draw(OUTPUTS[len(inputs)])
        kind = draw(KINDS)
        tools = tuple(draw(ONE_OR_TWO_TOOLS))
        if kind == "timed":
            outputs = [p for p in outputs if p != inputs[0]]
            transitions.append(Transition(f"t{number}", inputs[:1], outputs[:1], after=60))
            continue
        transitions.append(
            Transition(
                f"t{number}",
                inputs,
                outputs,
                () if kind == "alone" else tools,
                deferred=kind == "deferred",
                partial=kind == "partial",
            )
        )
    governs = draw(SOME_TOOLS) if conditions else []
    return define_skill_net(
        name,
        places=PLACES,
        transitions=transitions,
        initial_marking=draw(MARKINGS),
        condition=draw(ONE_OF[conditions]) if governs else None,
        governs=governs,
    )


@st.composite
def endless(draw: st.DrawFn) -> SkillNet:
    """A net that may make tokens forever, some by chains and some by time."""
    transitions: list[Transition] = []
    for number in range(draw(ENDLESS_COUNTS)):
        inputs = draw(INPUTS)
        outputs = draw(OUTPUTS[3])
        tools = (draw(ANY_TOOL),)
        if draw(ONE_IN_FOUR):
            outputs = [p for p in outputs if p != inputs[0]]
            transitions.append(Transition(f"t{number}", inputs[:1], outputs, after=60))
        else:
            partial = draw(YES_OR_NO)
            transitions.append(Transition(f"t{number}", inputs, outputs, tools, partial=partial))
    marking = draw(MARKINGS)
    return define_skill_net("n", places=PLACES, transitions=transitions, initial_marking=marking)


START = Transition("start", ("idle",), ("ready",))


def compiled(rule: Rule) -> SkillNet:
    """Return the net of a rule, written by hand."""
    match rule:
        case SequenceRule(first, then):
            extra = {"gate": 0}
            transitions = [
                Transition("unlock", ("ready",), ("gate",), (first,), deferred=True),
                Transition("again", ("gate",), ("gate",), (first,)),
                Transition("use", ("gate",), ("ready",), (then,)),
            ]
            governed = then
        case ApprovalRule(governed, people=people):
            extra = {"approval": 0}
            transitions = [
                Transition("approve", ("ready", *["approval"] * people), ("ready",), (governed,)),
                Transition(
                    "person", ("ready",), ("ready", "approval"), (governed,), "manual", partial=True
                ),
            ]
        case BlockRule(governed):
            extra = {"locked": 0}
            transitions = [Transition("do", ("locked",), ("locked",), (governed,))]
        case LimitRule(governed, limit, window=window):
            extra = {"budget": limit, "spent": 0}
            transitions = [
                Transition("do", ("ready", "budget"), ("ready", "spent"), (governed,)),
                Transition("recover", ("spent",), ("budget",), after=window),
            ]
            if window is None:
                del extra["spent"]
                transitions = [Transition("do", ("ready", "budget"), ("ready",), (governed,))]
    marking = {"idle": 1, "ready": 0, **extra}
    return define_skill_net(
        "net",
        places=list(marking),
        transitions=[START, *transitions],
        initial_marking=marking,
        rule=rule,
        condition=rule.when,
        governs=(governed,) if rule.when else (),
    )


@st.composite
def rule(draw: st.DrawFn, conditions: tuple[Condition, ...]) -> Rule:
    """One rule about a few tools, with or without a condition."""
    kind = draw(RULES)
    first, then = draw(TWO_TOOLS)
    when = draw(NONE_OR_ONE_OF[conditions])
    count = draw(COUNTS[3])
    rules: dict[str, Rule] = {
        "require": SequenceRule(first, then, when=when),
        "limit": LimitRule(first, count, "session", when=when),
        "window": LimitRule(first, count, "1h", when=when, window=3600),
        "block": BlockRule(first, when=when),
        "approve": ApprovalRule(first, when=when, people=count + 1),
    }
    return rules[kind]


def sets(conditions: tuple[Condition, ...], most: int = 4) -> st.SearchStrategy[dict[str, SkillNet]]:
    return st.lists(rule(conditions).map(compiled), min_size=1, max_size=most).map(keyed)


def by_hand(conditions: tuple[Condition, ...]) -> st.SearchStrategy[dict[str, SkillNet]]:
    return st.lists(hand_built("n", conditions), min_size=1, max_size=3).map(keyed)


def keyed(nets: list[SkillNet]) -> dict[str, SkillNet]:
    return {f"n{number}": net for number, net in enumerate(nets)}
