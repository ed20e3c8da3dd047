"""How a command ended, where an agent's hooks do not say it: in the transcript that the agent keeps.

Codex has a line of JSON there for each command that has come to its end, with the call's id and the exit
code, before it tells the hook of the result.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

LONGEST = 8 * 1024 * 1024
"""Bytes of the transcript's end that are looked through."""


def exit_code(path: Path, call: str) -> int | None:
    """The exit code of the command that was run for `call`; `None` where the transcript has none."""
    wanted = json.dumps(call).encode()
    return next(
        (
            code
            for line in reversed(_end(path).splitlines())
            if wanted in line and (code := _code(line, call)) is not None
        ),
        None,
    )


def _end(path: Path) -> bytes:
    """The last part of a file; nothing of one that cannot be read, or is no file."""
    try:
        # What is no file may keep whoever opens it waiting.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return b""
            file.seek(max(0, status.st_size - LONGEST))
            return file.read(LONGEST)
    except OSError:
        return b""


def _code(line: bytes, call: str) -> int | None:
    """What a line says of a command that ended; what the agent or a tool wrote stands deeper in it."""
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
