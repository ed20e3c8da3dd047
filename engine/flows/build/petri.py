"""A flow as a Petri net: a place for each state, a transition for each way a node can end.

The verifier of the gate's nets then proves what no run of the flow can do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...net.net import SkillNet, Transition, define_skill_net
from ...verify import Never, Together
from .nodes import Join, Node, label, outcome_label, states_of


def petri_net(name: str, entry: str, nodes: Sequence[Node]) -> SkillNet:
    """Return the net of a flow that starts in `entry`.

    Each transition uses its own name as a tool, so that nothing fires by itself.
    """
    output_keys = (state.key for node in nodes for state in states_of(node))
    places = tuple(dict.fromkeys((entry, *output_keys)))
    input_keys = {state.key for node in nodes for state in node.inputs}
    return define_skill_net(
        name,
        places=places,
        transitions=[transition for node in nodes for transition in _transitions(node)],
        initial_marking={entry: 1},
        terminal_places=[place for place in places if place not in input_keys],
    )


def _transitions(node: Node) -> Iterable[Transition]:
    inputs = tuple(state.key for state in node.inputs)
    for number, outcome in enumerate(node.outcomes):
        name = outcome_label(node, number)
        yield Transition(name, inputs, tuple(state.key for state in outcome), (name,))


def never_fire(net: SkillNet, joins: Iterable[Join]) -> list[Join]:
    """Return those `joins` whose parents are proved never to be live together, in any order."""
    together = Together({net.name: net})
    return [join for join in joins if isinstance(together.way(label(join)), Never)]
