"""Text that an agent wrote, as words of a shell command that are only text."""

from __future__ import annotations

from ..errors import ToolError


def quote(text: str, what: str = "argument") -> str:
    """`text` as one word of a POSIX shell, whatever is in it.

    Raises `ToolError`, naming it as `what`, for what no command line can hold.
    """
    if "\0" in text:
        raise ToolError(
            f"The {what} holds a NUL character, which no command or file name can: {text[:200]!r}"
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ToolError(f"The {what} holds half a surrogate pair, which is no character: {text[:200]!r}")
    return "'" + text.replace("'", "'\\''") + "'"


def operand(path: str, what: str = "path") -> str:
    """`path` quoted so that no command takes it for an option.

    Raises `ToolError` for an empty one.
    """
    if not path:
        raise ToolError(f"The {what} is empty; give a file or directory, such as '.'")
    return quote(path if path.startswith("/") else f"./{path}", what)
