"""The `edit` tool: a text in a file, replaced by another."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ..errors import ToolError
from ..runtime.base import Runtime
from ..tool import ToolContext, ToolOutput, define_tool
from .diff import unified_diff
from .edit_matching import Edited, edit
from .file_access import Target, lock_of, read_whole
from .write import refuse_half_characters


class EditInput(BaseModel):
    """File, and the text to replace in it."""

    model_config = ConfigDict(extra="forbid")

    path: Annotated[str, Field(description="The file to change.")]
    old_string: Annotated[
        str, Field(description="The text to replace, with enough around it to fit only one place.")
    ]
    new_string: Annotated[str, Field(description="The text to put there.")]
    replace_all: Annotated[bool, Field(description="Replace every occurrence.")] = False


async def _run(given: EditInput, ctx: ToolContext) -> ToolOutput:
    target = Target(ctx.runtime, given.path, ctx.abort)
    async with lock_of(target):
        edited, diff = await _edited(given, target)
        await ctx.runtime.write_file(given.path, edited.text)
    return ToolOutput(
        f"Edited {given.path} ({edited.replacements} replacements)",
        metadata={
            "path": given.path,
            "replacements": edited.replacements,
            "matched": edited.way,
            "diff": diff,
        },
    )


async def _edited(given: EditInput, target: Target) -> tuple[Edited, str]:
    refuse_half_characters(given.new_string, "new_string")
    before = await read_whole(target)

    def change() -> tuple[Edited, str]:
        edited = edit(
            before, given.old_string, given.new_string, replace_all=given.replace_all, path=given.path
        )
        return edited, unified_diff(given.path, before, edited.text)

    return await asyncio.to_thread(change)


async def _preview(given: EditInput, runtime: Runtime) -> str:
    try:
        _, diff = await _edited(given, Target(runtime, given.path))
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
