"""Changes that a `confirm` callback makes to its request do not affect the call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.engine import ApprovalAnswer, ApprovalRequest, GateContext, handle_tool_call
from interlock.engine.net.net import initial_state
from interlock.rules import compile_rules

from .support.helpers import call, gate, manager

RULES = "require human-approval before deploy"


def original_input() -> dict[str, Any]:
    return {"env": "staging", "to": ["a", {"b": 1}], "pair": ([1], {2}), "raw": bytearray(b"x")}


def change_input(request: ApprovalRequest) -> None:
    """Change every mutable part of a request's input."""
    value: Any = request.call.input
    value["to"][1]["b"] = "changed"
    value["to"].append("changed")
    value["pair"][0].append("changed")
    value["pair"][1].add("changed")
    value["raw"].extend(b"changed")
    value["env"] = "prod"
    value["more"] = "changed"


class TestTitleAndMessage:
    """G-69: `confirm(title, message)` works as well as `confirm(request)`."""

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_two_parameters_receive_title_and_message(self, is_async: bool) -> None:
        """G-69: two positional parameters receive the title and message of the request."""
        asked: list[tuple[str, str]] = []

        def confirm(title: str, message: str) -> bool:
            asked.append((title, message))
            return True

        async def later(title: str, message: str) -> bool:
            await asyncio.sleep(0)
            return confirm(title, message)

        context = GateContext(later if is_async else confirm)
        decision = await manager(RULES).handle_tool_call(call("deploy"), context)
        assert decision.outcome == "allow"
        assert asked == [
            (
                "Approve: deploy",
                "Allow 'deploy' via transition 'approve' in net 'approve-before-deploy'?",
            )
        ]

    async def test_single_net_passes_title_and_message(self) -> None:
        """G-69: a single net supports this, too; an optional second parameter does not count."""
        (net,) = compile_rules(RULES).nets
        for confirm in (lambda title, message: False, lambda request, log=None: False):
            context = GateContext(confirm)
            decision = await handle_tool_call(call("deploy"), context, net, initial_state(net))
            assert decision.reason == "deploy was rejected by human review."


class TestCopy:
    """G-69: `confirm` gets a copy of the call."""

    async def test_changed_request_does_not_affect_the_call(self) -> None:
        """G-69: changes to the request's input do not run and are no edit."""
        made = original_input()

        def confirm(request: ApprovalRequest) -> bool:
            change_input(request)
            return True

        decision = await manager(RULES).handle_tool_call(call("deploy", **made), GateContext(confirm))
        assert decision.outcome == "allow"
        assert decision.call.input == original_input()
        assert made == original_input()
        assert decision.approvals[0].answer.input is None

    async def test_changed_request_does_not_affect_single_net(self) -> None:
        """G-69: the same applies to a net without a manager."""
        (net,) = compile_rules(RULES).nets

        def confirm(request: ApprovalRequest) -> bool:
            change_input(request)
            return True

        made = call("deploy", **original_input())
        decision = await handle_tool_call(made, GateContext(confirm), net, initial_state(net))
        assert decision.call.input == original_input()

    async def test_changes_after_the_answer_have_no_effect(self) -> None:
        """G-69: changing a kept request after its answer has no effect."""
        kept: list[ApprovalRequest] = []

        def confirm(request: ApprovalRequest) -> bool:
            kept.append(request)
            return True

        decision = await manager(RULES).handle_tool_call(
            call("deploy", **original_input()), GateContext(confirm)
        )
        change_input(kept[0])
        assert decision.call.input == original_input()

    async def test_every_request_has_its_own_copy(self) -> None:
        """G-69: one approver's changes to the request are not shown to the next."""
        asked: list[dict[str, Any]] = []

        def confirm(request: ApprovalRequest) -> bool:
            asked.append({**request.call.input})
            change_input(request)
            return True

        rules = f"{RULES}\nmap deploy.env staging as release\nrequire human-approval before release"
        await manager(rules).handle_tool_call(call("deploy", **original_input()), GateContext(confirm))
        assert [each["env"] for each in asked] == ["staging", "staging"]
        assert "more" not in asked[1]

    async def test_only_the_answers_input_is_an_edit(self) -> None:
        """G-69: an edit is the answer's input; it is recorded, and later changes to it have no effect."""
        answered = {"env": "dev", "to": ["b"]}

        def confirm(request: ApprovalRequest) -> ApprovalAnswer:
            if request.call.input == original_input():
                change_input(request)
                return ApprovalAnswer(approved=True, input=answered)
            return ApprovalAnswer(approved=True)

        decision = await manager(RULES).handle_tool_call(
            call("deploy", **original_input()), GateContext(confirm)
        )
        answered["to"].append("changed")  # type: ignore[union-attr]
        assert decision.call.input == {"env": "dev", "to": ["b"]}
        assert [each.answer.input for each in decision.approvals] == [{"env": "dev", "to": ["b"]}]

    @pytest.mark.parametrize("waits", [False, True])
    def test_wrapped_tool_runs_with_given_values(self, waits: bool) -> None:
        """G-69: the tool gets the values of the call, whether or not the callback waits."""
        ran: list[dict[str, Any]] = []

        async def deploy(env: str, to: list[object]) -> str:
            ran.append({"env": env, "to": to})
            return "done"

        def at_once(request: ApprovalRequest) -> bool:
            request.call.input["to"].append("changed")  # type: ignore[attr-defined]
            request.call.input["env"] = "prod"  # type: ignore[index]
            return True

        async def later(request: ApprovalRequest) -> bool:
            await asyncio.sleep(0)
            return at_once(request)

        tools = gate(RULES, confirm=later if waits else at_once).wrap_tools({"deploy": deploy}).tools
        asyncio.run(tools["deploy"](env="staging", to=["a"]))
        assert ran == [{"env": "staging", "to": ["a"]}]

    async def test_uncopyable_value_blocks_without_request(self) -> None:
        """G-59: a value that cannot be copied blocks the call, as it could change after the answer."""

        class Loose:
            def __deepcopy__(self, _memo: object) -> object:
                raise TypeError("there is only one of it")

        context = GateContext(lambda _: True)
        decision = await manager(RULES).handle_tool_call(call("deploy", x=Loose()), context)
        assert decision.outcome == "block"
        assert "there is only one of it" in str(decision.reason)
