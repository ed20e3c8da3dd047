"""The `edit` tool."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.agents import EditTool, LocalRuntime, ToolError
from interlock.engine.agents.tools.edit_matching import edit

from .places import Shelf, output


def edited(text: str, old: str, new: str, *, replace_all: bool = False) -> tuple[str, int, str]:
    """Return the changed text, the number of places, and how they were found."""
    made = edit(text, old, new, replace_all=replace_all, path="f")
    return made.text, made.replacements, made.method


class TestExact:
    async def test_text_is_replaced(self, tmp_path: Path) -> None:
        """§9: the text is replaced; the metadata has the method and a diff."""
        (tmp_path / "a.py").write_text("one\ntwo\nthree\n")
        made = await output(EditTool, tmp_path, path="a.py", old_string="two", new_string="2")
        assert made.text == "Edited a.py (1 replacements)"
        assert made.metadata == {
            "path": "a.py",
            "replacements": 1,
            "matched": "exact",
            "diff": "--- a.py\n+++ a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three",
        }
        assert (tmp_path / "a.py").read_text() == "one\n2\nthree\n"

    async def test_replace_all_replaces_every_occurrence(self, tmp_path: Path) -> None:
        """§9: replace_all replaces every occurrence."""
        (tmp_path / "a").write_text("x x\nx")
        made = await output(
            EditTool, tmp_path, path="a", old_string="x", new_string="xx", replace_all=True
        )
        assert made.text == "Edited a (3 replacements)"
        assert (tmp_path / "a").read_text() == "xx xx\nxx"

    def test_exact_match_takes_precedence(self) -> None:
        """§9: an exact match takes precedence over similar places."""
        assert edited("  a\na\n", "  a\n", "b\n") == ("b\na\n", 1, "exact")

    @given(
        st.text("ab \n", max_size=12),
        st.text("ab \n", min_size=1, max_size=3),
        st.text("ab\n", max_size=3),
    )
    def test_replace_all_equals_str_replace(self, text: str, old: str, new: str) -> None:
        """§9: with replace_all an exact match has the effect of `str.replace`."""
        if old in text and old != new:
            assert edited(text, old, new, replace_all=True) == (
                text.replace(old, new),
                text.count(old),
                "exact",
            )


class TestTrimmed:
    def test_whitespace_at_line_ends_may_differ(self) -> None:
        """§9: whitespace at the ends of lines can differ."""
        text = "def f():  \n    return 1\t\n\nx\n"
        made = edited(text, "def f():\n    return 1", "def f():\n    return 2")
        assert made == ("def f():\n    return 2\n\nx\n", 1, "trimmed")

    def test_whitespace_around_lines_may_differ(self) -> None:
        """§9: all whitespace around lines can differ; known indentations stay as in the file."""
        text = "if a:\n\tif b:\n\t\tc()\n"
        made = edited(text, "if b:\n    c()\n", "if b:\n    d()\n    e()\n")
        assert made == ("if a:\n\tif b:\n\t\td()\n\t\te()\n", 1, "trimmed")

    def test_blank_lines_match_only_themselves(self) -> None:
        """§9: blank lines alone match only themselves."""
        with pytest.raises(ToolError, match="was not found"):
            edited("a\n\n\nb", "  \n  ", "x")

    def test_only_whole_lines_are_trimmed(self) -> None:
        """§9: only whole lines are compared without whitespace."""
        with pytest.raises(ToolError, match="was not found"):
            edited("foo(a,  b)\n", "a, b", "b, a")


class TestIndentation:
    def test_moved_block(self) -> None:
        """§9: a block is found at another depth, and its replacement is put at that depth."""
        text = "class A:\n    def f(self):\n        if x:\n            return 1\n"
        made = edited(text, "if x:\n    return 1", "if y:\n    return 2\nreturn 3")
        after = "class A:\n    def f(self):\n        if y:\n            return 2\n        return 3\n"
        assert made == (after, 1, "indentation")

    def test_block_given_too_deep_is_moved_out(self) -> None:
        """§9: a block that was given too deep is moved out."""
        made = edited("a:\n  b\n", "        a:\n          b\n", "        a:\n          c\n")
        assert made == ("a:\n  c\n", 1, "indentation")

    def test_inner_indentation_decides_between_places(self) -> None:
        """§9: of places that differ in inner indentation the one that matches exactly is used."""
        text = " a\n b\n\n    a\n      b\n"
        assert edited(text, "a\n  b\n", "c\n  d\n") == (" a\n b\n\n    c\n      d\n", 1, "indentation")

    def test_blank_lines(self) -> None:
        """§9: blank lines have no indentation to compare and get none."""
        text = "    a\n\n    b\n"
        assert edited(text, "a\n  \nb", "a\n\nc") == ("    a\n\n    c\n", 1, "indentation")

    @given(
        st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), min_size=1, max_size=6),
        st.integers(1, 3),
        st.sampled_from([" ", "    ", "\t"]),
    )
    def test_any_depth(self, lines: list[tuple[int, str]], depth: int, unit: str) -> None:
        """§9: a block indented by any depth is found, and its replacement is at that depth."""
        lines = [(0, "start"), *lines]
        block = "".join(f"{unit * level}{name}\n" for level, name in lines)
        new = block.replace("start", "stop")
        there = "".join(f"{unit * (level + depth)}{name}\n" for level, name in lines)
        made = edited(f"begin\n{there}end\n", block, new)
        assert made[0] == f"begin\n{there.replace('start', 'stop')}end\n"


class TestLineEndings:
    async def test_crlf_file_keeps_crlf(self, tmp_path: Path) -> None:
        """§9: a file with CRLF keeps it, whatever the strings have."""
        (tmp_path / "a").write_bytes(b"one\r\ntwo\r\nthree\r\n")
        await output(EditTool, tmp_path, path="a", old_string="one\ntwo\n", new_string="1\n2\n2b\n")
        assert (tmp_path / "a").read_bytes() == b"1\r\n2\r\n2b\r\nthree\r\n"

    async def test_lf_file_gets_no_crlf(self, tmp_path: Path) -> None:
        """§9: a file without CRLF gets none."""
        (tmp_path / "a").write_bytes(b"one\ntwo\n")
        await output(EditTool, tmp_path, path="a", old_string="one\r\ntwo", new_string="1\r\n2")
        assert (tmp_path / "a").read_bytes() == b"1\n2\n"

    def test_mixed_line_endings_are_kept(self) -> None:
        """§9: lines that are not replaced keep their line ending."""
        made = edited("a\nb\r\nc\r\nd\r\ne\n", "c\nd", "C\nD")
        assert made[0] == "a\nb\r\nC\r\nD\r\ne\n"

    @given(st.lists(st.text("ab ", max_size=3), min_size=1, max_size=6), st.data())
    def test_edit_is_the_same_except_for_crlf(self, lines: list[str], data: st.DataObject) -> None:
        """§9: the result for a file with CRLF equals that without, except for the CRLF."""
        text = "\n".join(lines)
        start = data.draw(st.integers(0, len(text)))
        old = text[start : data.draw(st.integers(start, len(text)))]
        new = data.draw(st.text("ab \n", max_size=4))
        results = []
        for form in (text, text.replace("\n", "\r\n")):
            try:
                results.append(edited(form, old, new, replace_all=True)[0].replace("\r\n", "\n"))
            except ToolError as error:
                results.append(str(error))
        assert results[0] == results[1]
        if "\n" in text and old and old != new:
            windows = edited(text.replace("\n", "\r\n"), old, new, replace_all=True)[0]
            assert windows.count("\r\n") == windows.count("\n")


class TestRefused:
    @pytest.mark.parametrize(
        ("old", "new", "why"),
        [
            ("", "x", "old_string is empty: give the text to replace, or make a file with write"),
            ("one", "one", "old_string and new_string are the same"),
            ("none", "x", "old_string was not found in a.* Read the file again"),
            ("two\nfour", "x", r"Its first line is lines 2, 4 of the file, but what follows differs"),
            ("two", "x", r"found 2 times in a \(lines 2, 4\).* or set replace_all"),
        ],
    )
    async def test_impossible_edit_names_a_remedy(
        self, tmp_path: Path, old: str, new: str, why: str
    ) -> None:
        """§9: an impossible edit is refused with a remedy and changes nothing."""
        (tmp_path / "a").write_text("one\ntwo\nthree\ntwo\n")
        with pytest.raises(ToolError, match=why):
            await output(EditTool, tmp_path, path="a", old_string=old, new_string=new)
        assert (tmp_path / "a").read_text() == "one\ntwo\nthree\ntwo\n"

    def test_several_trimmed_matches_are_ambiguous(self) -> None:
        """§9: several matches without whitespace are as ambiguous as exact ones."""
        with pytest.raises(ToolError, match=r"found 2 times in f \(lines 1, 4\)"):
            edited("a \nb\nc\na \nb\n", "a\nb", "x")

    async def test_missing_file(self, tmp_path: Path) -> None:
        """§9: editing a missing file is an error."""
        with pytest.raises(ToolError, match="No such file: a"):
            await output(EditTool, tmp_path, path="a", old_string="x", new_string="y")

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            (b"x\0", "a is a binary file"),
            (b"x\xff", "a is not UTF-8 text .byte 0xff at offset 1"),
            (b"x" * 800_000, "a has more than 750.0KB"),
        ],
    )
    async def test_file_that_is_no_text(self, tmp_path: Path, content: bytes, why: str) -> None:
        """§9: a file that an edit would damage stays unchanged."""
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(ToolError, match=why):
            await output(EditTool, tmp_path, path="a", old_string="x", new_string="y", replace_all=True)
        assert (tmp_path / "a").read_bytes() == content

    async def test_no_text_without_a_shell(self) -> None:
        """§9: if only decoded text is available, a replaced byte is detected."""
        shelf = Shelf({"a": "x\ufffd"})
        with pytest.raises(ToolError, match="a is not UTF-8 text"):
            await output(EditTool, shelf, path="a", old_string="x", new_string="y")
        assert shelf.files == {"a": "x\ufffd"}


class TestSideBySide:
    @pytest.mark.slow
    @pytest.mark.parametrize("shell", [True, False], ids=["shell", "no shell"])
    async def test_concurrent_edits_of_one_file_are_kept(self, tmp_path: Path, shell: bool) -> None:
        """§9: calls of one step run concurrently, and no edit of a file is lost."""
        names = [f"line{number}" for number in range(8)]
        before = "".join(f"{name}.\n" for name in names)
        (tmp_path / "a").write_text(before)
        runtime = LocalRuntime(tmp_path) if shell else Hesitant({"a": before})
        await asyncio.gather(
            *(
                output(EditTool, runtime, path="a", old_string=f"{name}.", new_string=f"{name}!")
                for name in names
            )
        )
        assert await runtime.read_file("a") == before.replace(".", "!")


class Hesitant(Shelf):
    """A runtime that lets other tasks run while it reads."""

    async def read_file(self, path: str) -> str:
        content = await super().read_file(path)
        await asyncio.sleep(0)
        return content


class TestHostile:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("text", "old"),
        [
            ("a\n" * 300_000, " a\n" * 100_000 + "b"),
            (" \n" * 300_000, "  \n" * 1_000 + "b"),
            ("a" * 700_000, "a" * 300_000 + "b"),
            (" a\n" * 200_000, "a\n" * 20_000),
            (" a\n" * 200_000, "  a\n a\n" * 20_000),
        ],
        ids=["lines", "blanks", "characters", "indented", "uneven"],
    )
    def test_repetitive_text_is_refused_at_once(self, text: str, old: str) -> None:
        """§9: repetitive texts are refused at once, where a quadratic search would hang."""
        with pytest.raises(ToolError, match="found"):
            edited(text, old, "x")
