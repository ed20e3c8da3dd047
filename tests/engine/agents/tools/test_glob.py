"""The `glob` tool and its patterns."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.agents import GlobTool, ToolError
from interlock.engine.agents.tools.glob_patterns import alternatives, as_find_path, components, matches

from .places import output, text

FILES = [
    "a.py",
    "b.txt",
    ".hidden",
    "src/c.py",
    "src/deep/er/d.py",
    "src/deep/e.ts",
    ".git/config",
    "src/.git/f.py",
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


class TestFound:
    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("*.py", "a.py"),
            ("**/*.py", "a.py src/c.py src/deep/er/d.py"),
            ("src/**/*.py", "src/c.py src/deep/er/d.py"),
            ("src/*", "src/c.py"),
            ("src/deep/", "src/deep/e.ts src/deep/er/d.py"),
            ("**/deep/**/d.*", "src/deep/er/d.py"),
            ("*", ".hidden a.py b.txt"),
            ("?.[pt]*", "a.py b.txt"),
            ("[!a].txt", "b.txt"),
            ("{src/deep/*.ts,*.{py,txt}}", "a.py b.txt src/deep/e.ts"),
            ("./src/../*.txt", "src/../b.txt"),
            ("a.py/**", ""),
            ("src/c.py", "src/c.py"),
            ("**", ".hidden a.py b.txt src/c.py src/deep/e.ts src/deep/er/d.py"),
        ],
    )
    async def test_patterns(self, tree: Path, pattern: str, found: str) -> None:
        """§9: `**` is any number of directories; paths are sorted, without .git and directories."""
        expected = "\n".join(found.split())
        assert await text(GlobTool, tree, pattern=pattern) == (expected or "No files found.")

    async def test_below_a_path(self, tree: Path) -> None:
        """§9: the pattern is relative to the path, which precedes the results."""
        assert await text(GlobTool, tree, pattern="**/*.py", path="src") == "src/c.py\nsrc/deep/er/d.py"
        assert await text(GlobTool, tree, pattern="*.py", path=str(tree)) == f"{tree}/a.py"
        assert await text(GlobTool, tree, pattern=f"{tree}/*.py") == f"{tree}/a.py"

    async def test_no_match_is_no_error(self, tree: Path) -> None:
        """§9: no match is not an error, even if the pattern's directory is missing."""
        made = await output(GlobTool, tree, pattern="nowhere/*.py")
        assert (made.text, made.metadata) == ("No files found.", {"files": 0, "truncated": False})

    @pytest.mark.parametrize("path", ["gone", "a.py", "-", ""])
    async def test_path_that_is_no_directory_is_an_error(self, tree: Path, path: str) -> None:
        """§9: a path that is not a directory is an error."""
        with pytest.raises(ToolError, match=r"No directory to search at|The path is empty"):
            await text(GlobTool, tree, pattern="*", path=path)

    @pytest.mark.parametrize("pattern", ["", ".", "/"])
    async def test_empty_pattern(self, tree: Path, pattern: str) -> None:
        """§9: an empty pattern is an error."""
        with pytest.raises(ToolError, match="The pattern is empty"):
            await text(GlobTool, tree, pattern=pattern)


class TestLimit:
    @pytest.mark.parametrize("count", [500, 501])
    async def test_list_is_cut_at_500_paths(self, tmp_path: Path, count: int) -> None:
        """§9: at most 500 paths are listed, then a notice."""
        for number in range(count):
            (tmp_path / f"{number:04}").touch()
        made = await output(GlobTool, tmp_path, pattern="*")
        lines = made.text.split("\n")
        assert lines[:500] == [f"{number:04}" for number in range(500)]
        notice = ["", "[Showing 500 of 501 files. Narrow the pattern or the path.]"]
        assert lines[500:] == (notice if count > 500 else [])
        assert made.metadata == {"files": count, "truncated": count > 500}

    def test_braces_without_end(self) -> None:
        """§9: braces that expand to too many patterns are refused."""
        with pytest.raises(ToolError, match="more than 64 patterns"):
            alternatives("{a,b}" * 40)


NAMES = st.text("ab.[", min_size=1, max_size=4)
PARTS = st.one_of(st.just("**"), st.text("ab.*?[]!", min_size=1, max_size=4))


class TestMatching:
    @given(st.lists(NAMES, min_size=1, max_size=5), st.lists(PARTS, min_size=1, max_size=5))
    def test_matching_agrees_with_the_definition(self, names: list[str], parts: list[str]) -> None:
        """§9: matching without backtracking gives the same result as the definition."""

        def defined(names: list[str], parts: list[str]) -> bool:
            if not parts:
                return not names
            if parts[0] == "**":
                return any(defined(names[skip:], parts[1:]) for skip in range(len(names) + 1))
            return (
                bool(names) and fnmatch.fnmatchcase(names[0], parts[0]) and defined(names[1:], parts[1:])
            )

        assert matches(names, parts) == defined(names, parts)

    @pytest.mark.slow
    @given(st.lists(NAMES, min_size=1, max_size=4), st.lists(PARTS, min_size=1, max_size=4))
    def test_find_covers_all_matching_paths(self, names: list[str], parts: list[str]) -> None:
        """§9: the pattern passed to find covers all paths that match."""
        pattern = components("/".join(parts))
        if matches(names, pattern):
            assert fnmatch.fnmatchcase("./" + "/".join(names), as_find_path(pattern))

    def test_many_wildcards_are_decided_at_once(self) -> None:
        """§9: a pattern with many wildcards is decided at once, where backtracking would hang."""
        assert not matches(["a" * 200] * 30, components("*a" * 50 + "b/" + "**/a*/" * 30 + "b"))
