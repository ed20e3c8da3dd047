"""The `grep` tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.engine.agents import GrepTool, ToolError

from .places import output, text


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        "a.py": "import os\nneedle = 1\n",
        "b.txt": "a needle\r\n-v needle -x\n",
        "src/c.ts": "needle();\n",
        ".git/d.py": "needle\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content.encode())
    (tmp_path / "binary").write_bytes(b"\0needle\0")
    return tmp_path


def lines(found: str) -> list[str]:
    return sorted(found.split("\n"))


class TestFound:
    async def test_results_have_file_line_and_text(self, tree: Path) -> None:
        """§9: results have file, line and text below the path, without .git and binary files."""
        made = await output(GrepTool, tree, pattern="needle")
        assert lines(made.text) == [
            "a.py:2:needle = 1",
            "b.txt:1:a needle",
            "b.txt:2:-v needle -x",
            "src/c.ts:1:needle();",
        ]
        assert made.metadata == {"matches": 4, "truncated": False}

    async def test_pattern_is_an_extended_expression(self, tree: Path) -> None:
        """§9: the pattern is an extended regular expression."""
        assert await text(GrepTool, tree, pattern=r"^(import|from) +[a-z]+$") == "a.py:1:import os"

    @pytest.mark.parametrize(
        ("args", "found"),
        [
            ({"path": "src"}, ["src/c.ts:1:needle();"]),
            ({"path": "b.txt", "pattern": "a needle"}, ["b.txt:1:a needle"]),
            ({"include": "*.py"}, ["a.py:2:needle = 1"]),
            ({"include": "*.{py,ts}"}, ["a.py:2:needle = 1", "src/c.ts:1:needle();"]),
        ],
    )
    async def test_path_and_include_restrict_the_search(
        self, tree: Path, args: dict[str, str], found: list[str]
    ) -> None:
        """§9: path and include determine where to search."""
        assert lines(await text(GrepTool, tree, **{"pattern": "needle", **args})) == found

    @pytest.mark.parametrize(
        ("pattern", "found"),
        [("-v", "b.txt:2:-v needle -x"), ("-e", None), ("--help", None), ("--", None), ("-rf /", None)],
    )
    async def test_pattern_with_dash_is_no_option(
        self, tree: Path, pattern: str, found: str | None
    ) -> None:
        """§9: a pattern that starts with a dash is not an option."""
        assert await text(GrepTool, tree, pattern=pattern) == (found or "No matches found.")

    async def test_no_match_is_no_error(self, tree: Path) -> None:
        """§9: grep's exit code 1 is not an error."""
        made = await output(GrepTool, tree, pattern="nowhere")
        assert (made.text, made.failed) == ("No matches found.", False)


class TestRefused:
    @pytest.mark.parametrize(
        ("args", "why"),
        [
            ({"pattern": "("}, "Unmatched"),
            ({"pattern": "x", "path": "gone"}, "gone: No such file"),
            ({"pattern": "x", "include": "src/*.py"}, "include fits the names of files"),
            ({"pattern": ""}, "Invalid arguments for grep: pattern"),
            ({"pattern": "a\0b"}, "The pattern holds a NUL"),
            ({"pattern": "x", "path": "a\0b"}, "The path holds a NUL"),
        ],
    )
    async def test_reasons(self, tree: Path, args: dict[str, str], why: str) -> None:
        """§9: grep's exit codes from 2, and invalid patterns, are errors with the reason."""
        with pytest.raises(ToolError, match=why):
            await text(GrepTool, tree, **args)


class TestCap:
    async def test_output_is_cut_at_50_kilobytes(self, tmp_path: Path) -> None:
        """§9: at most 50 KB in complete lines, with a notice."""
        (tmp_path / "a").write_text("é" * 45 + "\n")
        (tmp_path / "a").write_text(("é" * 45 + "\n") * 2000)
        made = await output(GrepTool, tmp_path, pattern="é", path="a")
        shown, _, notice = made.text.rpartition("\n\n")
        assert len(shown.encode()) <= 51_200 < len(shown.encode()) + 100
        assert shown.split("\n")[-1].endswith(":" + "é" * 45)
        count = len(shown.split("\n"))
        assert notice.startswith(f"[Showing the first {count} matches, 50.0KB at most.")
        assert made.metadata == {"matches": count, "truncated": True}

    async def test_long_line(self, tmp_path: Path) -> None:
        """§9: a line is shown up to 500 characters."""
        (tmp_path / "a").write_text("x" * 3000 + "\nx\n")
        first, second = (await text(GrepTool, tmp_path, pattern="x", path="a")).split("\n")
        assert first == "a:1:" + "x" * 496 + " [… 2504 more characters]"
        assert second == "a:2:x"
