"""Several approvers of one call, void answers, and answers with edits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.engine import (
    ApprovalAnswer,
    ApprovalRequest,
    ChosenEdit,
    GateContext,
    GateManager,
    Transition,
    create_gate_manager,
    handle_tool_call,
)
from interlock.engine.gate.approve import MOST_QUESTIONS
from interlock.engine.net.net import initial_state

from .support.helpers import Operator, call, everything, net, registry
from .support.ruled import Asker, approval, at, block, gate_of, granting, is_, nets_of, yes


class TestSeveralPeople:
    """A rule for N people needs N different names."""

    async def test_all_approvals_fire_at_once(self) -> None:
        """G-15: N approvals fire N times and then the call; no approval token remains."""
        decide = Asker(gate_of(approval(people=3)))
        decision = await decide("deploy", yes("ada", others=("grace", "mary")))
        assert [step.transition.name for step in decision.steps] == ["person"] * 3 + ["approve"]
        assert decide.gate.states["approve-before-deploy"].marking == {
            "idle": 0,
            "ready": 1,
            "approval": 0,
        }
        assert [request.people for request in decide.asked] == [3]

    @pytest.mark.parametrize(
        ("answer", "did"),
        [
            (True, "nobody known"),
            (yes(None), "nobody known"),
            (yes("ada"), "1"),
            (yes("ada", others=("ada",)), "1"),
            (yes(" ada ", others=("ada", "", "  ")), "1"),
            (yes(None, others=("ada",)), "1"),
        ],
    )
    async def test_too_few_approvers_are_a_refusal(self, answer: Any, did: str) -> None:
        """G-13: too few different names are a refusal that says how many approved."""
        decide = Asker(gate_of(approval(people=2)))
        before = everything(decide.gate)
        decision = await decide("deploy", answer)
        assert decision.block
        assert decision.reason == f"deploy was rejected by human review: 2 people must approve; {did} did"
        assert [a.answer.approved for a in decision.approvals] == [False]
        assert everything(decide.gate) == before

    async def test_single_net_counts_approvers(self) -> None:
        """G-12: a single net counts people as well."""
        (two,) = nets_of(approval(people=2))
        for answer, blocked in ((True, True), (yes("ada", others=("grace",)), False)):
            context = GateContext(lambda _, answer=answer: answer)
            decision = await handle_tool_call(call("deploy"), context, two, initial_state(two))
            assert decision.block is blocked

    async def test_tokens_determine_number_of_approvers(self) -> None:
        """G-1: in a hand-built net, the tokens determine how many people must approve."""
        two = net(
            "two",
            Transition("go", ["p", "yes", "yes"], ["p"], ["x"]),
            Transition("person", ["p"], ["p", "yes"], ["x"], type="manual", partial=True),
            marking={"p": 1, "yes": 0},
        )
        decide = Asker(create_gate_manager([two]))
        assert (await decide("x", True)).block
        assert (await decide("x", yes("ada", others=("grace",)))).outcome == "allow"

    async def test_more_approvals_needed_after_the_answer(self) -> None:
        """G-58: one approval is not enough if two are needed by the time of the answer."""
        two = net(
            "two",
            Transition("go", ["p", "yes", "yes"], ["p"], ["x"]),
            Transition("person", ["p"], ["p", "yes"], ["x"], type="manual", partial=True),
            Transition("eat", ["yes"], [], ["eat"]),
            marking={"p": 1, "yes": 1},
        )
        gate = create_gate_manager([two])
        asked: list[int] = []

        async def confirm(request: ApprovalRequest) -> bool:
            asked.append(request.people)
            if len(asked) == 1:
                await gate.handle_tool_call(call("eat", "e"))
            return True

        assert (await gate.handle_tool_call(call("x"), GateContext(confirm))).block
        assert asked == [1, 2]

    async def test_call_cancelled_while_waiting_leaves_no_token(self) -> None:
        """G-58: a call that is cancelled while it waits leaves no token."""
        gate = gate_of(approval(people=2))
        before = everything(gate)
        asked = asyncio.Event()

        async def confirm(_: ApprovalRequest) -> bool:
            asked.set()
            await asyncio.Event().wait()
            return True

        waiting = asyncio.create_task(gate.handle_tool_call(call("deploy"), GateContext(confirm)))
        await asked.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert everything(gate) == before

    async def test_shadow_mode_moves_as_if_approved(self) -> None:
        """G-57: shadow mode has the outcome `ask`, and moves as if all had approved."""
        gate = gate_of(approval(people=2), mode="shadow")
        decision = await gate.handle_tool_call(call("deploy"), Operator().context)
        assert (decision.outcome, len(decision.steps)) == ("ask", 3)

    async def test_replay_fires_the_complete_chain(self) -> None:
        """G-25: a replay fires the complete chain and leaves the marking as before."""
        gate = gate_of(approval(people=2))
        before = everything(gate)
        gate.replay(["deploy", "deploy"])
        assert everything(gate) == before

    def test_request_has_terms_of_its_rule(self) -> None:
        """G-13: a request has the people, time, risk and grants of its rule."""
        (built,) = nets_of(approval(people=2, within=90.0, risk="high", grants=False))
        request = ApprovalRequest(
            call("deploy"), "n", built, built.transitions[1], "deploy", (), {}, built.rule
        )
        assert (request.people, request.within, request.risk, request.may_grant) == (
            2,
            90.0,
            "high",
            False,
        )

    @pytest.mark.parametrize(
        ("parts", "may"), [({}, True), ({"people": 2}, False), ({"grants": False}, False)]
    )
    async def test_rules_that_allow_no_grants(self, parts: dict[str, Any], may: bool) -> None:
        """G-13: a rule for several people, or with `no grants`, allows no grants."""
        decide = Asker(gate_of(approval(**parts)))
        await decide("deploy", False)
        assert [request.may_grant for request in decide.asked] == [may]


class TestMalformedAnswers:
    """A malformed answer blocks the call."""

    @pytest.mark.parametrize(
        "parts",
        [
            {"others": "ab"},
            {"others": ("a", 1)},
            {"by": 1},
            {"again": "no"},
            {"grant": True},
            {"others": None},
        ],
    )
    async def test_malformed_answer_is_blocked(self, parts: dict[str, Any]) -> None:
        """G-59: the reason says that confirm failed."""
        decide = Asker(gate_of(approval()))
        decision = await decide("deploy", ApprovalAnswer(True, **parts))
        assert decision.block
        assert "confirm failed" in str(decision.reason)


class TestEdits:
    """The approved input is the one that runs."""

    async def test_earlier_answers_are_void(self) -> None:
        """G-43: if the second approver edits, the first must approve the edited call."""
        decide = Asker(gate_of(approval(), approval(risk="high")))
        decision = await decide("deploy", yes("ada"), yes("grace", input={"env": "dev"}), yes("ada"))
        shown = [(request.risk, dict(request.call.input)) for request in decide.asked]
        assert shown == [(None, {}), ("high", {}), (None, {"env": "dev"})]
        assert decision.call.input == {"env": "dev"}
        assert [a.answer.by for a in decision.approvals] == ["grace", "ada"]

    async def test_approvers_of_another_rule_still_decide(self) -> None:
        """G-67: after an edit by a sole approver, the approvers of the other rule still decide."""
        alone, several = approval(when=is_("env", "prod")), approval(people=2, when=is_("env", "prod"))
        decide = Asker(gate_of(alone, several))
        decision = await decide("deploy", yes("ada", input={"env": "dev"}), yes("ada"), env="prod")
        assert [request.people for request in decide.asked] == [1, 2]
        assert dict(decide.asked[1].call.input) == {"env": "dev"}
        assert decision.block
        decision = await decide(
            "deploy", yes("ada", input={"env": "dev"}), yes("ada", others=("ben",)), env="prod"
        )
        assert (decision.outcome, decision.call.input) == ("allow", {"env": "dev"})

    async def test_same_input_is_no_edit(self) -> None:
        """G-43: an answer with the same input is no edit and voids no answer."""
        decide = Asker(gate_of(approval(), approval(risk="high")))
        await decide("deploy", yes(), yes(input={"n": [1, True]}), n=[1, True])
        assert len(decide.asked) == 2

    async def test_replacing_true_by_one_is_an_edit(self) -> None:
        """G-43: replacing `true` by 1 is an edit."""
        decide = Asker(gate_of(approval(), approval(risk="high")))
        decision = await decide("deploy", yes(), yes(input={"n": 1}), yes(), n=True)
        assert len(decide.asked) == 3
        assert type(decision.call.input["n"]) is int

    async def test_tool_runs_with_edited_one_for_true(self) -> None:
        """G-30: a wrapped tool runs with the edited input, even if Python considers both equal."""
        from .support.helpers import gate

        ran: list[object] = []

        def keep(n: object) -> None:
            ran.append(n)

        session = gate(
            "require human-approval before f", confirm=lambda _: yes(input={"n": 1})
        ).wrap_tools({"f": keep})
        await session.call("f", {"n": True})
        assert [type(n) for n in ran] == [int]

    async def test_rules_about_one_and_true_differ(self) -> None:
        """G-43: rules about 1 and about `true` are not identical."""
        decide = Asker(gate_of(approval(when=is_("n", 1)), approval(when=is_("n", value=True))))
        await decide("deploy", True)
        assert len(decide.asked) == 2

    async def test_identical_rules_ask_once(self) -> None:
        """G-43: identical rules ask once, also from different lines."""
        decide = Asker(
            gate_of(approval(when=is_("n", 1), source=at(1)), approval(when=is_("n", 1), source=at(9)))
        )
        decision = await decide("deploy", True, n=1)
        assert (decision.outcome, len(decide.asked)) == ("allow", 1)

    async def test_endless_edits_block_the_call(self) -> None:
        """G-59: answers that keep editing each other block the call in the end."""
        count = iter(range(10**9))
        gate = gate_of(approval(), approval(risk="high"))
        context = GateContext(lambda _: yes(input={"n": next(count)}))
        decision = await gate.handle_tool_call(call("deploy"), context)
        assert decision.reason == "deploy was asked about too often without a decision."
        assert next(count) == MOST_QUESTIONS


class TestAgain:
    """`again` voids all earlier answers."""

    async def test_call_is_classified_from_the_start(self) -> None:
        """G-58, G-75: the call is classified from the start, with the input that was chosen last."""
        decide = Asker(gate_of(approval(), approval(risk="high")))
        again = ApprovalAnswer(True, again=True, by="ada")
        decision = await decide("deploy", yes(input={"n": 2}, by="ben"), again, yes(), yes(), n=1)
        assert [request.call.input["n"] for request in decide.asked] == [1, 2, 2, 2]
        edit = ChosenEdit({"n": 1}, {"n": 2}, "ben")
        assert [request.edit for request in decide.asked] == [None, edit, edit, edit]
        assert (decision.call.input, decision.edited_by) == ({"n": 2}, "ben")
        assert len(decision.approvals) == 2

    async def test_latest_editor_is_the_editor(self) -> None:
        """G-75: the latest editor of an edited call is its editor."""
        decide = Asker(gate_of(approval(), approval(risk="high")))
        first = ApprovalAnswer(False, again=True, by="ada", input={"n": 2})
        second = ApprovalAnswer(False, again=True, by="ben", input={"n": 3})
        void = ApprovalAnswer(False, again=True)
        decision = await decide("deploy", first, second, void, yes(), yes(), n=1)
        assert decide.asked[-1].edit == ChosenEdit({"n": 1}, {"n": 3}, "ben")
        assert (decision.call.input, decision.edited_by) == ({"n": 3}, "ben")

    async def test_edit_back_to_agents_input_is_removed(self) -> None:
        """G-75: editing back to the agent's own input removes the edit."""
        decide = Asker(gate_of(approval(), approval(risk="high")))
        there = ApprovalAnswer(False, again=True, by="ada", input={"n": 2})
        back = ApprovalAnswer(False, again=True, by="ben", input={"n": 1})
        decision = await decide("deploy", there, back, yes(), yes(), n=1)
        assert [request.edit is None for request in decide.asked] == [True, False, True, True]
        assert (decision.call.input, decision.edited_by) == ({"n": 1}, None)

    async def test_edit_in_a_request_is_a_copy(self) -> None:
        """G-69: the edit in a request is a copy; changing it affects neither call nor original."""
        gate, seen = gate_of(approval(), approval(risk="high")), []

        def confirm(request: ApprovalRequest) -> ApprovalAnswer:
            if request.edit is None:
                return ApprovalAnswer(False, again=True, by="ada", input={"n": 2})
            seen.append((dict(request.edit.original), dict(request.edit.input)))
            request.edit.original["n"] = request.edit.input["n"] = 9  # type: ignore[index]
            return ApprovalAnswer(True)

        decision = await gate.handle_tool_call(call("deploy", n=1), GateContext(confirm))
        assert seen == [({"n": 1}, {"n": 2})] * 2
        assert decision.call.input == {"n": 2}

    async def test_edit_with_again_is_no_approval(self) -> None:
        """G-58: an edit with `again` is no approval; all approvers are asked about it."""
        decide = Asker(gate_of(approval(), approval(risk="high")))
        again = ApprovalAnswer(True, again=True, by="ada", input={"n": 3})
        decision = await decide("deploy", yes(input={"n": 2}), again, yes(), yes(), n=1)
        assert [request.call.input["n"] for request in decide.asked] == [1, 2, 3, 3]
        assert (decision.call.input, len(decision.approvals)) == ({"n": 3}, 2)

    async def test_again_is_no_refusal(self) -> None:
        """G-58: `again` is no refusal."""
        decide = Asker(gate_of(approval()))
        decision = await decide("deploy", ApprovalAnswer(False, again=True), True)
        assert decision.outcome == "allow"

    async def test_net_switched_on_in_between_blocks(self) -> None:
        """G-58: a net that was switched on in between blocks with its own reason."""
        gate = registry(
            "require human-approval before deploy\nblock deploy", active=["approve-before-deploy"]
        )

        def confirm(_: ApprovalRequest) -> ApprovalAnswer:
            gate.add_net("block-deploy")
            return ApprovalAnswer(True, again=True)

        decision = await gate.handle_tool_call(call("deploy"), GateContext(confirm))
        assert decision.reason == "deploy is blocked and cannot be called."

    async def test_waiting_call_is_requested_again_in_shadow_mode(self) -> None:
        """G-67: a waiting call is requested again after a switch to shadow mode."""
        gate = gate_of(approval())
        asked: list[ApprovalRequest] = []

        def confirm(request: ApprovalRequest) -> ApprovalAnswer:
            asked.append(request)
            gate.mode = "shadow"
            return ApprovalAnswer(False, again=len(asked) == 1)

        decision = await gate.handle_tool_call(call("deploy"), GateContext(confirm))
        assert (decision.mode, decision.outcome, decision.block) == ("enforce", "block", True)
        assert len(asked) == 2

    async def test_edited_call_is_requested_even_in_shadow_mode(self) -> None:
        """G-67: an edited call that comes back is requested even in shadow mode and with a grant."""
        gate = gate_of(approval())
        first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
        questions = iter([first, second])
        waiting = asyncio.create_task(
            gate.handle_tool_call(call("deploy", "w"), GateContext(lambda _: next(questions)))
        )
        await asyncio.sleep(0)
        await Asker(gate)("deploy", granting())
        gate.mode = "shadow"
        first.set_result(ApprovalAnswer(False, again=True, input={"n": 1}))
        await asyncio.sleep(0)
        assert not waiting.done()
        second.set_result(True)
        decision = await waiting
        assert (decision.outcome, decision.mode, decision.granted) == ("allow", "enforce", ())

    async def test_plain_answer_keeps_mode_of_its_request(self) -> None:
        """G-57: without `again`, a call is decided in the mode of its request."""
        gate = gate_of(approval(), block("other"))

        def confirm(_: ApprovalRequest) -> bool:
            gate.mode = "shadow"
            return False

        assert (await gate.handle_tool_call(call("deploy"), GateContext(confirm))).block

    async def test_single_net_asks_again(self) -> None:
        """G-12: a single net also asks again."""
        (one,) = nets_of(approval())
        operator = Operator(ApprovalAnswer(False, again=True), True)
        decision = await handle_tool_call(call("deploy"), operator.context, one, initial_state(one))
        assert (decision.outcome, len(operator.asked)) == ("allow", 2)

    async def test_endless_again_blocks_the_call(self) -> None:
        """G-59: a confirm that always answers `again` blocks in the end."""
        gate: GateManager = gate_of(approval())
        context = GateContext(lambda _: ApprovalAnswer(False, again=True))
        assert (await gate.handle_tool_call(call("deploy"), context)).block
