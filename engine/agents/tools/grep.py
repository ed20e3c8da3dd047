"""The `grep` tool: the lines of files that fit a regular expression."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from ..errors import ToolError
from ..runtime.base import ExecResult
from ..tool import ToolContext, ToolInput, ToolOutput, define_tool
from .glob_patterns import alternatives
from .text_limits import encoded, kilobytes, operand, quote

MAX_BYTES = 51_200
MAX_LINE = 500
SEARCH_SECONDS = 30.0

_BELOW_HERE = re.compile(r"^(?:\./)+")


class GrepInput(ToolInput):
    """Regular expression, and the files to search."""

    pattern: Annotated[str, Field(min_length=1, description="An extended regular expression.")]
    path: Annotated[str, Field(description="The file or directory to search.")] = "."
    include: Annotated[
        str | None, Field(description="A glob pattern for the names of files, such as *.py.")
    ] = None


async def _run(args: GrepInput, ctx: ToolContext) -> ToolOutput:
    result = await _search(args, ctx)
    problem = result.stderr.strip()
    if not result.stdout:
        if result.exit_code == 1 and not problem:
            return ToolOutput("No matches found.", metadata={"matches": 0, "truncated": False})
        if result.exit_code:
            raise ToolError(problem[:1000] or f"grep ended with {result.exit_code}")
    lines = result.stdout.removesuffix("\n").split("\n")
    lines = [line for line in lines if "/.git/" not in line.partition(":")[0]]
    if not lines:
        return ToolOutput("No matches found.", metadata={"matches": 0, "truncated": False})
    visible_lines = _fitting_lines(
        [_shorten(_BELOW_HERE.sub("", line.removesuffix("\r"))) for line in lines]
    )
    is_truncated = result.truncated or len(visible_lines) < len(lines)
    notices: list[str] = []
    if is_truncated:
        notices.append(
            f"[Showing the first {len(visible_lines)} matches, {kilobytes(MAX_BYTES)} at most. "
            "Narrow the pattern, the path or include.]"
        )
    if problem:
        notices.append(f"[Not everything could be searched: {problem.splitlines()[0][:300]}]")
    text = "\n".join(visible_lines)
    return ToolOutput(
        "\n".join([f"{text}\n", *notices]) if notices else text,
        metadata={"matches": len(visible_lines), "truncated": is_truncated},
    )


async def _search(args: GrepInput, ctx: ToolContext) -> ExecResult:
    include_options = ""
    if args.include is not None:
        if "/" in args.include:
            raise ToolError(
                f"include fits the names of files, without directories, got '{args.include[:200]}'. "
                "Give the directory as path."
            )
        include_options = "".join(f" {quote(f'--include={each}')}" for each in alternatives(args.include))
    options = f"{include_options} -e {quote(args.pattern, 'pattern')} -- {operand(args.path)}"
    result = await ctx.runtime.exec(
        f"grep -rnHIE --exclude-dir=.git{options}", timeout=SEARCH_SECONDS, abort=ctx.abort
    )
    if result.exit_code == 2 and not result.stdout and "option" in result.stderr:
        # Minimal versions of grep support neither skipping binary files nor excluding directories.
        result = await ctx.runtime.exec(f"grep -rnHE{options}", timeout=SEARCH_SECONDS, abort=ctx.abort)
    return result


def _shorten(line: str) -> str:
    more = len(line) - MAX_LINE
    return line if more <= 0 else f"{line[:MAX_LINE]} [… {more} more characters]"


def _fitting_lines(lines: list[str]) -> list[str]:
    remaining = MAX_BYTES + 1
    for number, line in enumerate(lines):
        remaining -= len(encoded(line)) + 1
        if remaining < 0:
            return lines[:number]
    return lines


GrepTool = define_tool(
    "grep",
    "Search files for an extended regular expression; gives file:line:text. "
    ".git and binary files are left out.",
    GrepInput,
    _run,
)
