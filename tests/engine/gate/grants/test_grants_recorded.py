"""Grants restored from a record, and the status of a gate's grants."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from typing import Any

import pytest

from interlock.engine import NetError, create_gate_manager
from interlock.engine.gate import GrantTerms

from ..support.granting import KEY, granted, made, tokens
from ..support.helpers import call, net
from ..support.ruled import Asker, Clock, approval, block, gate_of, granting, is_


class TestRecorded:
    """Grants of a record."""

    async def test_restored_with_remaining_uses_and_time(self) -> None:
        """G-63: a restored grant has the uses and the time that were left."""
        clock = Clock()
        decide = await granted(granting(uses=3, seconds=60), clock=clock)
        await decide("deploy")
        second = gate_of(approval(), clock=Clock(clock.now + 59))
        states = decide.gate.grant_states
        second.restore(
            grants=decide.gate.grants.values(),
            markings={KEY: states[KEY].marking},
            since={KEY: states[KEY].since},
        )
        assert (second.grants, second.grant_states) == (decide.gate.grants, states)
        again = Asker(second)
        assert (await again("deploy")).granted == (KEY,)

    async def test_expired_before_restore(self) -> None:
        """G-63: a grant that expired before it was restored covers nothing."""
        gate = gate_of(approval(), clock=Clock(100.0))
        gate.restore(
            grants=[made(gate, terms=GrantTerms("names", 1, 60))], since={KEY: {"granted": (40.0,)}}
        )
        assert (await Asker(gate)("deploy")).block

    async def test_revoked_grant_stays_revoked(self) -> None:
        """G-63: a revoked grant stays revoked, and its key stays used."""
        gate = gate_of(approval())
        both = [made(gate), made(gate, "grant-2")]
        gate.restore(
            grants=both, revoked=("grant-2",), markings={KEY: {"used": 2}, "grant-2": {"granted": 2}}
        )
        assert list(gate.grants) == [KEY]
        decide = Asker(gate)
        assert (await decide("deploy")).block
        assert (await decide("deploy", granting())).gave == ("grant-3",)

    @pytest.mark.parametrize(
        "since", [None, {KEY: {}}, {KEY: {"granted": (1.0,)}}, {KEY: {"granted": (1.0, nan)}}]
    )
    async def test_expiring_grant_without_use_times_is_not_restored(self, since: Any) -> None:
        """G-63: a grant that expires is not restored without the time of every use; nothing changes."""
        gate = gate_of(approval())
        with pytest.raises(NetError):
            gate.restore(
                grants=[made(gate, terms=GrantTerms("names", 2, 60))], since=since, mode="shadow"
            )
        assert (gate.grants, gate.mode) == ({}, "enforce")

    async def test_restore_without_grants_argument_keeps_grants(self) -> None:
        """G-63: without a `grants` argument, the grants stay."""
        decide = await granted(granting(uses=2))
        decide.gate.restore(mode="enforce")
        assert tokens(decide.gate) == (2, 0, 0)
        decide.gate.restore(grants=[])
        assert decide.gate.grants == {}

    async def test_added_grant_counts_from_given_time(self) -> None:
        """G-63: an added grant counts from the given time, or from now."""
        clock = Clock()
        gate = gate_of(approval(), clock=clock)
        gate.add_grant(made(gate, terms=GrantTerms("names", None, 60)), since=clock.now - 59)
        decide = Asker(gate)
        assert (await decide("deploy")).granted == (KEY,)
        clock.now += 1
        assert (await decide("deploy")).block

    async def test_invalid_or_used_keys_are_refused(self) -> None:
        """G-63: invalid or used keys and unknown nets are refused."""
        gate = gate_of(approval())
        gate.add_grant(made(gate))
        for wrong in (
            made(gate),
            made(gate, "grant-01"),
            made(gate, "mine"),
            replace(made(gate, "grant-2"), asks="x"),
        ):
            with pytest.raises(NetError):
                gate.add_grant(wrong)
        with pytest.raises(NetError):
            gate.add_grant(made(gate, "grant-2", GrantTerms("names", 1, 60)), since=nan)
        assert list(gate.grants) == [KEY]

    def test_net_cannot_have_the_key_of_a_grant(self) -> None:
        """G-21: a net cannot have the key of a grant."""
        for nets in ([net("grant-7")], {"grant-7": net("n")}):
            with pytest.raises(NetError, match="grant-7"):
                create_gate_manager(nets)
        assert list(create_gate_manager([net("grant-x"), net("grant-")]).nets) == ["grant-x", "grant-"]


class TestSaid:
    """The gate's description of its grants."""

    async def test_status_has_one_line_per_grant(self) -> None:
        """G-20: one line per grant, after the nets."""
        decide = await granted(granting(uses=2))
        assert decide.gate.format_status() == (
            "approve-before-deploy: ready:1\ngrant-1 (grant for deploy): granted:2"
        )

    async def test_explanation_names_the_grant(self) -> None:
        """G-60: the explanation of a granted call says `allow` and names the grant."""
        decide = await granted(granting(uses=1))
        explained = decide.gate.explain(call("deploy"))
        assert (explained.outcome, explained.granted) == ("allow", (KEY,))
        assert tokens(decide.gate) == (1, 0, 0)
        await decide("deploy")
        explained = decide.gate.explain(call("deploy"))
        assert (explained.outcome, explained.granted) == ("ask", ())

    async def test_grant_does_not_affect_other_nets(self) -> None:
        """G-11: a grant does not affect other nets."""
        gate = gate_of(approval(), block("deploy", is_("env", "prod")))
        gate.add_grant(made(gate))
        assert (await Asker(gate)("deploy", env="prod")).net == "block-deploy"
