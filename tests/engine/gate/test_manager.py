"""Managers: static and dynamic nets, messages, shadow mode, restoring and listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from interlock.engine import (
    ApprovalAnswer,
    GateDecision,
    NetError,
    ToolCall,
    Transition,
    create_gate,
    create_gate_manager,
)
from interlock.rules import compile_rules

from .support.helpers import (
    Operator,
    call,
    counting,
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


class TestStatic:
    """G-20: a fixed list of nets."""

    def test_no_switching(self) -> None:
        """G-20: nets of a static manager cannot be switched."""
        gate = manager("block x")
        assert not gate.is_dynamic
        for change in (gate.add_net, gate.remove_net):
            toggled = change("block-x")
            assert (toggled.ok, toggled.message) == (
                False,
                "Static composition does not support dynamic nets",
            )

    def test_status(self) -> None:
        """G-20: the status has one line per net."""
        assert manager("block x\nlimit y to 2 per session").format_status() == (
            "block-x: ready:1\nlimit-y-2: ready:1, budget:2"
        )

    def test_repeated_names(self) -> None:
        """G-43: a second net of the same name has the key name#2 and is shown by its name."""
        gate = manager("block x\nblock x\nblock x")
        assert gate.active == tuple(gate.nets) == ("block-x", "block-x#2", "block-x#3")
        assert [active.name for active in gate.get_active_nets()] == ["block-x"] * 3

    @pytest.mark.parametrize("nets", [["block x"], [None], "block x", 3])
    def test_value_that_is_no_net_is_refused(self, nets: Any) -> None:
        """A value that is no net is refused at once."""
        with pytest.raises((NetError, TypeError)):
            create_gate_manager(nets)

    def test_dict_for_a_net_is_refused(self) -> None:
        """G-3: a net written as a dict is refused, and the error says what is expected."""
        made: Any = {"name": "n", "places": ["p"]}
        with pytest.raises(
            NetError, match=r"made by define_skill_net, got a dict; write define_skill_net"
        ):
            create_gate_manager([made])
        alone: Any = compile_rules("block x").nets[0]
        with pytest.raises(NetError, match="got the net 'block-x' alone: put it in a list"):
            create_gate_manager(alone)

    def test_active_needs_a_registry(self) -> None:
        """A static manager accepts no list of active nets."""
        with pytest.raises(NetError, match="needs a registry"):
            create_gate_manager([], active=[])

    def test_exactly_one_of_list_and_registry(self) -> None:
        """Exactly one of a list and a registry must be given."""
        for arguments in ({}, {"nets": [], "registry": {}}):
            with pytest.raises(NetError, match="either a list of nets or a registry"):
                create_gate_manager(**arguments)


class TestRegistry:
    """G-21: nets that are switched at run time."""

    def test_all_by_default(self) -> None:
        """G-21: without `active`, every net starts active."""
        assert registry("block x\nblock y").active == ("block-x", "block-y")
        assert create_gate_manager(compile_rules("block x").registry).is_dynamic

    def test_registry_and_active_in_one_mapping(self) -> None:
        """G-21: a registry and its active keys can be given in one mapping; `active` is optional."""
        nets = compile_rules("block x\nblock y").registry
        assert create_gate_manager({"registry": nets, "active": ["block-y"]}).active == ("block-y",)
        assert create_gate_manager({"registry": nets}).active == ("block-x", "block-y")
        assert create_gate_manager({"registry": nets}, active=["block-x"]).active == ("block-x",)
        guard = create_gate({"registry": nets, "active": ["block-y"]})
        assert guard.new_manager().active == ("block-y",)

    def test_nets_under_these_keys(self) -> None:
        """G-21: a registry may have nets with the keys `registry` and `active`."""
        first, second = compile_rules("block x\nblock y").nets
        gate = create_gate_manager({"registry": first, "active": second})
        assert gate.active == ("registry", "active")
        assert create_gate_manager({"registry": first}).active == ("registry",)

    @pytest.mark.parametrize(
        ("config", "options", "expected"),
        [
            ({"active": ["block-y"]}, {"active": ["block-x"]}, "'active' is given twice"),
            ({"mode": "shadow"}, {}, "'mode' does not belong beside 'registry' and 'active'"),
            ({"registry": ["block-x"]}, {}, "'registry' must be a mapping from key to net"),
            ({"active": ["block-z"]}, {}, "Unknown nets in active: 'block-z'"),
        ],
    )
    def test_faulty_argument(
        self, config: dict[str, Any], options: dict[str, Any], expected: str
    ) -> None:
        """G-21: such a mapping has only these two keys."""
        nets: Any = {"registry": compile_rules("block x\nblock y").registry, **config}
        with pytest.raises(NetError, match=expected):
            create_gate_manager(nets, **options)

    def test_unknown_active(self) -> None:
        """G-21: a misspelt name in `active` is an error that names it."""
        with pytest.raises(NetError, match=r"Unknown nets in active: 'blok-x'\. Available: block-x"):
            registry("block x", active=["blok-x"])

    def test_each_change_has_its_own_message(self) -> None:
        """G-21: each change has its own message."""
        gate = registry("block x\nblock y", active=["block-x"])
        changes: list[tuple[Callable[[str], Any], str, bool, str]] = [
            (gate.add_net, "block-y", True, "Activated 'block-y'"),
            (gate.add_net, "block-y", False, "'block-y' is already active"),
            (gate.remove_net, "block-x", True, "Deactivated 'block-x' (state preserved)"),
            (gate.remove_net, "block-x", False, "'block-x' is not active. Active: block-y"),
            (gate.add_net, "block-x", True, "Activated 'block-x'"),
            (gate.remove_net, "z", False, "'z' is not active. Active: block-y, block-x"),
            (gate.add_net, "z", False, "Unknown net 'z'. Available: block-x, block-y"),
            (gate.remove_net, "block-x", True, "Deactivated 'block-x' (state preserved)"),
            (gate.remove_net, "block-y", True, "Deactivated 'block-y' (state preserved)"),
            (gate.remove_net, "block-y", False, "'block-y' is not active. Active: "),
        ]
        for change, name, ok, message in changes:
            toggled = change(name)
            assert (toggled.ok, toggled.message) == (ok, message)

    async def test_nets_are_in_order_of_activation(self) -> None:
        """G-22: a net that is switched on again goes last, and so does its reason."""
        gate = registry("block x\nrequire a before x")
        assert await reason(gate, "x") == "x is blocked and cannot be called."
        gate.remove_net("block-x")
        gate.add_net("block-x")
        assert gate.active == ("require-a-before-x", "block-x")
        assert await reason(gate, "x") == "x requires a successful call to a first."

    async def test_state_is_kept(self) -> None:
        """G-21: a net that is switched on again keeps its state."""
        gate = registry("limit x to 2 per session")
        await succeed(gate, "x")
        gate.remove_net("limit-x-2")
        assert await reason(gate, "x", "2") is None
        gate.add_net("limit-x-2")
        assert markings(gate)["limit-x-2"]["budget"] == 1

    def test_status(self) -> None:
        """G-21: the status has all nets in registry order, active or not."""
        gate = registry("block x\nlimit y to 2 per session", active=["limit-y-2"])
        assert gate.format_status() == (
            "block-x (inactive): ready:1\nlimit-y-2 (active): ready:1, budget:2"
        )

    def test_one_net_twice(self) -> None:
        """One net under two keys has two states."""
        made = net("n", tool("x"))
        gate = create_gate_manager(registry={"a": made, "b": made})
        assert gate.states["a"] is not gate.states["b"]


class TestPrompt:
    """G-24: the system prompt for the model."""

    def test_one_section_per_active_net(self) -> None:
        """G-24: one section per active net, with a blank line between."""
        gate = create_gate_manager(
            [net("files", tool("write"), tool("edit"), free_tools=["ls", "cat"]), net("none")]
        )
        assert gate.format_system_prompt() == (
            "## Active Petri Nets (composed)\n"
            "### files\nAvailable gated tools: write, edit\nFree tools: ls, cat\nState: p:1\n"
            "\n"
            "### none\nAvailable gated tools: none\nFree tools: \nState: p:1"
        )

    async def test_shows_active_nets_with_present_marking(self) -> None:
        """G-24: active nets in the order of activation, with their present marking and enabled tools."""
        gate = registry("require lint before test\nlimit test to 2 per session\nblock rm")
        await succeed(gate, "lint")
        gate.remove_net("block-rm")
        gate.remove_net("require-lint-before-test")
        gate.add_net("require-lint-before-test")
        assert gate.format_system_prompt() == (
            "## Active Petri Nets (composed)\n"
            "### limit-test-2\nAvailable gated tools: test\nFree tools: \nState: ready:1, budget:2\n"
            "\n"
            "### require-lint-before-test\nAvailable gated tools: lint, test\nFree tools: \n"
            "State: gate:1"
        )

    def test_shows_nets_by_name(self) -> None:
        """G-24, G-43: nets are shown by name; without nets only the title remains."""
        shown = manager("block x\nblock x").format_system_prompt()
        assert shown.count("### block-x\n") == 2
        assert create_gate_manager([]).format_system_prompt() == "## Active Petri Nets (composed)\n"


class TestOnDecision:
    """G-23: a listener for every decision."""

    async def test_called_once_per_call(self) -> None:
        """G-23: on_decision is called once per call, with the decision of enforce mode."""
        heard: list[tuple[str, str, str | None]] = []
        gate = manager(
            "block x\nrequire a before b",
            on_decision=lambda c, d: heard.append((c.tool_call_id, d.outcome, d.reason)),
        )
        await reason(gate, "x", "1")
        await reason(gate, "a", "2")
        await reason(gate, "a", "2")
        gate.mode = "shadow"
        await reason(gate, "x", "3")
        assert heard == [
            ("1", "block", "x is blocked and cannot be called."),
            ("2", "allow", None),
            ("2", "block", "Tool call id '2' is already in use."),
            ("3", "block", "x is blocked and cannot be called."),
        ]

    async def test_as_enforce_mode_decides(self) -> None:
        """G-23: in shadow mode the listener's decision blocks although the call runs."""
        heard: list[GateDecision] = []
        gate = manager("block x", mode="shadow", on_decision=lambda _, d: heard.append(d))
        decision = await gate.handle_tool_call(call("x"))
        assert (decision.block, heard[0].block, heard[0].outcome) == (False, True, "block")

    async def test_async_listener_is_awaited(self) -> None:
        """G-23: an async listener is awaited before the decision is returned; its errors are logged."""
        heard: list[str] = []

        async def listen(_: ToolCall, decision: GateDecision) -> None:
            await asyncio.sleep(0)
            heard.append(decision.outcome)
            raise OSError

        gate = manager("block x", on_decision=listen)
        assert (await gate.handle_tool_call(call("y"))).outcome == "allow"
        assert heard == ["allow"]

    async def test_call_cancelled_during_listener_uses_no_token(self) -> None:
        """G-23: a call that is cancelled during an async listener uses no token."""

        async def listen(*_: object) -> None:
            await asyncio.Event().wait()

        gate = manager("limit x to 1 per session", on_decision=listen)
        task = asyncio.ensure_future(gate.handle_tool_call(call("x")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert markings(gate)["limit-x-1"]["budget"] == 1

    def test_listener_in_a_synchronous_call(self, caplog: pytest.LogCaptureFixture) -> None:
        """G-23: in a synchronous call, a listener that would wait is run up to there; the tool runs."""
        heard: list[str] = []

        async def listen(_: ToolCall, decision: GateDecision) -> None:
            heard.append(decision.outcome)
            await asyncio.sleep(1)

        tools = create_gate([net("n", tool("x"))], on_decision=listen).wrap_tools({"x": lambda: "ran"})
        assert tools.tools["x"]() == "ran"
        assert heard == ["allow"]
        assert "on_decision failed" in caplog.text

    async def test_call_with_several_requests_is_announced_once(self) -> None:
        """G-23: a call with two requests and an edit is announced once, when it is decided."""
        heard: list[tuple[dict[str, object], str]] = []
        operator = Operator(ApprovalAnswer(approved=True, input={"n": 2}), True)
        operator.before_answering = lambda: heard.append(({}, "asked"))
        gate = create_gate_manager(
            [net("a", tool("x", type="manual")), net("b", tool("x", type="manual"))],
            on_decision=lambda c, d: heard.append((dict(c.input), d.outcome)),
        )
        await gate.handle_tool_call(call("x", n=1), operator.context)
        assert heard == [({}, "asked"), ({}, "asked"), ({"n": 2}, "allow")]

    async def test_results_and_switches_are_no_decisions(self) -> None:
        """G-23: only calls are announced; in shadow mode also with the outcome `ask`."""
        heard: list[str] = []
        rules = "require human-approval before x\nrequire y before z"
        gate = registry(rules, on_decision=lambda _, d: heard.append(d.outcome))
        gate.mode = "shadow"
        await gate.handle_tool_call(call("x"), Operator().context)
        await succeed(gate, "y")
        gate.remove_net("approve-before-x")
        gate.replay(["y"])
        assert heard == ["ask", "allow"]


class TestShadow:
    """G-57: shadow mode reports the outcome of enforce mode without asking or blocking."""

    async def test_never_blocks(self) -> None:
        """G-57: the outcome is that of enforce mode, but the call may run."""
        decision = await manager("block x", mode="shadow").handle_tool_call(call("x"))
        assert (decision.outcome, decision.block, decision.mode) == ("block", False, "shadow")
        assert (decision.net, decision.reason) == ("block-x", "x is blocked and cannot be called.")

    async def test_outcome_is_ask_without_a_request(self) -> None:
        """G-57: the outcome is `ask` if enforce mode would ask; the manual transition fires anyway."""
        operator = Operator()
        once = Transition("t", ["p"], [], ["x"], type="manual")
        gate = create_gate_manager([net("n", once)], mode="shadow")
        decision = await gate.handle_tool_call(call("x"), operator.context)
        assert (decision.outcome, decision.net, operator.asked) == ("ask", "n", [])
        assert [step.transition.name for step in decision.steps] == ["t"]
        assert markings(gate) == {"n": {"p": 0}}

    async def test_outcome_is_block_without_an_approver(self) -> None:
        """G-13, G-57: if enforce mode would block for lack of an approver, the outcome is `block`."""
        gate = manager("require human-approval before x", mode="shadow")
        decision = await gate.handle_tool_call(call("x"))
        assert (decision.outcome, decision.reason) == ("block", "x requires human approval.")

    async def test_blocked_call_moves_nothing(self) -> None:
        """G-57: a blocked call moves no net, and its result unlocks nothing."""
        gate = manager("block x\nlimit x to 2 per session\nrequire x before y", mode="shadow")
        decision = await gate.handle_tool_call(call("x"))
        assert (decision.outcome, decision.steps) == ("block", ())
        assert markings(gate)["limit-x-2"]["budget"] == 2
        gate.handle_tool_result(result("x"))
        assert (await gate.handle_tool_call(call("y", "2"))).outcome == "block"

    async def test_call_after_a_blocked_one_stays_blocked(self) -> None:
        """G-57: a call that a blocked call would have unlocked stays blocked, as in enforce mode."""
        rules = "require lint before test\nrequire test before deploy"
        for mode in ("enforce", "shadow"):
            gate = manager(rules, mode=mode)
            outcomes = [(await gate.handle_tool_call(call("test", "1"))).outcome]
            gate.handle_tool_result(result("test", "1"))
            outcomes.append((await gate.handle_tool_call(call("deploy", "2"))).outcome)
            assert outcomes == ["block", "block"], mode

    async def test_call_with_outcome_ask_unlocks(self) -> None:
        """G-57: a call with outcome `ask` counts as approved, and its result unlocks."""
        gate = manager("require human-approval before x\nrequire x before y", mode="shadow")
        assert (await gate.handle_tool_call(call("x"), Operator().context)).outcome == "ask"
        gate.handle_tool_result(result("x"))
        assert (await gate.handle_tool_call(call("y", "2"))).outcome == "allow"

    async def test_rejecting_validator_moves_no_net(self) -> None:
        """G-57: if one net's validator rejects, no net moves and every `meta` is restored."""
        gate = create_gate_manager(
            [
                net("a", Transition("t", ["p"], [], ["x"]), validate_tool_call=counting("n", 0)),
                net("b", Transition("t", ["p"], [], ["x"]), validate_tool_call=counting("n")),
            ],
            mode="shadow",
        )
        decision = await gate.handle_tool_call(call("x"))
        assert (decision.outcome, decision.net) == ("block", "a")
        assert markings(gate) == {"a": {"p": 1}, "b": {"p": 1}}
        assert [state.meta for state in gate.states.values()] == [{}, {}]

    async def test_rejected_after_approval(self) -> None:
        """G-57: a call that would be approved and then rejected has the outcome `block`."""
        net_ = net(
            "a",
            Transition("t", ["p"], [], ["x"], type="manual"),
            validate_tool_call=counting("n", 0),
        )
        gate = create_gate_manager([net_], mode="shadow")
        decision = await gate.handle_tool_call(call("x"), Operator().context)
        assert (decision.outcome, decision.steps) == ("block", ())

    def test_unknown_mode(self) -> None:
        """A misspelt mode is an error and does not change the mode."""
        gate = manager("block x")
        for mode in ("Shadow", "", None):
            with pytest.raises(ValueError, match="mode is 'enforce' or 'shadow'"):
                gate.mode = mode
        assert gate.mode == "enforce"


class TestRestore:
    """Restoring a gate to the state of a record."""

    async def test_restores_the_complete_state(self) -> None:
        """G-63: `restore` sets markings, pending calls, active nets and mode."""
        rules = "require a before b\nlimit c to 3 per session\nblock d"
        first = registry(rules)
        await succeed(first, "c", "0")
        await reason(first, "a", "7")
        first.remove_net("block-d")
        first.mode = "shadow"
        second = registry(rules)
        second.restore(
            markings=markings(first),
            pending=[
                (key, pending.transition.name, pending.tool, pending.call)
                for key, state in first.states.items()
                for calls in state.pending.values()
                for pending in calls
            ],
            active=first.active,
            mode=first.mode,
        )
        assert everything(second) == everything(first)
        assert (second.active, second.mode) == (first.active, first.mode)
        assert second.handle_tool_result(result("a", "7")) == first.handle_tool_result(result("a", "7"))
        assert markings(second) == markings(first)

    async def test_pending_is_replaced(self) -> None:
        """`pending` replaces the pending calls; without it they stay."""
        gate = registry("require a before b")
        await reason(gate, "a", "1")
        gate.restore(markings={})
        assert await reason(gate, "a", "1") == "Tool call id '1' is already in use."
        gate.restore(pending=[])
        assert gate.states["require-a-before-b"].pending == {}
        assert await reason(gate, "a", "1") is None

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"markings": {"nope": {}}}, "Unknown net 'nope'"),
            ({"markings": {"block-x": {"nope": 1}}}, "has no place 'nope'"),
            ({"active": ["nope"]}, "Unknown nets in active: 'nope'"),
            ({"pending": [("block-x", "nope", "x", ToolCall("1", "x"))]}, "no transition 'nope'"),
            ({"pending": [("nope", "do-x", "x", ToolCall("1", "x"))]}, "Unknown net 'nope'"),
        ],
    )
    def test_wrong_record_changes_nothing(self, wrong: dict[str, Any], message: str) -> None:
        """A record with other nets is an error and leaves the gate unchanged."""
        gate = registry("block x\nblock y")
        before = (everything(gate), gate.active, gate.mode)
        rest = {"markings": {"block-y": {"ready": 0}}, "active": [], "mode": "shadow", "pending": []}
        with pytest.raises(NetError, match=message):
            gate.restore(**{**rest, **wrong})
        assert (everything(gate), gate.active, gate.mode) == before
