"""Exit codes of commands, read from the agent's own transcript where its hooks do not report them.

Codex writes a line of JSON for each command that has ended, with the call's id and the exit code, before
it calls the hook with the result.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import cast

LONGEST = 8 * 1024 * 1024
"""Bytes of the transcript's end that are looked through."""


def exit_code(path: Path, call: str) -> int | None:
    """The exit code of the command that was run for `call`; `None` where the transcript has none."""
    quoted_call = json.dumps(call).encode()
    return next(
        (
            code
            for line in reversed(_end(path).splitlines())
            if quoted_call in line and (code := _code(line, call)) is not None
        ),
        None,
    )


def _end(path: Path) -> bytes:
    """The last part of a file; empty for one that cannot be read or is not a regular file."""
    try:
        # Opening anything but a regular file may block.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return b""
            file.seek(max(0, status.st_size - LONGEST))
            return file.read(LONGEST)
    except OSError:
        return b""


def _code(line: bytes, call: str) -> int | None:
    """The exit code in a line about an ended command; text of agents and tools is nested deeper."""
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match found:
        case {
            "type": "event_msg",
            "payload": {
                "type": "item_completed",
                "item": {"type": "CommandExecution", "id": str(ran), "exit_code": int(code)},
            },
        } if ran == call and not isinstance(code, bool):
            return code
        case _:
            return None


# End of a tool's work, read from its result in the formats of the agents that have hooks. No I/O.
#
# Nothing here proves a success: a result with neither mark is as reliable as its reporter.


_FAILED = ("is_error", "isError", "interrupted")
_LAUNCHED = ("async_launched", "remote_launched")


def failed(response: object) -> bool:
    """Tell whether a tool failed, though its call came to an end.

    An exit code that Claude Code interprets is not 0: for it a `diff` that finds one is no error.
    """
    if not isinstance(response, dict):
        return False
    fields = cast("dict[str, object]", response)
    return any(fields.get(key) is True for key in _FAILED) or _is_text(fields, "returnCodeInterpretation")


def goes_on(response: object) -> bool:
    """Tell whether the work continues in the background: a command, a watch, a reporting subagent.

    Its end is reported to no hook, so such a call has no result.
    """
    if not isinstance(response, dict):
        return False
    fields = cast("dict[str, object]", response)
    return (
        fields.get("status") in _LAUNCHED
        or _is_text(fields, "backgroundTaskId")
        or (_is_text(fields, "taskId") and "timeoutMs" in fields)
    )


def _is_text(fields: dict[str, object], key: str) -> bool:
    found = fields.get(key)
    return isinstance(found, str) and bool(found)
