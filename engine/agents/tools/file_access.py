"""File access through a runtime, safe for files of any kind and size.

An agent's path may name an endless device, a pipe without a writer or a file of a gigabyte.
`Runtime.read_file` would load or wait for all of it. Therefore the runtime's shell checks first and
returns no more than requested. It returns base64, because output is decoded text and a file is bytes. If
a runtime's shell cannot do this, `read_file` is used.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import os
from dataclasses import dataclass
from weakref import WeakValueDictionary

from ..errors import RuntimeAbortError, RuntimeTimeoutError, ToolError
from ..runtime.base import Runtime
from ..turn.abort import AbortSignal
from .text_limits import kilobytes, operand

LOOK_SECONDS = 30.0
# In base64 with newlines this is below the mebibyte of output that runtimes keep.
MAX_WHOLE_BYTES = 750 * 1024

_DIGEST = '{ sha256sum < "$p" || shasum -a 256 < "$p" || cksum < "$p"; } 2>/dev/null'
_KINDS = frozenset({"directory", "missing", "special", "unreadable", "file"})


class NoSuchFileError(ToolError):
    """There is nothing at the path."""


class NotTextError(ToolError):
    """The file contains something other than text, or more text than can be handled at once."""


@dataclass(frozen=True, slots=True)
class Target:
    """A path in a runtime, and the signal that stops access to it."""

    runtime: Runtime
    path: str
    abort: AbortSignal | None = None


async def kind_of(target: Target) -> str:
    """Kind of the path: file, directory, special (a device or a pipe), unreadable or missing.

    The kind is "unknown" for a runtime whose shell cannot report it.
    """
    kind, _ = await _look(target, ":")
    return kind


async def read_whole(target: Target) -> str:
    """Return the exact text of a file.

    Raises `NoSuchFileError`, `NotTextError` for content that is not UTF-8, contains NUL or exceeds
    `MAX_WHOLE_BYTES`, and `ToolError` for a path that is not a file.
    """
    kind, answer = await _look(target, f'wc -c < "$p"; head -c {MAX_WHOLE_BYTES + 1} < "$p" | base64')
    refuse_unless_file(target.path, kind)
    data = _whole_answer(target.path, answer) if kind == "file" else None
    if data is None:
        data = await _asked_for(target)
        if "\ufffd" in data.decode(errors="replace"):
            raise NotTextError(f"{target.path} is not UTF-8 text. Change it with bash instead.")
    if len(data) > MAX_WHOLE_BYTES:
        raise NotTextError(
            f"{target.path} has more than {kilobytes(MAX_WHOLE_BYTES)}, too much to handle at once. "
            "Use bash with sed or a script instead."
        )
    if b"\0" in data:
        raise NotTextError(f"{target.path} is a binary file (it holds NUL bytes).")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise NotTextError(
            f"{target.path} is not UTF-8 text (byte 0x{data[error.start]:02x} at offset {error.start}). "
            "Change it with bash instead."
        ) from error


async def digest_of(target: Target) -> str:
    """Return a digest of a file's content, or the kind of the path if it is not a readable file.

    If the runtime's shell cannot compute it, the file is read. Raises `ToolError` if that file is not
    text.
    """
    kind, answer = await _look(target, _DIGEST)
    if kind == "file":
        return answer.strip()
    if kind != "unknown":
        return kind
    try:
        return hashlib.sha256(await _asked_for(target)).hexdigest()
    except NoSuchFileError:
        return "missing"


async def read_lines(target: Target, first: int, count: int | None, size: int) -> bytes:
    """Return up to `count` lines of a file from line `first`, counted from 1, and at most `size` bytes.

    Raises `NoSuchFileError`, and `ToolError` for a path that is not a file.
    """
    some = "" if count is None else f" | head -n {count}"
    kind, answer = await _look(target, f'tail -n +{first} < "$p"{some} | head -c {size} | base64')
    refuse_unless_file(target.path, kind)
    data = _decoded(answer) if kind == "file" else None
    if data is not None:
        return data
    lines = (await _asked_for(target)).split(b"\n")
    selection = lines[first - 1 : None if count is None else first - 1 + count]
    goes_on = first - 1 + len(selection) < len(lines)
    return (b"\n".join(selection) + (b"\n" if selection and goes_on else b""))[:size]


def refuse_unless_file(path: str, kind: str) -> None:
    """Raise `NoSuchFileError` or `ToolError` for a kind other than a file or unknown."""
    match kind:
        case "missing":
            raise NoSuchFileError(f"No such file: {path}")
        case "directory":
            raise ToolError(f"{path} is a directory, not a file. List it with glob or bash.")
        case "special":
            raise ToolError(f"{path} is a device, a pipe or a socket, not a regular file.")
        case "unreadable":
            raise ToolError(f"Permission denied: {path}")
        case _:
            return


async def _look(target: Target, body: str) -> tuple[str, str]:
    """Return the kind of the path, and the output of the shell command `body` about a file there."""
    command = f"""p={operand(target.path)}
if [ -d "$p" ]; then echo directory
elif [ ! -e "$p" ]; then echo missing
elif [ ! -f "$p" ]; then echo special
elif [ ! -r "$p" ]; then echo unreadable
else echo file; {body}; fi"""
    try:
        result = await target.runtime.exec(command, timeout=LOOK_SECONDS, abort=target.abort)
    except (RuntimeAbortError, RuntimeTimeoutError):
        raise
    except Exception:
        return "unknown", ""
    kind, _, answer = result.stdout.partition("\n")
    if kind not in _KINDS or (kind == "file" and (result.exit_code or result.truncated)):
        return "unknown", ""
    return kind, answer


def _whole_answer(path: str, answer: str) -> bytes | None:
    size, _, content = answer.partition("\n")
    data = _decoded(content)
    if data is None or not size.strip().isdecimal():
        return None
    if len(data) <= MAX_WHOLE_BYTES and len(data) != int(size):
        raise ToolError(f"{path} was changed while it was read ({size.strip()} bytes, then {len(data)}).")
    return data


def _decoded(answer: str) -> bytes | None:
    try:
        return base64.b64decode("".join(answer.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


async def _asked_for(target: Target) -> bytes:
    try:
        return (await target.runtime.read_file(target.path)).encode("utf-8", "surrogatepass")
    except FileNotFoundError as error:
        raise NoSuchFileError(f"No such file: {target.path}") from error
    except IsADirectoryError as error:
        raise ToolError(
            f"{target.path} is a directory, not a file. List it with glob or bash."
        ) from error
    except UnicodeDecodeError as error:
        raise NotTextError(f"{target.path} is a binary file (it is no UTF-8 text).") from error


_locks: WeakValueDictionary[tuple[int, int, str], asyncio.Lock] = WeakValueDictionary()


def lock_of(target: Target) -> asyncio.Lock:
    """Lock of a file: calls of a step run concurrently, and two edits of a file must both last."""
    place = os.path.normpath(target.runtime.cwd / target.path)
    key = (id(asyncio.get_running_loop()), id(target.runtime), place)
    return _locks.setdefault(key, asyncio.Lock())
