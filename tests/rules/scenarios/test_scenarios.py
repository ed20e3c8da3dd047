"""The language of scenarios: its statements and its errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.rules import Problem, RuleError
from interlock.rules.errors.scenario_errors import USAGE
from interlock.rules.parse.grammar import grammar
from interlock.rules.scenarios.scenarios import (
    Answer,
    Call,
    Expect,
    Scenario,
    SetMode,
    Step,
    Switch,
    Wait,
    load_scenarios,
    parse_scenarios,
)

from ...support.laws import examples

HEAD = 'use a.rules\nscenario "x"\ncall a\n'

EXAMPLE = """\
use deploy.rules
scenario "no deploy without tests"
  call deploy
  expect block "requires a successful call to test"
  call lint
  call test fails
  call deploy
  expect block
  call test
  call deploy
  expect ask
  deny "not on Friday"
  expect block "not on Friday"
"""


def scenario(text: str) -> Scenario:
    [only] = parse_scenarios(f'use a.rules\nscenario "x"\n{text}').scenarios
    return only


def steps(text: str) -> list[Step]:
    """Return the steps after a first call."""
    return list(scenario(f"call a\n{text}").steps[1:])


def problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(RuleError) as caught:
        parse_scenarios(text)
    return caught.value.problems


def problem_of(line: str) -> Problem:
    """Return the only problem of a line within a scenario."""
    [problem] = problems(HEAD + line)
    assert (problem.line, problem.text) == (4, line)
    return problem


class TestStatements:
    def test_example(self) -> None:
        """The example of the requirement is read as written."""
        file = parse_scenarios(EXAMPLE, file="rules/deploy_test.rules")
        [use] = file.uses
        [example] = file.scenarios
        assert use.path == "rules/deploy.rules"
        assert (example.name, example.spot.line) == ("no deploy without tests", 2)
        kinds = [Call, Expect, Call, Call, Call, Expect, Call, Call, Expect, Answer, Expect]
        assert [type(step) for step in example.steps] == kinds
        assert [step.spot.line for step in example.steps] == list(range(3, 14))
        calls = [step for step in example.steps if isinstance(step, Call)]
        assert [(call.tool, call.fails) for call in calls] == [
            ("deploy", False),
            ("lint", False),
            ("test", True),
            ("deploy", False),
            ("test", False),
            ("deploy", False),
        ]

    @pytest.mark.parametrize(
        ("line", "tool", "values", "fails"),
        [
            ("call deploy", "deploy", {}, False),
            ("call deploy fails", "deploy", {}, True),
            ('call bash command "rm -rf x"', "bash", {"command": "rm -rf x"}, False),
            ('call bash command "a # b" fails # c', "bash", {"command": "a # b"}, True),
            (r'call bash command "say \"hi\"\n\\d ü"', "bash", {"command": 'say "hi"\n\\d ü'}, False),
            ("call slack action send.it to a/b", "slack", {"action": "send.it", "to": "a/b"}, False),
            (
                "call x a 3 b -1.5e3 c true d null",
                "x",
                {"a": 3, "b": -1500.0, "c": True, "d": None},
                False,
            ),
            (
                'call x a "3" b "true" c NaN d 1x',
                "x",
                {"a": "3", "b": "true", "c": "NaN", "d": "1x"},
                False,
            ),
            ("call x state fails", "x", {"state": "fails"}, False),
            ("call x state fails fails", "x", {"state": "fails"}, True),
            ("call call call call fails", "call", {"call": "call"}, True),
            ("call expect", "expect", {}, False),
            ('call x a ""', "x", {"a": ""}, False),
        ],
    )
    def test_call(self, line: str, tool: str, values: dict[str, object], fails: bool) -> None:
        """A call has fields and values and may fail; a quoted value is always a text."""
        [call] = scenario(line).steps
        assert isinstance(call, Call)
        assert (call.tool, call.input, call.fails) == (tool, values, fails)
        assert list(map(type, call.input.values())) == list(map(type, values.values()))

    def test_expect(self) -> None:
        """A call may be expected to be allowed, queued or blocked, also with a reason."""
        found = steps('expect allow\nexpect ask\nexpect block\nexpect block "so"')
        assert [(s.outcome, s.reason) for s in found if isinstance(s, Expect)] == [
            ("allow", None),
            ("ask", None),
            ("block", None),
            ("block", "so"),
        ]

    def test_answers(self) -> None:
        """An operator approves, or denies with or without a reason."""
        found = steps('approve\ndeny\ndeny "no"')
        assert [(s.approved, s.reason) for s in found if isinstance(s, Answer)] == [
            (True, None),
            (False, None),
            (False, "no"),
        ]

    def test_switches(self) -> None:
        """Nets and the mode can be switched; the second net of a name needs quotes because of its `#`."""
        found = steps('switch block-a off\nswitch "block-a#2" on\nmode shadow\nmode enforce')
        assert [(s.net, s.on) for s in found if isinstance(s, Switch)] == [
            ("block-a", False),
            ("block-a#2", True),
        ]
        assert [s.mode for s in found if isinstance(s, SetMode)] == ["shadow", "enforce"]

    def test_wait(self) -> None:
        """Times are whole seconds, minutes, hours or days."""
        found = steps("wait 90s\nwait 15m # coffee\nwait 1h\nwait 2d")
        assert [s.seconds for s in found if isinstance(s, Wait)] == [90, 900, 3600, 172_800]

    @pytest.mark.parametrize(
        ("line", "remedy"),
        [
            ("wait 15", "write: wait 15m"),
            ("wait 1.5h", "write: wait 90m"),
            ("wait 1h30m", "write: wait 90m"),
            ("wait a", "write: wait <time>"),
        ],
    )
    def test_wait_without_a_unit(self, line: str, remedy: str) -> None:
        """G-40: the error about an invalid time proposes a valid one."""
        with pytest.raises(RuleError) as caught:
            steps(line)
        assert caught.value.problems[0].remedy == remedy

    def test_rule_paths_are_relative_to_the_scenario(self) -> None:
        """Paths of rules are relative to the scenario's folder; a name with blanks needs quotes."""
        text = 'use a.rules ../b.rules\nuse "my rules/c.rules" /d.rules\nscenario "x"\ncall a'
        uses = parse_scenarios(text, file="tests/x_test.rules").uses
        assert [use.path for use in uses] == [
            "tests/a.rules",
            "tests/../b.rules",
            "tests/my rules/c.rules",
            "/d.rules",
        ]

    def test_layout_is_free(self) -> None:
        """Blank lines, comments, tabs and CRLF change nothing."""
        plain = scenario("call a\nexpect allow")
        spaced = scenario("# note\r\n\r\n\tcall\ta  # b\r\n\n      expect   allow#c\r\n")
        assert [type(step) for step in plain.steps] == [type(step) for step in spaced.steps]

    def test_spot_is_the_statement_without_its_comment(self) -> None:
        """The place of a step covers its statement without the comment."""
        spot = scenario("  call a b 1  # note").spot
        assert (spot.line, spot.column, spot.length) == (2, 1, len('scenario "x"'))
        [call] = scenario("  call a b 1  # note").steps
        assert (call.spot.line, call.spot.column, call.spot.length) == (3, 3, 10)

    def test_every_statement_has_its_usage(self) -> None:
        """Every statement of the grammar has a usage for its errors."""
        lark = (
            Path(load_scenarios.__code__.co_filename).parents[1] / "parse" / "scenario.lark"
        ).read_text("utf-8")
        named = re.search(r"\?statement: ([^:]+?)\n\n", lark)
        assert named is not None
        assert set(re.findall(r"\w+", named[1])) == set(USAGE)
        assert grammar("scenario.lark") is grammar("scenario.lark")


# A line, the column and length of its fault, and the beginning of message and remedy.
WRONG = [
    (
        "allow",
        1,
        5,
        "unknown keyword 'allow'. Expected 'use', 'scenario',",
        "did you mean 'expect allow'",
    ),
    ("require a before b", 1, 7, "unknown keyword 'require'", "rules belong in a file of their own"),
    ("exepct ask", 1, 6, "unknown keyword 'exepct'", "did you mean 'expect'?"),
    ('"call" a', 1, 6, "unknown keyword '\"call\"'", "did you mean 'call'?"),
    ("call", 5, 1, "expected a word at position 2, got the end of the line", "write: call <tool>"),
    ('call "a b"', 6, 5, "expected a word at position 2, got '\"a b\"'", "write: call <tool>"),
    ("call x a", 9, 1, "expected a text in double quotes or a word at position 4", "write: call <tool>"),
    ("call x a 1 a 2", 12, 1, "the field 'a' is given twice", "remove one"),
    ("call x fails now", 14, 3, "expected the end of the line at position 4, got 'now'", "write: call"),
    ('call x a "b', 10, 2, "expected a text between two double quotes at position 4", "end it with"),
    ('call x a "b c', 10, 2, "expected a text between two double quotes at position 4", "end it with"),
    ('call x a "b"c', 10, 4, "expected a text between two double quotes at position 4", "end it with"),
    ("expect", 7, 1, "expected 'allow', 'ask', or 'block' at position 2", "write: expect allow"),
    (
        "expect allowed",
        8,
        7,
        "expected 'allow', 'ask', or 'block' at position 2",
        "did you mean 'allow'?",
    ),
    ('expect ask "x"', 12, 3, "expected the end of the line at position 3", "write: expect allow"),
    ("expect block because", 14, 7, "expected a text in double quotes or the end of the line", "write: "),
    (r'expect block "\d"', 15, 1, "not a JSON string: Invalid \\escape", "a text in quotes has JSON's"),
    (
        "deny because",
        6,
        7,
        "expected a text in double quotes, 'as', or the end of the line",
        "write: deny",
    ),
    ("approve it", 9, 2, "expected 'as' or the end of the line at position 2, got", "write: approve"),
    ("switch x", 9, 1, "expected 'on' or 'off' at position 3, got the end of the line", "write: switch"),
    ("switch x of", 10, 2, "expected 'on' or 'off' at position 3, got 'of'", "did you mean 'off'?"),
    ("mode on", 6, 2, "expected 'enforce' or 'shadow' at position 2, got 'on'", "write: mode enforce"),
    ("use b.rules", 1, 11, "'use' must come before the first scenario", "move the line there"),
]


WORDS = ("a", '"x"', "allow", "ask", "block", "on", "shadow", "fails", '"', "#", "1")


class TestErrors:
    @pytest.mark.parametrize(("line", "column", "length", "message", "remedy"), WRONG)
    def test_point_and_explain(
        self, line: str, column: int, length: int, message: str, remedy: str
    ) -> None:
        """G-40: a fault in a scenario is reported like one in rules: place, caret and expected words."""
        problem = problem_of(line)
        assert (problem.column, problem.length) == (column, length)
        assert problem.message.startswith(message)
        assert problem.remedy.startswith(remedy)
        assert f"<scenarios>:4:{column}: " in str(problem)
        assert "^" * length in str(problem)

    @pytest.mark.parametrize(
        ("text", "line", "message"),
        [
            ("", 0, "holds no scenario"),
            ("use a.rules\n# nothing", 0, "holds no scenario"),
            ('scenario "x"\ncall a', 1, "no rules to test"),
            ("use a\ncall a", 2, "this line belongs to no scenario"),
            ('use a\nscenario "x"\nexpect allow\ncall a', 3, "nothing was called yet"),
            ('use a\nscenario "x"\napprove\nexpect block', 3, "nothing was called yet"),
            ('use a\nscenario "x"\nswitch b off', 2, "a scenario without a call tests nothing"),
            ('use a\nscenario "x"\nscenario "y"\ncall a', 2, "a scenario without a call tests nothing"),
            (
                'use a\nscenario "x"\ncall a\nscenario "x"\ncall a',
                4,
                "a scenario with this name is already in line 2",
            ),
        ],
    )
    def test_incomplete_file_is_refused(self, text: str, line: int, message: str) -> None:
        """A file that would test less than it seems to is refused."""
        [problem] = problems(text)
        assert (problem.line, problem.message) == (line, message)
        assert problem.remedy

    def test_are_all_reported_in_order(self) -> None:
        """G-40: every error of a file is reported at once, but none that only follows from another."""
        text = 'usr a.rules\nscenario x\n  calls a\n  expect maybe\nscenario "y"\n  cal b\n'
        assert [(p.line, p.column) for p in problems(text)] == [(1, 1), (2, 10), (3, 3), (4, 10), (6, 3)]

    def test_unreadable_file_is_reported(self, tmp_path: Path) -> None:
        """An unreadable file is reported like an unreadable rules file."""
        path = tmp_path / "x_test.rules"
        for content, message in ((b"\xff", "is not UTF-8 text"), (b"a\0b", "a NUL character")):
            path.write_bytes(content)
            with pytest.raises(RuleError, match=message):
                load_scenarios(path)
        with pytest.raises(RuleError, match="no such rules file"):
            load_scenarios(tmp_path / "none_test.rules")

    @settings(max_examples=examples(150), deadline=None)
    @given(
        st.lists(
            st.one_of(
                st.sampled_from([*USAGE, *WORDS]),
                st.sampled_from([" ", "\n", "\t", "\r\n"]),
                st.text(max_size=4),
            ),
            max_size=30,
        )
    )
    def test_arbitrary_file_is_read_or_refused(self, pieces: list[str]) -> None:
        """Any file is either read or refused with places inside it."""
        text = " ".join(pieces)
        try:
            parse_scenarios(text)
            found: tuple[Problem, ...] | None = None
        except RuleError as error:
            found = error.problems
        lines = text.split("\n")
        assert found is None or len(found) > 0
        for problem in found or ():
            assert problem.line == 0 or lines[problem.line - 1].startswith(problem.text)
            assert str(problem)

    def test_long_line_is_shown_in_part(self) -> None:
        """A very long line is read in linear time and shown in part."""
        problem = problem_of("call x a " + '"' * 50_001)
        assert len(str(problem)) < 1_000


class TestInput:
    """Input of a call."""

    @pytest.mark.parametrize(
        ("words", "value"),
        [
            ("config.env prod config.n 2", {"config": {"env": "prod", "n": 2}}),
            ('a."b.c".d 1', {"a": {"b.c": {"d": 1}}}),
            ('"a.b" 1 "odd name" two', {"a.b": 1, "odd name": "two"}),
            ('a ["x", "y z"] b 1', {"a": ["x", "y z"], "b": 1}),
            ('a {"b": [1, {"c": "]#"}] } fails', {"a": {"b": [1, {"c": "]#"}]}}),
            ("a [] b {}#", {"a": [], "b": {}}),
            ('a "[1]" b x[1]', {"a": "[1]", "b": "x[1]"}),
        ],
    )
    def test_dots_and_json_make_nested_input(self, words: str, value: object) -> None:
        """G-10: dots make objects, JSON makes lists and objects, and a quoted name is one name."""
        [call] = scenario(f"call deploy {words}").steps
        assert isinstance(call, Call)
        assert call.input == value
