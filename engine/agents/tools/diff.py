"""Unified diff whose computation never takes long."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import JsonValue

from ...core.sanitize import visible
from ..errors import ToolError
from ..runtime.base import Runtime
from ..tool import Tool
from .file_access import NoSuchFileError, Target, digest_of, read_whole
from .text_limits import encoded, first_bytes, kilobytes

MAX_BYTES = 65_536
# Finding the smallest difference takes quadratic time; more changed lines than this are shown as a block.
MAX_COMPARED_LINES = 2_000
CONTEXT = 3


def unified_diff(path: str, before: str | None, after: str) -> str:
    """Return a diff from `before` to `after`; `None` is a file that does not exist yet.

    Carriage returns at the ends of lines are left out because they are invisible. Diffs longer than
    `MAX_BYTES` are cut, with a notice.
    """
    old, new = _lines(before or ""), _lines(after)
    start = _common_prefix(old, new)
    end = _common_prefix(old[start:][::-1], new[start:][::-1])
    changed_old, changed_new = old[start : len(old) - end], new[start : len(new) - end]
    name = visible(path)
    header = [f"--- {'/dev/null' if before is None else name}", f"+++ {name}"]
    if not changed_old and not changed_new:
        return "\n".join([*header, "(no change)" if before is not None else "(an empty file)"])
    lead, trail = max(0, start - CONTEXT), min(end, CONTEXT)
    if max(len(changed_old), len(changed_new)) <= MAX_COMPARED_LINES:
        from difflib import unified_diff  # 0.2 MB, which a server that runs no tools does not need

        last_old, last_new = len(old) - end + trail, len(new) - end + trail
        hunks = list(unified_diff(old[lead:last_old], new[lead:last_new], n=CONTEXT, lineterm=""))
        body = [_shifted_header(line, lead) for line in hunks[2:]]
    else:
        kept_before, kept_after = old[lead:start], old[len(old) - end :][:trail]
        around = len(kept_before) + len(kept_after)
        body = [
            _hunk(lead, len(changed_old) + around, len(changed_new) + around),
            *(f" {line}" for line in kept_before),
            *(f"-{line}" for line in changed_old),
            *(f"+{line}" for line in changed_new),
            *(f" {line}" for line in kept_after),
        ]
    return bounded("\n".join([*header, *body]), "Diff")


def bounded(text: str, name: str) -> str:
    """Limit `text` to `MAX_BYTES`; if it is longer, the last line says that it was cut."""
    if len(encoded(text)) <= MAX_BYTES:
        return text
    notice = f"\n[{name} cut at {kilobytes(MAX_BYTES)}.]"
    beginning = first_bytes(text, MAX_BYTES - len(notice))
    line_end = beginning.rfind("\n")
    return (beginning[:line_end] if line_end > 0 else beginning) + notice


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    elif text:
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def _common_prefix(old: list[str], new: list[str]) -> int:
    for number, (old_line, new_line) in enumerate(zip(old, new, strict=False)):
        if old_line != new_line:
            return number
    return min(len(old), len(new))


def _hunk(start: int, old: int, new: int) -> str:
    def side(count: int) -> str:
        return f"{start + 1 if count else start},{count}"

    return f"@@ -{side(old)} +{side(new)} @@"


def _shifted_header(line: str, by: int) -> str:
    """Return a hunk's header as if `by` lines preceded it; other lines are unchanged."""
    if not line.startswith("@@ ") or not by:
        return line
    _, old, new, _ = line.split(" ", 3)

    def moved(part: str) -> str:
        first, comma, count = part[1:].partition(",")
        return f"{part[0]}{int(first) + by}{comma}{count}"

    return f"@@ {moved(old)} {moved(new)} @@"


# Previews of calls, made before the call is decided.
#
# A tool may have its own preview. For any other tool whose input has a file's path and whole content, the
# content is compared with that of the file in the session's runtime.


PREVIEW_SECONDS = 1.0
PATHS = ("path", "file_path", "filePath", "filename", "notebook_path", "file")
"""Input fields that name a file."""
CONTENTS = ("content", "file_text", "contents", "new_source")
"""Input fields that are written to a file."""
PARTS = frozenset({"append", "prepend", "insert", "notebook"})
"""Words in the names of tools that write only a part of the file's content."""
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

T = TypeVar("T")

log = logging.getLogger(__name__)


async def preview_of(tool: Tool, args: Mapping[str, JsonValue], runtime: Runtime) -> str | None:
    """Return the change that a call would make, in at most 64 KB of text and within a second.

    Returns `None` if the tool has no preview or no change to show, or if the preview fails or takes
    longer: a dialog never waits for it and never breaks with it. Only a cancellation is raised.
    """

    async def ask() -> str | None:
        hook: object = getattr(tool, "preview_of", None)
        if not callable(hook):
            return None
        answer: object = hook(copy.deepcopy(dict(args)), runtime)
        text: object = await answer if inspect.isawaitable(answer) else answer
        return text if isinstance(text, str) else None

    text = await _in_time(ask(), tool)
    return None if text is None else bounded(text, "Preview")


async def _in_time(reading: Awaitable[T], of: object) -> T | None:
    """Return the result of `reading` within `PREVIEW_SECONDS`; `None` if it fails or takes longer."""

    async def ask() -> T | None:
        try:
            return await reading
        except (Exception, SystemExit) as error:
            log.debug("The preview of a call to %s failed: %r", of, error)
            return None

    # Awaited in a separate task, so that the dialog continues whatever the tool does on cancellation.
    asking = asyncio.ensure_future(ask())
    try:
        await asyncio.wait({asking}, timeout=PREVIEW_SECONDS)
    finally:
        asking.cancel()
    return asking.result() if asking.done() and not asking.cancelled() else None


@dataclass(frozen=True, slots=True)
class Previews:
    """Previews of the calls of `tools`, whose files are in `runtime`."""

    tools: Sequence[Tool]
    runtime: Runtime

    async def preview(self, name: str, args: Mapping[str, JsonValue]) -> str | None:
        """Return the change that a call of `name` would make, in at most 64 KB; `None` if unknown."""
        tool = next((each for each in self.tools if each.name == name), None)
        preview = None if tool is None else await preview_of(tool, args, self.runtime)
        return preview if preview is not None else await written_preview(name, args, self.runtime)

    async def version(self, args: Mapping[str, JsonValue]) -> str | None:
        """Return a digest of the state of the file that an input names; `None` if it is unknown."""
        path = _text(args, PATHS)
        return None if path is None else await _in_time(digest_of(Target(self.runtime, path)), path)


async def written_preview(name: str, args: Mapping[str, JsonValue], runtime: Runtime) -> str | None:
    """Return the difference between the content in an input and that of the file the input names.

    Returns `None` if the input has no content, if it has only a part of the file's content, or after
    `PREVIEW_SECONDS`. How a tool named `name` uses the content is not known here: the text only states
    what was compared.
    """
    path, content = _text(args, PATHS), _text(args, CONTENTS)
    words = {each.casefold() for each in _WORDS.findall(name)}
    if path is None or content is None or words & PARTS:
        return None
    return await _in_time(_comparison(Target(runtime, path), content), name)


async def _comparison(target: Target, content: str) -> str:
    path = visible(target.path)
    try:
        before: str | None = await read_whole(target)
        heading = f"Compared with what {path} holds now:"
    except NoSuchFileError:
        before, heading = None, f"There is no file {path} yet:"
    except ToolError as error:
        before, heading = "", f"All of the content is shown, for what {path} holds cannot be: {error}"
    diff = await asyncio.to_thread(unified_diff, target.path, before, content)
    return bounded(f"{heading}\n{diff}", "Preview")


def _text(args: Mapping[str, JsonValue], names: Sequence[str]) -> str | None:
    return next((value for name in names if isinstance(value := args.get(name), str)), None)
