"""The drawing of a flow's graph: the order of its states, and the lanes between them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.app.flows.lanes import lanes_of, passed
from interlock.app.widgets.nets.flow_graph import flow_picture, next_up
from interlock.engine.history.model.records import NetRecord, TransitionRecord
from interlock.engine.history.model.state import CallState, SessionState

from ...support.scenes import before
from .flows import flow_state, release

FORK = ("work A > B", "fork B > C D", "agent C > E", "agent D > F", "join E F > G", "suspend G > H")
LOOP = ("work A > B", "either B > C", "either B > D", "work C > B", "work D > E")


def net_of(*nodes: str) -> NetRecord:
    """A flow's net from lines such as `fork B > C D`."""
    places: list[str] = []
    transitions: list[TransitionRecord] = []
    for number, node in enumerate(nodes):
        taken, _, given_ = node.partition(" > ")
        kind, *inputs = taken.split()
        name = f"{kind} {' + '.join(inputs)} {number}"
        transitions.append(
            TransitionRecord(name=name, inputs=tuple(inputs), outputs=tuple(given_.split()))
        )
        places = [*dict.fromkeys([*places, *inputs, *given_.split()])]
    marking = {places[0]: 1}
    return NetRecord(
        key="f", name="f", places=tuple(places), transitions=tuple(transitions), initial_marking=marking
    )


def drawn(net: NetRecord, live: Collection[str] = ()) -> list[str]:
    lanes = lanes_of(net)
    behind = passed(net, lanes, live)
    rows: list[str] = []
    for row in lanes.rows:
        sign = "●" if row.state in live else "✓" if row.state in behind else "○"
        rows.append(
            row.before if row.state is None else f"{row.before}{sign}{row.after} {row.state}".strip()
        )
    return rows


def at(
    net: NetRecord,
    *live: str,
    status: Literal["running", "waiting", "failed", "done"] = "running",
    output: str = "H",
    **more: object,
) -> SessionState:
    record = flow_state().flow.model_copy(update={"net": net, "output": output})
    state = release(approvals={}, status=status, calls=more.pop("calls", {}))
    return state.model_copy(
        update={"flow": flow_state(flow=record, live=live, **{"waits": None, "node": None, **more})}
    )


def text(state: SessionState, width: int = 60) -> list[str]:
    _, graph, _ = flow_picture(state)
    return [row.plain.rstrip() for row in graph.lines(width)]


class TestLanes:
    def test_branches_have_lanes_from_fork_to_join(self) -> None:
        """P-55: each branch of a fork has a lane, drawn to its end before the next, up to the join."""
        assert drawn(net_of(*FORK), ["F", "C"]) == [
            "✓ A",
            "✓ B",
            "├─╮",
            "● │ C",
            "○ │ E",
            "│ ✓ D",
            "│ ● F",
            "├─╯",
            "○ G",
            "○ H",
        ]

    def test_join_does_not_end_crossed_lanes(self) -> None:
        """P-55: branches that join across other lanes do not end those lanes."""
        net = net_of("fork A > B C D", "work B > E", "join E D > F", "work C > G", "join F G > H")
        assert drawn(net) == [
            "○ A",
            "├─┬─╮",
            "○ │ │ B",
            "○ │ │ E",
            "│ ○ │ C",
            "│ ○ │ G",
            "│ │ ○ D",
            "├─┼─╯",
            "○ │ F",
            "├─╯",
            "○ H",
        ]

    def test_loop_names_its_target(self) -> None:
        """P-12: a loop has no lane. The state where it begins names its target."""
        lanes = lanes_of(net_of(*LOOP))
        assert lanes.order == ["A", "B", "C", "D", "E"]
        assert dict(lanes.back) == {"C": ["B"]}
        assert "  ○ │   C  work · back to B" in text(at(net_of(*LOOP), "A", output="E"))

    def test_after_a_choice_only_common_states_are_passed(self) -> None:
        """P-12: after a choice, only states on every branch count as passed."""
        net = net_of("either A > B", "either A > C", "work B > D", "work C > D", "work D > E")
        lanes = lanes_of(net)
        assert passed(net, lanes, ["E"]) == {"A", "D"}
        assert passed(net, lanes, ["B"]) == {"A"}

    @pytest.mark.slow
    @given(st.data())
    def test_each_state_has_one_line_and_upward_arrows_are_named(self, data: st.DataObject) -> None:
        """P-55: in any graph each state has one line, and every arrow that leads up is named."""
        names = [f"s{n}" for n in range(data.draw(st.integers(1, 9)))]
        some = st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)
        nodes = data.draw(st.lists(st.tuples(some, some), min_size=1, max_size=12))
        net = net_of(*(f"work {' '.join(taken)} > {' '.join(given_)}" for taken, given_ in nodes))
        lanes = lanes_of(net)
        order = lanes.order
        assert sorted(order) == sorted(net.places)
        for transition in net.transitions:
            for state in transition.inputs:
                for target in transition.outputs:
                    ahead = order.index(target) > order.index(state)
                    assert ahead or target in lanes.back[state]
        assert sorted(name for rank in lanes.ranks for name in rank) == sorted(order)
        live = data.draw(st.lists(st.sampled_from(order), max_size=2, unique=True))
        assert passed(net, lanes, live).isdisjoint(live)
        assert all(len(row.before) + len(row.after) < lanes.width for row in lanes.rows)


class TestGraph:
    def test_join_names_missing_states(self) -> None:
        """P-14, P-52: a join names the other states that it requires. Only one node is next."""
        rows = text(at(net_of(*FORK), "E", "D"))
        assert "  ● │   E  join with F" in rows
        assert "  │ ●   D  agent   is next" in rows
        assert sum("is next" in row for row in rows) == 1
        both = text(at(net_of(*FORK), "F", "E"))
        assert "  ● │   E  join with F" in both
        assert "  │ ●   F  join with E   is next" in both

    def test_earlier_ready_branch_is_next(self) -> None:
        """P-52: of two branches that can run, the earlier one is next."""
        net = net_of(*FORK)
        assert [t.inputs for t in next_up(flow_state_of(net, "D", "C"))] == [("D",)]
        assert [t.inputs for t in next_up(flow_state_of(net, "E", "C"))] == [("C",)]
        assert next_up(flow_state_of(net, "H")) == []

    def test_approved_call_is_shown_as_running(self) -> None:
        """P-55: an approved call is shown as running, not as waiting."""
        net = net_of(*FORK)
        call = CallState(
            call_id="4.c", tool="bash", names=("deploy",), input={}, at=before(1), status="running"
        )
        state = at(net, "D", "E", waits="4.c", node="D", calls={"4.c": call})
        assert "  │ ●   D  agent   deploy runs" in text(state)
        waiting = at(net, "D", "E", waits="4.c", node="D")
        assert "  │ ◐   D  agent   waits" in text(waiting)
        assert "  ● │   E  join with F" in text(waiting)

    def test_failed_run_is_shown_at_its_last_state(self) -> None:
        """P-56: a failed run is shown at the state where it ended."""
        assert "  ✗     B  fork   ended here" in text(at(net_of(*FORK), "B", status="failed"))

    def test_graph_with_too_many_lanes_is_a_list(self) -> None:
        """P-13: a graph with too many lanes is a list, so that names fit on the screen."""
        wide = net_of(f"fork A > {' '.join(f'B{n}' for n in range(40))}", "work B39 > C")
        rows = text(at(wide, "A", output="C"), 60)
        assert all("─" not in row for row in rows)
        assert "  ●  A    fork   is next" in rows
        assert all(len(row) <= 60 for row in rows)


def flow_state_of(net: NetRecord, *live: str):
    state = at(net, *live).flow
    assert state is not None
    return state
