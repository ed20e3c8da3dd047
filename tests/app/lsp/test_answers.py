"""Answers to an editor about one text: hover, completion, quick fixes, navigation and renaming."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.lsp.analysis import analyse
from interlock.app.lsp.completion import Seen, proposals
from interlock.app.lsp.hover import hover_text
from interlock.app.lsp.messages import diagnostics
from interlock.app.lsp.navigation import RenameError, definitions, outline, renamed, used_file
from interlock.app.lsp.positions import TextPositions
from interlock.app.lsp.quick_fixes import fixes
from interlock.rules import load_rules
from interlock.rules.analysis.findings import examine

RULES = """\
let team = ["ada@x.org", "bob@x.org"]
map bash.command ./deploy as deploy
require lint before deploy
require human-approval before send by 2 when every input.to in team because "people read it"
limit send to 2 per sesion
"""


def hovered(line: int, column: int, text: str = RULES) -> str:
    return hover_text(analyse("a.rules", text), line, column) or ""


class TestDiagnostics:
    def test_match_the_output_of_check(self, tmp_path: Path) -> None:
        """Messages, remedies and places are those of `interlock check` for the file."""
        path = tmp_path / "a.rules"
        path.write_text(f"{RULES}block deploy\n")
        rules = load_rules(path)
        checked = examine(rules)
        found = analyse(str(path), path.read_text())
        assert (found.errors, found.warnings) == (checked.errors, checked.warnings)
        shown = diagnostics(found, TextPositions(found.text))
        assert [each.message for each in shown] == [
            f"{each.message}\n{each.remedy}" for each in (*checked.errors, *checked.warnings)
        ]

    def test_errors_about_the_whole_file_are_at_its_start(self) -> None:
        """An error about the whole file is at its start, one about a NUL character at its place."""
        found = analyse("a.rules", "#" * 1_000_001)
        [shown] = diagnostics(found, TextPositions(found.text))
        assert shown.message.startswith("is larger than 1,000,000 bytes")
        assert (shown.range.start.line, shown.range.end.character) == (0, 0)
        [problem] = analyse("a.rules", "block a\nblock \0b").errors
        assert (problem.line, problem.column) == (2, 7)

    def test_show_hidden_characters(self) -> None:
        """Characters that change the direction of text are shown as escapes."""
        found = analyse("a.rules", "blo\u202ek a")
        [shown] = diagnostics(found, TextPositions(found.text))
        assert "\u202e" not in shown.message
        assert r"\u202e" in shown.message

    def test_byte_order_mark_counts_as_a_character(self) -> None:
        """A byte order mark counts as a character of the first line."""
        [problem] = analyse("a.rules", "\ufeffblok rm").errors
        assert (problem.line, problem.column, problem.length) == (1, 2, 4)


class TestHover:
    def test_rule_shows_its_effect(self) -> None:
        """A rule's hover has effect, reason, net, and the shortest way under all rules of the file."""
        text = hovered(4, 2)
        assert "send needs approval by 2 different people\nonly when every input.to in team" in text
        assert "because people read it" in text
        assert "net approve-before-send\n  places: " in text
        assert "all rules of this file together, send:\n" in text

    def test_name_shows_its_values_or_map(self) -> None:
        """The name of a value shows its values, a mapped name its map."""
        assert hovered(4, 65).startswith("team: 2 values\n  ada@x.org\n  bob@x.org\n")
        assert hovered(3, 22).startswith(
            "calls of bash with ./deploy in command are also calls of deploy"
        )

    def test_valid_line_in_a_faulty_file_shows_its_effect(self) -> None:
        """In a faulty file the hover has only the line's own effect."""
        text = hovered(3, 2, RULES + "blok x\n")
        assert text == "a successful lint unlocks one deploy"

    def test_blank_comment_and_faulty_lines_have_none(self) -> None:
        """A blank line, a comment and a faulty line have no hover."""
        assert hovered(2, 1, "block a\n\nblok a # x") == hovered(3, 7, "block a\n\nblok a # x") == ""


class TestCompletion:
    def test_proposes_names_of_the_file_and_those_seen(self) -> None:
        """Tools, fields and values come from other lines and from the journal, not from the typed one."""
        seen = Seen(("deploy", "kubectl"), (("kubectl", "args"),))
        text = f"{RULES}block kub"
        words = [each.word for each in proposals("a.rules", text, 6, 10, seen)]
        assert {"deploy", "lint", "send", "kubectl", "anything-else"} <= set(words)
        assert "kub" not in words
        assert len(words) == len(set(words))
        fields = [each.word for each in proposals("a.rules", f"{RULES}block x when ", 6, 14, seen)]
        assert {"input.to", "input.args", "session.agent", "session.labels"} <= set(fields)
        mapped = [each.word for each in proposals("a.rules", f"{RULES}map ", 6, 5, seen)]
        assert {"bash.command", "kubectl.args"} <= set(mapped)
        assert "team" in [e.word for e in proposals("a.rules", f"{RULES}block x when input.a in ", 6, 25)]

    def test_proposes_fields_of_the_rule_first(self) -> None:
        """Fields of the tool, or of the tool whose calls are mapped to its name, come first."""
        seen = Seen((), (("a", "one"), ("bash", "command"), ("b", "two")))
        text = f"{RULES}block deploy when "
        words = [each.word for each in proposals("a.rules", text, 6, 19, seen) if each.kind == "field"]
        of_session = ["session.agent", "session.started_by", "session.labels"]
        of_tool = ["hint.read_only", "hint.destructive", "hint.idempotent", "hint.open_world"]
        assert words == ["input.command", "input.to", "input.one", "input.two", *of_session, *of_tool]

    def test_proposes_files_to_use(self, tmp_path: Path) -> None:
        """After `use`, the rules files of the folder are proposed, but no scenario files."""
        for name in ("a.rules", "b.rules", "b_test.rules", "c d.rules", "payees.txt"):
            (tmp_path / name).touch()
        file = str(tmp_path / "b_test.rules")
        assert [each.word for each in proposals(file, "use ", 1, 5)] == ["a.rules", "b.rules"]
        assert [each.word for each in proposals(file, "use a.rules b", 1, 14)] == ["a.rules", "b.rules"]
        assert proposals(str(tmp_path / "none" / "b_test.rules"), "use ", 1, 5) == []


class TestQuickFixes:
    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("require lint befor deploy  # why", "require lint before deploy  # why"),
            ("  blok rm", "  block rm"),
            ("block rm when input.a == 1 # why", "block rm when input.a = 1 # why"),
            ("limit rm to 2 per sesion", "limit rm to 2 per session"),
        ],
    )
    def test_remedy_replaces_the_line(self, text: str, line: str) -> None:
        """The replacement in a remedy corrects the line and keeps its comment."""
        found = analyse("a.rules", text)
        [fix] = [fix for each in (*found.errors, *found.warnings) for fix in fixes(text, each)]
        at = fix.column - 1
        assert text[:at] + fix.text + text[at + fix.length :] == line

    @pytest.mark.parametrize("text", ["ask rm", "block rm rm rm", "limit rm to no per session"])
    def test_remedy_with_a_placeholder_is_not_offered(self, text: str) -> None:
        """A remedy with a placeholder, or with an explanation, is not a replacement."""
        [problem] = analyse("a.rules", text).errors
        assert list(fixes(text, problem)) == []


class TestNavigation:
    def test_outline_has_every_statement(self) -> None:
        """The outline has the statements of rules, even with errors, and uses and names of scenarios."""
        assert [each.kind for each in outline("a.rules", RULES + "blok\n")] == [
            *("let", "map", "rule", "rule", "rule")
        ]
        scenarios = 'use a.rules\nscenario "one"\n  call a\n'
        assert [each.text for each in outline("a_test.rules", scenarios)] == ["use a.rules", "one"]

    def test_files_in_use_are_found(self, tmp_path: Path) -> None:
        """Each path of a `use` line leads to its file, if the file exists."""
        file, text = (
            str(tmp_path / "a_test.rules"),
            'use a.rules "b c.rules" # a.rules\nscenario "a.rules"\n',
        )
        assert used_file(file, text, 1, 6) is None
        (tmp_path / "a.rules").touch()
        (tmp_path / "b c.rules").touch()
        assert used_file(file, text, 1, 6) == str(tmp_path / "a.rules")
        assert used_file(file, text, 1, 18) == str(tmp_path / "b c.rules")
        assert used_file(file, text, 1, 30) is used_file(file, text, 2, 12) is None

    def test_definitions_are_all_maps_of_a_name(self) -> None:
        """A mapped name has all its maps as definitions. A tool's own name has none."""
        text = "map bash.command a as x\nmap bash.command b as x\nblock x\nblock y\n"
        assert [each.line for each in definitions("a.rules", text, 3, 7)] == [1, 2]
        assert definitions("a.rules", text, 4, 7) == []


class TestRenaming:
    def test_changes_a_name_everywhere(self) -> None:
        """A mapped name is renamed in its map and in all rules, but not in quoted texts."""
        text = RULES + 'block rm because "deploy"\n'
        found = renamed(analyse("a.rules", text), 3, 22, "ship")
        assert [(each.line, each.column) for each in found] == [(2, 30), (3, 21)]

    @pytest.mark.parametrize(
        ("line", "column", "name", "reason"),
        [
            (1, 6, "input", "input"),
            (1, 6, "a b", "expected|token|name"),
            (2, 31, "lint", "already a name in this file"),
            (2, 31, "unclear", "reserved"),
            (2, 31, "a # b", "one name|expects|expected"),
            (2, 31, "", "expects|one name"),
            (2, 6, "sh", "a tool's own name"),
            (3, 9, "check", "a tool's own name"),
            (3, 1, "x", "only names"),
        ],
    )
    def test_is_refused_where_rules_would_change(
        self, line: int, column: int, name: str, reason: str
    ) -> None:
        """An invalid name, a name in use or a tool's own name is refused with the reason."""
        with pytest.raises(RenameError, match=reason):
            renamed(analyse("a.rules", RULES), line, column, name)

    def test_is_refused_in_a_faulty_file(self) -> None:
        """In a file with errors names cannot be found, so renaming is refused."""
        with pytest.raises(RenameError, match="has errors"):
            renamed(analyse("a.rules", RULES + "blok deploy\n"), 2, 31, "ship")
