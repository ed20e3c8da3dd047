"""The state of a run, saved and restored."""

from __future__ import annotations

import json

import pytest

from interlock.engine.flows import Continue, Done, FlowRuntime, FlowSnapshot, Invalid, SnapLoadError

from ..support.shapes import CTX, E, F, J, M, W, builder, flow

CHAIN = flow("A", "C", W("A", "B", lambda n: n * 2), W("B", "C", lambda n: n + 1))
FORKED = flow("S", "Z", F("S", "A", "B"), W("B", "B2"), J("A", "B2", "Z"))


def through_json(snapshot: FlowSnapshot) -> FlowSnapshot:
    return FlowSnapshot.load(snapshot.model_dump_json())


async def after(steps: int, flow: object = CHAIN, val: int = 10) -> FlowRuntime:
    runtime = FlowRuntime(flow, flow.draft().takes.type(val=val))
    for _ in range(steps):
        await runtime.next(CTX)
    return runtime


class TestSnapshot:
    async def test_content_is_plain_json(self) -> None:
        """P-90: a snapshot has the live states in order, as plain JSON, without graph and history."""
        snapshot = (await after(1, FORKED, 7)).snapshot()
        assert snapshot.keys == ("A", "B")
        assert json.loads(snapshot.model_dump_json()) == {
            "version": 1,
            "graph_fingerprint": FORKED.graph().fingerprint,
            "states": [{"key": "A", "value": {"val": 7}}, {"key": "B", "value": {"val": 7}}],
            "collected": [],
            "agent": None,
            "pending": [],
            "suspended": None,
        }

    async def test_sorted_json_keys_keep_the_order_of_turns(self) -> None:
        """P-90: sorting the keys of JSON objects does not change the order of turns."""
        runtime = await after(2, FORKED)
        assert runtime.states == ("A", "B2")
        sorted_text = json.dumps(json.loads(runtime.snapshot().model_dump_json()), sort_keys=True)
        restored = FlowRuntime.from_snapshot(FORKED, FlowSnapshot.load(sorted_text))
        assert restored.states == ("A", "B2")

    @pytest.mark.parametrize("steps", range(4))
    async def test_restored_from_any_step_gives_same_output(self, steps: int) -> None:
        """P-91: continued from any step, including the first and last, the output is the same."""
        snapshot = through_json((await after(steps)).snapshot())
        assert await FlowRuntime.from_snapshot(CHAIN, snapshot).run(CTX) == Done(M("C")(val=21))

    async def test_restored_after_the_end_is_done(self) -> None:
        """P-91: restored after its end, a run is done at once."""
        snapshot = through_json((await after(2)).snapshot())
        assert await FlowRuntime.from_snapshot(CHAIN, snapshot).next(CTX) == Done(M("C")(val=21))

    async def test_snapshots_are_independent(self) -> None:
        """P-92: neither continuing nor changing a returned snapshot affects another one."""
        runtime = await after(1)
        taken, same = runtime.snapshot(), runtime.snapshot()
        taken.states[0].value["val"] = 99
        assert await runtime.next(CTX) == Continue()
        assert same.states[0].value == {"val": 20}
        assert runtime.snapshot().states[0].value == {"val": 21}
        other = await after(1, val=1)
        assert other.snapshot().states[0].value == {"val": 2}

    async def test_flow_of_restored_run_is_validated(self) -> None:
        """P-93: the flow of a restored run is validated like that of a new one."""
        snapshot = (await after(1)).snapshot()
        for nodes, problem in (
            ((W("A", "B"),), "does not match terminal state id 'B'"),
            ((E("A", "C", "Q"),), "exactly one terminal"),
            ((W("A", "A"),), "overwrite its own input"),
        ):
            with pytest.raises(Invalid, match=problem):
                FlowRuntime.from_snapshot(flow("A", "C", *nodes), snapshot)


class TestRefused:
    async def restored(self, **changes: object) -> FlowRuntime:
        data = json.loads((await after(1)).snapshot().model_dump_json()) | changes
        return FlowRuntime.from_snapshot(CHAIN, FlowSnapshot.load(json.dumps(data)))

    async def test_unknown_key(self) -> None:
        """P-97: a live key that is neither node nor output is an error with its name."""
        with pytest.raises(SnapLoadError, match="live state 'Q', which is neither a node nor the output"):
            await self.restored(states=[{"key": "Q", "value": {"val": 1}}])

    async def test_value_that_does_not_fit(self) -> None:
        """P-97: a value that does not fit its model is an error with its key."""
        with pytest.raises(SnapLoadError, match="state 'B': val: ") as caught:
            await self.restored(states=[{"key": "B", "value": {"val": "x"}}])
        assert caught.value.cause is not None

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"version": 2}, "version 2, expected 1"),
            ({"graph_fingerprint": "0"}, "its nodes have changed"),
            ({"states": []}, "no live state"),
            ({"states": [{"key": "B", "value": {"val": 1}}] * 2}, "'B' twice"),
            ({"collected": [{"key": "B", "results": []}]}, "results of 'B', which is not a live each"),
            ({"agent": {"agent": "Q", "session": "Q#1"}}, "stands in 'Q'"),
        ],
    )
    async def test_snapshot_of_another_flow(self, changes: dict[str, object], problem: str) -> None:
        """P-97: another version, another graph, or impossible content is refused."""
        with pytest.raises(SnapLoadError, match=problem):
            await self.restored(**changes)

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"states": 1}'])
    def test_text_that_is_no_snapshot(self, text: str) -> None:
        """P-97: text that is not a snapshot is refused."""
        with pytest.raises(SnapLoadError, match="not a snapshot of a flow"):
            FlowSnapshot.load(text)

    def test_fingerprint_depends_on_nodes_not_order(self) -> None:
        """P-97: the order of registration does not change the fingerprint, but other nodes do."""
        one = builder("A", "C", W("A", "B"), W("B", "C")).build()
        two = builder("A", "C", W("B", "C"), W("A", "B")).build()
        three = builder("A", "C", W("A", "D"), W("D", "C")).build()
        assert one.fingerprint == two.fingerprint != three.fingerprint
