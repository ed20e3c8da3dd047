"""Glob patterns: `*` and `?` within a name, `[…]`, `{a,b}`, and `**` for any number of directories.

A backslash is an ordinary character; `[*]` is a star.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from ..errors import ToolError

MAX_ALTERNATIVES = 64

_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def alternatives(pattern: str) -> list[str]:
    """Expand braces: return the patterns without braces that one with braces stands for.

    Raises `ToolError` for more than `MAX_ALTERNATIVES`.
    """
    done: dict[str, None] = {}
    open_ones = [pattern]
    while open_ones:
        current = open_ones.pop(0)
        braces = _BRACES.search(current)
        if braces is None:
            done[current] = None
        else:
            before, after = current[: braces.start()], current[braces.end() :]
            open_ones += [f"{before}{part}{after}" for part in braces[1].split(",")]
        if len(done) + len(open_ones) > MAX_ALTERNATIVES:
            raise ToolError(
                f"The pattern stands for more than {MAX_ALTERNATIVES} patterns; use fewer braces: "
                f"{pattern[:200]}"
            )
    return list(done)


def components(pattern: str) -> list[str]:
    """Split a pattern into names and wildcards; `/` or `**` at its end means everything below."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if parts and pattern.endswith("/"):
        parts.append("**")
    return [*parts, "*"] if parts and parts[-1] == "**" else parts


def is_plain(component: str) -> bool:
    """Return whether a component matches one name only."""
    return not any(wildcard in component for wildcard in "*?[")


def matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether a path, as its names, matches the pattern, as its components."""
    name = part = 0
    resume: tuple[int, int] | None = None
    while name < len(names):
        if part < len(pattern) and pattern[part] == "**":
            part += 1
            resume = (name, part)
        elif part < len(pattern) and fnmatch.fnmatchcase(names[name], pattern[part]):
            name += 1
            part += 1
        elif resume is not None:
            resume = (resume[0] + 1, resume[1])
            name, part = resume
        else:
            return False
    return all(rest == "**" for rest in pattern[part:])


def as_find_path(pattern: Sequence[str]) -> str:
    """Return a pattern for find's `-path`, whose `*` also matches slashes: it matches no less."""
    text = "."
    slash = True
    for part in pattern:
        text += "/" if slash else ""
        slash = part != "**"
        text += "*" if part == "**" or "[" in part else part.replace("\\", "?*").replace("?", "?*")
    return text
