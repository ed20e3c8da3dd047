"""Matching of a map's pattern."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.net.net import ToolCall
from interlock.rules import compile_rules
from interlock.rules.parse.patterns import compile_word


def matches(pattern: str, text: object) -> bool:
    rules = compile_rules(f"map bash.note {pattern} as found\nblock found")
    return "found" in rules.resolve(ToolCall("c", "bash", {"note": text}))


class TestWord:
    @pytest.mark.parametrize(
        ("word", "text"),
        [
            ("rm", "rm -rf build/"),
            ("rm", "sudo rm x"),
            ("rm", "ls;rm a"),
            ("rm", "rm-rf"),
            ("rm", "/bin/rm"),
            ("rm", "ls\nrm"),
            ("rm", "érm"),
            ("git-push", "git-push origin"),
            ("a.b", "x a.b y"),
            ("--force", "git push --force"),
            ("--force", "--force"),
            ("--force", "git push '--force'"),
            ("--force", "git push --force; ls"),
            ("--force", "git push --force=yes"),
            ("--force", "use --force."),
            ("--force", "use --force --"),
            ("-rf", "rm -rf /"),
            ("--", "git checkout -- x"),
            ("./lint", "./lint"),
            ("./lint", "cd x && ./lint"),
            ("./lint", "cd x&&./lint|tee log"),
            ("./lint", "bash -c './lint'"),
            ("./lint", "$(./lint)"),
            ("./lint", "run ./lint, then ./test."),
            ("./test", "run ./lint, then ./test."),
            ("./secrets", "cat ./secrets/key"),
            (".env", "cat dir/.env"),
            ("..", "cd ../x"),
            ("$HOME", "rm -rf $HOME"),
            ("$HOME", "rm -rf x$HOME/y"),
            ("$HOME", '"$HOME"'),
            ("rm;", "rm;ls"),
            (">", "echo x>y"),
            ("*", "rm *"),
            ("+x", "chmod u+x f"),
            ("été", "en été"),
            ("工具", "用 工具 吧"),
            (r"\d", r"echo \d"),
            ("'x'", "echo 'x'"),
            ("C++", "C++"),
            ("(", "f(x)"),
        ],
    )
    def test_matches_as_a_whole_word(self, word: str, text: str) -> None:
        """G-52: a bare word matches as a whole word, also with other characters at its ends."""
        assert matches(word, text)

    @pytest.mark.parametrize(
        ("word", "text"),
        [
            ("rm", "format"),
            ("rm", "rm2"),
            ("rm", "_rm"),
            ("rm", "RM"),
            ("rm", ""),
            ("a.b", "aXb"),
            ("--force", "git push --force-with-lease"),
            ("--force", "git push --forced"),
            ("--force", "---force"),
            ("--force", "x--force"),
            ("--", "git push --force"),
            ("./lint", "./linter"),
            ("./lint", "./lint-all"),
            ("./lint", "./lint.sh"),
            ("./lint", "../lint"),
            ("./lint", "lint"),
            (".env", "a.env"),
            (".env", ".env.local"),
            ("$HOME", "$HOMER"),
            ("été", "fétés"),
            (r"\d", "7"),
        ],
    )
    def test_does_not_match_inside_another(self, word: str, text: str) -> None:
        """G-52: a part of a longer word does not match."""
        assert not matches(word, text)

    @pytest.mark.slow
    @given(
        word=st.from_regex(r"[a-z0-9_]([-./a-z ]{0,3}[a-z0-9_])?", fullmatch=True).filter(
            str.isprintable
        ),
        text=st.text("ab1_-./ é\n$", max_size=20),
    )
    def test_matches_like_the_reference(self, word: str, text: str) -> None:
        """A word with letters at both ends matches like the reference's `\\bWORD\\b`."""
        word = word.replace(" ", "")
        text = f"{text}{word}{text[::-1]}"
        assert matches(word, text) == bool(re.search(rf"\b{re.escape(word)}\b", text, re.ASCII))

    @given(
        word=st.from_regex(r"[-.]{1,2}[a/]?[-.b]{0,2}[ab]", fullmatch=True),
        text=st.text("ab1-./ ;\n$", max_size=12),
        rest=st.text("ab1-./ ;\n$", max_size=12),
    )
    def test_hyphens_and_dots_continue_a_word(self, word: str, text: str, rest: str) -> None:
        """G-52: a hyphen or dot that leads to a letter after `--force` or `./lint` makes another word."""
        whole = rf"(?<![\w.\-]){re.escape(word)}(?![.\-]*\w)"
        text = f"{text}{word}{rest}"
        assert matches(word, text) == bool(re.search(whole, text, re.ASCII))


class TestRegex:
    @pytest.mark.parametrize(
        ("pattern", "text", "found"),
        [
            ("/rm/", "format", True),
            ("/rm/", "RM", False),
            ("/rm/i", "ForMat", True),
            (r"/^https?:\/\/prod\./", "http://prod.y", True),
            (r"/^https?:\/\/prod\./", "ftp://http://prod.y", False),
            (r"/\b(DROP|TRUNCATE)\b/", "drop table x", False),
            (r"/\b(DROP|TRUNCATE)\b/i", "drop table x", True),
            (r"/^git\s+commit/", "ls\ngit commit", False),
            (r"/x$/", "x\n", False),
            ("/a/b/", "1a/b2", True),
            ("/工具/", "用工具吧", True),
            (r"/\x23/", "a#b", True),
        ],
    )
    def test_is_searched_anywhere(self, pattern: str, text: str, found: bool) -> None:
        """G-52: `/…/` searches the text, `/…/i` ignores case; `^` and `$` are the ends of the text."""
        assert matches(pattern, text) is found


class TestField:
    @pytest.mark.parametrize("value", [None, 7, True, ["cp", 1], {"cp": "x"}, b"rm"])
    def test_without_the_pattern_does_not_match(self, value: object) -> None:
        """G-65: a field whose value does not contain the pattern does not match."""
        assert not matches("rm", value)

    def test_may_be_missing(self) -> None:
        """A call without the field has its own name only."""
        rules = compile_rules("map bash.command rm as found\nblock found")
        assert rules.resolve(ToolCall("c", "bash", {})) == ("bash",)

    def test_with_a_lone_surrogate_is_searched(self) -> None:
        """A lone surrogate does not hide the text beside it."""
        assert matches("rm", "\ud800rm\udfff -rf")

    @pytest.mark.parametrize("pattern", ["/(a+)+$/", "/(a|aa)*c/", "/(.*)*(.*)*x$/"])
    def test_long_text_is_searched_in_linear_time(self, pattern: str) -> None:
        """G-42: patterns that make a backtracking matcher slow are searched in linear time."""
        assert not matches(pattern, "a" * 10_000 + "!")

    @given(st.text())
    def test_never_makes_a_match_raise(self, text: str) -> None:
        """Matching raises no exception for any text."""
        assert matches("rm", text) in {True, False}


class TestBeginning:
    @pytest.mark.parametrize(
        ("word", "start", "begins"),
        [
            ("git push", "git", True),
            ("git push", "git commit", False),
            ("rm", "git", False),
            ("push", "git", False),
        ],
    )
    def test_first_part_is_the_program(self, word: str, start: str, begins: bool) -> None:
        """G-64: a word of several parts begins with its program."""
        assert compile_word(word).begins_with(start) is begins
