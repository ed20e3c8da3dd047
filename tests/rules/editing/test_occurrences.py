"""Names in a text that is being edited, and proposals for the next word."""

from __future__ import annotations

import pytest

from interlock.rules.editing.next_words import next_rule_words, next_scenario_words
from interlock.rules.editing.occurrences import fields_of, let_names, rule_names, scenario_names

RULES = """\
let team = ["team"]  # team
map bash.command ./deploy as deploy
require lint or test before deploy when every input.to in team because "deploy"
require deploy befor x when input.to not from user, contacts
limit deploy to two per release
allow unclear bash
after read block anything-else
let
"""


class TestNames:
    def test_are_found_with_their_roles(self) -> None:
        """Names are found also in faulty lines; texts, comments and keywords are not names."""
        assert [(each.name, each.role, each.line, each.column) for each in rule_names(RULES)] == [
            ("team", "let", 1, 5),
            ("bash", "own", 2, 5),
            ("deploy", "map", 2, 30),
            ("lint", "tool", 3, 9),
            ("test", "tool", 3, 17),
            ("deploy", "tool", 3, 29),
            ("team", "value", 3, 59),
            ("deploy", "tool", 4, 9),
            ("x", "tool", 4, 22),
            ("contacts", "own", 4, 53),
            ("deploy", "tool", 5, 7),
            ("release", "tool", 5, 25),
            ("bash", "tool", 6, 15),
            ("read", "tool", 7, 7),
        ]
        assert let_names(RULES) == {"team"}
        assert fields_of(RULES) == (["input.to"], ["bash.command"])

    def test_in_scenarios_are_the_called_tools(self) -> None:
        """Only the word after `call` is a tool."""
        names = scenario_names('use a.rules\nscenario "x"\n  call deploy env prod\n  call')
        assert [(each.name, each.line, each.column) for each in names] == [("deploy", 3, 8)]


class TestNextWords:
    @pytest.mark.parametrize(
        ("before", "word", "names"),
        [
            ("", "require", set()),
            ("require ", "human-approval", {"tool"}),
            ("require lint be", "before", set()),
            ("block rm ", "when", set()),
            ("map ", "shell", {"mapped field"}),
            ("limit rm to 2 per ", "session", {"tool"}),
            ("block rm when ", "every", {"field"}),
            ("block rm when input.a ", "contains", set()),
            ("block rm when input.a ", "is missing", set()),
            ("block rm when input.a = ", "true", {"value"}),
            ('block rm when input.a = "x" a', "and", set()),
            ("block rm when any input.a in team ", "because", set()),
            ("let team = ", "lines", set()),
        ],
    )
    def test_follow_the_grammar(self, before: str, word: str, names: set[str]) -> None:
        """Proposals follow the grammar, up to the word that is being written."""
        found = next_rule_words(before, {"team"})
        assert word in found.words
        assert found.names == names
        assert before[found.start :] in {"", "be", "a"}

    @pytest.mark.parametrize(
        "before",
        [
            "block rm # wh",
            'block rm when input.a = "x',
            "block rm whan ",
            "let ",
            "require a 2 b ",
            "limit rm to ",
        ],
    )
    def test_none_in_comments_texts_and_new_names(self, before: str) -> None:
        """Comments, texts, new names and positions after a fault have no proposals."""
        found = next_rule_words(before)
        assert (found.words, found.names) == ((), frozenset())

    def test_tools_follow_from(self) -> None:
        """A tool's name follows `from`, or a name that `let` gives to sources."""
        assert next_rule_words("block a when input.to not from user, ").names == {"source", "value"}
        assert next_rule_words("let known = from ").names == {"source", "value"}

    def test_scenario_steps_and_tools(self) -> None:
        """Steps and their words are proposed, and tools after `call`."""
        assert {"use", "scenario", "call", "expect"} <= set(next_scenario_words("  ").words)
        assert next_scenario_words("  expect ").words == ("allow", "ask", "block")
        assert next_scenario_words("  call ").names == {"tool"}
        assert next_scenario_words("  call deploy ").names == set()
        assert next_scenario_words("  # ").words == ()
