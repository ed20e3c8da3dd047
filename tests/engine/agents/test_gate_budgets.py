"""The cost of a call in the nets: charged if it runs, and not charged otherwise."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine import (
    ApprovalAnswer,
    GateContext,
    GateDecision,
    GateManager,
    ToolCall,
    create_gate_manager,
)
from interlock.engine.agents import C, Deny, Hooks, Override, T, ToolCallEvent
from interlock.engine.agents.gating import ManagerGate
from interlock.rules import compile_rules

from .gates import Log
from .script import Slow, Watched, noted, watched

OTHER = Override(args={"text": "other"})


def nets(rules: str) -> GateManager:
    return create_gate_manager(registry=compile_rules(rules).registry)


def tokens(gate: GateManager, net: str) -> dict[str, int]:
    return {place: n for place, n in gate.states[net].marking.items() if n}


async def turn_with_overrides(rules: str, *calls: str, ran: list[str]) -> Watched:
    """Return a finished turn with calls of `note`, each with overridden arguments."""
    replies = [C(**{call: ("note", {"text": call})}) for call in calls]
    w = await watched(*replies, T("ok"), tools=[noted(ran)], gate=nets(rules))
    w.session.on("tool_call", lambda event: OTHER)
    await w.say("go")
    return w


class TestOverridden:
    async def test_budget_counts_calls_that_ran(self) -> None:
        """A-40: of three overridden calls under a budget of two, the first two run."""
        ran: list[str] = []
        w = await turn_with_overrides("limit note to 2 per session", "c1", "c2", "c3", ran=ran)
        assert ran == ["other", "other"]
        assert 'result c3 err "note has reached its limit of 2 calls per session."' in w.seen

    async def test_override_passes_a_budget_of_one(self) -> None:
        """A-40: with a budget of one, a hook that overrides does not block the call."""
        ran: list[str] = []
        hooks = Hooks(before_tool_call=lambda event: OTHER)
        gate = nets("limit note to 1 per session")
        w = await watched(
            C(c1=("note", {"text": "x"})), T("ok"), tools=[noted(ran)], gate=gate, hooks=hooks
        )
        assert 'result c1 ok "noted other"' in await w.say("go")
        assert tokens(gate, "limit-note-1") == {"ready": 1}

    async def test_overridden_calls_in_one_step(self) -> None:
        """A-40: the same holds for overridden calls in one step."""
        ran: list[str] = []
        gate = nets("limit note to 2 per session")
        w = await watched(
            C(c1=("note", {}), c2=("note", {}), c3=("note", {})), T("ok"), tools=[noted(ran)], gate=gate
        )
        w.session.on("tool_call", lambda event: OTHER)
        seen = await w.say("go")
        assert ran == ["other", "other"]
        assert 'result c3 err "note has reached its limit of 2 calls per session."' in seen

    async def test_invalid_override_costs_nothing(self) -> None:
        """A-46: an override with invalid arguments costs nothing."""
        gate = nets("limit note to 1 per session")
        w = await watched(C(c1=("note", {})), C(c2=("note", {})), T("ok"), tools=[noted([])], gate=gate)
        wrong = Override(args={"wrong": 1})
        w.session.on("tool_call", lambda event: wrong if event.call_id == "c1" else None)
        assert 'result c2 ok "noted "' in await w.say("go")


class TestDenied:
    RULES = "require test before deploy"

    @pytest.mark.parametrize("how", ["deny", "raise"])
    async def test_denied_call_keeps_its_token(self, how: str) -> None:
        """A-40: a call that a listener stopped can run later without a new prerequisite."""
        gate = nets(self.RULES)
        ran: list[str] = []
        tools = [noted(ran, name) for name in ("test", "deploy")]
        # The run of a listener that raises ends with its step.
        said = [T("no")] if how == "deny" else []
        replies = [C(c1=("test", {})), C(c2=("deploy", {})), *said, C(c3=("deploy", {})), T("ok")]
        w = await watched(*replies, tools=tools, gate=gate)
        denying = True

        def listener(event: ToolCallEvent) -> Deny | None:
            if not denying or event.name != "deploy":
                return None
            if how == "raise":
                raise RuntimeError("listener broke")
            return Deny(reason="later")

        w.session.on("tool_call", listener)
        w.session.send("go")
        if how == "raise":
            with pytest.raises(RuntimeError, match="listener broke"):
                await w.session.wait_for_idle()
        else:
            await w.session.wait_for_idle()
        assert tokens(gate, "require-test-before-deploy") == {"gate": 1}
        assert len(ran) == 1
        denying = False
        await w.say("again")
        assert len(ran) == 2
        assert tokens(gate, "require-test-before-deploy") == {"ready": 1}

    async def test_invalid_edit_costs_nothing(self) -> None:
        """A-40, A-46: an operator's invalid edit costs nothing."""
        manager = nets("limit note to 1 per session\nrequire human-approval before note")
        answers = [ApprovalAnswer(True, input={"wrong": 1}), ApprovalAnswer(True)]

        class Asks:
            context = GateContext(confirm=lambda request: answers.pop(0))

            def block_text(self, tool: str, reason: str) -> str:
                return reason

            def failed(self, tool: str, text: str) -> bool:
                return False

            def new_manager(self) -> GateManager:
                return manager

        gate = ManagerGate(manager, Asks())
        w = await watched(C(c1=("note", {})), C(c2=("note", {})), T("ok"), tools=[noted([])], gate=gate)
        seen = await w.say("go")
        assert 'result c2 ok "noted "' in seen
        assert sum("err" in line for line in seen) == 1


class TestNeverStarted:
    async def test_call_aborted_before_start_costs_nothing(self) -> None:
        """A-96: an allowed call that an abort kept from starting costs nothing."""
        gate = nets("limit note to 2 per session")
        w = await watched(C(c1=("note", {}), c2=("note", {})), T("never"), tools=[noted([])], gate=gate)
        w.session.on("tool_call", lambda e: w.session.abort() if e.call_id == "c2" else None)
        await w.say("go")
        assert tokens(gate, "limit-note-2") == {"ready": 1, "budget": 2}

    async def test_call_withdrawn_during_listener_costs_nothing(self) -> None:
        """A-78: a call that was withdrawn while its listener decided costs nothing."""
        gate = nets("limit note to 1 per session")
        w = await watched(C(c1=("note", {})), T("ok"), tools=[noted([])], gate=gate)
        thinking = asyncio.Event()

        async def person(event: ToolCallEvent) -> None:
            thinking.set()
            await asyncio.Event().wait()

        w.session.on("tool_call", person)
        w.session.send("go")
        await thinking.wait()
        w.session.send("STEER")
        await w.session.wait_for_idle()
        assert tokens(gate, "limit-note-1") == {"ready": 1, "budget": 1}

    async def test_tool_stopped_after_start_stays_charged(self) -> None:
        """G-16: a started tool that was stopped stays charged, because its effects are unknown."""
        gate = nets("limit slow to 1 per session")
        slow = Slow()
        w = await watched(C(c1=("slow", {})), T("never"), tools=[slow.tool], gate=gate)
        w.session.send("go")
        await slow.started.wait()
        w.session.abort()
        await w.session.wait_for_idle()
        assert tokens(gate, "limit-slow-1") == {"ready": 1}

    async def test_gate_undoes_only_unstarted_calls(self) -> None:
        """A-40: the gate is told to undo steps only for calls that never started, with the steps."""
        manager = nets("limit note to 9 per session")
        undo: list[tuple[str, list[str]]] = []

        class Told(Log):
            async def decide(self, call: ToolCall) -> GateDecision:
                decision = await manager.handle_tool_call(call)
                return decision

            async def settle(self, result: object, output: str, seconds: float) -> object:
                undo.append((result.tool_call_id, [s.transition.name for s in result.undo]))
                return await super().settle(result, output, seconds)

        def listener(event: ToolCallEvent) -> object:
            return {"c2": Deny(reason="no"), "c3": OTHER}.get(event.call_id)

        w = await watched(
            C(c1=("note", {}), c2=("note", {}), c3=("note", {})), T("ok"), tools=[noted([])], gate=Told()
        )
        w.session.on("tool_call", listener)
        await w.say("go")
        assert undo == [("c2", ["do-note"]), ("c3", ["do-note"]), ("c1", []), ("c3", [])]
