"""Cutting text to a size in bytes without leaving half a character."""

from __future__ import annotations

from ..errors import ToolError


def whole_characters(data: bytes) -> bytes:
    """`data` without a character that is cut in half at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0b1100_0000 == 0b1000_0000:
            continue
        needs = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if needs > back else data
    return data


def first_bytes(text: str, size: int) -> str:
    """As much of the start of `text` as fits `size` bytes of UTF-8."""
    return whole_characters(encoded(text[:size])[:size]).decode("utf-8", "surrogatepass")


def last_bytes(text: str, size: int) -> str:
    """As much of the end of `text` as fits `size` bytes of UTF-8."""
    if size <= 0:
        return ""
    data = encoded(text[-size:])[-size:]
    while data and data[0] & 0b1100_0000 == 0b1000_0000:
        data = data[1:]
    return data.decode("utf-8", "surrogatepass")


def encoded(text: str) -> bytes:
    """`text` in UTF-8; half a surrogate pair, which a model's JSON can hold, counts as three bytes."""
    return text.encode("utf-8", "surrogatepass")


def kilobytes(size: int) -> str:
    """A size in bytes for people: `50.0KB`."""
    return f"{size / 1024:.1f}KB"


# Quoting of text that an agent wrote for a shell command.


def quote(text: str, name: str = "argument") -> str:
    """`text` as one word of a POSIX shell, whatever is in it.

    Raises `ToolError`, naming it as `name`, for what no command line can hold.
    """
    if "\0" in text:
        raise ToolError(
            f"The {name} holds a NUL character, which no command or file name can: {text[:200]!r}"
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ToolError(f"The {name} holds half a surrogate pair, which is no character: {text[:200]!r}")
    return "'" + text.replace("'", "'\\''") + "'"


def operand(path: str) -> str:
    """`path` quoted so that no command takes it for an option.

    Raises `ToolError` for an empty one.
    """
    if not path:
        raise ToolError("The path is empty; give a file or directory, such as '.'")
    return quote(path if path.startswith("/") else f"./{path}", "path")
