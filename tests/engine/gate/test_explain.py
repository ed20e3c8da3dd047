"""`explain`: the verdict of every net on a call, and the shortest way to have it allowed."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine import GateContext, GateManager, ToolResult, Transition, create_gate_manager
from interlock.engine.verify import Never, Unknown, Way
from interlock.rules import compile_rules

from ...support.laws import examples
from .support.helpers import call, everything, manager, net

APPROVE = GateContext(confirm=lambda _: True)


async def make_successful_calls(gate: GateManager, *tools: str, **fields: Any) -> None:
    """Make calls that are approved and succeed."""
    for tool in tools:
        made = call(tool, "done", **fields)
        assert not (await gate.handle_tool_call(made, APPROVE)).block
        gate.handle_tool_result(ToolResult("done", tool))


def explained_way(gate: GateManager, tool: str, **fields: Any) -> str:
    return str(gate.explain(call(tool, **fields)).way)


RULES = "require lint before test\nrequire test before deploy\nrequire human-approval before deploy"


class TestVerdicts:
    """The verdict, marking and rule of each net."""

    def test_one_entry_per_active_net(self) -> None:
        """G-10, G-60: one entry per active net, in order, with its rule's file and line."""
        explained = manager(RULES).explain(call("test"))
        assert [(n.net, n.verdict.kind, n.marking, n.where) for n in explained.nets] == [
            ("require-lint-before-test", "blocked", {"idle": 0, "ready": 1, "gate": 0}, "<rules>:1"),
            ("require-test-before-deploy", "gated", {"idle": 0, "ready": 1, "gate": 0}, "<rules>:2"),
            ("approve-before-deploy", "abstain", {"idle": 0, "ready": 1}, "<rules>:3"),
        ]
        assert explained.outcome == "block"

    def test_allowed(self) -> None:
        """An allowed call needs no way."""
        explained = manager(RULES).explain(call("lint"))
        assert (explained.outcome, explained.way) == ("allow", None)

    def test_all_names(self) -> None:
        """G-50: verdicts and the way consider every name of the call."""
        gate = manager(
            "map bash.command deploy as deploy\nrequire test before deploy\nlimit bash to 3 per session"
        )
        explained = gate.explain(call("bash", command="deploy now"))
        assert explained.names == ("deploy", "bash")
        assert str(explained.way) == "test → deploy"

    def test_explaining_changes_nothing(self) -> None:
        """Explaining makes no request and moves nothing."""
        gate = manager(RULES)
        before = everything(gate)
        gate.explain(call("deploy"))
        assert everything(gate) == before

    def test_inactive_nets_do_not_count(self) -> None:
        """G-21: a net that is switched off does not count."""
        rules = compile_rules("block rm\nrequire look before rm")
        gate = create_gate_manager(registry=rules.registry)
        assert isinstance(gate.explain(call("rm")).way, Never)
        gate.remove_net("block-rm")
        assert explained_way(gate, "rm") == "look → rm"


class TestWay:
    """The calls that would have to happen first."""

    async def test_way_starts_from_present_markings(self) -> None:
        """The way starts from the present markings, and approvals are marked."""
        gate = manager(RULES)
        assert explained_way(gate, "deploy") == "lint → test → deploy (approval)"
        await make_successful_calls(gate, "lint")
        assert explained_way(gate, "deploy") == "test → deploy (approval)"
        await make_successful_calls(gate, "test")
        assert gate.explain(call("deploy")).outcome == "ask"
        assert explained_way(gate, "deploy") == "deploy (approval)"

    async def test_spent_limit_is_refilled_or_never(self) -> None:
        """A spent limit is refilled by its own tool, or never."""
        gate = manager("limit a to 1 per session\nlimit b to 1 per c\nrequire d before c")
        await make_successful_calls(gate, "a", "b")
        assert gate.explain(call("a")).way == Never(("limit-a-1",))
        assert explained_way(gate, "b") == "d → c → b"

    def test_all_forbidding_nets_are_named(self) -> None:
        """All nets that together forbid a call are named."""
        gate = manager("require a before b\nrequire b before a\nlimit z to 2 per session")
        assert gate.explain(call("a")).way == Never(("require-a-before-b", "require-b-before-a"))

    def test_failing_mapper_leaves_way_unknown(self) -> None:
        """G-59: if a mapper raises, the call is blocked and the way is unknown."""

        def broken(_: object) -> str:
            raise RuntimeError("no")

        gate = create_gate_manager(
            [net("n", Transition("t", ("p",), ("p",), ("x",)), tool_mapper=broken)]
        )
        explained = gate.explain(call("x"))
        assert explained.outcome == "block"
        assert explained.way == Unknown()

    def test_failing_call_may_be_part_of_the_way(self) -> None:
        """In hand-built nets a failing call may be part of the way; it is marked."""
        gate = create_gate_manager(
            [
                net(
                    "opens",
                    Transition("try", ("shut",), ("open",), ("try",)),
                    Transition("go", ("open",), ("open",), ("go",)),
                    marking={"shut": 1, "open": 0},
                ),
                net(
                    "keeps",
                    Transition("done", ("fresh",), ("used",), ("try",), deferred=True),
                    Transition("go", ("fresh",), ("fresh",), ("go",)),
                    marking={"fresh": 1, "used": 0},
                ),
            ]
        )
        assert explained_way(gate, "go") == "try (fails) → go"


LINES = [
    "require a before b",
    "require b before c",
    "require c before a",
    "require a before c",
    "limit a to 1 per session",
    "limit b to 2 per c",
    "limit c to 1 per b",
    "require human-approval before c",
    "block d",
    "block b after c",
    "after a require human-approval before b",
    "require d before b",
]


class TestLaw:
    """Laws for any history."""

    @given(
        st.lists(st.sampled_from(LINES), min_size=1, max_size=5, unique=True),
        st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=6),
        st.sampled_from("abcd"),
    )
    @settings(max_examples=examples(80), deadline=None)
    def test_following_the_way_allows_the_call(
        self, lines: list[str], history: list[tuple[str, bool]], goal: str
    ) -> None:
        """Following the way allows the call; with `Never`, none of the tried histories allows it."""

        async def check() -> None:
            gate = manager("\n".join(lines))
            for tool, fails in history:
                await gate.handle_tool_call(call(tool, "1"), APPROVE)
                gate.handle_tool_result(ToolResult("1", tool, is_error=fails))
            explained = gate.explain(call(goal))
            decision = await blocked_after(gate, [], goal)
            assert (explained.outcome == "block") == decision
            match explained.way:
                case Way(calls):
                    assert not await blocked_after(gate, [c.names[0] for c in calls[:-1]], goal)
                case Never():
                    for tools in ("abcabc", "bcabca", "cabcab", "aabbcc", "ababab", "bcbcbc", "acacac"):
                        assert await blocked_after(gate, list(tools), goal)
                case other:
                    assert other is None
                    assert explained.outcome == "allow"

        asyncio.run(check())


async def blocked_after(gate: GateManager, tools: list[str], goal: str) -> bool:
    """Return whether `goal` is blocked after those calls, and restore the gate."""
    before = {key: dict(state.marking) for key, state in gate.states.items()}
    for tool in tools:
        await gate.handle_tool_call(call(tool, "1"), APPROVE)
        gate.handle_tool_result(ToolResult("1", tool))
    decision = await gate.handle_tool_call(call(goal, "1"), APPROVE)
    gate.restore(markings=before, pending=())
    return decision.block
