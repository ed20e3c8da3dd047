"""Places, transitions and markings: the pure core."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.core.rule import BlockRule
from interlock.engine.net.net import (
    NetError,
    SkillNet,
    Transition,
    auto_advance,
    create_gate_state,
    define_skill_net,
    enabled_tool_transitions,
    fire,
    format_marking,
    is_enabled,
)
from interlock.engine.verify import Together


def net(*transitions: Transition, **marking: int) -> SkillNet:
    """Return a net over the places of its initial marking."""
    return define_skill_net("n", places=list(marking), transitions=transitions, initial_marking=marking)


class TestDefining:
    """Defining a net, and the errors for invalid ones."""

    def test_all_parts_are_kept(self) -> None:
        """G-1: a net keeps its parts, with every place in its initial marking."""
        made = define_skill_net(
            "deploys",
            places=["idle", "ready"],
            transitions=[Transition("start", ["idle"], ["ready"])],
            initial_marking={"idle": 1},
            terminal_places=["ready"],
            free_tools=["ls"],
        )
        assert made.places == ("idle", "ready")
        assert made.initial_marking == {"idle": 1, "ready": 0}
        assert made.terminal_places == ("ready",)
        assert made.free_tools == ("ls",)
        assert made.tool_mapper is made.validate_tool_call is made.on_deferred_result is made.rule is None

    def test_callbacks_and_rule_are_kept(self) -> None:
        """G-1: mapper, names, validator, hook and rule are kept as given."""

        def callback(*_: object) -> None:
            raise AssertionError("nothing is called when a net is made")

        rule = BlockRule("x")
        made = define_skill_net(
            "n",
            places=[],
            transitions=[],
            initial_marking={},
            tool_mapper=callback,
            call_names=callback,
            validate_tool_call=callback,
            on_deferred_result=callback,
            rule=rule,
        )
        parts = (made.tool_mapper, made.call_names, made.validate_tool_call, made.on_deferred_result)
        assert parts == (callback,) * 4
        assert made.rule is rule

    def test_a_transition_by_default(self) -> None:
        """G-2: a transition is auto by default, not deferred, without tools and transfers; structural."""
        plain = Transition("t", ["a"], ["b"])
        assert (plain.type, plain.deferred, plain.tools, plain.transfers) == ("auto", False, (), ())
        assert plain.structural
        assert not Transition("t", ["a"], ["b"], ["x"]).structural

    def test_lists_become_tuples(self) -> None:
        """G-2: arcs, tools and transfers can be given as lists."""
        transition = Transition("t", ["a", "a"], ["b"], ["x"], transfers=[["a", "b"]])
        assert transition == Transition("t", ("a", "a"), ("b",), ("x",), transfers=(("a", "b"),))
        assert transition.needs == (("a", 2),)

    @pytest.mark.parametrize("field", ["inputs", "outputs", "tools", "transfers"])
    def test_bare_string_instead_of_list_is_refused(self, field: str) -> None:
        """G-3: a string in place of a list is refused instead of being split into characters."""
        parts: dict[str, object] = {"inputs": ["a"], "outputs": ["a"], field: "abc"}
        with pytest.raises(NetError, match=f"transition 't': {field} must be a list, got 'abc'"):
            Transition("t", **parts)

    @pytest.mark.parametrize(
        ("changes", "culprit"),
        [
            ({"places": ["a", "b", "a"]}, "place 'a' is listed 2 times"),
            ({"places": "ab"}, "places must be a list, got 'ab'"),
            ({"places": 3}, "places must be a list, got 3"),
            ({"free_tools": "ls"}, "free tools must be a list, got 'ls'"),
            ({"initial_marking": {"c": 1}}, "initial marking names unknown place 'c'"),
            ({"initial_marking": {"a": -1}}, "place 'a' starts with -1"),
            ({"initial_marking": {"a": 1.0}}, "place 'a' starts with 1.0"),
            ({"initial_marking": {"a": True}}, "place 'a' starts with True"),
            ({"terminal_places": ["c"]}, "terminal places name unknown place 'c'"),
            ({"transitions": [Transition("t", ["c"], [])]}, "'t' names unknown place 'c'"),
            ({"transitions": [Transition("t", [], ["c"])]}, "'t' names unknown place 'c'"),
            (
                {"transitions": [Transition("t", ["a"], [], transfers=[("a", "c")])]},
                "'t' names unknown place 'c'",
            ),
            (
                {"transitions": [Transition("t", ["a"], []), Transition("t", ["b"], [])]},
                "transition 't' is defined 2 times",
            ),
            ({"transitions": [Transition("t", ["a"], [], type="manual")]}, "manual transition 't'"),
            ({"transitions": [Transition("t", ["a"], [], deferred=True)]}, "deferred transition 't'"),
            ({"transitions": [Transition("t", ["a"], [], type="automatic")]}, "of type 'automatic'"),
        ],
    )
    def test_error_names_net_and_fault(self, changes: dict[str, object], culprit: str) -> None:
        """G-3: the error names the net and the fault."""
        good: dict[str, object] = {"places": ["a", "b"], "transitions": [], "initial_marking": {}}
        with pytest.raises(NetError) as raised:
            define_skill_net("deploys", **{**good, **changes})
        assert str(raised.value).startswith("net 'deploys': ")
        assert culprit in str(raised.value)

    def test_transfer_must_be_a_pair(self) -> None:
        """G-2: a transfer goes from one place to exactly one other."""
        with pytest.raises(NetError, match="must be pairs of places"):
            Transition("t", [], [], transfers=[("a", "b", "c")])


class TestFiring:
    """Enabling and firing."""

    def test_arc_weight(self) -> None:
        """G-2: a place that is listed twice needs, and gets, two tokens."""
        double = Transition("t", ["a", "a"], ["b", "b"])
        assert not is_enabled({"a": 1, "b": 0}, double)
        assert fire({"a": 3, "b": 0}, double) == {"a": 1, "b": 2}

    def test_transfer_moves_everything(self) -> None:
        """G-2: a transfer arc moves all tokens of its place, even if there are none."""
        refill = Transition("t", ["r"], ["r"], ["x"], transfers=[("spent", "budget")])
        assert fire({"r": 1, "spent": 3, "budget": 1}, refill) == {"r": 1, "spent": 0, "budget": 4}
        assert fire({"r": 1, "spent": 0, "budget": 4}, refill) == {"r": 1, "spent": 0, "budget": 4}

    @pytest.mark.parametrize(
        ("transfers", "after"),
        [
            ([("a", "b")], {"a": 1, "b": 3}),
            ([("b", "a")], {"a": 4, "b": 0}),
            ([("a", "a")], {"a": 3, "b": 1}),
            ([("a", "b"), ("b", "a")], {"a": 4, "b": 0}),
        ],
    )
    def test_transfer_happens_between_inputs_and_outputs(
        self, transfers: list[tuple[str, str]], after: object
    ) -> None:
        """G-2: inputs are taken first, then transfers happen in order, then outputs are given."""
        moving = Transition("t", ["a"], ["a"], ["x"], transfers=transfers)
        assert fire({"a": 3, "b": 1}, moving) == after

    @given(
        st.lists(st.sampled_from("abc"), max_size=3),
        st.lists(st.sampled_from("abc"), max_size=3),
        st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), max_size=2),
        st.fixed_dictionaries({place: st.integers(0, 4) for place in "abc"}),
        st.fixed_dictionaries({place: st.integers(0, 4) for place in "abc"}),
    )
    def test_more_tokens_enable_at_least_as_much(
        self,
        inputs: list[str],
        outputs: list[str],
        transfers: list[tuple[str, str]],
        fewer: dict[str, int],
        extra: dict[str, int],
    ) -> None:
        """G-2: nets with transfers are monotone: more tokens enable as much and leave no fewer."""
        transition = Transition("t", inputs, outputs, ["x"], transfers=transfers)
        more = {place: fewer[place] + extra[place] for place in fewer}
        if is_enabled(fewer, transition):
            least, most = fire(fewer, transition), fire(more, transition)
            assert all(least[place] <= most[place] for place in fewer)

    def test_coverability_finds_a_way_in_growing_net(self) -> None:
        """G-2: the way to a call is found in a net with endlessly growing tokens and transfers."""
        growing = net(
            Transition("earn", ["on"], ["on", "won"], ["earn"]),
            Transition("bank", ["on"], ["on"], ["bank"], transfers=[("won", "saved")]),
            Transition("spend", ["saved"] * 3, [], ["spend"]),
            on=1,
            won=0,
            saved=0,
        )
        together = Together({"n": growing})
        assert str(together.way("spend")) == "earn → earn → earn → bank → spend"

    def test_firing_disabled_transition_is_an_error(self) -> None:
        """Firing a disabled transition is an error, not a negative marking."""
        with pytest.raises(NetError, match="'t' is not enabled"):
            fire({"a": 0}, Transition("t", ["a"], []))

    @pytest.mark.slow
    @given(st.integers(0, 5), st.lists(st.sampled_from("ab"), max_size=4))
    def test_firing_leaves_no_negative_place(self, tokens: int, inputs: list[str]) -> None:
        """Firing never makes a place negative and does not change the given marking."""
        marking = {"a": tokens, "b": 2}
        transition = Transition("t", inputs, ["b"])
        if is_enabled(marking, transition):
            after = fire(marking, transition)
            assert min(after.values()) >= 0
            assert sum(after.values()) == tokens + 2 - len(inputs) + 1
        assert marking == {"a": tokens, "b": 2}

    def test_enabled_tool_transitions(self) -> None:
        """Structural transitions are not among those that a call can fire."""
        made = net(
            Transition("s", ["a"], ["b"]),
            Transition("x", ["a"], ["a"], ["x"]),
            Transition("y", ["b"], ["b"], ["y"]),
            a=1,
            b=0,
        )
        assert [t.name for t in enabled_tool_transitions(made, {"a": 1, "b": 0})] == ["x"]


class TestAutoAdvance:
    """Structural transitions."""

    def test_runs_to_rest(self) -> None:
        """G-4: structural transitions fire round by round until none is enabled."""
        made = net(Transition("1", ["a"], ["b"]), Transition("2", ["b"], ["c"]), a=2, b=0, c=0)
        before = {"a": 2, "b": 0, "c": 0}
        assert auto_advance(made, before) == {"a": 0, "b": 0, "c": 2}
        assert before == {"a": 2, "b": 0, "c": 0}

    def test_competing_transitions_wait(self) -> None:
        """G-4: two transitions that compete for one token both wait."""
        made = net(Transition("l", ["a"], ["l"]), Transition("r", ["a"], ["r"]), a=1, l=0, r=0)
        assert auto_advance(made, {"a": 1, "l": 0, "r": 0}) == {"a": 1, "l": 0, "r": 0}

    def test_no_conflict_with_tokens_for_both(self) -> None:
        """G-4: with tokens for both transitions there is no conflict."""
        made = net(Transition("l", ["a"], ["l"]), Transition("r", ["a"], ["r"]), a=2, l=0, r=0)
        assert auto_advance(made, {"a": 2, "l": 0, "r": 0}) == {"a": 0, "l": 1, "r": 1}

    def test_three_rivals_for_two_tokens_wait(self) -> None:
        """G-61: three transitions that compete for two tokens all wait, although any two could fire."""
        made = net(*(Transition(p, ["s"], [p]) for p in "abc"), s=2, a=0, b=0, c=0)
        assert auto_advance(made, made.initial_marking) == {"s": 2, "a": 0, "b": 0, "c": 0}

    def test_rivals_do_not_hold_back_others(self) -> None:
        """G-4: only the competing transitions wait."""
        made = net(
            Transition("l", ["a"], ["c"]),
            Transition("r", ["a"], ["c"]),
            Transition("free", ["b"], ["c"]),
            a=1,
            b=1,
            c=0,
        )
        assert auto_advance(made, made.initial_marking) == {"a": 1, "b": 0, "c": 1}

    def test_enabling_is_checked_again_within_a_round(self) -> None:
        """G-4: a transition that another of the same round disabled does not fire."""
        made = net(
            Transition("move", ["go"], [], transfers=[("a", "b")]),
            Transition("use", ["a"], ["c"]),
            go=1,
            a=1,
            b=0,
            c=0,
        )
        assert auto_advance(made, made.initial_marking) == {"go": 0, "a": 0, "b": 1, "c": 0}

    def test_newly_enabled_transition_waits_for_next_round(self) -> None:
        """G-4: a transition that a round enables waits for the next, so both of a pair fire first."""
        made = net(
            Transition("1", ["a"], ["s"]),
            Transition("2", ["s"], ["x"]),
            Transition("3", ["b"], ["s"]),
            Transition("4", ["s", "s"], ["y"]),
            a=1,
            b=1,
            s=0,
            x=0,
            y=0,
        )
        assert auto_advance(made, made.initial_marking) == {"a": 0, "b": 0, "s": 2, "x": 0, "y": 0}

    def test_only_structural_ones_fire(self) -> None:
        """G-4: a transition with tools does not fire, even if it is enabled."""
        made = net(Transition("x", ["a"], ["b"], ["x"]), Transition("s", ["b"], ["a"]), a=1, b=0)
        assert auto_advance(made, made.initial_marking) == {"a": 1, "b": 0}

    def test_repeated_marking_ends_the_rounds(self) -> None:
        """G-4: a repeated marking ends it."""
        made = net(Transition("1", ["a"], ["b"]), Transition("2", ["b"], ["a"]), a=1, b=0)
        assert auto_advance(made, made.initial_marking) == {"a": 1, "b": 0}

    def test_endless_token_loop_is_an_error(self) -> None:
        """G-61: a loop that makes tokens forever is an error with the net's name."""
        made = net(Transition("grow", ["a"], ["a", "b"]), a=1, b=0)
        with pytest.raises(NetError, match=r"net 'n': .* do not come to rest within 10000 rounds"):
            auto_advance(made, made.initial_marking)

    def test_ten_thousand_rounds_are_accepted(self) -> None:
        """G-61: a net that comes to rest within ten thousand rounds is accepted, a longer one is not."""
        made = net(Transition("burn", ["a"], []), a=9_999)
        assert auto_advance(made, {"a": 9_999}) == {"a": 0}
        with pytest.raises(NetError, match="net 'n'"):
            auto_advance(made, {"a": 10_001})

    def test_rivals_needs_are_summed_by_weight(self) -> None:
        """G-61: the needs of competitors are summed up by arc weight, not by number."""
        made = net(Transition("one", ["s"], ["a"]), Transition("two", ["s", "s"], ["b"]), s=2, a=0, b=0)
        assert auto_advance(made, {"s": 2, "a": 0, "b": 0}) == {"s": 2, "a": 0, "b": 0}
        assert auto_advance(made, {"s": 3, "a": 0, "b": 0}) == {"s": 0, "a": 1, "b": 1}


class TestShowing:
    """Markings as text, and initial states."""

    def test_format_marking(self) -> None:
        """G-5: the text lists the places that hold tokens, in place order."""
        assert format_marking({"ready": 1, "working": 0}) == "ready:1"
        assert format_marking({"10": 2, "ready": 1, "2": 3}) == "10:2, ready:1, 2:3"
        assert format_marking({"ready": 0}) == ""

    def test_fresh_state(self) -> None:
        """A state starts with a copy of its marking, no meta and nothing pending."""
        marking = {"a": 1}
        state = create_gate_state(marking)
        marking["a"] = 5
        assert (state.marking, state.meta, state.pending) == ({"a": 1}, {}, {})


class TestDicts:
    """G-3: transitions as dictionaries."""

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (
                {"name": "start", "type": "auto", "inputs": ["p"], "outputs": ["p"]},
                "transition 'start' is a dict, expected Transition(name, inputs, outputs, tools): "
                "write Transition(**that)",
            ),
            ({}, "a transition is a dict, expected Transition(name, inputs, outputs, tools): "),
            (
                ("start", ["p"], ["p"]),
                "a transition is Transition(name, inputs, outputs, tools), got ('start'",
            ),
            (None, "a transition is Transition(name, inputs, outputs, tools), got None"),
        ],
    )
    def test_dict_arguments_are_refused(self, value: object, expected: str) -> None:
        """G-3: the error names the net, the transition and the form to use."""
        strange: Any = [value]
        with pytest.raises(NetError, match=re.escape(f"net 'n': {expected}")):
            define_skill_net("n", places=["p"], transitions=strange, initial_marking={"p": 1})
