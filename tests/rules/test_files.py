"""Rules from files: several at once, the library, and unreadable files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from interlock.engine.net.net import ToolCall
from interlock.rules import RuleError, compile_rules, library_rules, load_rules


def failure(*paths: Path | str) -> RuleError:
    with pytest.raises(RuleError) as caught:
        load_rules(*paths)
    return caught.value


class TestLoading:
    def test_compiles_several_files_as_one_set(self, tmp_path: Path) -> None:
        """A map applies to the rules of all files, and the nets are in the order of the files."""
        maps, rules = tmp_path / "maps.rules", tmp_path / "main.rules"
        maps.write_text("map bash.command rm as delete\nblock x")
        rules.write_text("block delete")
        loaded = load_rules(str(rules), maps)
        assert [net.name for net in loaded] == ["block-delete", "block-x", "approve-before-unclear"]
        assert [net.rule.source.file for net in loaded] == [str(rules), str(maps), str(maps)]
        assert loaded.resolve(ToolCall("c", "bash", {"command": "rm"})) == ("delete", "bash")
        assert dict(loaded.sources) == {str(rules): rules.read_text(), str(maps): maps.read_text()}

    def test_numbers_each_file_on_its_own(self, tmp_path: Path) -> None:
        """G-40: the errors of all files are reported together, each with its file and line."""
        first, second = tmp_path / "a.rules", tmp_path / "b.rules"
        first.write_text("block a\nallow b")
        second.write_text("block")
        error = failure(first, second, tmp_path / "missing.rules")
        assert [(p.file, p.line) for p in error.problems] == [
            (str(first), 2),
            (str(second), 1),
            (str(tmp_path / "missing.rules"), 0),
        ]

    def test_accepts_a_byte_order_mark(self, tmp_path: Path) -> None:
        """A byte order mark does not shift columns."""
        path = tmp_path / "a.rules"
        path.write_bytes(b"\xef\xbb\xbfallow x")
        assert failure(path).problems[0].column == 1

    def test_needs_a_file(self) -> None:
        """Loading no file raises an error."""
        with pytest.raises(ValueError, match="at least one rules file"):
            load_rules()


class TestUnreadable:
    def test_missing(self, tmp_path: Path) -> None:
        """The error about a missing file contains its path and a remedy."""
        assert str(failure(tmp_path / "no.rules")) == (
            f"{tmp_path / 'no.rules'}: no such rules file\n    check the path, or create the file"
        )

    def test_directory(self, tmp_path: Path) -> None:
        """A directory is not searched for rules."""
        assert "is a directory, expected a rules file" in str(failure(tmp_path))

    @pytest.mark.parametrize("name", ["\0", "x" * 5000, "a.rules/b.rules"])
    def test_impossible_path(self, name: str, tmp_path: Path) -> None:
        """A path that the system refuses raises a rule error."""
        (tmp_path / "a.rules").write_text("")
        assert "cannot be read: " in str(failure(tmp_path / name))

    def test_too_large(self, tmp_path: Path) -> None:
        """A file that is too large is refused."""
        path = tmp_path / "big.rules"
        path.write_text("# note\n" * 200_000)
        assert "is larger than 1,000,000 bytes" in str(failure(path))
        path.write_text("#" * 1_000_000)
        assert load_rules(path).nets == ()

    def test_other_encoding(self, tmp_path: Path) -> None:
        """The first byte that is not UTF-8 is located."""
        path = tmp_path / "latin.rules"
        path.write_bytes("block a\nblock né # x\nblock b".encode("latin-1"))
        (problem,) = failure(path).problems
        assert (problem.line, problem.column) == (2, 8)
        assert problem.message == "is not UTF-8 text: byte 0xe9"
        assert problem.text == "block n\ufffd # x"

    def test_nul(self, tmp_path: Path) -> None:
        """A NUL character is located."""
        path = tmp_path / "nul.rules"
        path.write_bytes(b"block a\r\nblock \0b\r\n")
        (problem,) = failure(path).problems
        assert (problem.line, problem.column, problem.text) == (2, 7, "block \0b")


class TestLibrary:
    def test_deploy(self) -> None:
        """The library's deploy rules compile without warnings."""
        rules = load_rules(library_rules("deploy"))
        assert list(rules.registry) == [
            "limit-deploy-1",
            "require-lint-before-test",
            "require-test-before-deploy",
            "approve-before-deploy",
            "block-rm",
            "approve-before-unclear",
        ]
        assert rules.warnings == ()

    @pytest.mark.parametrize(
        ("command", "expected"),
        [
            ("./lint", ("lint", "bash")),
            ("cd app && ./test -q", ("test", "bash")),
            ("./deploy prod", ("deploy", "bash")),
            ("rm -rf build", ("rm", "bash")),
            ("./lint && ./test", ("lint", "test", "bash")),
            ("cat README.md", ("bash",)),
        ],
    )
    def test_deploy_knows_its_scripts(self, command: str, expected: tuple[str, ...]) -> None:
        """Each script of the project has its own name."""
        rules = load_rules(library_rules("deploy"))
        assert rules.resolve(ToolCall("c", "bash", {"command": command})) == expected

    def test_freeze(self) -> None:
        """The freeze rules block deploys, alone and beside the deploy rules."""
        alone = load_rules(library_rules("freeze"))
        assert list(alone.registry) == ["block-deploy", "approve-before-unclear"]
        assert alone.resolve(ToolCall("c", "bash", {"command": "./deploy prod"})) == ("deploy", "bash")
        both = load_rules(library_rules("deploy"), library_rules("freeze"))
        assert list(both.registry)[-2:] == ["block-deploy", "approve-before-unclear"]
        assert both.warnings == ()

    @pytest.mark.parametrize("name", ["nothing", "../deploy", "", "deploy.rules"])
    def test_unknown_name(self, name: str) -> None:
        """The error about an unknown name lists the library's names."""
        with pytest.raises(ValueError, match=r"Available: chat, .*deploy, .*freeze, "):
            library_rules(name)


class TestImport:
    @pytest.mark.slow
    def test_is_light(self) -> None:
        """Importing the language loads neither the regex engine nor other heavy modules."""
        heavy = "{'re2', 'lark', 'pydantic', 'sqlalchemy', 'textual', 'litellm', 'difflib'}"
        code = (
            "import sys, interlock.rules; from interlock.rules.compiler import forget_grammars; "
            f"forget_grammars(); print(sorted({heavy} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"


class TestWarnings:
    @pytest.mark.parametrize(
        ("text", "line", "column", "length", "message"),
        [
            ("block a\n block  a # again", 2, 2, 8, "the same rule as in line 1"),
            ("limit a to 2 per b\nlimit a to 02 per b", 2, 1, 19, "the same rule as in line 1"),
            ("map a.b c as d\nblock c", 1, 14, 1, "no rule names 'd', so this map has no effect"),
            ("map a.b c as d", 1, 14, 1, "no rule names 'd', so this map has no effect"),
            ("require a before a # a", 1, 18, 1, "a rule that requires 'a' before itself never blocks"),
            ("block rm,", 1, 7, 3, "the tool's name is taken to be 'rm,'"),
            ("limit a to 2 per Session", 1, 18, 7, "'Session' is taken as a tool"),
            ("limit a to 2 per sessions", 1, 18, 8, "'sessions' is taken as a tool"),
            ("limit a to 2 per sesion", 1, 18, 6, "'sesion' is taken as a tool"),
            ("require human-aproval before a", 1, 9, 13, "'human-aproval' is taken as a tool's name"),
            ("require humn-approvals before a", 1, 9, 14, "'humn-approvals' is taken as a tool's name"),
            ("block uncler", 1, 7, 6, "'uncler' is taken as a tool's name"),
            ("block Unclear", 1, 7, 7, "'Unclear' is taken as a tool's name"),
            ("require a before anything_else", 1, 18, 13, "'anything_else' is taken as a tool's name"),
            ("limit any-thing-else to 2 per 1h", 1, 7, 14, "'any-thing-else' is taken as a tool's name"),
            ("block unclear", 1, 7, 7, "no call is ever unclear: no map says which fields"),
            ("require a before human-approval", 1, 18, 14, "'human-approval' is taken as a tool's name"),
            ("require human_approval before a", 1, 9, 14, "'human_approval' is taken as a tool's name"),
            ('map a.b "c" as d\nblock d', 1, 9, 3, 'the map looks for "c" with the quotes around it'),
            ("map 'b'.'b' 'b' as d\nblock d", 1, 13, 3, "the map looks for 'b' with the quotes"),
        ],
    )
    def test_point_at_their_reason(
        self, text: str, line: int, column: int, length: int, message: str
    ) -> None:
        """G-43: suspicious rules cause warnings with a place, a message and a remedy."""
        (warning,) = compile_rules(text).warnings
        assert (warning.line, warning.column, warning.length) == (line, column, length)
        assert warning.message.startswith(message)
        assert warning.remedy
        assert "^" * length in str(warning)

    def test_name_the_other_file(self, tmp_path: Path) -> None:
        """The warning about a duplicate names the other file."""
        for name in ("a.rules", "b.rules"):
            (tmp_path / name).write_text("block x")
        (warning,) = load_rules(tmp_path / "a.rules", tmp_path / "b.rules").warnings
        assert warning.message == f"the same rule as in {tmp_path / 'a.rules'}:1"

    def test_are_absent_from_ordinary_rules(self) -> None:
        """Ordinary rules cause no warnings."""
        text = "require a before b\nlimit a to 2 per b\nblock c\nmap x.y z as c\nblock d.e"
        assert compile_rules(text).warnings == ()
        words = (
            "require approve_release before b\nlimit a to 2 per mission\nblock session_start\nblock clear"
        )
        assert compile_rules(words).warnings == ()

    def test_map_that_hides_later_ones_should_be_moved(self) -> None:
        """An unused map that hides later maps of a shell field should be moved, not removed."""
        shadow = "map bash.command docker as container\n"
        below = "map bash.command sudo as root\nmap bash.command /rm\\s-rf/ as rm-force\n"
        (warning,) = compile_rules(f"{shadow}{below}block root\nblock rm-force").warnings
        assert (warning.line, warning.column, warning.length) == (1, 28, 9)
        assert warning.message == (
            "this map, which no rule names, keeps 'root' and 'rm-force' from matching"
        )
        assert "move it below them" in warning.remedy
        assert "remove" not in warning.remedy
        (moved,) = compile_rules(f"{below}{shadow}block root\nblock rm-force").warnings
        assert moved.message == "no rule names 'container', so this map has no effect"
        assert "remove the map" in moved.remedy

    def test_map_that_makes_its_tool_known_is_kept(self) -> None:
        """G-66: with a rule on anything-else, an unused map still makes its tool known."""
        (warning,) = compile_rules("map a.b c as d\nblock anything-else").warnings
        assert "only says that 'a' is known" in warning.message
        assert "remove" not in warning.remedy


class TestLibraryNames:
    def test_library_rule_hides_its_installation_path(self) -> None:
        """A rule of the library is shown without its installation path."""
        rules = load_rules(library_rules("freeze"))
        for net in rules.nets:
            assert net.rule is not None
            assert net.rule.source is not None
            assert net.rule.source.file == "library/freeze.rules"
