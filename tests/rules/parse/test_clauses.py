"""Options and conditions of rules: their meaning and their nets."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.core.condition import (
    And,
    Compare,
    Condition,
    Not,
    Or,
    comparisons,
    condition_text,
    holds,
)
from interlock.engine.core.rule import ApprovalRule, BlockRule, LimitRule, Rule, SequenceRule
from interlock.engine.net.net import Transition
from interlock.rules import compile_rules
from interlock.rules.parse.conditions import read_condition
from interlock.rules.parse.durations import seconds
from interlock.rules.parse.lines import code, head
from interlock.rules.parse.patterns import compile_regex

ASKS = "require human-approval before b"
A1 = Compare(("a",), "=", 1)
B2 = Compare(("b",), "=", 2)
C3 = Compare(("c",), "=", 3)


def rule_of(text: str) -> Rule:
    (net,) = compile_rules(text)
    assert net.rule is not None
    return net.rule


def condition_of(text: str) -> Condition:
    condition, wrong = read_condition(text)
    assert wrong == []
    assert condition is not None
    return condition


class TestOptions:
    @pytest.mark.parametrize("order", permutations(["by 2", "within 15m", "risk high", "no grants"]))
    def test_stand_in_any_order(self, order: tuple[str, ...]) -> None:
        """The order of the options does not change the rule."""
        rule = rule_of(" ".join([ASKS, *order, 'when input.env = "prod"']))
        expected = ApprovalRule(
            "b",
            rule.source,
            Compare(("env",), "=", "prod"),
            people=2,
            within=900,
            risk="high",
            grants=False,
        )
        assert rule == expected

    def test_defaults_without_options(self) -> None:
        """Without options one operator decides without a time limit and may add a grant."""
        rule = rule_of(ASKS)
        assert rule == ApprovalRule("b", rule.source)
        assert (rule.people, rule.within, rule.risk, rule.grants, rule.when) == (
            1,
            None,
            None,
            True,
            None,
        )

    @pytest.mark.parametrize("count", range(1, 11))
    @pytest.mark.parametrize("word", ["human-approval", "human-approvals"])
    def test_number_of_approvals(self, count: int, word: str) -> None:
        """`require N human-approvals before B` and `… by N` are the same rule."""
        rule = rule_of(f"require {count} {word} before b risk low")
        other = rule_of(f"{ASKS} by {count} risk low")
        assert rule == ApprovalRule("b", rule.source, people=count, risk="low")
        assert other == ApprovalRule("b", other.source, people=count, risk="low")

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("1s", 1),
            ("90s", 90),
            ("15m", 900),
            ("1h", 3600),
            ("2d", 172_800),
            ("007m", 420),
            ("365d", 31_536_000),
        ],
    )
    def test_times_have_a_unit_up_to_a_year(self, text: str, expected: int) -> None:
        """A time is a whole number with a unit, up to a year."""
        assert seconds(text) == expected
        assert rule_of(f"{ASKS} within {text}").within == expected

    @pytest.mark.parametrize("text", ["0s", "00d", "366d", "31536001s", "8761h", "9" * 5000 + "s"])
    def test_zero_and_more_than_a_year_are_refused(self, text: str) -> None:
        """Zero and more than a year are no times."""
        assert seconds(text) is None

    @pytest.mark.parametrize(
        "word", ["by", "within", "risk", "no", "when", "grants", "1h", "human-approvals"]
    )
    def test_option_words_may_be_tool_names(self, word: str) -> None:
        """A tool may have any of the options' words as its name."""
        assert rule_of(f"block {word}").tool == word
        assert rule_of(f"require human-approval before {word}").tool == word
        assert rule_of(f"require human-approval before {word} no grants when input.a = 1").tool == word
        assert rule_of(f"limit {word} to 2 per session").tool == word
        sequence = rule_of(f"require {word} before {word}s")
        assert (sequence.prerequisite, sequence.dependent) == (word, f"{word}s")

    @pytest.mark.parametrize("word", ["when", "within", "by", "1hour", "90", "1w", "h", "1.5h", "1H"])
    def test_scope_without_a_time_is_a_tool(self, word: str) -> None:
        """A scope that is no time is a tool that refills the limit."""
        limit = rule_of(f"limit a to 2 per {word}")
        assert (limit.scope, limit.window) == (word, None)

    def test_scope_with_a_time_is_no_tool(self) -> None:
        """`per 1h` is a time, not a tool."""
        assert rule_of("limit a to 2 per 1h").window == 3600


class TestConditions:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ('input.env = "prod"', Compare(("env",), "=", "prod")),
            ('input.a.b-c.d_1!="x # y"', Compare(("a", "b-c", "d_1"), "!=", "x # y")),
            ("input.n<-3", Compare(("n",), "<", -3)),
            ("input.n <= 1.5e3", Compare(("n",), "<=", 1500.0)),
            ('input.n > "a"', Compare(("n",), ">", "a")),
            ("input.n>=0", Compare(("n",), ">=", 0)),
            ("input.b = true", Compare(("b",), "=", True)),
            ("input.b != false", Compare(("b",), "!=", False)),
            ("input.b = null", Compare(("b",), "=", None)),
            (r'input.t = "\"\\\u00e9\n"', Compare(("t",), "=", '"\\é\n')),
            ('input.t = ""', Compare(("t",), "=", "")),
            ("input.x in []", Compare(("x",), "in", ())),
            ('input.x in ["a",1,true , null]', Compare(("x",), "in", ("a", 1, True, None))),
            ('input.x not in ["a"]', Not(Compare(("x",), "in", ("a",)))),
            ('input.x contains "a b"', Compare(("x",), "contains", "a b")),
            ("input.x not contains 3", Not(Compare(("x",), "contains", 3))),
            ('input.p under "src/"', Compare(("p",), "under", "src/")),
            ('input.p not under "src/"', Not(Compare(("p",), "under", "src/"))),
            ("input.c matches /a/", Compare(("c",), "matches", compile_regex("/a/"))),
            ("input.c matches /rm -rf/i", Compare(("c",), "matches", compile_regex("/rm -rf/i"))),
            ("input.c not matches /a/b/", Not(Compare(("c",), "matches", compile_regex("/a/b/")))),
            (r"input.c matches /a\/ b/", Compare(("c",), "matches", compile_regex(r"/a\/ b/"))),
            ("(input.c matches /(a|b)/)", Compare(("c",), "matches", compile_regex("/(a|b)/"))),
            ("input.工具.é = 1", Compare(("工具", "é"), "=", 1)),
            ("input.input.in = 1", Compare(("input", "in"), "=", 1)),
            ("input.a\u3000=\u00a01", A1),
            ("input.a = 1 # and (", A1),
            ("((input.a = 1))", A1),
            ("not input.a = 1", Not(A1)),
            ("not not input.a = 1", Not(Not(A1))),
            ("not(input.a = 1)", Not(A1)),
            ("input.a = 1 and input.b = 2 and input.c = 3", And((A1, B2, C3))),
            ("input.a = 1 or input.b = 2 or input.c = 3", Or((A1, B2, C3))),
            ("input.a = 1 or input.b = 2 and input.c = 3", Or((A1, And((B2, C3))))),
            ("input.a = 1 and input.b = 2 or input.c = 3", Or((And((A1, B2)), C3))),
            ("(input.a = 1 or input.b = 2) and input.c = 3", And((Or((A1, B2)), C3))),
            ("not input.a = 1 and input.b = 2", And((Not(A1), B2))),
            ("not (input.a = 1 and input.b = 2)", Not(And((A1, B2)))),
        ],
    )
    def test_precedence_and_value_types(self, text: str, expected: Condition) -> None:
        """`not` binds tighter than `and`, and `and` tighter than `or`; values are JSON, patterns RE2."""
        assert condition_of(text) == expected
        assert rule_of(f"block x when {text}").when == expected

    def test_true_and_one_are_different_values(self) -> None:
        """`= true` and `= 1` are different conditions of different rules."""
        assert condition_of("input.a = true") != condition_of("input.a = 1")
        assert condition_of("input.a in [1, 0]") != condition_of("input.a in [true, 0]")
        assert condition_of("input.a = 1") == condition_of("input.a = 1.0")
        both = compile_rules("block x when input.a = true\nblock x when input.a = 1")
        assert both.warnings == ()

    def test_comparisons_have_their_places(self) -> None:
        """Each comparison has its place in the line, without `not` and parentheses."""
        line = '  block x when (input.a = 1 or input.b not in ["x", "y"]) # note'
        condition, wrong = read_condition(line, 15)
        assert wrong == []
        places = [line[c.start : c.end] for c in comparisons(condition)]
        assert places == ["input.a = 1", 'input.b not in ["x", "y"]']

    def test_indentation_does_not_make_another_rule(self) -> None:
        """G-43: an indented copy of a rule is the same rule."""
        rules = compile_rules("block x when input.a = 1\n   block x  when  (input.a = 1)")
        assert [w.message for w in rules.warnings] == ["the same rule as in line 1"]


NAMES = st.sampled_from(["a", "b-c", "d_1", "工具", "in", "not", "input", "$x", "a/b", "x'y"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
SCALARS = st.one_of(st.text(), NUMBERS, st.booleans(), st.none())
PATTERNS = st.sampled_from(["/a/", "/rm -rf/i", r"/a\/ b/", "/(a|b)+/", "/a/b/", r"/\x23/", '/"/', "/,/"])
COMPARISONS = st.one_of(
    st.builds(Compare, PATHS, st.sampled_from(["=", "!="]), SCALARS),
    st.builds(Compare, PATHS, st.sampled_from(["<", "<=", ">", ">="]), st.one_of(st.text(), NUMBERS)),
    st.builds(Compare, PATHS, st.just("in"), st.lists(SCALARS, max_size=3).map(tuple)),
    st.builds(Compare, PATHS, st.just("contains"), SCALARS),
    st.builds(Compare, PATHS, st.just("matches"), PATTERNS.map(compile_regex)),
    st.builds(Compare, PATHS, st.just("under"), st.text(min_size=1).filter(lambda t: "\0" not in t)),
)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)


class TestWritten:
    @pytest.mark.slow
    @given(CONDITIONS)
    def test_reads_back(self, condition: Condition) -> None:
        """A condition that is written and read again is the same, alone and in a rule."""
        text = condition_text(condition)
        assert condition_of(text) == condition
        assert rule_of(f"require a before x when {text} # note").when == condition

    @pytest.mark.slow
    @given(CONDITIONS, st.sampled_from([ASKS, "block x", "limit x to 2 per 1h", "require a before x"]))
    def test_rule_text_ends_before_its_comment(self, condition: Condition, rule: str) -> None:
        """A rule's text ends before its comment, and its tools before its condition."""
        line = f"{rule} when {condition_text(condition)}"
        assert code(f"{line}  # a note") == line
        assert head(f"{line}  # a note") == rule

    @pytest.mark.parametrize(
        "condition",
        [
            'input.a matches /"/ and input.a = "#"',
            'input.a matches /"/i and (input.b = "# no note" or input.a = "/#")',
            'input.a/b = "x" and input.c matches /a b"c/',
            'input."a # b" matches /\\/"/ and input.c in ["#", "/"]',
        ],
    )
    def test_quotes_and_slashes_inside_patterns_and_texts(self, condition: str) -> None:
        """A quote in a pattern starts no text, and a slash in a text or a field starts no pattern."""
        assert condition_of(condition) is not None
        assert code(f"block x when {condition}  # a note") == f"block x when {condition}"

    @given(CONDITIONS)
    def test_reading_back_keeps_the_result(self, condition: Condition) -> None:
        """A condition that is written and read again yields the same result for a call."""
        call = {"a": 1, "b-c": {"a": "x"}, "d_1": "rm -rf", "in": None}
        assert holds(condition_of(condition_text(condition)), call) == holds(condition, call)


WHEN = Compare(("e",), "=", "x")


class TestNets:
    @pytest.mark.parametrize(
        ("text", "rule", "governs"),
        [
            ("block a", BlockRule("a"), ("a",)),
            ("require a before b", SequenceRule("a", "b"), ("b",)),
            ("require a before a", SequenceRule("a", "a"), ("a",)),
            (ASKS, ApprovalRule("b"), ("b",)),
            ("require 2 human-approvals before b", ApprovalRule("b", people=2), ("b",)),
            ("limit a to 2 per session", LimitRule("a", 2, "session"), ("a",)),
            ("limit a to 2 per b", LimitRule("a", 2, "b"), ("a",)),
            ("limit a to 2 per 1h", LimitRule("a", 2, "1h", window=3600), ("a",)),
        ],
    )
    def test_have_the_condition_of_their_rule(
        self, text: str, rule: Rule, governs: tuple[str, ...]
    ) -> None:
        """A condition applies to calls of the restricted tool and changes nothing else in the net."""
        (plain,) = compile_rules(text)
        (net,) = compile_rules(f'{text} when input.e = "x"')
        assert (plain.condition, plain.governs) == (None, ())
        assert (net.condition, net.governs) == (WHEN, governs)
        assert net.rule == type(rule)(
            **{f: getattr(rule, f) for f in rule.__slots__ if f not in {"source", "when"}},
            source=net.rule.source,
            when=WHEN,
        )
        assert (net.name, net.places, net.transitions) == (plain.name, plain.places, plain.transitions)

    def test_several_approvals_have_a_token_each(self) -> None:
        """With N approvals the net has one token for each, and the call takes them all."""
        (net,) = compile_rules("require 3 human-approvals before b")
        assert net.name == "approve-before-b"
        assert net.places == ("idle", "ready", "approval")
        assert net.transitions[1:] == (
            Transition("approve", ("ready", "approval", "approval", "approval"), ("ready",), ("b",)),
            Transition("person", ("ready",), ("ready", "approval"), ("b",), type="manual", partial=True),
        )

    def test_spent_use_of_a_sliding_limit_returns(self) -> None:
        """A spent use of a limit over a time returns that long after it was spent."""
        (net,) = compile_rules("limit push to 3 per 15m")
        assert net.name == "limit-push-3-per-15m"
        assert net.initial_marking == {"idle": 1, "ready": 0, "budget": 3, "spent": 0}
        assert net.transitions[1:] == (
            Transition("do-push", ("ready", "budget"), ("ready", "spent"), ("push",)),
            Transition("recover", ("spent",), ("budget",), after=900),
        )

    def test_different_conditions_make_different_nets(self) -> None:
        """G-43: two rules of one tool with different conditions are two nets."""
        rules = compile_rules("block a when input.x = 1\nblock a when input.x = 2\nblock a")
        assert list(rules.registry) == ["block-a", "block-a#2", "block-a#3"]
        assert rules.warnings == ()

    def test_have_few_states(self) -> None:
        """G-56: several approvals and times do not multiply the number of states."""
        rules = compile_rules(
            "require 10 human-approvals before b\n"
            "limit a to 1000000 per 365d when input.x = 1\nlimit a to 2 per 1s"
        )
        assert [v.reachable_states for v in rules.verification][1:] == [1_000_002, 4]
        assert rules.verification[0].reachable_states <= 12


class TestBecause:
    """Reasons of rules in the words of their authors."""

    @pytest.mark.parametrize(
        "rule",
        [
            "block a",
            "require a before b",
            ASKS,
            f"{ASKS} by 2 within 15m risk high no grants",
            "require 2 human-approvals before b",
            "limit a to 2 per 1h",
            "block because",
        ],
    )
    @pytest.mark.parametrize("when", ["", ' when input.e = "a because \\"x\\" # when input.y"'])
    def test_reason_may_end_any_rule(self, rule: str, when: str) -> None:
        """The reason comes last, may contain a `#`, and changes nothing else in the net."""
        line = f'{rule}{when} because "it  breaks # \\u00fcber when input.x"  # note'
        (plain,) = compile_rules(f"{rule}{when}")
        (net,) = compile_rules(line)
        assert plain.rule is not None
        assert net.rule is not None
        assert plain.rule.because is None
        assert net.rule.because == "it breaks # über when input.x"
        assert (net.name, net.places, net.transitions) == (plain.name, plain.places, plain.transitions)
        assert (net.condition, net.governs) == (plain.condition, plain.governs)
        assert head(line) == rule
        assert code(line) == line.removesuffix("  # note")

    def test_condition_alone_cannot_have_a_reason(self) -> None:
        """A condition by itself, as in a record, cannot have a reason."""
        condition, wrong = read_condition('input.a = 1 because "b"')
        assert condition is None
        assert [fault.message for fault in wrong] == ["a condition has no reason, got '\"b\"'"]

    def test_reason_does_not_make_another_rule(self) -> None:
        """A repeated rule with a reason is the same rule, and causes a warning."""
        [warning] = compile_rules('block a\nblock a because "b"').warnings
        assert warning.line == 2
