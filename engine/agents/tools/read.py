"""The `read` tool: a file's text, or some lines of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..errors import ToolError
from ..tool import ToolContext, ToolInput, ToolOutput, define_tool
from .file_access import NotTextError, Target, read_lines
from .text_limits import kilobytes, whole_characters

MAX_BYTES = 102_400
MAX_LINE_NUMBER = 2**31


class ReadInput(ToolInput):
    """File to read and, if wanted, its lines."""

    path: Annotated[str, Field(description="The file to read.")]
    offset: Annotated[
        int, Field(ge=1, le=MAX_LINE_NUMBER, description="The first line to read, from 1.")
    ] = 1
    limit: Annotated[
        int | None, Field(ge=1, le=MAX_LINE_NUMBER, description="How many lines to read at most.")
    ] = None


async def _run(args: ReadInput, ctx: ToolContext) -> ToolOutput:
    target = Target(ctx.runtime, args.path, ctx.abort)
    first = args.offset
    # One line and one byte more than can be shown reveal whether the file continues.
    count = None if args.limit is None else args.limit + 1
    data = await read_lines(target, first, count, MAX_BYTES + 1)
    if b"\0" in data:
        raise NotTextError(f"{args.path} is a binary file (it holds NUL bytes).")
    if not data and first > 1:
        raise ToolError(f"{args.path} ends before line {first}. Read it with a smaller offset.")
    visible_part, lines, notice = _visible_part(data, first, args.limit)
    text = visible_part.replace(b"\r\n", b"\n").decode(errors="replace")
    notices = [notice] if notice else []
    if _is_not_utf8(visible_part):
        notices.append("[Some bytes are not UTF-8; U+FFFD is shown for them.]")
    if notices:
        text = "\n".join([text if text.endswith("\n") else f"{text}\n", *notices])
    return ToolOutput(
        text or "(empty file)",
        metadata={
            "path": args.path,
            "first_line": first,
            "last_line": first + lines - 1,
            "truncated": bool(notice),
        },
    )


def _visible_part(data: bytes, first: int, limit: int | None) -> tuple[bytes, int, str]:
    """Return the shown part of `data`, its number of lines, and the notice on how to read more."""
    visible_part = data
    if len(data) > MAX_BYTES:
        visible_part = data[: data.rfind(b"\n", 0, MAX_BYTES) + 1]
        if not visible_part:
            notice = (
                f"[Line {first} is cut at {kilobytes(MAX_BYTES)}. Read its rest with bash (cut -b), "
                f"or go on with offset={first + 1}.]"
            )
            return whole_characters(data[:MAX_BYTES]), 1, notice
    lines = visible_part.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if limit is not None and len(lines) > limit:
        lines = lines[:limit]
        visible_part = b"\n".join(lines) + b"\n"
    if len(visible_part) == len(data):
        return visible_part, len(lines), ""
    last = first + len(lines) - 1
    return visible_part, len(lines), f"[Showing lines {first}-{last}. Go on with offset={last + 1}.]"


def _is_not_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return False


ReadTool = define_tool(
    "read",
    f"Read a text file. Long files come in parts of {kilobytes(MAX_BYTES)}; a notice says how to go on.",
    ReadInput,
    _run,
)
