"""Laws for every sequence of calls, results and switches."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine import ApprovalAnswer, GateManager, Rejection, ToolCall, create_gate_manager
from interlock.rules import compile_rules

from ...support.laws import examples
from .support.helpers import Operator, call, everything, net, result, tool

RULES = compile_rules(
    "map bash.command rm as delete\nmap bash.command cp as backup\n"
    "require backup before delete\nlimit delete to 2 per session\nlimit bash to 4 per go\n"
    "require human-approval before delete\nblock format\n"
    "after delete require human-approval before go\nblock backup after go"
)

NAMES = ["bash", "delete", "backup", "go", "format", "other"]
COMMANDS = ["ls", "rm x", "cp a b", "cp a b && rm c", None]
KEYS = list(RULES.registry)

calls = st.tuples(
    st.just("call"),
    st.sampled_from(NAMES),
    st.integers(0, 5),
    st.sampled_from(COMMANDS),
    st.sampled_from([True, False, "junk", None, ApprovalAnswer(True, input={"command": "rm z"})]),
)
results = st.tuples(st.just("result"), st.sampled_from(NAMES), st.integers(0, 5), st.booleans())
switches = st.tuples(st.sampled_from(["add", "remove"]), st.sampled_from(KEYS))
histories = st.lists(st.one_of(calls, results, switches), max_size=25)


async def happen(gate: GateManager, event: Any) -> Any:
    """Apply one event; return the decision if it is a call."""
    match event:
        case ("call", name, number, command, answer):
            made = call(name, str(number), **({} if command is None else {"command": command}))
            return await gate.handle_tool_call(made, Operator(answer).context)
        case ("result", name, number, is_error):
            return gate.handle_tool_result(result(name, str(number), is_error=is_error))
        case ("add", key):
            return gate.add_net(key)
        case ("remove", key):
            return gate.remove_net(key)
    raise AssertionError(event)


class TestLaws:
    """Laws for any history."""

    @given(histories)
    @settings(max_examples=examples(60), deadline=None)
    def test_blocks_and_limits_always_hold(self, history: list[Any]) -> None:
        """G-11, G-15: a blocked call changes nothing, no limit is overspent, and `block` always holds."""

        async def check() -> None:
            gate = create_gate_manager(dict(RULES.registry))
            deleted = 0
            for event in history:
                before, active = everything(gate), gate.active
                decision = await happen(gate, event)
                if event[0] != "call":
                    continue
                if decision.block:
                    assert everything(gate) == before
                else:
                    assert "block-format" not in active or event[1] != "format"
                    deleted += any(s.net == "limit-delete-2" for s in decision.steps)
                assert all(n >= 0 for _, marking, *_ in everything(gate) for n in marking.values())
            assert deleted <= 2

        asyncio.run(check())

    @given(histories)
    @settings(max_examples=examples(30), deadline=None)
    def test_classify_predicts_blocks(self, history: list[Any]) -> None:
        """G-10, G-11: a call that classify calls blocked is blocked, with the first such net's reason."""

        async def check() -> None:
            gate = create_gate_manager(dict(RULES.registry))
            for event in history:
                if event[0] != "call":
                    await happen(gate, event)
                    continue
                value = {} if event[3] is None else {"command": event[3]}
                verdicts = gate.classify(ToolCall(str(event[2]), event[1], value))
                assert [v.net for v in verdicts] == list(gate.active)
                blocked = [v.reason for v in verdicts if v.kind == "blocked"]
                decision = await happen(gate, event)
                if blocked and "already in use" not in str(decision.reason):
                    assert decision.reason == blocked[0]

        asyncio.run(check())

    @given(histories)
    @settings(max_examples=examples(30), deadline=None)
    def test_restored_gate_continues_identically(self, history: list[Any]) -> None:
        """G-63: a gate restored from another's state continues exactly like that one."""

        async def check() -> None:
            first = create_gate_manager(dict(RULES.registry))
            half = len(history) // 2
            for event in history[:half]:
                await happen(first, event)
            second = create_gate_manager(dict(RULES.registry))
            second.restore(
                markings={key: state.marking for key, state in first.states.items()},
                pending=[
                    (key, p.transition.name, p.tool, p.call)
                    for key, state in first.states.items()
                    for waiting in state.pending.values()
                    for p in waiting
                ],
                active=first.active,
            )
            for event in history[half:]:
                assert await happen(first, event) == await happen(second, event)
                assert everything(first) == everything(second)

        asyncio.run(check())

    @given(st.lists(st.sampled_from(["ok", "reject", "raise", "junk"]), min_size=1, max_size=6))
    @settings(max_examples=examples(60), deadline=None)
    def test_callbacks_never_allow_a_blocked_call(self, behaviours: list[str]) -> None:
        """G-59: a call passes only if every net's validator agrees; otherwise all `meta` is restored."""

        def validator(behaviour: str) -> Any:
            def validate(_call: object, _tool: str, _t: object, state: Any) -> Any:
                state.meta["seen"] = True
                match behaviour:
                    case "ok":
                        return None
                    case "reject":
                        return Rejection("no")
                    case "raise":
                        raise OSError
                return {"block": False}

            return validate

        gate = create_gate_manager(
            [net(f"n{i}", tool("x"), validate_tool_call=validator(b)) for i, b in enumerate(behaviours)]
        )
        decision = asyncio.run(gate.handle_tool_call(call("x")))
        allowed = set(behaviours) == {"ok"}
        assert decision.block is not allowed
        assert all(bool(state.meta) is allowed for state in gate.states.values())
