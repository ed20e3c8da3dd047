"""Plans: an approved plan covers requests about its own calls only (G-108 to G-110)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.engine import ApprovalAnswer, ApprovalRequest, GateContext, ToolCall, ToolResult
from interlock.engine.gate import reasons
from interlock.engine.net.net import NetError

from ..support.granting import Names
from ..support.helpers import Operator, call, registry
from ..support.planning import plan, planned, planning, step, uses_left
from ..support.ruled import Asker, approval, gate_of, granting, limit, yes

DEPLOY = "require human-approval before deploy\n"


class TestAnswering:
    """Calls that an approved plan allows."""

    async def test_each_step_covers_its_number_of_calls(self) -> None:
        """G-108: each step covers as many calls as it has, in any order, and then no more."""
        decide = await planned(
            DEPLOY + "require human-approval before push\n", step("deploy", 2), step("push")
        )
        for tool, key in (("push", "grant-2"), ("deploy", "grant-1"), ("deploy", "grant-1")):
            decision = await decide(tool)
            assert (decision.outcome, decision.granted, decide.asked) == ("allow", (key,), [])
        assert uses_left(decide.gate) == {"grant-1": 0, "grant-2": 0}
        for tool in ("deploy", "push"):
            assert (await decide(tool)).block
            assert len(decide.asked) == 1

    async def test_tool_outside_the_plan_is_requested(self) -> None:
        """G-108: another tool is requested as before."""
        decide = await planned(DEPLOY + "require human-approval before push\n", step("deploy"))
        assert (await decide("push")).block
        assert decide.asked[0].tool == "push"

    async def test_decision_lists_the_plans_grants(self) -> None:
        """G-108: the decision on the plan lists its grants, which belong to one plan."""
        decide = Asker(planning(DEPLOY))
        first = await plan(decide, step("deploy"), step("deploy", 3))
        second = await plan(decide, step("deploy"))
        assert (first.gave, second.gave) == (("grant-1", "grant-2"), ("grant-3",))
        grants = decide.gate.grants.values()
        assert [grant.planned and grant.planned.plan for grant in grants] == [
            "plan-1",
            "plan-1",
            "plan-2",
        ]
        assert {grant.planned and grant.planned.title for grant in grants} == {"Release"}

    @pytest.mark.parametrize(
        ("value", "passes"),
        [
            ({"env": "staging"}, True),
            ({"env": "prod"}, False),
            ({}, False),
            ({"env": ["staging"]}, False),
        ],
    )
    async def test_step_covers_calls_that_meet_its_condition(
        self, value: dict[str, Any], passes: bool
    ) -> None:
        """G-109: a step covers calls whose input certainly meets its condition."""
        decide = await planned(DEPLOY, step("deploy", 2, when='input.env = "staging"'))
        assert ((await decide("deploy", **value)).outcome == "allow") is passes
        if not passes:
            assert decide.asked[0].beyond is not None
            assert "staging" not in decide.asked[0].beyond

    async def test_call_uses_one_use_for_several_rules(self) -> None:
        """G-109: a call uses one of its step's calls, however many rules ask about it."""
        rules = DEPLOY + 'require human-approval before deploy when input.env = "prod"\n'
        decide = await planned(rules, step("deploy", 2))
        decision = await decide("deploy", env="prod")
        assert (decision.granted, uses_left(decide.gate)) == (("grant-1",), {"grant-1": 1})
        assert [s.net for s in decision.steps].count("grant-1") == 1

    async def test_different_conditions_share_the_steps_calls(self) -> None:
        """G-109: rules with different conditions do not add up to more calls than the step has."""
        rules = "".join(
            f'require human-approval before deploy when input.env = "{env}"\n' for env in ("prod", "test")
        )
        decide = await planned(rules, step("deploy", 2))
        outcomes = [(await decide("deploy", env=env)).outcome for env in ("prod", "test", "prod", "test")]
        assert outcomes == ["allow", "allow", "block", "block"]

    async def test_call_without_approval_uses_nothing(self) -> None:
        """G-109: a call that needs no approval uses nothing."""
        decide = await planned(
            'require human-approval before deploy when input.env = "prod"\n', step("deploy", 1)
        )
        assert (await decide("deploy", env="test")).granted == ()
        assert uses_left(decide.gate) == {"grant-1": 1}

    async def test_limits_and_blocks_still_apply(self) -> None:
        """G-109: limits, sequences and blocks apply as without the plan."""
        decide = await planned(
            DEPLOY + 'limit deploy to 1 per session\nblock deploy when input.env = "prod"\n',
            step("deploy", 3),
        )
        assert (await decide("deploy", env="prod")).net == "block-deploy"
        assert (await decide("deploy", env="test")).outcome == "allow"
        assert (await decide("deploy", env="test")).block
        assert decide.asked == []

    async def test_unexecuted_call_returns_its_use(self) -> None:
        """A-40: a call that certainly never ran gives back its use."""
        decide = await planned(DEPLOY, step("deploy"))
        decision = await decide("deploy")
        decide.gate.handle_tool_result(
            ToolResult(decision.call.tool_call_id, "deploy", {}, True, decision.steps)
        )
        assert uses_left(decide.gate) == {"grant-1": 1}


class TestSaid:
    """The answer to the agent: Interlock answers the call itself."""

    async def test_answer_counts_covered_calls_per_tool(self) -> None:
        """G-108: the answer says how many calls of each tool pass, without those that still ask."""
        decide = Asker(planning(DEPLOY + "require human-approval before push risk high\n"))
        decision = await plan(decide, step("deploy"), step("deploy", 2), step("push"))
        assert decision.reason is not None
        assert "At most 3 deploy of it pass" in decision.reason

    async def test_answer_to_a_plan_that_covers_nothing(self) -> None:
        """G-108: an approved plan that covers nothing says so."""
        decide = Asker(planning(""))
        assert (await plan(decide, step("test"))).reason == reasons.PLAN_ANSWERS_NOTHING

    @pytest.mark.parametrize("rules", ["block rm", "limit plan to 9 per session"])
    async def test_answer_names_the_missing_rule_about_plans(self, rules: str) -> None:
        """G-108: if no rule asks about plans, the answer says which rule would."""
        decision = await plan(Asker(registry(rules)), step("test"))
        assert (decision.outcome, decision.reason) == ("allow", reasons.PLAN_NOT_ASKED)


class TestNeverAnswers:
    """Requests that a plan does not cover, although its step names the tool."""

    @pytest.mark.parametrize(
        "terms", ["risk high", "by 2", "no grants", "with passkey", "not by author", "by 1 of ops"]
    )
    async def test_rule_with_stricter_terms_still_asks(self, terms: str) -> None:
        """G-109: a rule with stricter terms than one approval still asks for each call."""
        line = "require human-approval before deploy"
        rules = (
            f"{line} {terms}\n" if "by 2" not in terms else "require 2 human-approvals before deploy\n"
        )
        decide = await planned(rules, step("deploy", 5))
        assert decide.gate.grants == {}
        assert (await decide("deploy")).block
        assert len(decide.asked) == 1

    async def test_approval_that_frees_calls_is_not_covered(self) -> None:
        """G-109: an approval that would free any number of calls is not covered by a plan."""
        decide = await planned("block send after fetch until human-approval\n", step("send"))
        assert decide.gate.grants == {}
        assert (await decide("fetch")).outcome == "allow"
        assert (await decide("send")).block
        assert len(decide.asked) == 1

    async def test_only_one_of_two_rules_is_covered(self) -> None:
        """G-109: if only one of two rules can be covered, the other asks."""
        decide = await planned(
            DEPLOY + "require human-approval before deploy risk high\n", step("deploy")
        )
        decision = await decide("deploy", yes("ada"))
        assert (decision.outcome, decision.granted, len(decide.asked)) == ("allow", ("grant-1",), 1)
        assert decide.asked[0].risk == "high"

    @pytest.mark.parametrize(("groups", "passes"), [(("ops",), True), (("dev",), False), ((), False)])
    async def test_group_rule_covered_if_approver_is_member(
        self, groups: tuple[str, ...], passes: bool
    ) -> None:
        """G-109: a group's rule is covered if a member of the group approved the plan."""
        answer = yes("maria", groups={"maria": groups})
        decide = await planned(
            "require human-approval before deploy by 1 of ops\n", step("deploy"), answer=answer
        )
        assert ((await decide("deploy")).outcome == "allow") is passes

    async def test_name_outside_the_step_is_requested(self) -> None:
        """G-109: a call with a name that the step does not have is requested."""
        gate = gate_of(approval("plan"), approval("bash"), approval("push"), names=Names())
        decide = Asker(gate)
        await plan(decide, step("bash", 3, effects=["push"]), step("bash", 3))
        both = await decide("bash", names=["push"])
        assert (both.outcome, both.granted) == ("allow", ("grant-1",))
        assert (await decide("bash", names=["push", "rm"])).block
        gate = gate_of(approval("plan"), approval("bash"), approval("push"), names=Names())
        decide = Asker(gate)
        await plan(decide, step("bash", 3))
        assert (await decide("bash")).granted == ("grant-1",)
        assert (await decide("bash", names=["push"])).block

    @pytest.mark.parametrize(
        "value", [{"murky": True}, {"more": True}, {"beside": "it redirects"}, {"runs": "./mine"}]
    )
    async def test_call_with_unknown_effects_is_requested(self, value: dict[str, Any]) -> None:
        """G-109: a call that may do more than its names tell is requested."""
        decide = Asker(gate_of(approval("plan"), approval(), names=Names()))
        await plan(decide, step("deploy", 2))
        assert (await decide("deploy", **value)).block
        assert len(decide.asked) == 1

    async def test_maps_of_all_active_nets_decide(self) -> None:
        """G-109: this is judged by the maps of all active nets, also of those that do not ask."""
        gate = planning("map bash.command ./ship as ship\nlimit ship to 9 per session\n")
        asking = planning("require human-approval before bash\n")
        nets = {**gate.nets, **{k: n for k, n in asking.nets.items() if "bash" in k}}
        decide = Asker(type(gate)(registry=nets))
        await plan(decide, step("bash", 3))
        assert list(decide.gate.grants) == ["grant-1"]
        assert (await decide("bash", command="echo x > /etc/passwd")).block
        assert len(decide.asked) == 1

    @pytest.mark.parametrize(
        ("when", "passes"),
        [
            (None, False),
            ("input.zone is missing", False),
            ('input.zone is missing or input.command = "rm push"', False),
            ('not input.command contains "x"', False),
            ("input.zone is missing and input.command matches /push$/", True),
        ],
    )
    async def test_open_program_needs_a_condition_on_the_command(
        self, when: str | None, passes: bool
    ) -> None:
        """G-109: an open program is covered only if the condition restricts the command."""
        parts = {} if when is None else {"when": when}
        rules = "map bash.command /push/ as push\nrequire human-approval before push\n"
        decide = await planned(rules, step("bash", 2, effects=["push"], **parts))
        assert ((await decide("bash", command="rm push")).outcome == "allow") is passes

    async def test_a_subagents_call(self) -> None:
        """G-109: a plan does not cover a subagent's calls."""
        decide = await planned(DEPLOY, step("deploy", 2))
        asked = Operator(False)
        made = ToolCall("child-1/c9", "deploy", {})
        assert (await decide.gate.handle_tool_call(made, asked.context)).block
        assert len(asked.asked) == 1

    async def test_an_edited_call(self) -> None:
        """G-109: a plan does not cover a call that an operator has edited."""
        rules = DEPLOY + 'require human-approval before deploy risk high when input.env = "prod"\n'
        decide = await planned(rules, step("deploy", 2))
        decision = await decide("deploy", yes(input={"env": "test"}), yes(), env="prod")
        assert (decision.outcome, decision.granted) == ("allow", ())

    async def test_lookalike_tool_name_is_requested(self) -> None:
        """G-109: a tool that only looks like a rule's tool is requested."""
        decide = await planned(DEPLOY, step("Deploy", effects=["deploy"]))
        assert (await decide("Deploy")).block

    async def test_net_off_at_approval_still_asks(self) -> None:
        """G-109: a net that was off when the plan was approved still asks."""
        rules = DEPLOY + 'require human-approval before deploy when input.env = "prod"\n'
        gate = planning(rules)
        other = list(gate.nets)[-1]
        gate.remove_net(other)
        decide = Asker(gate)
        await plan(decide, step("deploy", 2))
        gate.add_net(other)
        assert (await decide("deploy", env="test")).outcome == "allow"
        assert (await decide("deploy", env="prod")).block
        assert len(decide.asked) == 1

    async def test_net_off_when_shown_still_asks(self) -> None:
        """G-109: a net that was off when the plan was shown still asks."""
        gate = planning(DEPLOY)
        (deploys,) = [key for key in gate.nets if "deploy" in key]
        gate.remove_net(deploys)
        operator = Operator(yes())
        operator.before_answering = lambda: gate.add_net(deploys)
        shown = call("plan", "p1", title="Release", steps=[step("deploy", 3)])
        decision = await gate.handle_tool_call(shown, operator.context)
        assert (decision.outcome, decision.gave) == ("allow", ())
        assert (await Asker(gate)("deploy")).block


class TestNoPlan:
    """Calls of `plan` that give no grants."""

    async def test_no_rule_asks_about_plans(self) -> None:
        """G-108: if no rule asks about `plan`, the call passes and gives nothing."""
        decide = Asker(gate_of(approval()))
        decision = await plan(decide, step("deploy"))
        assert (decision.outcome, decision.gave, decide.asked) == ("allow", (), [])

    async def test_shadow(self) -> None:
        """G-108: in shadow mode a plan gives nothing."""
        gate = planning(DEPLOY)
        gate.mode = "shadow"
        decision = await plan(Asker(gate), step("deploy"))
        assert (decision.outcome, decision.gave, gate.grants) == ("ask", (), {})

    async def test_denied(self) -> None:
        """G-108: a denied plan gives nothing."""
        gate = planning(DEPLOY)
        decision = await Asker(gate)("plan", False, title="x", steps=[step("deploy")])
        assert (decision.block, gate.grants) == (True, {})

    @pytest.mark.parametrize(
        ("steps", "found"),
        [
            ([], "steps"),
            ([step("deploy", 0)], "steps[0].count"),
            ([step("deploy", more=1)], "more"),
            ([step("deploy", when="env is staging")], "steps[0].when"),
            ([step("deploy", when="input.to from user")], "'from'"),
            ([step("deploy", when='input.env = "a" # and not input.force = true')], "a comment"),
            ([step("deploy", when='input.env = "\\u200b"')], "cannot be recorded"),
        ],
    )
    async def test_unreadable(self, steps: list[dict[str, object]], found: str) -> None:
        """G-108: an invalid plan is blocked without a request; the reason names the fault."""
        decide = Asker(planning(DEPLOY))
        decision = await plan(decide, *steps)
        assert decision.block
        assert decision.reason is not None
        assert found in decision.reason
        assert decide.asked == []
        assert any(decision.reason.startswith(begin) for begin in decide.gate.refusals(call("plan")))

    async def test_plan_edited_into_an_invalid_one(self) -> None:
        """G-108: a plan edited into an invalid one is blocked."""
        decide = Asker(planning(DEPLOY))
        decision = await plan(decide, step("deploy"), answer=yes(input={"steps": "none"}))
        assert (decision.block, decide.gate.grants) == (True, {})

    async def test_edited_plan_gives_what_was_approved(self) -> None:
        """G-108: an edited plan gives what was approved."""
        decide = Asker(planning(DEPLOY))
        less: dict[str, object] = {"title": "Less", "steps": [step("deploy", 1)]}
        await plan(decide, step("deploy", 9), answer=yes(input=less))
        assert uses_left(decide.gate) == {"grant-1": 1}

    async def test_plan_of_a_subagent_is_refused(self) -> None:
        """G-108: a subagent's plan is refused without a request."""
        gate, asked = planning(DEPLOY), Operator(True)
        made = ToolCall("child-1/c1", "plan", {"title": "x", "steps": [step("deploy")]})
        decision = await gate.handle_tool_call(made, asked.context)
        assert (decision.block, asked.asked, gate.grants) == (True, [], {})

    async def test_plan_cannot_be_approved_with_a_grant(self) -> None:
        """G-108: a plan cannot be approved with a grant for later plans."""
        decide = Asker(planning(DEPLOY))
        decision = await plan(decide, step("deploy"), answer=granting())
        assert (decision.block, decide.gate.grants) == (True, {})
        assert not decide.asked[0].may_grant

    async def test_condition_without_reader_is_refused(self) -> None:
        """G-108: without a condition reader, a step with a condition is refused, others are not."""
        decide = Asker(gate_of(approval("plan"), approval()))
        assert (await plan(decide, step("deploy", when="input.x = 1"))).block
        assert (await plan(decide, step("deploy"))).gave == ("grant-1",)

    async def test_plan_blocked_after_its_approval(self) -> None:
        """G-15: a plan that is blocked after its approval gives nothing."""
        gate = gate_of(approval("plan"), limit("plan", 1, window=None), approval())
        decide = Asker(gate)
        await plan(decide, step("deploy"))
        assert (await plan(decide, step("deploy"))).block
        assert list(gate.grants) == ["grant-1"]


class TestTogether:
    """The grants of a plan end together."""

    @pytest.mark.parametrize("key", ["grant-1", "grant-2", "plan-1"])
    async def test_revoking_one_grant_ends_its_plan(self, key: str) -> None:
        """G-110: revoking one grant ends all of its plan and no other."""
        rules = DEPLOY + "require human-approval before push\n"
        decide = await planned(rules, step("deploy"), step("push"))
        await plan(decide, step("deploy"))
        assert decide.gate.grants_with(key) == ("grant-1", "grant-2")
        assert decide.gate.revoke_grant(key).ok
        assert list(decide.gate.grants) == ["grant-3", "grant-4"] or list(decide.gate.grants) == [
            "grant-3"
        ]
        assert not decide.gate.revoke_grant(key).ok
        assert not decide.gate.revoke_grant("plan-9").ok

    async def test_keys_are_never_reused(self) -> None:
        """G-63: keys of grants and plans are never reused."""
        decide = await planned(DEPLOY, step("deploy"))
        gate = decide.gate
        given = list(gate.grants.values())
        gate.restore(grants=given, revoked=("grant-1",))
        await plan(decide, step("deploy"))
        (grant,) = gate.grants.values()
        assert grant.planned is not None
        assert (grant.key, grant.planned.plan) == ("grant-2", "plan-2")


class TestEdited:
    """Editing a plan does not approve it (G-108)."""

    async def test_edited_plan_is_requested(self) -> None:
        """G-108: the edited plan is requested, and the approval of that gives its grants."""
        decide = Asker(planning(DEPLOY))
        wider = {"title": "Release", "steps": [step("deploy", 3)]}
        answers = ApprovalAnswer(True, input=wider, by="maria"), ApprovalAnswer(True, by="jo")
        decision = await decide("plan", *answers, title="Release", steps=[step("deploy")])
        assert [asked.call.input for asked in decide.asked] == [
            {"title": "Release", "steps": [step("deploy")]},
            wider,
        ]
        assert decide.asked[1].edit is not None
        assert [approval.answer.by for approval in decision.approvals] == ["jo"]
        assert uses_left(decide.gate) == {"grant-1": 3}

    async def test_edited_plan_can_be_denied(self) -> None:
        """G-108: the edited plan can be denied; then neither plan has effect."""
        decide = Asker(planning(DEPLOY))
        wider = {"title": "Release", "steps": [step("deploy", 3)]}
        answers = ApprovalAnswer(True, input=wider, by="maria"), ApprovalAnswer(False, by="jo")
        decision = await decide("plan", *answers, title="Release", steps=[step("deploy")])
        assert len(decide.asked) == 2
        assert (decision.outcome, decide.gate.grants) == ("block", {})

    async def test_always_edited(self) -> None:
        """If every answer edits the plan again, none of the plans is approved."""
        gate = planning(DEPLOY)

        def more(request: ApprovalRequest) -> ApprovalAnswer:
            steps = [step("deploy", request.call.input["steps"][0]["count"] % 2 + 1)]
            return ApprovalAnswer(True, input={"title": "Release", "steps": steps}, by="maria")

        decision = await gate.handle_tool_call(
            call("plan", title="Release", steps=[step("deploy")]), GateContext(more)
        )
        assert (decision.outcome, gate.grants) == ("block", {})


class TestReplacedNets:
    """Replacing the nets ends the grants given under the former nets (G-74, G-110)."""

    async def test_plan_ends_with_replaced_nets(self) -> None:
        """G-110: a plan approved under other nets ends, and `replace_nets` returns its grants."""
        decide = await planned(DEPLOY, step("deploy", 2), step("deploy"))
        nets = planning(DEPLOY + "block rm\n").nets
        assert decide.gate.replace_nets(nets, tuple(nets), tuple(nets)) == ("grant-1", "grant-2")
        assert (await decide("deploy")).block
        assert (len(decide.asked), decide.gate.grants) == (1, {})

    async def test_plan_ends_even_under_the_same_nets(self) -> None:
        """G-110: without an explicit list of kept grants, even the same nets end a plan."""
        decide = await planned(DEPLOY, step("deploy"))
        nets = decide.gate.nets
        assert decide.gate.replace_nets(nets, tuple(nets), tuple(nets)) == ("grant-1",)
        assert (await decide("deploy")).block

    async def test_plan_with_all_grants_kept_continues(self) -> None:
        """G-110: a plan whose grants are all listed continues with its remaining uses."""
        decide = await planned(DEPLOY, step("deploy", 2))
        assert (await decide("deploy")).granted == ("grant-1",)
        nets = decide.gate.nets
        assert decide.gate.replace_nets(nets, tuple(nets), tuple(nets), grants=["grant-1"]) == ()
        assert uses_left(decide.gate) == {"grant-1": 1}

    async def test_plan_ends_unless_all_grants_are_kept(self) -> None:
        """G-110: a plan continues only if all of its grants are kept."""
        rules = DEPLOY + "require human-approval before push\n"
        decide = await planned(rules, step("deploy"), step("push"))
        nets = decide.gate.nets
        ended = decide.gate.replace_nets(nets, tuple(nets), tuple(nets), grants=["grant-1"])
        assert (ended, decide.gate.grants) == (("grant-1", "grant-2"), {})

    async def test_grant_ends_without_its_net(self) -> None:
        """G-74: a grant does not continue without the net that it covers."""
        decide = await planned(DEPLOY, step("deploy"))
        nets = {key: net for key, net in decide.gate.nets.items() if "deploy" not in key}
        assert decide.gate.replace_nets(nets, tuple(nets), grants=["grant-1"]) == ("grant-1",)

    async def test_ordinary_grants_end_in_the_same_way(self) -> None:
        """G-74: a grant given with an approval ends in the same way."""
        decide = Asker(planning(DEPLOY))
        given = await decide("deploy", granting())
        nets = decide.gate.nets
        assert given.gave == ("grant-1",)
        assert decide.gate.replace_nets(nets, tuple(nets), tuple(nets)) == ("grant-1",)
        assert (await decide("deploy")).block

    async def test_failed_replacement_ends_no_grant(self) -> None:
        """If the nets are not replaced, no grant ends."""
        decide = await planned(DEPLOY, step("deploy"))
        with pytest.raises(NetError):
            decide.gate.replace_nets(decide.gate.nets, ["no-such-net"])
        assert (await decide("deploy")).granted == ("grant-1",)
