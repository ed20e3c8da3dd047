"""A net's record is made once for all of its sessions."""

from __future__ import annotations

from interlock.engine.net.net import SkillNet
from interlock.engine.recording import records
from interlock.engine.recording.records import net_record
from interlock.rules import compile_rules


def net(rule: str) -> SkillNet:
    [found] = compile_rules(rule).registry.values()
    return found


class TestNetRecord:
    def test_record_of_a_net_is_shared(self) -> None:
        """The record of a net is shared; another key or another net has its own."""
        first, second = net("block rm"), net("block rmdir")
        assert net_record("a", first) is net_record("a", first)
        assert net_record("b", first).key == "b"
        assert net_record("a", second) != net_record("a", first)

    def test_number_of_kept_records_is_limited(self) -> None:
        """Of many nets, a limited number of records is kept, and each net gets the right one."""
        nets = [net(f"block tool{number}") for number in range(records._LIMIT + 20)]
        for each in nets:
            assert net_record("k", each).transitions == records._net_record("k", each).transitions
            assert net_record("k", each).rule == records._net_record("k", each).rule
        assert len(records._made) <= records._LIMIT
        assert net_record("k", nets[0]) == records._net_record("k", nets[0])
