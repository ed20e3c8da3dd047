"""Code in an input is highlighted: styles are added, characters stay."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue
from textual.content import Content

from interlock.app.format.highlighting import MOST, code_spans, highlighted, json_spans, language_of
from interlock.app.format.text import shown_lines
from interlock.app.widgets.approval.call_input import input_rows
from interlock.app.widgets.approval.queue_lines import waiting_block
from interlock.app.widgets.approval.request import request_text

from ..support.scenes import NOW, deploy_request

SCRIPT = 'for each in "$@"; do\n  echo "$each"  # note\ndone'


class TestFields:
    def test_a_shell_command_has_styles(self) -> None:
        """Keywords, strings and comments of a script get styles; its text stays the same."""
        rows = input_rows({"command": SCRIPT}, 60)
        declared = input_rows({"line": SCRIPT}, 60, shell_fields=("line",))
        assert [s.style for r in declared for s in r.spans] == [s.style for r in rows for s in r.spans]
        plain = input_rows({"text": SCRIPT}, 60)
        assert [row.plain[9:] for row in rows] == [row.plain[6:] for row in plain]
        styles = {str(span.style) for row in rows for span in row.spans}
        assert {"bold $text-accent", "$text-success", "italic"} <= styles

    def test_file_content_has_the_language_of_its_name(self) -> None:
        """The content of a file is highlighted by the file's name, other fields are not."""
        assert language_of("content", {"file_path": "a/b.PY", "content": ""}) == "python"
        assert language_of("content", {"path": "notes.txt"}) is None
        assert language_of("note", {"path": "a.py"}) is None

    def test_no_text_is_markup(self) -> None:
        """Markup and control characters in code are shown as text."""
        command = "echo '[@click=app.quit]x[/]'\n\x1b[2Jrm\u202e"
        text = request_text(deploy_request(input={"command": command}), None, NOW, 76, 40)
        shown = "\n".join(line.plain for line in text.lines)
        assert "[@click=app.quit]x[/]" in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown

    def test_a_long_text_stays_plain(self) -> None:
        """A very long text gets no styles."""
        assert code_spans("x" * (MOST + 1), "bash") == ((), (), ())


def styled(row: Content) -> dict[str, set[str]]:
    """The parts of a row by their text, each with its styles."""
    found: dict[str, set[str]] = {}
    for span in row.spans:
        found.setdefault(row.plain[span.start : span.end], set()).add(str(span.style))
    return found


class TestOneLine:
    def test_a_command_within_its_json(self) -> None:
        """A one-line command in JSON quotes has styles, even with quotes of its own."""
        command = 'if true; then echo "it" $HOME; fi'
        [row] = input_rows({"command": command}, 76)
        assert row.plain.split(maxsplit=1)[1] == json.dumps(command)
        parts = styled(row)
        assert "bold $text-accent" in parts["if"]
        assert "$text-success" in parts[r"\"it\""]
        assert "$text-secondary" in parts["$HOME"]

    def test_a_command_over_several_rows(self) -> None:
        """If a command is wrapped inside a word, both halves have the word's style."""
        rows = input_rows({"command": f"echo {'x' * 40} $VARIABLE"}, 30)
        assert len(rows) > 1
        assert "".join(row.plain[9:] for row in rows) == json.dumps(f"echo {'x' * 40} $VARIABLE")
        assert any("$text-secondary" in styles for row in rows for styles in styled(row).values())

    @pytest.mark.parametrize(
        "command", ["echo \u202e$HOME", "\u0441\u043e\u0440\u0443 $HOME", "a\x9b$HOME"]
    )
    def test_marked_letters_leave_it_plain(self, command: str) -> None:
        """If letters are shown as escapes, no style is put in a wrong place."""
        rows = input_rows({"command": command}, 76)
        assert "$text-secondary" not in {str(s.style) for row in rows for s in row.spans}

    @given(command=st.text(max_size=80))
    def test_parts_have_the_same_letters_in_the_json(self, command: str) -> None:
        """Each part has the same letters in the JSON as in the code."""
        text = json.dumps(command, ensure_ascii=False)
        for mine, its in zip(
            zip(*json_spans(text, "bash"), strict=True),
            zip(*code_spans(command, "bash"), strict=True),
            strict=True,
        ):
            part = json.dumps(command[its[0] : its[1]], ensure_ascii=False)[1:-1]
            assert (text[mine[0] : mine[1]], mine[2]) == (part, its[2])

    @pytest.mark.parametrize(
        ("given", "whole"),
        [
            ({"command": "git push $HOME"}, "git push $HOME"),
            ({"command": "git push $HOME", "timeout": 3}, 'command="git push $HOME" timeout=3'),
            ({"note": "$HOME", "command": "ls"}, 'note="$HOME" command="ls"'),
        ],
    )
    def test_queue_highlights_only_commands(self, given: dict[str, JsonValue], whole: str) -> None:
        """The queue's line highlights the parts of a command, and of no other field."""
        row = waiting_block(deploy_request(input=given), "x", NOW, ()).lines(60)[-1]
        assert row.plain.strip() == whole
        assert ("$text-secondary" in styled(row).get("$HOME", set())) == ("note" not in given)

    def test_unnamed_commands_are_highlighted(self) -> None:
        """The other commands of a call are highlighted like the command itself."""
        request = deploy_request(
            input={"command": "rm x; ls $HOME"},
            names=("bash",),
            runs=("rm x", "ls $HOME"),
            marked=(0,),
            commands=2,
        )
        [row] = [
            r for r in request_text(request, None, NOW, 76, 40).lines if r.plain.strip() == "│ ls $HOME"
        ]
        assert "$text-secondary" in styled(row)["$HOME"]


class TestDiff:
    GIVEN: ClassVar[dict[str, JsonValue]] = {
        "path": "cart.py",
        "old_text": "def price():\n    return 'a'\n",
        "new_text": "def price():\n    return 'b'  # why\n",
    }

    def rows(self, **more: object) -> list[Content]:
        request = deploy_request(**{"called": "edit", "names": ("edit",), "input": self.GIVEN, **more})
        return request_text(request, None, NOW, 76, 60).lines

    def test_changed_lines_are_highlighted(self) -> None:
        """Keywords and comments are highlighted in the colour of added and removed lines."""
        [added] = [row for row in self.rows() if "'b'" in row.plain]
        parts = styled(added)
        assert parts["return"] == {"bold"}
        assert parts["# why"] == {"italic"}
        assert parts["    return 'b'  # why"] == {"$text-success"}
        [removed] = [row for row in self.rows() if "'a'" in row.plain]
        colours = {each for span in removed.spans for each in str(span.style).split() if "$" in each}
        assert colours == {"$text-error", "$foreground"}
        [kept] = [row for row in self.rows() if "def price" in row.plain]
        assert "bold $text-accent" in styled(kept)["def"]

    def test_tool_output_with_a_diff_is_highlighted(self) -> None:
        """A tool's own diff is highlighted in its file's language, but its headers and words are not."""
        preview = "return of the file:\n--- cart.py\n+++ cart.py\n@@ -1 +1 @@\n-return 1\n+return 2"
        rows = self.rows(input={"path": "cart.py", "content": "x"}, preview=preview)
        said = {row.plain.strip(" │"): styled(row) for row in rows if "return" in row.plain}
        assert "bold" in said["+return 2"]["return"]
        assert "bold" in said["-return 1"]["return"]
        assert "return" not in said["return of the file:"]

    def test_removed_line_with_dashes_is_no_header(self) -> None:
        """A removed line that begins with dashes is not taken for a header."""
        preview = "--- a.sql\n+++ a.sql\n@@ -1 +0,0 @@\n--- drop it"
        rows = self.rows(input={"path": "a.sql", "content": "x"}, preview=preview)
        [row] = [row for row in rows if "drop it" in row.plain]
        assert "$text-error" in {str(span.style) for span in row.spans}


class TestLaw:
    @pytest.mark.parametrize("language", ["bash", "python", "json"])
    @given(written=st.text(max_size=300), width=st.integers(8, 60))
    def test_no_character_is_changed(self, language: str, written: str, width: int) -> None:
        """Rows are the same with and without styles, and no style reaches beyond its row."""
        text = "\n".join(shown_lines(written))
        spans = code_spans(text, language)
        for at in range(0, len(text), width):
            row = text[at : at + width].split("\n")[0]
            made = highlighted(row, at, spans)
            assert made.plain == row
            assert all(0 <= span.start < span.end <= len(row) for span in made.spans)
