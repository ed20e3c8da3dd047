"""The `write` tool: a file with this content, new or replaced."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..errors import ToolError
from ..runtime.base import Runtime
from ..tool import ToolContext, ToolInput, ToolOutput, define_tool
from .diff import unified_diff
from .file_access import NoSuchFileError, Target, kind_of, lock_of, read_whole, refuse_unless_file


class WriteInput(ToolInput):
    """File to write, and its content."""

    path: Annotated[str, Field(description="The file to write; its directories are made.")]
    content: Annotated[str, Field(description="All of the file's new content.")]


async def _run(args: WriteInput, ctx: ToolContext) -> ToolOutput:
    refuse_half_characters(args.content, "content")
    target = Target(ctx.runtime, args.path, ctx.abort)
    async with lock_of(target):
        await _require_regular_file(target)
        await ctx.runtime.write_file(args.path, args.content)
    size = len(args.content.encode())
    return ToolOutput(f"Wrote {size} bytes to {args.path}", metadata={"path": args.path, "bytes": size})


async def _require_regular_file(target: Target) -> None:
    kind = await kind_of(target)
    # A file that may be written but not read is still a file.
    if kind not in ("missing", "unreadable"):
        refuse_unless_file(target.path, kind)


async def _preview(args: WriteInput, runtime: Runtime) -> str:
    target = Target(runtime, args.path)
    try:
        refuse_half_characters(args.content, "content")
        await _require_regular_file(target)
    except ToolError as error:
        return f"This write would fail: {error}"
    try:
        return unified_diff(args.path, await read_whole(target), args.content)
    except NoSuchFileError:
        return unified_diff(args.path, None, args.content)
    except ToolError as error:
        diff = unified_diff(args.path, "", args.content)
        return f"All of {args.path} would be replaced. What it holds cannot be shown: {error}\n{diff}"


def refuse_half_characters(text: str, name: str) -> None:
    """Raise `ToolError` for text that UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"The {name} holds half a surrogate pair at character {error.start}, which no file can."
        ) from error


WriteTool = define_tool(
    "write",
    "Write a file: a new one, or all of an existing one anew. Use edit to change a part.",
    WriteInput,
    _run,
    preview=_preview,
)
