"""Checks of a flow graph (P-30 … P-46, P-58). All problems are found at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from .model_check import Walk, walk
from .naming import State, qualified
from .nodes import AgentWork, Collect, Either, Fork, Join, Node, Nodes, label, states_of
from .petri import never_fire, petri_net


@dataclass(frozen=True, slots=True)
class Registered:
    """One call of the builder: the nodes it added, and their problems.

    `whole` is true if no node is missing because of a problem.
    """

    nodes: tuple[Node, ...]
    problems: tuple[str, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True)
class GraphCheck:
    """The nodes of a graph by key, its problems, and, if it is sound enough, its exploration."""

    nodes: Mapping[str, Node]
    problems: tuple[str, ...]
    walk: Walk | None


def check(entry: State, output: State, registered: Sequence[Registered]) -> GraphCheck:
    """Check a whole graph; problems come in registration order, followed by those that its net shows."""
    nodes: dict[str, Node] = {}
    types_by_name: dict[str, list[type[BaseModel]]] = {entry.key: [entry.type]}
    problem_texts = _other_type(types_by_name, [output])
    problems_by_node: list[tuple[Registered | Node, list[str]]] = []
    for part in registered:
        problems_by_node.append((part, list(part.problems)))
        for node in part.nodes:
            duplicates = _duplicates(node, nodes)
            for state in node.inputs:
                nodes.setdefault(state.key, node)
            problems_by_node.append((node, [*duplicates, *_other_type(types_by_name, states_of(node))]))
    if entry.key not in nodes:
        problem_texts.append(f"entry '{entry.key}' is not a registered node")
    is_complete = all(each.whole for each in registered) and entry.key in nodes
    reachable_keys, ending = _reachable(entry.key, nodes), _ending(nodes)
    sound = is_complete and not problem_texts
    for node, node_problems in problems_by_node:
        problems = node_problems
        if not isinstance(node, Registered):
            problems = [*node_problems, *_local(node, nodes)]
            keys = dict.fromkeys(state.key for state in node.inputs)
            for key in [key for key in keys if is_complete and nodes[key] is node]:
                if key not in reachable_keys:
                    problems.append(f"node '{key}': unreachable from entry '{entry.key}'")
                elif not problems and key not in ending:
                    problems.append(f"node '{key}': has no path to any terminal — dead end")
        sound = sound and not problems
        problem_texts += problems
        if isinstance(node, AgentWork) and node.node.config is not None:
            problem_texts += [f"{label(node)}: {problem}" for problem in node.node.config.problems()]
    if not sound:
        return GraphCheck(nodes, tuple(problem_texts), None)
    exploration = walk(entry.key, nodes)
    return GraphCheck(nodes, (*problem_texts, *_of_the_net(entry.key, nodes, exploration)), exploration)


def terminals(nodes: Nodes) -> list[str]:
    """States that are produced and that no node takes, sorted."""
    output_keys = {state.key for node in nodes.values() for outcome in node.outcomes for state in outcome}
    return sorted(output_keys - nodes.keys())


def check_output(output: str, nodes: Nodes) -> list[str]:
    """Check that the flow ends only in its output; needed only for a flow that is run (P-37, P-38)."""
    match terminals(nodes):
        case [end] if end == output:
            return []
        case [end]:
            return [f"flow output '{output}' does not match terminal state id '{end}'"]
        case ends:
            keys = ", ".join(ends)
            return [
                f"flow must have exactly one terminal state id matching output '{output}', found: {keys}"
            ]


def distinct(nodes: Nodes) -> list[Node]:
    """The nodes, each once: a join is listed under every parent."""
    return list({id(node): node for node in nodes.values()}.values())


def _duplicates(node: Node, nodes: Nodes) -> list[str]:
    duplicate_keys = [key for key in dict.fromkeys(state.key for state in node.inputs) if key in nodes]
    if isinstance(node, Join):
        return [f"join: duplicate node key '{key}'" for key in duplicate_keys]
    return [f"{label(node)}: duplicate node key" for _ in duplicate_keys]


def _other_type(types_by_name: dict[str, list[type[BaseModel]]], states: Iterable[State]) -> list[str]:
    """Report types with the same name, which would be confused with each other (P-3)."""
    problems: list[str] = []
    for state in states:
        types = types_by_name.setdefault(state.key, [state.type])
        if state.type not in types:
            types.append(state.type)
            problems.append(
                f"name '{state.key}' is used by two types: "
                f"{qualified(types[0])} and {qualified(state.type)}"
            )
    return problems


def _local(node: Node, nodes: Nodes) -> list[str]:
    """Problems of a node by itself."""
    here = label(node)
    match node:
        case Either(branches=branches):
            keys = [branch.key for branch in branches]
            if len(set(keys)) < 2 or len(set(keys)) < len(keys):
                twice = next(key for key in keys if len(keys) == 1 or keys.count(key) > 1)
                return [f"{here}: both branches resolve to the same schema name '{twice}'"]
            return []
        case Fork(takes=takes, children=children):
            problems: list[str] = []
            keys = [child.key for child in children]
            if len(keys) < 2:
                problems.append(f"{here}: must have at least 2 children, found {len(keys)}")
            problems += [f"{here}: duplicate child '{key}'" for key in _repeated(keys)]
            if takes.key in keys:
                problems.append(f"{here}: child equals input")
            unknown = (key for key in dict.fromkeys(keys) if key not in nodes)
            return problems + [f"{here}: child '{key}' is not a registered node" for key in unknown]
        case Join(parents=parents, gives=gives):
            keys = [parent.key for parent in parents]
            here = f"join (target '{gives.key}')"
            problems = []
            if len(keys) != 2:
                problems.append(f"{here}: must have exactly 2 parents, found {len(keys)}")
            problems += [f"{here}: duplicate parent '{key}'" for key in _repeated(keys)]
            if gives.key in keys:
                problems.append(f"{here}: target matches parent '{gives.key}'")
            return problems
        case Collect():
            return []
        case _:
            if node.takes.key == node.gives.key:
                return [f"{here}: exit_name equals input name — node would overwrite its own input"]
            return []


def _repeated(keys: Sequence[str]) -> list[str]:
    return [key for key in dict.fromkeys(keys) if keys.count(key) > 1]


def _reachable(entry: str, nodes: Nodes) -> set[str]:
    """States to which some path from the entry leads."""
    reachable_keys = {entry}
    queue = [entry]
    for key in queue:
        node = nodes.get(key)
        for state in [] if node is None else [s for outcome in node.outcomes for s in outcome]:
            if state.key not in reachable_keys:
                reachable_keys.add(state.key)
                queue.append(state.key)
    return reachable_keys


def _ending(nodes: Nodes) -> set[str]:
    """States from which some path leads to a terminal."""
    before: dict[str, list[str]] = {}
    for key, node in nodes.items():
        for outcome in node.outcomes:
            for state in outcome:
                before.setdefault(state.key, []).append(key)
    ending = {key for key in before if key not in nodes}
    queue = list(ending)
    for key in queue:
        for earlier in before.get(key, ()):
            if earlier not in ending:
                ending.add(earlier)
                queue.append(earlier)
    return ending


def _of_the_net(entry: str, nodes: Nodes, exploration: Walk) -> list[str]:
    """Report joins that can never fire (P-46), and the causes if no run can end (P-58, P-63).

    A fault in only some runs is not a problem of the graph: it is a finding, and an error when it occurs.
    """
    idle = [n for n in distinct(nodes) if isinstance(n, Join) and label(n) not in exploration.fired]
    dead = never_fire(petri_net("flow", entry, distinct(nodes)), idle) if idle else []
    problems = [
        f"join (target '{join.gives.key}'): parents "
        f"{' and '.join(f'{parent.key!r}' for parent in join.parents)} are never live together"
        for join in dead
    ]
    if exploration.complete and not exploration.ends:
        problems += map(str, exploration.findings)
    return problems
