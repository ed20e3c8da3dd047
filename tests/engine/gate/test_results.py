"""Results, deferred transitions and replay."""

from __future__ import annotations

import pytest

from interlock.engine import (
    GateState,
    NetError,
    ReplayEntry,
    ToolCall,
    ToolResult,
    Transition,
    create_gate_manager,
)

from .support.helpers import (
    call,
    everything,
    manager,
    markings,
    net,
    reason,
    registry,
    result,
    succeed,
    tool,
)


class TestResults:
    """G-16: effects of a result."""

    def test_unknown_id(self) -> None:
        """G-16: a result of an unknown id changes nothing."""
        gate = manager("require a before b")
        before = everything(gate)
        record = gate.handle_tool_result(result("a"))
        assert (record.fired, record.dropped, record.anomaly) == ((), (), None)
        assert everything(gate) == before

    async def test_success_unlocks(self) -> None:
        """G-16: a success fires the deferred transition."""
        gate = manager("require a before b")
        await reason(gate, "a")
        record = gate.handle_tool_result(result("a"))
        assert [(s.net, s.transition.name, s.tool) for s in record.fired] == [
            ("require-a-before-b", "do-a", "a")
        ]
        assert await reason(gate, "b", "2") is None

    async def test_error_drops(self) -> None:
        """G-16: an error drops the pending entry and keeps the marking; a later success is ignored."""
        gate = manager("require a before b")
        await reason(gate, "a")
        before = markings(gate)
        record = gate.handle_tool_result(result("a", is_error=True))
        assert [step.transition.name for step in record.dropped] == ["do-a"]
        assert gate.handle_tool_result(result("a")).fired == ()
        assert markings(gate) == before

    async def test_second_success_on_one_token_is_dropped(self) -> None:
        """G-16: if two calls succeed on one token, the second is dropped."""
        gate = manager("require a before b")
        await reason(gate, "a", "1")
        await reason(gate, "a", "2")
        assert len(gate.handle_tool_result(result("a", "2")).fired) == 1
        assert len(gate.handle_tool_result(result("a", "1")).dropped) == 1
        assert markings(gate)["require-a-before-b"] == {"idle": 0, "ready": 0, "gate": 1}

    async def test_hook_runs_before_structural_transitions(self) -> None:
        """G-16: the token moves first, then the hook is called, then structural transitions fire."""
        seen: list[dict[str, int]] = []
        gate = create_gate_manager(
            [
                net(
                    "n",
                    Transition("t", ["p"], ["q"], ["x"], deferred=True),
                    Transition("s", ["q"], ["r"]),
                    marking={"p": 1, "q": 0, "r": 0},
                    on_deferred_result=lambda _c, _n, _t, state: seen.append(dict(state.marking)),
                )
            ]
        )
        await reason(gate, "x")
        gate.handle_tool_result(result("x"))
        assert seen == [{"p": 0, "q": 1, "r": 0}]
        assert markings(gate)["n"] == {"p": 0, "q": 0, "r": 1}

    async def test_hook_only_for_transitions_that_fire(self) -> None:
        """G-16: no hook is called for a failed call or for one that cannot fire any more."""
        seen: list[str] = []
        once = Transition("t", ["p"], [], ["x"], deferred=True)
        gate = create_gate_manager(
            [net("n", once, on_deferred_result=lambda c, *_: seen.append(c.tool_call_id))]
        )
        for number in ("1", "2", "3"):
            await reason(gate, "x", number)
        for number in ("1", "2", "3"):
            gate.handle_tool_result(result("x", number, is_error=number == "1"))
        assert seen == ["2"]

    async def test_inactive_net_gets_the_result(self) -> None:
        """G-17: a net that was switched off while the call ran still gets its result."""
        gate = registry("require a before b")
        await reason(gate, "a")
        gate.remove_net("require-a-before-b")
        assert len(gate.handle_tool_result(result("a")).fired) == 1
        assert markings(gate)["require-a-before-b"]["gate"] == 1

    async def test_hook_sees_the_calls_input(self) -> None:
        """G-53: a deferred hook gets the input of the call, not of the result."""
        seen: list[object] = []

        def hook(called: ToolCall, _tool: str, _t: Transition, state: GateState) -> None:
            seen.append(called.input["path"])
            state.meta["paths"] = list(seen)

        gate = create_gate_manager([net("n", tool("x", deferred=True), on_deferred_result=hook)])
        await gate.handle_tool_call(call("x", path="/data"))
        gate.handle_tool_result(ToolResult("1", "x", {"path": "/etc"}))
        assert seen == ["/data"]
        assert gate.states["n"].meta == {"paths": ["/data"]}

    async def test_structural_loop_drops_its_nets_part(self) -> None:
        """G-61: a structural loop on a result drops that net's part; other nets get the result."""
        places = {"p": 1, "q": 0}
        deferred = Transition("x", ["p"], ["q"], ["x"], deferred=True)
        gate = create_gate_manager(
            [
                net("grow", deferred, Transition("loop", ["q"], ["q", "p"]), marking=places),
                net("calm", deferred, marking=places),
            ]
        )
        await reason(gate, "x")
        record = gate.handle_tool_result(result("x"))
        assert ([s.net for s in record.dropped], [s.net for s in record.fired]) == (["grow"], ["calm"])
        assert markings(gate)["grow"] == places


class TestRules:
    """The rules' nets over a session."""

    async def test_prerequisite_may_run_again(self) -> None:
        """G-54: A may be called again while B is already unlocked."""
        gate = manager("require a before b")
        await succeed(gate, "a", "1")
        await succeed(gate, "a", "2")
        await succeed(gate, "b", "3")
        assert await reason(gate, "b", "4") == "b requires a successful call to a first."

    async def test_limit_refills_on_success(self) -> None:
        """G-55: a successful R restores the complete limit, a failed one nothing; R is never blocked."""
        gate = manager("limit a to 2 per r")
        await succeed(gate, "r", "0")
        for number in range(2):
            await succeed(gate, "a", f"a{number}")
        await reason(gate, "r", "1")
        gate.handle_tool_result(result("r", "1", is_error=True))
        assert await reason(gate, "a", "x") == "a has reached its limit of 2 calls per r."
        await succeed(gate, "r", "2")
        assert markings(gate)["limit-a-2-per-r"] == {"idle": 0, "ready": 1, "budget": 2, "spent": 0}


class TestReplay:
    """G-25: moving nets to the end of a history."""

    def test_successes_fire(self) -> None:
        """G-25: names are successful calls; deferred transitions fire at once."""
        gate = manager("require a before b\nlimit b to 2 per session")
        gate.replay(["a", "b", "a"])
        assert markings(gate)["require-a-before-b"]["gate"] == 1
        assert markings(gate)["limit-b-2"]["budget"] == 1

    def test_order_counts(self) -> None:
        """G-25: entries are applied in order, so a call that came too early has no effect."""
        gate = manager("require a before b\nrequire b before c")
        gate.replay(["b", "a"])
        assert markings(gate)["require-b-before-c"]["gate"] == 1
        assert markings(gate)["require-a-before-b"]["gate"] == 1
        gate.replay(["b"])
        assert markings(gate)["require-a-before-b"]["gate"] == 0

    def test_first_enabled_fires_and_the_net_advances(self) -> None:
        """G-25: the first enabled transition in definition order fires, then structural ones, once."""
        made = net(
            "n",
            Transition("shut", ["q"], ["r"], ["x"]),
            Transition("first", ["p"], ["q"], ["x", "y"]),
            Transition("second", ["p"], ["r"], ["x"]),
            Transition("rest", ["q", "q"], ["s"]),
            marking={"p": 2, "q": 0, "r": 0, "s": 0},
        )
        gate = create_gate_manager([made])
        gate.replay(["y"])
        assert markings(gate)["n"] == {"p": 1, "q": 1, "r": 0, "s": 0}
        gate.replay(["y"])
        assert markings(gate)["n"] == {"p": 0, "q": 0, "r": 0, "s": 1}

    def test_validators_are_not_asked(self) -> None:
        """G-25: validators are not called for a history."""
        gate = create_gate_manager(
            [net("n", Transition("t", ["p"], [], ["x"]), validate_tool_call=lambda *_: 1 // 0)]
        )
        gate.replay(["x"])
        assert markings(gate) == {"n": {"p": 0}}

    def test_each_active_net_by_its_own_name(self) -> None:
        """G-25: a hand-written mapper gives the name that moves its net."""
        spend = Transition("t", ["p"], [], ["rm"])
        nets = [
            net("mapped", spend, tool_mapper=lambda c: str(c.input.get("command", "none"))),
            net("plain", Transition("t", ["p"], [], ["bash"])),
        ]
        gate = create_gate_manager(nets)
        gate.replay([ReplayEntry("bash", {"command": "ls"}), ReplayEntry("bash", {"command": "rm"})])
        assert markings(gate) == {"mapped": {"p": 0}, "plain": {"p": 0}}

    def test_failures_are_skipped(self) -> None:
        """G-25: failed calls move nothing."""
        gate = manager("limit a to 2 per session")
        before = everything(gate)
        gate.replay([ReplayEntry("a", is_error=True)])
        assert everything(gate) == before

    def test_blocked_net_is_skipped_and_others_move(self) -> None:
        """G-25: a call that one net would block still moves the others."""
        gate = manager("block b\nlimit b to 2 per session\nrequire a before b")
        gate.replay(["b"])
        assert markings(gate)["limit-b-2"]["budget"] == 1

    def test_manual_transitions_fire_without_request(self) -> None:
        """G-25: manual transitions fire without a request."""
        gate = create_gate_manager([net("n", Transition("t", ["p"], [], ["x"], type="manual"))])
        gate.replay(["x"])
        assert markings(gate) == {"n": {"p": 0}}

    def test_inactive_nets_stay(self) -> None:
        """G-25: only active nets are moved."""
        gate = registry("limit a to 2 per session", active=[])
        gate.replay(["a"])
        assert markings(gate)["limit-a-2"]["budget"] == 2

    def test_names_come_from_input(self) -> None:
        """G-25, G-50: an entry's names come from its input."""
        gate = manager("map bash.command lint as lint\nrequire lint before test")
        gate.replay([ReplayEntry("bash", {"command": "lint src"})])
        assert markings(gate)["require-lint-before-test"]["gate"] == 1

    def test_deferred_hooks_get_the_entrys_input(self) -> None:
        """G-25: deferred hooks get the entry's input."""
        seen: list[object] = []
        made = net("n", tool("x", deferred=True), on_deferred_result=lambda c, *_: seen.append(c.input))
        create_gate_manager([made]).replay([ReplayEntry("x", {"path": "/a"}), "x"])
        assert seen == [{"path": "/a"}, {}]

    def test_failing_mapper_is_an_error(self) -> None:
        """A history with a failing mapper raises instead of being skipped."""
        gate = create_gate_manager([net("n", tool("x"), tool_mapper=lambda c: str(c.input["nope"]))])
        with pytest.raises(NetError, match="n: tool_mapper failed"):
            gate.replay(["x"])
