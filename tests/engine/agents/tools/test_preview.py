"""Previews of a call's changes before it runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from interlock.engine.agents import (
    BashTool,
    EditTool,
    LocalRuntime,
    ModelTool,
    Runtime,
    ToolContext,
    WriteTool,
    define_tool,
    preview_of,
)
from interlock.engine.agents.tools.diff import unified_diff

from .places import output


class Empty(BaseModel):
    """No input."""


def previewed(preview: object) -> ModelTool:
    """Return a tool with this preview."""

    async def execute(given: Empty, ctx: ToolContext) -> str:
        raise AssertionError("a preview runs nothing")

    return define_tool("any", "Any.", Empty, execute, preview=preview)


class TestEdit:
    async def test_diff(self, tmp_path: Path) -> None:
        """§9: the preview is the diff of the later call's metadata, and nothing changes."""
        (tmp_path / "a").write_text("one\n  two\nthree\n")
        args = {"path": "a", "old_string": "two\nthree", "new_string": "2\n3"}
        said = await preview_of(EditTool, args, LocalRuntime(tmp_path))
        assert said == "--- a\n+++ a\n@@ -1,3 +1,3 @@\n one\n-  two\n-three\n+  2\n+3"
        assert (tmp_path / "a").read_text() == "one\n  two\nthree\n"
        assert (await output(EditTool, tmp_path, **args)).metadata["diff"] == said

    @pytest.mark.parametrize(
        ("path", "why"),
        [("a", "old_string was not found"), ("b", "No such file: b"), (".", "is a directory")],
    )
    async def test_failing_edit_is_announced(self, tmp_path: Path, path: str, why: str) -> None:
        """§9: the preview of an edit that would fail says so."""
        (tmp_path / "a").write_text("one\n")
        args = {"path": path, "old_string": "two", "new_string": "2"}
        said = await preview_of(EditTool, args, LocalRuntime(tmp_path))
        assert said is not None
        assert said.startswith("This edit would fail: ")
        assert why in said


class TestWrite:
    async def test_new(self, tmp_path: Path) -> None:
        """§9: the preview of a new file has all lines added."""
        said = await preview_of(WriteTool, {"path": "n/a", "content": "1\n2\n"}, LocalRuntime(tmp_path))
        assert said == "--- /dev/null\n+++ n/a\n@@ -0,0 +1,2 @@\n+1\n+2"
        assert not (tmp_path / "n").exists()

    async def test_compared_with_current_content(self, tmp_path: Path) -> None:
        """§9: the current content is compared with the new content."""
        (tmp_path / "a").write_text("1\n2")
        said = await preview_of(WriteTool, {"path": "a", "content": "1\n3\n"}, LocalRuntime(tmp_path))
        assert said == "--- a\n+++ a\n@@ -1,2 +1,2 @@\n 1\n-2\n\\ No newline at end of file\n+3"

    async def test_uncomparable_content_is_replaced(self, tmp_path: Path) -> None:
        """§9: for content that cannot be compared, the preview says that it is replaced."""
        (tmp_path / "a").write_bytes(b"\0")
        said = await preview_of(WriteTool, {"path": "a", "content": "1\n"}, LocalRuntime(tmp_path))
        assert said is not None
        assert said.startswith(
            "All of a would be replaced. What it holds cannot be shown: a is a binary file"
        )
        assert said.endswith("\n+1")

    async def test_failing_write_is_announced(self, tmp_path: Path) -> None:
        """§9: the preview of a write that would fail says so, without waiting for a pipe."""
        os.mkfifo(tmp_path / "pipe")
        said = await preview_of(WriteTool, {"path": "pipe", "content": ""}, LocalRuntime(tmp_path))
        assert said == "This write would fail: pipe is a device, a pipe or a socket, not a regular file."


class TestBounds:
    async def test_tool_without_preview_has_none(self, tmp_path: Path) -> None:
        """§9: a tool without a preview function, model or plain object, has no preview."""
        assert await preview_of(BashTool, {"command": "true"}, LocalRuntime(tmp_path)) is None
        assert await preview_of(object(), {}, LocalRuntime(tmp_path)) is None

    @pytest.mark.parametrize("error", [ZeroDivisionError(), SystemExit(1), asyncio.CancelledError()])
    async def test_preview_that_raises_counts_as_none(self, tmp_path: Path, error: BaseException) -> None:
        """§9: a preview that raises counts as none."""

        async def preview(given: Empty, runtime: Runtime) -> str:
            raise error

        assert await preview_of(previewed(preview), {}, LocalRuntime(tmp_path)) is None

    async def test_invalid_arguments_have_no_preview(self, tmp_path: Path) -> None:
        """§9: invalid arguments have no preview, and a value that is not text counts as none."""

        async def preview(given: Empty, runtime: Runtime) -> object:
            return 5

        assert await preview_of(EditTool, {"path": 5}, LocalRuntime(tmp_path)) is None
        assert await preview_of(previewed(preview), {}, LocalRuntime(tmp_path)) is None

    @pytest.mark.slow
    async def test_endless_preview_is_abandoned(self, tmp_path: Path) -> None:
        """§9: a preview that does not end, even if cancelled, is abandoned after a second."""
        let_go = asyncio.Event()

        async def preview(given: Empty, runtime: Runtime) -> str:
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            return "late"

        async with asyncio.timeout(20):
            assert await preview_of(previewed(preview), {}, LocalRuntime(tmp_path)) is None
        let_go.set()

    async def test_long_preview_is_cut(self, tmp_path: Path) -> None:
        """§9: more than 64 KB are cut at a line, with a notice."""

        async def preview(given: Empty, runtime: Runtime) -> str:
            return "é" * 49 + "\n" + ("é" * 49 + "\n") * 2000

        said = await preview_of(previewed(preview), {}, LocalRuntime(tmp_path))
        assert said is not None
        assert len(said.encode()) <= 65_536
        assert said.endswith("é" * 49 + "\n[Preview cut at 64.0KB.]")

    @pytest.mark.slow
    async def test_large_files(self, tmp_path: Path) -> None:
        """§9: files without common lines are compared in time, where comparing all lines is too slow."""
        (tmp_path / "a").write_text("".join(f"{number % 1999}\n" for number in range(100_000)))
        content = "".join(f"{number % 1997}\n" for number in range(100_000))
        said = await preview_of(
            WriteTool, {"path": "a", "content": f"x\n{content}y\n"}, LocalRuntime(tmp_path)
        )
        assert said is not None
        assert said.endswith("[Diff cut at 64.0KB.]")

    async def test_cancelling_the_caller_cancels_the_preview(self, tmp_path: Path) -> None:
        """§9: cancelling the caller of a preview cancels the preview."""
        started, ended = asyncio.Event(), asyncio.Event()

        async def preview(given: Empty, runtime: Runtime) -> str:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return ""

        asking = asyncio.create_task(preview_of(previewed(preview), {}, LocalRuntime(tmp_path)))
        await started.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await ended.wait()


def applied(before: str, diff: str) -> str:
    """Return a text with a diff applied; raise if it does not fit."""
    old = before.split("\n")[:-1]
    made: list[str] = []
    at = 0
    for line in diff.split("\n")[2:]:
        mark, content = line[:1], line[1:]
        if mark == "@":
            first, count = line.split(" ")[1][1:].partition(",")[::2]
            start = int(first) - (count != "0")
            made += old[at:start]
            at = start
        elif mark == "+":
            made.append(content)
        elif mark in ("-", " "):
            assert old[at] == content
            made += [content] if mark == " " else []
            at += 1
    return "".join(f"{line}\n" for line in [*made, *old[at:]])


LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30).map(
    lambda ls: "".join(f"{x}\n" for x in ls)
)


class TestDiff:
    @given(LINES, LINES)
    def test_diff_applied_to_old_gives_new(self, before: str, after: str) -> None:
        """§9: the diff applied to the old content gives the new content."""
        if before != after:
            assert applied(before, unified_diff("f", before, after)) == after

    @pytest.mark.parametrize("start", [0, 1, 10])
    def test_many_changed_lines_become_a_block(self, start: int) -> None:
        """§9: many changed lines become a block that is correct as well."""
        before = "same\n" * start + "old\n" * 2001 + "end\n" * 9
        after = "same\n" * start + "new\n" * 2 + "end\n" * 9
        diff = unified_diff("f", before, after)
        assert applied(before, diff) == after
        assert diff.count("\n ") == min(start, 3) + 3

    def test_no_change_is_stated_in_words(self) -> None:
        """§9: no change, or a new empty file, is stated in words."""
        assert unified_diff("f", "a\n", "a\n") == "--- f\n+++ f\n(no change)"
        assert unified_diff("f", None, "") == "--- /dev/null\n+++ f\n(an empty file)"
