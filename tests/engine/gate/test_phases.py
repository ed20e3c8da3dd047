"""Verdicts and the four phases of a decision."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.engine import (
    ApprovalAnswer,
    GateContext,
    GateManager,
    NetError,
    Rejection,
    SequenceRule,
    ToolCall,
    Transition,
    classify_nets,
    create_gate_manager,
    create_gate_state,
    resolve_tool,
)

from .support.helpers import (
    Operator,
    call,
    counting,
    everything,
    manager,
    markings,
    net,
    reason,
    result,
    tool,
)


class TestVerdicts:
    """The verdict of one net on a call."""

    def test_four_kinds_of_verdict(self) -> None:
        """G-10: free, abstain, gated by the first enabled transition, or else blocked."""
        gate = net(
            "n",
            Transition("closed", ["q"], [], ["x", "shut"]),
            Transition("first", ["p"], ["p"], ["x"]),
            Transition("second", ["p"], ["p"], ["x"]),
            marking={"p": 1, "q": 0},
            free_tools=["ls"],
        )
        gate_manager = create_gate_manager([gate])
        found = {name: gate_manager.classify(call(name))[0] for name in ("ls", "other", "x", "shut")}
        assert {name: verdict.kind for name, verdict in found.items()} == {
            "ls": "free",
            "other": "abstain",
            "x": "gated",
            "shut": "blocked",
        }
        assert [step.transition.name for step in found["x"].steps] == ["first"]

    def test_free_wins_over_covered(self) -> None:
        """G-10: a free tool is free even if a transition covers it."""
        gate = create_gate_manager([net("n", Transition("t", ["p"], [], ["x"]), free_tools=["x"])])
        assert gate.classify(call("x"))[0].kind == "free"

    def test_classify_changes_nothing(self) -> None:
        """G-10: classifying changes nothing."""
        gate = manager("limit x to 1 per session")
        before = everything(gate)
        assert gate.classify(call("x")) == gate.classify(call("x"))
        assert everything(gate) == before

    def test_classify_nets_works_without_manager(self) -> None:
        """G-10: phase 1 works on nets and states without a manager."""
        nets = [net("a", tool("x")), net("b", tool("y"))]
        states = [create_gate_state({"p": 1}), create_gate_state({"p": 0})]
        assert [v.kind for v in classify_nets(nets, states, call("y"))] == ["abstain", "blocked"]
        with pytest.raises(ValueError, match="zip"):
            classify_nets(nets, states[:1], call("y"))

    def test_mapper_gives_the_nets_name(self) -> None:
        """G-1: a mapper gives the name by which a net knows a call."""
        mapped = net("n", tool("rm"), tool_mapper=lambda c: str(c.input["command"]).split()[0])
        assert resolve_tool(mapped, call("bash", command="rm -rf x")) == "rm"
        assert resolve_tool(net("m", tool("rm")), call("bash")) == "bash"

    async def test_callbacks_get_call_name_transition_and_state(self) -> None:
        """G-1: a validator and a hook get the call, resolved name, transition and the net's state."""
        told: list[tuple[object, ...]] = []

        def note(*given: object) -> None:
            told.append(given)

        deferred = Transition("t", ["p"], ["p"], ["rm"], deferred=True)
        made = net(
            "n",
            deferred,
            tool_mapper=lambda _: "rm",
            validate_tool_call=note,
            on_deferred_result=note,
        )
        gate = create_gate_manager([made])
        called = call("bash", command="rm x")
        await gate.handle_tool_call(called)
        gate.handle_tool_result(result("bash"))
        assert told == [(called, "rm", deferred, gate.states["n"])] * 2


class TestComposition:
    """Several nets, one decision."""

    async def test_first_block_gives_the_reason(self) -> None:
        """G-11: one blocked net rejects, and the first in active order gives the reason."""
        gate = manager("limit x to 9 per session\nblock x\nrequire a before x")
        decision = await gate.handle_tool_call(call("x"))
        assert decision.block
        assert decision.reason == "x is blocked and cannot be called."
        assert markings(gate)["limit-x-9"]["budget"] == 9

    async def test_call_without_objection_passes(self) -> None:
        """G-11: if all nets abstain or call it free, the call passes and nothing moves."""
        gate = create_gate_manager([net("n", tool("x"), free_tools=["ls"])])
        for name in ("ls", "unknown"):
            decision = await gate.handle_tool_call(call(name))
            assert (decision.outcome, decision.steps) == ("allow", ())

    async def test_no_nets_allow_everything(self) -> None:
        """G-11: without nets everything is allowed."""
        assert await reason(create_gate_manager([]), "anything") is None

    async def test_block_names_its_rule(self) -> None:
        """G-60: a block has the net and the rule with its file and line."""
        decision = await manager("# why\nrequire lint before test").handle_tool_call(call("test"))
        assert decision.net == "require-lint-before-test"
        assert isinstance(decision.rule, SequenceRule)
        assert decision.rule.source is not None
        assert (decision.rule.source.line, decision.rule.source.file) == (2, "<rules>")


class TestManual:
    """Approvals and their order."""

    async def test_blocked_without_confirm(self) -> None:
        """G-13: without confirm, a manual transition blocks."""
        gate = create_gate_manager([net("n", tool("x", type="manual"))])
        decision = await gate.handle_tool_call(call("x"), GateContext())
        assert (decision.reason, decision.net) == ("x requires human approval.", "n")

    async def test_request_names_tool_transition_and_net(self) -> None:
        """G-13: the request names tool, transition and net."""
        operator = Operator()
        gate = manager("require human-approval before deploy")
        assert not (await gate.handle_tool_call(call("deploy"), operator.context)).block
        assert [request.message for request in operator.asked] == [
            "Allow 'deploy' via transition 'approve' in net 'approve-before-deploy'?"
        ]

    async def test_each_gated_net_asks_once_in_order(self) -> None:
        """G-13: each gated net with a manual transition asks once, in active order."""
        operator = Operator()
        gate = create_gate_manager(
            [net("a", tool("x", type="manual")), net("b", tool("x")), net("c", tool("x", type="manual"))]
        )
        decision = await gate.handle_tool_call(call("x"), operator.context)
        assert [request.net for request in operator.asked] == ["a", "c"]
        assert [approval.net for approval in decision.approvals] == ["a", "c"]

    async def test_second_refusal_fires_no_net(self) -> None:
        """G-13: one refusal blocks, and the net that was approved does not fire."""
        operator = Operator(True, False)
        gate = create_gate_manager(
            [
                net("a", Transition("t", ["p"], [], ["x"], type="manual")),
                net("b", tool("x", type="manual")),
            ]
        )
        decision = await gate.handle_tool_call(call("x"), operator.context)
        assert (decision.reason, decision.net) == ("x was rejected by human review.", "b")
        assert markings(gate)["a"] == {"p": 1}

    async def test_blocked_calls_do_not_ask(self) -> None:
        """G-11: no request is made for a call that another net blocks."""
        operator = Operator()
        gate = manager("require human-approval before x\nblock x")
        assert (await gate.handle_tool_call(call("x"), operator.context)).block
        assert operator.asked == []


class TestValidators:
    """Phase 3: validators."""

    async def test_validators_run_after_approval(self) -> None:
        """G-14: validators run only after the approvals."""
        validated: list[str] = []
        gate = create_gate_manager(
            [
                net(
                    "n",
                    tool("x", type="manual"),
                    validate_tool_call=lambda c, *_: validated.append(c.tool_name),
                )
            ]
        )
        await gate.handle_tool_call(call("x"), Operator(False).context)
        assert validated == []
        await gate.handle_tool_call(call("x"), Operator(True).context)
        assert validated == ["x"]

    async def test_first_rejection_wins(self) -> None:
        """G-14: the first rejection in active order gives the reason, and all `meta` is restored."""
        gate = create_gate_manager(
            [
                net("a", tool("x"), validate_tool_call=counting("n")),
                net("b", tool("x"), validate_tool_call=counting("m", maximum=0)),
                net("c", tool("x"), validate_tool_call=counting("k", maximum=0)),
            ]
        )
        decision = await gate.handle_tool_call(call("x"))
        assert (decision.reason, decision.net) == ("x: m exceeded 0", "b")
        assert [state.meta for state in gate.states.values()] == [{}, {}, {}]

    async def test_later_validators_do_not_run(self) -> None:
        """G-14: after a rejection no other validator runs; nets that do not gate never validate."""
        heard: list[str] = []

        def validator(name: str, answer: Rejection | None = None) -> Callable[..., Rejection | None]:
            return lambda *_: heard.append(name) or answer

        gate = create_gate_manager(
            [
                net("free", tool("y"), free_tools=["x"], validate_tool_call=validator("free")),
                net("abstains", tool("y"), validate_tool_call=validator("abstains")),
                net("agrees", tool("x"), validate_tool_call=validator("agrees")),
                net("rejects", tool("x"), validate_tool_call=validator("rejects", Rejection("no"))),
                net("late", tool("x"), validate_tool_call=validator("late")),
            ]
        )
        assert await reason(gate, "x") == "no"
        assert heard == ["agrees", "rejects"]

    async def test_first_rejection_by_order_of_activation(self) -> None:
        """G-14: the first rejection is that of the net activated first, not of the one listed first."""
        nets = {
            key: net(key, tool("x"), validate_tool_call=lambda *_, key=key: Rejection(f"{key} says no"))
            for key in ("a", "b")
        }
        gate = create_gate_manager(registry=nets)
        assert await reason(gate, "x") == "a says no"
        gate.remove_net("a")
        gate.add_net("a")
        assert await reason(gate, "x") == "b says no"

    async def test_validator_waits_for_the_last_approval(self) -> None:
        """G-14: the validator of the first net waits for the last approval and sees its edit."""
        seen: list[object] = []
        operator = Operator(ApprovalAnswer(approved=True, input={"env": "staging"}))
        gate = create_gate_manager(
            [
                net("a", tool("x"), validate_tool_call=lambda c, *_: seen.append(c.input)),
                net("b", tool("x", type="manual")),
            ]
        )
        operator.before_answering = lambda: seen.append("asked")
        await gate.handle_tool_call(call("x", env="prod"), operator.context)
        assert seen == ["asked", {"env": "staging"}]

    async def test_meta_stays_when_allowed(self) -> None:
        """G-14: the `meta` that validators wrote stays if the call is allowed."""
        gate = create_gate_manager([net("a", tool("x"), validate_tool_call=counting("n"))])
        await reason(gate, "x")
        await reason(gate, "x", "2")
        assert gate.states["a"].meta == {"n": 2}

    async def test_deep_changes_of_meta_are_undone(self) -> None:
        """G-14: a rejection also undoes changes inside values of `meta`."""

        def validate(_call: ToolCall, _tool: str, _t: Transition, state: object) -> Rejection:
            state.meta["paths"].append("new")
            return Rejection("no")

        gate = create_gate_manager([net("a", tool("x"), validate_tool_call=validate)])
        gate.states["a"].meta["paths"] = ["old"]
        assert await reason(gate, "x") == "no"
        assert gate.states["a"].meta == {"paths": ["old"]}


class TestCommit:
    """Phase 4: commit."""

    async def test_all_nets_fire_or_none(self) -> None:
        """G-15: if one net's transition is gone at commit, no net fires and `meta` is restored."""
        gate: GateManager

        def take_the_token(*_: object) -> None:
            gate.states["b"].marking = {"p": 0}

        gate = create_gate_manager(
            [
                net("a", Transition("t", ["p"], [], ["x"]), validate_tool_call=counting("n")),
                net("b", Transition("t", ["p"], [], ["x"]), validate_tool_call=take_the_token),
            ]
        )
        decision = await gate.handle_tool_call(call("x"))
        assert decision.reason == "Tool 'x' is no longer available (state changed)."
        assert decision.net == "b"
        assert gate.states["a"].marking == {"p": 1}
        assert gate.states["a"].meta == {}

    async def test_gated_net_fires_and_advances(self) -> None:
        """G-15: a gated net fires, then its structural transitions."""
        gate = create_gate_manager(
            [
                net(
                    "n",
                    Transition("t", ["p"], ["q"], ["x"]),
                    Transition("s", ["q"], ["r"]),
                    marking={"p": 1, "q": 0, "r": 0},
                )
            ]
        )
        decision = await gate.handle_tool_call(call("x"))
        assert gate.states["n"].marking == {"p": 0, "q": 0, "r": 1}
        assert [(s.net, s.transition.name, s.tool) for s in decision.steps] == [("n", "t", "x")]

    async def test_deferred_waits(self) -> None:
        """G-15: a deferred transition is recorded under the call's id, and nothing moves."""
        gate = manager("require a before b")
        await gate.handle_tool_call(call("a", "c7"))
        state = gate.states["require-a-before-b"]
        assert [(p.transition.name, p.tool) for p in state.pending["c7"]] == [("do-a", "a")]
        assert state.marking["ready"] == 1

    async def test_deferred_is_not_rechecked(self) -> None:
        """G-15: a deferred transition that lost its token is still recorded, and dropped later."""

        def steal(_call: ToolCall, _tool: str, _t: Transition, state: object) -> None:
            state.marking = {"p": 0}

        gate = create_gate_manager([net("n", tool("x", deferred=True), validate_tool_call=steal)])
        assert await reason(gate, "x") is None
        assert [p.transition.name for p in gate.states["n"].pending["1"]] == ["x"]
        assert [step.net for step in gate.handle_tool_result(result("x")).dropped] == ["n"]

    async def test_structural_loop_at_commit_blocks(self) -> None:
        """G-61: a structural loop at commit blocks the call, and no net fires."""
        gate = create_gate_manager(
            [
                net(
                    "grow",
                    Transition("x", ["on"], ["p"], ["x"]),
                    Transition("loop", ["p"], ["p", "q"]),
                    marking={"on": 1, "p": 0, "q": 0},
                )
            ]
        )
        before = everything(gate)
        assert "do not come to rest" in str(await reason(gate, "x"))
        assert everything(gate) == before

    def test_structural_loop_at_start_is_an_error(self) -> None:
        """G-61: a structural loop in the initial marking is an immediate error."""
        with pytest.raises(NetError, match="net 'grow'"):
            create_gate_manager([net("grow", Transition("loop", ["p"], ["p", "p"]))])
