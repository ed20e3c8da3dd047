"""An independent model of flows: nodes are tuples, live states a list; slow, but short.

`("W", a, b)`, `("E", a, b, c)`, `("F", a, b, c)` and `("J", b, c, d)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from hypothesis import strategies as st

Plain: TypeAlias = tuple[str, ...]
CONFLICT, DEADLOCK, DONE = "conflict", "deadlock", "done"


def inputs(node: Plain) -> tuple[str, ...]:
    return node[1:3] if node[0] == "J" else node[1:2]


def outcomes(node: Plain) -> list[tuple[str, ...]]:
    match node[0]:
        case "E":
            return [(branch,) for branch in node[2:]]
        case "J":
            return [node[3:]]
        case _:
            return [node[2:]]


def ready(nodes: Sequence[Plain], live: Sequence[str]) -> Plain | None:
    for key in live:
        for node in nodes:
            if key in inputs(node) and all(parent in live for parent in inputs(node)):
                return node
    return None


def step(nodes: Sequence[Plain], live: Sequence[str], branch: int) -> list[str] | str:
    """Return the live states after a step, or the end: the lost state, the waiting states, or done."""
    node = ready(nodes, live)
    if node is None:
        stuck = [key for key in live if any(key in inputs(node) for node in nodes)]
        return f"{DEADLOCK} {' '.join(stuck)}" if stuck else DONE
    left = [key for key in live if key not in inputs(node)]
    ways = outcomes(node)
    for key in ways[branch % len(ways)]:
        if key in left:
            return f"{CONFLICT} {key}"
        left.append(key)
    return left


def everything(nodes: Sequence[Plain], entry: str) -> dict[str, int]:
    """Return the possible ends of a run with the fewest steps before; -1 for joins that can fire."""
    ends: dict[str, int] = {}
    depth = 0
    seen: set[tuple[str, ...]] = set()
    layer = [[entry]]
    while layer:
        below: list[list[str]] = []
        for live in layer:
            if tuple(live) in seen:
                continue
            seen.add(tuple(live))
            node = ready(nodes, live)
            if node is not None and node[0] == "J":
                ends[f"fires {' '.join(inputs(node))}"] = -1
            for branch in range(2):
                after = step(nodes, live, branch)
                if isinstance(after, str):
                    ends.setdefault(after, depth)
                else:
                    below.append(after)
        layer = below
        depth += 1
    return ends


def sound(nodes: Sequence[Plain], entry: str) -> bool:
    """Return whether each node and all paths satisfy the rules."""
    keys = [key for node in nodes for key in inputs(node)]
    if len(set(keys)) < len(keys) or entry not in keys:
        return False
    for node in nodes:
        out = [key for way in outcomes(node) for key in way]
        if len(set(out)) < len(out):
            return False
        if node[0] != "E" and set(out) & set(inputs(node)):
            return False
        if node[0] == "F" and not set(out) <= set(keys):
            return False
    edges = {key: [k for way in outcomes(node) for k in way] for node in nodes for key in inputs(node)}

    def reached(start: str) -> set[str]:
        found, queue = {start}, [start]
        while queue:
            for key in edges.get(queue.pop(), []):
                if key not in found:
                    found.add(key)
                    queue.append(key)
        return found

    terminals = {key for out in edges.values() for key in out} - set(keys)
    return set(keys) <= reached(entry) and all(reached(key) & terminals for key in keys)


names = st.sampled_from("ABCDEZ")
any_node = st.one_of(
    st.tuples(st.just("W"), names, names),
    st.tuples(st.just("E"), names, names, names),
    st.tuples(st.just("F"), names, names, names),
    st.tuples(st.just("J"), names, names, names),
)
any_nodes = st.lists(any_node, max_size=5)


@st.composite
def grown(draw: st.DrawFn) -> list[Plain]:
    """Nodes of a flow that is grown from its entry `S`, so that most flows are sound."""
    nodes: list[Plain] = []
    open_keys, made = ["S"], iter(f"K{n}" for n in range(99))
    for _ in range(draw(st.integers(1, 7))):
        if not open_keys:
            break
        kind = draw(st.sampled_from("WEFFJ" if len(open_keys) > 1 else "WEF"))
        key = open_keys.pop(draw(st.integers(0, len(open_keys) - 1)))
        if kind == "J":
            other = open_keys.pop(draw(st.integers(0, len(open_keys) - 1)))
            nodes.append(("J", key, other, new := next(made)))
            open_keys.append(new)
        elif kind == "W":
            nodes.append(("W", key, new := next(made)))
            open_keys.append(new)
        else:
            left, right = next(made), next(made)
            if kind == "E":
                # A choice may go back to where another node begins, or end the flow at once.
                others = [node[1] for node in nodes if node[1] != key]
                right = draw(st.sampled_from([right, "Z", *others]))
            nodes.append((kind, key, left, right))
            taken = {"Z", *(key for node in nodes for key in inputs(node))}
            open_keys += [new for new in (left, right) if new not in taken]
    # Open branches are merged in one of the two ways.
    while len(open_keys) > 1 and draw(st.booleans()):
        nodes.append(("J", open_keys.pop(0), open_keys.pop(0), new := next(made)))
        open_keys.append(new)
    nodes += [("W", key, "Z") for key in open_keys]
    return draw(st.permutations(nodes))
