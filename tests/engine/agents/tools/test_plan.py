"""The tool `plan` of agents hosted in a session."""

from __future__ import annotations

from interlock.engine import create_gate
from interlock.engine.agents import C, T
from interlock.engine.agents.tools.plan import PlanTool, with_plan_tool
from interlock.engine.core.plan import PLAN
from interlock.rules import compile_rules, condition_of

from ..script import watched

RULES = "require human-approval before plan\nrequire human-approval before deploy"
STEPS = {"title": "Release 1.4", "steps": [{"tool": "deploy", "count": 2}]}


class TestPlanTool:
    async def test_result_lists_the_allowed_calls(self) -> None:
        """The result tells the model the calls that its plan allows (G-108)."""
        gate = create_gate(compile_rules(RULES).nets, confirm=lambda _: True, conditions=condition_of)
        w = await watched(C(c1=(PLAN, STEPS)), T("ok"), tools=[PlanTool], gate=gate)
        happened = await w.say("go")
        assert any("result c1 ok" in each and "2 deploy" in each for each in happened), happened

    def test_offered_if_a_rule_requires_plan_approval(self) -> None:
        """It is offered if a rule requires approval of plans, but not if one only limits them."""
        assert with_plan_tool([], compile_rules(RULES).nets) == (PlanTool,)
        assert with_plan_tool([], compile_rules("limit plan to 2 per session").nets) == ()

    def test_agents_own_tool_of_that_name_stays(self) -> None:
        """An agent that has a tool of this name keeps it, whatever the rules."""
        assert with_plan_tool([PlanTool], compile_rules(RULES).nets) == (PlanTool,)
        assert with_plan_tool([PlanTool], ()) == (PlanTool,)
