"""The findings about each line of a rules file, and the list of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.app.cli.main import parser
from interlock.app.cli.rules.check import run
from interlock.app.format.rules import does
from interlock.app.sources.rules_files import OfferedFiles, files_of, name_of, offered, stamps, usual
from interlock.app.viewmodels.rules_view import RulesView, check, read
from interlock.app.widgets.base.blocks import Block
from interlock.app.widgets.lists.rules import PIECE, rule_blocks
from interlock.rules import compile_rules, library_rules
from tests.support.command import printed

from ...support.scenes import release_bot
from .folder import CIRCLE, DEPLOY


def painted(blocks: list[Block], width: int = 80) -> list[str]:
    return [line.plain for block in blocks for line in block.lines(width)]


def messages(view: RulesView) -> list[tuple[int, str]]:
    return [
        (line, finding.problem.message)
        for file in view.files
        for line, noted in sorted(file.noted.items())
        for finding in noted.findings
    ]


class TestWords:
    @pytest.mark.parametrize(
        ("rule", "words"),
        [
            ("require test before deploy", ["a successful test unlocks one deploy"]),
            ("block rm", ["rm is blocked"]),
            ("limit deploy to 1 per session", ["1 call of deploy a session"]),
            ("limit a to 2 per b", ["2 calls of a", "a successful b restores them"]),
            ("limit a to 3 per 90m", ["3 calls of a per 90m", "each comes back after 1 h 30 min"]),
            ("require human-approval before a", ["a needs approval"]),
            (
                "require 2 human-approvals before a within 30m risk high no grants",
                ["a needs approval by 2 different people", "within 30 min", "risk high", "no grants"],
            ),
            (
                'block write when input.path not under "src/"',
                ["write is blocked", 'only when input.path not under "src/"'],
            ),
        ],
    )
    def test_each_kind_of_rule_is_described(self, rule: str, words: list[str]) -> None:
        """Each kind of rule is described in words, with its options and its condition."""
        (net,) = compile_rules(rule)
        assert net.rule is not None
        assert list(does(net.rule)) == words


class TestLines:
    def test_line_has_net_key_and_states(self) -> None:
        """A rule's line has its net's key and its number of states."""
        (file,) = check(["deploy.rules"]).files
        assert {line: [(n.key, n.states) for n in noted.nets] for line, noted in file.noted.items()} == {
            2: [("approve-before-unclear", 2)],
            5: [("require-test-before-deploy", 3)],
            6: [("approve-before-deploy", 2)],
            7: [("limit-deploy-1", 3)],
            8: [("limit-deploy-3", 5)],
            9: [("limit-push-3-per-1h", 5)],
            10: [("block-rm", 2)],
        }

    @pytest.mark.parametrize("name", ["deploy", "circle", "faulty"])
    def test_findings_equal_those_of_check(self, name: str) -> None:
        """Each error and warning of `interlock check` is at its line, and there are no others."""
        args = parser("check").parse_args(["check", f"{name}.rules"])
        _, out, err = printed(lambda: run(args))
        said = out + err
        found = messages(check([f"{name}.rules"]))
        assert found
        for line, message in found:
            assert f"{name}.rules:{line}:" in said
            assert message in said
        assert len(found) == sum(said.count(f"{name}.rules:{line}:") for line in {at for at, _ in found})

    def test_unclear_rule_with_fewer_approvals_has_a_warning(self, tmp_path: Path) -> None:
        """G-64: a rule for unclear calls that requires fewer approvals has a warning at its line."""
        rules = tmp_path / "lesser.rules"
        rules.write_text(
            "map bash.command deploy as deploy\nrequire 2 human-approvals before deploy\n"
            "require human-approval before unclear\n"
        )
        view = check([str(rules)])
        [(line, message)] = messages(view)
        assert (view.warnings, line) == (1, 3)
        assert "requires less than line 2 (require 2 human-approvals before deploy)" in message

    def test_file_with_errors_has_no_nets(self) -> None:
        """G-40: a file that does not compile shows every error and has no nets."""
        view = check(["faulty.rules"])
        assert (view.errors, view.rules, view.findings) == (3, 0, None)
        assert [line for line, _ in messages(view)] == [1, 2, 4]

    def test_several_files_are_compiled_together(self) -> None:
        """Files are compiled together: the map of one applies to the other, and each keeps its lines."""
        (Path("maps.rules")).write_text("map bash.command ls as list\n")
        (Path("uses.rules")).write_text("block list\n")
        assert [m for _, m in messages(check(["maps.rules"]))] == [
            "no rule names 'list', so this map has no effect"
        ]
        together = check(["maps.rules", "uses.rules"])
        assert messages(together) == []
        assert [file.name for file in together.files] == ["maps.rules", "uses.rules"]
        assert together.files[1].noted[1].nets[0].key == "block-list"

    def test_unreadable_file_has_one_error(self) -> None:
        """A file that cannot be read has one error for the whole file."""
        Path("bad.rules").write_bytes(b"block \xff\n")
        os.mkdir("folder.rules")
        for name, message in (
            ("none.rules", "no such rules file"),
            ("bad.rules", "is not UTF-8 text: byte 0xff"),
            ("folder.rules", "is a directory, expected a rules file"),
        ):
            view = check([name])
            assert [found for _, found in messages(view)] == [message]
            assert any(message in line for line in painted(rule_blocks(view)))

    def test_library_file_is_marked(self) -> None:
        """A library file has its library name and is marked as ready-made."""
        view = check([str(library_rules("deploy"))])
        assert (view.files[0].name, view.files[0].library) == ("library/deploy.rules", True)
        lines = painted(rule_blocks(view))
        assert lines[0] == "library/deploy.rules  ready-made: copy it to change it"
        assert view.files[0].noted

    def test_lines_are_available_before_the_check(self) -> None:
        """The lines are available before the check."""
        view = read(["deploy.rules"])
        assert not view.checked
        assert view.files[0].lines == tuple(DEPLOY.splitlines())


class TestBlocks:
    @pytest.mark.parametrize("width", [24, 40, 80, 120])
    @pytest.mark.parametrize("name", ["deploy", "circle", "faulty"])
    def test_block_height_is_its_number_of_lines(self, name: str, width: int) -> None:
        """A block's height is its number of lines, and no line is wider than the list."""
        for block in rule_blocks(check([f"{name}.rules"]), width):
            lines = list(block.lines(width))
            assert max((line.cell_length for line in lines), default=0) <= width
            if block.height is not None:
                assert block.height(width) == len(lines)

    def test_every_line_is_listed(self) -> None:
        """Comments and blank lines are listed between the rules, each with its number."""
        text = "\n" * 3 + "# a\n" * (2 * PIECE + 7) + "block a\n" + "# b\n\n# c"
        Path("long.rules").write_text(text)
        numbers = [
            int(line.split()[0])
            for line in painted(rule_blocks(check(["long.rules"])))
            if line[:4].strip().isdecimal()
        ]
        assert numbers == list(range(1, 2 * PIECE + 7 + 3 + 1 + 3 + 1))

    def test_characters_of_a_finding_are_underlined(self) -> None:
        """The characters of a finding are underlined, not only coloured."""
        blocks = {block.key: block for block in rule_blocks(check(["faulty.rules"]))}
        line = blocks["0:1"].lines(80)[0]
        under = "".join(
            line.plain[span.start : span.end] for span in line.spans if "underline" in str(span.style)
        )
        assert under == "after"


class TestFiles:
    def test_order_of_offered_files(self, folder: Path) -> None:
        """Offered are the files of sessions, each once, then named ones, this folder, the library."""
        found = offered(
            [("a-1", ("deploy.rules",)), ("b-1", ("deploy.rules",)), ("c-1", ())], [("x.rules",)]
        )
        assert found[:4] == [
            OfferedFiles(("deploy.rules",), "session", ("a-1", "b-1")),
            OfferedFiles(("x.rules",), "named"),
            OfferedFiles(("circle.rules",), "here"),
            OfferedFiles(("faulty.rules",), "here"),
        ]
        ready = [chosen.names for chosen in found if chosen.origin == "library"]
        assert "library/deploy.rules" in ready
        assert not any("_test" in chosen.names for chosen in found)

    def test_same_file_has_one_form(self, folder: Path) -> None:
        """A file of this folder is written as a relative path, a library file as an absolute one."""
        assert usual(str(folder / "a" / ".." / "deploy.rules")) == "deploy.rules"
        ready = library_rules("git")
        assert usual(os.path.relpath(ready)) == str(ready)
        assert name_of(str(ready)) == "library/git.rules"
        assert usual("/elsewhere/x.rules") == "/elsewhere/x.rules"

    def test_session_without_source_has_files_of_its_nets(self, folder: Path) -> None:
        """A session without a source has the existing files that its nets name."""
        state = release_bot()
        assert files_of(state) == ("deploy.rules",)
        (folder / "deploy.rules").unlink()
        assert files_of(state) == ()
        assert files_of(None) == ()

    def test_changed_file_has_another_stamp(self, folder: Path) -> None:
        """A changed file has another stamp; a missing one has none."""
        before = stamps(["circle.rules", "none.rules"])
        assert stamps(["circle.rules", "none.rules"]) == before
        (folder / "circle.rules").write_text(CIRCLE + "block c\n")
        after = stamps(["circle.rules", "none.rules"])
        assert after[0] != before[0]
        assert after[1] is before[1] is None
