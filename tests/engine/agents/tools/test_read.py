"""The `read` tool."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.agents import ReadTool, ToolError, ToolInputError
from tests.support.laws import examples

from .places import Shelf, output, text

CAP = 102_400


class TestLines:
    async def test_text_is_returned_unchanged(self, tmp_path: Path) -> None:
        """§9: a file's text is returned unchanged."""
        (tmp_path / "a.txt").write_bytes("grün\n\n€".encode())
        made = await output(ReadTool, tmp_path, path="a.txt")
        assert made.text == "grün\n\n€"
        assert made.metadata == {"path": "a.txt", "first_line": 1, "last_line": 3, "truncated": False}
        assert (
            await text(ReadTool, tmp_path / "elsewhere/..", path=str(tmp_path / "a.txt")) == "grün\n\n€"
        )

    @pytest.mark.parametrize(
        ("offset", "limit", "shown"),
        [
            (1, 2, "1\n2\n\n[Showing lines 1-2. Go on with offset=3.]"),
            (3, 1, "3\n\n[Showing lines 3-3. Go on with offset=4.]"),
            (3, 2, "3\n4"),
            (4, 9, "4"),
            (2, None, "2\n3\n4"),
        ],
    )
    async def test_offset_and_limit(
        self, tmp_path: Path, offset: int, limit: int | None, shown: str
    ) -> None:
        """§9: offset is the first line, from 1, limit their number; a notice gives the next offset."""
        (tmp_path / "a").write_text("1\n2\n3\n4")
        assert await text(ReadTool, tmp_path, path="a", offset=offset, limit=limit) == shown

    async def test_empty_file(self, tmp_path: Path) -> None:
        """§9: the text for an empty file says so."""
        (tmp_path / "a").touch()
        assert await text(ReadTool, tmp_path, path="a") == "(empty file)"

    async def test_offset_after_the_end(self, tmp_path: Path) -> None:
        """§9: an offset after the end is an error."""
        (tmp_path / "a").write_text("1\n2\n")
        with pytest.raises(ToolError, match=r"a ends before line 3. Read it with a smaller offset"):
            await text(ReadTool, tmp_path, path="a", offset=3)

    @pytest.mark.parametrize("args", [{"offset": 0}, {"limit": 0}, {"offset": -1}, {"offset": 10**30}])
    async def test_invalid_line_numbers(self, tmp_path: Path, args: dict[str, int]) -> None:
        """§9: line numbers start at 1."""
        with pytest.raises(ToolInputError, match="Invalid arguments for read"):
            await text(ReadTool, tmp_path, path="a", **args)

    async def test_crlf_is_shown_as_newline(self, tmp_path: Path) -> None:
        """§9: CRLF is shown as a newline; `edit` restores it."""
        (tmp_path / "a").write_bytes(b"1\r\n2\r\n")
        assert await text(ReadTool, tmp_path, path="a") == "1\n2\n"

    @pytest.mark.slow
    @given(
        lines=st.lists(st.text("aé\r \t", max_size=6), max_size=12),
        offset=st.integers(1, 13),
        limit=st.none() | st.integers(1, 13),
    )
    @settings(max_examples=examples(30), deadline=None)
    async def test_same_without_a_shell(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        lines: list[str],
        offset: int,
        limit: int | None,
    ) -> None:
        """§9: a runtime without a shell gives the same lines, notices and errors."""
        place = tmp_path_factory.getbasetemp()
        content = "\n".join(lines)
        (place / "a").write_bytes(content.encode())
        said = []
        for where in (place, Shelf({"a": content}), Shelf({"a": content}, raises=True)):
            try:
                said.append(await text(ReadTool, where, path="a", offset=offset, limit=limit))
            except ToolError as error:
                said.append(str(error))
        assert said[0] == said[1] == said[2]


class TestCap:
    async def test_cut_after_a_line(self, tmp_path: Path) -> None:
        """§9: at most 100 KB, cut after a line, and the rest can be read from there."""
        line = "é" * 49 + "\n"
        count = 3000
        (tmp_path / "a").write_text(line * count)
        first = await text(ReadTool, tmp_path, path="a")
        fits = CAP // len(line.encode())
        assert first == line * fits + f"\n[Showing lines 1-{fits}. Go on with offset={fits + 1}.]"
        second = await text(ReadTool, tmp_path, path="a", offset=fits + 1, limit=5)
        assert second.startswith(line * 5 + "\n[")

    async def test_text_at_the_limit_is_complete(self, tmp_path: Path) -> None:
        """§9: exactly 100 KB are returned completely."""
        (tmp_path / "a").write_text("a" * CAP)
        assert await text(ReadTool, tmp_path, path="a") == "a" * CAP

    async def test_long_line(self, tmp_path: Path) -> None:
        """§9: a line that is too long by itself is cut at a character."""
        (tmp_path / "a").write_text("a" + "€" * CAP + "\nnext\n")
        shown = await text(ReadTool, tmp_path, path="a")
        fits = (CAP - 1) // 3
        assert shown.startswith("a" + "€" * fits + "\n\n[Line 1 is cut at 100.0KB.")
        assert "offset=2" in shown
        assert await text(ReadTool, tmp_path, path="a", offset=2) == "next\n"


class TestRefused:
    async def test_missing(self, tmp_path: Path) -> None:
        """§9: the error names a missing file."""
        with pytest.raises(ToolError, match=r"No such file: gone.txt"):
            await text(ReadTool, tmp_path, path="gone.txt")
        with pytest.raises(ToolError, match=r"No such file: gone.txt"):
            await text(ReadTool, Shelf({}), path="gone.txt")

    async def test_directory(self, tmp_path: Path) -> None:
        """§9: a directory is refused."""
        (tmp_path / "d").mkdir()
        with pytest.raises(ToolError, match="d is a directory, not a file"):
            await text(ReadTool, tmp_path, path="d")

    async def test_binary(self, tmp_path: Path) -> None:
        """§9: a NUL byte makes a file binary."""
        (tmp_path / "b").write_bytes(b"ab\0c")
        with pytest.raises(ToolError, match=r"b is a binary file \(it holds NUL bytes\)"):
            await text(ReadTool, tmp_path, path="b")

    async def test_other_bytes(self, tmp_path: Path) -> None:
        """§9: bytes that are not UTF-8 are shown as U+FFFD, with a notice."""
        (tmp_path / "b").write_bytes(b"a\xffb\n")
        shown = await text(ReadTool, tmp_path, path="b")
        assert shown == "a\ufffdb\n\n[Some bytes are not UTF-8; U+FFFD is shown for them.]"

    async def test_pipe_and_device(self, tmp_path: Path) -> None:
        """§9: devices and pipes are refused without opening them."""
        os.mkfifo(tmp_path / "pipe")
        for path in ("pipe", "/dev/zero"):
            with pytest.raises(ToolError, match="is a device, a pipe or a socket"):
                await text(ReadTool, tmp_path, path=path)

    @pytest.mark.parametrize(
        ("path", "why"), [("", "The path is empty"), ("a\0b", "NUL"), ("\ud800", "surrogate")]
    )
    async def test_invalid_path(self, tmp_path: Path, path: str, why: str) -> None:
        """§9: an invalid path is refused with the reason."""
        with pytest.raises(ToolError, match=why):
            await text(ReadTool, tmp_path, path=path)
