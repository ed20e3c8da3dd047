"""Findings of `interlock check` about conditions, and about rules that conditions make redundant."""

from __future__ import annotations

import pytest

from interlock.engine.verify import Never, Way
from interlock.rules import Problem, compile_rules
from interlock.rules.analysis.findings import Findings, examine

ASKS = "require human-approval before a"


def findings(text: str) -> Findings:
    return examine(compile_rules(text))


def lines_and_messages(problems: tuple[Problem, ...]) -> list[tuple[int, str]]:
    return [(p.line, p.message) for p in problems]


class TestConditions:
    """Single conditions."""

    def test_condition_that_never_holds(self) -> None:
        """The warning points at the condition and names the calls to which the rule still applies."""
        [found] = findings("block a when (input.n < 1 and input.n > 5) # never").warnings
        assert str(found) == (
            "<rules>:1:15: this condition never holds\n"
            "    block a when (input.n < 1 and input.n > 5) # never\n"
            "                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "    the rule applies only where input.n is missing or of another kind: correct it"
        )

    @pytest.mark.parametrize(
        "text",
        [
            "require a before b when input.a = 1 and input.a = 2",
            f"{ASKS} when input.x in []",
            'limit a to 3 per 1h when input.x = "y" and not input.x = "y"',
        ],
    )
    def test_conditions_of_every_rule_are_checked(self, text: str) -> None:
        """Conditions of every kind of rule are checked."""
        assert lines_and_messages(findings(text).warnings) == [(1, "this condition never holds")]

    def test_condition_that_always_holds(self) -> None:
        """A condition that always holds is a warning."""
        [found] = findings("block a when input.x = 1 or input.x != 1").warnings
        assert (found.message, found.column, found.length) == ("this condition always holds", 14, 27)

    def test_star_in_a_folder_is_an_ordinary_character(self) -> None:
        """`under` takes a folder, and a star in it is an ordinary character."""
        [found] = findings('block w when input.path not under "src/**" and input.x = 1').warnings
        assert found.message == "'src/**' is taken as a folder with exactly this name"
        assert (found.column, found.length) == (14, 29)

    @pytest.mark.parametrize(
        "text",
        [
            "block a when input.x = 1",
            "block a when input.x > 1 and input.x < 2",
            'block a when input.p under "src" and input.p not under "src/vendor"',
            'block a when input.c matches /a/ and input.c matches /b/ and input.d not contains "-x"',
            "block a when " + " and ".join(f"(input.a{i} = 1 or input.b{i} = 1)" for i in range(30)),
        ],
    )
    def test_undecided_conditions_cause_no_finding(self, text: str) -> None:
        """Conditions that cannot be proved wrong cause no finding."""
        found = findings(text)
        assert (found.errors, found.warnings) == ((), ())


class TestBlocks:
    """Conditional blocks beside other rules."""

    def test_conditional_block_leaves_the_tool_usable(self) -> None:
        """A tool with a conditional block can still be called, and its other rules matter."""
        found = findings(
            f'block a when input.env = "prod"\n{ASKS}\nlimit a to 3 per session\n'
            "require b before a\nrequire a before c"
        )
        assert (found.errors, found.warnings) == ((), ())
        assert all(isinstance(tool.way, Way) and tool.blocked is None for tool in found.tools)

    @pytest.mark.parametrize(
        "rule",
        [
            f"{ASKS} when input.n = 1",
            f"{ASKS} when input.n < 2 and input.m = 1",
            "limit a to 3 per session when input.n in [1, 0]",
            "limit a to 3 per 1h when input.n = 1",
            "require b before a when input.n = 1",
            "block a when input.n = 1",
        ],
    )
    def test_rule_about_blocked_calls_has_no_effect(self, rule: str) -> None:
        """A rule about blocked calls only has no effect, before or after the block."""
        block = "block a when input.n < 5"
        for text, line in ((f"{block}\n{rule}", 2), (f"{rule}\n{block}", 1)):
            found = findings(text)
            assert found.errors == ()
            [warning] = found.warnings
            assert lines_and_messages((warning,)) == [
                (line, "this rule has no effect: all of its calls are blocked")
            ]
            assert f"line {3 - line} ({block})" in warning.remedy

    def test_unconditional_block_makes_conditional_redundant(self) -> None:
        """A block without a condition makes a conditional one redundant."""
        found = findings("block a when input.n = 1\nblock a")
        assert lines_and_messages(found.warnings) == [
            (1, "this rule has no effect: all of its calls are blocked")
        ]

    def test_unconditional_block_makes_conditional_rule_an_error(self) -> None:
        """A conditional rule about a tool that is always blocked is an error."""
        found = findings(f"block a\n{ASKS} when input.n = 1")
        assert lines_and_messages(found.errors) == [
            (2, "no call can ever meet this rule: 'a' is blocked")
        ]

    def test_two_blocks_together_block_every_call(self) -> None:
        """Two blocks of which one always applies block every call."""
        found = findings("block a when input.n < 5\nblock b\nblock a when input.n >= 3")
        assert lines_and_messages(found.warnings) == [(3, "with line 1 this blocks every call of 'a'")]
        assert found.warnings[0].remedy == "write: block a"
        assert findings("block a when input.n < 5\nblock a when input.n > 5").warnings == ()

    def test_blocks_of_other_tools_are_not_compared(self) -> None:
        """Only rules about the same name are compared."""
        assert findings(f"block b when input.n = 1\n{ASKS} when input.n = 1").warnings == ()


class TestApprovals:
    """Two rules that require approval of one tool."""

    @pytest.mark.parametrize(
        ("first", "later", "how"),
        [
            ("", "by 2", " with another number of people"),
            ("within 1h", "within 2h", " with another time"),
            ("risk low", "", " with another risk"),
            ("no grants risk low", "risk high", " with another risk and other words on grants"),
        ],
    )
    @pytest.mark.parametrize("when", ["", " when input.n = 1"])
    def test_two_rules_about_the_same_calls(self, first: str, later: str, how: str, when: str) -> None:
        """Both rules ask about each call; the warning lists their differences."""
        found = findings(f"{ASKS} {first}{when}\n{ASKS} {later}{when}")
        assert found.errors == ()
        assert lines_and_messages(found.warnings) == [
            (2, f"line 1 asks about the same calls{how}: each is asked for twice")
        ]

    def test_equivalent_conditions_count_as_equal(self) -> None:
        """Equivalent conditions count as equal."""
        found = findings(f"{ASKS} when input.n = 1\n{ASKS} when not input.n != 1")
        assert lines_and_messages(found.warnings) == [
            (2, "line 1 asks about the same calls: each is asked for twice")
        ]

    @pytest.mark.parametrize(
        ("first", "later", "line"), [("", " when input.n = 1", 2), (" when input.n = 1", "", 1)]
    )
    def test_narrower_rule_gets_the_warning(self, first: str, later: str, line: int) -> None:
        """The warning is at the narrower rule and names the other one."""
        found = findings(f"{ASKS} risk low{first}\n{ASKS} risk high{later}")
        message = f"line {3 - line} asks about these calls too: each is asked for twice"
        assert lines_and_messages(found.warnings) == [(line, message)]

    def test_partly_overlapping_conditions_cause_no_warning(self) -> None:
        """Conditions that exclude each other or may overlap cause no warning."""
        assert findings(f"{ASKS} when input.n < 1\n{ASKS} when input.n >= 1").warnings == ()
        assert findings(f"{ASKS} when input.n < 3\n{ASKS} when input.m = 1").warnings == ()

    def test_repeated_rule_causes_one_warning(self) -> None:
        """G-43: a repeated rule causes one warning."""
        found = findings(f"{ASKS} when input.n = 1\n{ASKS} when input.n = 1")
        assert lines_and_messages(found.warnings) == [(2, "the same rule as in line 1")]


class TestLimits:
    """Limits over a time."""

    def test_times_are_not_treated_as_tools(self) -> None:
        """A time is not treated as a tool."""
        found = examine(compile_rules("limit a to 3 per 1h"), ["a"])
        assert (found.errors, found.warnings) == ((), ())
        assert [tool.name for tool in found.tools] == ["a"]
        assert found.tools[0].most.unlimited

    def test_looser_limit_is_redundant(self) -> None:
        """A limit of at least as many calls in at most as much time is redundant."""
        message = "this limit is redundant beside a tighter one"
        found = findings(
            "limit a to 5 per 1h\nlimit a to 10 per 1h\nlimit a to 5 per 30m\nlimit a to 8 per 1d"
        )
        assert lines_and_messages(found.warnings) == [(2, message), (3, message)]
        apart = "limit a to 5 per 1h when input.n = 1\nlimit a to 10 per 1h"
        assert findings(apart).warnings == ()

    def test_sliding_limit_does_not_bound_a_session(self) -> None:
        """A limit over a time does not make a limit per session unreachable."""
        found = findings(
            "limit a to 2 per 1h\nlimit a to 10 per session\nrequire a before b\nlimit b to 5 per session"
        )
        assert (found.errors, found.warnings) == ((), ())

    @pytest.mark.parametrize(
        ("scope", "meant"),
        [
            ("90", "90m"),
            ("minute", "1m"),
            ("1hour", "1h"),
            ("15min", "15m"),
            ("1h30m", "90m"),
            ("Session", "session"),
            ("1w", "7d"),
        ],
    )
    def test_misspelt_time_is_reported_with_a_proposal(self, scope: str, meant: str) -> None:
        """A word that resembles a time counts as a tool, with a proposal of the time."""
        [warning] = compile_rules(f"limit a to 3 per {scope}").warnings
        assert warning.message == f"'{scope}' is taken as a tool whose success restores the budget"
        assert warning.remedy == f"did you mean '{meant}'?"
        assert (warning.column, warning.length) == (18, len(scope))


class TestOneField:
    """Rules about different values of one field."""

    @pytest.mark.parametrize(
        ("one", "other", "forbidden"),
        [
            ('input.env != "x"', 'input.env not in ["y", "z"]', True),
            ('input.env != "x"', 'input.env not in ["x", "z"]', False),
            ('input.env = "x"', 'input.env = "y"', False),
            ("input.n != 1", "input.n != 1.0", False),
            ("input.n != 1", "input.n != true", True),
        ],
    )
    def test_rules_that_forbid_all_values(self, one: str, other: str, forbidden: bool) -> None:
        """G-10: two rules that together forbid all values make the call impossible; `true` is not 1."""
        [tool] = findings(f"block a when {one}\nblock a when {other}").tools
        assert isinstance(tool.way, Never) == forbidden

    def test_rule_about_an_already_blocked_value(self) -> None:
        """G-10: a rule about a value that another rule blocks anyway is redundant."""
        rules = 'block b when input.env != "x"\nrequire a before b when input.env = "y"'
        assert "this rule is redundant: the others already block all that it blocks" in [
            message for _, message in lines_and_messages(findings(rules).warnings)
        ]
        assert findings(rules.replace('"y"', '"x"')).warnings == ()


class TestPlaces:
    """Places of warnings in lines with conditions."""

    def test_warning_points_at_the_tool_not_the_condition(self) -> None:
        """The warning points at the tool, not at an equal word in the condition."""
        [warning] = compile_rules('block b, when input.x = "b, # b,"').warnings
        assert (warning.column, warning.length) == (7, 2)

    def test_hash_in_a_text_does_not_end_the_rule(self) -> None:
        """A `#` in a text does not end the marked rule, but a comment does."""
        line = 'block a when input.x = "y # z"'
        [warning] = compile_rules(f"{line}\n  {line}  # again").warnings
        assert (warning.line, warning.column, warning.length) == (2, 3, len(line))
