"""Cutting text to a size in bytes without splitting a character."""

from __future__ import annotations

from ..errors import ToolError


def whole_characters(data: bytes) -> bytes:
    """Return `data` without an incomplete character at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0b1100_0000 == 0b1000_0000:
            continue
        needs = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if needs > back else data
    return data


def first_bytes(text: str, size: int) -> str:
    """Return the longest start of `text` that fits `size` bytes of UTF-8."""
    return whole_characters(encoded(text[:size])[:size]).decode("utf-8", "surrogatepass")


def last_bytes(text: str, size: int) -> str:
    """Return the longest end of `text` that fits `size` bytes of UTF-8."""
    if size <= 0:
        return ""
    data = encoded(text[-size:])[-size:]
    while data and data[0] & 0b1100_0000 == 0b1000_0000:
        data = data[1:]
    return data.decode("utf-8", "surrogatepass")


def encoded(text: str) -> bytes:
    """Encode `text` in UTF-8; a lone surrogate, possible in a model's JSON, counts as three bytes."""
    return text.encode("utf-8", "surrogatepass")


def kilobytes(size: int) -> str:
    """Format a size in bytes for people: `50.0KB`."""
    return f"{size / 1024:.1f}KB"


# Quoting of an agent's text for a shell command.


def quote(text: str, name: str = "argument") -> str:
    """Quote `text` as one word of a POSIX shell, whatever it contains.

    Raises `ToolError`, which calls the text `name`, for content that no command line can contain.
    """
    if "\0" in text:
        raise ToolError(
            f"The {name} holds a NUL character, which no command or file name can: {text[:200]!r}"
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ToolError(f"The {name} holds half a surrogate pair, which is no character: {text[:200]!r}")
    return "'" + text.replace("'", "'\\''") + "'"


def operand(path: str) -> str:
    """Quote `path` so that no command interprets it as an option.

    Raises `ToolError` for an empty path.
    """
    if not path:
        raise ToolError("The path is empty; give a file or directory, such as '.'")
    return quote(path if path.startswith("/") else f"./{path}", "path")
