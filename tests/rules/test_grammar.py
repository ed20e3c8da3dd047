"""`grammar.lark` is the language: it parses, and says what was expected."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files

import pytest
from lark import Lark, Token, Tree

from interlock.rules import RuleError, compile_rules
from interlock.rules.faults import faults
from interlock.rules.grammar import Grammar, grammar
from interlock.rules.statements import HUMAN, SESSION

TEXT = files("interlock.rules").joinpath("grammar.lark").read_text("utf-8")
RULES = grammar("grammar.lark")

# A line, its statement, and the type and text of the words that count.
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
]


class TestProductions:
    @pytest.mark.parametrize(("line", "statement", "words"), LINES)
    def test_make_statements(self, line: str, statement: str, words: list[str]) -> None:
        """A line is the statement the grammar has for it, with its words told apart."""
        reading = RULES.read(line)
        tree = reading.statement
        assert (reading.fits, reading.unexpected) == (True, [])
        assert (tree.data if tree else "") == statement
        assert [f"{word.type} {word}" for word in (tree.children if tree else [])] == words

    def test_are_all_reached(self) -> None:
        """No production of the grammar is without a line above, whether or not it shows in a tree."""
        shown = re.sub(r"^\?", "", TEXT, flags=re.MULTILINE)
        whole = Lark(shown, start="line", parser="lalr", keep_all_tokens=True)
        productions = {(rule.origin.name, *(s.name for s in rule.expansion)) for rule in whole.rules}
        assert productions == {
            (node.data, *(part.data if isinstance(part, Tree) else part.type for part in node.children))
            for line, _, _ in LINES
            for node in whole.parse(line).iter_subtrees()
        }

    @pytest.mark.parametrize("line", [line for line, statement, _ in LINES if statement])
    def test_say_where_a_word_is_wrong(self, line: str) -> None:
        """G-40: a foreign word is found at its place, by what the grammar takes there."""
        words = line.partition("#")[0].split()
        for position in range(1, len(words) + 1):
            wrong = [*words]
            wrong[position - 1] = "?/"
            reading = RULES.read(" ".join(wrong))
            if not reading.unexpected:
                assert Token("WORD", "?/") in reading.statement.children
                continue
            unexpected = reading.unexpected[0]
            # Only `map` may go on in two ways, with `shell` or without.
            forked = words[0] == "map"
            assert forked or len(reading.unexpected) == 1
            assert (unexpected.word, unexpected.position) == ("?/", position)
            taken = {RULES.fixed(terminal) for terminal in unexpected.accepted}
            assert (None in taken if forked else taken == {None}) or words[position - 1] in taken

    @pytest.mark.parametrize("line", [line for line, statement, _ in LINES if statement])
    def test_say_where_a_line_is_too_long_or_too_short(self, line: str) -> None:
        """G-40: each beginning of a statement is one without its end, and more words are too many."""
        words = line.partition("#")[0].split()
        for count in range(1, len(words)):
            assert not RULES.read(" ".join(words[:count])).fits
        assert not RULES.read(" ".join([*words, "?"])).fits
        assert len(RULES.read(" ".join([*words, "?", "?"])).words) == len(words) + 2


class TestOneSource:
    def test_a_word_is_changed_in_the_grammar_alone(self) -> None:
        """Another keyword there is another language, and the errors speak it."""
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

    def test_an_added_statement_needs_no_table(self) -> None:
        """A statement that only the grammar knows is read, and its errors explained, like the others."""
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
    def test_words_with_a_meaning_are_those_of_the_grammar(self, word: str) -> None:
        """What the checks beside the grammar look for is a word of the grammar."""
        assert f'"{word}"' in TEXT

    def test_every_statement_is_made(self) -> None:
        """Each line that the grammar takes is a rule or a map; none is left for a later error."""
        for line, statement, _ in LINES:
            rules = compile_rules(f"{line}\nblock x")
            assert len(rules) == (2 if statement not in {"", "map", "shell_map"} else 1)


class TestStatements:
    def test_hold_plain_text(self) -> None:
        """Rules keep nothing of the parser: their words are `str` and no kind of it."""
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
    def test_brings_the_parser(self) -> None:
        """lark is loaded by the first compile, and by nothing before it."""
        code = (
            "import sys; from interlock import rules; before = 'lark' in sys.modules;"
            "rules.compile_rules('block x'); print(before, 'lark' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "False True\n"

    def test_builds_it_once(self) -> None:
        """Every later compile has the same parser."""
        assert grammar("grammar.lark") is RULES
