"""Every shortcut of the gate has the same result as the complete evaluation."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from typing import Any, cast
from unittest.mock import AsyncMock, patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine import (
    GateManager,
    NetError,
    SkillNet,
    ToolCall,
    ToolCallBlockedError,
    ToolResult,
    Transition,
    create_gate,
    create_gate_manager,
    define_skill_net,
)
from interlock.engine.gate.wrapping.arguments import CallableInput
from interlock.engine.gate.wrapping.wrap import GateSession
from interlock.engine.net.net import auto_advance, fire, fire_and_advance, is_enabled
from interlock.rules import compile_rules
from tests.support.laws import examples

from ..support.helpers import call, everything, result

PLACES = ("p", "q", "r")
TOOLS = ("a", "b", "c")

LIMIT = compile_rules("limit x to 3 per session").registry

places = st.lists(st.sampled_from(PLACES), max_size=3)
transfers = st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(PLACES)), max_size=1)
tokens = st.dictionaries(st.sampled_from(PLACES), st.integers(0, 3))


class Renames:
    """Name calls of `a` with an even id also `b`; `renames` declares that only `a` is renamed."""

    renames = frozenset({"a"})

    def __call__(self, made: ToolCall) -> tuple[str, ...]:
        if made.tool_name == "a" and made.tool_call_id in "024":
            return ("b", "a")
        return (made.tool_name,)


def undeclared(made: ToolCall) -> tuple[str, ...]:
    """Name calls of `c` also `b`, without declaring it."""
    return ("b", "c") if made.tool_name == "c" else (made.tool_name,)


RENAMES = Renames()


@st.composite
def nets(draw: st.DrawFn, name: str = "n") -> SkillNet:
    """Any small net: deferred, structural and transferring transitions, free tools, other names."""
    transitions = [
        Transition(
            f"t{number}",
            draw(places),
            draw(places),
            tools := tuple(draw(st.lists(st.sampled_from(TOOLS), max_size=2, unique=True))),
            deferred=bool(tools) and draw(st.booleans()),
            transfers=tuple(draw(transfers)),
        )
        for number in range(draw(st.integers(1, 4)))
    ]
    return define_skill_net(
        name,
        places=PLACES,
        transitions=transitions,
        initial_marking=draw(tokens),
        free_tools=draw(st.lists(st.sampled_from(TOOLS), max_size=1)),
        call_names=draw(st.sampled_from([None, None, RENAMES, RENAMES, undeclared])),
    )


def outcome(function: Any, *args: Any) -> Any:
    """Return the result of a function, or the text of its NetError."""
    try:
        return function(*args)
    except NetError as problem:
        return str(problem)


class TestFireAndAdvance:
    """Firing and advancing in one function."""

    @patch("interlock.engine.net.net.MAX_STRUCTURAL_ROUNDS", 50)
    @given(nets(), tokens)
    @settings(max_examples=examples(200), deadline=None)
    def test_equals_fire_then_advance(self, net: SkillNet, marking: dict[str, int]) -> None:
        """G-4, G-61: it returns the same as firing and then advancing, or None if not enabled."""

        def both(transition: Transition) -> Any:
            if not is_enabled(marking, transition):
                return None
            return auto_advance(net, fire(marking, transition))

        before = dict(marking)
        for transition in net.transitions:
            assert outcome(fire_and_advance, net, marking, transition) == outcome(both, transition)
        assert marking == before


class TestPassAtOnce:
    """All phases at once, for calls without an approver or validator."""

    @patch("interlock.engine.net.net.MAX_STRUCTURAL_ROUNDS", 50)
    @given(
        st.lists(nets(), min_size=1, max_size=3),
        st.lists(
            st.tuples(
                st.sampled_from(["call", "result", "failure"]),
                st.sampled_from([*TOOLS, "other"]),
                st.integers(0, 3),
            ),
            max_size=15,
        ),
    )
    @settings(max_examples=examples(150), deadline=None)
    def test_equals_the_four_phases(self, made: list[SkillNet], history: list[Any]) -> None:
        """G-10 … G-16, G-50: any history has the same decisions, markings and pending calls."""
        try:
            short = create_gate_manager(made)
        except NetError:
            return
        long, asked = create_gate_manager(made), create_gate_manager(made)
        long._roster.lanes.clear()
        long._roster.opaque = True

        async def happen(gate: GateManager, kind: str, tool: str, number: int) -> Any:
            if kind == "call":
                return await gate.handle_tool_call(call(tool, str(number)))
            return gate.handle_tool_result(result(tool, str(number), is_error=kind == "failure"))

        async def happen_at_once(gate: GateManager, kind: str, tool: str, number: int) -> Any:
            passed = gate.pass_at_once(call(tool, str(number))) if kind == "call" else None
            return passed or await happen(gate, kind, tool, number)

        async def check() -> None:
            for event in history:
                decided = await happen(long, *event)
                assert await happen(short, *event) == decided
                assert await happen_at_once(asked, *event) == decided
                assert everything(short) == everything(long) == everything(asked)

        asyncio.run(check())

    @pytest.mark.parametrize(
        "gate",
        [
            create_gate_manager(compile_rules("block x").registry),
            create_gate_manager(compile_rules("require human-approval before x").registry),
            create_gate_manager(compile_rules("map x.command rm as y\nblock y").registry),
            create_gate_manager(LIMIT, mode="shadow"),
            create_gate_manager(LIMIT, on_decision=lambda *_: None),
            GateManager(LIMIT, record=AsyncMock()),
        ],
        ids=["blocked", "asked about", "mapped", "in shadow", "told", "recorded"],
    )
    def test_call_that_others_must_see_gets_none(self, gate: GateManager) -> None:
        """G-10 … G-16, G-57: a call that an approver, listener or record must see gets None."""
        before = everything(gate)
        assert gate.pass_at_once(call("x")) is None
        assert everything(gate) == before

    @pytest.mark.parametrize("tool", ["deploy", "lint"])
    def test_unmapped_tools_take_the_shortcut(self, tool: str) -> None:
        """G-50: under rules with maps, calls of tools that no map renames still take the shortcut."""
        limits = [f"limit {limited} to 3 per session" for limited in ("deploy", "bash", "git")]
        rules = ["map bash.command rm as delete", "block delete", "block git.push", *limits]
        gate = create_gate_manager(compile_rules("\n".join(rules)).registry)
        assert gate.pass_at_once(call(tool, "1")) is not None
        assert gate.pass_at_once(call("bash", "2", command="rm -r .")) is None
        assert gate.pass_at_once(call("git", "3", action="push")) is None

    def test_id_in_use_does_not_take_the_shortcut(self) -> None:
        """G-53: a call whose id awaits a result does not take the shortcut again."""
        gate = create_gate_manager(compile_rules("require x before y").registry)
        assert gate.pass_at_once(call("x", "1")) is not None
        assert gate.pass_at_once(call("x", "1")) is None
        assert gate.pass_at_once(call("other", "1")) is None

    def test_moves_of_unexecuted_call_are_undone(self) -> None:
        """A-40: the moves of a call that took the shortcut and never ran are undone."""
        gate = create_gate_manager(LIMIT)
        before = everything(gate)
        passed = gate.pass_at_once(call("x", "1"))
        assert passed is not None
        assert everything(gate) != before
        gate.handle_tool_result(ToolResult("1", "x", {}, is_error=True, undo=passed.steps))
        assert everything(gate) == before

    async def test_threads_never_overspend(self) -> None:
        """G-15: calls from several threads share one limit exactly."""
        budget = define_skill_net(
            "budget",
            places=["left"],
            transitions=[Transition("spend", ["left"], [], ["x"])],
            initial_marking={"left": 500},
        )
        gate = create_gate_manager([budget])
        allowed: list[int] = []

        def spend(worker: int) -> None:
            async def some() -> int:
                made = [await gate.handle_tool_call(call("x", f"{worker}-{n}")) for n in range(300)]
                return sum(not decision.block for decision in made)

            allowed.append(asyncio.run(some()))

        workers = [threading.Thread(target=spend, args=(n,)) for n in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert sum(allowed) == 500
        assert gate.states["budget"].marking == {"left": 0}


def two(a: object, b: object = 2) -> None: ...
def by_keyword(a: object, *, b: object, c: object = 3) -> None: ...
def by_position(a: object, /, b: object = 2) -> None: ...
def anything(a: object, *rest: object, **more: object) -> None: ...
def nothing() -> None: ...


class TestNamedArguments:
    """Reading a call's input without a `Signature`."""

    @given(
        st.sampled_from([two, by_keyword, by_position, anything, nothing]),
        st.lists(st.integers(), max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "c", "z"]), st.integers(), max_size=3),
    )
    @settings(max_examples=examples(200), deadline=None)
    def test_arguments_match_the_signature(
        self, function: Any, args: list[int], kwargs: dict[str, int]
    ) -> None:
        """G-30: the gate sees the function's arguments, and refuses those the function would refuse."""
        reader = CallableInput("tool", function, whole=False)
        given = (tuple(args), dict[str, object](kwargs))
        try:
            bound = inspect.signature(function).bind(*args, **kwargs)
        except TypeError as misfit:
            with pytest.raises(TypeError, match=f"^{re.escape(str(misfit))}$"):
                reader.read(given)
            return
        bound.apply_defaults()
        expected = {**bound.arguments, **bound.arguments.get("more", {})}
        expected.pop("more", None)
        if not expected.get("rest", True):
            del expected["rest"]
        seen = reader.read(given)
        assert list(seen.items()) == list(expected.items())


class TestWrappedTools:
    """Wrapped tools whose calls take the shortcut."""

    @pytest.mark.parametrize("wrapped", ["at once", "async"])
    def test_same_results_as_the_complete_evaluation(self, wrapped: str) -> None:
        """G-30: calls have the same results, reasons and moves as with the complete evaluation."""

        def tool(path: str) -> str:
            return path

        async def async_tool(path: str) -> str:
            return path

        used = tool if wrapped == "at once" else async_tool

        async def outcomes(session: GateSession[Any]) -> list[object]:
            seen: list[object] = []
            for name in ("y", "x", "y", "y", "other", "x", "z", "z", "z", "y"):
                try:
                    value = session.tools[name]("f")
                    seen.append(await value if inspect.isawaitable(value) else value)
                except ToolCallBlockedError as blocked:
                    seen.append(str(blocked).partition(blocked.tool_call_id)[0])
                seen.append({key: dict(s.marking) for key, s in session.manager.states.items()})
            return seen

        rules = compile_rules("require x before y\nlimit z to 2 per session").nets
        tools = dict.fromkeys(("x", "y", "z", "other"), used)
        short, long = (create_gate(rules).wrap_tools(tools) for _ in range(2))
        with patch.object(GateManager, "pass_at_once", return_value=None):
            expected = asyncio.run(outcomes(long))
        assert asyncio.run(outcomes(short)) == expected
        assert sum(isinstance(each, str) and "blocked" in each for each in expected) == 3

    def test_failing_shortcut_blocks_the_call(self) -> None:
        """G-59: a call on which the shortcut fails does not run."""
        ran: list[str] = []
        session = create_gate(LIMIT).wrap_tools({"x": lambda: ran.append("x")})
        session.manager._roster.lanes = cast("Any", None)
        session.manager._roster.unknown_tools = cast("Any", None)
        with pytest.raises(ToolCallBlockedError):
            session.tools["x"]()
        assert ran == []


class TestMadeUpIds:
    """Calls without an id."""

    def test_ids_are_unique(self) -> None:
        """G-53: generated ids are unique within a session and across sessions."""
        seen: list[str] = []
        gate = create_gate([], on_decision=lambda made, _: seen.append(made.tool_call_id))
        for _ in range(3):
            tool = gate.wrap_tools({"x": lambda: None}).tools["x"]
            for _ in range(20):
                tool()
        assert len(set(seen)) == 60
        assert all(call_id.startswith("call-") for call_id in seen)
