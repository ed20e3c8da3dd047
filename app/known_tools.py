"""The tools that exist, as a person names them on the command line: `a,b,c`, or a JSON file."""

from __future__ import annotations

import json
from pathlib import Path

from .setting_paths import is_list, is_table


class ToolsError(ValueError):
    """A list of tools that cannot be read; the message says what was expected."""


def known_tools(given: str) -> list[str]:
    """The names in `a,b,c`, or those of a `.json` file.

    The file holds a list of names or of tool descriptions (`{"name": …}`, `{"function": {"name": …}}`),
    or such a list under `tools`. Raises `ToolsError`.
    """
    if not given.lower().endswith(".json"):
        names = [name.strip() for name in given.split(",")]
        return [name for name in dict.fromkeys(names) if name]
    try:
        found: object = json.loads(Path(given).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ToolsError(f"cannot read the tools in {given}: {reason}") from error
    if is_table(found) and "tools" in found:
        found = found["tools"]
    if not is_list(found):
        raise ToolsError(f'{given} holds no list of tools; write ["bash", "read"]')
    return list(dict.fromkeys(_name(tool, given) for tool in found))


def _name(tool: object, given: str) -> str:
    described = tool
    if is_table(tool):
        inner = tool.get("function")
        described = (inner if is_table(inner) else tool).get("name")
    if not isinstance(described, str) or not described:
        raise ToolsError(f"{given} lists {tool!r:.80}, expected a tool's name or a description with one")
    return described
