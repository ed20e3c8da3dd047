"""Nets made by chance: some that grow for ever, and any at all."""

from __future__ import annotations

from hypothesis import strategies as st

from interlock.engine import SkillNet, Transition, define_skill_net

PLACES = ("p", "q", "r")


@st.composite
def growing(draw: st.DrawFn, name: str, tools: str = "abcd", *, transfers: bool = False) -> SkillNet:
    """A net that may make tokens for ever: each name in one transition, none structural."""
    transitions: list[Transition] = []
    for tool in draw(st.lists(st.sampled_from(tools), min_size=2, max_size=4, unique=True)):
        inputs = draw(st.lists(st.sampled_from(PLACES), max_size=3))
        outputs = draw(st.lists(st.sampled_from(PLACES), max_size=3))
        if draw(st.booleans()):
            outputs = [*inputs, *outputs[:1]]
        pairs = st.permutations(PLACES).map(lambda p: (p[0], p[1]))
        moved = draw(st.lists(pairs, max_size=2)) if transfers else []
        deferred = draw(st.booleans())
        transitions.append(
            Transition(f"do-{tool}", inputs, outputs, (tool,), deferred=deferred, transfers=moved)
        )
    marking = draw(st.fixed_dictionaries({p: st.integers(0, 1) for p in PLACES}))
    return define_skill_net(name, places=PLACES, transitions=transitions, initial_marking=marking)


@st.composite
def anything(draw: st.DrawFn, name: str) -> SkillNet:
    """A net of any kind: structural, manual, deferred, with transfers, several transitions for a name."""
    transitions: list[Transition] = []
    for number in range(draw(st.integers(1, 5))):
        inputs = draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=2))
        outputs = draw(st.lists(st.sampled_from(PLACES), max_size=3))
        names = draw(st.lists(st.sampled_from("abc"), max_size=2, unique=True))
        if not names:
            outputs = outputs[: len(inputs)]
        kind = "manual" if names and draw(st.booleans()) else "auto"
        deferred = bool(names) and draw(st.booleans())
        moved = [("q", "r")] if draw(st.integers(0, 4)) == 0 else []
        transitions.append(
            Transition(f"t{number}", inputs, outputs, names, kind, deferred, transfers=moved)
        )
    marking = draw(st.fixed_dictionaries({p: st.integers(0, 2) for p in PLACES}))
    free = draw(st.lists(st.sampled_from("abc"), max_size=1))
    return define_skill_net(
        name, places=PLACES, transitions=transitions, initial_marking=marking, free_tools=free
    )


def one_or_two(nets: st.SearchStrategy[SkillNet]) -> st.SearchStrategy[dict[str, SkillNet]]:
    """One or two nets by key."""
    return st.lists(nets, min_size=1, max_size=2).map(lambda some: dict(zip("nm", some, strict=False)))
