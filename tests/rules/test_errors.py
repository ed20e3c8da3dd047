"""What a faulty rules file is answered with: message, place, caret, remedy."""

from __future__ import annotations

import pickle
import unicodedata

import pytest

from interlock.rules import Problem, RuleError, compile_rules

KEYWORDS = "Expected 'map', 'require', 'limit', or 'block'"
REQUIRE = "'require <tool> before <tool>' expects 4 tokens, got"
APPROVAL = "'require human-approval before <tool>' expects 4 tokens, got"
LIMIT = "'limit <tool> to <N> per <scope>' expects 6 tokens, got"
BLOCK = "'block <tool>' expects 2 tokens, got"
MAP = "'map <tool>.<field> <pattern> as <name>' expects 5 tokens, got"
COUNT = "limit count must be a positive integer, got"
FIELD = "expected <tool>.<field> (e.g., bash.command), got"
REGEX = "unsupported or malformed regex:"

# The characters at fault stand between « and ».
FAULTS = [
    ("«allow» x", f"unknown keyword 'allow'. {KEYWORDS}"),
    ("«foo»", f"unknown keyword 'foo'. {KEYWORDS}"),
    ("«REQUIRE» a before b", f"unknown keyword 'REQUIRE'. {KEYWORDS}"),
    ("«before» a require b", f"unknown keyword 'before'. {KEYWORDS}"),
    ("«human-approval» before deploy", f"unknown keyword 'human-approval'. {KEYWORDS}"),
    ("«require.» human-approval before x", f"unknown keyword 'require.'. {KEYWORDS}"),
    ("«-2» bash.command rm as x", f"unknown keyword '-2'. {KEYWORDS}"),
    ("«/»", f"unknown keyword '/'. {KEYWORDS}"),
    ("   «blocks» rm", f"unknown keyword 'blocks'. {KEYWORDS}"),
    ("\t«deny» rm # why", f"unknown keyword 'deny'. {KEYWORDS}"),
    ("\n\n\n«foo»", f"unknown keyword 'foo'. {KEYWORDS}"),
    ("block ok\r\n\r\n# note\r\n«foo» x\r\n", f"unknown keyword 'foo'. {KEYWORDS}"),
    ("«工具» x", f"unknown keyword '工具'. {KEYWORDS}"),
    ("require«»", f"{REQUIRE} 1"),
    ("require a«»", f"{REQUIRE} 2"),
    ("require a before«»", f"{REQUIRE} 3"),
    ("require a before b «c»", f"{REQUIRE} 5"),
    ("require a before b «c d  e»  # f", f"{REQUIRE} 7"),
    ("require as human-approval before «deploy»", f"{REQUIRE} 5"),
    ("require a and b «before c»", f"{REQUIRE} 6"),
    ("require human-approval«»", f"{APPROVAL} 2"),
    ("require human-approval before«»   ", f"{APPROVAL} 3"),
    ("require human-approval before deploy «please»", f"{APPROVAL} 5"),
    ("limit«»", f"{LIMIT} 1"),
    ("limit a to 3«»\nblock b", f"{LIMIT} 4"),
    ("limit a to 3 per«»", f"{LIMIT} 5"),
    ("limit a to 3 per session «long»", f"{LIMIT} 7"),
    ("limit a 3 per session«»", f"{LIMIT} 5"),
    ("block«» # nothing", f"{BLOCK} 1"),
    ("block to «rm»", f"{BLOCK} 3"),
    ("block a «block b»", f"{BLOCK} 4"),
    ("block rm «-rf /»", f"{BLOCK} 4"),
    ("map«»", f"{MAP} 1"),
    ("map bash.command as delete«»", f"{MAP} 4"),
    ("map bash.command rm 3 as «delete»", f"{MAP} 6"),
    ("map bash.command /git push/ as «push»", f"{MAP} 6"),
    ("map bash.command /«»#/ as x", f"{MAP} 3"),
    ("require a «after» b", "expected 'before' at position 3, got 'after'"),
    ("require a «Before» b", "expected 'before' at position 3, got 'Before'"),
    ("require a «before:» b", "expected 'before' at position 3, got 'before:'"),
    ("require before «a» b", "expected 'before' at position 3, got 'a'"),
    ("require human-approval «for» b", "expected 'before' at position 3, got 'for'"),
    ("limit a «To» 3 per session", "expected 'to' at position 3, got 'To'"),
    ("limit a «=» 3 per session", "expected 'to' at position 3, got '='"),
    ("limit a to 3 «PER» session", "expected 'per' at position 5, got 'PER'"),
    ("limit a to 3 «every» session", "expected 'per' at position 5, got 'every'"),
    ("map bash.command rm «to» delete", "expected 'as' at position 4, got 'to'"),
    ("map bash.command rm «->» x", "expected 'as' at position 4, got '->'"),
    ("limit a to «0» per session", f"{COUNT} '0'"),
    ("limit a to «00» per session", f"{COUNT} '00'"),
    ("limit a to «-1» per session", f"{COUNT} '-1'"),
    ("limit a to «+3» per session", f"{COUNT} '+3'"),
    ("limit a to «3x» per session", f"{COUNT} '3x'"),
    ("limit a to «3.5» per session", f"{COUNT} '3.5'"),
    ("limit a to «1e3» per session", f"{COUNT} '1e3'"),
    ("limit a to «3_000» per session", f"{COUNT} '3_000'"),
    ("limit a to «three» per session", f"{COUNT} 'three'"),
    ("limit a to «３» per session", f"{COUNT} '３'"),
    ("limit a to «1000001» per x", "limit count must be at most 1000000, got '1000001'"),
    (
        "limit a to «99999999999999999999» per x",
        "limit count must be at most 1000000, got '99999999999999999999'",
    ),
    ("limit a to 3 per «a»", "'a' cannot restore its own budget: it would never be limited"),
    ("map «bash» rm as x", f"{FIELD} 'bash'"),
    ("map «bash/command» rm as x", f"{FIELD} 'bash/command'"),
    ("map «.command» rm as x", "tool and field must be non-empty in '.command'"),
    ("map «bash.» rm as x", "tool and field must be non-empty in 'bash.'"),
    ("map «.» rm as x", "tool and field must be non-empty in '.'"),
    ("map bash.command «//» as x", "empty regex pattern"),
    ("map bash.command «//i» as x", "empty regex pattern"),
    ("map bash.command «/» as x", "empty regex pattern"),
    ("map bash.command «/rm» as x", "a regex stands between two slashes, got '/rm'"),
    ("map bash.command «rm/» as x", "a regex stands between two slashes, got 'rm/'"),
    ("map bash.command /rm/«g» as x", "unknown regex flag 'g', expected 'i' or nothing"),
    ("map bash.command /rm/«ii» as x", "unknown regex flag 'ii', expected 'i' or nothing"),
    ("map bash.command /rm/«I» as x", "unknown regex flag 'I', expected 'i' or nothing"),
    ("map bash.command /usr/«bin» as x", "unknown regex flag 'bin', expected 'i' or nothing"),
    ("map bash.command /«(»/ as x", f"{REGEX} missing )"),
    ("map bash.command /«a)»/ as x", f"{REGEX} unexpected )"),
    ("map bash.command /x«[a-»/ as x", f"{REGEX} missing ]"),
    ("map bash.command /rm«(?!»x)/ as x", f"{REGEX} invalid perl operator"),
    ("map bash.command /«(?<!»no-)rm/ as x", f"{REGEX} invalid perl operator"),
    (r"map bash.command /(rm)«\1»/ as x", f"{REGEX} invalid escape sequence"),
    (r"map bash.command /(?<n>rm)«\k»<n>/ as x", f"{REGEX} invalid escape sequence"),
    ("map bash.command /a«**»/ as x", f"{REGEX} bad repetition operator"),
    ("map bash.command /a«{2000}»/ as x", f"{REGEX} invalid repetition size"),
    ("map bash.command /«a\\»/ as x", f"{REGEX} trailing"),
    ("map bash.command a«\ud800»b as x", "the pattern is not valid Unicode"),
    ("map bash.command /a«\udfff»/ as x", "the pattern is not valid Unicode"),
]


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(RuleError) as caught:
        compile_rules(text)
    return caught.value.problems


def marked(text: str) -> tuple[str, int, int, int]:
    """The rules without the marks, and line, column and length of what they enclose."""
    before, _, rest = text.partition("«")
    culprit = rest.partition("»")[0]
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    return before + rest.replace("»", "", 1), line, column, max(1, len(culprit))


def screen_width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


class TestPlaceAndMessage:
    @pytest.mark.parametrize(("faulty", "message"), FAULTS)
    def test_is_exact(self, faulty: str, message: str) -> None:
        """G-40, G-41, G-42, G-52, G-55: the message has the reference's words and the place is exact."""
        text, line, column, length = marked(faulty)
        problem = problems_of(text)[0]
        assert (problem.line, problem.column, problem.length) == (line, column, length)
        assert problem.message.startswith(message)
        assert problem.text == text.split("\n")[line - 1].rstrip("\r")

    @pytest.mark.parametrize(
        ("faulty", "remedy"),
        [
            ("requre a before b", "did you mean 'require'?"),
            ("BLOCK x", "did you mean 'block'?"),
            ("limits a to 3 per b", "did you mean 'limit'?"),
            ("deny x", "did you mean 'block'?"),
            ("allow x", "what no rule restricts is allowed: leave the line out"),
            ("confirm x", "did you mean 'require human-approval before <tool>'?"),
            ("require a befor b", "did you mean 'before'?"),
            ("require a then b", "write: require <tool> before <tool>"),
            ("block", "write: block <tool>"),
            ("map bash.command /a b/ as x", r"a pattern holds no blanks: write \s for one"),
            ("map bash.command /a#b/ as x", r"'#' starts a comment everywhere: write \x23 for it"),
            ("map bash rm as x", "name the tool's field to look in: bash.<field>"),
            ("map bash.command build/ as x", "write /build/ to search for it"),
            ("map bash.command /usr/bin as x", "write /usr/bin/ to search for all of it"),
            ("map bash.command /rm/g as x", "write /rm/ or /rm/i"),
            ("map bash.command /a(?=b)/ as x", "patterns are RE2: no look-around"),
            ("limit a to 0 per session", "write a whole number from 1 to 1,000,000"),
            ("limit a to 2 per a", "name another tool after 'per', or write 'per session'"),
        ],
    )
    def test_comes_with_a_remedy(self, faulty: str, remedy: str) -> None:
        """G-40: besides what is wrong, the error says what to write."""
        assert problems_of(faulty)[0].remedy.startswith(remedy)


class TestEveryError:
    def test_of_a_file_is_reported(self) -> None:
        """G-40: one compile finds the errors of all lines, in their order."""
        found = problems_of("allow x\nblock ok\nrequire a after b\n\nlimit a to 0 per session\nblock")
        assert [(p.line, p.column) for p in found] == [(1, 1), (3, 11), (5, 12), (6, 6)]

    def test_of_a_line_is_reported(self) -> None:
        """G-40: a line with three mistakes is not read three times by its author."""
        found = problems_of("limit a too 0 per a")
        assert [p.column for p in found] == [9, 13, 19]

    def test_is_in_the_text_of_the_exception(self) -> None:
        """G-40: printing the exception shows every problem."""
        with pytest.raises(RuleError) as caught:
            compile_rules("allow x\nblock", file="safety.rules")
        shown = str(caught.value)
        assert "safety.rules:1:1: unknown keyword 'allow'" in shown
        assert "safety.rules:2:6: 'block <tool>' expects 2 tokens, got 1" in shown

    def test_survives_pickling(self) -> None:
        """A rule error can cross a process boundary with all it carries."""
        error = RuleError(problems_of("allow x\nblock"))
        assert pickle.loads(pickle.dumps(error)).problems == error.problems


class TestCaret:
    def test_stands_under_the_fault(self) -> None:
        """G-40: header, offending line and caret, as a compiler shows them."""
        (problem,) = problems_of("require lint after test")
        assert str(problem) == (
            "<rules>:1:14: expected 'before' at position 3, got 'after'\n"
            "    require lint after test\n"
            "                 ^^^^^\n"
            "    write: require <tool> before <tool>"
        )

    @pytest.mark.parametrize(
        "faulty",
        [
            "\trequire\ta\t«after»\tb",
            "require 工具 «after» b",
            "require ｆｕｌｌ «after» b",
            "require naïve «after» b",
            "require nai\u0308ve «after» b",
            "require a\u200bb «after» c",
            "require \x1b[31mred «after» b",
            "require \u202eevil «after» b",
            "require\u3000a\u00a0«工具»\u2003b",
            f"require {'a' * 500} «after» {'b' * 500}",
            f"require {'工' * 500} «after» b",
        ],
    )
    def test_is_not_misplaced(self, faulty: str) -> None:
        """G-40: tabs, wide, combining, invisible and very many characters leave the caret in place."""
        text, _, column, length = marked(faulty)
        (problem,) = problems_of(text)
        line, caret = problem.caret.split("\n")
        culprit = text[column - 1 : column - 1 + length]
        at = line.index(culprit)
        assert screen_width(line[:at]) - line[:at].count("\u0308") == len(caret) - len(caret.lstrip())
        assert caret.strip() == "^" * screen_width(culprit)
        assert screen_width(line) < 200

    def test_of_an_overlong_fault_is_cut(self) -> None:
        """A word of a million characters is neither quoted nor underlined whole."""
        (problem,) = problems_of("x" * 1_000_000)
        assert len(str(problem)) < 600

    def test_shows_nothing_a_terminal_obeys(self) -> None:
        """A rules file cannot move the cursor of the person who reads its errors."""
        shown = str(problems_of("\x1b[2J\x07 \u202e \x9b31m\r x")[0])
        assert not [c for c in shown if c != "\n" and unicodedata.category(c) in {"Cc", "Cf"}]
