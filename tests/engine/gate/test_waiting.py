"""Events that may happen while an approver decides."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine import (
    ApprovalAnswer,
    ApprovalRequest,
    GateContext,
    GateManager,
    Transition,
    create_gate_manager,
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
    registry,
    result,
    tool,
)


class TestAsking:
    """Requests and answers."""

    async def test_identical_rules_ask_once(self) -> None:
        """G-43: identical rules make one request per call, and its answer counts for all."""
        operator = Operator()
        gate = manager("require human-approval before x\n\nrequire human-approval before x")
        decision = await gate.handle_tool_call(call("x"), operator.context)
        assert decision.outcome == "allow"
        assert len(operator.asked) == 1
        assert [step.net for step in decision.steps] == ["approve-before-x", "approve-before-x#2"]

    async def test_request_has_everything(self) -> None:
        """A request has the call, all its names, the marking and the rule with its line."""
        operator = Operator()
        gate = manager("map bash.command deploy as deploy\nrequire human-approval before deploy")
        await gate.handle_tool_call(call("bash", command="deploy prod"), operator.context)
        (request,) = operator.asked
        assert request.call.input == {"command": "deploy prod"}
        assert (request.tool, request.names) == ("deploy", ("deploy", "bash"))
        assert request.marking == {"idle": 0, "ready": 1}
        assert request.rule is not None
        assert request.rule.source is not None
        assert request.rule.source.line == 2
        assert request.title == "Approve: deploy"

    async def test_refusal_with_reason(self) -> None:
        """The reason of a refusal reaches the model."""
        gate = manager("require human-approval before x")
        operator = Operator(ApprovalAnswer(approved=False, reason="freeze until Monday", by="maria"))
        decision = await gate.handle_tool_call(call("x"), operator.context)
        assert decision.reason == "x was rejected by human review: freeze until Monday"
        assert decision.approvals[0].answer.by == "maria"

    async def test_async_confirm(self) -> None:
        """The confirm callback may be async."""

        async def confirm(_request: ApprovalRequest) -> bool:
            await asyncio.sleep(0)
            return True

        gate = manager("require human-approval before x")
        assert (await gate.handle_tool_call(call("x"), GateContext(confirm))).outcome == "allow"


class TestEditing:
    """An answer may change the input."""

    async def test_edited_input_runs(self) -> None:
        """The decision has the edited call, which is classified again without another request."""
        operator = Operator(ApprovalAnswer(approved=True, input={"env": "staging"}))
        gate = manager("require human-approval before x")
        decision = await gate.handle_tool_call(call("x", env="prod"), operator.context)
        assert decision.outcome == "allow"
        assert decision.call.input == {"env": "staging"}
        assert len(operator.asked) == 1

    async def test_edited_into_a_block(self) -> None:
        """An edit that another net forbids is blocked with that net's reason."""
        operator = Operator(ApprovalAnswer(approved=True, input={"command": "rm x"}))
        gate = manager("map bash.command rm as delete\nblock delete\nrequire human-approval before bash")
        decision = await gate.handle_tool_call(call("bash", command="ls"), operator.context)
        assert decision.reason == "delete is blocked and cannot be called."

    async def test_edit_may_need_another_approval(self) -> None:
        """An edit that concerns another net also needs that net's approval."""
        operator = Operator(ApprovalAnswer(approved=True, input={"command": "deploy"}), True)
        gate = manager(
            "map bash.command deploy as deploy\n"
            "require human-approval before bash\nrequire human-approval before deploy"
        )
        decision = await gate.handle_tool_call(call("bash", command="ls"), operator.context)
        assert [request.tool for request in operator.asked] == ["bash", "deploy"]
        assert operator.asked[1].call.input == {"command": "deploy"}
        assert decision.outcome == "allow"

    @pytest.mark.parametrize("value", ["rm", ["rm"], 3])
    async def test_edit_must_be_an_object(self, value: object) -> None:
        """G-59: an edited input that is no object blocks."""
        operator = Operator(ApprovalAnswer(approved=True, input=value))
        decision = await manager("require human-approval before x").handle_tool_call(
            call("x"), operator.context
        )
        assert "confirm failed" in str(decision.reason)

    async def test_refused_edit_is_not_applied(self) -> None:
        """A refusal does not change the input."""
        operator = Operator(ApprovalAnswer(approved=False, input={"env": "staging"}))
        gate = manager("require human-approval before x")
        decision = await gate.handle_tool_call(call("x", env="prod"), operator.context)
        assert decision.call.input == {"env": "prod"}

    async def test_changing_input_during_request_has_no_effect(self) -> None:
        """Changing the given input during the request does not change what runs."""
        operator = Operator()
        shared: dict[str, object] = {"paths": ["a"]}

        def tamper() -> None:
            shared["paths"].append("/")
            shared["force"] = True

        operator.before_answering = tamper
        gate = manager("require human-approval before x")
        decision = await gate.handle_tool_call(call("x", **shared), operator.context)
        assert decision.call.input == {"paths": ["a"]}


class TestChangingMeanwhile:
    """G-58: after an answer, the call is classified again."""

    async def test_token_spent_during_request_blocks(self) -> None:
        """G-15, G-58: a token spent during the request blocks, and `meta` is restored."""
        operator = Operator()
        gate = create_gate_manager(
            [
                net("m", Transition("go", ["p"], [], ["go"], type="manual"),
                    validate_tool_call=counting("n")),
            ]
        )  # fmt: skip
        operator.before_answering = lambda: gate.states["m"].marking.update(p=0)
        decision = await gate.handle_tool_call(call("go"), operator.context)
        assert decision.reason == "Tool 'go' is no longer available (state changed)."
        assert gate.states["m"].meta == {}

    async def test_deferred_is_rechecked(self) -> None:
        """G-58: a deferred transition that lost its token during the request also blocks."""
        operator = Operator()
        gate = create_gate_manager(
            [net("m", Transition("go", ["p"], [], ["go"], type="manual", deferred=True))]
        )
        operator.before_answering = lambda: gate.states["m"].marking.update(p=0)
        assert (await gate.handle_tool_call(call("go"), operator.context)).block

    async def test_net_activated_during_request_blocks(self) -> None:
        """G-58: a net that is switched on during the request blocks with its own reason."""
        operator = Operator()
        gate = registry("require human-approval before x\nblock x", active=["approve-before-x"])
        operator.before_answering = lambda: gate.add_net("block-x")
        decision = await gate.handle_tool_call(call("x"), operator.context)
        assert decision.reason == "x is blocked and cannot be called."

    async def test_net_switched_off_during_request_is_ignored(self) -> None:
        """G-58: a net that is switched off during the request does not count and does not move."""
        operator = Operator()
        gate = registry("require human-approval before x\nlimit x to 1 per session")
        operator.before_answering = lambda: gate.remove_net("limit-x-1")
        decision = await gate.handle_tool_call(call("x"), operator.context)
        assert decision.outcome == "allow"
        assert [step.net for step in decision.steps] == ["approve-before-x"]
        assert markings(gate)["limit-x-1"]["budget"] == 1

    async def test_rule_activated_during_request_asks(self) -> None:
        """G-58: an approval rule that is switched on during the request also asks."""
        operator = Operator(True, False)
        gate = registry(
            "require human-approval before x\n"
            "map x.a b as y\nrequire human-approval before y", active=["approve-before-x"]
        )  # fmt: skip
        operator.before_answering = lambda: gate.add_net("approve-before-y")
        decision = await gate.handle_tool_call(call("x", a="b"), operator.context)
        assert decision.reason == "y was rejected by human review."

    async def test_mode_change_applies_to_next_call(self) -> None:
        """A call that waits when shadow mode begins still needs its answer."""
        operator = Operator(False)
        gate = manager("require human-approval before x")

        def shadow() -> None:
            gate.mode = "shadow"

        operator.before_answering = shadow
        assert (await gate.handle_tool_call(call("x"), operator.context)).block


class Desk:
    """An operator who answers when told to."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[bool]] = []
        self._asked: asyncio.Queue[None] = asyncio.Queue()

    async def confirm(self, _request: ApprovalRequest) -> bool:
        answer = asyncio.get_running_loop().create_future()
        self.waiting.append(answer)
        self._asked.put_nowait(None)
        return await answer

    async def until_asked(self, times: int) -> None:
        for _ in range(times):
            await self._asked.get()


class TestIds:
    """G-53: one id, one call."""

    async def test_pending_id(self) -> None:
        """G-53: the id of a call that awaits its result is refused, and that call is unaffected."""
        gate = manager("require a before b")
        await reason(gate, "a", "c1")
        before = everything(gate)
        assert await reason(gate, "b", "c1") == "Tool call id 'c1' is already in use."
        assert everything(gate) == before

    async def test_waiting_id(self) -> None:
        """G-53: the id of a call that waits for approval is refused, and free again afterwards."""
        desk = Desk()
        gate = manager("require human-approval before x")
        first = asyncio.create_task(gate.handle_tool_call(call("x"), GateContext(desk.confirm)))
        await desk.until_asked(1)
        assert await reason(gate, "free", "1") == "Tool call id '1' is already in use."
        assert await reason(gate, "free", "1") == "Tool call id '1' is already in use."
        desk.waiting[0].set_result(True)
        assert (await first).outcome == "allow"
        assert await reason(gate, "free", "1") is None

    async def test_id_is_free_after_its_result(self) -> None:
        """G-53: an id may be used again after its call has ended."""
        gate = manager("require a before b")
        for _ in range(2):
            assert await reason(gate, "a", "c1") is None
            gate.handle_tool_result(result("a", "c1"))

    async def test_result_of_another_tool_changes_nothing(self) -> None:
        """G-53: a result that names another tool is an anomaly and changes nothing."""
        gate = manager("require a before b")
        await reason(gate, "a", "c1")
        before = everything(gate)
        record = gate.handle_tool_result(result("b", "c1"))
        assert record.anomaly == "Result of 'c1' names tool 'b', its call was to 'a'."
        assert record.fired == record.dropped == ()
        assert everything(gate) == before


class TestConcurrency:
    """Many calls at once."""

    async def test_cancelled_while_waiting(self) -> None:
        """Cancelling a waiting call releases its id and fires nothing."""
        desk = Desk()
        gate = manager("require human-approval before x\nlimit x to 1 per session")
        before = everything(gate)
        waiting = asyncio.create_task(gate.handle_tool_call(call("x"), GateContext(desk.confirm)))
        await desk.until_asked(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert everything(gate) == before
        assert (await gate.handle_tool_call(call("x"), Operator().context)).outcome == "allow"

    async def test_budget_is_not_overspent(self) -> None:
        """G-58, G-68: of many calls at once, as many are requested and run as the limit allows."""
        desk = Desk()
        gate = manager("require human-approval before x\nlimit x to 3 per session")
        calls = [
            asyncio.create_task(gate.handle_tool_call(call("x", str(i)), GateContext(desk.confirm)))
            for i in range(10)
        ]
        await desk.until_asked(3)
        for answer in reversed(desk.waiting):
            answer.set_result(True)
        decisions = await asyncio.gather(*calls)
        assert len(desk.waiting) == 3
        assert sum(decision.outcome == "allow" for decision in decisions) == 3
        assert markings(gate)["limit-x-3"]["budget"] == 0

    async def test_threads_do_not_overspend(self) -> None:
        """Calls from several threads spend each token once."""
        gate: GateManager = manager("limit x to 40 per session")

        def calls(worker: int) -> int:
            async def run() -> int:
                return sum([await reason(gate, "x", f"{worker}-{i}") is None for i in range(30)])

            return asyncio.run(run())

        allowed = await asyncio.gather(*(asyncio.to_thread(calls, worker) for worker in range(4)))
        assert sum(allowed) == 40

    async def test_unrelated_calls_pass(self) -> None:
        """A waiting call does not delay other calls."""
        desk = Desk()
        gate = create_gate_manager([net("n", tool("x", type="manual"), tool("y"))])
        waiting = asyncio.create_task(gate.handle_tool_call(call("x"), GateContext(desk.confirm)))
        await desk.until_asked(1)
        assert await reason(gate, "y", "2") is None
        desk.waiting[0].set_result(False)
        assert (await waiting).block
