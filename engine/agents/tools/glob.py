"""The `glob` tool: the files whose paths fit a pattern."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from ..errors import ToolError
from ..tool import ToolContext, ToolInput, ToolOutput, define_tool
from .glob_patterns import alternatives, as_find_path, components, is_plain, matches
from .text_limits import operand, quote

MAX_FILES = 500
SEARCH_SECONDS = 30.0

_NO_DIRECTORY = 3


class GlobInput(ToolInput):
    """Pattern of paths, and the directory to search."""

    pattern: Annotated[
        str, Field(description="A glob pattern such as **/*.py; ** stands for any number of directories.")
    ]
    path: Annotated[str | None, Field(description="The directory to search.")] = None


async def _run(args: GlobInput, ctx: ToolContext) -> ToolOutput:
    quote(args.pattern, "pattern")
    patterns = [components(each) for each in alternatives(args.pattern)]
    path, subdirectory, patterns = _search_root(args, patterns)
    command = f"cd {operand(path)} || exit {_NO_DIRECTORY}\n"
    if subdirectory:
        command += f"cd {operand(subdirectory)} 2>/dev/null || exit 0\n"
    command += _find(patterns)
    result = await ctx.runtime.exec(command, timeout=SEARCH_SECONDS, abort=ctx.abort)
    problem = result.stderr.strip()
    # Names end with NUL if find supports it; the last piece is empty, or a truncated name.
    paths = result.stdout.split("\0" if "\0" in result.stdout else "\n")[:-1]
    files = sorted(
        posixpath.join(path if args.path or path == "/" else "", subdirectory, each)
        for each in (name.removeprefix("./") for name in paths)
        if any(matches(each.split("/"), pattern) for pattern in patterns)
    )
    if result.exit_code == _NO_DIRECTORY and not paths:
        raise ToolError(f"No directory to search at {path}{f' ({problem})' if problem else ''}")
    if result.exit_code and not paths:
        raise ToolError(f"The search failed: {problem or f'find ended with {result.exit_code}'}")
    # A newline in a file's name would look like two files.
    text = "\n".join(each.replace("\n", "\\n") for each in files[:MAX_FILES]) or "No files found."
    notices: list[str] = []
    if len(files) > MAX_FILES:
        notices.append(f"[Showing {MAX_FILES} of {len(files)} files. Narrow the pattern or the path.]")
    if result.truncated:
        notices.append("[There were too many files to list them all. Narrow the pattern or the path.]")
    if problem:
        notices.append(f"[Not everything could be searched: {problem.splitlines()[0][:300]}]")
    return ToolOutput(
        "\n".join([f"{text}\n", *notices]) if notices else text,
        metadata={"files": len(files), "truncated": len(files) > MAX_FILES or result.truncated},
    )


def _search_root(args: GlobInput, patterns: list[list[str]]) -> tuple[str, str, list[list[str]]]:
    """Return the directory to search, the subdirectory that starts the pattern, and the rest of it."""
    path = "/" if args.pattern.startswith("/") else "." if args.path is None else args.path
    if len(patterns) > 1:
        return path, "", patterns
    [pattern] = patterns
    if not pattern:
        raise ToolError("The pattern is empty; give one such as **/*.py")
    start = 0
    while start < len(pattern) - 1 and is_plain(pattern[start]):
        start += 1
    return path, "/".join(pattern[:start]), [pattern[start:]]


def _find(patterns: Sequence[Sequence[str]]) -> str:
    """Return a find expression for possible matches except `.git`, as minimal finds support it."""
    depth = "" if any("**" in pattern for pattern in patterns) else max(map(len, patterns))
    alternatives = " -o ".join(f"-path {quote(as_find_path(pattern))}" for pattern in patterns)
    return (
        f"find .{f' -maxdepth {depth}' if depth else ''} ! -type d ! -name .git ! -path '*/.git/*' "
        f"'(' {alternatives} ')' -print0"
    )


GlobTool = define_tool(
    "glob",
    f"List the files that fit a glob pattern, sorted by path, {MAX_FILES} at most; .git is left out.",
    GlobInput,
    _run,
)
