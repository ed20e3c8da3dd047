"""The `bash` tool: a shell command in the session's runtime (A-120 … A-123)."""

from __future__ import annotations

import codecs
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ..runtime.base import ExecResult
from ..tool import ToolContext, ToolOutput, define_tool


class BashInput(BaseModel):
    """A command and, if wanted, how many seconds it may take."""

    model_config = ConfigDict(extra="forbid")

    command: Annotated[str, Field(description="The shell command to execute.")]
    timeout: Annotated[
        float | None, Field(ge=0, allow_inf_nan=False, description="Seconds before it is killed.")
    ] = None


async def _run(given: BashInput, ctx: ToolContext) -> ToolOutput:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    result = await ctx.runtime.exec(
        given.command,
        timeout=given.timeout,
        abort=ctx.abort,
        on_data=lambda data: ctx.progress(decoder.decode(data)),
    )
    return ToolOutput(
        render(result), metadata={"exit_code": result.exit_code, "truncated": result.truncated}
    )


def render(result: ExecResult) -> str:
    """A command's end as the model reads it: what there is of stdout, stderr and exit code (A-121)."""
    parts = [
        result.stdout,
        result.stderr and f"[stderr] {result.stderr}",
        f"[exit code: {result.exit_code}]" if result.exit_code else "",
    ]
    return "\n".join(part for part in parts if part) or "(no output)"


BashTool = define_tool("bash", "Execute a shell command and return the output.", BashInput, _run)
