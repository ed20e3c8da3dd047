"""Tools by the names that specs give them: ready-made ones, and those of somebody's modules."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from ..engine.agents import Tool, tool
from ..engine.agents import tools as ready_made
from ..engine.agents.tool import tool_table
from .agent_spec import AgentSpecError
from .imported import ImportedError, imported


def ready_made_tools(*, private: bool = False) -> dict[str, Tool]:
    """The tools that come with Interlock, by the name an agent knows them by.

    With `private`, `web_fetch` reaches this machine and its network, too (A-127).
    """
    exported = (getattr(ready_made, name) for name in ready_made.__all__)
    table = tool_table([each for each in exported if hasattr(each, "execute")])
    return {**table, "web_fetch": ready_made.create_web_fetch_tool(private=private)}


def named_tools(
    names: Sequence[str], import_from: Sequence[Path], *, where: str = "tools", private: bool = False
) -> tuple[Tool, ...]:
    """The tools that `names` mean, modules imported with `import_from` first on the path.

    `private` is for `ready_made_tools`.

    Raises `AgentSpecError` with every problem, each beginning with `where` the names are written.
    """
    known = ready_made_tools(private=private)
    problems: list[str] = []
    found: list[Tool] = []
    unknown = [name for name in names if ":" not in name and name not in known]
    if unknown:
        those = ", ".join(known)
        problems.append(
            f"{where}: unknown {', '.join(unknown)}; known: {those}, or package.module:function"
        )
    for name in names:
        if name in known:
            found.append(known[name])
        elif ":" in name:
            try:
                found.append(_imported_tool(name, import_from))
            except ValueError as error:
                problems.append(f"{where}: {error}")
    if problems:
        raise AgentSpecError(problems)
    try:
        return tuple(tool_table(found).values())
    except ValueError as error:
        raise AgentSpecError([f"{where}: {error}"]) from error


def _imported_tool(name: str, import_from: Sequence[Path]) -> Tool:
    thing = imported(name, import_from)
    if all(hasattr(thing, attribute) for attribute in ("name", "description", "parameters", "execute")):
        return cast("Tool", thing)
    if not inspect.isfunction(thing):
        raise ImportedError(
            f"{name}: expected a function or a tool made with @tool, found {type(thing).__name__}"
        )
    try:
        return tool(thing)
    except TypeError as error:
        raise ImportedError(f"{name}: {error}") from error
