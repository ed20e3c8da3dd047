"""The `bash` tool: a shell command in the session's runtime (A-120 … A-123)."""

from __future__ import annotations

import codecs
import re
import secrets
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, JsonValue

from ..errors import describe
from ..runtime.base import ExecResult
from ..tool import ModelTool, ToolContext, ToolInput, ToolOutput, define_tool
from .text_limits import encoded, kilobytes, last_bytes, quote

MAX_LINES = 2_000
MAX_BYTES = 51_200
FULL_OUTPUT = "/tmp/interlock-{call}-{token}.log"
PREPARE_SECONDS = 5.0


class BashInput(ToolInput):
    """A command and, if wanted, how many seconds it may take."""

    command: Annotated[str, Field(description="The shell command to execute.")]
    timeout: Annotated[
        float | None, Field(ge=0, allow_inf_nan=False, description="Seconds before it is killed.")
    ] = None


def create_bash_tool(*, command_prefix: str = "") -> ModelTool:
    """Make the tool with a fixed prefix before every command, such as `source .venv/bin/activate`.

    The prefix is on separate lines; the gate decides on what the model wrote.
    """

    async def run(args: BashInput, ctx: ToolContext) -> ToolOutput:
        command = f"{command_prefix}\n{args.command}" if command_prefix else args.command
        return await _run(command, args.timeout, ctx)

    return define_tool("bash", "Execute a shell command and return the output.", BashInput, run)


async def _run(command: str, timeout: float | None, ctx: ToolContext) -> ToolOutput:  # noqa: ASYNC109
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    result = await ctx.runtime.exec(
        command,
        timeout=timeout,
        abort=ctx.abort,
        on_data=lambda data: ctx.progress(decoder.decode(data)),
    )
    metadata: dict[str, JsonValue] = {"exit_code": result.exit_code, "truncated": result.truncated}
    text = render(result)
    tail = _tail(text)
    if tail is not None:
        where, problem = await _save_output(text, ctx)
        metadata["full_output"] = where
        location = f"Full output: {where}" if where else f"The rest is lost: {problem}"
        text = f"{tail.text}\n\n[Showing lines {tail.lines}. {location}]"
    return ToolOutput(text, metadata=metadata)


def render(result: ExecResult) -> str:
    """Format a command's result for the model: any stdout, stderr and exit code (A-121)."""
    parts = [
        result.stdout,
        result.stderr and f"[stderr] {result.stderr}",
        f"[exit code: {result.exit_code}]" if result.exit_code else "",
    ]
    return "\n".join(part for part in parts if part) or "(no output)"


@dataclass(frozen=True, slots=True)
class _Tail:
    """The end of a long text, and its line numbers."""

    text: str
    lines: str


def _tail(text: str) -> _Tail | None:
    """Return the end of a text that is longer than a model is shown, or `None` for a shorter one."""
    lines = text.removesuffix("\n").split("\n")
    size = len(encoded(text))
    if len(lines) <= MAX_LINES and size <= MAX_BYTES:
        return None
    remaining, first = MAX_BYTES + 1, len(lines)
    while first > 0 and len(lines) - first < MAX_LINES:
        remaining -= len(encoded(lines[first - 1])) + 1
        if remaining < 0:
            break
        first -= 1
    total = len(lines)
    if first == total:
        return _Tail(
            last_bytes(lines[-1], MAX_BYTES),
            f"{total}-{total} of {total}, cut to the last {kilobytes(MAX_BYTES)}",
        )
    return _Tail("\n".join(lines[first:]), f"{first + 1}-{total} of {total}")


async def _save_output(text: str, ctx: ToolContext) -> tuple[str | None, str]:
    """Write `text` to a file in the runtime; return its path, or `None` and the reason for failure."""
    # A model's endpoint chooses call ids, and others may write to /tmp. The name is therefore plain and
    # unpredictable, and the file is readable only by its owner.
    call = re.sub(r"[^A-Za-z0-9_-]", "_", ctx.call_id)[:64] or "call"
    path = FULL_OUTPUT.format(call=call, token=secrets.token_hex(8))
    try:
        await ctx.runtime.exec(
            f"umask 077; set -C; : > {quote(path)}", timeout=PREPARE_SECONDS, abort=ctx.abort
        )
        await ctx.runtime.write_file(path, text)
    except Exception as error:
        return None, describe(error)
    return path, ""


BashTool = create_bash_tool()
