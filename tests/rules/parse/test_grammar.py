"""`grammar.lark` defines the language: its parser and its error messages."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import weakref
from collections.abc import Iterable
from importlib.resources import files

import pytest
from lark import Lark, Token, Tree

from interlock.rules import RuleError, compile_rules
from interlock.rules.compiler import forget_grammars
from interlock.rules.errors.statement_errors import faults
from interlock.rules.parse.grammar import Grammar, grammar
from interlock.rules.parse.statements import HUMAN, SESSION

TEXT = files("interlock.rules.parse").joinpath("grammar.lark").read_text("utf-8")
RULES = grammar("grammar.lark")

# A line, its statement, and the types and texts of its significant words.
LINES = [
    ("", "", []),
    ("  # note", "", []),
    ("block rm", "block", ["WORD rm"]),
    ("block block # block", "block", ["WORD block"]),
    ("block session", "block", ["WORD session"]),
    ("require a before b", "sequence", ["WORD a", "WORD b"]),
    ("require before before beforehand", "sequence", ["WORD before", "WORD beforehand"]),
    ("require a before human-approval", "sequence", ["WORD a", "WORD human-approval"]),
    ("require human-approvals before b", "sequence", ["WORD human-approvals", "WORD b"]),
    ("require human-approval before b", "approval", ["WORD b"]),
    ("limit a to 03 per session", "limit", ["WORD a", "COUNT 03", "SESSION session"]),
    ("limit to to 3 per sessions", "limit", ["WORD to", "COUNT 3", "WORD sessions"]),
    ("map x.y.z rm as as", "map", ["FIELD x.y.z", "LITERAL rm", "WORD as"]),
    ("map x.. a/b as 3", "map", ["FIELD x..", "LITERAL a/b", "WORD 3"]),
    ("map x.y /a/b/i as x.y", "map", ["FIELD x.y", "REGEX /a/b/i", "WORD x.y"]),
    ("map shell x.y rm as z", "shell_map", ["FIELD x.y", "LITERAL rm", "WORD z"]),
    ("map shell.y shell as shell", "map", ["FIELD shell.y", "LITERAL shell", "WORD shell"]),
    ("map x.y /// as /c/", "map", ["FIELD x.y", "REGEX ///", "WORD /c/"]),
    ("allow unclear bash", "allow", ["WORD bash"]),
    ("allow unclear unclear # x", "allow", ["WORD unclear"]),
    ("require 2 before b", "sequence", ["NUMBER 2", "WORD b"]),
    ("limit a to 3 per 1h", "limit", ["WORD a", "COUNT 3", "DURATION 1h"]),
    ("limit 1h to 3 per 1hour", "limit", ["WORD 1h", "COUNT 3", "WORD 1hour"]),
    ("require human-approval before by", "approval", ["WORD by"]),
    ("require 2 human-approvals before b", "people", ["NUMBER 2", "WORD b"]),
    ("require 1 human-approval before b", "people", ["NUMBER 1", "WORD b"]),
    ("require a or b before c", "one_before", ["WORD a", "WORD b", "WORD c"]),
    ("require or or and or to before b", "one_before", ["WORD or", "WORD and", "WORD to", "WORD b"]),
    ("require a and b before c", "each_before", ["WORD a", "WORD b", "WORD c"]),
    ("require a and b and c before d", "each_before", ["WORD a", "WORD b", "WORD c", "WORD d"]),
    ("after a require human-approval before b", "after", ["WORD a", "WORD b"]),
    (
        "after after require 2 human-approvals before b",
        "after_people",
        ["WORD after", "NUMBER 2", "WORD b"],
    ),
    ("after a require 2 human-approval before b", "after_people", ["WORD a", "NUMBER 2", "WORD b"]),
]

_KEY = ["FOR for", "EACH each", "FIELD input.k"]

# The same with options and conditions, with the words in one flat list.
CLAUSES = [
    ("block when when input.a", "block", ["WORD when", "CONDITION input.a"]),
    ("block a when x # y", "block", ["WORD a", "CONDITION x # y"]),
    ("require when before when when x", "sequence", ["WORD when", "WORD when", "CONDITION x"]),
    ("require 2 before b when x", "sequence", ["NUMBER 2", "WORD b", "CONDITION x"]),
    ("limit when to 1 per when when x", "limit", ["WORD when", "COUNT 1", "WORD when", "CONDITION x"]),
    (
        "limit a to 1 per 1h across everyone",
        "limit",
        ["WORD a", "COUNT 1", "DURATION 1h", "ACROSS across", "EVERYONE everyone"],
    ),
    (
        "limit a to 1 per 1h for each input.k across agent",
        "limit",
        ["WORD a", "COUNT 1", "DURATION 1h", *_KEY, "ACROSS across", "AGENT agent"],
    ),
    (
        "limit a to 1 per 1h across operator when x",
        "limit",
        ["WORD a", "COUNT 1", "DURATION 1h", "ACROSS across", "OPERATOR operator", "CONDITION x"],
    ),
    (
        "limit a to 1 per 1h for each input.k across agent when x",
        "limit",
        ["WORD a", "COUNT 1", "DURATION 1h", *_KEY, "ACROSS across", "AGENT agent", "CONDITION x"],
    ),
    ("limit a to 1 per 1h when x", "limit", ["WORD a", "COUNT 1", "DURATION 1h", "CONDITION x"]),
    ("require human-approval before b when x", "approval", ["WORD b", "CONDITION x"]),
    (
        "require human-approval before b of of not by author",
        "approval",
        ["WORD b", "OF of", "GROUP of", "NOT not", "BY by", "AUTHOR author"],
    ),
    (
        "require human-approval before b escalate to to after 5m",
        "approval",
        ["WORD b", "ESCALATE escalate", "TO to", "GROUP to", "AFTER after", "DURATION 5m"],
    ),
    (
        "require human-approval before with with passkey",
        "approval",
        ["WORD with", "WITH with", "PASSKEY passkey"],
    ),
    ('block a because "b # c" # d', "block", ["WORD a", 'REASON "b # c"']),
    ('block because because "b"', "block", ["WORD because", 'REASON "b"']),
    ('require a before b because "c"', "sequence", ["WORD a", "WORD b", 'REASON "c"']),
    ('require 2 before b because "c"', "sequence", ["NUMBER 2", "WORD b", 'REASON "c"']),
    ('limit a to 1 per b because "c"', "limit", ["WORD a", "COUNT 1", "WORD b", 'REASON "c"']),
    ('require human-approval before b because "c"', "approval", ["WORD b", 'REASON "c"']),
    (
        'require human-approval before b by 2 because "c"',
        "approval",
        ["WORD b", "BY by", "NUMBER 2", 'REASON "c"'],
    ),
    ('require 2 human-approvals before b because "c"', "people", ["NUMBER 2", "WORD b", 'REASON "c"']),
    (
        'require 2 human-approvals before b risk low because "c"',
        "people",
        ["NUMBER 2", "WORD b", "RISK risk", "LOW low", 'REASON "c"'],
    ),
    ("require human-approval before b by 2", "approval", ["WORD b", "BY by", "NUMBER 2"]),
    (
        "require human-approval before b by 2 risk low",
        "approval",
        ["WORD b", "BY by", "NUMBER 2", "RISK risk", "LOW low"],
    ),
    (
        "require human-approval before no risk medium when x",
        "approval",
        ["WORD no", "RISK risk", "MEDIUM medium", "CONDITION x"],
    ),
    (
        "require human-approval before b within 15m no grants risk high when x",
        "approval",
        [
            *("WORD b", "WITHIN within", "DURATION 15m", "NO no", "GRANTS grants"),
            *("RISK risk", "HIGH high", "CONDITION x"),
        ],
    ),
    (
        "require 3 human-approvals before b no grants",
        "people",
        ["NUMBER 3", "WORD b", "NO no", "GRANTS grants"],
    ),
    (
        "require 3 human-approval before b no grants",
        "people",
        ["NUMBER 3", "WORD b", "NO no", "GRANTS grants"],
    ),
    *(
        (
            f"require a {sign} b{more} before d when x",
            statement,
            ["WORD a", "WORD b", *names, "WORD d", "CONDITION x"],
        )
        for sign, statement in (("or", "one_before"), ("and", "each_before"))
        for more, names in (("", []), (f" {sign} c", ["WORD c"]))
    ),
    *(
        (
            f"require {first}{once}{since} before d{within}{same}{clause}",
            statement,
            [*names, *once_words, *since_words, "WORD d", *within_words, *same_words, *clause_words],
        )
        for first, statement, names in (
            ("2", "sequence", ["NUMBER 2"]),
            ("a", "sequence", ["WORD a"]),
            ("a or b", "one_before", ["WORD a", "WORD b"]),
            ("a or b or c", "one_before", ["WORD a", "WORD b", "WORD c"]),
            ("a and b", "each_before", ["WORD a", "WORD b"]),
            ("a and b and c", "each_before", ["WORD a", "WORD b", "WORD c"]),
        )
        for once, once_words in (("", []), (" once", ["ONCE once"]))
        for since, since_words in (("", []), (" since since", ["WORD since"]))
        for within, within_words in (("", []), (" within 1h", ["WITHIN within", "DURATION 1h"]))
        for same, same_words in (
            ("", []),
            (" for same input.k", ["FOR for", "SAME same", "FIELD input.k"]),
        )
        for clause, clause_words in (("", []), (" when x", ["CONDITION x"]))
        if once or since or within or same
    ),
    *(
        (
            f"limit a to {number} of input.n per b{each}{clause}",
            "limit_sum",
            ["WORD a", f"{kind} {number}", "FIELD input.n", "WORD b", *each_words, *clause_words],
        )
        for number, kind in (("2", "COUNT"), ("0.5", "AMOUNT"))
        for each, each_words in (("", []), (" for each input.k", _KEY))
        for clause, clause_words in (("", []), (" when x", ["CONDITION x"]))
    ),
    *(
        (f"{line} for each input.k{clause}", statement, [*names, *_KEY, *clause_words])
        for line, statement, names in (
            ("limit a to 2 per b", "limit", ["WORD a", "COUNT 2", "WORD b"]),
            ("block a after b", "block", ["WORD a", "WORD b"]),
        )
        for clause, clause_words in (("", []), (" when x", ["CONDITION x"]))
    ),
    *(
        (f"block a after b until human-approval{more}", "block_until", ["WORD a", "WORD b", *words])
        for more, words in (
            ("", []),
            (" risk low", ["RISK risk", "LOW low"]),
            (" when x", ["CONDITION x"]),
            (" risk low when x", ["RISK risk", "LOW low", "CONDITION x"]),
        )
    ),
    ("block a after after", "block", ["WORD a", "WORD after"]),
    ("block a after b when x", "block", ["WORD a", "WORD b", "CONDITION x"]),
    ("block a after b or c", "block", ["WORD a", "WORD b", "WORD c"]),
    ("block a after b or c or d until human-approval", "block_until", [f"WORD {n}" for n in "abcd"]),
    ("after a or or require human-approval before b", "after", ["WORD a", "WORD or", "WORD b"]),
    *(
        (
            f"after a require {people} before b for same input.d{more}",
            statement,
            ["WORD a", *number, "WORD b", "FOR for", "SAME same", "FIELD input.d", *words],
        )
        for people, statement, number in (
            ("human-approval", "after", []),
            ("2 human-approval", "after_people", ["NUMBER 2"]),
            ("2 human-approvals", "after_people", ["NUMBER 2"]),
        )
        for more, words in (
            ("", []),
            (" risk low", ["RISK risk", "LOW low"]),
            (" when x", ["CONDITION x"]),
            (" risk low when x", ["RISK risk", "LOW low", "CONDITION x"]),
        )
    ),
    ("after a require human-approval before b when x", "after", ["WORD a", "WORD b", "CONDITION x"]),
    ("after a require human-approval before b by 2", "after", ["WORD a", "WORD b", "BY by", "NUMBER 2"]),
    (
        'after a require human-approval before b no grants because "c"',
        "after",
        ["WORD a", "WORD b", "NO no", "GRANTS grants", 'REASON "c"'],
    ),
    *(
        (
            f"after a require 2 {people} before b{words}",
            "after_people",
            ["WORD a", "NUMBER 2", "WORD b", *tokens],
        )
        for people in ("human-approval", "human-approvals")
        for words, tokens in (
            (" no grants", ["NO no", "GRANTS grants"]),
            (" when x", ["CONDITION x"]),
            (" risk low when x", ["RISK risk", "LOW low", "CONDITION x"]),
        )
    ),
    ("require 3 human-approvals before b when x", "people", ["NUMBER 3", "WORD b", "CONDITION x"]),
    ("let team = [1, 2] # two", "let", ["WORD team", "VALUE [1, 2] # two"]),
    ("require 3 human-approval before b when x", "people", ["NUMBER 3", "WORD b", "CONDITION x"]),
    (
        "require 3 human-approvals before b risk low when x",
        "people",
        ["NUMBER 3", "WORD b", "RISK risk", "LOW low", "CONDITION x"],
    ),
    (
        "require 3 human-approval before b risk low when x",
        "people",
        ["NUMBER 3", "WORD b", "RISK risk", "LOW low", "CONDITION x"],
    ),
]


def _repeated(parts: Iterable[str]) -> list[str]:
    """Return the parts of a production, with one `option` for all further joined tools."""
    found: list[str] = []
    for part in parts:
        if part in {"OR", "AND"} and part in found:
            found.append("option")
        elif not (part == "tool" and found[-1:] == ["option"] and {"OR", "AND"} & {*found}):
            found.append(part)
    return found


class TestProductions:
    @pytest.mark.parametrize(("line", "statement", "words"), LINES)
    def test_make_statements(self, line: str, statement: str, words: list[str]) -> None:
        """A line is read as its statement with the types of its words."""
        reading = RULES.read(line)
        tree = reading.statement
        assert (reading.fits, reading.unexpected) == (True, [])
        assert (tree.data if tree else "") == statement
        assert [f"{word.type} {word}" for word in (tree.children if tree else [])] == words

    @pytest.mark.parametrize(("line", "statement", "words"), CLAUSES)
    def test_take_options_and_a_condition(self, line: str, statement: str, words: list[str]) -> None:
        """Options are separated from the tools, and a condition takes the rest of the line."""
        reading = RULES.read(line)
        tree = reading.statement
        assert reading.clean
        assert tree.data == statement
        assert [f"{word.type} {word}" for word in tree.scan_values(lambda _: True)] == words

    def test_are_all_reached(self) -> None:
        """The lines above reach every production of the grammar, including the inlined ones."""
        shown = re.sub(r"^\?|\b_(?=[a-z])", "", TEXT, flags=re.MULTILINE)
        whole = Lark(shown, start="line", parser="lalr", keep_all_tokens=True)
        # For a repetition, Lark adds a rule that does not appear in trees.
        productions = {
            (rule.origin.name, *(re.sub(r"__\w+_star_\d+", "option", s.name) for s in rule.expansion))
            for rule in whole.rules
            if not rule.origin.name.startswith("__")
        }
        reached = {
            (
                node.data,
                *_repeated(part.data if isinstance(part, Tree) else part.type for part in node.children),
            )
            for line, _, _ in (*LINES, *CLAUSES)
            for node in whole.parse(line).iter_subtrees()
        }
        assert productions == {
            tuple(part for at, part in enumerate(made) if part != "option" or made[at - 1] != "option")
            for made in reached
        }

    # Another word for the number of approvals yields another statement.
    @pytest.mark.parametrize(
        "line", [line for line, kind, _ in LINES if kind not in {"", "people", "after_people"}]
    )
    def test_wrong_word_is_located(self, line: str) -> None:
        """G-40: a wrong word is located, with the words that the grammar accepts there."""
        words = line.partition("#")[0].split()
        for position in range(1, len(words) + 1):
            wrong = [*words]
            wrong[position - 1] = "?/"
            reading = RULES.read(" ".join(wrong))
            if not reading.unexpected:
                assert Token("WORD", "?/") in reading.statement.children
                continue
            unexpected = reading.unexpected[0]
            # Only these can continue in two ways: `shell` or a field, a number or `human-approval`.
            forked = words[0] in {"map", "after"}
            assert forked or len(reading.unexpected) == 1
            assert (unexpected.word, unexpected.position) == ("?/", position)
            taken = {RULES.fixed(terminal) for terminal in unexpected.accepted}
            assert (None in taken if forked else taken == {None}) or words[position - 1] in taken

    @pytest.mark.parametrize("line", [line for line, statement, _ in LINES if statement])
    def test_incomplete_and_overlong_lines_are_rejected(self, line: str) -> None:
        """G-40: an incomplete statement does not match, and additional words are too many."""
        words = line.partition("#")[0].split()
        for count in range(1, len(words)):
            assert not RULES.read(" ".join(words[:count])).fits
        assert not RULES.read(" ".join([*words, "?"])).fits
        assert len(RULES.read(" ".join([*words, "?", "?"])).words) == len(words) + 2


class TestOneSource:
    def test_keyword_changes_in_the_grammar_alone(self) -> None:
        """A keyword that is changed in the grammar changes the language and its errors."""
        other = Grammar(TEXT.replace('"block"', '"forbid"').replace('"to"', '"up-to"'))

        def messages(line: str) -> list[str]:
            return [fault.message for fault in faults(line, other.read(line), other)]

        assert messages("forbid x") == messages("limit a up-to 3 per b") == []
        assert messages("block x") == [
            "unknown keyword 'block'. Expected 'map', 'require', 'limit', or 'forbid'"
        ]
        assert messages("forbid") == ["'forbid <tool>' expects 2 tokens, got 1"]
        assert messages("limit a to 3 per b") == ["expected 'up-to' at position 3, got 'to'"]
        assert messages("limit a") == ["'limit <tool> up-to <N> per <scope>' expects 6 tokens, got 2"]

    @pytest.mark.slow
    def test_an_added_statement_needs_no_table(self) -> None:
        """A statement that is added to the grammar is read and explained without further code."""
        other = Grammar(
            TEXT.replace("| block\n", '| block\n | pause\npause: "pause" tool ("at" | "in") name\n')
        )
        line = "pause x on y"
        assert other.read("pause x in y").statement == Tree(
            "pause", [Token("WORD", "x"), Token("WORD", "y")]
        )
        (fault,) = faults(line, other.read(line), other)
        assert (fault.start, fault.length) == (8, 2)
        assert fault.message == "expected 'at' or 'in' at position 3, got 'on'"

    @pytest.mark.parametrize("word", [HUMAN, SESSION])
    def test_later_checks_use_words_of_the_grammar(self, word: str) -> None:
        """The words that the later checks look for are words of the grammar."""
        assert f'"{word}"' in TEXT

    def test_every_accepted_line_compiles(self) -> None:
        """Each line that the grammar accepts compiles to a rule, a map or an allowance."""
        for line, statement, _ in LINES:
            if line == "allow unclear unclear # x":
                continue
            rules = compile_rules(f"{line}\nblock x")
            assert len(rules) == (2 if statement not in {"", "map", "shell_map", "allow"} else 1)


class TestStatements:
    def test_words_are_plain_str(self) -> None:
        """The words in rules are plain `str`, not the parser's tokens."""
        rules = compile_rules("limit a to 2 per b\nrequire a before b\nmap x.y rm as a")
        limit, sequence = (net.rule for net in rules)
        assert {
            type(w) for w in (limit.tool, limit.scope, sequence.prerequisite, sequence.dependent)
        } == {str}
        assert {type(net.name) for net in rules} == {str}
        with pytest.raises(RuleError) as caught:
            compile_rules("allow\nmap x rm as y\nlimit a to x per b\nblock")
        assert {type(text) for p in caught.value.problems for text in (p.message, p.remedy)} == {str}


class TestFirstCompile:
    @pytest.mark.slow
    def test_loads_lark(self) -> None:
        """The first compile loads lark, and no earlier import does."""
        code = (
            "import sys; from interlock import rules; before = 'lark' in sys.modules;"
            "rules.compile_rules('block x'); print(before, 'lark' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "False True\n"

    def test_parser_is_built_once(self) -> None:
        """All compiles use the same parser."""
        compile_rules("block x")
        built = grammar("grammar.lark")
        compile_rules("block y")
        assert grammar("grammar.lark") is built


class TestForgottenGrammars:
    def test_grammar_is_freed_and_rebuilt(self) -> None:
        """A forgotten grammar is freed, and the next compile yields the same rules."""
        text = 'require human-approval before deploy when input.env = "prod"\nblock rm'
        forget_grammars()  # other tests may keep grammars that were built before
        known = compile_rules(text)
        let_go = weakref.ref(grammar("condition.lark", told_apart=True, starts=("line", "given")))
        forget_grammars()
        gc.collect()
        assert let_go() is None
        assert compile_rules(text).registry.keys() == known.registry.keys()
