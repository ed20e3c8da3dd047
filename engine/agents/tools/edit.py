"""The `edit` tool: a text in a file, replaced by another."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field

from ..errors import ToolError
from ..runtime.base import Runtime
from ..tool import ToolContext, ToolInput, ToolOutput, define_tool
from .diff import unified_diff
from .edit_matching import EditResult, edit
from .file_access import Target, lock_of, read_whole
from .write import refuse_half_characters


class EditInput(ToolInput):
    """File, and the text to replace in it."""

    path: Annotated[str, Field(description="The file to change.")]
    old_string: Annotated[
        str, Field(description="The text to replace, with enough around it to fit only one place.")
    ]
    new_string: Annotated[str, Field(description="The text to put there.")]
    replace_all: Annotated[bool, Field(description="Replace every occurrence.")] = False


async def _run(args: EditInput, ctx: ToolContext) -> ToolOutput:
    target = Target(ctx.runtime, args.path, ctx.abort)
    async with lock_of(target):
        edit_result, diff = await _edited(args, target)
        await ctx.runtime.write_file(args.path, edit_result.text)
    return ToolOutput(
        f"Edited {args.path} ({edit_result.replacements} replacements)",
        metadata={
            "path": args.path,
            "replacements": edit_result.replacements,
            "matched": edit_result.method,
            "diff": diff,
        },
    )


async def _edited(args: EditInput, target: Target) -> tuple[EditResult, str]:
    refuse_half_characters(args.new_string, "new_string")
    before = await read_whole(target)

    def change() -> tuple[EditResult, str]:
        edit_result = edit(
            before,
            args.old_string,
            args.new_string,
            replace_all=args.replace_all,
            path=args.path,
        )
        return edit_result, unified_diff(args.path, before, edit_result.text)

    return await asyncio.to_thread(change)


async def _preview(args: EditInput, runtime: Runtime) -> str:
    try:
        _, diff = await _edited(args, Target(runtime, args.path))
    except ToolError as error:
        return f"This edit would fail: {error}"
    return diff


EditTool = define_tool(
    "edit",
    "Replace a text in a file. It has to fit exactly one place unless replace_all is set; differences in "
    "whitespace are forgiven.",
    EditInput,
    _run,
    preview=_preview,
)
