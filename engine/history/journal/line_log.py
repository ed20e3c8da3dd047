"""Files of lines beside a journal, only ever appended to, for what no session's record can hold."""

from __future__ import annotations

import os
from pathlib import Path

from .schema import name_of


def append_line(path: Path, line: str) -> None:
    """Append a line to a file that only its owner reads; durable when this returns.

    Raises `OSError`.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o600)
    try:
        size = os.fstat(handle).st_size
        # After a line that was cut short by a crash another one begins.
        cut = size and os.pread(handle, 1, size - 1) != b"\n"
        data = (("\n" if cut else "") + line + "\n").encode()
        if os.write(handle, data) != len(data):
            raise OSError(f"only a part of a line was written to '{name_of(path)}'")
        os.fsync(handle)
    finally:
        os.close(handle)
    directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
