"""Exit codes of commands, read from the agent's own transcript if its hooks do not report them.

Codex writes a line of JSON for each ended command, with the call's id and the exit code, before it runs
the hook with the result.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import cast

LONGEST = 8 * 1024 * 1024
"""Maximum number of bytes searched at the transcript's end."""


def exit_code(path: Path, call: str) -> int | None:
    """Return the exit code of the command that ran for `call`; `None` if the transcript has none."""
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
    """Return the end of a file; empty if it cannot be read or is not a regular file."""
    try:
        # Non-blocking, because opening anything but a regular file may block.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return b""
            file.seek(max(0, status.st_size - LONGEST))
            return file.read(LONGEST)
    except OSError:
        return b""


def _code(line: bytes, call: str) -> int | None:
    """Return the exit code in a line about an ended command; other texts are nested deeper."""
    try:
        event: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match event:
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


# Success or failure of a tool, read from its result in the formats of agents that have hooks. No I/O.
#
# Nothing here proves success: a result with neither mark is only as reliable as its reporter.


_FAILED = ("is_error", "isError", "interrupted")
_LAUNCHED = ("async_launched", "remote_launched")


def failed(response: object) -> bool:
    """Return whether a tool failed although its call completed.

    An exit code that Claude Code interprets is not 0, even if Claude Code reports no error, as for a
    `diff` that finds differences.
    """
    if not isinstance(response, dict):
        return False
    fields = cast("dict[str, object]", response)
    return any(fields.get(key) is True for key in _FAILED) or _is_text(fields, "returnCodeInterpretation")


def goes_on(response: object) -> bool:
    """Return whether the work continues in the background: a command, a watch or a reporting subagent.

    No hook is told when such work ends, so the call has no result.
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
    value = fields.get(key)
    return isinstance(value, str) and bool(value)
