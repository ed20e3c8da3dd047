"""Grants: approvals for later calls, and uses that are committed with their call."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from interlock.engine import (
    ApprovalRequest,
    GateContext,
    Rejection,
    ToolResult,
    Transition,
    create_gate_manager,
    handle_tool_call,
)
from interlock.engine.gate import GrantTerms
from interlock.engine.net.net import initial_state

from ..support.granting import KEY, Names, granted, tokens
from ..support.helpers import Operator, call, everything, net, reason
from ..support.ruled import Asker, Clock, approval, gate_of, granting, limit, nets_of, yes


class TestAnswering:
    """A grant answers in place of an approver."""

    async def test_covers_as_many_calls_as_uses(self) -> None:
        """G-13: three uses cover three calls, each of which names the grant; the fourth is requested."""
        decide = await granted(granting(uses=3))
        for left in (2, 1, 0):
            decision = await decide("deploy")
            assert (decision.outcome, decision.granted, decision.approvals) == ("allow", (KEY,), ())
            assert [(s.net, s.transition.name) for s in decision.steps][-1] == (KEY, "use")
            assert (decide.asked, tokens(decide.gate)) == ([], (left, 3 - left, 0))
        assert (await decide("deploy")).block
        assert len(decide.asked) == 1

    async def test_grant_without_number_is_unlimited(self) -> None:
        """G-13: a grant without a number has unlimited uses."""
        decide = await granted(granting())
        assert [(await decide("deploy")).outcome for _ in range(5)] == ["allow"] * 5
        assert tokens(decide.gate) == (1, 0, 0)

    async def test_grant_ends_exactly_at_its_time(self) -> None:
        """G-13: a grant ends exactly at its time, regardless of its uses."""
        clock = Clock()
        decide = await granted(granting(uses=5, seconds=60), clock=clock)
        clock.now += 59
        decision = await decide("deploy")
        assert (decision.granted, decision.clock) == ((KEY,), clock.now)
        clock.now += 1
        assert (await decide("deploy")).block
        assert (
            decide.gate.format_status().splitlines()[1] == "grant-1 (grant for deploy): used:1, ended:4"
        )

    async def test_expired_grant_is_not_revived_by_clock(self) -> None:
        """G-13: an unlimited grant ends at its time, and setting the clock back does not revive it."""
        clock = Clock()
        decide = await granted(granting(seconds=60), clock=clock)
        clock.now += 60
        assert (await decide("deploy")).block
        clock.now -= 60
        assert (await decide("deploy")).block

    async def test_unreadable_clock_causes_a_request(self) -> None:
        """G-59: if the time cannot be read, a request is made."""
        clock = Clock()
        decide = await granted(granting(seconds=60), clock=clock)
        clock.now = nan
        assert (await decide("deploy")).block
        assert len(decide.asked) == 1

    async def test_covers_without_a_confirm_callback(self) -> None:
        """G-13: a grant also covers a call without a confirm callback."""
        decide = await granted(granting(uses=1))
        assert await reason(decide.gate, "deploy", "a") is None
        assert await reason(decide.gate, "deploy", "b") == "deploy requires human approval."

    async def test_one_use_covers_identical_rules(self) -> None:
        """G-43: one use covers identical rules."""
        decide = await granted(granting(uses=2), approval(), approval())
        decision = await decide("deploy")
        assert (decision.granted, tokens(decide.gate)) == ((KEY,), (1, 1, 0))

    async def test_each_rule_needs_its_own_grant(self) -> None:
        """G-13: each rule needs its own grant; without one, its approver is asked."""
        decide = Asker(gate_of(approval(), approval(risk="high")))
        await decide("deploy", granting(uses=1), granting(uses=2))
        decision = await decide("deploy")
        assert (decision.granted, len(decide.asked)) == (("grant-1", "grant-2"), 0)
        decision = await decide("deploy", yes())
        assert (decision.granted, len(decide.asked)) == (("grant-2",), 1)

    async def test_shadow_mode_uses_the_grant(self) -> None:
        """G-57: in shadow mode a grant turns `ask` into `allow`, and its token moves."""
        decide = await granted(granting(uses=1))
        decide.gate.mode = "shadow"
        first, second = await decide("deploy"), await decide("deploy")
        assert [(d.outcome, d.granted) for d in (first, second)] == [("allow", (KEY,)), ("ask", ())]
        assert tokens(decide.gate) == (0, 1, 0)

    async def test_shadow_mode_keeps_unused_token(self) -> None:
        """G-57: if the net does not move because its validator rejects, the grant keeps its token."""
        refusing: list[bool] = []

        def validate(*_: object) -> Rejection | None:
            return Rejection("no") if refusing else None

        (built,) = nets_of(approval())
        decide = Asker(create_gate_manager([replace(built, validate_tool_call=validate)]))
        await decide("deploy", granting(uses=1))
        refusing.append(True)
        decide.gate.mode = "shadow"
        assert (await decide("deploy")).outcome == "block"
        assert tokens(decide.gate) == (1, 0, 0)


class TestAllOrNone:
    """A use is committed with its call."""

    async def test_blocked_call_uses_no_grant(self) -> None:
        """G-11: a call that another net blocks uses nothing."""
        decide = await granted(granting(uses=1), approval(), limit("deploy", 1, None))
        before = everything(decide.gate)
        assert (await decide("deploy")).net == "limit-deploy-1"
        assert (everything(decide.gate), tokens(decide.gate)) == (before, (1, 0, 0))

    async def test_rejected_call_uses_no_grant(self) -> None:
        """G-14: a call that a validator rejects uses nothing, and the grant keeps its times."""
        refusing: list[bool] = []

        def validate(*_: object) -> Rejection | None:
            return Rejection("no") if refusing else None

        clock = Clock()
        (built,) = nets_of(approval())
        late = net("late", Transition("d", ["p"], ["p"], ["deploy"]), validate_tool_call=validate)
        decide = Asker(create_gate_manager([built, late], clock=clock))
        await decide("deploy", granting(uses=1, seconds=60))
        refusing.append(True)
        since = dict(decide.gate.grant_states[KEY].since)
        clock.now += 1
        assert (await decide("deploy")).reason == "no"
        assert (tokens(decide.gate), decide.gate.grant_states[KEY].since) == ((1, 0, 0), since)

    async def test_used_up_while_waiting(self) -> None:
        """G-58: a grant that another call used up while this one waited covers nothing."""
        gate = gate_of(approval(), approval("other"), names=Names())
        decide = Asker(gate)
        both = {"names": ("other",)}
        await decide("deploy", granting(uses=1), yes(), **both)
        asked: list[str] = []

        async def confirm(request: ApprovalRequest) -> bool:
            asked.append(request.tool)
            if len(asked) == 1:
                inner = await gate.handle_tool_call(call("deploy", "inner", **both), Operator().context)
                assert inner.granted == (KEY,)
            return True

        decision = await gate.handle_tool_call(call("deploy", "outer", **both), GateContext(confirm))
        assert (decision.outcome, decision.granted) == ("allow", ())
        assert sorted(asked) == ["deploy", "other"]

    async def test_expired_while_waiting(self) -> None:
        """G-58: a grant that expired while the call waited covers nothing."""
        clock = Clock()
        gate = gate_of(approval(), approval("other"), names=Names(), clock=clock)
        decide = Asker(gate)
        await decide("deploy", granting(seconds=60), yes(), names=("other",))
        asked: list[str] = []

        def confirm(request: ApprovalRequest) -> bool:
            asked.append(request.tool)
            clock.now += 60
            return True

        decision = await gate.handle_tool_call(
            call("deploy", "x", names=("other",)), GateContext(confirm)
        )
        assert (decision.granted, sorted(asked)) == ((), ["deploy", "other"])

    async def test_revoked_while_waiting(self) -> None:
        """G-58: a grant that was revoked while the call waited covers nothing."""
        gate = gate_of(approval(), approval("other"), names=Names())
        decide = Asker(gate)
        await decide("deploy", granting(), yes(), names=("other",))
        asked: list[str] = []

        def confirm(request: ApprovalRequest) -> bool:
            asked.append(request.tool)
            gate.revoke_grant(KEY)
            return True

        decision = await gate.handle_tool_call(
            call("deploy", "x", names=("other",)), GateContext(confirm)
        )
        assert (decision.granted, sorted(asked)) == ((), ["deploy", "other"])

    async def test_unexecuted_call_returns_its_use(self) -> None:
        """A-40: a call that never ran gives back its use, unless the grant was revoked."""
        decide = await granted(granting(uses=1))
        decision = await decide("deploy")
        undo = ToolResult("c2", "deploy", {}, True, decision.steps)
        record = decide.gate.handle_tool_result(undo)
        assert [step.net for step in record.undone] == [KEY, "approve-before-deploy"]
        assert tokens(decide.gate) == (1, 0, 0)
        decision = await decide("deploy")
        decide.gate.revoke_grant(KEY)
        record = decide.gate.handle_tool_result(ToolResult("c3", "deploy", {}, True, decision.steps))
        assert [step.net for step in record.undone] == ["approve-before-deploy"]


class TestComingAbout:
    """A grant takes effect when its call is committed."""

    async def test_blocked_call_gives_no_grant(self) -> None:
        """G-15: a call that is blocked after all gives no grant."""
        decide = Asker(gate_of(approval(), approval(risk="high")))
        assert (await decide("deploy", granting(), False)).gave == ()
        assert decide.gate.grants == {}

    async def test_voided_answer_gives_no_grant(self) -> None:
        """G-43: an answer that an edit has voided gives no grant."""
        decide = Asker(gate_of(approval(), approval(risk="high")))
        decision = await decide("deploy", granting(), yes(input={"n": 1}), yes())
        assert (decision.outcome, decision.gave) == ("allow", ())

    async def test_grant_covers_the_edited_input(self) -> None:
        """G-15: after an edit, the grant is for the edited input."""
        answer = yes(input={"n": 2}, grant=GrantTerms("input"))
        decide = await granted(answer, value={"n": 1})
        assert (await decide("deploy", n=1)).block
        assert (await decide("deploy", n=2)).granted == (KEY,)

    async def test_keys_are_never_reused(self) -> None:
        """G-21: keys are numbered on, also past revoked grants."""
        decide = await granted(granting("input"), value={"n": 1})
        assert decide.gate.revoke_grant(KEY).message == "Revoked 'grant-1'"
        assert (await decide("deploy", granting("input"), n=1)).gave == ("grant-2",)
        assert decide.gate.revoke_grant(KEY).message == "Unknown grant 'grant-1'. There are: grant-2"

    async def test_grant_is_a_net_of_remaining_uses(self) -> None:
        """G-1: a grant is a small net of remaining uses that names its rule, tool and names."""
        decide = await granted(granting("names", 2, 60), clock=Clock(5.0))
        grant = decide.gate.grants[KEY]
        assert (grant.asks, grant.tool, grant.names, grant.input) == (
            "approve-before-deploy",
            "deploy",
            ("deploy",),
            None,
        )
        assert [(t.name, t.after) for t in grant.net.transitions] == [("use", None), ("expire", 60)]
        assert decide.gate.grant_states[KEY].since == {"granted": (5.0, 5.0)}

    async def test_unreadable_time_blocks_the_call(self) -> None:
        """G-59: if a grant's time cannot be read, the call is blocked and nothing moves."""
        clock = Clock(nan)
        decide = Asker(gate_of(approval(), limit("deploy", 3, None), clock=clock))
        before = everything(decide.gate)
        assert (await decide("deploy", granting(seconds=60))).block
        assert (everything(decide.gate), decide.gate.grants) == (before, {})

    async def test_single_net_keeps_no_grants(self) -> None:
        """G-12: a single net keeps no grants, and the reason says so."""
        (one,) = nets_of(approval())
        decision = await handle_tool_call(
            call("deploy"), GateContext(lambda _: granting()), one, initial_state(one)
        )
        assert decision.reason == (
            "deploy was approved with a grant, which cannot be given: a net on its own keeps none."
        )

    @pytest.mark.parametrize(
        "terms",
        [
            *[("all",), ("names", 0), ("names", True), ("names", 1.5), ("names", 10**7)],
            *[("names", None, seconds) for seconds in (0, -1, inf, nan, True)],
        ],
    )
    def test_invalid_terms_are_refused(self, terms: Any) -> None:
        """G-3: invalid terms are refused."""
        with pytest.raises(ValueError, match="grant"):
            GrantTerms(*terms)
