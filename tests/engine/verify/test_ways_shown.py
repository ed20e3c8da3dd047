"""Ways and bounds that involve time, several approvers and conditions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.engine.core.condition import And, Compare, Condition, Not, Or
from interlock.engine.core.rule import ApprovalRule, BlockRule, LimitRule, SequenceRule
from interlock.engine.net.net import SkillNet, Transition, define_skill_net
from interlock.engine.verify import (
    Action,
    Effort,
    Never,
    Pace,
    PlannedCall,
    Together,
    Unknown,
    Vocabulary,
    Way,
)

from .newer import compiled

PROD: Condition = Compare(("env",), "=", "prod")
HOUR = 3600


def together(*nets: SkillNet) -> Together:
    return Together({f"n{number}": net for number, net in enumerate(nets)})


def net_with_tokens(net: SkillNet, **tokens: int) -> Together:
    """Return one net with these tokens."""
    return Together({"n0": net}, markings={"n0": {**dict.fromkeys(net.places, 0), **tokens}})


class TestTime:
    """Waiting is a step of a way, and nothing is used up permanently."""

    def test_used_limit_returns_with_time(self) -> None:
        """G-10: the way to a call beyond a sliding limit is to wait."""
        net = compiled(LimitRule("deploy", 3, "1h", window=HOUR))
        answer = net_with_tokens(net, ready=1, spent=3).way("deploy")
        assert str(answer) == "wait 1h → deploy"
        assert isinstance(answer, Way)
        assert answer.shortest
        assert answer.calls[0] == PlannedCall(("wait 1h",), seconds=HOUR)

    def test_sliding_limit_has_no_total(self) -> None:
        """G-56: a sliding limit has a pace and no total."""
        most = together(compiled(LimitRule("a", 1_000, "1h", window=HOUR))).most("a")
        assert most.unlimited
        assert most.paces == (Pace(1_000, HOUR),)
        assert str(most.paces[0]) == "1,000 per 1h"

    def test_session_limit_still_bounds_the_total(self) -> None:
        """G-56: with a limit per session the total is that limit's, and the pace is kept as well."""
        both = together(
            compiled(LimitRule("a", 2, "1h", window=HOUR)), compiled(LimitRule("a", 5, "session"))
        )
        most = both.most("a")
        assert (most.least, most.most, most.unlimited) == (5, 5, False)
        assert list(map(str, most.paces)) == ["2 per 1h"]
        assert both.calls_bound("a", without="n0") == 5
        assert both.calls_bound("a", without="n1") == float("inf")

    def test_conditional_sliding_limit_gives_no_pace(self) -> None:
        """G-56: a sliding limit with a condition gives no pace, because other calls are not limited."""
        most = together(compiled(LimitRule("a", 2, "1h", window=HOUR, when=PROD))).most("a")
        assert most.unlimited
        assert most.paces == ()

    def test_two_used_limits_need_one_wait(self) -> None:
        """G-10: two used-up limits need one wait, as long as the longer one."""
        nets = {
            "short": compiled(LimitRule("a", 1, "90s", window=90)),
            "long": compiled(LimitRule("a", 1, "36h", window=36 * HOUR)),
        }
        spent = {"idle": 0, "ready": 1, "budget": 0, "spent": 1}
        answer = Together(nets, markings=dict.fromkeys(nets, spent)).way("a")
        assert str(answer) == "wait 36h → a"

    def test_consecutive_waits_are_added(self) -> None:
        """G-10: the wait for a token that ages twice is the sum; several tokens age at the same time."""
        net = define_skill_net(
            "n",
            places=["p", "q", "r"],
            transitions=[
                Transition("first", ("p",), ("q",), after=HOUR),
                Transition("second", ("q",), ("r",), after=1800),
                Transition("do", ("r", "r"), (), ("a",)),
            ],
            initial_marking={"p": 2},
        )
        assert str(together(net).way("a")) == "wait 90m → a"

    def test_independent_waits_are_merged(self) -> None:
        """G-10: a wait that no other call depends on is merged with an earlier one."""
        nets = {
            "a": compiled(LimitRule("a", 1, "1h", window=HOUR)),
            "b": compiled(LimitRule("b", 1, "2h", window=2 * HOUR)),
            "order": compiled(SequenceRule("a", "b")),
        }
        spent = {"idle": 0, "ready": 1, "budget": 0, "spent": 1}
        markings = {"a": spent, "b": spent, "order": {"idle": 0, "ready": 1, "gate": 0}}
        answer = Together(nets, markings=markings).way("b")
        assert str(answer) in ("wait 2h → a → b", "wait 1h → a → wait 2h → b")
        assert isinstance(answer, Way)
        assert [c.names[0] for c in answer.calls if c.seconds is None] == ["a", "b"]

    @pytest.mark.parametrize(("seconds", "words"), [(45, "45s"), (0.5, "0.5s"), (172_800, "2d")])
    def test_time_is_in_its_largest_whole_unit(self, seconds: float, words: str) -> None:
        """G-10: a time is given in the largest unit of which it is a whole number."""
        net = compiled(LimitRule("a", 1, words, window=seconds))
        assert str(net_with_tokens(net, ready=1, spent=1).way("a")) == f"wait {words} → a"


class TestPeople:
    """An approval by several people is shown as such and never makes a call impossible."""

    def test_way_shows_number_of_approvers(self) -> None:
        """G-13: the way shows how many people must approve, also beside an approval by fewer."""
        two = compiled(ApprovalRule("deploy", people=2))
        three = compiled(ApprovalRule("deploy", people=3))
        single = replace(
            two,
            transitions=(
                *two.transitions[:1],
                Transition("approve", ("ready",), ("ready",), ("deploy",), "manual"),
            ),
        )
        assert str(together(two).way("deploy")) == "deploy (2 people approve)"
        assert str(together(two, three, single).way("deploy")) == "deploy (3 people approve)"
        assert str(together(single).way("deploy")) == "deploy (approval)"
        assert together(two, three).most("deploy").unlimited

    def test_approvals_in_an_unlocking_net_are_counted(self) -> None:
        """G-13: approvals are counted even if the same net also unlocks the call."""
        net = define_skill_net(
            "n",
            places=["shut", "open", "approval"],
            transitions=[
                Transition("unlock", ("shut",), ("open",), ("test",)),
                Transition("pass", ("open", "approval", "approval"), ("shut",), ("deploy",)),
                Transition(
                    "person", ("open",), ("open", "approval"), ("deploy",), "manual", partial=True
                ),
            ],
            initial_marking={"shut": 1},
        )
        assert str(together(net).way("deploy")) == "test → deploy (2 people approve)"


class TestConditions:
    """A call that conditions leave possible is not reported as impossible, and vice versa."""

    def test_a_conditional_block(self) -> None:
        """G-10: a tool blocked under a condition is still possible; the way names the net it avoids."""
        nets = together(compiled(BlockRule("rm", when=PROD)))
        assert str(nets.way("rm")) == "rm (outside n0)"
        assert nets.most("rm").unlimited
        assert nets.way_within("n0") == Never(("n0",))

    def test_a_conditional_prerequisite(self) -> None:
        """G-10: B without A is possible outside the condition, and inside it only after A."""
        nets = together(compiled(SequenceRule("test", "deploy", when=PROD)))
        assert str(nets.way("deploy")) == "deploy (outside n0)"
        assert str(nets.way_within("n0")) == "test → deploy"

    @pytest.mark.parametrize(
        "opposite",
        [Not(PROD), Compare(("env",), "!=", "prod"), Not(Not(Compare(("env",), "!=", "prod")))],
    )
    def test_opposite_conditions(self, opposite: Condition) -> None:
        """G-10: a tool blocked under a condition and under its negation is impossible, by both nets."""
        nets = together(compiled(BlockRule("rm", when=PROD)), compiled(BlockRule("rm", when=opposite)))
        assert nets.way("rm") == Never(("n0", "n1"))
        assert nets.most("rm").most == 0

    def test_negated_conjunctions_are_opposites(self) -> None:
        """G-10: `not (x and y)` is the opposite of `y and x`, and so is `not x or not y`."""
        other: Condition = Compare(("n",), "<", 3)
        for opposite in (
            Not(And((other, PROD))),
            Or((Not(PROD), Compare(("n",), ">=", 3))),
        ):
            nets = together(
                compiled(BlockRule("rm", when=And((PROD, other)))),
                compiled(BlockRule("rm", when=opposite)),
            )
            assert nets.way("rm") == Never(("n0", "n1"))

    def test_true_and_one_are_not_opposites(self) -> None:
        """G-10: `= true` and `!= 1` are not opposites, although they are equal in Python."""
        nets = together(
            compiled(BlockRule("rm", when=Compare(("x",), "=", True))),
            compiled(BlockRule("rm", when=Compare(("x",), "!=", 1))),
        )
        assert isinstance(nets.way("rm"), Way)

    def test_equal_conditions(self) -> None:
        """G-10: a call inside one of two equal conditions is inside the other."""
        nets = together(
            compiled(SequenceRule("test", "deploy", when=PROD)),
            compiled(BlockRule("deploy", when=PROD)),
        )
        assert nets.way_within("n0") == Never(("n1",))
        assert nets.redundant("n0", Effort(100_000))

    def test_redundant_only_where_it_applies(self) -> None:
        """G-10: a rule is not made redundant by one with another condition."""
        other: Condition = Compare(("env",), "=", "test")
        unconditional = compiled(SequenceRule("test", "deploy"))
        inside = compiled(SequenceRule("test", "deploy", when=PROD))
        elsewhere = compiled(SequenceRule("test", "deploy", when=other))
        assert together(inside, unconditional).redundant("n0", Effort(100_000))
        assert not together(inside, unconditional).redundant("n1", Effort(100_000))
        assert not together(inside, elsewhere).redundant("n0", Effort(100_000))

    def test_conditional_limit_bounds_only_its_calls(self) -> None:
        """G-56: a conditional limit is bounded by the limits for its calls, and bounds no others."""
        nets = together(
            compiled(LimitRule("a", 9, "session", when=PROD)),
            compiled(LimitRule("a", 4, "session", when=PROD)),
            compiled(LimitRule("a", 30, "session")),
        )
        assert nets.calls_bound("a", without="n0") == 4
        assert nets.calls_bound("a", without="n2") == float("inf")
        assert (nets.most("a").least, nets.most("a").most) == (30, 30)

    def test_untried_combinations_are_not_reported_impossible(self) -> None:
        """G-10: with more opposite conditions than are combined, nothing is reported as impossible."""
        each = [Compare((name,), "=", 1) for name in "abcdef"]
        both = [BlockRule("rm", when=c) for one in each for c in (one, Not(one))]
        nets = together(*map(compiled, both))
        assert nets.way("rm") == Unknown()
        assert nets.most("rm").most is None
        few = together(*map(compiled, both[:8]))
        assert isinstance(few.way("rm"), Never)

    @pytest.mark.slow
    def test_many_conditions_of_one_tool(self) -> None:
        """G-10: five hundred conditions on one tool get an answer, outside and inside of them."""
        rules = [SequenceRule(f"t{n}", "deploy", when=Compare(("n",), "=", n)) for n in range(500)]
        nets = together(*map(compiled, rules))
        assert isinstance(nets.way("deploy"), Way)
        assert nets.way_within("n7") == Unknown()

    def test_given_call_has_known_conditions(self) -> None:
        """G-10: for the call in question it is known which conditions it is outside of."""
        nets = {
            "order": compiled(SequenceRule("test", "deploy", when=PROD)),
            "block": compiled(BlockRule("deploy", when=Not(PROD))),
            "ask": compiled(ApprovalRule("test", people=2)),
        }
        inside = Action(("deploy",), by_net={"order": ("deploy",), "block": (), "ask": ()})
        outside = Action(("deploy",), by_net={"order": (), "block": ("deploy",), "ask": ()})
        free = Action(("deploy",), by_net={"order": (), "block": ()})
        way = [str(Together(nets, extra=[a]).way_to_extra()) for a in (inside, free)]
        assert way == ["test (2 people approve) → deploy", "deploy"]
        assert Together(nets, extra=[outside]).way_to_extra() == Never(("block",))

    def test_condition_on_mapped_name_applies(self) -> None:
        """G-50: a condition on a mapped name applies to the call that carries the name."""
        nets = {"block": compiled(BlockRule("push", when=PROD)), "all": compiled(BlockRule("rm"))}
        words = Vocabulary({"push": ("bash",), "rm": ("bash",)})
        answer = Together(nets, words=words).way("push")
        assert str(answer) == "push (outside block)"
        assert Together(nets, words=words).way("rm") == Never(("all",))
