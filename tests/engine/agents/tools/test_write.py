"""The `write` tool."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.engine.agents import ToolError, WriteTool

from .places import Shelf, output, text


class TestWrite:
    async def test_file_and_directories_are_created(self, tmp_path: Path) -> None:
        """§9: the file and its directories are created; the result has the number of bytes."""
        made = await output(WriteTool, tmp_path, path="a/b.txt", content="grün\r\n")
        assert made.text == "Wrote 7 bytes to a/b.txt"
        assert made.metadata == {"path": "a/b.txt", "bytes": 7}
        assert (tmp_path / "a/b.txt").read_bytes() == "grün\r\n".encode()

    async def test_existing_content_is_replaced(self, tmp_path: Path) -> None:
        """§9: existing content is replaced, even if binary."""
        (tmp_path / "a").write_bytes(b"\0\xff" * 100)
        assert await text(WriteTool, tmp_path, path="a", content="") == "Wrote 0 bytes to a"
        assert (tmp_path / "a").read_bytes() == b""

    async def test_written_through_the_runtime(self) -> None:
        """§9: files are written through the runtime."""
        shelf = Shelf({})
        assert await text(WriteTool, shelf, path="a", content="x") == "Wrote 1 bytes to a"
        assert shelf.files == {"a": "x"}

    async def test_irregular_files_are_refused(self, tmp_path: Path) -> None:
        """§9: directories, pipes and devices are refused."""
        os.mkfifo(tmp_path / "pipe")
        for path, why in ((".", "is a directory"), ("pipe", "is a device, a pipe"), ("", "is empty")):
            with pytest.raises(ToolError, match=why):
                await text(WriteTool, tmp_path, path=path, content="x")

    async def test_unencodable_text_leaves_the_file_unchanged(self, tmp_path: Path) -> None:
        """§9: text that a file cannot hold leaves the file unchanged."""
        (tmp_path / "a").write_text("before")
        with pytest.raises(ToolError, match="content holds half a surrogate pair at character 1"):
            await text(WriteTool, tmp_path, path="a", content="x\ud800")
        assert (tmp_path / "a").read_text() == "before"
