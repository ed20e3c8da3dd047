"""Data that members of gates share, and data that they do not."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import replace
from weakref import ref

from interlock.engine.gate.classify import Roster
from interlock.engine.gate.member import Member
from interlock.engine.net.net import SkillNet, initial_state
from interlock.rules import compile_rules

RULES = "limit deploy to 2 per session\nrequire test before deploy"


def members(nets: Mapping[str, SkillNet]) -> list[Member]:
    """Return nets as a gate holds them."""
    return [Member(key, net, initial_state(net)) for key, net in nets.items()]


class TestKnownTools:
    def test_gates_with_the_same_nets_share_them(self) -> None:
        """Gates with the same nets share the known tools but not the states."""
        nets = compile_rules(RULES).registry
        for a, b in zip(members(nets), members(nets), strict=True):
            assert a.knows is b.knows
            assert a.state is not b.state

    def test_other_nets_have_their_own(self) -> None:
        """An equal net, or the same net under another key, has its own known tools."""
        (net, *_) = compile_rules(RULES).registry.values()
        one, same, other = (
            Member(key, each, initial_state(each))
            for key, each in (("a", net), ("a", replace(net)), ("b", net))
        )
        assert len({id(each.knows) for each in (one, same, other)}) == 3
        assert {member.knows["deploy"].blocked.net for member in (one, same)} == {"a"}
        assert other.knows["deploy"].blocked.net == "b"

    def test_freed_with_the_last_gate(self) -> None:
        """The known tools of a net are freed with the last gate that holds it."""
        held = members(compile_rules(RULES).registry)
        known = [ref(member._known) for member in held]
        del held
        gc.collect()
        assert [each() for each in known] == [None] * len(known)


class TestRosters:
    def test_same_nets_share_one_index(self) -> None:
        """Rosters of the same nets share one index of names, but their lanes hold their own nets."""
        nets = compile_rules("limit deploy to 2 per session").registry
        one, other = Roster(members(nets)), Roster(members(nets))
        assert one._names is other._names
        lanes = [roster.lane("deploy") for roster in (one, other)]
        for roster, lane in zip((one, other), lanes, strict=True):
            assert lane is not None
            assert [id(member) for member, _ in lane.nets] == [id(member) for member in roster.members]

    def test_another_order_has_its_own_index(self) -> None:
        """Rosters with another order of nets do not share the index."""
        first, second = members(compile_rules(RULES).registry)
        assert Roster([first, second])._names is not Roster([second, first])._names

    def test_index_is_freed_with_the_last_roster(self) -> None:
        """The index is freed with the last roster of its nets."""
        names = ref(Roster(members(compile_rules(RULES).registry))._names)
        assert names() is None
