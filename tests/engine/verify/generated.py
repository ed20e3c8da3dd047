"""Random nets: some that grow forever, and arbitrary ones."""

from __future__ import annotations

from hypothesis import strategies as st

from interlock.engine import SkillNet, Transition, define_skill_net

PLACES = ("p", "q", "r")

# Made once, because a new strategy in each example is examined again in each.
TWO_TO_FOUR = st.lists(st.sampled_from("abcd"), min_size=2, max_size=4, unique=True)
NAMES = st.lists(st.sampled_from("abc"), max_size=2, unique=True)
FREE = st.lists(st.sampled_from("abc"), max_size=1)
UP_TO_THREE = st.lists(st.sampled_from(PLACES), max_size=3)
ONE_OR_TWO = st.lists(st.sampled_from(PLACES), min_size=1, max_size=2)
MOVED = st.lists(st.permutations(PLACES).map(lambda p: (p[0], p[1])), max_size=2)
MARKINGS = {most: st.fixed_dictionaries({p: st.integers(0, most) for p in PLACES}) for most in (1, 2)}
COUNTS = st.integers(1, 5)
ONE_IN_FIVE = st.integers(0, 4).map(lambda number: number == 0)
YES_OR_NO = st.booleans()


@st.composite
def growing(draw: st.DrawFn, name: str, *, transfers: bool = False) -> SkillNet:
    """A net that may make tokens forever: each name in one transition, none structural."""
    transitions: list[Transition] = []
    for tool in draw(TWO_TO_FOUR):
        inputs = draw(UP_TO_THREE)
        outputs = draw(UP_TO_THREE)
        if draw(YES_OR_NO):
            outputs = [*inputs, *outputs[:1]]
        moved = draw(MOVED) if transfers else []
        deferred = draw(YES_OR_NO)
        transitions.append(
            Transition(f"do-{tool}", inputs, outputs, (tool,), deferred=deferred, transfers=moved)
        )
    marking = draw(MARKINGS[1])
    return define_skill_net(name, places=PLACES, transitions=transitions, initial_marking=marking)


@st.composite
def anything(draw: st.DrawFn, name: str) -> SkillNet:
    """An arbitrary net: structural, manual, deferred, with transfers, several transitions per name."""
    transitions: list[Transition] = []
    for number in range(draw(COUNTS)):
        inputs = draw(ONE_OR_TWO)
        outputs = draw(UP_TO_THREE)
        names = draw(NAMES)
        if not names:
            outputs = outputs[: len(inputs)]
        kind = "manual" if names and draw(YES_OR_NO) else "auto"
        deferred = bool(names) and draw(YES_OR_NO)
        moved = [("q", "r")] if draw(ONE_IN_FIVE) else []
        transitions.append(
            Transition(f"t{number}", inputs, outputs, names, kind, deferred, transfers=moved)
        )
    marking = draw(MARKINGS[2])
    free = draw(FREE)
    return define_skill_net(
        name, places=PLACES, transitions=transitions, initial_marking=marking, free_tools=free
    )


def one_or_two(nets: st.SearchStrategy[SkillNet]) -> st.SearchStrategy[dict[str, SkillNet]]:
    """One or two nets by key."""
    return st.lists(nets, min_size=1, max_size=2).map(lambda some: dict(zip("nm", some, strict=False)))
