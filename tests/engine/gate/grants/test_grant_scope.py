"""Calls that a grant never covers."""

from __future__ import annotations

import pytest

from interlock.engine import Transition, create_gate_manager
from interlock.engine.gate import GrantTerms
from interlock.engine.gate.types import ApprovalAnswer, GateContext, GateDecision, GrantScope
from interlock.engine.net.net import ToolCall

from ..support.granting import KEY, Names, granted, made
from ..support.helpers import net
from ..support.ruled import Asker, approval, gate_of, granting, is_, yes


class TestNarrow:
    """A grant covers only what it was given for."""

    async def test_another_rule(self) -> None:
        """G-43: a grant does not cover another rule, even if that is about the same tool."""
        rules = approval(when=is_("free", 1)), approval(when=is_("free", value=True))
        decide = Asker(gate_of(*rules, names=Names()))
        await decide("deploy", granting(), yes())
        assert (await decide("deploy", free=1)).granted == (KEY,)
        assert (await decide("deploy", free=True)).block

    @pytest.mark.parametrize("value", [{"env": "prod"}, {"env": None}, {"n": 1, "env": "staging"}, {}])
    async def test_another_value_not_read_by_a_map(self, value: dict[str, object]) -> None:
        """G-74: a grant by names covers only the values shown, unless a map reads them."""
        shown = {"env": "staging"}
        for names in ({}, {"names": Names()}):
            decide = await granted(granting(), value=shown, **names)
            assert (await decide("deploy", **shown)).granted == (KEY,)
            assert (await decide("deploy", **value)).block

    async def test_effects_besides_the_named_programs(self) -> None:
        """G-74: a grant by names is refused if the call has effects beside its named programs."""
        decide = Asker(gate_of(approval(), names=Names()))
        refused = await decide("deploy", granting(), beside="it sets a variable")
        assert "it sets a variable, so only its exact input can be granted" in str(refused.reason)
        await decide("deploy", granting("input"), beside="it sets a variable")
        assert (await decide("deploy", beside="it sets a variable")).granted == (KEY,)

    @pytest.mark.parametrize("scope", ["names", "input"])
    async def test_an_edit_that_changes_the_effects(self, scope: GrantScope) -> None:
        """G-74: an answer with a grant is refused if its edit changes the call's names."""
        decide = Asker(gate_of(approval(), names=Names()))
        answer = yes(input={"names": ["rm"]}, grant=GrantTerms(scope))
        assert "the edit changes what the call counts as" in str((await decide("deploy", answer)).reason)
        assert decide.gate.grants == {}
        answer = yes(input={"free": 2}, grant=GrantTerms(scope))
        assert (await decide("deploy", answer)).gave == (KEY,)

    async def test_subagents(self) -> None:
        """G-74: a subagent's call is covered, and can be granted, only with a grant for subagents."""
        gate = gate_of(approval())

        async def made(call_id: str, *answers: ApprovalAnswer) -> GateDecision:
            left = list(answers)
            ctx = GateContext(lambda _: left.pop(0)) if left else GateContext()
            return await gate.handle_tool_call(ToolCall(call_id, "deploy", {}), ctx)

        assert (await made("c1", granting())).gave == (KEY,)
        assert (await made("helper-1/c1")).block
        assert "does not reach subagents" in str((await made("helper-1/c2", granting())).reason)
        reaching = yes(grant=GrantTerms("names", subagents=True))
        assert (await made("helper-1/c3", reaching)).gave == ("grant-2",)
        assert (await made("helper-1/c4")).granted == ("grant-2",)
        gate.revoke_grant(KEY)
        assert (await made("c2")).granted == ("grant-2",)

    async def test_another_tool(self) -> None:
        """G-50: a grant does not cover another tool with the same names."""
        decide = await granted(granting(), names=Names(), value={"names": ("bash",)})
        assert (await decide("deploy", names=("bash",))).granted == (KEY,)
        assert (await decide("bash", names=("deploy",))).block

    @pytest.mark.parametrize("names", [(), ("rm",), ("bash", "rm")])
    async def test_other_names(self, names: tuple[str, ...]) -> None:
        """G-50: a grant does not cover a call with more, fewer or other names."""
        decide = await granted(granting(), names=Names(), value={"names": ("bash",)})
        assert (await decide("deploy", names=names)).block

    async def test_names_in_any_order(self) -> None:
        """G-50: the order of names does not matter."""
        decide = await granted(granting(), names=Names(), value={"names": ("a", "b")})
        assert (await decide("deploy", names=("b", "a"))).granted == (KEY,)

    @pytest.mark.parametrize(
        "value", [{}, {"n": True}, {"n": 1.0}, {"n": "1"}, {"n": 1, "m": None}, {"n": [1]}, {"m": 1}]
    )
    async def test_another_input(self, value: dict[str, object]) -> None:
        """G-13: a grant for an input covers no other input, and `true` is not 1."""
        decide = await granted(granting("input"), value={"n": 1})
        assert (await decide("deploy", **value)).block
        assert (await decide("deploy", n=1)).granted == (KEY,)

    async def test_changing_an_approved_list_later(self) -> None:
        """G-13: changing a list after its approval does not change the grant."""
        listed = [1]
        decide = await granted(granting("input"), value={"n": listed})
        listed.append(2)
        assert (await decide("deploy", n=[1])).granted == (KEY,)
        assert (await decide("deploy", n=[1, 2])).block

    async def test_an_edited_call(self) -> None:
        """G-13: a grant does not cover a call that an operator has edited."""
        decide = Asker(gate_of(approval("other"), approval(), names=Names()))
        both = {"names": ["other"]}
        await decide("deploy", yes(), granting(), **both)
        edited = {**both, "n": 1}
        decision = await decide("deploy", yes(input=edited), yes(), **both)
        assert (decision.granted, [r.tool for r in decide.asked]) == ((), ["other", "deploy"])

    async def test_rule_for_several_approvers(self) -> None:
        """G-13: a rule for several people cannot be granted; the answer is refused with the reason."""
        decide = Asker(gate_of(approval(people=2)))
        decision = await decide("deploy", yes("ada", others=("grace",), grant=GrantTerms("names")))
        assert decision.reason == (
            "deploy was approved with a grant, which cannot be given: 2 people must approve each call."
        )
        assert (decision.gave, decide.gate.grants) == ((), {})

    async def test_rule_with_no_grants(self) -> None:
        """G-13: a rule with `no grants` cannot be granted."""
        decide = Asker(gate_of(approval(grants=False)))
        assert "the rule says 'no grants'" in str((await decide("deploy", granting())).reason)
        assert decide.gate.grants == {}

    async def test_grant_added_to_a_rule_without_grants(self) -> None:
        """G-13: a grant added from elsewhere does not cover such rules either."""
        for parts in ({"grants": False}, {"people": 2}):
            decide = Asker(gate_of(approval(**parts)))
            decide.gate.add_grant(made(decide.gate))
            assert (await decide("deploy")).block

    async def test_uninspectable(self) -> None:
        """G-51: a grant by names neither arises from nor covers an uninspectable call."""
        decide = Asker(gate_of(approval(), names=Names()))
        assert "may do more than its names tell" in str(
            (await decide("deploy", granting(), murky=True)).reason
        )
        await decide("deploy", granting())
        assert (await decide("deploy", murky=True)).block
        await decide("deploy", granting("input"), murky=True)
        assert (await decide("deploy", murky=True)).granted == ("grant-2",)

    async def test_call_that_runs_unnamed_commands(self) -> None:
        """G-51: a grant by names neither arises from nor covers a call that runs unnamed commands."""
        decide = Asker(gate_of(approval(), names=Names()))
        assert "runs more than its effects name" in str(
            (await decide("deploy", granting(), more=True)).reason
        )
        await decide("deploy", granting())
        assert (await decide("deploy", more=True)).block
        await decide("deploy", granting("input"), more=True)
        assert (await decide("deploy", more=True)).granted == ("grant-2",)

    async def test_another_name_of_a_hand_built_net(self) -> None:
        """G-43: a grant for one name of a hand-built net does not cover another name."""
        ask = net(
            "ask",
            Transition("a", ["p"], ["p"], ["a"], type="manual"),
            Transition("b", ["p"], ["p"], ["b"], type="manual"),
            call_names=Names(),
        )
        decide = Asker(create_gate_manager([ask]))
        await decide("a", yes(), granting(), names=("b",))
        assert decide.gate.grants[KEY].question == ("ask", "a")
        assert (await decide("a", names=("b",))).block
        assert [request.tool for request in decide.asked] == ["b"]
